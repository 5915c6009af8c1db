// Elementwise functions: exp(x), clip(x, low, high), …; arguments are broadcast by name.
#include <cmath>
#include <map>

#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

bool is_select(const Node& node) { return node.builtin->name == "select"; }

// A function of numbers that follow from sizes is such a number, too.
void check(Reading& reading, const ExprText& e, Node& node) {
  node.constant = true;
  for (const ExprText& arg : e.args) {
    node.args.push_back(reading.expression(arg));
    node.constant &= node.args.back().constant;
  }
  if (is_select(node)) need(node.args[0], Element::truth, "the first argument of select");
  node.names = reading.joined(node.args);
  node.element = node.builtin->result;
  if (!node.builtin->keeps_element) return;
  node.element = Element::whole;
  for (size_t i = is_select(node) ? 1 : 0; i < node.args.size(); ++i)
    if (node.args[i].element == Element::real) node.element = Element::real;
  if (is_select(node) && node.args[1].element == Element::truth &&
      node.args[2].element == Element::truth)
    node.element = Element::truth;
}

Value run(Runner& runner, const Node& node) {
  if (node.constant) return runner.number(node);
  std::vector<Value> values;
  for (const Node& arg : node.args) values.push_back(runner.unplaced(arg));
  const Names names = values.size() == 1 ? values[0].names : node.names;
  const auto [args, batched] = runner.operands(values, names);
  return {node.builtin->apply(args), names, batched};
}

template <Unary op>
constexpr Builtin row(const char* usage, const char* meaning, const char* example) {
  return {.usage = usage,
          .meaning = meaning,
          .example = example,
          .unary = op,
          .apply = [](const Tensors& x) { return unary(op, x[0]); },
          .check = check,
          .run = run};
}

Tensor rounded_down(const Tensors& x) { return floor(x[0].detach()); }
Tensor clipped(const Tensors& x) { return min(max(x[0], x[1]), x[2]); }
Tensor chosen(const Tensors& x) { return select(x[0], x[1], x[2]); }

// T5's buckets of relative positions (Raffel et al. 2020, section 2.1, as its code has them): half
// of them for one distance each, the rest in equal ratios up to `far`. Each side has half of all
// buckets; if one_sided, the left has all, and positions to the right are in bucket 0.
Index bucket_of(Index r, Index count, double far, bool one_sided) {
  Index first = 0;
  if (!one_sided) count /= 2, first = r > 0 ? count : 0;
  const Index a = one_sided ? std::max<Index>(0, -r) : std::abs(r), exact = count / 2;
  if (a < exact) return first + a;
  const double ratio = std::log(static_cast<double>(a) / static_cast<double>(exact)) /
                       std::log(far / static_cast<double>(exact));
  return first + std::min(count - 1, exact + static_cast<Index>(std::floor(
                                                 ratio * static_cast<double>(count - exact))));
}

constexpr double most_buckets = 1e9, furthest = 9e15;  // below 2^53: whole and exact

Tensor bucketed(const Tensors& x) {
  const auto first = [](const Tensor& t) { return t.size() > 0 ? t.values()[0] : 0.0; };
  const double buckets = first(x[1]), far = first(x[2]);
  const bool one_sided = first(x[3]) != 0;
  const bool fits =
      buckets >= 4 && buckets <= most_buckets && far > std::floor(buckets) / (one_sided ? 2 : 4);
  if (x[0].size() > 0 && !fits)
    bad_input("bucket: expected 4 to ", most_buckets, " buckets, half of which end before ", far,
              ", got ", buckets);
  const Index count = fits ? static_cast<Index>(buckets) : 0;
  std::vector<double> all = x[0].values();
  std::map<double, double> known;
  for (double& r : all) {
    if (!(std::abs(r) <= furthest))
      bad_input("bucket: expected distances of at most ", furthest, ", got ", std::abs(r));
    const auto [at, is_new] = known.try_emplace(r, 0.0);
    if (is_new)
      at->second = static_cast<double>(bucket_of(static_cast<Index>(r), count, far, one_sided));
    r = at->second;
  }
  return cast(Tensor::of<double>(x[0].shape(), std::span<const double>(all), x[0].backend()),
              x[0].dtype());
}

// clang-format off
constexpr Builtin rows[] = {
    row<Unary::exp>     ("exp(x)",      "e^x", "Y[n, d] = exp(X[n, d])"),
    row<Unary::log>     ("log(x)",      "natural logarithm", "Y[n, d] = log(1 + X[n, d]^2)"),
    row<Unary::sqrt>    ("sqrt(x)",     "the square root", "Y[n, d] = sqrt(1 + X[n, d]^2)"),
    row<Unary::sin>     ("sin(x)",      "the sine", "Y[n, d] = sin(X[n, d])"),
    row<Unary::cos>     ("cos(x)",      "the cosine", "Y[n, d] = cos(X[n, d])"),
    row<Unary::tanh>    ("tanh(x)",     "the hyperbolic tangent", "Y[n, d] = tanh(X[n, d])"),
    row<Unary::erf>     ("erf(x)",      "the error function", "Y[n, d] = erf(X[n, d])"),
    row<Unary::sigmoid> ("sigmoid(x)",  "1 / (1 + e^-x)", "Y[n, d] = sigmoid(X[n, d])"),
    row<Unary::softplus>("softplus(x)", "log(1 + e^x)", "Y[n, d] = softplus(X[n, d])"),
    row<Unary::relu>    ("relu(x)",     "x if x > 0, else 0", "Y[n, d] = relu(X[n, d])"),
    row<Unary::elu>     ("elu(x)",      "x if x > 0, else e^x - 1", "Y[n, d] = elu(X[n, d])"),
    row<Unary::silu>    ("silu(x)",     "x · sigmoid(x)", "Y[n, d] = silu(X[n, d])"),
    row<Unary::gelu>    ("gelu(x)",     "x · Φ(x), by tanh", "Y[n, d] = gelu(X[n, d])"),
    row<Unary::gelu_erf>("gelu_erf(x)", "x · Φ(x), exactly", "Y[n, d] = gelu_erf(X[n, d])"),
    {.usage = "abs(x)", .meaning = "x without its sign",
     .example = "Y[n, d] = abs(X[n, d])", .keeps_element = true,
     .apply = [](const Tensors& x) { return abs(x[0]); },
     .check = check, .run = run},
    {.usage = "floor(x)", .meaning = "the largest whole number not above x",
     .example = "Y[n, d] = X[n, d] - floor(X[n, d])",
     .result = Element::whole, .apply = rounded_down,
     .check = check, .run = run},
    {.usage = "clip(x, low, high)", .meaning = "x, at least low and at most high",
     .example = "Y[n, d] = clip(X[n, d], -0.5, 0.5)",
     .arguments = {3}, .keeps_element = true, .clips = true,
     .apply = clipped, .check = check, .run = run},
    {.usage = "bucket(r, count, far, one_sided)",
     .meaning = "T5's bucket of a relative position r: half of them exact, then equal ratios to far",
     .example = "A[n, m] = L[n, m] - bucket(position(m) - position(n), 8, 20, 0)",
     .arguments = {4}, .result = Element::whole, .apply = bucketed,
     .check = check, .run = run},
    {.usage = "select(c, a, b)", .meaning = "a where c is true, else b",
     .example = "Y[n, d] = select(X[n, d] > 0, X[n, d]^2, 3)",
     .arguments = {3}, .keeps_element = true, .chooses = true,
     .apply = chosen, .check = check, .run = run},
};
// clang-format on

}  // namespace

std::span<const Builtin> elementwise_functions() { return rows; }

}  // namespace tete
