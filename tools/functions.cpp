// tete functions: the functions and initialisers of the notation, each with an example.
#include <iostream>
#include <nlohmann/json.hpp>

#include "nn/language/builtins.hpp"
#include "tools/options.hpp"
#include "tools/table.hpp"

namespace tete {

// One line in three columns; or three lines, where a text is longer than its column.
template <class Row>
static void print(const Row& row) {
  constexpr size_t usage_width = 29, meaning_width = 42;
  const std::string usage = row.usage, meaning = row.meaning;
  const size_t of_usage = width_of(usage), of_meaning = width_of(meaning);
  if (of_usage + 2 > usage_width || of_meaning + 2 > meaning_width)
    std::cout << usage << "\n    " << meaning << "\n    " << row.example << "\n";
  else
    std::cout << usage << std::string(usage_width - of_usage, ' ') << meaning
              << std::string(meaning_width - of_meaning, ' ') << row.example << "\n";
}

template <class Rows>
static nlohmann::ordered_json as_json(const Rows& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& row : rows)
    all.push_back({{"name", row.name},
                   {"usage", row.usage},
                   {"meaning", row.meaning},
                   {"example", row.example}});
  return all;
}

static int functions(bool json) {
  if (json) {
    const nlohmann::ordered_json all = {{"functions", as_json(builtins())},
                                        {"initialisers", as_json(initializers())}};
    std::cout << all.dump(2) << "\n";
    return 0;
  }
  std::cout << "== functions\n";
  for (const Builtin& row : builtins()) print(row);
  std::cout << "\n== initialisers\n";
  for (const InitializerRow& row : initializers()) print(row);
  return 0;
}

Run functions_verb(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "as JSON");
  app.footer(
      "Example:\n"
      "  tete functions | grep -A 2 top_k\n"
      "A line has how it is called, what it gives, and a statement or a parameter that\n"
      "uses it. nn/README.md has the grammar and the rules.");
  return [json] { return functions(*json); };
}

}  // namespace tete
