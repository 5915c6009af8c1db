// What other tools call the named intermediates of a model: TransformerLens's names of hooks.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace tete {

// Another name of the value at a path. There it has the heads before the queries
// ("hook_pattern": [b, h, n, m]), or before the width of a head ("hook_q": [b, n, h, d_k]).
struct TapName {
  enum class Heads : uint8_t { as_here, before_queries, before_width };
  std::string name;
  Heads heads = Heads::as_here;

  // A value with a batch and heads in their order of axes, and back. Others stay as they are.
  Tensor theirs(const Tensor& x) const;
  Tensor ours(const Tensor& x) const;
};

// The names of the value at a path. What one name means can depend on which other values there are
// ("attn.hook_attn_scores" is J, or L where there is no J): `known` tells of any path that came
// before it whether it is one of them.
using KnownPath = std::function<bool(const std::string& path)>;
std::vector<TapName> tap_names(const std::string& path, const KnownPath& known);

}  // namespace tete
