// Walks over a program's statements and counts their costs.
#include <algorithm>
#include <set>

#include "core/plan.hpp"
#include "nn/cost/sizes.hpp"
#include "nn/labels.hpp"
#include "nn/tile/tile.hpp"

namespace tete {

namespace {

void join(Dims& dims, const auto& more) {
  for (int dim : more)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) dims.push_back(dim);
}

// Counts one statement.
class StatementCounter {
 public:
  StatementCounter(const Checked& program, CostSizes& sizes, const Visible& visible,
                   const CostOptions& options, Cost& cost, StatementCost& statement)
      : program_(program),
        sizes_(sizes),
        visible_(visible),
        number_bytes_(size_of(options.dtype)),
        counting_(options.counting),
        cost_(cost),
        statement_(statement) {}

  void walk(const Node& node) {
    if (node.constant || node.kind == NodeKind::value) return;
    for (const Node& arg : node.args) walk(arg);
    for (const Node::Key& key : node.keys)
      for (const Node& value : key.value) walk(value);
    const bool as_mesh = counting_ == Counting::mesh;
    if (node.builtin && node.builtin->contracts && node.args.size() > 1 &&
        !(as_mesh && is_convolution(node)))
      add({node.place, statement_.value, planned(node)});
    if (!as_mesh && node.op == Operator::multiply && node.kind == NodeKind::operation &&
        !node.args[0].names.empty() && !node.args[1].names.empty())
      add({node.place, statement_.value, counted({node.names.begin(), node.names.end()})});
    if (as_mesh && is_look_up(node)) add({node.place, statement_.value, one_hot(node)});
    keep(node, node.names);
  }

 private:
  bool is_convolution(const Node& node) const {
    return std::any_of(node.args.begin(), node.args.end(), [&](const Node& arg) {
      return arg.kind == NodeKind::value && calls(program_.values[arg.index].right, "windows");
    });
  }
  bool is_look_up(const Node& node) const {
    if (calls(node, "route") || calls(node, "unroute")) return true;
    return calls(node, "gather") && !sources_of(node.args[0], program_.flow).inputs &&
           sources_of(node.args[1], program_.flow).inputs;
  }
  // Each row that is looked up, or each place that is filled, as a product with all rows.
  Count one_hot(const Node& node) {
    Dims all(node.names.begin(), node.names.end());
    join(all, node.args[0].names);
    return counted(all);
  }

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

