// A model's text as a function of tokens (R19, R30): X in, a logit of each token for each row out.
//
//   X[causal n] < v                a language model: row i is about what follows X[i]
//   X[causal n] < v, M[m] < v      a decoder that reads X, with an encoder that reads M, the source
//   X[n] < v                       an encoder: row i is about X[i]
//
// Each may read S[n] < s, the segments of X, too.
//
//   const Checked text = check(*find_text("t5").program, {}, catalogue());
//   Model model(std::make_shared<const Checked>(text), {{"v", 65}, {"l", 4}, {"d_X", 128}});
//   const Tensors values = model.params().initial_values(Key(1));
//   Tensor Y = model.logits({.params = values}, {.X = answers, .M = questions});
#pragma once
#include "nn/decode.hpp"
#include "nn/loss.hpp"

namespace tete {

enum class ModelKind : uint8_t { language_model, encoder_decoder, encoder };
const char* name_of(ModelKind kind);  // "a language model"

// The inputs of a model. Tokens are i64.
struct ModelInputs {
  Tensor X = {};        // [b, n]
  Tensor M = {};        // [b, m]; of an encoder with a decoder
  Tensor lengths = {};  // [b]: what is there of each sample of M, or of an encoder's X; empty: all
  Tensor S = {};        // [b, n]; empty: 0
};

class Model {
 public:
  // Fails unless the text's inputs are those of a model and its result has a logit of each token
  // for each row of X, and unless every size is known but the lengths. Parameters start as `rule`
  // says, or as the text does.
  Model(std::shared_ptr<const Checked> program, const SizesByName& sizes,
        const InitRule& rule = {});

  const Checked& program() const { return *program_; }
  const std::shared_ptr<const Checked>& shared_program() const { return program_; }
  ModelKind kind() const { return kind_; }
  const ParamList& params() const { return params_; }
  // The sizes that are known without a call.
  const SizeTable& sizes() const { return sizes_; }

  // [b, n, v]. Fails (input) on inputs that are not the model's.
  Tensor logits(const Forward& forward, const ModelInputs& inputs) const;
  // [b, v]: those of the last row.
  Tensor last_logits(const Forward& forward, const ModelInputs& inputs) const;
  // The same for X that follows what `decoding` has read. Each token is read once; the source is
  // read at the first call, and must be the same in later ones. Fails (input) on an encoder, and on
  // a text whose rows need others besides their attention.
  Tensor next_logits(const Forward& forward, const ModelInputs& inputs, Decoding& decoding) const;
  // The logits if the value with this number, as an inner state of the residual stream, were
  // x[b, dims].
  Tensor logits_behind(const Forward& forward, const ModelInputs& inputs, int value,
                       const Tensor& x) const;
  // Returns the loss of targets[b, n] (i64), with the text's own terms. A target below 0 is padding
  // and is not counted. `logits`, if given, gets what is compared with them.
  Loss loss(const Forward& forward, const ModelInputs& inputs, const Tensor& targets,
            Tensor* logits = nullptr) const;

 private:
  Tensors in_order(const ModelInputs& inputs) const;

  std::shared_ptr<const Checked> program_;
  ModelKind kind_;
  SizeTable sizes_;
  ParamList params_;
  std::vector<ParamId> ids_;  // by parameter of the text and its calls
};

// The token that a decoder reads first and that ends a target.
inline constexpr int64_t end_token = 0;
// The tokens that a decoder reads to predict targets[b, n]: end_token, then all targets but the
// last. Padding becomes 0.
Tensor shifted_right(const Tensor& targets);

}  // namespace tete
