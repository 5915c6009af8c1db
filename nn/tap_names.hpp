// What other tools call the named intermediates of a model: TransformerLens's names of hooks.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "nn/language/check.hpp"

namespace tete {

// Another name of the value at a path. There it has the heads before the queries
// ("hook_pattern": [b, h, n, m]), or before the width of a head ("hook_q": [b, n, h, d_k]), or a
// batch of one ("hook_pos_embed": [1, n, d_X]).
struct TapName {
  enum class Heads : uint8_t { as_here, before_queries, before_width, one_batch };
  std::string name;
  Heads heads = Heads::as_here;

  // A value with a batch and heads in their order of axes, and back. Others stay as they are.
  Tensor theirs(const Tensor& x) const;
  Tensor ours(const Tensor& x) const;
};

// What one name means can depend on what else there is.
struct Surroundings {
  // Whether there was a value at a path, of any that came before.
  std::function<bool(const std::string& path)> known;
  // Whether the text whose values are at a path mixes heads between its J and its L.
  std::function<bool(const std::string& path)> mixes_logits;
};
// Whether it does: J and L have not the same dimension of heads.
bool mixes_logits(const Checked& program);
// The names of the value at a path.
std::vector<TapName> tap_names(const std::string& path, const Surroundings& around);

}  // namespace tete