  // The pairs of operands in the cheapest order. A name that one operand alone has is counted with
  // the pair that this operand is in.
  Count planned(const Node& node) {
    NameLabels labels;
    std::vector<Labels> operands;
    for (const Node& arg : node.args) operands.push_back(labels.of(arg.names));
    const Labels result = labels.of(node.names);
    const Dims& all = labels.all();
    Sizes sizes{};
    for (size_t i = 0; i < all.size(); ++i) sizes[i] = sizes_.size(all[i]);
    const Plan plan = tete::plan(operands, result, sizes);

    Count count;
    for (const PlanStep& step : plan.steps) {
      Dims dims;
      for (const int operand : {step.a, step.b})
        for (Label label : operands[operand]) join(dims, Dims{all[label]});
      count += counted(dims);
      operands.push_back(step.result);
      if (&step != &plan.steps.back()) keep(node, labels.names(step.result));
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
    if (node.element != Element::real || !sources_of(node, program_.flow).learned) return;
    const bool tile = cost_.tile_queries > 0 && sizes_.any_grows(names, Role::query) &&
                      sizes_.any_grows(names, Role::memory);
    const auto bytes = static_cast<size_t>(
        exact_product(sizes_.elements(names), static_cast<Index>(number_bytes_)));
    statement_.bytes += bytes;
    statement_.tile |= tile;
    cost_.bytes += bytes;
    const bool in_strips = cost_.tile_queries > 0 && program_.values[statement_.value].strips >= 0;
    if (!in_strips) cost_.tiled_bytes += tile ? in_tile(bytes, names) : bytes;
  }

  size_t in_tile(size_t bytes, const Names& names) {
    Index rows = 1;
    for (int name : names)
      if (sizes_.grows_with(name, Role::query)) rows = std::max(rows, sizes_.size(name));
    return bytes / static_cast<size_t>(rows) *
           static_cast<size_t>(std::min(rows, cost_.tile_queries));
  }

  const Checked& program_;
  CostSizes& sizes_;
  const Visible& visible_;
  size_t number_bytes_;
  Counting counting_;
  Cost& cost_;
  StatementCost& statement_;
};

void add(ParameterCost made, Cost& cost) {
  Index& total = made.fixed ? cost.fixed_parameters : cost.parameters;
  total = exact_sum(total, made.size);
  if (!made.fixed) cost.parameter_formula += made.formula;
  cost.parameter_sizes.push_back(std::move(made));
}

void add_parameters(const Checked& program, CostSizes& sizes, Cost& cost) {
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const CheckedParameter& p = program.parameters[i];
    const CheckedValue& v = program.values[p.value];
    Dims dims;
    for (int k = 0; k < v.dims.size(); ++k)
      dims.push_back(v.bounds[k] >= 0 ? v.bounds[k] : v.dims[k]);
    ParameterCost made{
        .name = p.name, .value = p.value, .fixed = p.fixed, .per_stack = p.per_stack};
    made.formula.add(sizes.product(dims));
    made.size = sizes.elements(dims);
    add(std::move(made), cost);
  }
}

// The number of queries in a block of the tile on the processor, or 0 without a tile.
Index queries_of_a_block(const Checked& program, CostSizes& sizes) {
  Index queries = 0;
  double widest = 0;
  for (int number : program.tile.inside) {
    const int strips = program.values[number].strips;
    double elements = 1;
    if (strips >= 0) {
      const auto rows = static_cast<double>(sizes.size(program.strips[strips].dim));
      elements = std::min(1.0, least_strip / rows);
    }
    for (int dim : program.values[number].dims) {
      elements *= static_cast<double>(sizes.size(dim));
      if (program.dimensions[dim].role == Role::query) queries = sizes.size(dim);
    }
    widest = std::max(widest, elements);
  }
  return widest == 0 ? 0 : block_queries(widest / static_cast<double>(queries), queries, Pieces{});
}

// Notes the first value outside of the tile that is over the memory twice: no block computes a part
// of it, so it is stored whole.
void find_whole(const Checked& program, Cost& cost) {
  if (cost.tile_queries == 0) return;
  std::vector<bool> inside(program.values.size());
  for (int number : program.tile.inside) inside[number] = true;
  for (size_t i = 0; i < program.values.size(); ++i) {
    const CheckedValue& v = program.values[i];
    const auto memories = std::count_if(v.dims.begin(), v.dims.end(), [&](int dim) {
      return program.dimensions[dim].role == Role::memory;
    });
    if (inside[i] || v.strips >= 0 || v.kind != ValueKind::statement || memories < 2) continue;
    cost.whole_because = {v.place};
    cost.whole_reason = text("'", v.name, "' is over the memory twice, and is stored whole");
    return;
  }
}

using DimensionNames = std::map<int, std::string>;

// The caller's names for the dimensions of a call's program: its own for those of arguments and for
// open ones; the others stand behind the statement's name.
DimensionNames names_inside(const CheckedCall& call, const std::string& statement,
                            const CostSizes& sizes) {
  DimensionNames names;
  for (size_t i = 0; i < call.program->dimensions.size(); ++i)
    names[static_cast<int>(i)] = statement + "." + call.program->dimensions[i].name;
  for (const CheckedCall::Size& size : call.sizes) names[size.inner] = sizes.name(size.outer);
  return names;
}

// `path` stands before the names of dimensions in calls: "Z.A.".
Cost counted(const Checked& program, SizeTable& table, const CostOptions& options,
             const DimensionNames& names, const std::string& path);

size_t repeated(size_t bytes, Index times) {
  return static_cast<size_t>(exact_product(static_cast<Index>(bytes), times));
}

// Repetitions of a call that are filled alike: how many they are, as a product's factor, too, and
// as a path has them.
struct Alike {
  Index times = 1;
  std::string size;  // empty: the number itself
  std::string numbers;

  void repeat(Formula& formula) const {
    if (size.empty()) formula.multiply(times);
    else formula.multiply(size);
  }
};

// `call` is `all` or one of its others.
Alike alike_in(const CheckedCall& all, const CheckedCall& call, SizeTable& table,
               const CostSizes& sizes) {
  const auto number = [](const NumberText& n) { return n.value; };
  if (&call != &all) {
    const Index count = std::ssize(call.numbers);
    return {count, "", "/" + list_of(call.numbers, number)};
  }
  if (all.repeated < 0) return {};
  Alike alike{table.times_of(all), sizes.name(all.repeated), all.tied ? "" : "/*"};
  Index others = 0;
  for (const CheckedCall& other : all.others) others += std::ssize(other.numbers);
  if (others > 0) alike.times -= others, alike.size = text("(", alike.size, " - ", others, ")");
  return alike;
}

// Adds a call's parameters: once if its repetitions share them, else once for each. `shared` has
// the names of those per stack that were counted already.
void add_parameters(const CheckedCall& call, const Cost& inner, const std::string& statement,
                    const Alike& alike, std::set<std::string>& shared, Cost& cost) {
  for (ParameterCost made : inner.parameter_sizes) {
    if (made.per_stack && !shared.insert(made.name).second) continue;
    made.name = statement + alike.numbers + "/" + made.name;
    made.value = -1;
    if (!call.tied && !made.per_stack) {
      alike.repeat(made.formula);
      made.size = exact_product(made.size, alike.times);
    }
    add(std::move(made), cost);
  }
}

// True if a value of it depends on the number of the repetition, as a mask may.
bool depends_on_layer(const Checked& program) {
  bool found = false;
  for (const CheckedValue& value : program.values) found |= layer_in(value.right) != nullptr;
  for (const CheckedCall& all : program.calls)
    visit(all, [&](const CheckedCall& call) {
      found |= all.repeated < 0 && depends_on_layer(*call.program);
    });
  return found;
}

// The cost of a call's program in one of its repetitions.
struct CallCost {
  const CheckedCall& call;
  SizeTable sizes;
  CostOptions options;
  DimensionNames names;
  std::string path;

