// einsum: a pattern, resolved against its operands, and then contractions in the cheapest order.
#include <map>

#include "core/ops.hpp"

namespace tete {

namespace {

struct OperandList {
  std::vector<Shape> shapes;
  std::vector<Dtype> dtypes;
  explicit OperandList(const Tensors& operands) {
    for (const Tensor& x : operands) shapes.push_back(x.shape()), dtypes.push_back(x.dtype());
  }
};

// The number of names if each letter of a term were one.
int letters(const Pattern& pattern, const Term& term) {
  size_t count = 0;
  for (const Axis& axis : term) count += pattern.name(axis.label).size();
  return static_cast<int>(count);
}

// A pattern and the operands that einsum was given with it.
struct EinsumCall {
  const Pattern& pattern;
  const Tensors& operands;

  [[noreturn]] void reject(const std::string& sentence, const std::vector<Span>& carets) const {
    const OperandList list(operands);
    refuse("einsum", sentence, pattern.text(), carets, list.shapes, list.dtypes);
  }

  // Fails unless there are as many operands as in the pattern, all of one real type.
  void check() const {
    reject_marks("einsum", pattern);
    if (static_cast<int>(operands.size()) != pattern.operand_count()) {
      const OperandList list(operands);
      refuse_count(pattern, "einsum", list.shapes, list.dtypes);
    }
    const Dtype first = operands[0].dtype();
    for (size_t i = 0; i < operands.size(); ++i)
      if (const Dtype own = operands[i].dtype(); own != first || !is_real(own))
        reject(text("expected operands of one real type, f32 or f64; operand 1 is ", name_of(first),
                    i == 0 ? "" : text(", operand ", i + 1, " ", name_of(own)), "."),
               {span_of_operand(pattern, static_cast<int>(i))});
  }

  // The places of a dimension's labels in an operand.
  std::vector<Span> carets(int operand, const Labels& group) const {
    if (group[0] >= pattern.name_count()) return {{ellipsis_at(operand), 3}};
    std::vector<Span> all;
    for (const Axis& axis : pattern.operand(operand))
      if (group.contains(axis.label)) all.push_back(span_of(pattern, axis));
    return all;
  }

  size_t ellipsis_at(int operand) const {
    size_t at = 0;
    for (int i = 0; i < operand; ++i) at = pattern.text().find(',', at) + 1;
    return pattern.text().find("...", at);
  }

  // The `width` dimensions of '...' are labelled after the names, counted from the right.
  Labels ellipsis_labels(int width) const {
    if (pattern.name_count() + width > max_names)
      reject(text("the names and the dimensions of '...' are more than ", max_names, "."),
             {{pattern.text().find("..."), 3}});
    Labels labels;
    while (width > 0) labels.push_back(static_cast<Label>(pattern.name_count() + --width));
    return labels;
  }
};

// The sizes of labels, as the operands tell them.
class LabelSizes {
 public:
  explicit LabelSizes(const EinsumCall& call) : call_(call) { sizes_.fill(-1); }

  Index operator[](Label label) const { return sizes_[label]; }  // -1: open
  bool is_open(Label label) const { return sizes_[label] < 0; }

  // Fails if another size was told before.
  void set(Label label, Index size, int operand) {
    if (sizes_[label] >= 0 && sizes_[label] != size) contradiction(label, size, operand);
    if (sizes_[label] < 0) sizes_[label] = size, first_[label] = operand;
  }

  // The product of the sizes that are known; -1 if it does not fit 63 bits.
  Index product(const Labels& group) const {
    Index known = 1;
    for (Label label : group)
      if (sizes_[label] >= 0 && __builtin_mul_overflow(known, sizes_[label], &known)) return -1;
    return known;
  }

  double loop_size() const {
    double size = 1;
    for (Index of_label : sizes_)
      if (of_label >= 0) size *= static_cast<double>(of_label);
    return size;
  }

