// einsum: a pattern, resolved against its operands, and then contractions in the cheapest order.
#include <map>

#include "core/ops.hpp"

namespace tete {

namespace {

// What a pattern means for these operands: plain labels, after splits and diagonals.
class Resolved {
 public:
  Resolved(const Pattern& pattern, const Tensors& operands) : pattern_(pattern) {
    sizes_.fill(-1);
    for (size_t i = 0; i < operands.size(); ++i) take_dimensions(static_cast<int>(i), operands[i]);
    for (size_t i = 0; i < operands.size(); ++i) solve_groups(static_cast<int>(i), operands[i]);
  }

  Operand operand(int i, const Tensor& x) const {
    Labels labels;
    Shape split;
    for (const Labels& dimension : dimensions_[static_cast<size_t>(i)])
      for (Label label : dimension) labels.push_back(label), split.push_back(sizes_[label]);
    Tensor value = reshape(x, split);
    for (int k = 0; k < labels.size(); ++k) {
      Axes same{k};
      for (int l = k + 1; l < labels.size(); ++l)
        if (labels[l] == labels[k]) same.push_back(l);
      if (same.size() == 1) continue;
      value = diagonal(value, same);
      for (int l = same.size() - 1; l > 0; --l) labels.erase(same[l]);
    }
    return {value, labels};
  }

  // One entry a dimension of the result: a label, or the labels that merge into it.
  std::vector<Labels> result() const {
    if (pattern_.has_result())
      return dimensions_of(pattern_.result(), pattern_.ellipsis(pattern_.operand_count()), width_);
    std::vector<Labels> implied = dimensions_of({}, width_ > 0 ? 0 : -1, width_);
    std::map<std::string_view, Label> once;
    for (int name = 0; name < pattern_.name_count(); ++name) {
      int count = 0;
      for (int i = 0; i < pattern_.operand_count(); ++i)
        for (const Axis& axis : pattern_.operand(i)) count += axis.label == name;
      const Label label = static_cast<Label>(name);
      if (count == 1) once.emplace(pattern_.name(label), label);
    }
    for (const auto& [name, label] : once) implied.push_back({label});
    return implied;
  }

  Index size(Label label) const { return sizes_[label]; }

 private:
  // Dimensions of '...' are labelled after the names, counted from the right.
  Label ellipsis_label(int from_right) const {
    const int label = pattern_.name_count() + from_right;
    if (label >= max_names) bad_input("einsum: too many dimensions in '", pattern_.text(), "'");
    return static_cast<Label>(label);
  }

  std::vector<Labels> dimensions_of(const Term& term, int ellipsis, int width) const {
    std::vector<Labels> dimensions;
    for (int i = 0; i <= term.size(); ++i) {
      if (i == ellipsis)
        for (int k = width - 1; k >= 0; --k) dimensions.push_back({ellipsis_label(k)});
      if (i == term.size()) break;
      const bool joins =
          i > 0 && i != ellipsis && term[i].group >= 0 && term[i].group == term[i - 1].group;
      if (!joins) dimensions.emplace_back();
      dimensions.back().push_back(term[i].label);
    }
    return dimensions;
  }

  void take_dimensions(int i, const Tensor& x) {
    const Term& term = pattern_.operand(i);
    const int named = static_cast<int>(dimensions_of(term, -1, 0).size());
    const int width = x.rank() - named;
    if (width < 0 || (width > 0 && pattern_.ellipsis(i) < 0))
      bad_input("einsum: operand ", i + 1, " of '", pattern_.text(), "' has ", named,
                pattern_.ellipsis(i) < 0 ? " dimensions" : " dimensions beside '...'",
                ", but the tensor is ", describe(x.dtype(), x.shape()));
    width_ = std::max(width_, width);
    dimensions_.push_back(dimensions_of(term, pattern_.ellipsis(i), width));
    for (int k = 0; k < x.rank(); ++k)
      if (const Labels& dimension = dimensions_.back()[static_cast<size_t>(k)];
          dimension.size() == 1)
        unify(dimension[0], x.size(k), i);
  }

  void unify(Label label, Index size, int operand) {
    if (sizes_[label] < 0) {
      sizes_[label] = size;
      first_[label] = operand;
    } else if (sizes_[label] != size) {
      contradiction(label, size, operand);
    }
  }

  [[noreturn]] void contradiction(Label label, Index size, int operand) const {
    const bool named = label < pattern_.name_count();
    const std::string_view name = named ? pattern_.name(label) : "...";
    std::vector<std::pair<size_t, size_t>> places;
    for (int i : {first_[label], operand})
      for (const Axis& axis : pattern_.operand(i))
        if (axis.label == label) places.emplace_back(axis.at, name.size());
    const bool one = size == 1 || sizes_[label] == 1;
    const std::string sentence =
        text("'", name, "' is ", sizes_[label], " in operand ", first_[label] + 1, " but ", size,
             " in operand ", operand + 1,
             one ? "; a dimension of size 1 is not repeated silently." : ".");
    throw Error(Kind::input, pointed("einsum", sentence, pattern_.text(), places));
  }

  // The one open size of each "(h d)" follows from the others.
  void solve_groups(int i, const Tensor& x) {
    for (int k = 0; k < x.rank(); ++k) {
      const Labels& group = dimensions_[static_cast<size_t>(i)][static_cast<size_t>(k)];
      Index known = 1, open = -1;
      for (Label label : group) {
        if (sizes_[label] >= 0) known *= sizes_[label];
        else if (open < 0) open = label;
        else
          bad_input("einsum: how a dimension of size ", x.size(k), " splits into '",
                    pattern_.name(static_cast<Label>(open)), "' and '", pattern_.name(label),
                    "' follows from no operand of '", pattern_.text(), "'");
      }
      if (open >= 0) {
        unify(static_cast<Label>(open), known > 0 ? x.size(k) / known : 0, i);
        known *= sizes_[static_cast<size_t>(open)];
      }
      if (known != x.size(k))
        bad_input("einsum: dimension ", k, " of operand ", i + 1, " of '", pattern_.text(),
                  "' has size ", x.size(k), ", but its parts multiply to ", known);
    }
  }

  const Pattern& pattern_;
  Sizes sizes_;
  std::array<int, max_names> first_{};  // the operand that set a size
  std::vector<std::vector<Labels>> dimensions_;
  int width_ = 0;  // of '...'
};

void check_operands(const Pattern& pattern, const Tensors& operands) {
  reject_marks("einsum", pattern);
  if (static_cast<int>(operands.size()) != pattern.operand_count())
    bad_input("einsum: '", pattern.text(), "' names ", pattern.operand_count(), " operands, but ",
              operands.size(), " were given");
  for (const Tensor& operand : operands)
    if (operand.dtype() != operands[0].dtype() || !is_real(operand.dtype()))
      bad_input("einsum: '", pattern.text(), "' needs operands of one real type, got ",
                name_of(operands[0].dtype()), " and ", name_of(operand.dtype()));
}

}  // namespace

Tensor einsum(const Pattern& pattern, const Tensors& operands) {
  check_operands(pattern, operands);
  const Resolved resolved(pattern, operands);
  std::vector<Operand> labelled;
  for (size_t i = 0; i < operands.size(); ++i)
    labelled.push_back(resolved.operand(static_cast<int>(i), operands[i]));
  Labels result;
  Shape merged;
  for (const Labels& dimension : resolved.result()) {
    merged.push_back(1);
    for (Label label : dimension) {
      result.push_back(label);
      merged.back() *= resolved.size(label);
    }
  }
  return reshape(contract_all(labelled, result), merged);
}

}  // namespace tete
