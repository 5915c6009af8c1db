#include "tools/admin.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "nn/language/check.hpp"
#include "tools/inspect/places.hpp"
#include "tools/model.hpp"

namespace tete {

namespace {

// The paths of what a scaled residual is made of.
struct Scaled {
  std::string x, omega, stack;
};

// The factor of a product that is a parameter, or that is none; nullptr if there is none.
const Node* factor_of(const Checked& program, const Node& product, bool is_parameter) {
  for (const Node& factor : product.args)
    if (is_plain_value(factor) &&
        (program.values[factor.index].kind == ValueKind::parameter) == is_parameter)
      return &factor;
  return nullptr;
}

bool is_operation(const Node& node, Operator op) {
  return node.kind == NodeKind::operation && node.op == op;
}

// They are found by the path of the statement.
std::map<std::string, Scaled> scaled_residuals(const Model& model) {
  std::map<std::string, Scaled> all;
  for (const SitePlace& block : blocks_of(model)) {
    const Checked& program = *block.program;
    for (size_t i = 0; i < program.values.size(); ++i) {
      const Node& right = program.values[i].right;
      if (program.values[i].kind != ValueKind::statement || !is_operation(right, Operator::add) ||
          !is_operation(right.args[0], Operator::multiply))
        continue;
      const Node* omega = factor_of(program, right.args[0], true);
      const Node* x = factor_of(program, right.args[0], false);
      if (!omega || !x || !sources_of(right.args[1], program.flow).inputs) continue;
      const CheckedParameter& p = program.parameters[program.values[omega->index].index];
      if (p.start->kind == InitializerKind::ones)
        all[path_of(block, static_cast<int>(i))] = {path_of(block, x->index),
                                                    block.path + "/" + p.name, block.stack};
    }
  }
  return all;
}

// A scale that repetitions share is in the list without their numbers, and no pass sets it.
int index_of(const Model& model, const std::string& omega) {
  const int at = model.params().find(omega);
  if (at < 0)
    bad_input("--init admin: each repetition needs a scale of its own, but they share '",
              without_numbers(omega), "'");
  return at;
}

double variance(const Tensor& x) {
  const Tensor all = cast(x.detach(), Dtype::f64);
  const double middle = mean(all).item();
  return mean(square(all)).item() - middle * middle;
}

}  // namespace

void profile_scales(const Model& model, const Batch& batch, double dropout, Key key,
                    Tensors& values) {
  const std::map<std::string, Scaled> residuals = scaled_residuals(model);
  if (residuals.empty())
    bad_input("--init admin: no block of '", model.program().name, "' has residuals with a scale, ",
              "as nn/blocks/admin.tete has: B[n, d_X] = omega[d_X] * X[n, d_X] + …, where omega ",
              "starts at ones()");
  std::map<std::string, Tensor> seen;    // by path
  std::map<std::string, double> scales;  // the next of each stack
  Forward forward{.params = values, .training = true, .dropout = dropout, .key = key};
  forward.watch = [&](const std::string& path, const Tensor& x) { seen[path] = x; };
  forward.watched = [&](const std::string& path) {
    return std::any_of(residuals.begin(), residuals.end(),
                       [&](const auto& each) { return each.second.x == path; });
  };
  Tensors made = values;
  forward.replaced = [&](const std::string& path) { return residuals.contains(path); };
  forward.replace = [&](const std::string& path, const Tensor& sum) {
    const Scaled& residual = residuals.at(path);
    const auto at = static_cast<size_t>(index_of(model, residual.omega));
    // The pass runs with scales of one, so the sum is x + f; x is offered before it.
    double& scale = scales.try_emplace(residual.stack, 1).first->second;
    const Tensor x = seen.at(residual.x), f = sum - x, scaled = x * scale;
    made[at] = Tensor::full(made[at].shape(), scale, made[at].dtype(), made[at].backend());
    scale = std::sqrt(variance(scaled) + variance(f));
    return scaled + f;
  };
  model.logits(forward, inputs_of(model.kind(), batch));
  values = std::move(made);
}

}  // namespace tete
