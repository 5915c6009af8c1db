#include "core/plan.hpp"

#include <bit>
#include <string>

#include "core/cache.hpp"

namespace tete {

namespace {

using LabelSet = uint64_t;

LabelSet set_of(const Labels& labels) {
  LabelSet set = 0;
  for (Label label : labels) set |= LabelSet{1} << label;
  return set;
}

double product(LabelSet set, const Sizes& sizes) {
  double count = 1;
  for (; set; set &= set - 1)
    count *= static_cast<double>(sizes[static_cast<size_t>(std::countr_zero(set))]);
  return count;
}

Labels labels_of(LabelSet set) {
  Labels labels;
  for (; set; set &= set - 1) labels.push_back(static_cast<Label>(std::countr_zero(set)));
  return labels;
}

// An operand, or the result of a step: its number and its labels.
struct Factor {
  int number;
  LabelSet labels;
};

struct Problem {
  std::vector<Factor> factors;
  LabelSet result;
  const Sizes& sizes;
  double most_elements;  // of an intermediate
  Plan plan = {};
  int made = 0;  // the next number

  // Adds the step that multiplies a and b and keeps the labels `left`.
  Factor multiply(const Factor& a, const Factor& b, LabelSet left) {
    const double multiplies = product(a.labels | b.labels, sizes);
    plan.steps.push_back({a.number, b.number, labels_of(left), multiplies});
    plan.multiplies += multiplies;
    return {made++, left};
  }
};

// A label that one operand alone has is summed before any product.
void sum_private_labels(Problem& problem) {
  for (Factor& factor : problem.factors) {
    LabelSet needed = problem.result;
    for (const Factor& other : problem.factors)
      if (&other != &factor) needed |= other.labels;
    factor.labels &= needed;
  }
}

// cheapest[subset] = min over its splits into two of the cost of both parts and of their product.
class ExactSearch {
 public:
  explicit ExactSearch(Problem& problem)
      : problem_(problem),
        all_((uint32_t{1} << problem.factors.size()) - 1),
        kept_(all_ + 1),
        cost_(all_ + 1),
        split_(all_ + 1) {
    for (uint32_t subset = 1; subset <= all_; ++subset) kept_[subset] = kept(subset);
    for (uint32_t subset = 1; subset <= all_; ++subset) search(subset);
  }

  bool found() const { return cost_[all_] < no_limit; }
  void emit() { emit(all_); }

 private:
  // The labels that the product of a subset of factors keeps: those that others need.
  LabelSet kept(uint32_t subset) const {
    if (std::has_single_bit(subset)) return factor(subset).labels;
    LabelSet inside = 0, outside = problem_.result;
    for (size_t i = 0; i < problem_.factors.size(); ++i)
      (subset >> i & 1 ? inside : outside) |= problem_.factors[i].labels;
    return inside & outside;
  }
  const Factor& factor(uint32_t single) const {
    return problem_.factors[static_cast<size_t>(std::countr_zero(single))];
  }

  void search(uint32_t subset) {
    if (std::has_single_bit(subset)) return;
    cost_[subset] = no_limit;
    if (subset != all_ && product(kept_[subset], problem_.sizes) > problem_.most_elements) return;
    // Each split once: the part with the subset's lowest factor, then the rest.
    const uint32_t lowest = subset & -subset;
    for (uint32_t part = (subset - 1) & subset; part; part = (part - 1) & subset) {
      if (!(part & lowest)) continue;
      const double cost = cost_[part] + cost_[subset ^ part] +
                          product(kept_[part] | kept_[subset ^ part], problem_.sizes);
      if (cost < cost_[subset]) cost_[subset] = cost, split_[subset] = part;
    }
  }

  Factor emit(uint32_t subset) {
    if (std::has_single_bit(subset)) return factor(subset);
    const Factor a = emit(split_[subset]), b = emit(subset ^ split_[subset]);
    return problem_.multiply(a, b, kept_[subset]);
  }

  Problem& problem_;
  uint32_t all_;
  std::vector<LabelSet> kept_;
  std::vector<double> cost_;
  std::vector<uint32_t> split_;
};

// The cost that a greedy step minimises: multiplications, or memory allocated less memory freed.
enum class Greed { multiplies, memory };

// Joins the best pair whose product fits; false if none does.
bool join_best(Problem& problem, Greed greed) {
  std::vector<Factor>& live = problem.factors;
  double best = no_limit;
  size_t best_a = 0, best_b = 0;
  LabelSet best_left = 0;
  for (size_t a = 0; a < live.size(); ++a)
    for (size_t b = a + 1; b < live.size(); ++b) {
      LabelSet needed = problem.result;
      for (size_t i = 0; i < live.size(); ++i)
        if (i != a && i != b) needed |= live[i].labels;
      const LabelSet left = (live[a].labels | live[b].labels) & needed;
      const double size = product(left, problem.sizes);
      if (size > problem.most_elements) continue;
      const double cost = greed == Greed::multiplies
                              ? product(live[a].labels | live[b].labels, problem.sizes)
                              : size - product(live[a].labels, problem.sizes) -
                                    product(live[b].labels, problem.sizes);
      if (cost < best) best = cost, best_a = a, best_b = b, best_left = left;
    }
  if (best == no_limit) return false;
  live[best_a] = problem.multiply(live[best_a], live[best_b], best_left);
  live.erase(live.begin() + static_cast<std::ptrdiff_t>(best_b));
  return true;
}

constexpr size_t most_exact = 8;

// The plan; it has no steps if no order was found.
Plan solved(Problem problem, Greed greed) {
  while (problem.factors.size() > most_exact)
    if (!join_best(problem, greed)) return {};
  ExactSearch search(problem);
  if (!search.found()) return {};
  search.emit();
  return std::move(problem.plan);
}

}  // namespace

Plan plan(const std::vector<Labels>& operands, const Labels& result, const Sizes& sizes,
          double most_elements) {
  Problem problem{{}, set_of(result), sizes, most_elements};
  LabelSet all = problem.result;
  for (const Labels& labels : operands) {
    problem.factors.push_back({problem.made++, set_of(labels)});
    all |= problem.factors.back().labels;
  }
  sum_private_labels(problem);
  Plan best;
  if (operands.size() > 1) {
    best = solved(problem, Greed::multiplies);
    if (operands.size() > most_exact) {
      Plan other = solved(problem, Greed::memory);
      if (best.steps.empty() || (!other.steps.empty() && other.multiplies < best.multiplies))
        best = std::move(other);
    }
    if (best.steps.empty())
      fail(ErrorKind::resource, "einsum: every order of these ", operands.size(),
           " operands that was tried has an intermediate result of more than the ", most_elements,
           " elements that the memory limit allows");
  }
  best.naive_multiplies = product(all, sizes);
  return best;
}

namespace {

// Everything that a plan depends on, as one string.
std::string key_of(const std::vector<Labels>& operands, const Labels& result, const Sizes& sizes,
                   double most_elements) {
  std::string key;
  const auto add = [&key](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto add_labels = [&](const Labels& labels) {
    add(labels.size());
    for (Label label : labels) add(label), add(sizes[label]);
  };
  add(most_elements);
  add_labels(result);
  for (const Labels& labels : operands) add_labels(labels);
  return key;
}

}  // namespace

std::shared_ptr<const Plan> cached_plan(const std::vector<Labels>& operands, const Labels& result,
                                        const Sizes& sizes, double most_elements) {
  static auto* const plans = new Cache<Plan>(4096);
  return plans->get(key_of(operands, result, sizes, most_elements),
                    [&] { return plan(operands, result, sizes, most_elements); });
}

}  // namespace tete
