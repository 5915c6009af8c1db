#include "tools/inspect/expression.hpp"

#include "core/error.hpp"

namespace tete {

namespace {

// How tightly an operator binds its operands; what is no operation binds most.
int binding(Operator op) {
  if (op <= Operator::negation) return static_cast<int>(op);
  if (op <= Operator::unequal) return 3;
  if (op <= Operator::subtract) return 4;
  if (op <= Operator::modulo) return 5;
  return op == Operator::minus ? 6 : 7;
}

std::string sign(Operator op) {
  if (op == Operator::multiply) return "·";
  if (op == Operator::subtract) return " − ";
  if (op == Operator::power) return "^";
  return text(" ", symbol(op), " ");
}

class InOneLine {
 public:
  InOneLine(const Checked& program, const Aliases& aliases)
      : program_(program), aliases_(aliases) {}

  // In parentheses if it binds less than `least`.
  std::string write(const Node& node, int least) const {
    if (const Node* hidden = statement_of(node)) return write(*hidden, least);
    if (node.kind != NodeKind::operation) return operand(node);
    const int own = binding(node.op);
    const std::string all = operation(node, own);
    return own < least ? "(" + all + ")" : all;
  }

 private:
  // The statement of a value that has no name on the page.
  const Node* statement_of(const Node& node) const {
    if (node.kind != NodeKind::value || aliases_.shown(node.index) >= 0) return nullptr;
    const CheckedValue& v = program_.values[aliases_.origin(node.index)];
    return v.kind == ValueKind::statement ? &v.right : nullptr;
  }

  std::string operation(const Node& node, int own) const {
    if (node.args.size() == 1) {
      const bool is_minus = node.op == Operator::minus;
      return (is_minus ? "−" : text(symbol(node.op), " ")) + write(node.args[0], own);
    }
    const bool from_the_right = node.op == Operator::power;
    return write(node.args[0], own + from_the_right) + sign(node.op) +
           write(node.args[1], own + !from_the_right);
  }

  std::string operand(const Node& node) const {
    switch (node.kind) {
      case NodeKind::number:
        return number_text(node.number);
      case NodeKind::size:
        return dimension(node.index);
      case NodeKind::causal:
        return "causal";
      case NodeKind::layer:
        return "layer";
      case NodeKind::call:
        return call(node);
      default:
        return value(node);
    }
  }
  std::string dimension(int number) const { return program_.dimensions[number].short_name(); }

  std::string value(const Node& node) const {
    const int shown = aliases_.shown(node.index);
    const Names& dims = program_.values[node.index].dims;
    std::string picks;
    for (size_t i = 0; i < node.axes.size(); ++i)
      if (node.axes[i].pick >= 0)
        picks += text(picks.empty() ? "[" : ", ", dimension(dims[static_cast<int>(i)]), "=",
                      node.axes[i].pick);
    return program_.name_of(shown < 0 ? node.index : shown) + picks + (picks.empty() ? "" : "]");
  }

  std::string call(const Node& node) const {
    std::string all;
    const auto add = [&](const std::string& part) { all += (all.empty() ? "" : ", ") + part; };
    for (const Node& arg : node.args) add(write(arg, 0));
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const Node::Key& key = node.keys[i];
      const std::string name = text(node.builtin->keys[i].name, "=");
      if (key.dim >= 0) add(name + dimension(key.dim));
      else if (!key.value.empty()) add(name + write(key.value[0], 0));
    }
    if (all.empty())  // of positions: visible(n, m)
      for (int name : node.names) add(dimension(name));
    return text(node.builtin->name, "(", all, ")");
  }

  const Checked& program_;
  const Aliases& aliases_;
};

}  // namespace

std::string expression(const Checked& program, const Aliases& aliases, const Node& node) {
  return InOneLine(program, aliases).write(node, 0);
}
std::string factor(const Checked& program, const Aliases& aliases, const Node& node) {
  return InOneLine(program, aliases).write(node, binding(Operator::multiply));
}

}  // namespace tete
