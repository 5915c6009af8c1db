#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
// Folds: y = sum or maximum of x, or sum of products a b, over some dimensions. A group of WIDTH
// invocations folds for one y, each every WIDTH-th number, and joins them in a tree. A long fold is
// cut into `parts` by its size alone, of which each is a y of its own. SIZE: x is |x| of bf16 numbers,
// and 0 for an infinity or a NaN.
#ifdef OUT_DOUBLE
#define OUT double
#else
#define OUT float
#endif
#ifdef IN_DOUBLE
#define IN double
#else
#define IN float
#endif
layout(constant_id = 0) const uint WIDTH = 64;  // invocations that share a y
layout(constant_id = 1) const uint ROWS = 1;    // y's of a workgroup
layout(constant_id = 2) const uint HOW = 0;     // 0 sum, 1 max, 2 sum of products
layout(constant_id = 3) const uint EACH = 1;    // numbers that are on their way from memory at once
layout(constant_id = 4) const bool IS_LINE = false;  // one dimension is folded
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(push_constant) uniform Call {
  uint kept[3], folded[3];
  uint first_y, first_a, first_b;
  int y[3], a[3], b[3];      // steps over what is kept,
  int along_a[3], along_b[3];  // and over what is folded
  uint parts, part;          // numbers of a part
  uint y_part;               // from the y of one part to that of the next
} call;
#ifdef SIZE
layout(binding = 0) readonly buffer A_ { uint A[]; };
layout(binding = 1) readonly buffer B_ { uint B[]; };
#include "bf16.glsl"
float size_of(uint bits) {
  const uint size = bits & 0x7FFFu;
  return size < 0x7F80u ? uintBitsToFloat(size << 16) : 0.0;
}
#define READ(X, i) size_of(bits_of_bf16(X[(i) / 2], i))
#else
layout(binding = 0) readonly buffer A_ { IN A[]; };
layout(binding = 1) readonly buffer B_ { IN B[]; };
#define READ(X, i) OUT(X[i])
#endif
layout(binding = 2) writeonly buffer Y_ { OUT Y[]; };

shared OUT joined[WIDTH * ROWS];

uvec3 split(uint i, uint size[3]) {
  return uvec3(i / size[2] / size[1], i / size[2] % size[1], i % size[2]);
}
uvec3 place(uint i) { return IS_LINE ? uvec3(0, 0, i) : split(i, call.folded); }
uint steps(uvec3 at, int s[3]) { return at.x * uint(s[0]) + at.y * uint(s[1]) + at.z * uint(s[2]); }

OUT fold(OUT a, OUT b) {
  if (HOW != 1) return a + b;
  return a > b || isnan(a) ? a : b;  // a NaN wins
}

void main() {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint unit = group * ROWS + gl_LocalInvocationID.y, part = unit % call.parts,
             output_ = unit / call.parts, t = gl_LocalInvocationID.x;
  const bool runs = output_ < call.kept[0] * call.kept[1] * call.kept[2];
  const uvec3 at = split(output_, call.kept);
  const uint first_a = call.first_a + steps(at, call.a), first_b = call.first_b + steps(at, call.b);
  const uint size = call.folded[0] * call.folded[1] * call.folded[2];
  const uint end = runs ? min(size, (part + 1) * call.part) : 0;
  // Numbers are added in short runs, so that the error grows with the root of the length's root.
  const OUT nothing = HOW == 1 ? OUT(uintBitsToFloat(0xFF800000u)) : OUT(0.0);
  OUT all = nothing, some = nothing;
  uint run = 0;
  for (uint i = part * call.part + t; i < end; i += WIDTH * EACH) {
    OUT x[EACH];
    [[unroll]] for (uint e = 0; e < EACH; ++e) {
      x[e] = nothing;
      if (i + e * WIDTH >= end) continue;
      const uvec3 along = place(i + e * WIDTH);
      x[e] = READ(A, first_a + steps(along, call.along_a));
      if (HOW == 2) x[e] *= READ(B, first_b + steps(along, call.along_b));
    }
    [[unroll]] for (uint e = 0; e < EACH; ++e) some = fold(some, x[e]);
    if (++run == 64 / EACH) all = fold(all, some), some = nothing, run = 0;
  }
  all = fold(all, some);
  if (WIDTH > 1) {
    const uint base = gl_LocalInvocationID.y * WIDTH;
    joined[base + t] = all;
    barrier();
    for (uint half_ = WIDTH / 2; half_ > 0; half_ /= 2) {
      if (t < half_) joined[base + t] = fold(joined[base + t], joined[base + t + half_]);
      barrier();
    }
    all = joined[base];
  }
  if (runs && t == 0) Y[call.first_y + steps(at, call.y) + part * call.y_part] = all;
}
