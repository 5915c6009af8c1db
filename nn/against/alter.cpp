#include "nn/against/alter.hpp"

#include <algorithm>

#include "core/ops.hpp"

namespace tete {

namespace {

std::string short_name(const Checked& program, int dim) {
  const std::string& name = program.dimensions[static_cast<size_t>(dim)].name;
  return name.substr(name.rfind('.') + 1);
}

bool takes_dimension(const Node& node) {
  return node.kind == Node::Kind::call && node.args.size() == 1 &&
         node.names.contains(node.dim()) && node.builtin->keys[0].required;
}

bool is_function(const Node& node) {
  return node.kind == Node::Kind::call && node.builtin->apply && node.args.size() == 1 &&
         !node.constant;
}

template <class Visit>
void walk(Node& node, const Visit& visit) {
  visit(node);
  for (Node& arg : node.args) walk(arg, visit);
}
template <class Visit>
void walk(const Node& node, const Visit& visit) {
  visit(node);
  for (const Node& arg : node.args) walk(arg, visit);
}

// `node` where the mask lets see, else 0.
Node masked_after(const Checked& program, Node node) {
  Names pair;
  for (const Role role : {Role::query, Role::memory})
    for (int name : node.names)
      if (program.dimensions[static_cast<size_t>(name)].role == role) pair.push_back(name);
  Node visible;
  visible.kind = Node::Kind::call;
  visible.builtin = find_builtin("visible");
  visible.names = pair, visible.constant = false;
  Node product;
  product.kind = Node::Kind::operation;
  product.op = Operator::multiply;
  product.names = node.names, product.constant = false;
  node.takes_call_mask = false;
  product.args = {std::move(node), std::move(visible)};
  return product;
}

class Alterer {
 public:
  Alterer(const Checked& program, int statement) : program_(program), statement_(statement) {}

  std::vector<Alteration> all() {
    const Node& right = program_.values[static_cast<size_t>(statement_)].right;
    int at = 0;
    walk(right, [&](const Node& node) {
      if (takes_dimension(node)) dimensions(node, at);
      if (node.takes_call_mask) masks(node, at);
      if (is_function(node)) functions(node, at);
      if (node.kind == Node::Kind::operation && node.args.size() == 2 && !node.constant)
        terms(node, at);
      ++at;
    });
    return std::move(made_);
  }

 private:
  // Adds the program whose node number `at` is changed.
  template <class Edit>
  void add(int at, std::string sentence, const Edit& edit) {
    auto program = std::make_shared<Checked>(program_);
    int number = 0;
    Node* found = nullptr;
    walk(program->values[static_cast<size_t>(statement_)].right, [&](Node& node) {
      if (number++ == at) found = &node;
    });
    *found = edit(*found);
    made_.push_back({std::move(sentence), std::move(program)});
  }

  void dimensions(const Node& node, int at) {
    for (int name : node.names) {
      if (name == node.dim()) continue;
      add(at,
          text("as if ", node.builtin->name, " went over ", short_name(program_, name),
               ", not over ", short_name(program_, node.dim())),
          [&](Node altered) { return altered.keys[0].dim = name, altered; });
    }
    add(at, text("as if ", node.builtin->name, " were left out"),
        [](const Node& altered) { return Node(altered.args[0]); });
  }

  void masks(const Node& node, int at) {
    add(at, text("as if ", node.builtin->name, " took no mask"),
        [](Node altered) { return altered.takes_call_mask = false, altered; });
    add(at,
        text("as if the mask were multiplied in after ", node.builtin->name,
             ", whose sum then counts what is hidden"),
        [&](const Node& altered) { return masked_after(program_, altered); });
  }

  void functions(const Node& node, int at) {
    const std::string_view name = node.builtin->name;
    add(at, text("as if ", name, " were left out"),
        [](const Node& altered) { return Node(altered.args[0]); });
    static constexpr std::pair<const char*, const char*> alike[] = {
        {"gelu", "gelu_erf"}, {"relu", "gelu"}, {"silu", "sigmoid"}, {"silu", "gelu"}};
    for (const auto& [a, b] : alike) {
      if (name != a && name != b) continue;
      const char* other = name == a ? b : a;
      add(at, text("as if ", name, " were ", other),
          [&](Node altered) { return altered.builtin = find_builtin(other), altered; });
    }
  }

