// The end of a model, from the last state z of its residual stream to the logits, where it is
//
//   Y = c + s(z) G z
//
// A norm is that: s is what it divides by, G subtracts the mean, scales and is the output layer, c
// is what biases give. With s as z has it, Y is a sum over what z is a sum of.
#pragma once
#include "tools/trained.hpp"

namespace tete {

class ModelEnd {
 public:
  // z[d_X]: a row of the last state. All numbers are f64, on the CPU.
  ModelEnd(const Trained& trained, int stream, const Tensor& z);

  // False where the end is no such sum: a softmax, a hidden layer.
  bool is_sum() const { return is_sum_; }
  double constant(int64_t token) const;
  // s(z) G of the token, [d_X]: its product with a part of z is what that adds to the logit.
  Tensor direction(int64_t token) const;
  // s(z) G x of every token, of x[k, d_X]: [k, v].
  Tensor logits(const Tensor& x) const;
  // The same with a last state of its own for each row, z[k, d_X].
  Tensor logits(const Tensor& x, const Tensor& z) const;

 private:
  Tensor end_of(const Tensor& x) const;
  Tensor linear(const Tensor& x) const;  // G x / (the norm's divisor at 0)

  const Trained& trained_;
  int stream_;  // its value in the model's program
  Index width_;
  Tensors params_;
  std::vector<double> constants_;  // [v]
  double scale_ = 0;
  bool is_sum_ = false;
};

}  // namespace tete
