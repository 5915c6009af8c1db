#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
// softmax(x P) R where the mask is not 0, or without R if nothing is MIXED afterwards: an
// invocation has all heads of its keys in registers. And its gradient: of w = softmax(x P), given g,
// dl = w (d - sum w d) for d = g R^T, and dx = dl P^T.
#include "numbers.glsl"
#define VIEWS 4
#define REST int from_head[VIEWS]; uint p_first; int p[2]; uint r_first; int r[2];
#include "rows.glsl"
layout(constant_id = 3) const bool MASKED = false;
layout(constant_id = 4) const bool GRADIENT = false;
layout(constant_id = 5) const bool KEEPS = false;  // w is written, too
layout(constant_id = 6) const bool MIXED = false;
layout(constant_id = 7) const uint IN = 1;  // heads of x, w and y
layout(constant_id = 8) const uint HEADS = 1;
layout(constant_id = 9) const uint OUT = 1;
layout(binding = 0) readonly buffer A_ { REAL A[]; };   // x, or w
layout(binding = 1) readonly buffer B_ { REAL B[]; };   // mask, or g
layout(binding = 2) writeonly buffer C_ { REAL C[]; };  // w, or dl
layout(binding = 3) writeonly buffer D_ { REAL D[]; };  // y, or dx
layout(binding = 4) readonly buffer P_ { REAL P[]; };
layout(binding = 5) readonly buffer R_ { REAL R[]; };

// FROM counts the heads of what is mixed first (x or g), TO those of the result. The heads between are read in
// fours: ALL counts what fills the last four, too, which is seen nowhere.
const uint QUADS = (HEADS + 3) / 4, ALL = 4 * QUADS;
const uint FROM = GRADIENT ? OUT : IN, TO = GRADIENT ? IN : OUT;
const bool MIXES_FIRST = MIXED || !GRADIENT, MIXES_LAST = MIXED || GRADIENT;
// Sixteen numbers are read at once, of so many heads; one on emulations, which compile more for long.
const uint MOST = WIDTH < 32 || KEPT > 16 ? 1 : 16 / KEPT, STEP = FROM < MOST ? FROM : MOST;
const uint LINES = (FROM + STEP - 1) / STEP * STEP;
shared vec4 earlier[LINES * QUADS], later[TO * QUADS];  // a line has one element for each between
shared REAL folded[(WIDTH + 3) / 4 * ALL];              // a subgroup has four invocations or more
shared uint folded_shown[(WIDTH + 3) / 4];
shared REAL top[ALL], sum[ALL];

REAL now[KEPT * ALL], w[KEPT * ALL];  // logits, weights, or their gradients; weights for these
uint seen[KEPT];                      // a bit for each head
uint shown = 0;                       // heads for which a key was seen
REAL own[ALL];                        // maxima, or sums, of an invocation's keys

#define EACH_HEAD [[unroll]] for (uint h = 0; h < ALL; ++h)
#define EACH_QUAD [[unroll]] for (uint q = 0; q < QUADS; ++q)
#define KEPT_HEADS KEPT_NUMBERS [[unroll]] for (uint h = 0, at = k * ALL; h < ALL; ++h, ++at)
bool sees(uint k, uint h) { return (seen[k] >> h & 1) != 0; }
uint place_of_head(uint v, uint row, uint i, uint head) {
  return at(v, row, i) + head * uint(call.from_head[v]);
}

REAL element(bool of_p, uint line, uint h) {
  if (of_p) return P[call.p_first + line * uint(call.p[0]) + h * uint(call.p[1])];
  return R[call.r_first + h * uint(call.r[0]) + line * uint(call.r[1])];
}
void load_matrices() {
  for (uint i = gl_LocalInvocationIndex; MIXES_FIRST && i < LINES * ALL; i += WIDTH) {
    const bool is_there = i / ALL < FROM && i % ALL < HEADS;
    earlier[i / 4][i % 4] = is_there ? element(!GRADIENT, i / ALL, i % ALL) : 0.0;
  }
  for (uint i = gl_LocalInvocationIndex; MIXES_LAST && i < TO * ALL; i += WIDTH)
    later[i / 4][i % 4] = i % ALL < HEADS ? element(GRADIENT, i / ALL, i % ALL) : 0.0;
  barrier();
}