  void terms(const Node& node, int at) {
    const auto keep = [&](size_t kept, const char* what) {
      if (!node.args[kept].constant)
        add(at, text("as if what stands ", what, " '", symbol(node.op), "' were left out"),
            [=](const Node& altered) { return Node(altered.args[kept]); });
    };
    const auto replace = [&](Operator op) {
      add(at, text("as if the '", symbol(node.op), "' were '", symbol(op), "'"),
          [=](Node altered) { return altered.op = op, altered; });
    };
    switch (node.op) {
      case Operator::add:
      case Operator::subtract:
        keep(0, "right of"), keep(1, "left of");
        replace(node.op == Operator::add ? Operator::subtract : Operator::add);
        break;
      case Operator::multiply:
      case Operator::divide:
        keep(0, "right of"), keep(1, "left of");
        replace(node.op == Operator::multiply ? Operator::divide : Operator::multiply);
        break;
      default:
        break;
    }
  }

  const Checked& program_;
  int statement_;
  std::vector<Alteration> made_;
};

bool is_elementwise(const Node& node) {
  return node.kind == Node::Kind::operation ||
         (node.kind == Node::Kind::call && node.builtin->apply);
}

bool reads_elementwise(const Node& node, int value) {
  if (node.kind == Node::Kind::value) return node.index == value && node.plain;
  return is_elementwise(node) &&
         std::any_of(node.args.begin(), node.args.end(),
                     [&](const Node& arg) { return reads_elementwise(arg, value); });
}

}  // namespace

std::vector<Alteration> alterations(const Checked& program, int statement) {
  if (program.values[static_cast<size_t>(statement)].kind != CheckedValue::Kind::statement)
    return {};
  return Alterer(program, statement).all();
}

std::shared_ptr<const Checked> without_masks(const Checked& program) {
  auto altered = std::make_shared<Checked>(program);
  for (CheckedValue& v : altered->values)
    walk(v.right, [](Node& node) { node.takes_call_mask = false; });
  return altered;
}

Names masked_pair(const Checked& program) {
  Names pair;
  for (const CheckedValue& v : program.values)
    walk(v.right, [&](const Node& node) {
      if (!node.takes_call_mask || !pair.empty()) return;
      for (const Role role : {Role::query, Role::memory})
        for (int name : node.names)
          if (program.dimensions[static_cast<size_t>(name)].role == role) pair.push_back(name);
    });
  return pair;
}

bool enters_masked_softmax(const Checked& program, int value) {
  bool found = false;
  for (const CheckedValue& v : program.values) {
    if (v.kind == CheckedValue::Kind::same && v.index == value)
      found |= enters_masked_softmax(program, static_cast<int>(&v - program.values.data()));
    walk(v.right, [&](const Node& node) {
      found |= node.takes_call_mask && reads_elementwise(node.args[0], value);
    });
  }
  return found;
}

std::vector<OtherMask> other_masks(const Checked& program, Evaluation& run, const Mask& mask) {
  const Names pair = masked_pair(program);
  if (pair.size() != 2) return {};
  const Index n = run.size(pair[0]), m = run.size(pair[1]);
  // 1 where memory j of query i is at most `offset` ahead.
  const auto up_to = [&](Index offset) {
    std::vector<double> seen;
    for (Index i = 0; i < n * m; ++i) seen.push_back(i % m <= i / m + offset);
    return Mask{.visible = Tensor::of<double>({n, m}, std::span<const double>(seen))};
  };
  if (mask.hides_nothing()) {
    std::vector<OtherMask> others = {
        {"as if a causal mask were applied, where none is given", up_to(m - n)}};
    if (m != n)
      others.push_back(
          {"as if a causal mask were applied (j <= i), where none is given", up_to(0)});
    return others;
  }
  const Tensor visible = run.visible(pair);
  std::vector<OtherMask> others = {
      {"as if no mask were applied", Mask{}},
      {"as if the mask were inverted: here 1 means 'may attend'", Mask{.visible = 1.0 - visible}}};
  if (n == m) {
    Axes order;
    for (int i = 0; i < visible.rank(); ++i) order.push_back(i);
    std::swap(order[visible.rank() - 1], order[visible.rank() - 2]);
    others.push_back(
        {"as if the mask's two axes were swapped", {.visible = permute(visible, order)}});
  }
  if (!mask.causal) return others;
  others.push_back({"as if the causal mask hid a query's own position, too", up_to(m - n - 1)});
  others.push_back({"as if the causal mask let see one position ahead", up_to(m - n + 1)});
  if (m != n) {
    others.push_back(
        {"as if query i saw the memories j <= i; the text's last query sees them all", up_to(0)});
  }
  return others;
}

}  // namespace tete
