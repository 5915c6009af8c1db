#include "nn/tap_names.hpp"

#include <algorithm>

#include "core/ops.hpp"

namespace tete {

namespace {

using Heads = TapName::Heads;

enum class Logits : uint8_t { any, mixed, not_mixed };

// The name of one value of a block, by its path after "decoder/3/"; or of an attention, by its path
// after "…/self/".
struct Row {
  const char* here;
  const char* there;
  Heads heads = Heads::as_here;
  const char* if_known = "";    // the row is only used if this path was offered before
  const char* unless = "";      // the row is only used if this path was not
  Logits logits = Logits::any;  // the row is only used if heads are mixed between J and L, or not
};

// hook_normalized is the norm's result after scale and bias, as in their LayerNorm.
constexpr Row block_rows[] = {
    {"resid_pre", "hook_resid_pre"},
    {"self_norm/divisor", "ln1.hook_scale"},
    {"self_norm", "ln1.hook_normalized"},
    {"self_out", "hook_attn_out"},
    {"resid_mid", "hook_resid_mid"},
    {"cross_norm/divisor", "ln2.hook_scale"},
    {"cross_norm", "ln2.hook_normalized"},
    {"cross_out", "hook_cross_attn_out"},
    {"resid_cross", "hook_resid_mid_cross"},
    {"ff_norm/divisor", "ln3.hook_scale", Heads::as_here, "cross_norm"},
    {"ff_norm/divisor", "ln2.hook_scale", Heads::as_here, "", "cross_norm"},
    {"ff_norm", "ln3.hook_normalized", Heads::as_here, "cross_norm"},
    {"ff_norm", "ln2.hook_normalized", Heads::as_here, "", "cross_norm"},
    {"ff/pre", "mlp.hook_pre"},
    {"ff/gate", "mlp.hook_pre_linear"},
    {"ff/hidden", "mlp.hook_post"},
    {"ff_out", "hook_mlp_out"},
    {"resid", "hook_resid_post"},
};

// Names after "attn." or "cross_attn.". TransformerLens has one kind of scores and one of weights.
// If heads are mixed, its names mean the values before that, and "…_talked" those after. The
// weights before mixing are the softmax's result, so hook_pattern is always W. Scores here are
// without the mask; theirs include it.
constexpr Row attention_rows[] = {
    {"RotaryQueries.Q", "hook_q", Heads::before_width},
    {"RotaryKeys.K", "hook_k", Heads::before_width},
    {"Q", "hook_rot_q", Heads::before_width, "RotaryQueries.Y"},
    {"K", "hook_rot_k", Heads::before_width, "RotaryKeys.Y"},
    {"Q", "hook_q", Heads::before_width, "", "RotaryQueries.Y"},
    {"K", "hook_k", Heads::before_width, "", "RotaryKeys.Y"},
    {"V", "hook_v", Heads::before_width},
    {"J", "hook_attn_scores", Heads::before_queries, "", "", Logits::mixed},
    {"L", "hook_attn_scores", Heads::before_queries, "", "", Logits::not_mixed},
    {"L", "hook_scores_talked", Heads::before_queries, "", "", Logits::mixed},
    {"W", "hook_pattern", Heads::before_queries},
    {"U", "hook_pattern_talked", Heads::before_queries},
    {"O", "hook_z", Heads::before_width},
    {"Y/heads", "hook_result", Heads::before_width},
    {"Seen", "hook_block_mask"},
    {"R_Xl", "hook_dyn_x2l"},
    {"R_Ml", "hook_dyn_m2l"},
    {"R_Xw", "hook_dyn_x2w"},
    {"R_Mw", "hook_dyn_m2w"},
    {"K_r", "hook_k_low", Heads::before_width},
    {"V_r", "hook_v_low", Heads::before_width},
};

constexpr Row model_rows[] = {
    {"embedding", "hook_embed"},
    {"positions", "hook_pos_embed", Heads::one_batch},
    {"encoder/embedding", "encoder.hook_embed"},
    {"encoder/positions", "encoder.hook_pos_embed", Heads::one_batch},
    {"decoder/embedding", "decoder.hook_embed"},
    {"decoder/positions", "decoder.hook_pos_embed", Heads::one_batch},
    {"encoder/norm/divisor", "encoder_final_ln.hook_scale"},
    {"encoder/norm", "encoder_final_ln.hook_normalized"},
    {"decoder/norm/divisor", "decoder_final_ln.hook_scale", Heads::as_here, "encoder/norm"},
    {"decoder/norm/divisor", "ln_final.hook_scale", Heads::as_here, "", "encoder/norm"},
    {"decoder/norm", "decoder_final_ln.hook_normalized", Heads::as_here, "encoder/norm"},
    {"decoder/norm", "ln_final.hook_normalized", Heads::as_here, "", "encoder/norm"},
};

template <size_t rows>
void add(const Row (&table)[rows], const std::string& here, const std::string& scope,
         const std::string& prefix, const Surroundings& around, std::vector<TapName>& names) {
  for (const Row& row : table) {
    if (here != row.here) continue;
    const std::string needed = row.if_known, other = row.unless;
    if (!needed.empty() && !around.known(scope + needed)) continue;
    if (!other.empty() && around.known(scope + other)) continue;
    if (row.logits != Logits::any &&
        (row.logits == Logits::mixed) != around.mixes_logits(scope.substr(0, scope.size() - 1)))
      continue;
    names.push_back({prefix + row.there, row.heads});
  }
}

bool is_number(const std::string& part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Axes order_of(Heads heads) {
  return heads == Heads::before_queries ? Axes{0, 3, 1, 2} : Axes{0, 1, 3, 2};
}

}  // namespace

Tensor TapName::theirs(const Tensor& x) const {
  if (heads == Heads::one_batch) return reshape(x, {1, x.size(0), x.size(1)});
  return heads == Heads::as_here || x.rank() != 4 ? x : permute(x, order_of(heads));
}

Tensor TapName::ours(const Tensor& x) const {
  if (heads == Heads::one_batch && x.rank() == 3 && x.size(0) == 1)
    return reshape(x, {x.size(1), x.size(2)});
  if (heads == Heads::as_here || x.rank() != 4) return x;
  return permute(x, heads == Heads::before_queries ? Axes{0, 2, 3, 1} : Axes{0, 1, 3, 2});
}

bool mixes_logits(const Checked& program) {
  const auto of = [&](const char* name) {
    return std::find_if(program.values.begin(), program.values.end(),
                        [&](const CheckedValue& v) { return v.name == name; });
  };
  const auto J = of("J"), L = of("L");
  if (J == program.values.end() || L == program.values.end()) return false;
  return std::any_of(J->dims.begin(), J->dims.end(), [&](int dim) {
    return std::find(L->dims.begin(), L->dims.end(), dim) == L->dims.end();
  });
}

std::vector<TapName> tap_names(const std::string& path, const Surroundings& around) {
  std::vector<TapName> names;
  add(model_rows, path, "", "", around, names);
  // "decoder/3/self/W": the stack, the layer, and the rest.
  const size_t first = path.find('/'), second = path.find('/', first + 1);
  if (first == std::string::npos || second == std::string::npos) return names;
  const std::string stack = path.substr(0, first);
  const std::string layer = path.substr(first + 1, second - first - 1);
  const std::string rest = path.substr(second + 1), scope = path.substr(0, second + 1);
  if (!is_number(layer) || (stack != "encoder" && stack != "decoder")) return names;
  std::vector<std::string> stacks{stack};
  if (stack == "decoder" && !around.known("encoder/norm")) stacks.insert(stacks.begin(), "blocks");
  for (const std::string& theirs : stacks) {
    const std::string prefix = theirs + "." + layer + ".";
    add(block_rows, rest, scope, prefix, around, names);
    for (const auto& [site, attn] : {std::pair{"self/", "attn."}, {"cross/", "cross_attn."}})
      if (rest.starts_with(site))
        add(attention_rows, rest.substr(std::string(site).size()), scope + site, prefix + attn,
            around, names);
  }
  return names;
}

}  // namespace tete
