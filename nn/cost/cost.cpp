// Walks over a program's statements and counts their costs.
#include <algorithm>

#include "core/plan.hpp"
#include "nn/cost/sizes.hpp"
#include "nn/tile/tile.hpp"

namespace tete {

Count& Count::operator+=(const Count& other) {
  formula += other.formula;
  multiplies = exact_sum(multiplies, other.multiplies);
  naive = exact_sum(naive, other.naive);
  visible = exact_sum(visible, other.visible);
  return *this;
}

namespace {

void join(Dims& dims, const auto& more) {
  for (int dim : more)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) dims.push_back(dim);
}

// Counts one statement.
class StatementCounter {
 public:
  StatementCounter(CostSizes& sizes, const Visible& visible, const Flow& flow, size_t number_bytes,
                   Cost& cost, StatementCost& statement)
      : sizes_(sizes),
        visible_(visible),
        flow_(flow),
        number_bytes_(number_bytes),
        cost_(cost),
        statement_(statement) {}

  void walk(const Node& node) {
    if (node.constant || node.kind == NodeKind::value) return;
    for (const Node& arg : node.args) walk(arg);
    for (const Node::Key& key : node.keys)
      for (const Node& value : key.value) walk(value);
    if (node.builtin && node.builtin->contracts && node.args.size() > 1) einsum(node);
    if (node.op == Operator::multiply && node.kind == NodeKind::operation &&
        !node.args[0].names.empty() && !node.args[1].names.empty())
      add({node.place, statement_.value, counted({node.names.begin(), node.names.end()})});
    keep(node, node.names);
  }

 private:
  // The count of one loop over these names: one multiply for each combination.
  Count counted(const Dims& dims) {
    Count count;
    count.formula.add(sizes_.product(dims));
    count.multiplies = count.naive = count.visible = sizes_.elements(dims);
    for (const VisiblePairs& v : visible_.of_softmax) {
      const auto has = [&](int dim) {
        return std::find(dims.begin(), dims.end(), dim) != dims.end();
      };
      if (!has(v.query) || !has(v.memory) || v.all == 0) continue;
      count.visible = count.multiplies / v.all * v.pairs;
      break;
    }
    return count;
  }

  void einsum(const Node& node) {
    if (node.args.size() == 2) {
      Dims all;
      for (const Node& arg : node.args) join(all, arg.names);
      return add({node.place, statement_.value, counted(all)});
    }
    add({node.place, statement_.value, planned(node)});
  }

  // The pairs of the cheapest order. A name that one operand alone has is counted with the pair
  // that this operand is in, as for two operands.
  Count planned(const Node& node) {
    Dims all;
    for (const Node& arg : node.args) join(all, arg.names);
    const auto labels = [&](const Names& names) {
      Labels made;
      for (int name : names)
        made.push_back(static_cast<Label>(std::find(all.begin(), all.end(), name) - all.begin()));
      return made;
    };
    std::vector<Labels> operands;
    for (const Node& arg : node.args) operands.push_back(labels(arg.names));
    Sizes sizes{};
    for (size_t i = 0; i < all.size(); ++i) sizes[i] = sizes_.size(all[i]);
    const Plan plan = tete::plan(operands, labels(node.names), sizes);

    Count count;
    for (const PlanStep& step : plan.steps) {
      Dims dims;
      for (const int operand : {step.a, step.b})
        for (Label label : operands[operand]) join(dims, Dims{all[label]});
      count += counted(dims);
      operands.push_back(step.result);
      Names made;
      for (Label label : step.result) made.push_back(all[label]);
      if (&step != &plan.steps.back()) keep(node, made);
    }
    count.naive = sizes_.elements(all);
    return count;
  }

  void add(ProductCost product) {
    statement_.count += product.count;
    cost_.products.push_back(std::move(product));
  }

  // Adds the bytes of the result of `node`, over these names, if a gradient goes through it.
  void keep(const Node& node, const Names& names) {
    if (node.element != Element::real || !sources_of(node, flow_).learned) return;
    const bool tile = cost_.tile_queries > 0 && sizes_.any_grows(names, Role::query) &&
                      sizes_.any_grows(names, Role::memory);
    const auto bytes = static_cast<size_t>(
        exact_product(sizes_.elements(names), static_cast<Index>(number_bytes_)));
    statement_.bytes += bytes;
    statement_.tile |= tile;
    cost_.bytes += bytes;
    cost_.tiled_bytes += tile ? in_tile(bytes, names) : bytes;
  }

