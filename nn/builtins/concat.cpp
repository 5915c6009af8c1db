// concat(A[…, a, …], B[…, b, …], dim=e): A, then B, along the one dimension that each has of its
// own; on the left it is e.
#include "nn/builtins/builtin.hpp"

namespace tete {

namespace {

bool same_names(const Names& a, const Names& b) {
  const auto all_in = [](const Names& some, const Names& all) {
    return std::all_of(some.begin(), some.end(), [&](int name) { return all.contains(name); });
  };
  return all_in(a, b) && all_in(b, a);
}

void read_operands(Reading& reading, const ExprText& e, Node& node) {
  for (const ExprText& arg : e.args) {
    node.args.push_back(reading.tensor(arg, *node.builtin));
    if (node.args.back().names.size() != node.args[0].names.size())
      fail_at({arg.place, e.args[0].place}, "what is joined has as many dimensions each");
    if (node.args.back().element != node.args[0].element)
      fail_at({arg.place, e.args[0].place}, "what is joined has elements of one kind");
  }
}

// An operand's own axis is the one whose name the left lacks.
void check(Reading& reading, const ExprText& e, Node& node) {
  read_operands(reading, e, node);
  const Names& expected = reading.expected;
  const Place left = reading.left ? reading.left->whole : e.place;
  Names shared;
  for (size_t i = 0; i < node.args.size(); ++i) {
    Names own, rest;
    for (int name : node.args[i].names)
      (expected.contains(name) && name != node.dim() ? rest : own).push_back(name);
    if (own.size() != 1)
      fail_at({e.args[i].place, left},
              text("an operand of concat has one dimension of its own, this has ", own.size()));
    if (i == 0) shared = rest;
    if (!same_names(shared, rest))
      fail_at({e.args[i].place, e.args[0].place}, "what is joined shares all other dimensions");
  }
  if (!expected.contains(node.dim()))
    fail_at({node.keys[0].place, left},
            text("'", reading.in.own_name(node.dim()), "' is not a dimension of the left"));
  for (int name : expected)
    if (name == node.dim() || shared.contains(name)) node.names.push_back(name);
  node.element = node.args[0].element;
}

Value run(Runner& runner, const Node& node) {
  std::vector<Value> parts;
  bool batched = false;
  for (const Node& arg : node.args) {
    parts.push_back(runner.reference(arg));
    batched |= parts.back().batched;
  }
  Tensors tensors;
  Index total = 0;
  const int at = node.names.find(node.dim());
  for (const Value& part : parts) {
    Names names = node.names;
    for (int name : part.names)
      if (!names.contains(name)) names[at] = name;
    tensors.push_back(runner.aligned(part, names, batched).tensor);
    total += runner.size(names[at]);
  }
  if (total != runner.size(node.dim()))
    fail_at({node.place}, text("'", runner.dimension(node.dim()).name, "' is ",
                               runner.size(node.dim()), ", but what is joined comes to ", total));
  return {concat(tensors, at + (batched ? runner.batch_rank() : 0)), node.names, batched};
}

bool hides(LeakFinder&, const Node&, const std::vector<Flow>& args) {
  return std::all_of(args.begin(), args.end(), [](const Flow& f) { return f.hidden; });
}

constexpr KeyRow keys[] = {{"dim", KeyRow::Kind::dim}};

constexpr Builtin rows[] = {
    {.name = "concat",
     .usage = "concat(A[…], B[…], dim=e)",
     .meaning = "A, then B, along the one dimension that each has of its own",
     .least = 2,
     .most = max_operands,
     .keys = keys,
     .check = check,
     .run = run,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> concat_functions() { return rows; }

}  // namespace tete
