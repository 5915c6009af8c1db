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

SizeTable sizes_at(const Model& model, Index context) {
  SizeTable sizes = model.sizes();
  for (size_t i = 0; i < model.program().inputs.size(); ++i)
    sizes.set(dims_of_input(model.program(), i)[0], context);
  return sizes;
}

Cost cost_of(const Model& model, Index context) {
  SizeTable sizes = sizes_at(model, context);
  return cost_of(model.program(), sizes);
}

std::string grouped(Index number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace tete
