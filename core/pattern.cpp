#include "core/pattern.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/utf8.hpp"

namespace tete {

void refuse(const char* op, std::string_view sentence, std::string_view pattern,
            std::span<const Span> carets, std::span<const Shape> shapes,
            std::span<const Dtype> dtypes) {
  std::string said = text(op, ": ", sentence);
  said += with_carets(pattern, [&](size_t at) {
    return std::any_of(carets.begin(), carets.end(),
                       [at](const Span& s) { return at >= s.at && at < s.at + s.length; });
  });
  for (size_t i = 0; i < shapes.size(); ++i)
    said += text("\n    operand ", i + 1, ": ", describe(dtypes[i], shapes[i]));
  throw Error(ErrorKind::input, said);
}

Span span_of(const Pattern& pattern, const Axis& axis) {
  return {axis.at, pattern.name(axis.label).size()};
}

Span span_of_operand(const Pattern& pattern, int i) {
  const std::string_view whole = pattern.text();
  const size_t arrow = std::min(whole.find("->"), whole.size());
  size_t at = 0, end = std::min(whole.find(','), arrow);
  for (int k = 0; k < i && k + 1 < pattern.operand_count(); ++k)
    at = end + 1, end = std::min(whole.find(',', at), arrow);
  if (i == pattern.operand_count()) at = arrow + 2, end = whole.size();
  while (at + 1 < end && whole[at] == ' ') ++at;
  while (end > at + 1 && whole[end - 1] == ' ') --end;
  return {at, std::max<size_t>(end - at, 1)};  // one caret where an operand has no name
}

Pattern Pattern::parse(std::string_view text) {
  try {
    return Pattern(text, 0);
  } catch (const PatternError& error) {
    std::string sentence = error.sentence;
    // A character that looks like a letter, or like nothing, is named.
    const bool is_ascii =
        error.at >= text.size() || (text[error.at] > ' ' && text[error.at] < 0x7F);
    if (sentence.starts_with("expected") && !is_ascii && find_invalid_utf8(text) == text.npos)
      sentence += ", got " + named_character(text, error.at);
    refuse("pattern", sentence, text, {{{error.at, 1}}});
  }
}

static const Term& term(const Pattern& pattern, int i) {
  return i < pattern.operand_count() ? pattern.operand(i) : pattern.result();
}

template <class Condition>
static void reject(const char* op, const char* sentence, const Pattern& pattern,
                   const Condition& condition) {
  std::vector<Span> carets;
  for (int i = 0; i <= pattern.operand_count(); ++i)
    for (const Axis& axis : term(pattern, i))
      if (condition(i, axis)) carets.push_back(span_of(pattern, axis));
  if (!carets.empty()) refuse(op, sentence, pattern.text(), carets);
}

static void reject_groups(const char* op, const Pattern& pattern) {
  reject(op, "( ) mean nothing here; merge or split with rearrange first.", pattern,
         [](int, const Axis& axis) { return axis.group >= 0; });
}

Label only_marked(const char* op, const Pattern& pattern, int i) {
  const Labels marked = Pattern::marked(term(pattern, i));
  if (marked.size() != 1)
    refuse(op, text("expected one dimension in [ ], got ", marked.size(), "."), pattern.text(),
           {{span_of_operand(pattern, i)}});
  return marked[0];
}

std::vector<Labels> dimensions_of(const Term& term, int ellipsis, const Labels& of_ellipsis) {
  std::vector<Labels> dimensions;
  for (int i = 0; i <= term.size(); ++i) {
    if (i == ellipsis)
      for (Label label : of_ellipsis) dimensions.push_back({label});
    if (i == term.size()) break;
    const bool joins = i > 0 && term[i].group >= 0 && term[i].group == term[i - 1].group;
    if (!joins) dimensions.emplace_back();
    dimensions.back().push_back(term[i].label);
  }
  return dimensions;
}

void reject_marks(const char* op, const Pattern& pattern) {
  reject(op, "[ ] mean nothing here.", pattern, [](int, const Axis& axis) { return axis.marked; });
}

void reject_general(const char* op, const Pattern& pattern) {
  reject(op, "only einsum takes a name twice in one operand.", pattern,
         [&](int i, const Axis& axis) {
           const Labels labels = Pattern::labels(term(pattern, i));
           return std::count(labels.begin(), labels.end(), axis.label) > 1;
         });
  if (const size_t at = pattern.text().find("..."); at != std::string_view::npos)
    refuse(op, "only einsum takes '...'.", pattern.text(), {{{at, 3}}});
}

void refuse_count(const Pattern& pattern, const char* op, std::span<const Shape> shapes,
                  std::span<const Dtype> dtypes) {
  std::vector<Span> missing;
  for (int i = static_cast<int>(shapes.size()); i < pattern.operand_count(); ++i)
    missing.push_back(span_of_operand(pattern, i));
  refuse(op,
         text("the pattern names ", counted(pattern.operand_count(), "operand"), ", got ",
              shapes.size(), "."),
         pattern.text(), missing, shapes, dtypes);
}

Sizes bind_sizes(const char* op, const Pattern& pattern, std::span<const Shape> shapes,
                 std::span<const Dtype> dtypes) {
  if (static_cast<int>(shapes.size()) != pattern.operand_count())
    refuse_count(pattern, op, shapes, dtypes);
  reject_groups(op, pattern);
  reject_general(op, pattern);
  Sizes sizes;
  sizes.fill(-1);
  std::array<std::pair<int, const Axis*>, max_names> seen{};  // where a size came from
  for (int i = 0; i < pattern.operand_count(); ++i) {
    const Term& term = pattern.operand(i);
    if (term.size() != shapes[i].size())
      refuse(op,
             text("operand ", i + 1, " has ", counted(term.size(), "name"), ", but the tensor has ",
                  counted(shapes[i].size(), "dimension"), "."),
             pattern.text(), {{span_of_operand(pattern, i)}}, shapes, dtypes);
    for (int k = 0; k < term.size(); ++k) {
      const Axis& axis = term[k];
      Index& size = sizes[axis.label];
      if (size < 0) {
        size = shapes[i][k];
        seen[axis.label] = {i, &axis};
      } else if (size != shapes[i][k]) {
        const auto [first, there] = seen[axis.label];
        refuse(op,
               text("'", pattern.name(axis.label), "' is ", size, " in operand ", first + 1,
                    " but ", shapes[i][k], " in operand ", i + 1, "."),
               pattern.text(), {{span_of(pattern, *there), span_of(pattern, axis)}}, shapes,
               dtypes);
      }
    }
  }
  return sizes;
}

}  // namespace tete
