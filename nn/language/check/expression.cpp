// Expressions: numbers, dimensions, tensors and operators.
#include "nn/language/check/reading.hpp"

namespace tete {

Node Reading::quantity(Instance& in, const ExprText& e, const char* what) {
  const Node node = Reading(in).expression(e);
  if (!node.constant)
    fail_at({e.place}, what, " is made of numbers and dimensions, not of tensors");
  return node;
}

const Node* layer_in(const Node& node) {
  const Node* found = nullptr;
  visit(node, [&](const Node& part) {
    if (!found && part.kind == NodeKind::layer) found = &part;
  });
  return found;
}

Node Reading::expression(const ExprText& e) {
  Node node;
  node.place = e.place;
  node.element = e.kind == ExprKind::number && !e.whole ? Element::real : Element::whole;
  if (e.kind != ExprKind::ref) in.draft.count_part(e.place);
  switch (e.kind) {
    case ExprKind::number:
      node.number = e.number;
      return node;
    case ExprKind::dim:
      node.kind = NodeKind::size;
      node.index = dimension(e.word);
      return node;
    case ExprKind::causal:
      node.kind = NodeKind::causal;
      return node;
    case ExprKind::layer:
      node.kind = NodeKind::layer;
      return node;
    case ExprKind::ref:
      node = in.resolve(e.ref);
      check_expected(e.ref, node);
      return node;
    case ExprKind::operation:
      return operation(e);
    case ExprKind::call:
      return call(e);
    case ExprKind::group:
      fail_at({e.place}, "a list of dimensions has no value; it belongs to a key like into=(o w)");
  }
  return node;
}

int Reading::dimension(const Word& word) {
  if (!in.dims.contains(word.name) && in.values.contains(word.name))
    fail_at({word.place}, "'", word.name, "' is a tensor: write it with its dimensions");
  return in.dimension(word);
}

void Reading::check_expected(const RefText& ref, const Node& node) const {
  for (int name : node.names) {
    if (expected.contains(name)) continue;
    if (!left)
      fail_at({ref.whole}, "only numbers and dimensions can stand here; '", ref.word.name,
              "' is a tensor");
    fail_at({in.place_of(ref, name), left->whole}, "'", in.own_name(name), "' is a dimension of '",
            ref.word.name, "' but not of the left; only einsum and reductions drop a dimension");
  }
}

Names Reading::joined(const std::vector<Node>& args) const {
  Names names;
  for (int name : expected)
    for (const Node& arg : args)
      if (arg.names.contains(name) && !names.contains(name)) names.push_back(name);
  return names;
}

void need(const Node& node, Element element, const std::string& who) {
  const bool number_as_truth = element == Element::truth && node.element != Element::truth;
  const bool real_as_whole = element == Element::whole && node.element == Element::real;
  if (number_as_truth || real_as_whole)
    fail_at({node.place}, who, " needs ", describe(element), ", but this gives ",
            describe(node.element));
}

namespace {

// R13. Whole numbers stay whole under + - * // %; truth counts as 0 or 1.
Element element_of(const Node& node) {
  if (node.op >= Operator::less && node.op <= Operator::unequal) return Element::truth;
  const std::string who = text("'", symbol(node.op), "'");
  switch (node.op) {
    case Operator::either:
    case Operator::both:
    case Operator::negation:
      for (const Node& arg : node.args) need(arg, Element::truth, who);
      return Element::truth;
    case Operator::divide:
      return Element::real;
    case Operator::floor_divide:
    case Operator::modulo:
      for (const Node& arg : node.args) need(arg, Element::whole, who);
      return Element::whole;
    case Operator::power:
      if (!node.args[1].constant)
        fail_at({node.args[1].place},
                "an exponent is a number, not a tensor; 2^x is exp(x * log(2))");
      return node.args[0].constant && node.args[1].kind == NodeKind::number &&
                     node.args[0].element == Element::whole
                 ? node.args[1].element
                 : Element::real;
    default:
      for (const Node& arg : node.args)
        if (arg.element == Element::real) return Element::real;
      return Element::whole;
  }
}

}  // namespace

Node Reading::operation(const ExprText& e) {
  Node node;
  node.kind = NodeKind::operation;
  node.place = e.place;
  node.op = e.op;
  for (const ExprText& arg : e.args) node.args.push_back(expression(arg));
  node.names = joined(node.args);
  for (const Node& arg : node.args) node.constant &= arg.constant;
  node.element = element_of(node);
  return node;
}

}  // namespace tete
