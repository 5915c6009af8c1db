#include "tools/model_cost.hpp"

#include "attention/catalog.hpp"
#include "nn/cost/sizes.hpp"

namespace tete {

namespace {

constexpr Index paper_length = 512, paper_width = 768, paper_heads = 12;
constexpr Index paper_targets = 114, paper_vocabulary = 32128;

// Nothing in the text says its size.
bool is_free(const Dimension& d) {
  return d.arguments.empty() && d.fallback.empty() && d.product.empty();
}

const Names& dims_of_input(const Checked& program, size_t i) {
  return program.values[program.inputs[i]].dims;
}

}  // namespace

SizeTable paper_sizes(const std::shared_ptr<const Checked>& program, const SizesByName& given) {
  SizesByName sizes = given;
  const auto add = [&](int dim, Index size) {
    const Dimension& d = program->dimensions[dim];
    if (is_free(d)) sizes.try_emplace(d.name, size);
  };
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    const Names& dims = dims_of_input(*program, i);
    const std::string& name = program->input_names[i];
    if (name != "X" && name != "M") continue;
    const int below = program->values[program->inputs[i]].below;
    if (below >= 0) add(below, paper_vocabulary);
    else if (dims.size() != 2) continue;
    else add(dims[1], paper_width);
    add(dims[0], name == "X" && program->is_apart() ? paper_targets : paper_length);
  }
  if (const int heads = program->find_dimension("h"); heads >= 0) add(heads, paper_heads);
  return SizeTable(program, sizes);
}

std::optional<Cost> multi_head_cost(const Checked& program, SizeTable& sizes,
                                    const CostOptions& options) {
  SizesByName same{{"h", 1}};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const Names& dims = dims_of_input(program, i);
    const bool is_x = program.input_names[i] == "X";
    if (dims.size() != 2 || (!is_x && program.input_names[i] != "M")) return {};
    same[is_x ? "n" : "m"] = sizes.size(dims[0]);
    same[is_x ? "d_X" : "d_M"] = sizes.size(dims[1]);
  }
  if (!same.contains("n")) return {};
  same.try_emplace("m", same["n"]);
  same.try_emplace("d_M", same["d_X"]);
  const auto multi_head =
      std::make_shared<const Checked>(check(*find_variant("multi_head").program, {}, catalogue()));
  SizeTable table(multi_head, same);
  return cost_of(*multi_head, table, options);
}

// ---- A model ---------------------------------------------------------------------------

namespace {

// A layer's attention on a sequence of this length, or two.
Cost layer_cost(const ChosenAttention& chosen, Index length, bool causal) {
  ParamList params;
  const auto& program = chosen.program;
  SizesByName known = Attention(Scope{params}, program, chosen.sizes).sizes();
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    const int sequence = dims_of_input(*program, i)[0];
    known[program->dimensions[sequence].name] = length;
  }
  SizeTable table(program, known);
  return cost_of(*program, table, {.causal = causal});
}

Index product(std::initializer_list<Index> factors) {
  Index all = 1;
  for (Index factor : factors) all = exact_product(all, factor);
  return all;
}

Formula formula_of(std::initializer_list<const char*> products) {
  Formula formula;
  for (const char* product : products) formula.add(product);
  return formula;
}

size_t in_bytes(Index count) { return static_cast<size_t>(count) * size_of(Dtype::f32); }

// The attention of all layers at one kind of site.
struct SiteCost {
  ModelCost::Part part;
  Index hidden = 0;    // multiplies that a causal mask saves
  size_t untiled = 0;  // bytes that tiles save
};
SiteCost site_cost(const char* name, const std::vector<ChosenAttention>& layers, Index length,
                   bool causal) {
  SiteCost site{{name, {}, 0, 0}};
  bool alike = true;
  for (const ChosenAttention& chosen : layers) {
    const Cost layer = layer_cost(chosen, length, causal);
    alike = alike && chosen.program == layers[0].program;
    site.part.formula = alike ? layer.total.formula : Formula();
    site.part.multiplies = exact_sum(site.part.multiplies, layer.total.multiplies);
    site.part.bytes += layer.bytes;
    site.hidden += causal ? layer.total.multiplies - layer.total.visible : 0;
    site.untiled += layer.bytes - layer.tiled_bytes;
  }
  return site;
}

