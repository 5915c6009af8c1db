#include "core/pattern.hpp"

#include <utility>
#include <vector>

namespace tete {

std::string pointed(const char* op, std::string_view sentence, std::string_view text,
                    std::span<const std::pair<size_t, size_t>> places) {
  std::string carets(text.size() + 1, ' ');
  for (auto [at, length] : places)
    for (size_t i = at; i < std::min(at + length, carets.size()); ++i) carets[i] = '^';
  carets.erase(carets.find_last_not_of(' ') + 1);
  return tete::text(op, ": ", sentence, "\n    ", text, "\n    ", carets);
}

Pattern Pattern::parse(std::string_view text) {
  try {
    return Pattern(text, 0);
  } catch (const PatternError& error) {
    const std::pair<size_t, size_t> place{error.at, 1};
    throw Error(Kind::input, pointed("pattern", error.sentence, text, {&place, 1}));
  }
}

std::string operand_list(std::span<const Shape> shapes, std::span<const Dtype> dtypes) {
  std::string lines;
  for (size_t i = 0; i < shapes.size(); ++i)
    lines += text("\n    operand ", i + 1, ": ", describe(dtypes[i], shapes[i]));
  return lines;
}

// Parentheses merge dimensions, which only rearrange does.
static void reject_groups(const char* op, const Pattern& pattern) {
  for (int i = 0; i <= pattern.operand_count(); ++i)
    for (const Axis& axis : i < pattern.operand_count() ? pattern.operand(i) : pattern.result())
      if (axis.group >= 0)
        bad_input(op, ": '", pattern.text(), "' has ( ): merge or split with rearrange first");
}

void reject_marks(const char* op, const Pattern& pattern) {
  for (int i = 0; i <= pattern.operand_count(); ++i)
    for (const Axis& axis : i < pattern.operand_count() ? pattern.operand(i) : pattern.result())
      if (axis.marked) bad_input(op, ": '", pattern.text(), "' has [ ], which mean nothing here");
}

Sizes bind_sizes(const char* op, const Pattern& pattern, std::span<const Shape> shapes,
                 std::span<const Dtype> dtypes) {
  if (static_cast<int>(shapes.size()) != pattern.operand_count())
    bad_input(op, ": '", pattern.text(), "' names ", pattern.operand_count(), " operands, but ",
              shapes.size(), " were given");
  reject_groups(op, pattern);
  if (pattern.is_general())
    bad_input(op, ": '", pattern.text(), "' has '...' or a name twice in one operand, which only ",
              "einsum takes");
  Sizes sizes;
  sizes.fill(-1);
  std::array<std::pair<int, const Axis*>, max_names> seen{};  // where a size came from
  for (int i = 0; i < pattern.operand_count(); ++i) {
    const Term& term = pattern.operand(i);
    if (term.size() != shapes[i].size())
      bad_input(op, ": operand ", i + 1, " of '", pattern.text(), "' has ", term.size(),
                " names, but the tensor is ", describe(dtypes[i], shapes[i]));
    for (int k = 0; k < term.size(); ++k) {
      const Axis& axis = term[k];
      Index& size = sizes[axis.label];
      if (size < 0) {
        size = shapes[i][k];
        seen[axis.label] = {i, &axis};
      } else if (size != shapes[i][k]) {
        const size_t length = pattern.name(axis.label).size();
        const std::pair<size_t, size_t> places[] = {{seen[axis.label].second->at, length},
                                                    {axis.at, length}};
        const std::string sentence =
            text("'", pattern.name(axis.label), "' is ", size, " in operand ",
                 seen[axis.label].first + 1, " but ", shapes[i][k], " in operand ", i + 1, ".");
        throw Error(Kind::input,
                    pointed(op, sentence, pattern.text(), places) + operand_list(shapes, dtypes));
      }
    }
  }
  return sizes;
}

}  // namespace tete
