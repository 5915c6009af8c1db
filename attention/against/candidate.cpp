#include "attention/against/candidate.hpp"

#include <algorithm>
#include <cmath>

#include "attention/against/precision.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

constexpr std::string_view gradient_of = "grad:";

Tensor in_double(const Tensor& x) { return is_real(x.dtype()) ? cast(x, Dtype::f64) : x; }

// "[batch, n, m, h]", or in another order.
std::string axes_name(const Checked& program, int value, int rank, const Axes& order) {
  const auto name = [&](int axis) { return axis_name(program, value, rank, axis); };
  return "[" + list_of(order.empty() ? all_axes(rank) : order, name) + "]";
}

// The order of axes that makes one shape of another, if there is exactly one: no two sizes are
// equal.
Axes only_order(const Shape& from, const Shape& to) {
  if (!std::is_permutation(from.begin(), from.end(), to.begin(), to.end())) return {};
  Axes order;
  for (Index size : to) {
    if (std::count(from.begin(), from.end(), size) > 1) return {};
    order.push_back(from.find(size));
  }
  return order;
}

// Checks the shape against `like`'s. Permutes axes that are in another order if only one order
// fits.
bool fit(const Checked& program, Compared& c, const Tensor& like) {
  if (!is_real(c.theirs.dtype())) c.theirs = cast(c.theirs, Dtype::f64);
  const Tensor& x = c.theirs;
  if (x.shape() == like.shape()) return true;
  c.shape = text("has shape ", x.shape(), ", expected ", like.shape(), " = ",
                 axes_name(program, c.value, like.rank(), {}));
  const Axes order = only_order(x.shape(), like.shape());
  if (order.empty()) return false;
  c.shape += text("; it looks like ", axes_name(program, c.value, like.rank(), inverse(order)));
  c.theirs = permute(x, order);
  return true;
}

// True if a node reads the value as it is or by elementwise functions alone.
bool reads_elementwise(const Node& node, int value) {
  if (node.kind == NodeKind::value) return node.index == value && node.plain;
  const bool is_elementwise =
      node.kind == NodeKind::operation || (node.builtin && node.builtin->apply);
  return is_elementwise && std::any_of(node.args.begin(), node.args.end(), [&](const Node& arg) {
           return reads_elementwise(arg, value);
         });
}

// True if a softmax that takes the call's mask reads the value so.
bool enters_masked_softmax(const Checked& program, int value) {
  bool found = false;
  for (const CheckedValue& v : program.values) {
    if (v.kind == ValueKind::same && v.index == value)
      found |= enters_masked_softmax(program, static_cast<int>(&v - program.values.data()));
    visit(v.right, [&](const Node& node) {
      found |= node.takes_call_mask && reads_elementwise(node.args[0], value);
    });
  }
  return found;
}

// True for the entries of x, row-major, that the mask hides, if x is a large negative number in all
// of them: logits that were saved with the mask applied. Their softmax ignores these entries.
// Otherwise empty.
std::vector<bool> masked_already(const Candidate& candidate, int value, const Tensor& x) {
  constexpr double very_negative = -9e3;  // -10000 in bfloat16 is -9984
  if (candidate.options.mask.hides_nothing() || !enters_masked_softmax(*candidate.program, value))
    return {};
  const std::vector<double> all = x.values(),
                            seen = visible_like(x, candidate.value(value).dims, *candidate.text)
                                       .values();
  std::vector<bool> hidden(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    if (seen[i] != 0) continue;
    if (!(all[i] <= very_negative)) return {};
    hidden[i] = true;
  }
  return hidden;
}

class CandidateReader {
 public:
  CandidateReader(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
                  const AgainstOptions& options)
      : tensors_(tensors), stored_bits_(options.stored_bits) {
    candidate_.program = std::move(program);
    candidate_.options.sizes = options.sizes;
    candidate_.options.mask = options.mask;
  }

