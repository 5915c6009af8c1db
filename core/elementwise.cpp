// Elementwise operations: the rows of elementwise.def as tensors.
#include "core/gelu.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

// An empty result in the memory order of the first operand without broadcast dimensions.
Tensor empty_like_first_dense(std::initializer_list<const Tensor*> operands) {
  const Tensor* model = *operands.begin();
  for (const Tensor* operand : operands) {
    bool dense = true;
    for (int i = 0; i < operand->rank(); ++i)
      dense &= operand->size(i) == 1 || operand->strides()[i] != 0;
    if (dense) {
      model = operand;
      break;
    }
  }
  return Tensor::empty_like(*model);
}

void check_alike(const char* op, const Tensor& a, const Tensor& b) {
  check_one_device(op, a, b);
  if (a.shape() == b.shape() && a.dtype() == b.dtype() && is_real(a.dtype())) return;
  bad_input(op, ": expected two real tensors of one shape and type, got ",
            describe(a.dtype(), a.shape()), " and ", describe(b.dtype(), b.shape()),
            "; a broadcast names its dimensions, as in add(\"b n d, d\", x, bias)");
}

// True if a gradient's text names this number.
constexpr bool names(std::string_view gradient, char number) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  for (size_t i = 0; i < gradient.size(); ++i)
    if (gradient[i] == number && (i == 0 || !is_letter(gradient[i - 1])) &&
        (i + 1 == gradient.size() || !is_letter(gradient[i + 1])))
      return true;
  return false;
}
constexpr Saved saved_of(std::string_view gradient) {
  return {.result = names(gradient, 'y'),
          .inputs = (names(gradient, 'x') || names(gradient, 'a') ? 1u : 0u) |
                    (names(gradient, 'b') ? 2u : 0u)};
}

// An operation's name and the line of its row, for errors and gradient checks, and the values that
// its gradient reads.
struct Row {
  const char* name;
  CodeLine line;
  Saved saved, other = saves_nothing;  // for x or a, and for b
};

const Row& row(Unary op) {
  static constexpr Row rows[] = {
#define UNARY(name, value, gradient, low, high) {#name, {__FILE__, __LINE__}, saved_of(#gradient)},
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  };
  return rows[static_cast<int>(op)];
}

const Row& row(Binary op) {
  static constexpr Row rows[] = {
#define UNARY(name, value, gradient, low, high)
#define BINARY(name, value, gradient_a, gradient_b, low, high) \
  {#name, {__FILE__, __LINE__}, saved_of(#gradient_a), saved_of(#gradient_b)},
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  };
  return rows[static_cast<int>(op)];
}

}  // namespace

const char* name_of(Unary op) { return row(op).name; }
const char* name_of(Binary op) { return row(op).name; }

namespace {

// The gradient column of elementwise.def, read with tensors.
Tensor unary_gradient_meaning(Unary op, [[maybe_unused]] const Tensor& x,
                              [[maybe_unused]] const Tensor& y, const Tensor& g) {
  switch (op) {
#define UNARY(name, value, gradient, low, high) \
  case Unary::name:                             \
    return gradient;
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
    case Unary::count:
      break;
  }
  return {};
}

// A kernel needs a view even of a value that it does not read: the first candidate with storage.
View view_of(std::initializer_list<const Tensor*> candidates) {
  const Tensor* const* first = candidates.begin();
  while (!(*first)->has_storage()) ++first;
  return (*first)->view();
}

Tensor unary_gradient(Unary op, const Backward& at) {
  const Tensor &x = at.in[0], &y = at.y, &g = at.g;
  if (x.tracked() || g.tracked()) return unary_gradient_meaning(op, x, y, g);
  Tensor dx = empty_like_first_dense({&x, &g});
  g.backend().unary_gradient(op, view_of({&x, &y, &g}), view_of({&y, &x, &g}), g.view(), dx.view());
  return dx;
}

Tensors binary_gradients(Binary op, const Backward& at) {
  [[maybe_unused]] const Tensor &a = at.in[0], &b = at.in[1], &y = at.y, &g = at.g;
  switch (op) {
#define UNARY(name, value, gradient, low, high)
#define BINARY(name, value, gradient_a, gradient_b, low, high) \
  case Binary::name:                                           \
    return {at.wants(0) ? gradient_a : Tensor(), at.wants(1) ? gradient_b : Tensor()};
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
    case Binary::count:
      break;
  }
  return {};
}

// Both operands of a pattern in the shape of its result.
std::pair<Tensor, Tensor> aligned(const char* op, const Pattern& pattern, const Tensor& a,
                                  const Tensor& b) {
  const Sizes sizes = bind_sizes(op, pattern, {{a.shape(), b.shape()}}, {{a.dtype(), b.dtype()}});
  reject_marks(op, pattern);
  const Labels result = pattern.result_or_union();
  for (int i = 0; i < 2; ++i)
    for (const Axis& axis : pattern.operand(i))
      if (!result.contains(axis.label))
        refuse(op, text("'", pattern.name(axis.label), "' must be in the result, too."),
               pattern.text(), {{span_of(pattern, axis)}});
  return {aligned(a, Pattern::labels(pattern.operand(0)), result, sizes),
          aligned(b, Pattern::labels(pattern.operand(1)), result, sizes)};
}

}  // namespace

