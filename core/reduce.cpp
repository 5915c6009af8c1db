// Reductions over marked dimensions: sum, mean, max, logsumexp.
#include "core/ops.hpp"

namespace tete {

namespace {

Shape reduced_shape(const Shape& shape, const Axes& axes, bool keep) {
  Shape left;
  for (int i = 0; i < shape.size(); ++i) {
    if (!axes.contains(i)) left.push_back(shape[i]);
    else if (keep) left.push_back(1);
  }
  return left;
}

// The axes in rising order. Fails on one that x lacks, or that is given twice.
Axes checked(const char* op, const Tensor& x, const Axes& axes) {
  Axes seen;
  for (int axis : axes) {
    check_axis(op, x, axis);
    if (seen.contains(axis)) bad_input(op, ": dimension ", axis, " is given twice");
    seen.push_back(axis);
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

Axes marked_axes(const char* op, const Pattern& pattern, const Tensor& x) {
  bind_sizes(op, pattern, {{x.shape()}}, {{x.dtype()}});
  Axes axes;
  for (int i = 0; i < x.rank(); ++i)
    if (pattern.operand(0)[i].marked) axes.push_back(i);
  if (axes.empty())
    refuse(op, "expected a dimension in [ ], got none.", pattern.text(),
           {{span_of_operand(pattern, 0)}});
  return axes;
}

// The fold of x, with size 1 on the folded dimensions.
Tensor folded(Fold how, const Tensor& x, const Axes& axes) {
  const Shape shape = reduced_shape(x.shape(), axes, true);
  Tensor y = Tensor::empty_strided(
      shape, dense_strides(shape, memory_order(x.shape(), x.strides())), x.dtype(), x.backend());
  x.backend().fold(how, x.view(), y.view());
  return y;
}

// The same values without the dimensions of size 1 at `axes`.
Tensor without(const Tensor& x, const Axes& axes) {
  Shape shape;
  Strides strides;
  for (int i = 0; i < x.rank(); ++i)
    if (!axes.contains(i)) shape.push_back(x.size(i)), strides.push_back(x.strides()[i]);
  return x.window(shape, strides);
}

// g, which lacks the dimensions of a reduction unless they were kept, in the shape of its input.
Tensor spread(const Tensor& g, const Axes& axes, bool kept, const Shape& shape) {
  return kept ? broadcast(g, shape) : expand(g, axes, shape);
}

double count_of(const Tensor& x, const Axes& axes) {
  double count = 1;
  for (int axis : axes) count *= static_cast<double>(x.size(axis));
  return count;
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& unordered, bool keep) {
  const Axes axes = checked("sum", x, unordered);
  const Tensor y = folded(Fold::sum, x, axes);
  return record(
      "sum", keep ? y : without(y, axes), {x},
      [axes, keep](const Backward& at) -> Tensors {
        return {spread(at.g, axes, keep, at.in[0].shape())};
      },
      saves_nothing);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keep) {
  return sum(x, axes, keep) / count_of(x, axes);
}

Tensor max(const Tensor& x, const Axes& unordered, bool keep) {
  const Axes axes = checked("max", x, unordered);
  const Tensor y = folded(Fold::max, x, axes);
  return record("max", keep ? y : without(y, axes), {x},
                [axes, keep](const Backward& at) -> Tensors {
                  const Shape& shape = at.in[0].shape();
                  const Tensor top = equal(at.in[0], spread(at.y, axes, keep, shape)).detach();
                  const Tensor share = at.g / sum(top, axes, keep);
                  return {top * spread(share, axes, keep, shape)};
                });
}

// y = log Σ exp x, so dx = g exp(x - y). Where y = -inf (nothing to sum) the gradient is zero.
Tensor logsumexp(const Tensor& x, const Axes& unordered, bool keep) {
  const Axes axes = checked("logsumexp", x, unordered);
  // Subtracting -inf from -inf would be NaN; nothing is lost by subtracting 0 instead.
  const auto finite = [](const Tensor& t) {
    const double infinity = std::numeric_limits<double>::infinity();
    const Tensor nothing = equal(t.detach(), Tensor::repeated_like(t, -infinity));
    return select(nothing, Tensor::repeated_like(t, 0), t);
  };
  const Tensor untracked = x.detach();
  const Tensor top = finite(folded(Fold::max, untracked, axes));
  const Tensor y = log(sum(exp(untracked - broadcast(top, x.shape())), axes, true)) + top;
  return record("logsumexp", keep ? y : without(y, axes), {x},
                [axes, keep, finite](const Backward& at) -> Tensors {
                  const Shape& shape = at.in[0].shape();
                  const Tensor y = spread(finite(at.y), axes, keep, shape);
                  return {spread(at.g, axes, keep, shape) * exp(at.in[0] - y)};
                });
}

Tensor sum(const PatternOf<1>& pattern, const Tensor& x) {
  return sum(x, marked_axes("sum", pattern, x));
}
Tensor mean(const PatternOf<1>& pattern, const Tensor& x) {
  return mean(x, marked_axes("mean", pattern, x));
}
Tensor max(const PatternOf<1>& pattern, const Tensor& x) {
  return max(x, marked_axes("max", pattern, x));
}
Tensor logsumexp(const PatternOf<1>& pattern, const Tensor& x) {
  return logsumexp(x, marked_axes("logsumexp", pattern, x));
}
Tensor sum(const Tensor& x) { return sum(x, all_axes(x.rank())); }
Tensor mean(const Tensor& x) { return mean(x, all_axes(x.rank())); }

}  // namespace tete