REAL given(uint row, uint i, uint head) {
  if (i >= call.n || head >= FROM) return 0.0;
  return GRADIENT ? B[place_of_head(1, row, i, head)] : A[place_of_head(0, row, i, head)];
}
void mix_first(uint row, uint block) {
  KEPT_HEADS now[at] = MIXES_FIRST ? 0.0 : given(row, place(block, k), h);
  for (uint line = 0; MIXES_FIRST && line < FROM; line += STEP) {
    REAL x[KEPT * STEP];
    KEPT_NUMBERS [[unroll]] for (uint i = 0; i < STEP; ++i)
      x[k * STEP + i] = given(row, place(block, k), line + i);
    [[unroll]] for (uint i = 0; i < STEP; ++i) EACH_QUAD {
      const vec4 m = earlier[(line + i) * QUADS + q];
      KEPT_NUMBERS [[unroll]] for (uint j = 0; j < 4; ++j)
        now[k * ALL + 4 * q + j] += x[k * STEP + i] * m[j];
    }
  }
  KEPT_NUMBERS seen[k] = place(block, k) < call.n ? 0xFFFFFFFFu >> (32 - HEADS) : 0;
  if (MASKED) KEPT_HEADS
    if (sees(k, h) && B[place_of_head(1, row, place(block, k), h)] == 0.0) seen[k] &= ~(1u << h);
}
void write(bool is_last, uint row, uint i, uint head, REAL y) {
  if (i >= call.n) return;
  if (is_last) D[place_of_head(3, row, i, head)] = y;
  else C[place_of_head(2, row, i, head)] = y;
}
void write_all(bool is_last, uint row, uint block) {
  KEPT_HEADS if (h < HEADS) write(is_last, row, place(block, k), h, now[at]);
}
void mix_last(uint row, uint block) {
  for (uint line = 0; line < TO; ++line) {
    REAL y[KEPT];
    KEPT_NUMBERS y[k] = 0.0;
    EACH_QUAD {
      const vec4 m = later[line * QUADS + q];
      KEPT_NUMBERS [[unroll]] for (uint j = 0; j < 4; ++j) y[k] += now[k * ALL + 4 * q + j] * m[j];
    }
    KEPT_NUMBERS write(true, row, place(block, k), line, y[k]);
  }
}

// Folds all heads' own at once, first those of a subgroup, and makes them top or sum.
void fold_heads(bool adds) {
  EACH_HEAD {
    REAL x;
    if (adds) x = subgroupAdd(own[h]);
    else x = subgroupMax(own[h]);
    if (subgroupElect()) folded[gl_SubgroupID * ALL + h] = x;
  }
  const uint of_subgroup = subgroupOr(shown);
  if (subgroupElect()) folded_shown[gl_SubgroupID] = of_subgroup;
  barrier();
  for (uint h = gl_LocalInvocationIndex; h < ALL; h += WIDTH) {
    REAL x = folded[h];
    uint all = folded_shown[0];
    for (uint s = 1; s < gl_NumSubgroups; ++s) {
      x = join(adds, x, folded[s * ALL + h]);
      all |= folded_shown[s];
    }
    if (adds) sum[h] = x;
    else top[h] = (all >> h & 1) == 0 ? 0.0 : x;
  }
  barrier();
}

void find_exponentials() { KEPT_HEADS now[at] = sees(k, h) ? exp(now[at] - top[h]) : 0.0; }

void find_values(uint row) {
  EACH_HEAD own[h] = -infinity;
  BLOCKS {
    mix_first(row, block);
    KEPT_HEADS own[h] = sees(k, h) ? max(own[h], now[at]) : own[h];
    KEPT_NUMBERS shown |= seen[k];
  }
  fold_heads(false);
  EACH_HEAD own[h] = 0.0;
  BLOCKS {
    if (!WHOLE) mix_first(row, block);
    find_exponentials();
    KEPT_HEADS own[h] += now[at];
  }
  fold_heads(true);
  EACH_HEAD own[h] = sum[h] == 0.0 ? 1.0 : 1.0 / sum[h];
  BLOCKS {
    if (!WHOLE) mix_first(row, block), find_exponentials();
    KEPT_HEADS now[at] *= own[h];
    if (KEEPS) write_all(false, row, block);
    if (MIXED) mix_last(row, block);
    else write_all(true, row, block);
  }
}

void load_weights(uint row, uint block) {
  KEPT_HEADS w[at] = sees(k, h) ? A[place_of_head(0, row, place(block, k), h)] : 0.0;
}
void find_gradients(uint row) {
  EACH_HEAD own[h] = 0.0;
  BLOCKS {
    mix_first(row, block), load_weights(row, block);
    KEPT_HEADS own[h] += sees(k, h) ? w[at] * now[at] : 0.0;
  }
  fold_heads(true);
  BLOCKS {
    if (!WHOLE) mix_first(row, block);
    load_weights(row, block);  // a cache has them, and registers are few
    KEPT_HEADS now[at] = sees(k, h) ? w[at] * (now[at] - sum[h]) : 0.0;
    write_all(false, row, block);
    mix_last(row, block);
  }
}

void main() {
  const uint row = row_number();
  if (!is_row(row)) return;
  load_matrices();
  if (GRADIENT) find_gradients(row);
  else find_values(row);
}
