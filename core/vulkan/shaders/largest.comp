#version 450
#extension GL_GOOGLE_include_directive : require
// The largest |x| of bf16 numbers, as bits of f32: their order is that of the numbers. An infinity
// and a NaN do not count.
#define VIEWS 1
#define REST uint slot;
#include "view.glsl"
layout(binding = 0) readonly buffer X_ { uint X[]; };
layout(binding = 1) buffer Largest_ { uint largest[]; };
shared uint part[64];

uint size_of_number(uint i) {
  const uint word = X[i / 2], bits = (i % 2 == 0 ? word << 16 : word) & 0x7FFF0000u;
  return bits < 0x7F800000u ? bits : 0u;
}

void main() {
  const uint t = gl_LocalInvocationIndex;
  part[t] = invocation() < count() ? size_of_number(element(0, coordinates(invocation()))) : 0u;
  barrier();
  for (uint half_ = 32; half_ > 0; half_ /= 2) {
    if (t < half_) part[t] = max(part[t], part[t + half_]);
    barrier();
  }
  if (t == 0) atomicMax(largest[call.slot], part[0]);
}
