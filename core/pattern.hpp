// Patterns: the names of dimensions, written where they are used.
//
//   "b n d_X, d_X d_k h -> b n d_k h"     operands, an arrow, the result; names are words
//   "ij,jk->ik"                           the NumPy form: no white space, '_' or digit, so letters
//   "b n [m] h"                           brackets mark the dimensions that an operation consumes
//   "b n (h d) -> b h n d"                parentheses merge dimensions (rearrange, einsum)
//   "... i i -> ... i", "i j, j"          in einsum: any dimensions, a diagonal, an implied result
//
// A literal is checked while the program compiles: a misspelt name does not build. Text known only
// at run time goes through Pattern::parse, which throws an Error with a caret under the mistake.
// Names live here and on parameters, never in tensors: operations see small numbers (Labels).
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.hpp"

namespace tete {

inline constexpr int max_operands = 16;
inline constexpr int max_names = 32;

// One name at one place of a pattern.
struct Axis {
  Label label = 0;
  bool marked = false;  // in [ ]
  int8_t group = -1;    // which ( ) of its term, or -1
  uint16_t at = 0;      // offset in the text
};
using Term = Short<Axis>;

struct PatternError {
  const char* sentence;
  size_t at;
};

class Pattern {
 public:
  consteval Pattern(const char* literal)
      : Pattern(std::string_view(literal), 0) {}  // NOLINT: implicit
  // The text must outlive the pattern. Throws Error (input) with a caret.
  static Pattern parse(std::string_view text);

  std::string_view text() const { return parts_.text; }
  constexpr int operand_count() const { return parts_.operand_count; }
  constexpr bool has_result() const { return parts_.has_result; }
  constexpr const Term& operand(int i) const { return parts_.operands[static_cast<size_t>(i)]; }
  constexpr const Term& result() const { return parts_.result; }
  // The position of '...' among the axes of operand i (of the result: i = operand_count()), or -1.
  constexpr int ellipsis(int i) const { return parts_.ellipsis[static_cast<size_t>(i)]; }
  // True if only einsum takes it: it has '...', or a name twice in one operand.
  constexpr bool is_general() const { return parts_.general; }
  constexpr int name_count() const { return parts_.name_count; }
  constexpr std::string_view name(Label label) const { return parts_.names[label]; }
  // The label of a name, or -1.
  constexpr int label_of(std::string_view name) const {
    for (int i = 0; i < parts_.name_count; ++i)
      if (parts_.names[i] == name) return i;
    return -1;
  }
  static constexpr Labels labels(const Term& term) {
    Labels all;
    for (const Axis& axis : term) all.push_back(axis.label);
    return all;
  }
  static constexpr Labels marked(const Term& term) {
    Labels all;
    for (const Axis& axis : term)
      if (axis.marked) all.push_back(axis.label);
    return all;
  }
  // Without an arrow: every name of the operands, in the order of first appearance.
  constexpr Labels result_or_union() const {
    if (parts_.has_result) return labels(parts_.result);
    Labels all;
    for (int i = 0; i < parts_.name_count; ++i) all.push_back(static_cast<Label>(i));
    return all;
  }

 private:
  constexpr Pattern(std::string_view text, int) : parts_{.text = text} { read(); }
  constexpr void read();
  constexpr void read_term(int place, Term& term, size_t& at, bool words);
  constexpr void read_ellipsis(int place, const Term& term, size_t at);
  constexpr Label intern(std::string_view name, size_t at);

