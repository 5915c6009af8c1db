// A transformer's skeleton: pre-norm blocks around attention that the caller brings, and the
// models made of them: a language model, and an encoder with a decoder (spec D4).
//
//   block     x ← x + drop(self(norm(x)));  [x ← x + drop(cross(norm(x), memory));]
//             x ← x + drop(ff(norm(x)))
//   model     logits = norm(blocks(drop(embedding[tokens] + positions))) Eᵀ
//
// No code here depends on the kind of attention: a site is any function of query-side and
// memory-side vectors. So an encoder is a Stack whose sites see all positions, a decoder one whose
// sites do not.
#pragma once
#include "nn/embed.hpp"
#include "nn/feedforward.hpp"
#include "nn/loss.hpp"
#include "nn/norm.hpp"
#include "nn/position.hpp"

namespace tete {

// Computes Y[b, n, d_X] from query-side X[b, n, d_X] and memory-side M[b, m, d_M]. Sample b has the
// first lengths[b] (i64) positions of the memory, or all if `lengths` is empty. Other masks, and
// dropout on attention weights, are the site's own.
using AttentionSite =
    std::function<Tensor(const Forward&, const Tensor& X, const Tensor& M, const Tensor& lengths)>;
// Declares the parameters of layer number `layer`'s attention in the scope ("decoder/3/self").
using AttentionFactory = std::function<AttentionSite(const Scope& scope, int layer)>;
// Returns the initialiser that a parameter gets, in place of the declared one, spec.init.
using InitRule = std::function<Initializer(const ParamSpec& spec)>;

struct BlockOptions {
  std::string norm = "layer";  // or rms
  Index d_ff = 0;              // 0: 4 d_X
  FeedForwardOptions feed_forward = {};
};

// The vectors of a batch of sequences. Each may end early; positions after its end are padding.
struct Sequences {
  Sequences(const Tensor& X) : X(X) {}  // NOLINT: vectors without padding are sequences
  // Fails on lengths that are not i64[b], each 0 … n.
  Sequences(const Tensor& X, const Tensor& lengths);

  Tensor X;             // [b, n, d_X]
  Tensor lengths = {};  // i64[b]; empty: nothing is padding
  Tensor there = {};    // [b, n]: 0 at padding, else 1; empty: nothing is padding
};

class Block {
 public:
  // With `cross`, it attends to a memory as well.
  Block(const Scope& scope, const Dim& width, AttentionSite self, const BlockOptions& options = {},
        AttentionSite cross = {});
  // Sub-layers see zeros at padded positions, so a text that mixes neighbours reads there the same
  // as past the end.
  // Offers "…/resid_pre", "…/self_norm", "…/self_out", "…/resid_mid", "…/ff_norm", "…/ff/pre",
  // "…/ff/hidden", "…/ff_out" and "…/resid", and with a memory "…/cross_norm", "…/cross_out",
  // "…/resid_cross"; "…_out" is the term that is added, after dropout.
  Tensor operator()(const Forward& forward, const Sequences& X,
                    const Sequences& memory = Tensor()) const;

 private:
  std::string path_;
  AttentionSite self_, cross_;
  Norm self_norm_;
  std::vector<Norm> cross_norm_;  // one if there is a memory, else none
  Norm ff_norm_;
  FeedForward feed_forward_;
};

// Blocks, then a norm, as the vectors of a pre-norm residual stream may have any length.
class Stack {
 public:
  Stack(const Scope& scope, const Dim& width, int layers, const AttentionFactory& self,
        const BlockOptions& options = {}, const AttentionFactory& cross = {});
  // The result is zero at padding.
  Tensor operator()(const Forward& forward, const Sequences& X,
                    const Sequences& memory = Tensor()) const;
  // The norm of X, the output of the blocks. Offers "…/norm".
  Tensor end(const Forward& forward, const Sequences& X) const;

 private:
  Tensor block(int layer, const Forward& forward, const Sequences& X,
               const Sequences& memory) const;

