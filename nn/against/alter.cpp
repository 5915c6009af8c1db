#include "nn/against/alter.hpp"

#include <algorithm>

#include "core/ops.hpp"
#include "nn/run/runner.hpp"

namespace tete {

namespace {

bool is_call(const Node& node) { return node.kind == Node::Kind::call; }
// position(m) - position(n)
bool is_distance(const Node& node) {
  return node.kind == Node::Kind::operation && node.op == Operator::subtract &&
         node.args.size() == 2 && calls(node.args[0], "position") &&
         calls(node.args[1], "position");
}

bool is_rotation(const Node& node) { return calls(node, "rotate"); }
bool is_bucket(const Node& node) { return calls(node, "bucket"); }

Node number(double x) {
  Node node;
  node.number = x, node.element = Element::whole;
  return node;
}
Node operation(Operator op, Node a, Node b) {
  Node node;
  node.kind = Node::Kind::operation, node.op = op;
  node.names = a.names, node.element = a.element;
  node.constant = a.constant && b.constant;
  node.args = {std::move(a), std::move(b)};
  return node;
}
Node call(const Builtin& builtin, const Node& like, std::vector<Node> args) {
  Node node = like;
  node.builtin = &builtin, node.args = std::move(args);
  return node;
}

// `node` where the mask is 1, else 0: the mask is multiplied in after the softmax.
Node masked_after(const Checked& program, Node node) {
  Node visible;
  visible.kind = Node::Kind::call, visible.constant = false;
  visible.builtin = find_builtin("visible");
  for (const Role role : {Role::query, Role::memory})
    for (int name : node.names)
      if (program.dimensions[name].role == role) visible.names.push_back(name);
  node.takes_call_mask = false;
  return operation(Operator::multiply, std::move(node), std::move(visible));
}

// Permutes the dimension so that its halves become neighbours, (0, d/2, 1, d/2 + 1, …); or back.
Value interleaved(Runner& runner, const Node& node, bool back) {
  const Value x = runner.node(node.args[0]);
  const int axis = x.names.find(node.dim()) + x.tensor.rank() - x.names.size();
  Shape split = x.tensor.shape();
  split[axis] /= 2;
  split.insert(axis, 2);
  if (back) std::swap(split[axis], split[axis + 1]);
  Axes order;
  for (int i = 0; i < split.size(); ++i) order.push_back(i);
  std::swap(order[axis], order[axis + 1]);
  return {reshape(permute(reshape(x.tensor, split), order), x.tensor.shape()), x.names, x.batched};
}

// Functions that only mistakes call.
const Builtin& leaky_relu() {
  static const Builtin row = [] {
    Builtin b = *find_builtin("relu");
    b.name = "leaky_relu";
    b.apply = [](const Tensors& x) { return max(x[0], x[0] * 0.01); };
    return b;
  }();
  return row;
}
const Builtin& neighbours_of_halves() {
  static const Builtin row = [] {
    Builtin b = *find_builtin("rotate");
    b.run = [](Runner& runner, const Node& node) { return interleaved(runner, node, false); };
    return b;
  }();
  return row;
}
const Builtin& halves_of_neighbours() {
  static const Builtin row = [] {
    Builtin b = *find_builtin("rotate");
    b.run = [](Runner& runner, const Node& node) { return interleaved(runner, node, true); };
    return b;
  }();
  return row;
}
Node rotated_by_halves(const Node& node) {
  Node inner = node;
  inner.args[0] = call(neighbours_of_halves(), node, {node.args[0]});
  return call(halves_of_neighbours(), node, {std::move(inner)});
}

template <class Visit>
void walk(Node& node, const Visit& visit) {
  for (Node& arg : node.args) walk(arg, visit);
  visit(node);
}

// "as if 1/√d_k were left out"
std::string left_out(const Checked& program, const Node& node, size_t at) {
  const Node& term = node.args[at];
  const bool root = calls(term, "sqrt") && term.args[0].kind == Node::Kind::size;
  return text("as if ",
              root
                  ? text(node.op == Operator::divide ? "1/√" : "√",
                         program.dimensions[term.args[0].index].short_name())
                  : text("what stands ", at == 1 ? "right" : "left", " of '", symbol(node.op), "'"),
              " were left out");
}

class Alterer {
 public:
  Alterer(const Checked& program, int statement) : program_(program), statement_(statement) {}

  std::vector<Alteration> all() {
    Node right = program_.values[statement_].right;
    walk(right, [&](const Node& node) {
      if (is_call(node) && node.builtin->apply && node.args.size() == 1 && !node.constant)
        functions(node);
      if (is_call(node) && node.dim() >= 0 && node.builtin->keys[0].required &&
          node.args.size() == 1 && node.names.contains(node.dim()) &&
          node.args[0].names == node.names)  // windows() reads a tensor by name, nothing else
        reductions(node);
      if (node.takes_call_mask) masks(node);
      if (is_rotation(node)) rotations(node);
      if (is_bucket(node)) buckets();
      if (is_distance(node)) distances(node);
      if (node.kind == Node::Kind::operation && node.args.size() == 2 && !node.constant)
        terms(node);
      ++at_;
    });
    return std::move(made_);
  }

 private:
  std::string name_of(int dim) const { return program_.dimensions[dim].short_name(); }

