// attend: y = w v, where w = softmax(q kᵀ + b) over the memory, row by row; heads may be mixed
// before b is added and after the softmax. Logits and weights are not stored; the gradient computes
// them again from two numbers of each row and, for a long memory, y (Dao, Fu, Ermon, Rudra, Ré
// 2022, "FlashAttention", section 3.1).
#include <algorithm>
#include <optional>

#include "core/memory_parts.hpp"
#include "core/mix.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

// The labels of x's dimensions: those before the last two, and these two.
Labels labels(const Tensor& x, int row, int column) {
  Labels all;
  for (int d = 0; d + 2 < x.rank(); ++d) all.push_back(static_cast<Label>(d));
  for (int last : {row, column}) all.push_back(static_cast<Label>(x.rank() + last));
  return all;
}

// 1 where a row of the logits sees the position.
Tensor shown_to_rows(const Tensor& logits, Index shown) {
  const int rows = logits.rank() - 2, memory = rows + 1;
  const auto along = [&](int axis, double from) {
    Axes others = all_axes(logits.rank());
    others.erase(axis);
    return expand(arange(logits.size(axis), logits.dtype(), logits.backend()) + from, others,
                  logits.shape());
  };
  return less(along(memory, 0), along(rows, static_cast<double>(shown)));
}

// The operation's inputs by their numbers.
enum Input { q_in, k_in, v_in, before_in, after_in, bias_in, mask_in };

// The operation's numbers.
struct Call {
  Index shown;
  bool bias_by_distance;
};

// A bias by distance, copied for each row and position by operations that have gradients.
Tensor copied_to_rows(const Tensor& bias, Index rows, Index positions) {
  const int last = bias.rank() - 1;
  Shape shape = bias.shape();
  shape.back() = rows, shape.push_back(positions);
  Tensors all{slice(bias, last, 0, 0)};
  for (Index n = 0; n < rows; ++n) all.push_back(slice(bias, last, rows - 1 - n, positions));
  return reshape(concat(all, last), shape);
}

// The same rows of a mask or a bias as a view: each begins one number before the last one.
Tensor rows_of(const Tensor& x, Index rows, Index positions) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const Index step = strides.back();
  shape.back() = rows, shape.push_back(positions);
  strides.back() = -step, strides.push_back(step);
  return x.window(shape, strides, std::max<Index>(0, rows - 1) * step);
}

// The bias for each row and position.
Tensor bias_of_pairs(const Tensors& in, const Call& call) {
  const Tensor &q = in[q_in], &k = in[k_in];
  return call.bias_by_distance ? rows_of(in[bias_in], q.size(q.rank() - 2), k.size(k.rank() - 2))
                               : in[bias_in];
}

Tensor meaning(const Tensors& in, const Call& call) {
  enum { n, m, c, e };
  const Tensor &q = in[q_in], &k = in[k_in], &v = in[v_in];
  const Labels all = labels(q, n, m), result = labels(v, n, e);
  const int heads = q.rank() - 3;
  const Tensor products = contract(q, labels(q, n, c), k, labels(k, m, c), all, all),
               mixes = mixed(products, heads, in[before_in]),
               bias = call.bias_by_distance
                          ? copied_to_rows(in[bias_in], q.size(q.rank() - 2), k.size(k.rank() - 2))
                          : in[bias_in],
               logits = bias ? mixes + broadcast(bias, mixes.shape()) : mixes;
  Tensor mask = in[mask_in];
  if (call.shown < k.size(k.rank() - 2)) {
    const Tensor seen = shown_to_rows(logits, call.shown);
    // A product would make NaN of an infinite mask.
    mask =
        mask ? select(seen, mask, Tensor::zeros(mask.shape(), mask.dtype(), mask.backend())) : seen;
  }
  const int axis = logits.rank() - 1;
  const Tensor weights =
      mixed(mask ? softmax(logits, axis, mask) : softmax(logits, axis), heads, in[after_in]);
  Labels layout;
  for (int d : memory_order(v.shape(), v.strides())) layout.push_back(result[d]);
  return contract(weights, all, v, labels(v, m, e), result, layout);
}

// The shape of the logits, after `before`.
Shape pairs(const Tensor& q, const Tensor& k, const Tensor& before) {
  Shape shape = q.shape();
  shape.back() = k.size(k.rank() - 2);
  if (before) shape[q.rank() - 3] = before.size(1);
  return shape;
}

// A view of the bias for all matrices; it has stride 0 where samples share it. first: the size of
// the logits' first dimension.
View bias_of_all(const Tensor& bias, Index first) {
  View view = view_of(bias);
  if (bias && view.shape[0] != first) view.shape[0] = first, view.strides[0] = 0;
  return view;
}

