// The index page: every operation on tensors. Each is differentiable to any order.
//
// Broadcasting is said aloud: + - * / take equal shapes or a number; anything else names its
// dimensions in a pattern. Patterns are checked when the program compiles (core/pattern.hpp).
#pragma once
#include <concepts>
#include <utility>

#include "core/fused.hpp"
#include "core/graph.hpp"
#include "core/pattern.hpp"
#include "core/random.hpp"

namespace tete {

// ---- Elementwise: one row each in elementwise.def --------------------------------------------
#define UNARY(name, value, gradient, low, high) Tensor name(const Tensor& x);
// Equal shapes. With a pattern, dimensions are aligned by name: add("b n d, d", X, bias).
#define BINARY(name, value, gradient_a, gradient_b, low, high) \
  Tensor name(const Tensor& a, const Tensor& b);               \
  Tensor name(const PatternOf<2>& pattern, const Tensor& a, const Tensor& b);
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
Tensor unary(Unary op, const Tensor& x);
Tensor binary(Binary op, const Tensor& a, const Tensor& b);
// op(a + b) in one pass: unary_of_sum(Unary::gelu, "b n d, d", X, bias). The sum is not kept.
Tensor unary_of_sum(Unary op, const PatternOf<2>& pattern, const Tensor& a, const Tensor& b);
Tensor unary_of_sum(Unary op, const Tensor& a, const Tensor& b);  // of one shape
// c != 0 ? a : b, elementwise; equal shapes. No gradient for c.
Tensor select(const Tensor& c, const Tensor& a, const Tensor& b);
// Pairs along `axis`, which has size 2, turned by an angle each: x_0 cosine - x_1 sine and x_0 sine
// + x_1 cosine. cosine and sine have x's shape without `axis`; no gradient for them.
Tensor turn(const Tensor& x, int axis, const Tensor& cosine, const Tensor& sine);

Tensor operator-(const Tensor& x);
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);

// ---- Contraction -----------------------------------------------------------------------------
// The precision of products of f32 matrices: full, or of operands rounded to bfloat16 with sums in
// f32. In bf16 the gradient is that of the rounded operands, and the cotangent is rounded, too. An
// operand that only gradients of products read again is saved as bf16, in half the memory. Other
// contractions, and all of f64, are in full.
enum class Products : uint8_t { full, bf16 };

// einsum("b n d_X, d_X d_k h -> b n d_k h", X, P_q): any number of operands, summed over every
// name that is not in the result, in the cheapest pairwise order (core/plan.hpp). Beyond that, as
// in NumPy: a name twice in one operand takes the diagonal; '...' stands for any dimensions, the
// same in every operand, aligned at the right; without '->' the result is '...' and then the names
// that occur once, in alphabetical order. "(h d)" splits or merges a dimension. Sizes of one name
// must be equal: a dimension of size 1 is not repeated silently.
struct EinsumOptions {
  size_t memory_limit = SIZE_MAX;      // bytes of the largest intermediate result; else an error
  Products products = Products::full;  // in its matrix products and its gradients'
  // True: the result is its place in the graph, without storage; its numbers are not computed.
  bool only_graph = false;
};
Tensor einsum(const Pattern& pattern, const Tensors& operands, const EinsumOptions& options = {});
// The multiplications of one loop over every name at once, which is what planning saves.
double naive_multiplies(const Pattern& pattern, const Tensors& operands);
template <std::same_as<Tensor>... Operands>
Tensor einsum(const EinsumPattern<sizeof...(Operands)>& pattern, const Operands&... operands) {
  return einsum(static_cast<const Pattern&>(pattern), Tensors{operands...});
}
template <std::same_as<Tensor>... Operands>
Tensor einsum(const EinsumPattern<sizeof...(Operands)>& pattern, const EinsumOptions& options,
              const Operands&... operands) {
  return einsum(static_cast<const Pattern&>(pattern), Tensors{operands...}, options);
}
// y = Σ A·B over the labels that y lacks. `layout`, if given, is the memory order of y's dimensions
// (labels, outermost first); it changes no value.
Tensor contract(const Tensor& A, const Labels& a, const Tensor& B, const Labels& b, const Labels& y,
                const Labels& layout = {}, const EinsumOptions& options = {});