  Candidate read() {
    read_arguments();
    candidate_.text =
        std::make_shared<Evaluation>(candidate_.program, candidate_.arguments, candidate_.options);
    for (int i = 0; i < candidate_.count(); ++i) read_value(i);
    for (int i : given_gradients()) read_gradient(i);
    if (candidate_.compared.empty())
      bad_input("there is nothing to compare: of what '", program().name,
                "' computes, none was given; expected any of ", names_of_statements());
    for (Compared& c : candidate_.compared) find_statements(c);
    return std::move(candidate_);
  }

 private:
  const Checked& program() const { return *candidate_.program; }
  bool is_given(const std::string& name) const { return tensors_.contains(name); }
  std::string gradient_name(int i) const { return std::string(gradient_of) + candidate_.name(i); }

  void read_arguments() {
    for (int i = 0; i < candidate_.count(); ++i) {
      const std::string& name = candidate_.name(i);
      const bool fresh = numbers_.try_emplace(name, i).second;
      if (!fresh || !candidate_.is_argument(i) || !is_given(name)) continue;
      candidate_.arguments[name] = in_double(tensors_.at(name));
      refuse_nan(name, i, candidate_.arguments[name]);
    }
    for (const auto& [name, x] : tensors_) {
      const std::string of = name.starts_with(gradient_of) ? name.substr(gradient_of.size()) : name;
      if (!numbers_.contains(of)) candidate_.unknown.push_back(name);
    }
  }

  // Values computed from a NaN are NaN, so a comparison would say nothing.
  void refuse_nan(const std::string& name, int value, const Tensor& x) const {
    if (!is_real(x.dtype())) return;
    const std::vector<double> all = x.values();
    const auto nan = std::find_if(all.begin(), all.end(), [](double n) { return std::isnan(n); });
    if (nan == all.end()) return;
    const std::string entry = entry_name(program(), value, x.shape(), nan - all.begin());
    bad_input("'", name, "' is NaN at ", entry.substr(entry.find('[')),
              ": expected numbers, as all is computed from it");
  }

  // The tensor of this name, its precision, and whether it fits the text's.
  Compared compared(int value, bool gradient, const std::string& name, const Tensor& like) {
    Compared c{.value = value, .gradient = gradient, .theirs = in_double(tensors_.at(name))};
    if (!fit(program(), c, like)) return c;
    (gradient ? candidate_.gradients : candidate_.values)[value] = c.theirs;
    const auto stored = stored_bits_.find(name);
    if (candidate_.value(value).element == Element::real)
      c.bits = bits_shown(tensors_.at(name), stored == stored_bits_.end() ? 0 : stored->second);
    return c;
  }

  void read_value(int i) {
    const std::string& name = candidate_.name(i);
    const Tensor ours = candidate_.text->value(i);  // fails as a run does, whatever was given
    if (candidate_.is_argument(i) || !is_given(name) || numbers_.at(name) != i) return;
    Compared c = compared(i, false, name, ours);
    if (c.theirs.shape() == ours.shape()) c.ignored = masked_already(candidate_, i, c.theirs);
    candidate_.compared.push_back(std::move(c));
  }

  void read_gradient(int i) {
    const std::string name = gradient_name(i);
    if (candidate_.value(i).element != Element::real)
      bad_input("'", name, "': whole numbers and truth values have no gradient");
    const Tensor like = candidate_.is_argument(i) ? candidate_.arguments.at(candidate_.name(i))
                                                  : candidate_.text->value(i);
    Compared c = compared(i, true, name, like);
    if (i != program().result) return candidate_.compared.push_back(std::move(c));
    if (!candidate_.gradients.contains(i)) bad_input("the cotangent '", name, "' ", c.shape);
    refuse_nan(name, i, c.theirs);
  }