// True if the gradient reads the result: it takes a long memory in parts, and then a row's Σ w dw
// is g·y (Dao et al. 2022, appendix B.2). Mixes need all of a row at once.
bool needs_result(const Tensors& in) {
  const Index positions = in[k_in].size(in[k_in].rank() - 2);
  return !in[before_in] && !in[after_in] && memory_parts(positions) > 1;
}

FusedValue value(const Tensors& in, const Call& call) {
  const Tensor &q = in[q_in], &v = in[v_in], &before = in[before_in], &after = in[after_in],
               bias = bias_of_pairs(in, call);
  Shape two = pairs(q, in[k_in], before);
  two.back() = 2;
  const Tensor y = resized_like(v, v.rank() - 2, q.size(q.rank() - 2)),
               stats = Tensor::empty(two, v.dtype(), v.backend());
  const View k = in[k_in].view(), b = bias_of_all(bias, stats.size(0)), mask = view_of(in[mask_in]);
  const bool done = v.backend().attend(q.view(), k, v.view(), view_of(before), view_of(after), b,
                                       mask, call.shown, y.view(), stats.view());
  return done ? FusedValue{y, {stats}} : FusedValue{};
}

// Sums what all rows and positions of one distance have.
Tensor summed_by_distance(const Tensor& g, const Shape& shape) {
  const int row = g.rank() - 2;
  const Tensor all = Tensor::zeros(shape, g.dtype(), g.backend()),
               diagonals = rows_of(all, g.size(row), g.size(row + 1));
  for (Index n = 0; n < g.size(row); ++n)
    add_onto(slice(g, row, n, 1), slice(diagonals, row, n, 1));
  return all;
}

// The gradient of a bias, and a view of it, to which kernels add rows one after another, so that
// these may overlap; but those of mixed heads several at a time, so these get memory of their own.
struct BiasGradient {
  Tensor sums, pairs;

  BiasGradient(const Tensors& in, const Call& call) {
    const Tensor &bias = in[bias_in], of_pairs = bias_of_pairs(in, call);
    const bool is_apart = in[before_in] || in[after_in];
    sums = Tensor::zeros(is_apart ? of_pairs.shape() : bias.shape(), bias.dtype(), bias.backend());
    const int row = of_pairs.rank() - 2;
    pairs = call.bias_by_distance && !is_apart
                ? rows_of(sums, of_pairs.size(row), of_pairs.size(row + 1))
                : sums;
    shape = bias.shape();
  }
  Tensor finished() const { return sums.shape() == shape ? sums : summed_by_distance(sums, shape); }

 private:
  Shape shape;
};

Tensors gradient(const Backward& at, const Call& call) {
  const Tensor &q = at.in[q_in], &before = at.in[before_in];
  const View k = at.in[k_in].view(), v = at.in[v_in].view(), mask = view_of(at.in[mask_in]),
             stats = at.kept[0].view(), g = at.g.view(),
             y = needs_result(at.in) ? at.y.view() : View{};
  Tensors made(at.in.size());
  for (const size_t i : {q_in, k_in, v_in, before_in, after_in})
    if (at.in[i] && at.wants(i)) made[i] = Tensor::empty_like(at.in[i]);
  std::optional<BiasGradient> changes;
  if (at.in[bias_in] && at.wants(bias_in)) changes.emplace(at.in, call);
  const Index first = at.kept[0].size(0);
  const View dq = view_of(made[q_in]), dk = view_of(made[k_in]), dv = view_of(made[v_in]),
             b = bias_of_all(bias_of_pairs(at.in, call), first),
             db = bias_of_all(changes ? changes->pairs : Tensor(), first);
  q.backend().attend_gradient(q.view(), k, v, view_of(before), view_of(at.in[after_in]), b, mask,
                              call.shown, y, stats, g, dq, dk, dv, db, view_of(made[before_in]),
                              view_of(made[after_in]));
  if (changes) made[bias_in] = changes->finished();
  return made;
}

Shape without_last(const Tensor& x, int dimensions) {
  Shape shape = x.shape();
  while (dimensions-- > 0 && !shape.empty()) shape.pop_back();
  return shape;
}