  std::string path_;
  std::vector<ParamId> shared_;  // parameters of the stack, which each of its blocks may read
  // Shared, because a gradient that recomputes a block may outlive the stack.
  std::vector<std::shared_ptr<const Block>> blocks_;
  Norm norm_;
};

struct LanguageModelConfig {
  Index vocabulary = 0;
  Index context = 64;  // the longest sequence that learned positions have room for
  Index d_model = 128;
  int layers = 4;
  BlockOptions block = {};
  std::string positions = "learned";  // none, learned, sinusoidal
  bool tied = true;                   // the output layer is the embedding
  bool scale_logits = true;  // tied: logits = d^-½ norm(x) Eᵀ, for an embedding of size 1
  std::string init = "t5";   // or gpt2
};

// The rule "t5" (all as declared, spec D5) or "gpt2" (gpt2_init). Fails on another name.
InitRule init_rule(const std::string& style);
// N(0.02) in the place of normal, truncated_normal and glorot of more than one dimension; matrices
// that mix heads (all their dimensions are called h or h_…) then start as the identity. All else
// starts as declared.
Initializer gpt2_init(const ParamSpec& spec);

// Logits[b, n, v] of the token after each position: products with the embedding, or with a matrix
// of its own.
class OutputLayer {
 public:
  OutputLayer(const Scope& scope, const LanguageModelConfig& config, const Embedding& embedding);
  // Offers "logits".
  Tensor operator()(const Forward& forward, const Tensor& X) const;

 private:
  Embedding embedding_;
  double scale_;
  std::vector<Linear> own_;  // one if the output is not tied, else none
};

class LanguageModel {
 public:
  // `rule`, if given, replaces config.init.
  LanguageModel(const LanguageModelConfig& config, const AttentionFactory& attention,
                InitRule rule = {});

  const LanguageModelConfig& config() const { return config_; }
  const ParamList& params() const { return params_; }

  // tokens[b, n] (i64) -> logits[b, n, v] of the token after each position.
  Tensor logits(const Forward& forward, const Tensor& tokens) const;
  // [b, v]: the same for the last position; the output layer computes that one only.
  Tensor last_logits(const Forward& forward, const Tensor& tokens) const;
  // The same for tokens[b, n] that follow those which `decoding` has read. Each is read once, at
  // the cost of one row of every attention. Fails if an attention needs its whole sequence again.
  Tensor next_logits(const Forward& forward, const Tensor& tokens, Decoding& decoding) const;
  // The logits if the residual stream X[b, n, d_X] were the output of the blocks.
  Tensor logits_of(const Forward& forward, const Tensor& X) const;
  // targets[b, n] (i64); below 0: padding, not counted.
  Loss loss(const Forward& forward, const Tensor& tokens, const Tensor& targets) const;

 private:
  Tensor hidden(const Forward& forward, const Tensor& tokens) const;

  LanguageModelConfig config_;
  ParamList params_;
  Embedding embedding_;
  Positions positions_;
  Stack decoder_;
  OutputLayer output_;
};

// The token that a decoder reads first and that ends a target.
inline constexpr int64_t end_token = 0;

// The attention of an encoder and a decoder.
struct StackAttention {
  AttentionFactory encoder;  // "encoder/3/self": sees all of the source
  AttentionFactory decoder;  // "decoder/3/self": sees earlier positions and its own
  AttentionFactory cross;    // "decoder/3/cross": sees the encoder's output
};

// Both stacks have config.layers blocks; they share the embedding, and have positions of their own.
class EncoderDecoder {
 public:
  EncoderDecoder(const LanguageModelConfig& config, const StackAttention& attention,
                 const InitRule& rule = {});

  const LanguageModelConfig& config() const { return config_; }
  const ParamList& params() const { return params_; }

  // Encodes tokens[b, m] (i64), of which sample b has the first lengths[b] (i64). Tokens after them
  // are never read, but must be in the vocabulary.
  Sequences encode(const Forward& forward, const Tensor& tokens, const Tensor& lengths) const;
  // Logits[b, n, v] of the token after each of tokens[b, n] (i64), the first of which is end_token.
  Tensor logits(const Forward& forward, const Sequences& memory, const Tensor& tokens) const;
  // As in LanguageModel.
  Tensor last_logits(const Forward& forward, const Sequences& memory, const Tensor& tokens) const;
  Tensor next_logits(const Forward& forward, const Sequences& memory, const Tensor& tokens,
                     Decoding& decoding) const;
  // The logits if X[b, n, d_X] were the output of the decoder's blocks.
  Tensor logits_of(const Forward& forward, const Tensor& X) const;
  // targets[b, n] (i64), given those before; below 0: padding, not counted.
  Loss loss(const Forward& forward, const Tensor& tokens, const Tensor& lengths,
            const Tensor& targets) const;

 private:
  Tensor hidden(const Forward& forward, const Sequences& memory, const Tensor& tokens) const;

  LanguageModelConfig config_;
  ParamList params_;
  Embedding embedding_;
  Positions encoder_positions_, decoder_positions_;
  Stack encoder_, decoder_;
  OutputLayer output_;
};

// The tokens that a decoder reads to predict targets[b, n]: end_token, then all targets but the
// last. Padding becomes 0.
Tensor shifted_right(const Tensor& targets);

}  // namespace tete
