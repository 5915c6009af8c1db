// Adafactor (Shazeer and Stern 2018), as T5 uses it; s = 0, 1, … is the step, p a parameter, g its
// gradient, lr the schedule:
//   β = 1 - (s+1)^-0.8;  q = g² + 1e-30
//   factored:  vr = β vr + (1-β) mean_d0 q,  vc = β vc + (1-β) mean_d1 q,
//              u = g / √(vr / mean_d1 vr) / √vc
//   else:      v = β v + (1-β) q,  u = g / √v
//   u = u / max(1, RMS u);  p = p - lr · max(RMS p, 1e-3) · u
// d0 and d1 are the largest and second largest dimension, by the parameter's declaration; all
// others are batch dimensions. Rows and columns instead of all of q: for 768 × 3072, 0.16% of it.
// A matrix's update reads g three times (for the means, for RMS u, and to move p) and p once, and
// writes p: its RMS is summed on the way, for the next update (unless the values are copied then,
// as where ranks go ahead). Its kernels are those of core/update.hpp, on the processor
// core/cpu/rows_update.cpp.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/ops.hpp"
#include "core/update.hpp"
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

// A factor of the update for every p. It has p's memory order, so that how sums are cut follows
// from p alone.
Tensor along(const Tensor& factor, const Tensor& p) {
  const Strides strides = dense_strides(factor.shape(), memory_order(p.shape(), p.strides()));
  const Tensor laid =
      Tensor::empty_strided(factor.shape(), strides, factor.dtype(), factor.backend());
  copy_onto(factor, laid);
  return broadcast(laid, p.shape());
}

// Ones with the strides of a factor.
Tensor ones_like(const Tensor& factor) {
  Shape stored = factor.shape();
  for (int i = 0; i < factor.rank(); ++i)
    if (factor.strides()[i] == 0) stored[i] = std::min<Index>(1, stored[i]);
  const Tensor ones =
      Tensor::empty_strided(stored, factor.strides(), factor.dtype(), factor.backend());
  ones.backend().fill(1, ones.view());
  return broadcast(ones, factor.shape());
}

class Adafactor : public Optimizer {
 public:
  Adafactor(const std::vector<ParamSpec>& specs, Dtype dtype, Backend& on) : known_(specs.size()) {
    for (const ParamSpec& spec : specs) {
      first_.push_back(state.size());
      if (spec.fixed) continue;
      const FactoredDims dims = factored_dims(spec.shape);
      if (dims.d0 >= 0) {
        Shape row = spec.shape, column = spec.shape;
        row[dims.d0] = column[dims.d1] = 1;
        state.push_back({spec.name + "/vr", Tensor::zeros(row, dtype, on)});
        state.push_back({spec.name + "/vc", Tensor::zeros(column, dtype, on)});
      } else {
        state.push_back({spec.name + "/v", Tensor::zeros(spec.shape, dtype, on)});
      }
    }
  }
  const char* name() const override { return "adafactor"; }

  void update(const std::vector<ParamSpec>& specs, Tensors& values, const Tensors& grads,
              double rate, int64_t step) override {
    const double beta = 1 - std::pow(static_cast<double>(step + 1), -0.8);
    if (std::exchange(step_, step) != step) lengths_.clear();
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].fixed || !grads[i]) continue;
      const Tensor p = values[i].detach(), g = laid_out_like(grads[i], p);
      if (p.size() == 0) continue;
      const auto [a, b] = direction(g, factored_dims(p.shape()), first_[i], beta);
      KnownSquares& known = known_[i];
      const Tensor squares = known.number == values[i].number()
                                 ? known.squares
                                 : sum_of_squares_of_product(p, ones_like(a), ones_like(b));
      const auto count = static_cast<double>(p.size());
      const auto at_least = [](const Tensor& x, double least) {
        return max(x, Tensor::scalar(least, x.dtype(), x.backend()));
      };
      const Tensor length = at_least(sqrt(squares / count), 1e-3) * rate;
      const Tensor size = sqrt(sum_of_squares_of_product(g, a, b) / count);
      const UpdatedParameter moved = minus_product(p, g, a, b, length / at_least(size, 1));
      values[i] = moved.p;
      known = {moved.p.number(), moved.squares};
      lengths_.push_back(reshape(length, {1}));
    }
  }
  EffectiveRate effective_rate() const override {
    return lengths_.empty() ? EffectiveRate{} : summarize_rates(concat(lengths_, 0).values());
  }

 private:
  // u = g a b, before it is cut to RMS 1.
  struct Factors {
    Tensor a, b;
  };
  Factors direction(const Tensor& g, FactoredDims dims, size_t at, double beta) {
    const auto averaged = [beta](Tensor& v, const Tensor& squares) {
      v = v * beta + (squares + 1e-30) * (1 - beta);
    };
    Tensor& v = state[at].value;
    if (dims.d0 < 0) {
      averaged(v, square(g));
      return {laid_out_like(rsqrt(v), g), Tensor::repeated_like(g, 1)};
    }
    Tensor &vr = v, &vc = state[at + 1].value;
    const auto [over_d0, over_d1] = mean_squares(g, dims.d0, dims.d1);
    averaged(vr, over_d0);
    averaged(vc, over_d1);
    const Tensor row = rsqrt(vr / broadcast(mean(vr, {dims.d1}, /*keep=*/true), vr.shape()));
    return {along(row, g), along(rsqrt(vc), g)};
  }

  // The parameter that an update wrote, and the sum of its squares: the next one need not read it
  // for that.
  struct KnownSquares {
    uint64_t number = 0;  // the tensor's; none has 0
    Tensor squares = {};
  };

  std::vector<size_t> first_;  // by parameter: where its state begins
  std::vector<KnownSquares> known_;
  int64_t step_ = -1;  // the last one
  Tensors lengths_;    // in it, one of each parameter
};

}  // namespace

std::unique_ptr<Optimizer> adafactor(const std::vector<ParamSpec>& specs, Dtype dtype,
                                     Backend& on) {
  return std::make_unique<Adafactor>(specs, dtype, on);
}

}  // namespace tete
