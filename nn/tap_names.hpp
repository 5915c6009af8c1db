// The names that TransformerLens's hooks have for the named intermediates of a model.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "nn/language/check.hpp"

namespace tete {

// TransformerLens's name of the value at a path. Its value has the heads before the queries
// ("hook_pattern": [b, h, n, m]), or before the width of a head ("hook_q": [b, n, h, d_k]), or a
// batch of one ("hook_pos_embed": [1, n, d_X]).
struct TapName {
  enum class Heads : uint8_t { as_here, before_queries, before_width, one_batch };
  std::string name;
  Heads heads = Heads::as_here;

  // Permutes a value with a batch and heads to their order of axes, and back; others are unchanged.
  Tensor theirs(const Tensor& x) const;
  Tensor ours(const Tensor& x) const;
};

// A name's meaning can depend on other values and on the text.
struct Surroundings {
  // True if a value was offered at this path before.
  std::function<bool(const std::string& path)> known;
  // True if the text with this path mixes heads between its J and its L.
  std::function<bool(const std::string& path)> mixes_logits;
};
// True if the text mixes heads between J and L: their dimensions of heads differ.
bool mixes_logits(const Checked& program);
// The names of the value at a path.
std::vector<TapName> tap_names(const std::string& path, const Surroundings& around);

}  // namespace tete
