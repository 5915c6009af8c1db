// Layout: the same elements under other shapes and in other places, as views wherever strides can
// express it. Every operation's gradient is its transpose, which is a layout operation too.
#include "core/ops.hpp"

namespace tete {

namespace {

Tensor copied(const Tensor& x, const Strides& strides) {
  Tensor y = Tensor::empty_strided(x.shape(), strides, x.dtype(), x.backend());
  x.backend().copy(x.view(), y.view());
  return y;
}

// Strides that show x's elements under `shape` without a copy, if there are any. Dimensions of
// both shapes are matched in runs of equal element count; a run of x must nest.
bool strides_for(const Tensor& x, const Shape& shape, Strides& strides) {
  strides = Strides(shape.size(), 0);
  int from = 0, to = 0;
  while (from < x.rank() || to < shape.size()) {
    const int from_begin = from, to_begin = to;
    Index old_count = from < x.rank() ? x.size(from++) : 1;
    Index new_count = to < shape.size() ? shape[to++] : 1;
    while (old_count != new_count) {
      if (old_count < new_count) old_count *= x.size(from++);
      else new_count *= shape[to++];
    }
    Index densest = 1;
    Index expected = -1;  // the stride the next dimension outward must have
    for (int i = from - 1; i >= from_begin; --i) {
      if (x.size(i) == 1) continue;
      if (expected < 0) densest = x.strides()[i];
      else if (x.strides()[i] != expected) return false;
      expected = x.strides()[i] * x.size(i);
    }
    for (int i = to - 1; i >= to_begin; --i) strides[i] = densest, densest *= shape[i];
  }
  return true;
}

}  // namespace

Axes all_axes(int rank) {
  Axes axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  return axes;
}

Axes inverse(const Axes& order) {
  Axes back(order.size(), 0);
  for (int i = 0; i < order.size(); ++i) back[order[i]] = i;
  return back;
}

Tensor permute(const Tensor& x, const Axes& order) {
  Shape shape;
  Strides strides;
  bool same = order.size() == x.rank();
  for (int i = 0; i < order.size(); ++i) {
    check_axis("permute", x, order[i]);
    if (order.find(order[i]) != i) bad_input("permute: dimension ", order[i], " is given twice");
    same &= order[i] == i;
    shape.push_back(x.size(order[i]));
    strides.push_back(x.strides()[order[i]]);
  }
  if (order.size() != x.rank())
    bad_input("permute: expected an order of ", x.rank(), " dimensions, got ", order.size());
  if (same) return x;
  return record(
      "permute", x.window(shape, strides), {x},
      [back = inverse(order)](const Backward& at) -> Tensors { return {permute(at.g, back)}; },
      saves_nothing);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (element_count(shape) != x.size())
    bad_input("reshape: ", describe(x.dtype(), x.shape()), " has ", x.size(),
              " elements, but a tensor of shape ", shape, " has ", element_count(shape));
  Strides strides = row_major(shape);
  const bool has_numbers = x.size() > 0 && x.has_storage();
  const bool viewed = !has_numbers || strides_for(x, shape, strides);
  const Tensor dense = viewed ? x : copied(x, row_major(x.shape()));
  if (!viewed || !has_numbers) strides = row_major(shape);
  return record(
      "reshape", dense.window(shape, strides), {x},
      [](const Backward& at) -> Tensors { return {reshape(at.g, at.in[0].shape())}; },
      saves_nothing);
}

Tensor broadcast(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Axes repeated;
  Strides strides = x.strides();
  bool fits = x.rank() == shape.size();
  for (int i = 0; fits && i < shape.size(); ++i) {
    if (x.size(i) == shape[i]) continue;
    fits = x.size(i) == 1;
    repeated.push_back(i);
    strides[i] = 0;
  }
  if (!fits)
    bad_input("broadcast: ", describe(x.dtype(), x.shape()), " cannot be repeated to shape ", shape,
              ": only dimensions of size 1 can");
  return record(
      "broadcast", x.window(shape, strides), {x},
      [repeated](const Backward& at) -> Tensors { return {sum(at.g, repeated, true)}; },
      saves_nothing);
}

Tensor expand(const Tensor& x, const Axes& at, const Shape& shape) {
  if (at.empty()) return x;
  Strides strides;
  bool fits = x.rank() + at.size() == shape.size();
  for (int i = 0, from = 0; fits && i < shape.size(); ++i) {
    if (at.contains(i)) {
      strides.push_back(0);
    } else {
      fits = from < x.rank() && x.size(from) == shape[i];
      if (fits) strides.push_back(x.strides()[from++]);
    }
  }
  if (!fits)
    bad_input("expand: ", describe(x.dtype(), x.shape()), " with ",
              counted(at.size(), "new dimension"), " does not fit into shape ", shape);
  return record(
      "expand", x.window(shape, strides), {x},
      [at](const Backward& back) -> Tensors { return {sum(back.g, at)}; }, saves_nothing);
}

Tensor aligned(const Tensor& x, const Labels& labels, const Labels& result, const Sizes& sizes) {
  if (labels == result) return x;
  Axes order, missing;
  Shape shape;
  for (int i = 0; i < result.size(); ++i) {
    if (const int at = labels.find(result[i]); at >= 0) order.push_back(at);
    else missing.push_back(i);
    shape.push_back(sizes[result[i]]);
  }
  return expand(permute(x, order), missing, shape);
}

Tensor slice(const Tensor& x, int axis, Index start, Index count, Index step) {
  check_axis("slice", x, axis);
  if (start < 0 || count < 0 || step < 1 ||
      (count > 0 && start + (count - 1) * step >= x.size(axis)))
    bad_input("slice: ", count, " elements from ", start, " in steps of ", step,
              " are not all inside dimension ", axis, " of ", describe(x.dtype(), x.shape()));
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[axis] = count;
  strides[axis] *= step;
  const Index offset = count > 0 ? start * x.strides()[axis] : 0;
  return record(
      "slice", x.window(shape, strides, offset), {x},
      [axis, start, step](const Backward& at) -> Tensors {
        return {place(at.g, axis, start, step, at.in[0].size(axis))};
      },
      saves_nothing);
}

Tensor row_of(const Tensor& x, int axis, Index i) {
  const Tensor row = slice(x, axis, i, 1);
  Shape shape = row.shape();
  shape.erase(axis);
  return reshape(row, shape);
}

Tensor place(const Tensor& x, int axis, Index start, Index step, Index size) {
  check_axis("place", x, axis);
  const Index count = x.size(axis);
  if (start < 0 || step < 1 || size < 0 || (count > 0 && start + (count - 1) * step >= size))
    bad_input("place: ", count, " elements from ", start, " in steps of ", step,
              " do not fit into a dimension of size ", size);
  Shape shape = x.shape();
  shape[axis] = size;
  const Tensor y = Tensor::zeros(shape, x.dtype(), x.backend());
  Strides strides = y.strides();
  strides[axis] *= step;
  const Tensor hole = y.window(x.shape(), strides, count > 0 ? start * y.strides()[axis] : 0);
  x.backend().copy(x.view(), hole.view());
  return record(
      "place", y, {x},
      [axis, start, step](const Backward& at) -> Tensors {
        return {slice(at.g, axis, start, at.in[0].size(axis), step)};
      },
      saves_nothing);
}

Tensor pad(const Tensor& x, int axis, Index before, Index after) {
  check_axis("pad", x, axis);
  if (before < 0 || after < 0)
    bad_input("pad: expected sizes of at least 0, got ", before, " and ", after);
  return place(x, axis, before, 1, before + x.size(axis) + after);
}

// A view: one step along the diagonal is one step along each of its dimensions.
static Tensor diagonal_window(const Tensor& x, const Axes& axes) {
  Shape shape;
  Strides strides;
  for (int i = 0; i < x.rank(); ++i) {
    if (axes.contains(i) && i != axes[0]) continue;
    shape.push_back(x.size(i));
    strides.push_back(x.strides()[i]);
    if (i != axes[0]) continue;
    for (int k = 1; k < axes.size(); ++k) strides.back() += x.strides()[axes[k]];
  }
  return x.window(shape, strides);
}

Tensor diagonal(const Tensor& x, const Axes& axes) {
  for (int i = 0; i < axes.size(); ++i) {
    check_axis("diagonal", x, axes[i]);
    if (i > 0 && (axes[i] <= axes[i - 1] || x.size(axes[i]) != x.size(axes[0])))
      bad_input("diagonal: expected dimensions of one size in rising order, got ", axes[i - 1],
                " and ", axes[i], " of ", describe(x.dtype(), x.shape()));
  }
  return record(
      "diagonal", diagonal_window(x, axes), {x},
      [axes](const Backward& at) -> Tensors { return {on_diagonal(at.g, axes)}; }, saves_nothing);
}

Tensor on_diagonal(const Tensor& x, const Axes& axes) {
  check_axis("on_diagonal", x, axes[0]);
  Shape shape = x.shape();
  for (int k = 1; k < axes.size(); ++k) shape.insert(axes[k], x.size(axes[0]));
  const Tensor y = Tensor::zeros(shape, x.dtype(), x.backend());
  x.backend().copy(x.view(), diagonal_window(y, axes).view());
  return record(
      "on_diagonal", y, {x},
      [axes](const Backward& at) -> Tensors { return {diagonal(at.g, axes)}; }, saves_nothing);
}

Tensor concat(const Tensors& parts, int axis) {
  if (parts.empty()) bad_input("concat: expected at least one tensor");
  check_one_device("concat", parts);
  check_axis("concat", parts[0], axis);
  Shape shape = parts[0].shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    Shape other = part.shape();
    if (other.size() == shape.size()) shape[axis] += std::exchange(other[axis], shape[axis]);
    if (other.size() != shape.size() || part.dtype() != parts[0].dtype())
      bad_input("concat: expected parts of one type and as many dimensions, got ",
                describe(parts[0].dtype(), parts[0].shape()), " and ",
                describe(part.dtype(), part.shape()));
    for (int i = 0; i < shape.size(); ++i)
      if (i != axis && other[i] != shape[i])
        bad_input("concat: dimension ", i, " is ", shape[i], " in part 1 but ", other[i],
                  " in part ", &part - parts.data() + 1);
  }
  const Tensor y = Tensor::empty(shape, parts[0].dtype(), parts[0].backend());
  Index start = 0;
  for (const Tensor& part : parts) {
    const Tensor hole = y.window(part.shape(), y.strides(), start * y.strides()[axis]);
    y.backend().copy(part.view(), hole.view());
    start += part.size(axis);
  }
  return record(
      "concat", y, parts,
      [axis](const Backward& at) {
        Tensors gradients;
        Index start = 0;
        for (const Tensor& part : at.in) {
          gradients.push_back(slice(at.g, axis, start, part.size(axis)));
          start += part.size(axis);
        }
        return gradients;
      },
      saves_nothing);
}

