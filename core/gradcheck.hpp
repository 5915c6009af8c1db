// Gradient checks, for our operations and for yours.
//
//   GradReport r = check_gradient([](const Tensors& in) { return my_op(in[0], in[1]); },
//                                 {x, y}, {.order = 2});
//   CHECK(r.worst <= 1e-6);
//
// In float64, with a random cotangent (never .sum(): a wrong gradient that sums to the right
// number must not pass), against central differences along random directions, and entry by entry.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "core/tensor.hpp"

namespace tete {

struct GradCheckOptions {
  int order = 1;       // 2 also checks the gradient of the gradient
  double step = 1e-4;  // of the differences; each is Richardson-extrapolated from step, step/2
  int entries = 24;    // entries sampled of each input; all of them where there are fewer
  Key key{0};
  std::vector<std::string> names = {};  // of the inputs, for the report
};

struct InputReport {
  std::string input;
  int order = 1;
  double error = 0;                  // the largest |analytic - numeric| / max(1, |numeric|, scale)
  double analytic = 0, numeric = 0;  // where it is largest
  std::vector<Index> entry;          // its coordinates; empty for a direction
  bool severed = false;              // no gradient reached this input
};

struct GradReport {
  double worst = 0;  // over all inputs and orders
  std::vector<InputReport> inputs;
  // The same, for one order.
  double worst_of_order(int order) const;
};

// f maps the inputs (f64) to one tensor. i64 inputs are passed through and not checked. Denormals
// are honoured while it runs.
GradReport check_gradient(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs,
                          const GradCheckOptions& options = {});

}  // namespace tete
