// Einsums of three operands and more, written as products of two.
//
// A run multiplies two operands at a time anyway, in the cheapest order for its sizes. As
// statements these products are seen by what works on statements: a tile computes one that reads
// the memory alone once and not in each block of queries, and L[n, m, h] = einsum(X, M, P_q, P_k)
// is found to be attention as much as a text that gives queries and keys names.
#include "nn/run/pairwise.hpp"

#include <algorithm>

#include "core/plan.hpp"
#include "nn/labels.hpp"
#include "nn/run/runner.hpp"

namespace tete {

namespace {

bool multiplies_many(const Node& node) {
  return node.builtin && node.builtin->contracts && node.args.size() > 2;
}
// True if an einsum of the statement has more than two operands.
bool multiplies_many(const CheckedValue& v) {
  if (v.kind != ValueKind::statement) return false;
  bool many = false;
  visit(v.right, [&](const Node& node) { many = many || multiplies_many(node); });
  return many;
}

// A step of a plan (core/plan.hpp), by names.
struct Step {
  int a, b;
  Names result;
};
using Steps = std::vector<Step>;

// The sizes of a call, and the values that have its batch.
struct CallSizes {
  SizeTable& sizes;
  std::vector<bool> batched;
  Index batch;  // samples

  // The steps of an einsum in the order that contract_all (core/contract.cpp) takes. The batch has
  // one label.
  Steps steps_of(const Node& einsum) const {
    NameLabels labels(1);
    std::vector<Labels> operands;
    bool any = false;
    for (const Node& arg : einsum.args) {
      operands.push_back(labels.of(arg.names, batched[arg.index]));
      any |= batched[arg.index];
    }
    const Labels result = labels.of(einsum.names, any);
    Sizes by_label{};
    by_label[0] = batch;
    for (size_t i = 0; i < labels.all().size(); ++i) by_label[1 + i] = sizes.size(labels.all()[i]);
    Steps steps;
    for (const PlanStep& step : cached_plan(operands, result, by_label)->steps)
      steps.push_back({step.a, step.b, labels.names(step.result)});
    return steps;
  }
};

// True if a product over queries alone would be several times as large as what is stored for them
// anyway: a block makes it for its own queries, a statement for all. A product over the memory
// alone has no limit, as each block makes all of it.
bool stores_more(const Checked& program, const Node& einsum, const Steps& steps, SizeTable& sizes) {
  constexpr double several = 4;
  double stored = 0, made = 0;
  const auto see = [&](const Names& names, double& most) {
    if (!program.is_over(names, Role::query) || program.is_over(names, Role::memory)) return;
    double size = 1;
    for (int name : names) size *= static_cast<double>(sizes.size(name));
    most = std::max(most, size);
  };
  for (const Node& arg : einsum.args) see(arg.names, stored);
  see(einsum.names, stored);
  for (const Step& step : steps) see(step.result, made);
  return made > several * stored && stored > 0;
}

// By value, the steps of each einsum of many operands in the order of visit(); none where the
// statement stays as it is.
using Orders = std::vector<std::vector<Steps>>;

Orders orders_of(const Checked& program, const CallSizes& call) {
  Orders orders(program.values.size());
  for (int i : program.tile.inside) {
    const CheckedValue& v = program.values[i];
    if (!multiplies_many(v)) continue;
    bool stays = false;
    visit(v.right, [&](const Node& node) {
      if (!multiplies_many(node)) return;
      orders[i].push_back(call.steps_of(node));
      stays |= stores_more(program, node, orders[i].back(), call.sizes);
    });
    if (stays) orders[i].clear();
  }
  return orders;
}

std::string key_of(const Orders& orders) {
  std::string key;
  for (const std::vector<Steps>& statement : orders) {
    for (const Steps& steps : statement)
      for (const Step& step : steps) key += text(step.a, ' ', step.b, ' ');
    key += '\n';
  }
  return key;
}

// Writes a program anew, with a statement for each step but the last of an einsum.
class Writer {
 public:
  // `before` has no facts of analyse() yet.
  Writer(const Checked& before, const Orders& orders)
      : orders_(orders), after_(before), now_(before.values.size()) {}

  Checked write() {
    std::vector<CheckedValue> before;
    before.swap(after_.values);
    for (size_t i = 0; i < before.size(); ++i) {
      CheckedValue& v = before[i];
      if (v.kind == ValueKind::same) v.index = now_[v.index];
      change(v.right, [&](Node& node) {
        if (node.kind == NodeKind::value) node.index = now_[node.index];
      });
      auto steps = orders_[i].begin();
      if (steps != orders_[i].end())
        change(v.right, [&](Node& node) {
          if (multiplies_many(node)) write(v, node, *steps++);
        });
      now_[i] = add(std::move(v));
    }
    for (int* number : numbers()) *number = now_[*number];
    analyse(after_);
    return std::move(after_);
  }

