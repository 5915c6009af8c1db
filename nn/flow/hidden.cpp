// The numbers that values hold where a mask hides the data.
#include <algorithm>
#include <cmath>
#include <optional>

#include "nn/flow/finder.hpp"
#include "nn/language/sizes/operate.hpp"

namespace tete {

namespace {

const double unknown = std::nan("");

// NaN if a number is not known, and for // and %, which are not followed.
double operate_known(Operator op, double a, double b) {
  const bool is_whole = op == Operator::floor_divide || op == Operator::modulo;
  return is_whole || std::isnan(a) || std::isnan(b) ? unknown : operate(op, a, b);
}

// A number as runs in f64 and in f32 have it: 0.1 + 0.6 > 0.7 is true in f32 alone.
struct Number {
  double f64, f32;

  bool is_known() const { return !std::isnan(f64); }
  bool operator==(const Number&) const = default;
};
const Number not_known = {unknown, unknown};

double rounded(double number) { return static_cast<float>(number); }

// The number that argument i holds at `where`, if it holds one.
std::optional<Number> number_at(const CallFlow& call, size_t i, const Hidden& where) {
  if (call.node.args[i].constant) {
    const double number = number_of(call.node.args[i]);
    return Number{number, rounded(number)};
  }
  for (const Hidden& hidden : call.args[i].hidden)
    if (hidden.same_pair(where)) return Number{hidden.number, hidden.in_f32};
  return {};
}

double compute(const Node& node, const std::vector<double>& numbers, Dtype dtype) {
  if (node.kind == NodeKind::operation) return operate_known(node.op, numbers[0], numbers.back());
  Tensors args;
  for (double number : numbers) args.push_back(Tensor::scalar(number, dtype));
  return node.builtin->apply(args).values()[0];
}

// Not known where rounding changes more than the last digits.
Number compute(const Node& node, const std::vector<Number>& numbers) {
  std::vector<double> f64, f32;
  for (const Number& number : numbers) {
    if (!number.is_known()) return not_known;
    f64.push_back(number.f64), f32.push_back(number.f32);
  }
  const Number made = {compute(node, f64, Dtype::f64), rounded(compute(node, f32, Dtype::f32))};
  const bool is_alike =
      rounded(made.f64) == made.f32 ||
      (made.f32 != 0 && std::abs(made.f64 - made.f32) <= 1e-5 * std::abs(made.f64));
  return is_alike ? made : not_known;
}

// True if 0 times the other argument, or divided by it, is 0 at `where`: it is not if that is
// hidden there and infinite or 0, or of a number that is not known.
bool leaves_zero(const CallFlow& call, size_t zero, const Hidden& where) {
  const size_t other = 1 - zero;
  if (call.node.args[other].constant) return true;
  const auto may_be_zero = [](const Hidden& h) { return h.number == 0 || std::isnan(h.number); };
  const std::vector<Hidden>& hidden = call.args[other].hidden;
  if (call.node.op == Operator::divide)
    return std::none_of(hidden.begin(), hidden.end(), may_be_zero);
  const Number number = number_at(call, other, where).value_or(Number{0, 0});
  return std::isfinite(number.f64) && std::isfinite(number.f32);
}

// The number that the call's result holds at `where`, if it holds one.
std::optional<Number> result_at(const CallFlow& call, const Hidden& where) {
  const Node& node = call.node;
  const bool multiplies = node.op == Operator::multiply || node.op == Operator::both;
  std::vector<Number> numbers;
  bool all = true;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const std::optional<Number> number = number_at(call, i, where);
    const bool is_factor = multiplies || (i == 0 && node.op == Operator::divide);
    if (number == Number{0, 0} && node.kind == NodeKind::operation && is_factor)
      return leaves_zero(call, i, where) ? Number{0, 0} : not_known;
    if (number == Number{1, 1} && node.kind == NodeKind::operation && node.op == Operator::either)
      return Number{1, 1};
    all &= number.has_value();
    if (number) numbers.push_back(*number);
  }
  if (node.builtin && node.builtin->chooses) {
    const Number which = number_at(call, 0, where).value_or(not_known);
    if (which.is_known()) return number_at(call, which.f64 != 0 ? 1 : 2, where);
    const auto a = number_at(call, 1, where), b = number_at(call, 2, where);
    return a == b ? a : std::nullopt;
  }
  if (!all) return {};
  return compute(node, numbers);
}

}  // namespace

double number_of(const Node& node) {
  if (node.kind == NodeKind::number) return node.number;
  if (node.kind != NodeKind::operation) return unknown;
  const double a = number_of(node.args[0]);
  const double b = node.args.size() > 1 ? number_of(node.args[1]) : 0;
  return operate_known(node.op, a, b);
}

bool holds(const std::vector<Hidden>& all, const Hidden& hidden) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Hidden& known) { return known.same_pair(hidden); });
}

void FlowFinder::compute_hidden(const CallFlow& call, ValueFlow& out) const {
  const Node& node = call.node;
  if (node.constant) return;
  const bool computes = node.kind == NodeKind::operation || (node.builtin && node.builtin->apply);
  if (!computes) return;
  out.hidden = hidden_by_positions(*this, node);
  std::erase_if(out.hidden, [&](const Hidden& h) { return crosses(h.query, h.memory.axis); });
  for (const ValueFlow& arg : call.args)
    for (const Hidden& where : arg.hidden) {
      if (holds(out.hidden, where)) continue;
      if (const std::optional<Number> number = result_at(call, where))
        out.hidden.push_back({where.query, where.memory, number->f64, number->f32});
    }
}

