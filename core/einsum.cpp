// einsum: a pattern, checked against its operands, and then contractions in the cheapest order.
#include "core/ops.hpp"

namespace tete {

Tensor einsum(const Pattern& pattern, const Tensors& operands) {
  std::vector<Shape> shapes;
  std::vector<Dtype> dtypes;
  for (const Tensor& operand : operands) {
    shapes.push_back(operand.shape());
    dtypes.push_back(operand.dtype());
    if (operand.dtype() != operands[0].dtype() || !is_real(operand.dtype()))
      bad_input("einsum: '", pattern.text(), "' needs operands of one real type, got ",
                name_of(operands[0].dtype()), " and ", name_of(operand.dtype()));
  }
  if (!pattern.has_result())
    bad_input("einsum: '", pattern.text(), "' lacks '->' and the result's names");
  reject_marks("einsum", pattern);
  bind_sizes("einsum", pattern, shapes, dtypes);
  std::vector<Operand> labelled;
  for (size_t i = 0; i < operands.size(); ++i)
    labelled.push_back({operands[i], Pattern::labels(pattern.operand(static_cast<int>(i)))});
  return contract_all(labelled, Pattern::labels(pattern.result()));
}

}  // namespace tete
