// Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019), as PyTorch
// computes it; t = 1, 2, … is the number of the step:
//   p = p - lr · λ · p                                    λ: weight decay, of matrices
//   m = β₁ m + (1-β₁) g,  v = β₂ v + (1-β₂) g²
//   p = p - lr / (1-β₁ᵗ) · m / (√v / √(1-β₂ᵗ) + ε)
#include <cmath>

#include "core/update.hpp"
#include "train/optimizer.hpp"

namespace tete {

namespace {

class Adam : public Optimizer {
 public:
  Adam(const std::vector<ParamSpec>& specs, const AdamOptions& options, Dtype dtype, Backend& on)
      : options_(options) {
    for (const ParamSpec& spec : specs) {
      first_.push_back(state.size());
      if (spec.fixed) continue;
      state.push_back({spec.name + "/m", Tensor::zeros(spec.shape, dtype, on)});
      state.push_back({spec.name + "/v", Tensor::zeros(spec.shape, dtype, on)});
    }
  }
  const char* name() const override { return "adam"; }

  void update(const std::vector<ParamSpec>& specs, Tensors& values, const Tensors& grads,
              double rate, int64_t step) override {
    const auto& [beta1, beta2, epsilon, weight_decay] = options_;
    const double t = static_cast<double>(step + 1);
    const double correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
    rate_ = {};
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].fixed || !grads[i]) continue;
      Tensor &m = state[first_[i]].value, &v = state[first_[i] + 1].value;
      const double keep = specs[i].shape.size() > 1 ? 1 - rate * weight_decay : 1;
      adam_update(values[i], grads[i], m, v,
                  {beta1, beta2, keep, rate / correction1, 1 / std::sqrt(correction2), epsilon});
      rate_ = {rate, rate, rate};
    }
  }
  EffectiveRate effective_rate() const override { return rate_; }

 private:
  AdamOptions options_;
  std::vector<size_t> first_;  // by parameter: where its moments begin
  EffectiveRate rate_;
};

}  // namespace

std::unique_ptr<Optimizer> adam(const std::vector<ParamSpec>& specs, const AdamOptions& options,
                                Dtype dtype, Backend& on) {
  return std::make_unique<Adam>(specs, options, dtype, on);
}

}  // namespace tete
