#include "tools/inspect/meanings.hpp"

#include <algorithm>

#include "tools/inspect/ties.hpp"

namespace tete {

namespace {

// "A", "A and B", "A, B and C"
std::string listed(const std::vector<std::string>& names) { return list_of(names, {}, " and "); }

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
    const std::vector<std::string> names = names_in(right_);
    return names.empty() ? "what the text says of positions" : "made of " + listed(names);
  }

  std::string softmax() const {
    const bool has_extra = std::any_of(right_.keys.begin() + 2, right_.keys.end(),
                                       [](const Node::Key& key) { return !key.value.empty(); });
    return text("the softmax of ", listed(names_in(right_.args[0])), " over ", dim_name(column_),
                ": the share that each ", dim_name(row_), " takes of each ", dim_name(column_),
                ", ", has_extra ? "less than 1 in all" : "1 in all");
  }

  // A sum of other maps, or else what they are multiplied to. Terms that are no maps, as a bias of
  // each distance, are named behind.
  std::string other_maps() const {
    std::vector<std::string> maps, rest = names_in(right_);
    std::string all;
    bool is_sum = true;
    for (const Roles::Tie& tie : roles_.ties) {
      if (tie.to != number_) continue;
      const std::string from = name(roles_.maps[tie.from].value);
      const bool is_known = std::find(maps.begin(), maps.end(), from) != maps.end();
      if (is_known && tie.mixer >= 0) all += " + " + name(tie.mixer);
      else all += term(tie, from, all.empty());
      if (!is_known) maps.push_back(from);
    }
    for (const Roles::Tie& tie : roles_.ties)
      for (const std::string& other : maps)
        is_sum = is_sum && (tie.to != number_ || tie.by.find("× " + other) == std::string::npos);
    if (!is_sum) return "made of " + listed(rest);
    std::erase_if(rest, [&](const std::string& one) { return all.find(one) != std::string::npos; });
    return all.empty() || rest.empty() ? all : all + ", with " + listed(rest);
  }
  std::string term(const Roles::Tie& tie, const std::string& from, bool is_first) const {
    const std::string sign = tie.mixer >= 0 || tie.scale > 0 ? is_first ? "" : " + "
                             : is_first                      ? "−"
                                                             : " − ";
    return sign + from + (tie.mixer < 0 ? "" : ", its heads mixed by " + name(tie.mixer)) +
           (tie.by.empty() ? "" : " (" + tie.by + ")");
  }

  // A product of what queries have and what the memory has is how well the two agree.
  std::string product() const {
    Names summed;
    std::vector<std::string> operands;
    bool is_of_both = right_.args.size() == 2;
    for (const Node& arg : right_.args) {
      operands.push_back(listed(names_in(arg)));
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

  bool is_learned(const Node& arg) const {
    return arg.kind == NodeKind::value && program_.values[arg.index].kind == ValueKind::parameter;
  }

  // Tells what is made of it: a softmax, or a sum of values.
  std::string use() const {
    std::vector<std::string> softmaxes, sums;
    for (const Roles::Tie& tie : roles_.ties)
      if (tie.from == number_ && roles_.maps[tie.to].is_softmax)
        softmaxes.push_back(name(roles_.maps[tie.to].value));
    for (size_t i = 0; i < program_.values.size(); ++i)
      visit(program_.values[i].right, [&](const Node& node) {
        if (is_sum_by_it(node)) sums.push_back(name(static_cast<int>(i)) + summed_in(node));
      });
    return (softmaxes.empty() ? "" : " It is the logit of " + listed(softmaxes) + ".") +
           (sums.empty() ? "" : " It weighs what is summed into " + listed(sums) + ".");
  }
  bool is_it(const Node& node) const {
    return node.kind == NodeKind::value && aliases_.shown(node.index) == map_.value;
  }
  bool is_sum_by_it(const Node& node) const {
    return node.builtin && node.builtin->contracts && node.args.size() > 1 &&
           !has(node.names, column_) &&
           std::any_of(node.args.begin(), node.args.end(),
                       [&](const Node& arg) { return is_it(arg); });
  }
  std::string summed_in(const Node& node) const {
    std::vector<std::string> names;
    for (const Node& arg : node.args)
      if (!is_it(arg) && has(arg.names, column_)) names.push_back(listed(names_in(arg)));
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