  // Adds the program in which the node that is visited is edited.
  template <class Edit>
  void add(std::string sentence, const Edit& edit) {
    auto program = std::make_shared<Checked>(program_);
    int number = 0;
    walk(program->values[statement_].right, [&](Node& node) {
      if (number++ == at_) node = Node(edit(node));
    });
    made_.push_back({std::move(sentence), std::move(program)});
  }
  // Adds the program in which all nodes of a kind are edited.
  template <class Is, class Edit>
  void add_everywhere(const Is& is, std::string sentence, const Edit& edit) {
    auto program = std::make_shared<Checked>(program_);
    for (CheckedValue& v : program->values)
      walk(v.right, [&](Node& node) {
        if (is(node)) node = Node(edit(node));
      });
    made_.push_back({std::move(sentence), std::move(program)});
  }
  static Node argument(const Node& node) { return node.args[0]; }

  void reductions(const Node& node) {
    for (int name : node.names)
      if (name != node.dim())
        add(text("as if ", node.builtin->name, " went over ", name_of(name), ", not over ",
                 name_of(node.dim())),
            [&](Node altered) { return altered.keys[0].dim = name, altered; });
    add(text("as if ", node.builtin->name, " were left out"), argument);
    for (const bool masked_again : {true, false})
      add(text("as if ", node.builtin->name, " were applied twice"), [&](const Node& once) {
        Node twice = once;
        twice.args[0] = once;
        twice.takes_call_mask &= masked_again;
        return twice;
      });
  }

  void masks(const Node& node) {
    add(text("as if ", node.builtin->name, " took no mask"),
        [](Node altered) { return altered.takes_call_mask = false, altered; });
    add(text("as if the mask were multiplied in after ", node.builtin->name,
             ", whose sum then counts what is hidden"),
        [&](const Node& altered) { return masked_after(program_, altered); });
  }

  void functions(const Node& node) {
    const std::string_view name = node.builtin->name;
    add(text("as if ", name, " were left out"), argument);
    static const Builtin* const alike[] = {find_builtin("relu"),     find_builtin("gelu"),
                                           find_builtin("gelu_erf"), find_builtin("silu"),
                                           find_builtin("elu"),      find_builtin("sigmoid"),
                                           find_builtin("tanh"),     &leaky_relu()};
    if (std::find(std::begin(alike), std::end(alike), node.builtin) == std::end(alike)) return;
    for (const Builtin* other : alike)
      if (other != node.builtin)
        add(text("as if ", name, " were ", other->name),
            [&](Node altered) { return altered.builtin = other, altered; });
  }

  void rotations(const Node& node) {
    const std::string d = name_of(node.dim());
    add_everywhere(is_rotation,
                   text("as if rotate turned pairs of halves, (t, t + ", d, "/2), not neighbours"),
                   rotated_by_halves);
    add_everywhere(is_rotation, "as if rotate turned the other way", [](Node altered) {
      altered.args[1] = operation(Operator::multiply, altered.args[1], number(-1));
      return altered;
    });
    add("as if rotate were left out", argument);
  }

  void buckets() {
    for (const auto& [one_sided, what] : {std::pair{0, "both sides"}, {1, "the past only"}})
      add_everywhere(is_bucket, text("as if the buckets were for ", what),
                     [&, side = one_sided](Node altered) {
                       altered.args[3] = number(side);
                       return altered;
                     });
    for (const auto& [by, what] : {std::pair{1, "more"}, {-1, "less"}})
      add_everywhere(
          is_bucket, text("as if every bucket were one ", what), [&, step = by](const Node& once) {
            Node last = operation(Operator::subtract, once.args[1], number(1));
            return call(*find_builtin("clip"), once,
                        {operation(Operator::add, once, number(step)), number(0), std::move(last)});
          });
  }

  void distances(const Node& node) {
    const std::string a = name_of(node.args[0].names[0]), b = name_of(node.args[1].names[0]);
    add_everywhere(
        is_distance, text("as if the distance were position(", b, ") - position(", a, ")"),
        [](Node altered) { return std::swap(altered.args[0], altered.args[1]), altered; });
    for (const auto& [by, what] : {std::pair{1, "more"}, {-1, "less"}})
      add_everywhere(
          is_distance,
          text("as if the distance position(", a, ") - position(", b, ") were one ", what),
          [step = by](const Node& once) { return operation(Operator::add, once, number(step)); });
  }

  void terms(const Node& node) {
    const bool sums = node.op == Operator::add || node.op == Operator::subtract;
    if (!sums && node.op != Operator::multiply && node.op != Operator::divide) return;
    for (const size_t kept : {0, 1}) {
      if (node.args[kept].constant || (kept == 1 && node.op == Operator::divide)) continue;
      add(left_out(program_, node, 1 - kept),
          [=](const Node& altered) { return Node(altered.args[kept]); });
    }
    if (!sums) return;
    const Operator other = node.op == Operator::add ? Operator::subtract : Operator::add;
    add(text("as if the '", symbol(node.op), "' were '", symbol(other), "'"),
        [=](Node altered) { return altered.op = other, altered; });
  }

  const Checked& program_;
  int statement_;
  int at_ = 0;  // number of the node that is visited
  std::vector<Alteration> made_;
};

}  // namespace

std::vector<Alteration> alterations(const Checked& program, int statement) {
  if (program.values[statement].kind != CheckedValue::Kind::statement) return {};
  return Alterer(program, statement).all();
}

}  // namespace tete
