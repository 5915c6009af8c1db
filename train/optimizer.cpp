// What all optimizers share: their table, and how values keep their place in memory.
#include "train/optimizer.hpp"

#include <algorithm>

namespace tete {

const std::vector<OptimizerRow>& optimizers() {
  static const std::vector<OptimizerRow> rows = {
      {"adafactor", "factored second moments, steps relative to the parameter (T5)", "inverse_sqrt",
       0, [](const auto& specs, Dtype dtype) { return adafactor(specs, dtype); }},
      {"adam", "AdamW: two moments, decoupled weight decay 0.1 on matrices (PyTorch)", "cosine", 1,
       [](const auto& specs, Dtype dtype) { return adam(specs, {}, dtype); }},
  };
  return rows;
}

const OptimizerRow& find_optimizer(std::string_view name) {
  std::vector<std::string> names;
  for (const OptimizerRow& row : optimizers()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  bad_input("unknown optimizer '", name, "'", suggestion(name, names),
            " (there are adafactor and adam)");
}

EffectiveRate summarize_rates(std::vector<double> rates) {
  if (rates.empty()) return {};
  std::sort(rates.begin(), rates.end());
  return {rates.front(), rates[rates.size() / 2], rates.back()};
}

Tensor laid_out_like(const Tensor& value, const Tensor& like) {
  if (!value.tracked() && value.strides() == like.strides()) return value;
  if (value.strides() == like.strides()) return value.detach();
  Tensor y = Tensor::empty_like(like, value.dtype());
  y.backend().copy(value.view(), y.view());
  return y;
}

}  // namespace tete