  // One member: clang 14 cannot emit a constant of a class whose base has several.
  struct Parts {
    std::string_view text;
    std::array<Term, max_operands> operands{};
    Term result{};
    std::array<std::string_view, max_names> names{};
    std::array<int8_t, max_operands + 1> ellipsis{};
    int operand_count = 0, name_count = 0;
    bool has_result = false, general = false;
  } parts_;
};

// A pattern for einsum of exactly N operands: another count does not compile.
template <int N>
class EinsumPattern : public Pattern {
 public:
  consteval EinsumPattern(const char* literal) : Pattern(literal) {  // NOLINT: implicit
    if (operand_count() != N) throw PatternError{"the pattern has another number of operands", 0};
  }
};

// The same for every other operation: each name once in an operand, and no '...'.
template <int N>
class PatternOf : public Pattern {
 public:
  consteval PatternOf(const char* literal) : Pattern(literal) {  // NOLINT: implicit
    if (operand_count() != N) throw PatternError{"the pattern has another number of operands", 0};
    if (is_general()) throw PatternError{"a name stands twice in one operand, or '...'", 0};
  }
  PatternOf(const Pattern& pattern) : Pattern(pattern) {  // NOLINT: implicit
    if (operand_count() != N)
      bad_input("'", text(), "' has ", operand_count(), " operands, but ", N, " were given");
  }
};

// The size of every label, by name.
using Sizes = std::array<Index, max_names>;
// Checks ranks and sizes of the operands against the pattern. `op` is named in the error, which
// shows the pattern with carets under the names that disagree.
Sizes bind_sizes(const char* op, const Pattern& pattern, std::span<const Shape> shapes,
                 std::span<const Dtype> dtypes);
// Fails if the pattern has [ ]: for operations that mark nothing.
void reject_marks(const char* op, const Pattern& pattern);
// Fails if the pattern has '...' or a name twice in one operand.
void reject_general(const char* op, const Pattern& pattern);

// The one marked label of operand i (of the result: i = operand_count()); fails if there are
// others.
Label only_marked(const char* op, const Pattern& pattern, int i);
// Each dimension of a term: one label, or the labels of a ( ). The labels of '...', if there are
// any, stand before axis `ellipsis`.
std::vector<Labels> dimensions_of(const Term& term, int ellipsis = -1,
                                  const Labels& of_ellipsis = {});

// A part of a pattern's text.
struct Span {
  size_t at, length;
};
Span span_of(const Pattern& pattern, const Axis& axis);
Span span_of_operand(const Pattern& pattern, int i);  // the result: i = operand_count()
// Throws an error about a pattern: "op: sentence\n    pattern\n    ^^^", with
// "\n    operand 1: f32[8, 128]…" under it for every shape that is given.
[[noreturn]] void refuse(const char* op, std::string_view sentence, std::string_view pattern,
                         std::span<const Span> carets, std::span<const Shape> shapes = {},
                         std::span<const Dtype> dtypes = {});
[[noreturn]] void refuse_count(const Pattern& pattern, const char* op,
                               std::span<const Shape> shapes, std::span<const Dtype> dtypes);

// ---- The reader, in the header because it is constexpr. ----

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_word_char(char c) { return is_letter(c) || c == '_' || (c >= '0' && c <= '9'); }

constexpr Label Pattern::intern(std::string_view name, size_t at) {
  const int known = label_of(name);
  if (known >= 0) return static_cast<Label>(known);
  if (parts_.name_count == max_names) throw PatternError{"more than 32 names in one pattern", at};
  parts_.names[parts_.name_count] = name;
  return static_cast<Label>(parts_.name_count++);
}

constexpr void Pattern::read_ellipsis(int place, const Term& term, size_t at) {
  if (parts_.text.substr(at, 3) != "...") throw PatternError{"expected '...'", at};
  if (ellipsis(place) >= 0) throw PatternError{"'...' stands twice in one operand", at};
  parts_.ellipsis[static_cast<size_t>(place)] = static_cast<int8_t>(term.size());
  parts_.general = true;
}

constexpr void Pattern::read_term(int place, Term& term, size_t& at, bool words) {
  bool marked = false;
  int first_marked = 0;  // of the open [
  int8_t group = -1, groups = 0, around_mark = -1;
  for (; at < parts_.text.size(); ++at) {
    const char c = parts_.text[at];
    if (c == ',' || c == '-') break;
    if (c == ' ' || c == '\t') continue;
    if (c == '[' && !marked) {
      marked = true, first_marked = term.size(), around_mark = group;
    } else if (c == ']' && marked && group == around_mark) {
      if (term.size() == first_marked) throw PatternError{"nothing stands in [ ]", at};
      marked = false;
    } else if (c == '(' && group < 0) {
      group = groups++;
    } else if (c == ')' && group >= 0 && !(marked && group == around_mark)) {
      if (term.empty() || term.back().group != group)
        throw PatternError{"nothing stands in ( )", at};
      group = -1;
    } else if (c == '.' && group < 0 && !marked) {
      read_ellipsis(place, term, at), at += 2;
    } else if (!is_letter(c) && c != '_') {
      throw PatternError{"expected a name, ',' or '->'", at};
    } else {
      size_t end = at + 1;
      while (words && end < parts_.text.size() && is_word_char(parts_.text[end])) ++end;
      const Label label = intern(parts_.text.substr(at, end - at), at);
      for (const Axis& axis : term) parts_.general |= axis.label == label;
      if (term.size() == max_rank) throw PatternError{"more than 16 dimensions in one operand", at};
      term.push_back({label, marked, group, static_cast<uint16_t>(at)});
      at = end - 1;
    }
  }
  if (marked) throw PatternError{"a '[' is not closed", at};
  if (group >= 0) throw PatternError{"a '(' is not closed", at};
}

constexpr void Pattern::read() {
  bool words = false;
  for (char c : parts_.text) words |= c == ' ' || c == '\t' || c == '_' || (c >= '0' && c <= '9');
  if (parts_.text.size() > 4096) throw PatternError{"a pattern is longer than 4096 characters", 0};
  parts_.ellipsis.fill(-1);
  size_t at = 0;
  while (true) {
    if (parts_.operand_count == max_operands) throw PatternError{"more than 16 operands", at};
    read_term(parts_.operand_count, parts_.operands[static_cast<size_t>(parts_.operand_count)], at,
              words);
    ++parts_.operand_count;
    if (at == parts_.text.size()) return;
    if (parts_.text[at] == '-') break;
    ++at;  // the comma
  }
  if (at + 1 >= parts_.text.size() || parts_.text[at + 1] != '>')
    throw PatternError{"expected '->'", at};
  at += 2;
  parts_.has_result = true;
  const int known = parts_.name_count;
  read_term(parts_.operand_count, parts_.result, at, words);
  if (at != parts_.text.size()) throw PatternError{"expected the end after the result", at};
  // A marked name may be new (scatter makes a dimension); any other comes from an operand.
  for (int i = 0; i < parts_.result.size(); ++i) {
    const Axis& axis = parts_.result[i];
    if (axis.label >= known && !axis.marked)
      throw PatternError{"a name of the result is in no operand", axis.at};
    for (int k = 0; k < i; ++k)
      if (parts_.result[k].label == axis.label)
        throw PatternError{"a name stands twice in the result", axis.at};
  }
}

}  // namespace tete
