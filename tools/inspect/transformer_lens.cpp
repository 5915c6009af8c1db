#include "tools/inspect/transformer_lens.hpp"

#include <algorithm>
#include <set>
#include <span>

#include "core/ops.hpp"
#include "nn/trace.hpp"

namespace tete {

namespace {

// Their order of axes.
enum class Order : uint8_t { as_here, heads_before_queries, heads_before_width };

// Their name of the value at a path, used only if the model has the value at another path, too. Of
// two rows with one name the first counts whose value is there.
struct Renamed {
  const char* here;
  const char* there;
  Order order = Order::as_here;
  const char* only_with = "";
};

// By the path after that of an attention. TransformerLens has one kind of scores and one of
// weights. If a text mixes heads, its names mean the values before that, and "…_talked" those
// after. The weights before mixing are the softmax's result, so hook_pattern is always W. Scores
// here are without the mask; theirs include it.
constexpr Renamed mixing_rows[] = {
    {"J", "hook_attn_scores", Order::heads_before_queries},
    {"L", "hook_scores_talked", Order::heads_before_queries},
};
constexpr Renamed attention_rows[] = {
    {"RotaryQueries.Q", "hook_q", Order::heads_before_width},
    {"RotaryKeys.K", "hook_k", Order::heads_before_width},
    {"Q", "hook_rot_q", Order::heads_before_width, "RotaryQueries.Y"},
    {"K", "hook_rot_k", Order::heads_before_width, "RotaryKeys.Y"},
    {"Q", "hook_q", Order::heads_before_width},
    {"K", "hook_k", Order::heads_before_width},
    {"V", "hook_v", Order::heads_before_width},
    {"L", "hook_attn_scores", Order::heads_before_queries},
    {"W", "hook_pattern", Order::heads_before_queries},
    {"U", "hook_pattern_talked", Order::heads_before_queries},
    {"O", "hook_z", Order::heads_before_width},
    {"Y/heads", "hook_result", Order::heads_before_width},
    {"Seen", "hook_block_mask"},
    {"R_Xl", "hook_dyn_x2l"},
    {"R_Ml", "hook_dyn_m2l"},
    {"R_Xw", "hook_dyn_x2w"},
    {"R_Mw", "hook_dyn_m2w"},
    {"K_r", "hook_k_low", Order::heads_before_width},
    {"V_r", "hook_v_low", Order::heads_before_width},
};

Tensor in_order(const Tensor& x, Order order) {
  if (order == Order::as_here || x.rank() != 4) return x;
  return permute(x, order == Order::heads_before_queries ? Axes{0, 3, 1, 2} : Axes{0, 1, 3, 2});
}

// Adds the values under the path `scope` by their names, behind `prefix`.
void add_rows(std::span<const Renamed> rows, const Activations& seen, const std::string& scope,
              const std::string& prefix, Activations& theirs) {
  for (const Renamed& row : rows) {
    const auto at = seen.find(scope + row.here);
    if (at == seen.end()) continue;
    if (*row.only_with != 0 && !seen.contains(scope + row.only_with)) continue;
    theirs.try_emplace(prefix + row.there, in_order(at->second, row.order));
  }
}

// True if the text mixes heads between J and L: their dimensions of heads differ.
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

// True if a pattern may mean names of TransformerLens; ** alone means paths.
bool may_mean_theirs(const std::string& pattern) {
  return pattern.find('/') == std::string::npos &&
         (pattern.find('.') != std::string::npos || pattern.starts_with("hook_"));
}

class SlotNames {
 public:
  SlotNames(const Activations& seen, const Model& model)
      : seen_(seen), model_(model), has_source_(model.program().is_apart()) {}

  Activations find() {
    add_ends();
    for (const SitePlace& block : blocks_of(model_)) add_block(block);
    return std::move(theirs_);
  }

 private:
  void add(const std::string& path, const std::string& name) {
    if (const auto at = seen_.find(path); at != seen_.end()) theirs_.try_emplace(name, at->second);
  }

  // "encoder" or "decoder"; "" where there is one stack.
  std::string side(int sequence) const {
    return !has_source_ ? "" : sequence == 0 ? "encoder" : "decoder";
  }

  // The embedding and the last norm of each sequence.
  void add_ends() {
    const Checked& program = model_.program();
    for (const CheckedValue& v : program.values) {
      const Role role = v.dims.empty() ? Role::none : program.dimensions[v.dims[0]].sequence;
      if (role == Role::none) continue;
      const std::string own = side(role == Role::query ? 1 : 0);
      if (v.slot == "Norm")
        add(v.name, own.empty() ? "ln_final.hook_normalized" : own + "_final_ln.hook_normalized");
      if (calls(v.right, "gather") && v.right.args[0].kind == NodeKind::value &&
          program.values[v.right.args[0].index].kind == ValueKind::parameter)
        add(v.name, own.empty() ? "hook_embed" : own + ".hook_embed");
    }
  }