  Cost at(Index layer) {
    if (call.repeated >= 0) sizes.set_layer(layer);
    return counted(*call.program, sizes, options, names, path);
  }
};

// The cost of all repetitions of `all` that are filled as `call` is.
Count count_all(const CheckedCall& all, const CheckedCall& call, const Cost& one,
                const Alike& alike, Index times, CallCost& inside) {
  Count count = one.total;
  count.multiply(alike.times), alike.repeat(count.formula);
  if (all.repeated < 0 || !depends_on_layer(*call.program)) return count;
  count.visible = 0;  // masks differ
  for (Index i = 0; i < times; ++i)
    if (&all.at(i) == &call) count.visible = exact_sum(count.visible, inside.at(i).total.visible);
  return count;
}

// Adds what the cost of a call, `one` in each of its repetitions, is made of.
void add_inside(const Checked& program, const Cost& one, const std::string& path,
                const Alike& alike, std::vector<InnerCost>& all) {
  const auto add = [&](const std::string& name, Count count) {
    count.multiply(alike.times), alike.repeat(count.formula);
    all.push_back({path + "/" + name, std::move(count)});
  };
  for (const StatementCost& statement : one.statements) {
    for (const InnerCost& inner : statement.inside) add(inner.name, inner.count);
    if (statement.inside.empty() && !statement.count.formula.empty())
      add(program.values[statement.value].name, statement.count);
  }
}

// Adds what a call takes besides its multiplies.
void add_memory(const Cost& inner, Index times, StatementCost& statement, Cost& cost) {
  statement.bytes += repeated(inner.bytes, times);
  cost.tiled_bytes += repeated(inner.tiled_bytes, times);
  cost.tile_queries = std::max(cost.tile_queries, inner.tile_queries);
  if (cost.whole_because.empty())
    cost.whole_because = inner.whole_because, cost.whole_reason = inner.whole_reason;
}

// Adds a call that is a program of its own: its cost, as often as it is repeated.
void add_call(const Checked& program, int number, SizeTable& table, const CostOptions& options,
              CostSizes& sizes, const std::string& path, Cost& cost) {
  const CheckedValue& value = program.values[number];
  const std::string name = path + value.name;
  const CheckedCall& all = program.calls[value.index];
  StatementCost statement{number};
  std::set<std::string> shared;
  visit(all, [&](const CheckedCall& call) {
    const CallSequences mask = sequences_of(program, call, options.causal, options.apart);
    CallCost inside{call,
                    table.inside(call),
                    {mask.causal, mask.apart, true, options.dtype, options.counting},
                    names_inside(call, name, sizes),
                    name + "."};
    const Cost inner = inside.at(0);
    const Alike alike = alike_in(all, call, table, sizes);
    statement.count += count_all(all, call, inner, alike, table.times_of(all), inside);
    if (!depends_on_layer(*call.program))
      add_inside(*call.program, inner, value.name + alike.numbers, alike, statement.inside);
    add_memory(inner, alike.times, statement, cost);
    cost.once = exact_sum(cost.once, exact_product(inner.once, alike.times));
    cost.visible_known &= inner.visible_known;
    add_parameters(call, inner, value.name, alike, shared, cost);
  });
  cost.bytes += statement.bytes;
  cost.total += statement.count;
  cost.statements.push_back(std::move(statement));
}

Cost counted(const Checked& program, SizeTable& table, const CostOptions& options,
             const DimensionNames& names, const std::string& path) {
  Cost cost;
  const Visible visible = visible_pairs(program, table, options);
  cost.visible_known = visible.known;
  CostSizes sizes(program, table, names);
  add_parameters(program, sizes, cost);
  cost.whole_because = program.tile.refused_at;
  cost.whole_reason = program.tile.reason;
  cost.tile_queries = queries_of_a_block(program, sizes);
  find_whole(program, cost);
  for (size_t i = 0; i < program.values.size(); ++i) {
    const CheckedValue& value = program.values[i];
    if (value.kind == ValueKind::call)
      add_call(program, static_cast<int>(i), table, options, sizes, path, cost);
    if (value.kind != ValueKind::statement || value.for_loss) continue;
    StatementCost statement{static_cast<int>(i)};
    statement.once = !program.flow.values[i].from.inputs;
    StatementCounter(program, sizes, visible, options, cost, statement).walk(value.right);
    cost.total += statement.count;
    if (statement.once) cost.once = exact_sum(cost.once, statement.count.multiplies);
    cost.statements.push_back(std::move(statement));
  }
  return cost;
}

}  // namespace

Cost cost_of(const Checked& program, SizeTable& sizes, const CostOptions& options) {
  CostOptions own = options;
  if (program.causal) own.causal = true, own.apart = program.is_apart();
  return counted(program, sizes, own, {}, "");
}

}  // namespace tete
