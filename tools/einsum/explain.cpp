#include "tools/einsum/explain.hpp"

namespace tete {

namespace {

// A label's name; dimensions that '...' stands for have none, and are numbered from the right.
std::string name_of(const Pattern& pattern, Label label) {
  if (label < pattern.name_count()) return std::string(pattern.name(label));
  return text("...", label - pattern.name_count());
}

// "A[b n d]": by names where it is known which is which, else by sizes.
std::string written(const Pattern& pattern, const KernelCall::Place& place) {
  std::string all;
  for (int i = 0; i < place.shape.size(); ++i) {
    const std::string dimension =
        place.labels.empty() ? text(place.shape[i]) : name_of(pattern, place.labels[i]);
    all += (i ? " " : "") + dimension;
  }
  return place.name + "[" + all + "]";
}

std::string written(const Pattern& pattern, const KernelCall& call) {
  const auto one = [&](const auto& place) { return written(pattern, place); };
  return list_of(std::span(call.operands).first(call.operands.size() - 1), one) + " -> " +
         one(call.operands.back());
}

std::string letter(size_t i) { return std::string(1, static_cast<char>('A' + i)); }

// The plan of the value where wanted < 0, else of the gradient of that operand.
EinsumPlan rehearse(const Pattern& pattern, const Tensors& operands, const EinsumOptions& options,
                    int wanted) {
  Rehearsal rehearsal;
  Tensors stand_ins;
  for (size_t i = 0; i < operands.size(); ++i) {
    stand_ins.push_back(rehearsal.like(operands[i], letter(i)));
    if (static_cast<int>(i) == wanted) stand_ins.back() = stand_ins.back().variable();
  }
  EinsumPlan plan;
  const std::string result = wanted < 0 ? "Y" : "d" + letter(static_cast<size_t>(wanted));
  plan.of = wanted < 0 ? "value" : "gradient of " + letter(static_cast<size_t>(wanted));
  const Tensor y = einsum(pattern, stand_ins, options);
  if (wanted >= 0) {
    const Tensor g = rehearsal.tensor(y.shape(), y.dtype(), "dY");
    rehearsal.forget_calls();
    grad(y, Tensors{stand_ins[wanted]}, {.cotangent = g});
  }
  std::vector<KernelCall> calls = rehearsal.calls();
  if (!calls.empty()) calls.back().operands.back().name = result;
  for (const KernelCall& call : calls) {
    plan.steps.push_back({written(pattern, call), call});
    plan.multiplies += call.multiplies;
  }
  plan.peak_bytes = rehearsal.peak_bytes();
  return plan;
}

}  // namespace

std::vector<EinsumPlan> explain_einsum(const Pattern& pattern, const Tensors& operands,
                                       const EinsumOptions& options) {
  const double naive = naive_multiplies(pattern, operands);
  std::vector<EinsumPlan> plans;
  for (int wanted = -1; wanted < static_cast<int>(operands.size()); ++wanted) {
    plans.push_back(rehearse(pattern, operands, options, wanted));
    plans.back().naive_multiplies = naive;
  }
  return plans;
}

}  // namespace tete
