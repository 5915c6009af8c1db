#version 450
#extension GL_GOOGLE_include_directive : require
// Uniform numbers, and dropout by them: Philox 4x32-10, the bits of core/philox.hpp. Element i has
// counter first + i.
#ifdef DOUBLE
#define REAL double
#else
#define REAL float
#endif
#define VIEWS 2
#define REST uvec2 key; uvec2 first; REAL least; REAL scale;
#include "view.glsl"
layout(constant_id = 3) const bool DROPS = false;
layout(binding = 0) readonly buffer X_ { REAL X[]; };
layout(binding = 1) writeonly buffer Y_ { REAL Y[]; };

uvec4 philox(uvec2 key, uvec2 counter) {
  uvec4 c = uvec4(counter, 0, 0);
  for (int round = 0; round < 10; ++round) {
    uint high0, low0, high2, low2;
    umulExtended(0xD2511F53u, c.x, high0, low0);
    umulExtended(0xCD9E8D57u, c.z, high2, low2);
    c = uvec4(high2 ^ c.y ^ key.x, low2, high0 ^ c.w ^ key.y, low0);
    key += uvec2(0x9E3779B9u, 0xBB67AE85u);  // the golden ratio, sqrt 3 - 1
  }
  return c;
}
REAL uniform_of(uvec4 words) {
#ifdef DOUBLE
  return (double(words.x) * 2097152.0 + double(words.y >> 11)) * 1.1102230246251565404e-16lf;
#else
  return float(words.x >> 8) * 5.9604644775390625e-8;
#endif
}

void main() {
  const uint i = invocation();
  if (i >= count()) return;
  uint carry;
  uvec2 counter;
  counter.x = uaddCarry(call.first.x, i, carry);
  counter.y = call.first.y + carry;
  const REAL noise = uniform_of(philox(call.key, counter));
  const uvec4 at = coordinates(i);
  const uint y = element(1, at);
  if (!DROPS) Y[y] = noise;
  else Y[y] = noise >= call.least ? X[element(0, at)] * call.scale : REAL(0.0);
}
