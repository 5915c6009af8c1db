// A very small language model, and what it learns from.
#pragma once
#include "train/step.hpp"

namespace tete::tests {

inline constexpr Index tiny_width = 6, tiny_heads = 2;

struct Tiny {
  ParamList params;
  ParamId E, P, scale;
  Objective objective;
  // Called with the hidden values, to spoil them.
  std::function<Tensor(const Forward&, const Tensor&)> spoil;

  explicit Tiny(Index vocabulary) : objective{params, {}} {
    using K = InitializerKind;
    E = params.declare({"embed/E", {"v", "d"}, {vocabulary, tiny_width}, {K::normal, 0.5}});
    P = params.declare({.name = "layer/0/P",
                        .dims = {"d", "h", "k"},
                        .shape = {tiny_width, tiny_heads, tiny_width},
                        .init = {K::normal, 0.4},
                        .layout = {1, 0, 2}});
    scale = params.declare({"layer/0/scale", {"d"}, {tiny_width}, {K::ones}});
    objective.loss = [this](const Forward& f, const Batch& batch) { return loss(f, batch); };
  }
  Tiny(const Tiny&) = delete;

  LossSum loss(const Forward& f, const Batch& batch) const {
    const Index b = batch.input.size(0), n = batch.input.size(1);
    Tensor X = gather("[v] d, b n -> b n d", f[E], batch.input);
    if (f.training && f.dropout > 0)
      X = dropout(X, f.dropout, f.key.fold("X"), f.first_sample * n * tiny_width);
    Tensor H = einsum("b n d, d h k -> b n k", X, f[P]);
    if (spoil) H = spoil(f, H);
    if (f.watch) f.watch("layer/0/H", H);
    H = mul("b n d, d", tanh(H) + X, f[scale]);
    if (f.watch) f.watch("layer/0/Y", H);
    const Tensor logits = einsum("b n d, v d -> b n v", H, f[E]);
    const Tensor rows = reshape(logits, {b * n, f[E].size(0)});
    return {sum(cross_entropy(rows, reshape(batch.target, {b * n}))), b * n};
  }
};

inline std::string tiny_text() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "the quick brown fox jumps over the lazy dog. ";
  return text;
}

struct TinyRun {
  Tokenizer tokenizer = Tokenizer::characters(tiny_text());
  TextData data{Tokens(tiny_text(), tokenizer), 8};
  Tiny model{tokenizer.size()};
  Tensors values = model.params.initial_values(Key(3));
};

}  // namespace tete::tests
