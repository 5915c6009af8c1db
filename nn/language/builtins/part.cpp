// part(X[…, d, …], dim=d, into=k, first=0): the k elements of d from `first` on.
#include <cmath>

#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

enum Key { key_dim, key_into, key_first };

void check(Reading& reading, const ExprText& e, Node& node) {
  const Node& x = read_tensor(reading, e, node, "what a part is of");
  const int into = node.keys[key_into].dim;
  refuse_known(reading, e, node, key_into, into);
  set_names(reading, e, x.names.without(node.dim()), {into}, node);
  node.element = x.element;
}

Value run(Runner& runner, const Node& node) {
  const Value x = runner.reference(node.args[0]);
  const int into = node.keys[key_into].dim;
  const double first = number_of_key(runner, node, key_first, 0);
  const Index count = runner.size(into), all = runner.size(node.dim());
  if (first != std::floor(first) || first < 0 || first > static_cast<double>(all - count))
    fail_at({node.keys[key_first].value.empty() ? node.place : node.keys[key_first].place},
            "a part of '", runner.dimension(node.dim()).name, "' = ", all, " has ", count,
            " elements, '", runner.dimension(into).name, "', so it cannot begin at ", first);
  Names names = x.names;
  for (int& name : names)
    if (name == node.dim()) name = into;
  const Tensor y = slice(x.tensor, runner.axis_of(x, node.dim()), static_cast<Index>(first), count);
  return runner.aligned({y, names, x.batched}, node.names, x.batched);
}

// Positions in a part are those of no sequence: they are other ones than their numbers say. Row i
// of the part is the table's, however many rows are new.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const Node& node = call.node;
  const auto how = Combination::How::splits;
  if (const Node* const first = value_of(node, key_first)) finder.report_sizes(*first);
  if (!finder.is_sequence(node.dim()) && finder.grows(node.dim()) &&
      !has_clock(out.reads, node.dim()))
    finder.report_length(node, node.dim(), how);
  finder.drop(node, node.dim(), how, out);
  finder.needs_all(node.keys[key_into].dim, out);
}

constexpr KeyRow keys[] = {
    {"dim", KeyKind::dim}, {"into", KeyKind::dim}, {"first", KeyKind::number, false}};

constexpr Builtin rows[] = {
    {.usage = "part(X[…, d, …], dim=d, into=k, first=0)",
     .meaning = "the k elements of d from the one with the number `first` on",
     .example = "Y[n, k] = part(X[n, d], dim=d, into=k, first=1)",
     .keys = keys,
     .counts_positions = true,
     .is_view = true,
     .check = check,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> part_functions() { return rows; }

}  // namespace tete