void FlowFinder::hide_by_mask(const Names& names, int dim, ValueFlow& out) const {
  const AxisPair pair = masked_pair(names, dim, program_.dimensions);
  if (pair.query >= 0 && is_causal_pair(pair, program_.dimensions, apart_))
    out.hidden.push_back({pair.query, {pair.memory}, 0});
  const int padded = pair.memory >= 0 ? pair.memory : dim;
  if (program_.dimensions[padded].role != Role::none)
    out.hidden.push_back({Hidden::padding, {padded}, 0});
}

// ---- Positions ----------------------------------------------------------------------------------

namespace {

// late - early + number, of two positions
struct Distance {
  Clock late = {-1}, early = {-1};
  double number = 0;
  bool is_known = true;

  void add(const Clock& position, double sign) {
    Clock& free = sign > 0 ? late : early;
    if (free.axis >= 0) is_known = false;
    free = position;
  }
};

// True if sums of positions and such numbers are exact in f32: quarters, up to a million.
bool is_exact(double number) {
  return std::abs(number) <= 1 << 20 && std::floor(4 * number) == 4 * number;
}

void add(const FlowFinder& finder, const Node& node, double sign, Distance& distance) {
  const bool sums = node.op == Operator::add || node.op == Operator::subtract;
  if (node.constant) {
    const double number = number_of(node);
    distance.number += sign * number;
    distance.is_known &= is_exact(number);
  } else if (node.builtin && node.builtin->is_position) {
    distance.add({node.names[0]}, sign);
  } else if (const Clock found = finder.found_by(node); found.axis >= 0) {
    distance.add(found, sign);
  } else if (node.kind == NodeKind::operation && sums) {
    add(finder, node.args[0], sign, distance);
    add(finder, node.args[1], node.op == Operator::add ? sign : -sign, distance);
  } else {
    distance.is_known = false;
  }
}

// a // 2 < b // 2 only if a < b, and a <= b only if a // 2 <= b // 2.
bool divides_alike(const Node& a, const Node& b) {
  const auto divides = [](const Node& x) {
    return x.kind == NodeKind::operation && x.op == Operator::floor_divide &&
           number_of(x.args[1]) > 0;
  };
  return divides(a) && divides(b) && number_of(a.args[1]) == number_of(b.args[1]);
}

}  // namespace

// True if it is made of a position by what leads to no number below 0.
static bool is_never_negative(const Node& node) {
  if (node.builtin && node.builtin->is_position) return true;
  if (node.builtin && node.builtin->clips) return number_of(node.args[1]) >= 0;
  if (node.kind != NodeKind::operation || node.args.size() != 2) return false;
  const bool divides = node.op == Operator::floor_divide && is_never_negative(node.args[0]);
  return (divides || node.op == Operator::modulo) && number_of(node.args[1]) >= 1;
}

// A remainder of what is below 0 is not.
int latest_position(const Node& node) {
  if (node.builtin && node.builtin->is_position) return node.names[0];
  if (node.builtin && node.builtin->clips && number_of(node.args[1]) <= 0)
    return latest_position(node.args[0]);
  if (node.kind != NodeKind::operation || node.args.size() != 2) return -1;
  const double number = number_of(node.args[1]);
  const bool lowers =
      (node.op == Operator::subtract && number >= 0) ||
      (node.op == Operator::floor_divide && number >= 1) ||
      (node.op == Operator::modulo && number >= 1 && is_never_negative(node.args[0]));
  return lowers && node.args[1].constant ? latest_position(node.args[0]) : -1;
}

std::vector<Hidden> hidden_by_positions(const FlowFinder& finder, const Node& comparison) {
  if (comparison.kind != NodeKind::operation || comparison.args.size() != 2) return {};
  const Operator op = comparison.op;
  const bool strict = op == Operator::less || op == Operator::greater,
             at_least = op == Operator::greater || op == Operator::greater_equal,
             at_most = op == Operator::less || op == Operator::less_equal,
             compares_equal = op == Operator::equal || op == Operator::unequal;
  if (!at_most && !at_least && !compares_equal) return {};
  const Node *a = &comparison.args[0], *b = &comparison.args[1];
  const bool divides = divides_alike(*a, *b) && !compares_equal;
  if (divides) a = &a->args[0], b = &b->args[0];
  Distance distance;  // between the sides: an order is true where it is at most 0
  add(finder, *a, at_least ? -1 : 1, distance);
  add(finder, *b, at_least ? 1 : -1, distance);
  const auto& [late, early, added, is_known] = distance;
  if (!is_known || late.axis < 0 || early.axis < 0) return {};
  const double number = added + (strict ? 1 : 0), apart = op == Operator::unequal;
  const Hidden later{early.axis, late, apart},
      earlier{late.axis, early, compares_equal ? apart : 1};
  std::vector<Hidden> hidden;
  if (number >= 0 && early.found < 0 && (strict || !divides)) hidden.push_back(later);
  if (number <= (compares_equal ? 0 : 1) && late.found < 0 && !(strict && divides))
    hidden.push_back(earlier);
  return hidden;
}

}  // namespace tete
