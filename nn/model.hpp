// A model's text as a function of tokens (R19): X[causal n] < v in, Y[n, v] out.
//
//   Model model(load_program("gpt2"), {{"v", 65}, {"l", 4}, {"d_X", 128}});
//   Tensor logits = model.logits({.params = model.params().initial_values(Key(1))}, tokens);
#pragma once
#include "nn/decode.hpp"
#include "nn/loss.hpp"

namespace tete {

class Model {
 public:
  // Fails unless the text's input is X, tokens of a causal sequence, and its result has a logit for
  // each of them, and unless every size is known but the length.
  Model(std::shared_ptr<const Checked> program, const SizesByName& sizes);

  const Checked& program() const { return *program_; }
  const std::shared_ptr<const Checked>& shared_program() const { return program_; }
  const ParamList& params() const { return params_; }
  // The sizes that are known without a call.
  const SizeTable& sizes() const { return sizes_; }

  // X[b, n] (i64) -> [b, n, v]: the logits of the token after each position.
  Tensor logits(const Forward& forward, const Tensor& X) const;
  // [b, v]: those of the last position.
  Tensor last_logits(const Forward& forward, const Tensor& X) const;
  // The same for X[b, n] that follows what `decoding` has read. Each token is read once. Fails
  // (input) on a text whose rows need others besides their attention.
  Tensor next_logits(const Forward& forward, const Tensor& X, Decoding& decoding) const;
  // X as above: the logits if the value with this number, as an inner state of the residual stream,
  // were x[b, dims].
  Tensor logits_behind(const Forward& forward, const Tensor& X, int value, const Tensor& x) const;
  // targets[b, n] (i64); below 0: padding, not counted.
  Loss loss(const Forward& forward, const Tensor& X, const Tensor& targets) const;

 private:
  std::shared_ptr<const Checked> program_;
  SizeTable sizes_;
  ParamList params_;
  std::vector<ParamId> ids_;  // by parameter of the text and its calls
};

}  // namespace tete
