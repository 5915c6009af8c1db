// A fused operation's gradient is its kernel, unless the gradient will be differentiated again:
// then it is `again` or, without one, the gradient of the meaning, which consists of operations
// that have gradients themselves.
#include "core/fused.hpp"

#include "core/ops.hpp"

namespace tete {

namespace {

bool differentiated_again(const Backward& at) {
  bool tracked = at.g.tracked();
  for (const Tensor& in : at.in) tracked |= in && in.tracked();
  return tracked;
}

// Computes f again and takes its gradients at the inputs. Inputs may depend on each other; aliases
// and new variables do not, so each partial gradient stays apart.
Tensors gradient_of(const std::function<Tensor(const Tensors&)>& f, const Backward& at) {
  const auto apart = [&](size_t i) {
    const Tensor& in = at.in[i];
    return in && in.tracked() ? alias(in) : at.wants(i) ? in.variable() : in;
  };
  Tensors inputs, asked;
  std::vector<size_t> place;
  for (size_t i = 0; i < at.in.size(); ++i) {
    inputs.push_back(apart(i));
    if (at.wants(i)) asked.push_back(inputs.back()), place.push_back(i);
  }
  const Tensors found =
      grad(f(inputs), asked, {.cotangent = at.g, .keep_graph = differentiated_again(at)});
  Tensors gradients(at.in.size());
  for (size_t i = 0; i < place.size(); ++i) gradients[place[i]] = found[i];
  return gradients;
}

// A fused operation's gradient rule. It has a type of its own so that meaning_of finds it.
struct FusedRule {
  Vjp gradient;
  Vjp again;
  std::function<Tensor(const Tensors&)> meaning;

  Tensors operator()(const Backward& at) const {
    if (!differentiated_again(at)) return gradient(at);
    return again ? again(at) : gradient_of(meaning, at);
  }
};

}  // namespace

Tensor alias(const Tensor& x) {
  if (!x.tracked()) return x;
  return record(
      "alias", x.window(x.shape(), x.strides()), {x},
      [](const Backward& at) -> Tensors { return {at.g}; }, saves_nothing);
}

void copy_onto(const Tensor& x, const Tensor& y) { y.backend().copy(x.view(), y.view()); }
void add_onto(const Tensor& x, const Tensor& y) {
  if (!y.backend().accumulate(x.view(), y.view())) copy_onto(y.detach() + x.detach(), y);
}

Tensor fused(const Fused& op, Tensors inputs, CodeLine rule) {
  check_one_device(op.name, inputs);
  Tensors untracked;
  for (const Tensor& in : inputs) untracked.push_back(in ? in.detach() : in);
  FusedValue result = op.value(untracked);
  if (!result.y) return op.meaning(inputs);
  return record(op.name, std::move(result.y), std::move(inputs),
                FusedRule{op.gradient, op.again, op.meaning}, std::move(result.kept), rule,
                op.saved);
}

Tensor recomputed(const std::function<Tensor(const Tensors&)>& f, Tensors inputs, CodeLine rule) {
  const auto gradient = [f](const Backward& at) { return gradient_of(f, at); };
  const auto value = [f](const Tensors& in) { return FusedValue{f(in)}; };
  return fused({"recomputed", value, gradient, f, saves_inputs}, std::move(inputs), rule);
}

Tensor meaning_of(const Tensor& made, std::span<const Tensor> known) {
  const Record* const record = made.made_by();
  const FusedRule* const rule = record ? record->vjp.target<FusedRule>() : nullptr;
  return rule ? rule->meaning(with_storage(record->inputs, known)) : Tensor();
}

}  // namespace tete