Tensor with_layout(const Tensor& x, const Short<int>& order) {
  const Strides strides = dense_strides(x.shape(), order);
  if (strides == x.strides()) return x;
  return record(
      "with_layout", copied(x, strides), {x}, [](const Backward& at) -> Tensors { return {at.g}; },
      saves_nothing);
}

// ---- rearrange: split the input's groups, permute, merge the result's groups -----------------

namespace {

// Solves the open size of one group of the input, in which all others are known.
void solve_group(const Pattern& pattern, const Labels& group, Index whole, Sizes& sizes) {
  Index known = 1;
  int open = -1;
  bool fits = true;
  std::vector<Span> carets;
  for (const Axis& axis : pattern.operand(0)) {
    if (!group.contains(axis.label)) continue;
    carets.push_back(span_of(pattern, axis));
    if (const Index size = sizes[axis.label]; size >= 0)
      fits &= !__builtin_mul_overflow(known, size, &known);
    else if (open < 0) open = axis.label;
    else
      refuse("rearrange",
             text("give the size of '", pattern.name(static_cast<Label>(open)), "' or '",
                  pattern.name(axis.label), "'."),
             pattern.text(), carets);
  }
  if (open >= 0 && fits) sizes[open] = known > 0 ? whole / known : 0;
  if (!fits || known * (open < 0 ? 1 : sizes[open]) != whole)
    refuse("rearrange",
           text("a dimension of size ", whole, " does not split into these: the sizes given ",
                "multiply to ", fits ? text(known) : "more than 63 bits hold", "."),
           pattern.text(), carets);
}

}  // namespace