 private:
  int add(CheckedValue v) {
    after_.values.push_back(std::move(v));
    return static_cast<int>(after_.values.size()) - 1;
  }
  // visit(), for nodes that `see` changes.
  template <class See>
  static void change(Node& node, const See& see) {
    see(node);
    for (Node& arg : node.args) change(arg, see);
    for (Node::Key& key : node.keys)
      for (Node& value : key.value) change(value, see);
  }
  // The values that the program names outside of statements.
  std::vector<int*> numbers() {
    std::vector<int*> all{&after_.result};
    for (int& input : after_.inputs) all.push_back(&input);
    for (int& loss : after_.losses) all.push_back(&loss);
    for (CheckedParameter& parameter : after_.parameters) all.push_back(&parameter.value);
    const auto passed = [&](CheckedCall& call) {
      for (CheckedCall::Passed& one : call.passed) all.push_back(&one.value);
    };
    for (CheckedCall& call : after_.calls) {
      passed(call);
      for (CheckedCall& other : call.others) passed(other);
    }
    return all;
  }

  void write(const CheckedValue& v, Node& einsum, const Steps& steps) {
    std::vector<Node> operands = std::move(einsum.args);
    einsum.args.clear();
    for (const Step& step : steps) {
      Node product = einsum;
      product.args = {operands[step.a], operands[step.b]};
      if (&step == &steps.back()) return void(einsum = std::move(product));
      product.names = step.result;
      operands.push_back(use_of(add(part_of(v, std::move(product)))));
    }
  }
  CheckedValue part_of(const CheckedValue& v, Node product) const {
    CheckedValue part{.name = v.name, .place = product.place, .dims = product.names};
    part.names = product.names, part.right = std::move(product);
    part.watched = false, part.slot = v.slot;
    return part;
  }
  Node use_of(int value) const {
    const CheckedValue& v = after_.values[value];
    Node use{.kind = NodeKind::value, .place = v.place, .index = value, .names = v.dims};
    use.constant = false;
    for (int dim : v.dims) use.axes.push_back({-1, {dim}});
    return use;
  }

  const Orders& orders_;
  Checked after_;
  std::vector<int> now_;  // the new numbers of values
};

// True if all sizes follow from those that are set. A length may be none that a text can have, as
// one that its pieces do not divide.
bool are_known(const Checked& program, SizeTable& sizes) try {
  for (int dim = 0; dim < std::ssize(program.dimensions); ++dim)
    if (!sizes.find(dim)) return false;
  return true;
} catch (const Error&) {
  return false;
}

std::shared_ptr<const Checked> rewritten(const Checked& program, const CallSizes& call) {
  const Orders orders = orders_of(program, call);
  const auto is_empty = [](const auto& steps) { return steps.empty(); };
  if (std::all_of(orders.begin(), orders.end(), is_empty)) return {};
  return program.pairwise->written.get(key_of(orders), [&] {
    Checked after = Writer(program.pairwise->program, orders).write();
    after.uses = program.uses;  // the sources that places of it refer to
    after.leak = program.leak;  // which points at the text's statements
    return after;
  });
}

}  // namespace

std::shared_ptr<Pairwise> find_pairwise(const Checked& program) {
  const auto many = [](const CheckedValue& v) { return multiplies_many(v); };
  const bool any = std::any_of(program.values.begin(), program.values.end(), many);
  return any ? std::make_shared<Pairwise>(program) : nullptr;
}

std::shared_ptr<const Checked> pairwise(const Checked& program, const SizeTable& given,
                                        const Tensors& inputs, const Mask& mask) {
  const auto is_missing = [](const Tensor& x) { return !x; };
  if (!program.pairwise || inputs.size() != program.inputs.size() ||
      std::any_of(inputs.begin(), inputs.end(), is_missing))
    return {};
  SizeTable sizes = given;
  bind_call(sizes, inputs, with_own_part(mask, program));
  Index batch = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int ahead = inputs[i].rank() - program.values[program.inputs[i]].dims.size();
    Index samples = 1;
    for (int d = 0; d < ahead; ++d) samples *= inputs[i].size(d);
    if (ahead > 0) batch = samples;  // all inputs with a batch have the same
  }
  return rewritten(program, {sizes, batched_values(program, inputs), batch});
}

std::shared_ptr<const Checked> pairwise_by_rows(const Checked& program, SizeTable sizes) {
  if (!program.pairwise || !are_known(program, sizes)) return {};
  const std::vector<bool> none(program.values.size());  // one sample: a batch changes no cost
  return rewritten(program, {sizes, none, 1});
}

}  // namespace tete