  size_t in_tile(size_t bytes, const Names& names) {
    Index rows = 1;
    for (int name : names)
      if (sizes_.grows_with(name, Role::query)) rows = std::max(rows, sizes_.size(name));
    return bytes / static_cast<size_t>(rows) *
           static_cast<size_t>(std::min(rows, cost_.tile_queries));
  }

  CostSizes& sizes_;
  const Visible& visible_;
  const Flow& flow_;
  size_t number_bytes_;
  Cost& cost_;
  StatementCost& statement_;
};

void add_parameters(const Checked& program, CostSizes& sizes, Cost& cost) {
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const CheckedParameter& p = program.parameters[i];
    const CheckedValue& v = program.values[p.value];
    Dims dims;
    for (int k = 0; k < v.dims.size(); ++k)
      dims.push_back(v.bounds[k] >= 0 ? v.bounds[k] : v.dims[k]);
    ParameterCost made{static_cast<int>(i)};
    made.formula.add(sizes.product(dims));
    made.size = sizes.elements(dims);
    Index& total = p.fixed ? cost.fixed_parameters : cost.parameters;
    total = exact_sum(total, made.size);
    if (!p.fixed) cost.parameter_formula += made.formula;
    cost.parameter_sizes.push_back(std::move(made));
  }
}

// The number of queries in a block of the tile, or 0 without a tile.
Index queries_of_a_block(const Checked& program, CostSizes& sizes) {
  Index queries = 0;
  double widest = 0;
  for (int number : program.tile.inside) {
    double elements = 1;
    for (int dim : program.values[number].dims) {
      elements *= static_cast<double>(sizes.size(dim));
      if (program.dimensions[dim].role == Role::query) queries = sizes.size(dim);
    }
    widest = std::max(widest, elements);
  }
  return widest == 0 ? 0 : block_queries(widest / static_cast<double>(queries), queries);
}

// Finds a value over the memory twice, which no block of queries has a part of.
void find_whole(const Checked& program, Cost& cost) {
  if (cost.tile_queries == 0) return;
  std::vector<bool> inside(program.values.size());
  for (int number : program.tile.inside) inside[number] = true;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const CheckedValue& v = program.values[i];
    const auto memories = std::count_if(v.dims.begin(), v.dims.end(), [&](int dim) {
      return program.dimensions[dim].role == Role::memory;
    });
    if (inside[i] || v.kind != ValueKind::statement || memories < 2) continue;
    cost.whole_because = {v.place};
    cost.whole_reason = text("'", v.name, "' is over the memory twice, and is stored whole");
    return;
  }
}

}  // namespace

Cost cost_of(const Checked& program, SizeTable& table, const CostOptions& options) {
  if (!program.calls.empty())
    fail_at({program.calls[0].place},
            "the cost of a call that runs as a program of its own is not counted yet");
  Cost cost;
  const Visible visible = visible_pairs(program, table, options.causal);
  cost.visible_known = visible.known;
  CostSizes sizes(program, table);
  add_parameters(program, sizes, cost);
  cost.whole_because = program.tile.refused_at;
  cost.whole_reason = program.tile.reason;
  cost.tile_queries = queries_of_a_block(program, sizes);
  find_whole(program, cost);
  for (size_t i = 0; i < program.values.size(); ++i) {
    const CheckedValue& value = program.values[i];
    if (value.kind != ValueKind::statement) continue;
    StatementCost statement{static_cast<int>(i)};
    statement.once = !program.flow.values[i].from.inputs;
    StatementCounter(sizes, visible, program.flow, size_of(options.dtype), cost, statement)
        .walk(value.right);
    cost.total += statement.count;
    if (statement.once) cost.once = exact_sum(cost.once, statement.count.multiplies);
    cost.statements.push_back(std::move(statement));
  }
  return cost;
}

}  // namespace tete
