// tete show: a text as it stands, with its costs beside each line.
#include <cstdio>
#include <iostream>

#include "tools/cost.hpp"
#include "tools/table.hpp"
#include "tools/text_lines.hpp"

namespace tete {

namespace {

std::string padded(const std::string& text, size_t to) {
  return text + std::string(to - std::min(to, width_of(text)), ' ');
}

// One line of a text in the columns that are printed: code, its cost, its own comment.
struct Line {
  std::string code, formula, number, comment;
  bool is_code() const { return !code.empty(); }
  bool has_more() const { return !formula.empty() || !comment.empty(); }
};

std::vector<Line> lines_of(const Source& source, const CostedText& text) {
  std::vector<Line> lines;
  for (const CostedLine& from : costed_lines(*text.program, source, text.cost)) {
    Line line{from.code, "", "", from.comment};
    if (from.costs) line.formula = from.formula.text(), line.number = grouped(from.number);
    if (line.is_code() && !line.comment.empty()) line.comment.erase(0, 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

void print(const Source& source, const CostedText& text) {
  const std::vector<Line> lines = lines_of(source, text);
  size_t code = 0, formula = 0, number = 0;
  for (const Line& line : lines) {
    if (line.is_code() && line.has_more()) code = std::max(code, width_of(line.code));
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
            line.number + (line.comment.empty() ? "" : " " + line.comment);
    }
    std::puts(all.c_str());
  }
}

int show(const CostRequest& o) {
  CostedText text = costed(o);
  for (const auto& source : text.program->sources) {
    print(*source, text);
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
