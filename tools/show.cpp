// tete show: a text as it stands, with its costs beside each line.
#include <cstdio>
#include <iostream>
#include <map>

#include "tools/cost.hpp"

namespace tete {

namespace {

struct LineCost {
  Formula formula;
  Index number = 0;
};
using LineCosts = std::map<size_t, LineCost>;  // by the number of the line, from 0

size_t line_number(const Place& place) {
  const std::string& text = place.source->text;
  return static_cast<size_t>(std::count(text.begin(), text.begin() + place.at, '\n'));
}

// What stands in the lines of `source`.
LineCosts costs_in(const Source& source, const CostedText& text) {
  LineCosts costs;
  const auto add = [&](const Place& place, const Formula& formula, Index number) {
    if (place.source != &source) return;
    LineCost& line = costs[line_number(place)];
    line.formula += formula;
    line.number += number;
  };
  for (const ParameterCost& p : text.cost.parameter_sizes) {
    const int value = text.program->parameters[static_cast<size_t>(p.parameter)].value;
    add(text.program->values[static_cast<size_t>(value)].place, p.formula, p.size);
  }
  for (const ProductCost& p : text.cost.products) add(p.place, p.count.formula, p.count.multiplies);
  return costs;
}

// Letters, not bytes.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t to) {
  return text + std::string(to - std::min(to, width(text)), ' ');
}

// One line of a text in the columns that are printed: code, its cost, its own comment.
struct Line {
  std::string code, formula, number, comment;
  bool is_code() const { return !code.empty(); }
  bool has_more() const { return !formula.empty() || !comment.empty(); }
};

std::string trimmed(const std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r");
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

std::vector<Line> lines_of(const Source& source, const LineCosts& costs) {
  std::vector<Line> lines;
  for (size_t at = 0; at < source.text.size();) {
    const size_t end = std::min(source.text.find('\n', at), source.text.size());
    const std::string whole = source.text.substr(at, end - at);
    const size_t mark = std::min(whole.find('#'), whole.size());
    Line line{trimmed(whole.substr(0, mark)), "", "", trimmed(whole.substr(mark))};
    if (const auto cost = costs.find(lines.size()); cost != costs.end()) {
      line.formula = cost->second.formula.text();
      line.number = grouped(cost->second.number);
    }
    if (line.is_code() && !line.comment.empty()) line.comment.erase(0, 1);
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

void print(const Source& source, const LineCosts& costs) {
  const std::vector<Line> lines = lines_of(source, costs);
  size_t code = 0, formula = 0, number = 0;
  for (const Line& line : lines) {
    if (line.is_code() && line.has_more()) code = std::max(code, width(line.code));
    formula = std::max(formula, line.formula.size());
    number = std::max(number, line.number.size());
  }
  for (const Line& line : lines) {
    std::string all = line.code;
    if (!line.is_code()) {
      all += line.comment;
    } else if (line.has_more()) {
      const std::string right(number - line.number.size(), ' ');
      all = padded(line.code, code + 2) + "# " + padded(line.formula, formula + 2) + right +
            line.number + " " + line.comment;
    }
    std::puts(trimmed(all).c_str());
  }
}

int show(const CostRequest& o) {
  CostedText text = costed(o);
  for (const auto& source : text.program->sources) {
    print(*source, costs_in(*source, text));
    std::puts("");
  }
  std::string sizes;
  for (size_t i = 0; i < text.program->dimensions.size(); ++i)
    if (const std::string& name = text.program->dimensions[i].name;
        name.find('.') == std::string::npos)
      sizes += tete::text(" ", name, "=", text.sizes.size(static_cast<int>(i)));
  std::printf("# %s parameters, %s multiplies a sequence with%s\n",
              grouped(text.cost.parameters).c_str(), grouped(text.cost.total.multiplies).c_str(),
              sizes.c_str());
  return 0;
}

}  // namespace

Run show_verb(CLI::App& app) {
  auto o = std::make_shared<CostRequest>();
  add_cost_request(app, *o);
  app.footer(
      "Beside each line stand the numbers of its parameters or the multiplies of its\n"
      "products (tete cost tells what counts), in names and at these sizes; they are\n"
      "comments, so what is printed is a text, too (without what --with changes).\n\n"
      "Examples:\n"
      "  tete show talking_heads\n"
      "  tete show mine.tete --dim n=1");
  return [o] { return show(*o); };
}

}  // namespace tete
