// Einsums of three operands and more, written as products of two.
//
// A run multiplies them in pairs anyway, in the cheapest order for its sizes. As statements of
// their own, pairs are seen by what works on statements: a tile computes a product that reads the
// memory alone once and not in each block of queries, and L[n, m, h] = einsum(X, M, P_q, P_k) is
// found to be attention as much as a text that gives queries and keys names.
#include "nn/run/in_pairs.hpp"

#include <algorithm>

#include "core/plan.hpp"
#include "nn/language/sizes.hpp"

namespace tete {

namespace {

bool multiplies_many(const Node& node) {
  return node.builtin && node.builtin->contracts && node.args.size() > 2;
}
bool multiplies_many(const CheckedValue& v) {
  bool many = false;
  visit(v.right, [&](const Node& node) { many = many || multiplies_many(node); });
  return v.kind == ValueKind::statement && many;
}

// A step of a plan: the numbers of two operands, of which a step's result is the next, and the
// names of the result.
struct Pair {
  int a, b;
  Names names;
};
using Pairs = std::vector<Pair>;

// Sizes of a call, and the values that have its batch.
struct CallSizes {
  SizeTable& sizes;
  const std::vector<bool>& batched;
  Index batch;

  // The pairs of an einsum, in the order that contract_all (core/contract.cpp) takes.
  Pairs pairs_of(const Node& einsum) const {
    Names all;
    Sizes by_label{};
    by_label[0] = batch;
    const auto labels = [&](const Names& names, bool has_batch) {
      Labels made;
      if (has_batch) made.push_back(0);
      for (int name : names) {
        if (!all.contains(name)) all.push_back(name);
        made.push_back(static_cast<Label>(1 + all.find(name)));
        by_label[made.back()] = sizes.size(name);
      }
      return made;
    };
    std::vector<Labels> operands;
    bool any = false;
    for (const Node& arg : einsum.args) {
      operands.push_back(labels(arg.names, batched[arg.index]));
      any |= batched[arg.index];
    }
    Pairs pairs;
    for (const PlanStep& step : cached_plan(operands, labels(einsum.names, any), by_label)->steps) {
      pairs.push_back({step.a, step.b, {}});
      for (Label label : step.result)
        if (label > 0) pairs.back().names.push_back(all[label - 1]);
    }
    return pairs;
  }
};

// A block of queries makes a product over queries alone for its own, a statement outside of the
// tile for all: it should not be several times as large as what is there for all anyway.
constexpr double most_larger = 4;

bool is_too_large(const Checked& program, const Node& einsum, const Pairs& pairs,
                  SizeTable& sizes) {
  double stored = 0, made = 0;
  const auto see = [&](const Names& names, double& most) {
    if (!program.is_over(names, Role::query) || program.is_over(names, Role::memory)) return;
    double size = 1;
    for (int name : names) size *= static_cast<double>(sizes.size(name));
    most = std::max(most, size);
  };
  for (const Node& arg : einsum.args) see(arg.names, stored);
  see(einsum.names, stored);
  for (const Pair& pair : pairs) see(pair.names, made);
  return made > most_larger * stored && stored > 0;
}

// By value, the pairs of each einsum of many operands in the order of visit(); none where the
// statement stays as it is.
using Orders = std::vector<std::vector<Pairs>>;

Orders orders_of(const Checked& program, const CallSizes& call) {
  Orders orders(program.values.size());
  for (int i : program.tile.inside) {
    const CheckedValue& v = program.values[i];
    if (!multiplies_many(v)) continue;
    bool stays = false;
    visit(v.right, [&](const Node& node) {
      if (!multiplies_many(node)) return;
      orders[i].push_back(call.pairs_of(node));
      stays |= is_too_large(program, node, orders[i].back(), call.sizes);
    });
    if (stays) orders[i].clear();
  }
  return orders;
}

std::string key_of(const Orders& orders) {
  std::string key;
  for (const std::vector<Pairs>& statement : orders) {
    for (const Pairs& pairs : statement)
      for (const Pair& pair : pairs) key += text(pair.a, ' ', pair.b, ' ');
    key += '\n';
  }
  return key;
}

// Writes a program anew, with a statement for each pair but the last of an einsum.
class Writer {
 public:
  Writer(const Checked& before, const Orders& orders)
      : before_(before), orders_(orders), after_(before), now_(before.values.size()) {}

