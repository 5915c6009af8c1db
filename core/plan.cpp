#include "core/plan.hpp"

#include <bit>
#include <limits>

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

struct Problem {
  std::vector<LabelSet> operands;
  LabelSet result;
  const Sizes& sizes;

  // What is left of the product of a subset of operands: the labels that others need.
  LabelSet kept(uint32_t subset) const {
    LabelSet inside = 0, outside = result;
    for (size_t i = 0; i < operands.size(); ++i)
      (subset >> i & 1 ? inside : outside) |= operands[i];
    return inside & outside;
  }
};

// cheapest[subset] = min over its splits into two of the cost of both parts and of their product.
class ExactSearch {
 public:
  explicit ExactSearch(const Problem& problem)
      : problem_(problem), cost_(size_t{1} << problem.operands.size()), split_(cost_.size()) {
    for (uint32_t subset = 1; subset < cost_.size(); ++subset) search(subset);
  }

  Plan plan() {
    made_ = static_cast<int>(problem_.operands.size());
    emit(static_cast<uint32_t>(cost_.size()) - 1);
    return std::move(plan_);
  }

 private:
  void search(uint32_t subset) {
    if (std::has_single_bit(subset)) return;
    cost_[subset] = std::numeric_limits<double>::infinity();
    // Each split once: the part with the subset's lowest operand, then the rest.
    const uint32_t lowest = subset & -subset;
    for (uint32_t part = (subset - 1) & subset; part; part = (part - 1) & subset) {
      if (!(part & lowest)) continue;
      const double cost = cost_[part] + cost_[subset ^ part] + multiplies(part, subset ^ part);
      if (cost < cost_[subset]) cost_[subset] = cost, split_[subset] = part;
    }
  }

  double multiplies(uint32_t a, uint32_t b) const {
    return product(labels_left(a) | labels_left(b), problem_.sizes);
  }
  LabelSet labels_left(uint32_t subset) const {
    return std::has_single_bit(subset)
               ? problem_.operands[static_cast<size_t>(std::countr_zero(subset))]
               : problem_.kept(subset);
  }

  int emit(uint32_t subset) {
    if (std::has_single_bit(subset)) return std::countr_zero(subset);
    const uint32_t part = split_[subset];
    const int a = emit(part), b = emit(subset ^ part);
    const double cost = multiplies(part, subset ^ part);
    plan_.steps.push_back({a, b, labels_of(problem_.kept(subset)), cost});
    plan_.multiplies += cost;
    return made_++;
  }

  const Problem& problem_;
  std::vector<double> cost_;
  std::vector<uint32_t> split_;
  Plan plan_;
  int made_ = 0;
};

Plan greedy(const Problem& problem) {
  struct Live {
    int number;
    LabelSet labels;
  };
  std::vector<Live> live;
  for (size_t i = 0; i < problem.operands.size(); ++i)
    live.push_back({static_cast<int>(i), problem.operands[i]});
  Plan plan;
  for (int made = static_cast<int>(live.size()); live.size() > 1; ++made) {
    size_t best_a = 0, best_b = 1;
    double best = std::numeric_limits<double>::infinity();
    for (size_t a = 0; a < live.size(); ++a)
      for (size_t b = a + 1; b < live.size(); ++b)
        if (const double cost = product(live[a].labels | live[b].labels, problem.sizes);
            cost < best)
          best = cost, best_a = a, best_b = b;
    LabelSet needed = problem.result;
    for (size_t i = 0; i < live.size(); ++i)
      if (i != best_a && i != best_b) needed |= live[i].labels;
    const LabelSet left = (live[best_a].labels | live[best_b].labels) & needed;
    plan.steps.push_back({live[best_a].number, live[best_b].number, labels_of(left), best});
    plan.multiplies += best;
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(best_b));
    live[best_a] = {made, left};
  }
  return plan;
}

}  // namespace

Plan plan(const std::vector<Labels>& operands, const Labels& result, const Sizes& sizes) {
  Problem problem{{}, set_of(result), sizes};
  LabelSet all = problem.result;
  for (const Labels& labels : operands) {
    problem.operands.push_back(set_of(labels));
    all |= problem.operands.back();
  }
  Plan made = operands.size() < 2    ? Plan{}
              : operands.size() <= 8 ? ExactSearch(problem).plan()
                                     : greedy(problem);
  made.naive_multiplies = product(all, sizes);
  return made;
}

}  // namespace tete