 private:
  [[noreturn]] void contradiction(Label label, Index size, int operand) const {
    const int first = first_[label];
    std::vector<Span> carets = call_.carets(first, {label});
    for (const Span& span : call_.carets(operand, {label})) carets.push_back(span);
    const bool named = label < call_.pattern.name_count();
    const std::string name =
        named ? text("'", call_.pattern.name(label), "'") : "a dimension of '...'";
    const std::string sizes =
        first == operand ? text("both ", sizes_[label], " and ", size, " in operand ", operand + 1)
                         : text(sizes_[label], " in operand ", first + 1, " but ", size,
                                " in operand ", operand + 1);
    const bool one = size == 1 || sizes_[label] == 1;
    call_.reject(
        text(name, " is ", sizes, one ? "; a dimension of size 1 is not repeated silently." : "."),
        carets);
  }

  const EinsumCall& call_;
  Sizes sizes_;
  std::array<int, max_names> first_{};  // the operand that told a size
};

// A pattern resolved for its operands: plain labels, after splits and diagonals.
class Resolved {
 public:
  explicit Resolved(const EinsumCall& call)
      : call_(call), pattern_(call.pattern), operands_(call.operands), sizes_(call) {
    call.check();
    for (size_t i = 0; i < operands_.size(); ++i) take_dimensions(i);
    while (solve_groups()) continue;
    for (size_t i = 0; i < operands_.size(); ++i) check_groups(i);
  }

  const LabelSizes& sizes() const { return sizes_; }

