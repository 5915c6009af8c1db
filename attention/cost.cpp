#include "attention/cost.hpp"

#include "attention/catalog.hpp"
#include "nn/cost/sizes.hpp"

namespace tete {

namespace {

constexpr Index paper_length = 512, paper_width = 768, paper_heads = 12;

// Nothing in the text says its size.
bool is_free(const Dimension& d) {
  return d.arguments.empty() && d.fallback.empty() && d.product.empty();
}

const Names& dims_of_input(const Checked& program, size_t i) {
  return program.values[static_cast<size_t>(program.inputs[i])].dims;
}

}  // namespace

SizeTable paper_sizes(const std::shared_ptr<const Checked>& program, const SizesByName& given) {
  SizesByName sizes = given;
  const auto add = [&](int dim, Index size) {
    const Dimension& d = program->dimensions[static_cast<size_t>(dim)];
    if (is_free(d)) sizes.try_emplace(d.name, size);
  };
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    const Names& dims = dims_of_input(*program, i);
    const std::string& name = program->input_names[i];
    if (dims.size() != 2 || (name != "X" && name != "M")) continue;
    add(dims[0], paper_length);
    add(dims[1], paper_width);
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

// ---- A language model ---------------------------------------------------------------------------

namespace {

// A layer's attention on a sequence of this length, or two.
Cost layer_cost(const ChosenAttention& chosen, Index length, bool causal = true) {
  ParamList params;
  const auto& program = chosen.program;
  SizesByName known = Attention(Scope{params}, program, chosen.sizes).sizes();
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    const int sequence = dims_of_input(*program, i)[0];
    known[program->dimensions[static_cast<size_t>(sequence)].name] = length;
  }
  SizeTable table(program, known);
  return cost_of(*program, table, {.causal = causal});
}

size_t layer_bytes(const std::vector<ChosenAttention>& layers, Index length, bool causal) {
  size_t bytes = 0;
  for (const ChosenAttention& layer : layers) bytes += layer_cost(layer, length, causal).bytes;
  return bytes;
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

}  // namespace

ModelCost model_cost(const LanguageModelConfig& config,
                     const std::vector<ChosenAttention>& attention) {
  const Index n = config.context, d = config.d_model, v = config.vocabulary;
  const Index f = config.block.d_ff > 0 ? config.block.d_ff : 4 * d;
  const auto layers = static_cast<Index>(attention.size());
  const FeedForwardOptions& ff = config.block.feed_forward;
  const bool gated = activation(ff.activation).gated;
  ModelCost::Part sites{"attention", {}, 0, 0};
  Index hidden_multiplies = 0;
  size_t untiled = 0;  // what tiles save
  bool alike = true;
  for (const ChosenAttention& chosen : attention) {
    const Cost layer = layer_cost(chosen, n);
    alike = alike && chosen.program == attention[0].program;
    sites.formula = alike ? layer.total.formula : Formula();
    sites.multiplies = exact_sum(sites.multiplies, layer.total.multiplies);
    sites.bytes += layer.bytes;
    hidden_multiplies += layer.total.multiplies - layer.total.visible;
    untiled += layer.bytes - layer.tiled_bytes;
  }
  const auto numbers = [](Index count) { return static_cast<size_t>(count) * size_of(Dtype::f32); };

  ModelCost cost;
  // The hidden layer before and after its function, and what a gate or biases add to it.
  const Index hidden = 2 + 2 * gated + ff.bias * (1 + gated), out = 1 + ff.bias;
  cost.parts = {
      sites,
      {"feed-forward",
       gated ? formula_of({"n*d_X*d_ff", "n*d_X*d_ff", "n*d_X*d_ff"})
             : formula_of({"n*d_X*d_ff", "n*d_X*d_ff"}),
       product({layers, gated ? 3 : 2, n, d, f}), numbers(layers * n * (hidden * f + out * d))},
      {"output", formula_of({"n*d_X*v"}), product({n, d, v}),
       numbers(n * (v + (config.tied && config.scale_logits) * d))},
      // Two norms and two sums a layer; the embedding, with positions, and the last norm.
      {"norms, residuals, embedding",
       {},
       0,
       numbers(n * d * (4 * layers + 2 + (config.positions != "none")))},
  };
  for (const ModelCost::Part& part : cost.parts) {
    cost.multiplies = exact_sum(cost.multiplies, part.multiplies);
    cost.bytes += part.bytes;
  }
  cost.visible = cost.multiplies - hidden_multiplies;
  cost.tiled_bytes = cost.bytes - untiled;
  return cost;
}

size_t activation_bytes(const LanguageModelConfig& config, const ChosenSites& sites) {
  const Index n = config.context;
  const size_t vectors = static_cast<size_t>(n * config.d_model) * size_of(Dtype::f32);
  // An encoder is a language model without an output that sees everything. Its padding is made
  // zero after each norm; cross-attention has a norm and a sum.
  const ModelCost decoder = model_cost(config, sites.decoder);
  size_t bytes =
      decoder.bytes + layer_bytes(sites.cross, n, false) + 2 * sites.cross.size() * vectors;
  for (const ModelCost::Part& part : decoder.parts)
    if (part.name != "output" && part.name != "attention") bytes += part.bytes;
  return bytes + layer_bytes(sites.encoder, n, false) + (2 * sites.encoder.size() + 1) * vectors;
}

}  // namespace tete
