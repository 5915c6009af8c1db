#include "tools/inspect/meanings.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tools/inspect/expression.hpp"
#include "tools/inspect/ties.hpp"

namespace tete {

namespace {

// "A", "A and B", "A, B and C"
std::string listed(const std::vector<std::string>& names) { return list_of(names, {}, " and "); }

// "P_l + R_Xl"
std::string sum_of(const std::vector<std::string>& terms) {
  std::string all;
  for (const std::string& term : terms) all += (all.empty() ? "" : " + ") + term;
  return all;
}

class Meaning {
 public:
  Meaning(const Checked& program, const Roles& roles, int map)
      : program_(program),
        roles_(roles),
        number_(map),
        map_(roles.maps[map]),
        aliases_(program),
        right_(program.values[aliases_.origin(map_.value)].right),
        row_(dim(map_.rows)),
        column_(dim(map_.columns)) {}

  std::string tell() const { return name(map_.value) + " is " + made_of() + "." + use(); }

 private:
  int dim(int axis) const { return program_.values[map_.value].dims[axis]; }
  std::string name(int value) const {
    const int shown = aliases_.shown(value);
    return program_.name_of(shown < 0 ? value : shown);
  }
  std::string dim_name(int dim) const { return program_.dimensions[dim].short_name(); }
  bool has(const Names& names, int axis) const { return axis_of(program_, names, axis) >= 0; }

  std::vector<std::string> names_in(const Node& node) const {
    std::vector<std::string> all;
    visit(node, [&](const Node& each) {
      if (each.kind != NodeKind::value) return;
      if (std::string one = name(each.index); std::find(all.begin(), all.end(), one) == all.end())
        all.push_back(std::move(one));
    });
    return all;
  }

  std::string made_of() const {
    if (map_.is_softmax) return softmax();
    if (const std::string others = other_maps(); !others.empty()) return others;
    if (right_.builtin && right_.builtin->contracts && right_.args.size() > 1) return product();
    return names_in(right_).empty() ? "what the text says of positions" : written(right_);
  }
  // As the text says it; of a long expression what it is made of.
  std::string written(const Node& node) const {
    constexpr size_t most = 120;
    std::string all = expression(program_, aliases_, node);
    return all.size() <= most ? all : "made of " + listed(names_in(node));
  }

  std::string softmax() const {
    const bool has_extra = std::any_of(right_.keys.begin() + 2, right_.keys.end(),
                                       [](const Node::Key& key) { return !key.value.empty(); });
    return text("the softmax of ", written(right_.args[0]), " over the ",
                of_sequence("key", column_, Role::memory, "s"), ": the share that each ",
                of_sequence("query", row_, Role::query, ""), " takes of each, ",
                has_extra ? "less than 1 in all" : "1 in all");
  }
  // "key tokens (m)"; of a sequence that has been made of the tokens "keys (c)".
  std::string of_sequence(const char* word, int dim, Role tokens, const char* plural) const {
    const bool is_of_tokens = program_.dimensions[dim].role == tokens;
    return text(word, is_of_tokens ? " token" : "", plural, " (", dim_name(dim), ")");
  }

  // Another map whose heads are mixed is told in words, all else as the text says it.
  std::string other_maps() const {
    std::vector<std::string> mixers, rest = names_in(right_);
    std::set<int> maps;
    bool is_mixed = true;
    for (const Roles::Tie& tie : roles_.ties) {
      if (tie.to != number_) continue;
      maps.insert(tie.from);
      is_mixed = is_mixed && tie.mixer >= 0 && tie.by.empty() && tie.scale == 1;
      if (is_mixed) mixers.push_back(name(tie.mixer));
    }
    if (maps.empty()) return "";
    const std::string from = name(roles_.maps[*maps.begin()].value);
    std::erase_if(rest, [&](const std::string& one) {
      return one == from || std::find(mixers.begin(), mixers.end(), one) != mixers.end();
    });
    if (!is_mixed || maps.size() > 1 || !rest.empty()) return written(right_);
    return from + ", its heads mixed by " + sum_of(mixers);
  }