// Fails unless the shapes fit, those of the mixes, too.
void check(const Tensor& q, const Tensor& k, const Tensor& v, const AttendOptions& how) {
  const bool mixes = how.before || how.after;
  const int own = mixes ? 3 : 2;
  const bool fit =
      q.rank() >= own && is_real(q.dtype()) && k.dtype() == q.dtype() && v.dtype() == q.dtype() &&
      k.rank() == q.rank() && v.rank() == q.rank() &&
      without_last(k, own) == without_last(v, own) && without_last(q, 2) == without_last(k, 2) &&
      q.shape().back() == k.shape().back() && k.size(k.rank() - 2) == v.size(v.rank() - 2);
  if (!fit)
    bad_input("attend: expected ",
              mixes ? "q[…, h_k, n, c], k[…, h_k, m, c] and v[…, h_v, m, e]"
                    : "q[…, n, c], k[…, m, c] and v[…, m, e]",
              " of one real type, got ", describe(q.dtype(), q.shape()), ", ",
              describe(k.dtype(), k.shape()), " and ", describe(v.dtype(), v.shape()));
  if (!mixes) return;
  const int at = q.rank() - 3;
  const Index heads = mixed_heads("attend", q.dtype(), q.size(at), {how.before, how.after});
  if (v.size(at) != heads)
    bad_input("attend: expected v of ", heads, " heads, as they are mixed, got ",
              describe(v.dtype(), v.shape()));
}
// Fails unless the bias has q's type and rank, one less if it is by distance; and what is by
// distance a number for each.
void check_beside(const Tensor& q, const Tensor& k, const AttendOptions& how) {
  const Index rows = q.size(q.rank() - 2),
              distances = std::max<Index>(0, rows + k.size(k.rank() - 2) - 1);
  const auto has_distances = [&](const Tensor& x) {
    return x && x.rank() > 0 && x.shape().back() == distances;
  };
  const auto is = [](const Tensor& x) { return x ? describe(x.dtype(), x.shape()) : "none"; };
  if (how.mask_by_distance && !has_distances(how.mask))
    bad_input("attend: expected a mask[…, ", distances, "] by the distances of ", rows,
              " rows, got ", is(how.mask));
  if (!how.bias && !how.bias_by_distance) return;
  const int rank = q.rank() - (how.bias_by_distance ? 1 : 0);
  if (how.bias && how.bias.dtype() == q.dtype() && how.bias.rank() == rank &&
      (!how.bias_by_distance || has_distances(how.bias)))
    return;
  bad_input("attend: expected a bias[…, ", how.bias_by_distance ? text(distances) : "n, m", "] of ",
            counted(rank, "dimension"), " and of the type of q, ", describe(q.dtype(), q.shape()),
            ", got ", is(how.bias));
}

// x with a last dimension of stride 1.
Tensor in_rows(const Tensor& x) {
  const int last = x.rank() - 1;
  if (x.strides()[last] == 1 || x.size(last) == 1) return x;
  Short<int> order = memory_order(x.shape(), x.strides());
  order.erase(order.find(last)), order.push_back(last);
  return with_layout(x, order);
}

// The bias in dense rows, broadcast to the logits' shape. Where all samples have the same it stays
// one, as kernels copy and read less, and samples one after another add to its gradient; but if a
// sample has few matrices, these would be too few for the threads. Sizes alone decide, for the
// bits.
Tensor fitted(const AttendOptions& how, Shape shape) {
  constexpr Index many = 8;  // heads that are mixed are shared among threads in other ways
  const Tensor& bias = how.bias;
  if (!bias) return {};
  const bool mixes = how.before || how.after;
  Index matrices = 1;
  for (int d = 1; d + 2 < shape.size(); ++d) matrices *= shape[d];
  const bool has_samples = shape.size() > (mixes ? 3 : 2);
  if (has_samples && bias.size(0) == 1 && (mixes || matrices >= many)) shape[0] = 1;
  if (how.bias_by_distance) {
    shape.pop_back();
    shape.back() = bias.shape().back();
  }
  return broadcast(in_rows(bias), shape);
}

}  // namespace

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttendOptions& how) {
  check(q, k, v, how);
  check_beside(q, k, how);
  const Call call{how.shown, how.bias_by_distance};
  const Shape shape = pairs(q, k, how.before);
  Tensor mask = how.mask ? cast(how.mask.detach(), q.dtype()) : Tensor();
  if (how.mask_by_distance)
    mask = rows_of(in_rows(mask), q.size(q.rank() - 2), k.size(k.rank() - 2));
  if (mask) mask = broadcast(mask, shape);
  const Tensors in{q, k, v, how.before, how.after, fitted(how, shape), mask};
  const Fused op{"attend", [=](const Tensors& in) { return value(in, call); },
                 [=](const Backward& at) { return gradient(at, call); },
                 [=](const Tensors& in) { return meaning(in, call); },
                 needs_result(in) ? saves_all : saves_inputs};
  return fused(op, in);
}

}  // namespace tete