  Operand operand(size_t i) const {
    Labels labels;
    Shape split;
    for (const Labels& dimension : dimensions_[i])
      for (Label label : dimension) labels.push_back(label), split.push_back(sizes_[label]);
    Tensor value = reshape(operands_[i], split);
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

  // One entry for each dimension of the result: a label, or the labels that merge into it.
  std::vector<Labels> result() const {
    if (pattern_.has_result())
      return dimensions_of(pattern_.result(), pattern_.ellipsis(pattern_.operand_count()),
                           call_.ellipsis_labels(width_));
    std::vector<Labels> implied = dimensions_of({}, 0, call_.ellipsis_labels(width_));
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

 private:
  void take_dimensions(size_t i) {
    const Tensor& x = operands_[i];
    const int at = static_cast<int>(i);
    const Term& term = pattern_.operand(at);
    const int named = static_cast<int>(dimensions_of(term).size());
    const int width = x.rank() - named;
    if (width < 0 || (width > 0 && pattern_.ellipsis(at) < 0))
      call_.reject(
          text("operand ", i + 1, " has ", counted(named, "dimension"),
               pattern_.ellipsis(at) < 0 ? "" : " beside '...'", ", but the tensor has ", x.rank(),
               letters(pattern_, term) == x.rank()
                   ? "; where there is white space, names are words."
                   : "."),
          {span_of_operand(pattern_, at)});
    width_ = std::max(width_, width);
    dimensions_.push_back(dimensions_of(term, pattern_.ellipsis(at), call_.ellipsis_labels(width)));
    for (int k = 0; k < x.rank(); ++k)
      if (const Labels& dimension = dimensions_.back()[static_cast<size_t>(k)];
          dimension.size() == 1)
        sizes_.set(dimension[0], x.size(k), at);
  }

  // Solves each "(h d)" that has one size open, which may leave only one open in another. True if
  // any was solved.
  bool solve_groups() {
    bool solved = false;
    for (size_t i = 0; i < operands_.size(); ++i)
      for (int k = 0; k < operands_[i].rank(); ++k) {
        const Labels& group = dimensions_[i][static_cast<size_t>(k)];
        const auto is_open = [this](Label label) { return sizes_.is_open(label); };
        const Index parts = sizes_.product(group);
        if (std::count_if(group.begin(), group.end(), is_open) != 1 || parts == 0) continue;
        sizes_.set(*std::find_if(group.begin(), group.end(), is_open), operands_[i].size(k) / parts,
                   static_cast<int>(i));
        solved = true;
      }
    return solved;
  }

  void check_groups(size_t i) const {
    const auto quoted = [&](Label label) { return text("'", pattern_.name(label), "'"); };
    for (int k = 0; k < operands_[i].rank(); ++k) {
      const Labels& group = dimensions_[i][static_cast<size_t>(k)];
      const Index size = operands_[i].size(k);
      for (Label label : group)
        if (sizes_.is_open(label))
          call_.reject(text("how a dimension of size ", size, " splits into ",
                            list_of(group, quoted, " and "), " follows from no operand."),
                       call_.carets(static_cast<int>(i), group));
      if (const Index parts = sizes_.product(group); parts != size)
        call_.reject(text("dimension ", k, " of operand ", i + 1, " has size ", size,
                          ", but its parts multiply to ",
                          parts < 0 ? "more than 63 bits hold" : text(parts), "."),
                     call_.carets(static_cast<int>(i), group));
    }
  }

  const EinsumCall& call_;
  const Pattern& pattern_;
  const Tensors& operands_;
  LabelSizes sizes_;
  std::vector<std::vector<Labels>> dimensions_;
  int width_ = 0;  // the number of dimensions of '...'
};

}  // namespace

// True if each dimension has one name of its own, and types and sizes agree: nothing is to be
// resolved. Else it is, or refused.
static bool is_plain(const Pattern& pattern, const Tensors& operands) {
  const auto has_plain_axes = [](const Term& term) {
    return std::all_of(term.begin(), term.end(),
                       [](const Axis& axis) { return axis.group < 0 && !axis.marked; });
  };
  if (pattern.is_general() || !pattern.has_result() || !has_plain_axes(pattern.result()) ||
      static_cast<int>(operands.size()) != pattern.operand_count())
    return false;
  Sizes sizes;
  sizes.fill(-1);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Term& term = pattern.operand(static_cast<int>(i));
    const Tensor& x = operands[i];
    if (x.rank() != term.size() || !has_plain_axes(term) || !is_real(x.dtype()) ||
        x.dtype() != operands[0].dtype())
      return false;
    for (int k = 0; k < x.rank(); ++k) {
      Index& known = sizes[term[k].label];
      if (known >= 0 && known != x.size(k)) return false;
      known = x.size(k);
    }
  }
  return true;
}

double naive_multiplies(const Pattern& pattern, const Tensors& operands) {
  return Resolved({pattern, operands}).sizes().loop_size();
}

Tensor einsum(const Pattern& pattern, const Tensors& operands, const EinsumOptions& options) {
  std::vector<Operand> labelled;
  labelled.reserve(operands.size());
  if (is_plain(pattern, operands)) {
    for (size_t i = 0; i < operands.size(); ++i)
      labelled.push_back({operands[i], Pattern::labels(pattern.operand(static_cast<int>(i)))});
    return contract_all(labelled, Pattern::labels(pattern.result()), {}, options);
  }
  const EinsumCall call{pattern, operands};
  const Resolved resolved(call);
  for (size_t i = 0; i < operands.size(); ++i) labelled.push_back(resolved.operand(i));
  const std::vector<Labels> dimensions = resolved.result();
  Labels result;
  for (const Labels& dimension : dimensions)
    for (Label label : dimension) {
      if (result.size() == max_rank)
        call.reject(text("the result has more than ", max_rank, " dimensions."),
                    pattern.has_result()
                        ? std::vector{span_of_operand(pattern, pattern.operand_count())}
                        : std::vector<Span>{});
      result.push_back(label);
    }
  const Tensor y = contract_all(labelled, result, {}, options);
  Shape merged;
  for (const Labels& dimension : dimensions) {
    merged.push_back(1);
    for (Label label : dimension) merged.back() *= resolved.sizes()[label];
  }
  return reshape(y, merged);
}

}  // namespace tete
