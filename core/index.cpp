// gather and scatter: a dimension that is read, or written, at positions that a tensor holds. Each
// is the other's transpose, so each is the other's gradient.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops.hpp"

namespace tete {

namespace {

// Labels of one gather: table T[t], index I[i] into T's dimension `along`, result Y[y].
struct Indexing {
  Labels t, i, y;
  Label along;
  Index size;  // of `along`
};

// The one marked label of an operand, or of the result if `operand` is 2.
Label only_marked(const char* op, const Pattern& pattern, int operand) {
  const Labels marked = Pattern::marked(operand == 2 ? pattern.result() : pattern.operand(operand));
  if (marked.size() != 1)
    refuse(op, text("expected one dimension in [ ], got ", marked.size(), "."), pattern.text(),
           {{span_of_operand(pattern, operand)}});
  return marked[0];
}

void check_positions(const char* op, const Tensor& index, Index size) {
  if (index.dtype() != Dtype::i64)
    bad_input(op, ": positions must be i64, got ", describe(index.dtype(), index.shape()));
  const Index outside = index.backend().find_outside(index.view(), size);
  if (outside >= 0)
    bad_input(op, ": position ", index.values<int64_t>()[static_cast<size_t>(outside)],
              " (element ", outside, " of the index) is outside a dimension of size ", size);
}

Shape shape_of(const Labels& labels, const Sizes& sizes) {
  Shape shape;
  for (Label label : labels) shape.push_back(sizes[label]);
  return shape;
}

Tensor scattered(const Tensor& values, const Tensor& index, const Indexing& how,
                 const Shape& shape);

Tensor gathered(const Tensor& table, const Tensor& index, const Indexing& how, const Shape& shape) {
  check_one_device("gather", table, index);
  Tensor y = Tensor::empty(shape, table.dtype(), table.backend());
  table.backend().gather(table.view(), how.t, index.view(), how.i, how.along, y.view(), how.y);
  return record(
      "gather", y, {table, index},
      [how](const Backward& at) -> Tensors {
        return {scattered(at.g, at.in[1], how, at.in[0].shape()), Tensor()};
      },
      saves_nothing);
}

Tensor scattered(const Tensor& values, const Tensor& index, const Indexing& how,
                 const Shape& shape) {
  check_one_device("scatter", values, index);
  Tensor t = Tensor::empty(shape, values.dtype(), values.backend());
  values.backend().scatter(values.view(), how.y, index.view(), how.i, how.along, t.view(), how.t);
  return record(
      "scatter", t, {values, index},
      [how](const Backward& at) -> Tensors {
        return {gathered(at.g, at.in[1], how, at.in[0].shape()), Tensor()};
      },
      saves_nothing);
}

// Every name but the marked one must be in the result, and the marked one must not.
void check_result(const char* op, const Pattern& pattern, const Indexing& how) {
  const auto check = [&](Label label) {
    std::vector<Span> carets;
    for (int i = 0; i <= 2; ++i)
      for (const Axis& axis : i < 2 ? pattern.operand(i) : pattern.result())
        if (axis.label == label) carets.push_back(span_of(pattern, axis));
    const bool marked = label == how.along;
    if (marked == (how.y.contains(label) || (marked && how.i.contains(label))))
      refuse(op,
             text("'", pattern.name(label), "' must stand ",
                  marked ? "once only, in [ ]." : "on both sides, as every name outside [ ]."),
             pattern.text(), carets);
  };
  check(how.along);
  for (const Labels& names : {how.t, how.i})
    for (Label label : names)
      if (label != how.along) check(label);
}

}  // namespace

Tensor gather(const PatternOf<2>& pattern, const Tensor& table, const Tensor& index) {
  const Sizes sizes = bind_sizes("gather", pattern, {{table.shape(), index.shape()}},
                                 {{table.dtype(), index.dtype()}});
  const Label along = only_marked("gather", pattern, 0);
  const Indexing how{Pattern::labels(pattern.operand(0)), Pattern::labels(pattern.operand(1)),
                     Pattern::labels(pattern.result()), along, sizes[along]};
  check_result("gather", pattern, how);
  check_positions("gather", index, how.size);
  return gathered(table, index, how, shape_of(how.y, sizes));
}

Tensor scatter(const PatternOf<2>& pattern, const Tensor& values, const Tensor& index, Index size) {
  Sizes sizes = bind_sizes("scatter", pattern, {{values.shape(), index.shape()}},
                           {{values.dtype(), index.dtype()}});
  const Label along = only_marked("scatter", pattern, 2);
  sizes[along] = size;
  const Indexing how{Pattern::labels(pattern.result()), Pattern::labels(pattern.operand(1)),
                     Pattern::labels(pattern.operand(0)), along, size};
  check_result("scatter", pattern, how);
  check_positions("scatter", index, size);
  return scattered(values, index, how, shape_of(how.t, sizes));
}

namespace {

// Finds the positions of the `count` largest among first[0], first[step], …
void find_largest(const double* first, Index size, Index step, Index count, int64_t* found) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int64_t a, int64_t b) {
    const double x = first[a * step], y = first[b * step];
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && (!std::isnan(y) || a < b);
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
  for (Index i = 0; i < count; ++i) found[i * step] = order[static_cast<size_t>(i)];
}

}  // namespace

Tensor top_k(const Tensor& x, int axis, Index count) {
  if (axis < 0 || axis >= x.rank())
    bad_input("top_k: ", axis, " is not a dimension of ", describe(x.dtype(), x.shape()));
  if (count < 0 || count > x.size(axis))
    bad_input("top_k: expected a count from 0 to ", x.size(axis), ", the size of dimension ", axis,
              " of ", describe(x.dtype(), x.shape()), ", got ", count);
  const std::vector<double> values = x.values();
  Index inner = 1;
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.size(i);
  const Index row = x.size(axis) * inner, outer = row > 0 && count > 0 ? x.size() / row : 0;
  Shape shape = x.shape();
  shape[axis] = count;
  std::vector<int64_t> found(static_cast<size_t>(element_count(shape)));
  for (Index o = 0; o < outer; ++o)
    for (Index i = 0; i < inner; ++i)
      find_largest(values.data() + o * row + i, x.size(axis), inner, count,
                   found.data() + o * count * inner + i);
  return Tensor::of<int64_t>(shape, std::span<const int64_t>(found), x.backend());
}

Tensor arange(Index count, Dtype dtype, Backend& on) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (Index i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i;
  return cast(Tensor::of<int64_t>({count}, std::span<const int64_t>(numbers), on), dtype);
}

Tensor one_hot(const Tensor& index, Index size, Dtype dtype) {
  check_positions("one_hot", index, size);
  const std::vector<int64_t> positions = index.values<int64_t>();
  std::vector<double> hot(positions.size() * static_cast<size_t>(size), 0.0);
  for (size_t i = 0; i < positions.size(); ++i)
    hot[i * static_cast<size_t>(size) + static_cast<size_t>(positions[i])] = 1;
  Shape shape = index.shape();
  shape.push_back(size);
  return cast(Tensor::of<double>(shape, std::span<const double>(hot), index.backend()), dtype);
}

}  // namespace tete