Tensor unary(Unary op, const Tensor& x) {
  if (!is_real(x.dtype()))
    bad_input(row(op).name, ": expected real numbers, got ", describe(x.dtype(), x.shape()));
  Tensor y = Tensor::empty_like(x);
  x.backend().unary(op, x.view(), y.view());
  return record(
      row(op).name, y, {x},
      [op](const Backward& at) -> Tensors { return {unary_gradient(op, at)}; }, row(op).saved,
      row(op).line);
}

// The values to save for those of the two gradients that can be taken.
static Saved saved_of(Binary op, const Tensor& a, const Tensor& b) {
  const Saved of_a = a.tracked() ? row(op).saved : saves_nothing,
              of_b = b.tracked() ? row(op).other : saves_nothing;
  return {.result = of_a.result || of_b.result, .inputs = of_a.inputs | of_b.inputs};
}

Tensor binary_by(Binary op, const Tensor& a, const Tensor& b, const Kernel& kernel) {
  check_alike(row(op).name, a, b);
  Tensor y = empty_like_first_dense({&a, &b});
  kernel(y);
  return record(
      row(op).name, y, {a, b}, [op](const Backward& at) { return binary_gradients(op, at); },
      saved_of(op, a, b), row(op).line);
}

Tensor binary(Binary op, const Tensor& a, const Tensor& b) {
  return binary_by(op, a, b,
                   [&](const Tensor& y) { a.backend().binary(op, a.view(), b.view(), y.view()); });
}

static Tensor binary(Binary op, const Pattern& pattern, const Tensor& a, const Tensor& b) {
  const auto both = aligned(row(op).name, pattern, a, b);
  return binary(op, both.first, both.second);
}

Tensor unary_of_sum(Unary op, const PatternOf<2>& pattern, const Tensor& a, const Tensor& b) {
  const auto both = aligned("unary_of_sum", pattern, a, b);
  return unary_of_sum(op, both.first, both.second);
}

Tensor unary_of_sum(Unary op, const Tensor& a, const Tensor& b) {
  check_alike("unary_of_sum", a, b);
  const auto value = [op](const Tensors& in) {
    const Tensor y = empty_like_first_dense({&in[0], &in[1]});
    const bool done = y.backend().unary_of_sum(op, in[0].view(), in[1].view(), y.view());
    return done ? FusedValue{y} : FusedValue{};
  };
  const auto gradient = [op](const Backward& at) -> Tensors {
    const Tensor dsum = empty_like_first_dense({&at.in[0], &at.in[1], &at.g});
    dsum.backend().unary_of_sum_gradient(op, at.in[0].view(), at.in[1].view(),
                                         view_of({&at.y, &at.in[0]}), at.g.view(), dsum.view());
    return {dsum, dsum};
  };
  const auto meaning = [op](const Tensors& in) { return unary(op, in[0] + in[1]); };
  const Saved saved{.result = row(op).saved.result};
  return fused({"unary_of_sum", value, gradient, meaning, saved}, {a, b});
}

#define UNARY(name, value, gradient, low, high) \
  Tensor name(const Tensor& x) { return unary(Unary::name, x); }
#define BINARY(name, value, gradient_a, gradient_b, low, high)                         \
  Tensor name(const Tensor& a, const Tensor& b) { return binary(Binary::name, a, b); } \
  Tensor name(const PatternOf<2>& pattern, const Tensor& a, const Tensor& b) {         \
    return binary(Binary::name, pattern, a, b);                                        \
  }
#include "core/elementwise.def"
#undef UNARY
#undef BINARY

Tensor select(const Tensor& c, const Tensor& a, const Tensor& b) {
  check_alike("select", a, b);
  check_alike("select", c, a);
  Tensor y = empty_like_first_dense({&a, &b, &c});
  a.backend().select(c.view(), a.view(), b.view(), y.view());
  return record(
      "select", y, {c, a, b},
      [](const Backward& at) -> Tensors {
        const Tensor zero = Tensor::repeated_like(at.g, 0);
        return {Tensor(), at.wants(1) ? select(at.in[0], at.g, zero) : Tensor(),
                at.wants(2) ? select(at.in[0], zero, at.g) : Tensor()};
      },
      Saved{.result = false, .inputs = 1});
}

Tensor operator-(const Tensor& x) { return neg(x); }
Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator+(const Tensor& a, double b) { return add(a, Tensor::repeated_like(a, b)); }
Tensor operator-(const Tensor& a, double b) { return sub(a, Tensor::repeated_like(a, b)); }
Tensor operator*(const Tensor& a, double b) { return mul(a, Tensor::repeated_like(a, b)); }
Tensor operator/(const Tensor& a, double b) { return div(a, Tensor::repeated_like(a, b)); }
Tensor operator+(double a, const Tensor& b) { return add(Tensor::repeated_like(b, a), b); }
Tensor operator-(double a, const Tensor& b) { return sub(Tensor::repeated_like(b, a), b); }
Tensor operator*(double a, const Tensor& b) { return mul(Tensor::repeated_like(b, a), b); }
Tensor operator/(double a, const Tensor& b) { return div(Tensor::repeated_like(b, a), b); }

}  // namespace tete
