#version 450
#extension GL_GOOGLE_include_directive : require
// The number of the first element of I (i64) that is outside 0 ... size - 1, into a slot.
#define VIEWS 1
#define REST uint size_along; uint before, slot;
#include "view.glsl"
layout(binding = 0) readonly buffer I_ { uint I[]; };
layout(binding = 1) buffer S_ { uint slots[]; };

void main() {
  const uint i = invocation();
  if (i >= count()) return;
  const uint at = 2 * element(0, coordinates(i));
  if (I[at + 1] != 0 || I[at] >= call.size_along) atomicMin(slots[call.slot], call.before + i);
}
