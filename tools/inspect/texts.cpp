#include "tools/inspect/texts.hpp"

#include <algorithm>

#include "nn/cost.hpp"
#include "tools/text_lines.hpp"

namespace tete {

namespace {

SizeTable sizes_at(const SitePlace& place, Index rows, Index columns) {
  const auto& program = place.program;
  SizesByName sizes = place.sizes;
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    const int dim = program->values[program->inputs[i]].dims[0];
    sizes[program->dimensions[dim].name] = program->input_names[i] == "X" ? rows : columns;
  }
  return SizeTable(program, sizes);
}

// "talking_heads" of "talking_heads.tete" or "mine/talking_heads.tete".
std::string stem(const std::string& name) {
  const size_t from = name.rfind('/') + 1, dot = name.rfind('.');
  return name.substr(from, dot == std::string::npos || dot < from ? dot : dot - from);
}

// A comment without its mark and the spaces around it.
std::string words_of(const std::string& comment) {
  const size_t from = comment.find_first_not_of("# ");
  return from == std::string::npos ? "" : comment.substr(from);
}

}  // namespace

VariantText text_of(const SitePlace& place, Index rows, Index columns) {
  const Checked& program = *place.program;
  SizeTable sizes = sizes_at(place, rows, columns);
  const Cost cost = cost_of(program, sizes, {.causal = place.causal});
  VariantText text;
  for (const auto& source : program.sources) {
    text.name += (text.name.empty() ? "" : " + ") + stem(source->name);
    for (const CostedLine& line : costed_lines(program, *source, cost)) {
      TextLine made{line.code, words_of(line.comment), "", line.number, {}};
      if (line.costs) made.formula = line.formula.text();
      for (int value : line.values)
        if (program.values[value].watched || program.is_argument(value))
          made.values.push_back(program.name_of(value));
      text.lines.push_back(std::move(made));
    }
  }
  return text;
}

int Texts::add(VariantText text) {
  const auto is_same = [&](const VariantText& other) {
    return other.name == text.name &&
           std::equal(other.lines.begin(), other.lines.end(), text.lines.begin(), text.lines.end(),
                      [](const TextLine& a, const TextLine& b) {
                        return a.code == b.code && a.number == b.number;
                      });
  };
  const auto at = std::find_if(texts_.begin(), texts_.end(), is_same);
  if (at != texts_.end()) return static_cast<int>(at - texts_.begin());
  texts_.push_back(std::move(text));
  return static_cast<int>(texts_.size()) - 1;
}

}  // namespace tete
