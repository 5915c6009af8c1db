#include "tools/text_lines.hpp"

#include <algorithm>

namespace tete {

namespace {

size_t line_number(const Place& place) {
  const std::string& text = place.source->text;
  return static_cast<size_t>(std::count(text.begin(), text.begin() + place.at, '\n'));
}

std::string trimmed(const std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r");
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

}  // namespace

std::vector<CostedLine> costed_lines(const Checked& program, const Source& source,
                                     const Cost& cost) {
  std::vector<CostedLine> lines;
  for (size_t at = 0; at < source.text.size();) {
    const size_t end = std::min(source.text.find('\n', at), source.text.size());
    const std::string whole = source.text.substr(at, end - at);
    const size_t mark = std::min(whole.find('#'), whole.size());
    lines.push_back({trimmed(whole.substr(0, mark)), trimmed(whole.substr(mark))});
    at = end + 1;
  }
  const auto add = [&](const Place& place, const Formula& formula, Index number) {
    if (place.source != &source) return;
    CostedLine& line = lines[line_number(place)];
    line.formula += formula, line.number += number, line.costs = true;
  };
  for (const ParameterCost& p : cost.parameter_sizes) {
    if (p.value >= 0) add(program.values[p.value].place, p.formula, p.size);
  }
  for (const ProductCost& p : cost.products) add(p.place, p.count.formula, p.count.multiplies);
  for (size_t i = 0; i < program.values.size(); ++i)
    if (const Place& place = program.values[i].place; place.source == &source)
      lines[line_number(place)].values.push_back(static_cast<int>(i));
  return lines;
}

}  // namespace tete
