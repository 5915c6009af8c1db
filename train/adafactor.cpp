// Adafactor (Shazeer and Stern 2018), as T5 uses it; s = 0, 1, … is the step, p a parameter, g its
// gradient, lr the schedule:
//   β = 1 - (s+1)^-0.8;  q = g² + 1e-30
//   factored:  vr = β vr + (1-β) mean_d0 q,  vc = β vc + (1-β) mean_d1 q,
//              u = g / √(vr / mean_d1 vr) / √vc
//   else:      v = β v + (1-β) q,  u = g / √v
//   u = u / max(1, RMS u);  p = p - lr · max(RMS p, 1e-3) · u
// d0 and d1 are the largest and second largest dimension, by the parameter's declaration; all
// others are batch dimensions. Rows and columns instead of all of q: for 768 × 3072, 0.16% of it.
#include <algorithm>
#include <cmath>

#include "train/optimizer.hpp"

namespace tete {

FactoredDims factored_dims(const Shape& shape) {
  FactoredDims dims;
  for (int i = 0; i < shape.size(); ++i) {
    if (dims.d0 < 0 || shape[i] > shape[dims.d0]) dims = {i, dims.d0};
    else if (dims.d1 < 0 || shape[i] > shape[dims.d1]) dims.d1 = i;
  }
  return dims.d1 >= 0 && shape[dims.d1] >= 128 ? dims : FactoredDims{};
}

namespace {

// Mean over one dimension, which stays with size 1.
Tensor mean_over(const Tensor& x, int dim) { return mean(x, {dim}, /*keep=*/true); }
double rms(const Tensor& x) { return x.size() == 0 ? 0 : std::sqrt(mean(square(x)).item()); }

class Adafactor : public Optimizer {
 public:
  Adafactor(const std::vector<ParamSpec>& specs, Dtype dtype) {
    for (const ParamSpec& spec : specs) {
      first_.push_back(state.size());
      if (spec.fixed) continue;
      const FactoredDims dims = factored_dims(spec.shape);
      if (dims.d0 >= 0) {
        Shape row = spec.shape, column = spec.shape;
        row[dims.d0] = column[dims.d1] = 1;
        state.push_back({spec.name + "/vr", Tensor::zeros(row, dtype)});
        state.push_back({spec.name + "/vc", Tensor::zeros(column, dtype)});
      } else {
        state.push_back({spec.name + "/v", Tensor::zeros(spec.shape, dtype)});
      }
    }
  }
  const char* name() const override { return "adafactor"; }

  void update(const std::vector<ParamSpec>& specs, Tensors& values, const Tensors& grads,
              double rate, int64_t step) override {
    const double beta = 1 - std::pow(static_cast<double>(step + 1), -0.8);
    std::vector<double> rates;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].fixed || !grads[i]) continue;
      const Tensor p = values[i].detach();
      Tensor u = direction(grads[i].detach(), factored_dims(p.shape()), first_[i], beta);
      const double length = rate * std::max(rms(p), 1e-3);
      values[i] = laid_out_like(p - u * (length / std::max(1.0, rms(u))), p);
      rates.push_back(length);
    }
    effective_rate = summarize_rates(std::move(rates));
  }

 private:
  // u, before it is cut to RMS 1.
  Tensor direction(const Tensor& g, FactoredDims dims, size_t at, double beta) {
    const Tensor q = square(g) + 1e-30;
    auto averaged = [beta](Tensor& v, const Tensor& now) { v = v * beta + now * (1 - beta); };
    Tensor& v = state[at].value;
    if (dims.d0 < 0) {
      averaged(v, q);
      return g * rsqrt(v);
    }
    Tensor &vr = v, &vc = state[at + 1].value;
    averaged(vr, mean_over(q, dims.d0));
    averaged(vc, mean_over(q, dims.d1));
    const Tensor row = rsqrt(vr / broadcast(mean_over(vr, dims.d1), vr.shape()));
    return g * broadcast(row, g.shape()) * broadcast(rsqrt(vc), g.shape());
  }

  std::vector<size_t> first_;  // by parameter: where its state begins
};

}  // namespace

std::unique_ptr<Optimizer> adafactor(const std::vector<ParamSpec>& specs, Dtype dtype) {
  return std::make_unique<Adafactor>(specs, dtype);
}

}  // namespace tete