Tensor rearrange(const PatternOf<1>& pattern, const Tensor& x,
                 std::initializer_list<std::pair<std::string_view, Index>> given) {
  Sizes sizes;
  sizes.fill(-1);
  for (const auto& [name, size] : given) {
    const int label = pattern.label_of(name);
    if (label < 0) refuse("rearrange", text("'", name, "' is no name of it."), pattern.text(), {});
    if (size < 0) bad_input("rearrange: the size of '", name, "' must be at least 0, got ", size);
    sizes[label] = size;
  }
  reject_marks("rearrange", pattern);
  reject_general("rearrange", pattern);
  const std::vector<Labels> from = dimensions_of(pattern.operand(0));
  const Labels all = Pattern::labels(pattern.operand(0));
  const Labels wanted = Pattern::labels(pattern.result());
  if (std::ssize(from) != x.rank())
    refuse("rearrange",
           text("the operand has ", counted(std::ssize(from), "dimension"), ", but the tensor has ",
                x.rank(), "."),
           pattern.text(), {{span_of_operand(pattern, 0)}}, {{x.shape()}}, {{x.dtype()}});
  for (const Axis& axis : pattern.operand(0))
    if (!wanted.contains(axis.label))
      refuse("rearrange", text("'", pattern.name(axis.label), "' must be in the result, too."),
             pattern.text(), {{span_of(pattern, axis)}});
  for (int i = 0; i < x.rank(); ++i) solve_group(pattern, from[i], x.size(i), sizes);
  Shape split, merged;
  for (Label label : all) split.push_back(sizes[label]);
  Axes order;
  for (Label label : wanted) order.push_back(all.find(label));
  for (const Labels& group : dimensions_of(pattern.result())) {
    Index size = 1;
    for (Label label : group) size *= sizes[label];
    merged.push_back(size);
  }
  return reshape(permute(reshape(x, split), order), merged);
}

}  // namespace tete
