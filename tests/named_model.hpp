// A model's text with its slots filled, and parameters of its own.
#pragma once
#include "attention/catalog.hpp"
#include "nn/model.hpp"

namespace tete::tests {

// `uses` as a caller says them: "Attention=talking_heads".
inline std::shared_ptr<const Checked> filled(const Program& text,
                                             const std::vector<std::string>& uses = {},
                                             const Library& library = catalogue()) {
  std::vector<Program> programs;
  for (const std::string& use : uses) programs.push_back(Program::parse_uses(use, "uses"));
  return std::make_shared<const Checked>(check(text, {}, library, programs));
}

inline std::shared_ptr<const Checked> filled_text(const std::string& name,
                                                  const std::vector<std::string>& uses = {}) {
  return filled(*find_text(name).program, uses);
}

// Tokens below `below`, drawn alike for a seed.
inline Tensor tokens(Index b, Index n, uint64_t seed = 1, uint64_t below = 11) {
  std::vector<int64_t> ids;
  for (Index i = 0; i < b * n; ++i)
    ids.push_back(static_cast<int64_t>(uniform_below(Key(seed), static_cast<uint64_t>(i), below)));
  return Tensor::of<int64_t>({b, n}, ids);
}

struct NamedModel {
  Model model;
  Tensors values;  // as they start

  NamedModel(const std::shared_ptr<const Checked>& program, const SizesByName& sizes,
             Dtype dtype = Dtype::f64, const InitRule& rule = {})
      : model(program, sizes, rule), values(model.params().initial_values(Key(3), dtype)) {}
  NamedModel(const Program& text, const SizesByName& sizes) : NamedModel(filled(text), sizes) {}
  NamedModel(const std::string& name, const SizesByName& sizes,
             const std::vector<std::string>& uses = {}, Dtype dtype = Dtype::f64,
             const InitRule& rule = {})
      : NamedModel(filled_text(name, uses), sizes, dtype, rule) {}
  explicit NamedModel(const char* name)
      : NamedModel(name, {{"v", 7}, {"l", 2}, {"h", 2}, {"d_X", 16}}) {}

  Forward forward() const { return {.params = values}; }
  const Tensor& operator[](const std::string& parameter) const {
    return values.at(static_cast<size_t>(model.params().find(parameter)));
  }
  Tensors variables() const {
    Tensors all;
    for (const Tensor& value : values) all.push_back(value.variable());
    return all;
  }
};

// The uses that GPT-2's style makes of the language model's slots; its starts are gpt2_init.
inline const std::vector<std::string> gpt2_style = {"FeedForward=ff_biases", "Activation=gelu_erf",
                                                    "Output=output_tied_unscaled"};

}  // namespace tete::tests