  // The values whose gradients were given, in backward's order: a gradient is complete when
  // backward has passed the value's first use.
  std::vector<int> given_gradients() const {
    std::vector<int> of;
    for (int i = 0; i < candidate_.count(); ++i)
      if (numbers_.at(candidate_.name(i)) == i && is_given(gradient_name(i))) of.push_back(i);
    const int result = program().result;
    if (!of.empty() && !std::count(of.begin(), of.end(), result))
      bad_input("there are gradients, but not the cotangent '", gradient_name(result),
                "' that they come from; after ", candidate_.name(result),
                ".sum().backward() it is all ones");
    std::stable_sort(of.begin(), of.end(),
                     [&](int a, int b) { return first_use(a) > first_use(b); });
    return of;
  }
  int first_use(int i) const {
    for (int s = i + 1; s < candidate_.count(); ++s) {
      const std::vector<int>& uses = candidate_.value(s).uses;
      if (std::count(uses.begin(), uses.end(), i) > 0) return s;
    }
    return candidate_.count();
  }

  void find_statements(Compared& c) const {
    const auto ends = [&](int i) {
      if (i == c.value) return false;
      return c.gradient ? candidate_.cuts_backward(i)
                        : candidate_.is_argument(i) || candidate_.values.contains(i);
    };
    std::vector<bool> met = candidate_.marked({c.value});
    (c.gradient ? mark_results : mark_sources)(program(), met, ends);
    for (int i = 0; i < candidate_.count(); ++i) {
      if (!met[i] || (c.gradient && i == c.value)) continue;
      (c.gradient || !ends(i) ? c.statements : c.operands).push_back(i);
    }
    if (!c.gradient) return;
    for (int s : c.statements)
      for (int used : candidate_.value(s).uses)
        if (used != c.value && !std::count(c.operands.begin(), c.operands.end(), used))
          c.operands.push_back(used);
  }

  std::string names_of_statements() const {
    std::vector<std::string> names;
    for (int i = 0; i < candidate_.count(); ++i) {
      const CheckedValue& v = candidate_.value(i);
      if (v.kind == ValueKind::statement && v.watched) names.push_back(candidate_.name(i));
    }
    return list_of(names);
  }

  const TensorsByName& tensors_;
  const std::map<std::string, int>& stored_bits_;
  Candidate candidate_;
  std::map<std::string, int> numbers_;  // values' numbers, by the names that callers use
};

}  // namespace

int Candidate::renamed_argument(int number) const {
  while (value(number).kind == ValueKind::same) number = value(number).index;
  return is_argument(number) ? number : -1;
}

std::vector<bool> Candidate::marked(const std::vector<int>& numbers) const {
  std::vector<bool> all(program->values.size());
  for (int i : numbers) all[i] = true;
  return all;
}

Candidate read_candidate(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
                         const AgainstOptions& options) {
  return CandidateReader(std::move(program), tensors, options).read();
}

Tensor visible_like(const Tensor& x, const Names& dims, Evaluation& run) {
  const Tensor seen = run.visible(dims);
  return expand(seen, all_axes(x.rank() - seen.rank()), x.shape());
}

Distance distance(const std::vector<double>& x, const std::vector<double>& y,
                  const std::vector<bool>& left_out) {
  Distance found;
  double squares = 0, count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!left_out.empty() && left_out[i]) continue;
    ++count;
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double difference = std::abs(x[i] - y[i]);
    const double apart = std::isfinite(difference) ? difference : INFINITY;
    if (apart > found.farthest) found.farthest = apart, found.at = i;
    squares += apart * apart;
  }
  if (count > 0) found.rms = std::sqrt(squares / count);
  return found;
}

double largest_of(const std::vector<double>& numbers) {
  double most = 0;
  for (double x : numbers)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

Factor factor_of(const Compared& c) {
  const std::vector<double> x = c.theirs.values(), y = c.from_operands.tensor.values();
  double xx = 0, xy = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && (c.ignored.empty() || !c.ignored[i]))
      xx += x[i] * x[i], xy += x[i] * y[i], yy += y[i] * y[i];
  const double factor = xy / yy, squares = xx / yy - factor * factor;
  return {factor, squares > 0 ? std::sqrt(squares) : 0};
}

}  // namespace tete