// The same for any number of operands, planned; labels are smaller than max_names.
struct Operand {
  Tensor value;
  Labels labels;
};
Tensor contract_all(const std::vector<Operand>& operands, const Labels& y,
                    const Labels& layout = {}, const EinsumOptions& options = {});

// ---- Reductions: over the marked dimensions, sum("b n [m] h", W) -----------------------------
// Over no elements the sum is 0, the mean NaN, maximum and logsumexp -inf. A NaN wins a maximum.
Tensor sum(const PatternOf<1>& pattern, const Tensor& x);
Tensor mean(const PatternOf<1>& pattern, const Tensor& x);
Tensor max(const PatternOf<1>& pattern, const Tensor& x);        // ties share the gradient equally
Tensor logsumexp(const PatternOf<1>& pattern, const Tensor& x);  // log Σ exp x
using Axes = Short<int>;
Tensor sum(const Tensor& x, const Axes& axes, bool keep = false);  // keep: size 1 stays
Tensor mean(const Tensor& x, const Axes& axes, bool keep = false);
Tensor max(const Tensor& x, const Axes& axes, bool keep = false);
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keep = false);
Tensor sum(const Tensor& x);  // the sum of every element
Tensor mean(const Tensor& x);

// ---- Softmax (core/softmax.cpp) --------------------------------------------------------------
// Over the marked dimension; mask: 1 = may attend, 0 = hidden, dimensions by name. A row that is
// hidden everywhere gives zeros and finite gradients.
Tensor softmax(const PatternOf<1>& pattern, const Tensor& x);
Tensor softmax(const PatternOf<2>& pattern, const Tensor& x, const Tensor& mask);
Tensor softmax(const Tensor& x, int axis);
Tensor softmax(const Tensor& x, int axis, const Tensor& mask);  // mask broadcast to x's shape
// Talking heads (Shazeer, Lan, Cheng, Ding, Hou 2020, section 4) in one pass: the softmax over the
// last dimension of x[…, g, m] · before[g, h], and, if `after` is given, that · after[h, k]. `mask`
// as above, broadcast to [..., h, m].
Tensor mixed_softmax(const Tensor& x, const Tensor& before, const Tensor& mask = {},
                     const Tensor& after = {});
// More than any length, and small enough to be added to one.
inline constexpr Index shows_all = Index{1} << 40;
// Scaled dot-product attention without the scale (Vaswani et al. 2017, section 3.2.1), in memory
// linear in the lengths: softmax over m of q[…, n, c] k[…, m, c], times v[…, m, e]; [..., n, e], in
// v's memory order. Row n sees the first shown + n rows of k and v, all of them if that is more;
// `mask` hides others, as above, broadcast to [..., n, m]. `bias` is added to the logits (after
// `before`), broadcast likewise (relative positions: Raffel et al. 2020, section 2.1); it has q's
// type and number of dimensions, and a gradient, for which a bias of all samples may take the
// memory of all logits if these have fewer than 8 matrices a sample. The last two dimensions of a
// mask or a bias by distance are one: that of row n and position m is at m - n + rows of q - 1.
//
// Talking heads: before[h_k, h] mixes the logits of q's and k's heads, their third dimension from
// the end, and after[h, h_v] the weights, to v's heads. Either may be missing.
// Fails (input) unless the shapes fit and the types are one.
struct AttendOptions {
  Tensor mask = {};
  Index shown = shows_all;
  Tensor before = {}, after = {}, bias = {};
  bool mask_by_distance = false, bias_by_distance = false;
};
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttendOptions& how = {});
Tensor log_softmax(const Tensor& x, int axis);
Tensor log_softmax(const Tensor& x, int axis, const Tensor& mask);  // hidden: 0, no gradient

// ---- Normalisation over the last dimension (core/normalize.cpp) ------------------------------
inline constexpr double norm_epsilon = 1e-6;
// scale · (x - μ)/√(σ² + ε) + bias, biased variance. scale[d], bias[d].
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias,
                  double epsilon = norm_epsilon);