ModelCost::Part feed_forward_cost(const LanguageModelConfig& config, Index layers) {
  const Index n = config.context, d = config.d_model;
  const Index f = config.block.d_ff > 0 ? config.block.d_ff : 4 * d;
  const FeedForwardOptions& ff = config.block.feed_forward;
  const bool gated = activation(ff.activation).gated;
  // The hidden layer before and after its function, and what a gate or biases add to it.
  const Index hidden = 2 + 2 * gated + ff.bias * (1 + gated), out = 1 + ff.bias;
  return {"feed-forward",
          gated ? formula_of({"n*d_X*d_ff", "n*d_X*d_ff", "n*d_X*d_ff"})
                : formula_of({"n*d_X*d_ff", "n*d_X*d_ff"}),
          product({layers, gated ? 3 : 2, n, d, f}), in_bytes(layers * n * (hidden * f + out * d))};
}

ModelCost::Part output_cost(const LanguageModelConfig& config) {
  const Index n = config.context, d = config.d_model, v = config.vocabulary;
  return {"output", formula_of({"n*d_X*v"}), product({n, d, v}),
          in_bytes(n * (v + (config.tied && config.scale_logits) * d))};
}

// Two norms and two sums a layer, one more of each with cross-attention; the embedding, with
// positions, and the last norm. An encoder's padding is made zero after each norm.
Index vectors_of(const LanguageModelConfig& config, const ChosenSites& sites) {
  const auto layers = static_cast<Index>(sites.decoder.size());
  const auto encoders = static_cast<Index>(sites.encoder.size());
  const Index ends = 2 + (config.positions != "none");
  const Index decoder = 4 * layers + ends + 2 * static_cast<Index>(sites.cross.size());
  return encoders == 0 ? decoder : decoder + 6 * encoders + ends + 1;
}

}  // namespace

ModelCost model_cost(const LanguageModelConfig& config, const ChosenSites& sites) {
  const Index n = config.context;
  const bool encoder = !sites.encoder.empty();
  std::vector<SiteCost> kinds;
  if (encoder) kinds.push_back(site_cost("encoder attention", sites.encoder, n, false));
  kinds.push_back(site_cost(encoder ? "decoder attention" : "attention", sites.decoder, n, true));
  if (encoder) kinds.push_back(site_cost("cross-attention", sites.cross, n, false));

  ModelCost cost;
  Index hidden = 0;
  size_t untiled = 0;
  for (SiteCost& kind : kinds) {
    hidden += kind.hidden, untiled += kind.untiled;
    cost.parts.push_back(std::move(kind.part));
  }
  cost.parts.push_back(
      feed_forward_cost(config, static_cast<Index>(sites.encoder.size() + sites.decoder.size())));
  cost.parts.push_back(output_cost(config));
  cost.parts.push_back({"norms, residuals, embedding",
                        {},
                        0,
                        in_bytes(n * config.d_model * vectors_of(config, sites))});
  for (const ModelCost::Part& part : cost.parts) {
    cost.multiplies = exact_sum(cost.multiplies, part.multiplies);
    cost.bytes += part.bytes;
  }
  cost.visible = cost.multiplies - hidden;
  cost.tiled_bytes = cost.bytes - untiled;
  return cost;
}

ModelCost model_cost(const Model& model, Index context) {
  SizeTable sizes = model.sizes();
  const Checked& program = model.program();
  for (size_t i = 0; i < program.inputs.size(); ++i)
    sizes.set(dims_of_input(program, i)[0], context);
  const Cost cost = cost_of(program, sizes);
  return {{}, cost.total.multiplies, cost.total.visible, cost.bytes, cost.tiled_bytes};
}

}  // namespace tete