  // A product of what queries have and what the memory has is how well the two agree.
  std::string product() const {
    Names summed;
    std::vector<std::string> operands;
    bool is_of_both = right_.args.size() == 2;
    for (const Node& arg : right_.args) {
      operands.push_back(operand(arg));
      is_of_both =
          is_of_both && has(arg.names, row_) != has(arg.names, column_) && !is_learned(arg);
      for (int i : arg.names)
        if (!right_.names.contains(i) && !summed.contains(i)) summed.push_back(i);
    }
    std::vector<std::string> over;
    for (int i : summed) over.push_back(dim_name(i));
    return "the product of " + listed(operands) +
           (over.empty() ? "" : ", summed over " + listed(over)) +
           (is_of_both ? ": how well " + operands[0] + " and " + operands[1] + " agree" : "");
  }

  std::string operand(const Node& arg) const {
    const bool is_product = arg.builtin && arg.builtin->contracts;
    return is_product ? listed(names_in(arg)) : factor(program_, aliases_, arg);
  }
  bool is_learned(const Node& arg) const {
    return arg.kind == NodeKind::value && program_.values[arg.index].kind == ValueKind::parameter;
  }

  // Tells what is made of it: a softmax, a sum of values, or a map of other heads.
  std::string use() const {
    std::vector<std::string> softmaxes;
    for (const Roles::Tie& tie : roles_.ties)
      if (tie.from == number_ && roles_.maps[tie.to].is_softmax)
        softmaxes.push_back(name(roles_.maps[tie.to].value));
    const std::vector<std::string> sums = sums_by(map_.value);
    return (softmaxes.empty() ? "" : " It is the logit of " + listed(softmaxes) + ".") + mixed() +
           (sums.empty() ? "" : " It weighs what is summed into " + listed(sums) + ".");
  }
  // " Its heads are mixed by P_w into U, which weighs what is summed into O (of V)."
  std::string mixed() const {
    std::map<int, std::vector<std::string>> mixers;  // by the map that they make
    for (const Roles::Tie& tie : roles_.ties)
      if (tie.from == number_ && tie.mixer >= 0) mixers[tie.to].push_back(name(tie.mixer));
    std::string all;
    for (const auto& [to, by] : mixers) {
      const std::vector<std::string> sums = sums_by(roles_.maps[to].value);
      all += " Its heads are mixed by " + sum_of(by) + " into " + name(roles_.maps[to].value) +
             (sums.empty() ? "" : ", which weighs what is summed into " + listed(sums)) + ".";
    }
    return all;
  }
  // "O (of V)": what a map weighs.
  std::vector<std::string> sums_by(int map) const {
    std::vector<std::string> sums;
    for (size_t i = 0; i < program_.values.size(); ++i)
      visit(program_.values[i].right, [&](const Node& node) {
        if (is_sum_by(node, map)) sums.push_back(name(static_cast<int>(i)) + summed_in(node, map));
      });
    return sums;
  }
  bool is_map(const Node& node, int map) const {
    return node.kind == NodeKind::value && aliases_.shown(node.index) == map;
  }
  bool is_sum_by(const Node& node, int map) const {
    return node.builtin && node.builtin->contracts && node.args.size() > 1 &&
           !has(node.names, column_) &&
           std::any_of(node.args.begin(), node.args.end(),
                       [&](const Node& arg) { return is_map(arg, map); });
  }
  std::string summed_in(const Node& node, int map) const {
    std::vector<std::string> names;
    for (const Node& arg : node.args)
      if (!is_map(arg, map) && has(arg.names, column_)) names.push_back(listed(names_in(arg)));
    return names.empty() ? "" : " (of " + listed(names) + ")";
  }

  const Checked& program_;
  const Roles& roles_;
  const int number_;
  const Roles::Map& map_;
  const Aliases aliases_;
  const Node& right_;
  const int row_, column_;
};

}  // namespace

std::string meaning_of(const Checked& program, const Roles& roles, int map) {
  return Meaning(program, roles, map).tell();
}

}  // namespace tete
