// The optimizers' table, and how values keep their place in memory.
#include "train/optimizer.hpp"

#include <algorithm>

#include "core/fused.hpp"

namespace tete {

const std::vector<OptimizerRow>& optimizers() {
  static const std::vector<OptimizerRow> rows = {
      {"adafactor", "factored second moments, steps relative to the parameter (as in T5)",
       "inverse_sqrt", 0,
       [](const auto& specs, Dtype dtype, Backend& on) { return adafactor(specs, dtype, on); }},
      {"adam", "two moments, decoupled weight decay of matrices (AdamW, as in PyTorch)", "cosine",
       1, [](const auto& specs, Dtype dtype, Backend& on) { return adam(specs, {}, dtype, on); }},
  };
  return rows;
}

const OptimizerRow& find_optimizer(std::string_view name) {
  return row_named("optimizer", name, optimizers());
}

size_t bytes_of(const NamedTensors& tensors) {
  size_t bytes = 0;
  for (const NamedTensor& tensor : tensors)
    bytes += size_of(tensor.value.dtype()) * static_cast<size_t>(tensor.value.size());
  return bytes;
}

void Optimizer::set_state(size_t i, const Tensor& whole) {
  state[i].value = laid_out_like(whole, state[i].value);
}

EffectiveRate summarize_rates(std::vector<double> rates) {
  if (rates.empty()) return {};
  std::sort(rates.begin(), rates.end());
  return {rates.front(), rates[rates.size() / 2], rates.back()};
}

Tensor laid_out_like(const Tensor& value, const Tensor& like) {
  if (&value.backend() != &like.backend()) return laid_out_like(value.to(like.backend()), like);
  if (!value.tracked() && value.strides() == like.strides()) return value;
  if (value.strides() == like.strides()) return value.detach();
  const Tensor y = Tensor::empty_like(like, value.dtype());
  copy_onto(value, y);
  return y;
}

}  // namespace tete
