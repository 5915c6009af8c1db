// rotate(x, p, dim=d, base=10000, half=0): pair (2t, 2t+1) of d turned by the angle p ·
// base^(-2t/d) (Su et al. 2021, section 3.4.2, with neighbours as pairs); with half=1, pair (t, t +
// d/2).
#include <cmath>

#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

void check(Reading& reading, const ExprText& e, Node& node) {
  node.args = {reading.expression(e.args[0]), reading.expression(e.args[1])};
  const Node &x = node.args[0], &at = node.args[1];
  if (x.constant) fail_at({e.args[0].place}, "'rotate' needs a tensor");
  reading.need_dim(node, x, "what is rotated");
  need(at, Element::whole, "the second argument of rotate");
  for (int name : at.names)
    if (!x.names.contains(name) || name == node.dim())
      fail_at({e.args[1].place, e.args[0].place}, "'", reading.in.own_name(name), "' is ",
              name == node.dim() ? "what is rotated" : "not a dimension of what is rotated",
              ", so the positions cannot have it");
  node.names = x.names;
}

// The cosine and the sine of each position's angles, [positions…, pairs], in the run's type.
struct Angles {
  Tensor cosine, sine;
};
Angles angles_of(const Tensor& positions, Index pairs, double base, Dtype dtype, Backend& on) {
  std::vector<double> rates, cosine, sine;
  for (Index t = 0; t < pairs; ++t)
    rates.push_back(std::pow(base, -static_cast<double>(t) / static_cast<double>(pairs)));
  for (double p : positions.values())
    for (double rate : rates)
      cosine.push_back(std::cos(p * rate)), sine.push_back(std::sin(p * rate));
  Shape shape = positions.shape();
  shape.push_back(pairs);
  const auto made = [&](const std::vector<double>& all) {
    return cast(Tensor::of<double>(shape, std::span<const double>(all), on), dtype);
  };
  return {made(cosine), made(sine)};
}

Value run(Runner& runner, const Node& node) {
  const Value x = runner.node(node.args[0]), p = runner.unplaced(node.args[1]);
  const Index d = runner.size(node.dim());
  if (d % 2 != 0)
    fail_at({node.place}, "rotate turns pairs, but '", runner.dimension(node.dim()).name, "' is ",
            d);
  const double base = number_of_key(runner, node, 1, 10000);
  if (!(base > 0)) fail_at({node.keys[1].place}, "base= is ", base, ", expected more than 0");
  const bool halves = number_of_key(runner, node, 2, 0) != 0;
  const bool batched = x.batched || p.batched;
  const Names places = x.names.without(node.dim());
  Names last = places;
  last.push_back(node.dim());
  Tensor y = runner.aligned(x, last, batched).tensor;
  Shape pairs = y.shape();
  pairs.back() = halves ? 2 : d / 2, pairs.push_back(halves ? d / 2 : 2);
  y = reshape(y, pairs);
  const int axis = y.rank() - (halves ? 2 : 1);  // of the two in a pair
  Shape each = y.shape(), whole = y.shape();
  each.erase(axis);
  whole.pop_back(), whole.back() = d;
  Axes missing;
  Names have;
  for (int i = 0; batched && !p.batched && i < runner.batch_rank(); ++i) missing.push_back(i);
  for (int i = 0; i < places.size(); ++i)
    if (p.names.contains(places[i])) have.push_back(places[i]);
    else missing.push_back(i + (batched ? runner.batch_rank() : 0));
  const Angles angles = angles_of(runner.aligned(p, have, p.batched).tensor, d / 2, base,
                                  runner.dtype(), runner.device());
  const Tensor turned = reshape(
      turn(y, axis, expand(angles.cosine, missing, each), expand(angles.sine, missing, each)),
      whole);
  return runner.aligned({turned, last, batched}, node.names, batched);
}

// Pairs of zeros turned are zeros.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  combines_along(finder, call, out);
  for (const Hidden& hidden : call.args[0].hidden)
    if (is_zero(hidden.number) && !hidden.mentions(call.node.dim())) out.hidden.push_back(hidden);
}

constexpr KeyRow keys[] = {{"dim", KeyKind::dim},
                           {.name = "base", .kind = KeyKind::number, .required = false},
                           {.name = "half", .kind = KeyKind::number, .required = false}};

constexpr Builtin rows[] = {
    {.usage = "rotate(x, p, dim=d, base=10000, half=0)",
     .meaning = "pairs (2t, 2t+1) of d, or (t, t + d/2) if half, turned by p · base^(-2t/d)",
     .example = "Y[n, d] = rotate(X[n, d], position(n), dim=d)",
     .arguments = {2},
     .keys = keys,
     .check = check,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> rotate_functions() { return rows; }

}  // namespace tete