// scale · x/√(mean x² + ε).
Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon = norm_epsilon);
// x + r and its norm, in one pass; values and gradients are those of the two operations. The norm
// is recorded when it is asked for, once: gradients are summed in the order of records. vectors:
// scale and, for layer norm, bias.
struct SumWithNorm {
  Tensor sum;
  std::function<Tensor()> norm;
};
SumWithNorm sum_with_norm(const Tensor& x, const Tensor& r, const Tensors& vectors,
                          double epsilon = norm_epsilon);

// ---- Layout: views wherever strides can express them (core/layout.cpp) -----------------------
// rearrange("b n (h d) -> b h n d", x, {{"h", 8}}): permute, split and merge. All sizes but one of
// a split's parts must be given.
Tensor rearrange(const PatternOf<1>& pattern, const Tensor& x,
                 std::initializer_list<std::pair<std::string_view, Index>> sizes = {});
Axes all_axes(int rank);  // 0, 1, … rank-1
Axes inverse(const Axes& order);
Tensor permute(const Tensor& x, const Axes& order);     // y's dimension i is x's order[i]
Tensor reshape(const Tensor& x, const Shape& shape);    // same elements, row-major order
Tensor broadcast(const Tensor& x, const Shape& shape);  // size 1 to any size; same rank
Tensor expand(const Tensor& x, const Axes& at, const Shape& shape);  // new dimensions at `at`
// x's dimensions, named by `labels`, in the order of `result`; those that it lacks are broadcast.
Tensor aligned(const Tensor& x, const Labels& labels, const Labels& result, const Sizes& sizes);
Tensor slice(const Tensor& x, int axis, Index start, Index count, Index step = 1);
Tensor row_of(const Tensor& x, int axis, Index i);  // row i of dimension `axis`, without it
// The elements whose coordinates on the given dimensions are equal; they become one dimension, the
// first of them. Its transpose puts x on the diagonal of zeros.
Tensor diagonal(const Tensor& x, const Axes& axes);
Tensor on_diagonal(const Tensor& x, const Axes& axes);             // axes of the result
Tensor pad(const Tensor& x, int axis, Index before, Index after);  // with zeros
Tensor concat(const Tensors& parts, int axis);
// The same values, dense in the given memory order (outermost first).
Tensor with_layout(const Tensor& x, const Short<int>& order);
// Puts x at start, start + step, … of a longer dimension of zeros: the transpose of slice.
Tensor place(const Tensor& x, int axis, Index start, Index step, Index size);
// Windows of `width` elements, one every `step`: dimension `axis` becomes two, [count, width], with
// y[…, o, t, …] = x[…, o·step + t, …] and count = (size - width) / step + 1. A view.
Tensor windows(const Tensor& x, int axis, Index width, Index step = 1);
// Its transpose: dimensions `axis` (windows) and `axis` + 1 (their elements) become one of `size`,
// in which elements of the same place are summed.
Tensor overlap_add(const Tensor& x, int axis, Index step, Index size);

// ---- Index: dimensions read or written at positions that a tensor holds (core/index.cpp) -----
// gather("[v] d, b n -> b n d", table, ids): the marked dimension of the first operand is read at
// the position given by the second (i64). Names that both have are aligned. A position out of
// range is an error with both numbers.
Tensor gather(const PatternOf<2>& pattern, const Tensor& table, const Tensor& index);
// scatter("b n d, b n -> [v] d", values, ids, size): its transpose; entries of equal index add up.
Tensor scatter(const PatternOf<2>& pattern, const Tensor& values, const Tensor& index, Index size);
// Positions (i64) of the `count` largest along `axis`, the largest first; equal ones keep their
// order, and a NaN is larger than any number.
Tensor top_k(const Tensor& x, int axis, Index count);
Tensor one_hot(const Tensor& index, Index size, Dtype dtype);               // a new last dimension
Tensor arange(Index count, Dtype dtype = Dtype::i64, Backend& on = cpu());  // 0, 1, … count-1

// ---- Loss (core/cross_entropy.cpp) -----------------------------------------------------------
// -log softmax(logits)[target] for every row; logits[t, v], targets[t] (i64) -> [t].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

// ---- Types -----------------------------------------------------------------------------------
// A number that i64 does not hold, and a NaN, becomes the smallest i64. To bf16: Tensor::rounded.
Tensor cast(const Tensor& x, Dtype dtype);

}  // namespace tete