  Checked write() {
    after_.values.clear();
    for (size_t i = 0; i < before_.values.size(); ++i) {
      CheckedValue v = before_.values[i];
      if (v.kind == ValueKind::same) v.index = now_[v.index];
      renumber(v.right);
      auto pairs = orders_[i].begin();
      if (pairs != orders_[i].end()) write(v, v.right, pairs);
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
  void renumber(Node& node) {
    if (node.kind == NodeKind::value) node.index = now_[node.index];
    for (Node& arg : node.args) renumber(arg);
    for (Node::Key& key : node.keys)
      for (Node& value : key.value) renumber(value);
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

  // In the order of visit().
  void write(const CheckedValue& v, Node& node, std::vector<Pairs>::const_iterator& pairs) {
    if (multiplies_many(node)) write(v, node, *pairs++);
    for (Node& arg : node.args) write(v, arg, pairs);
    for (Node::Key& key : node.keys)
      for (Node& value : key.value) write(v, value, pairs);
  }
  void write(const CheckedValue& v, Node& einsum, const Pairs& pairs) {
    std::vector<Node> operands = std::move(einsum.args);
    einsum.args.clear();
    for (const Pair& pair : pairs) {
      Node product = einsum;
      product.args = {operands[pair.a], operands[pair.b]};
      if (&pair == &pairs.back()) return void(einsum = std::move(product));
      product.names = pair.names;
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

  const Checked& before_;
  const Orders& orders_;
  Checked after_;
  std::vector<int> now_;  // the new numbers of values
};

}  // namespace

std::shared_ptr<InPairs> find_in_pairs(const Checked& program) {
  const auto many = [](const CheckedValue& v) { return multiplies_many(v); };
  const bool any = std::any_of(program.values.begin(), program.values.end(), many);
  return any ? std::make_shared<InPairs>(program) : nullptr;
}

std::vector<bool> batched_values(const Checked& program, const Tensors& inputs) {
  std::vector<bool> batched(program.values.size());
  for (size_t i = 0; i < batched.size(); ++i) {
    const CheckedValue& v = program.values[i];
    if (v.kind == ValueKind::input)
      batched[i] = inputs[static_cast<size_t>(v.index)].rank() > v.dims.size();
    for (int used : v.uses)
      if (batched[used]) batched[i] = true;
  }
  return batched;
}

std::shared_ptr<const Checked> in_pairs(const Checked& program, const SizeTable& given,
                                        const Tensors& inputs) {
  if (!program.in_pairs || inputs.size() != program.inputs.size()) return {};
  SizeTable sizes = given;
  Index batch = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) return {};
    sizes.bind(program.inputs[i], inputs[i].shape());
    const int rank = program.values[program.inputs[i]].dims.size();
    const Index ahead = inputs[i].rank() - rank;
    if (ahead <= 0) continue;
    batch = 1;
    for (int d = 0; d < ahead; ++d) batch *= inputs[i].size(d);
  }
  const std::vector<bool> batched = batched_values(program, inputs);
  const Orders orders = orders_of(program, {sizes, batched, batch});
  const auto is_empty = [](const auto& pairs) { return pairs.empty(); };
  if (std::all_of(orders.begin(), orders.end(), is_empty)) return {};
  return program.in_pairs->written.get(
      key_of(orders), [&] { return Writer(program.in_pairs->program, orders).write(); });
}

}  // namespace tete