  void add_block(const SitePlace& block) {
    const Checked& program = *block.program;
    const std::string own = side(block.rows);
    const std::string prefix = text(own.empty() ? "blocks" : own, ".", block.layer, ".");
    add(block.X, prefix + "hook_resid_pre");
    int norms = 0;
    bool crossed = false;
    for (size_t i = 0; i < program.values.size(); ++i) {
      const auto number = static_cast<int>(i);
      const CheckedValue& v = program.values[i];
      if (v.kind == ValueKind::input) continue;
      const std::string path = path_of(block, number);
      if (v.slot == "Norm") add(path, text(prefix, "ln", ++norms, ".hook_normalized"));
      if (v.slot == "Attention") add_attention(program, v, path, prefix, "attn");
      if (v.slot == "Cross") add_attention(program, v, path, prefix, "cross_attn"), crossed = true;
      if (v.slot == "FeedForward") add_mlp(block, v, path, prefix);
      if (number == program.result) add(path, prefix + "hook_resid_post");
      else if (v.kind == ValueKind::statement && is_on_stream(program, number))
        add(path, prefix + (crossed ? "hook_resid_mid_cross" : "hook_resid_mid"));
    }
  }

  void add_attention(const Checked& block, const CheckedValue& v, const std::string& path,
                     const std::string& prefix, const std::string& name) {
    add(path, prefix + "hook_" + (name == "attn" ? "attn_out" : "cross_attn_out"));
    if (v.kind != ValueKind::call) return;
    const auto add_all = [&](std::span<const Renamed> rows) {
      add_rows(rows, seen_, path + "/", prefix + name + ".", theirs_);
    };
    if (mixes_logits(*block.calls[v.index].program)) add_all(mixing_rows);
    add_all(attention_rows);
  }

  // The hidden layer has a dimension that the result lacks. Its last value before dropout is
  // theirs after the activation; the first products that come before it are theirs before it and,
  // of a gated layer, the other factor.
  void add_mlp(const SitePlace& block, const CheckedValue& v, const std::string& path,
               const std::string& prefix) {
    add(path, prefix + "hook_mlp_out");
    const Checked& program = *block.program;
    if (v.kind != ValueKind::same) return;
    const Names& result = program.values[v.index].dims;  // by the filler's own names
    std::vector<std::string> products, hidden;
    for (size_t i = 0; i < program.values.size(); ++i) {
      const CheckedValue& inner = program.values[i];
      const bool is_inside = inner.kind == ValueKind::statement &&
                             inner.name.starts_with(v.name + ".") && inner.dims.size() > 1;
      if (!is_inside || calls(inner.right, "dropout") || !has_other(inner.dims, result)) continue;
      const bool is_sum =
          inner.right.kind == NodeKind::operation && inner.right.op == Operator::add;
      const bool is_product =
          calls(is_sum ? inner.right.args[0] : inner.right, "einsum");  // + bias
      (is_product ? products : hidden).push_back(path_of(block, static_cast<int>(i)));
    }
    if (!hidden.empty()) add(hidden.back(), prefix + "mlp.hook_post");
    if (!products.empty()) add(products[0], prefix + "mlp.hook_pre");
    if (products.size() > 1) add(products[1], prefix + "mlp.hook_pre_linear");
  }

  static bool has_other(const Names& dims, const Names& known) {
    return std::any_of(dims.begin(), dims.end(), [&](int dim) { return !known.contains(dim); });
  }

  const Activations& seen_;
  const Model& model_;
  const bool has_source_;
  Activations theirs_;
};

}  // namespace

Activations as_in_transformer_lens(const Activations& seen, const Model& model) {
  return SlotNames(seen, model).find();
}

Activations fitting(const std::vector<std::string>& patterns, const Activations& seen,
                    const Activations& theirs) {
  Activations found;
  for (const std::string& pattern : patterns) {
    bool any = false;
    const auto look_at = [&](const Activations& all) {
      for (const auto& [name, x] : all)
        if (fits(pattern, name)) found[name] = x, any = true;
    };
    look_at(seen);
    if (may_mean_theirs(pattern)) look_at(theirs);
    if (any) continue;
    std::set<std::string> names;
    for (const auto& [name, x] : may_mean_theirs(pattern) ? theirs : seen) names.insert(name);
    fail_nothing_at(pattern, names);
  }
  return found;
}

}  // namespace tete
