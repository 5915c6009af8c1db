// gather and scatter: a dimension that is read, or written, at positions that a tensor holds. Each
// is the other's transpose, so each is the other's gradient.
#include "core/ops.hpp"

namespace tete {

namespace {

// Labels of one gather: table T[t], index I[i] into T's dimension `along`, result Y[y].
struct Indexing {
  Labels t, i, y;
  Label along;
  Index size;  // the size of `along`
};

void check_positions(const char* op, const Tensor& index, Index size) {
  if (index.dtype() != Dtype::i64)
    bad_input(op, ": positions must be i64, got ", describe(index.dtype(), index.shape()));
  index.backend().check_inside(index.view(), size, [=](Index outside) {
    bad_input(op, ": position ", index.values<int64_t>()[static_cast<size_t>(outside)],
              " (element ", outside, " of the index) is outside a dimension of size ", size);
  });
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

Tensor top_k(const Tensor& x, int axis, Index count) {
  check_axis("top_k", x, axis);
  if (count < 0 || count > x.size(axis))
    bad_input("top_k: expected a count from 0 to ", x.size(axis), ", the size of dimension ", axis,
              " of ", describe(x.dtype(), x.shape()), ", got ", count);
  const Tensor real = is_real(x.dtype()) ? x.detach() : cast(x, Dtype::f64);
  Shape shape = x.shape();
  shape[axis] = count;
  const Tensor found = Tensor::empty(shape, Dtype::i64, x.backend());
  if (real.backend().top_k(real.view(), axis, found.view())) return found;
  return top_k(real.to(cpu()), axis, count).to(x.backend());
}

Tensor arange(Index count, Dtype dtype, Backend& on) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (Index i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i;
  return cast(Tensor::of<int64_t>({count}, std::span<const int64_t>(numbers), on), dtype);
}

Tensor one_hot(const Tensor& index, Index size, Dtype dtype) {
  check_positions("one_hot", index, size);
  Shape shape = index.shape();
  shape.push_back(size);
  const Tensor here = expand(cast(index, Dtype::f64), {index.rank()}, shape),
               places =
                   expand(arange(size, Dtype::f64, index.backend()), all_axes(index.rank()), shape);
  return cast(equal(here, places), dtype);
}

}  // namespace tete
