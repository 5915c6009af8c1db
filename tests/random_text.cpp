#include "tests/random_text.hpp"

#include <set>

#include "core/error.hpp"
#include "tests/random_draft.hpp"

namespace tete::tests {

namespace {

// d is the width of X and of M.
const std::vector<std::pair<std::string, std::string>> sizes = {
    {"h", "2"},     {"k", "4"}, {"a", "2"},      {"b", "2"},    {"t", "2"}, {"w", "3"},
    {"v", "2"},     {"u", "m"}, {"c", "m // 2"}, {"j", "m"},    {"e", ""},  {"f", "m + t"},
    {"room", "16"}, {"i", "n"}, {"p", "m // 2"}, {"g", "2 * m"}};

void begin(Draft& draft) {
  draft.has_memory = draft.chance(0.93);
  if (draft.has_memory) draft.text.memory = draft.chance(0.6) ? "M[m, d] = X[n, d]" : "M[m, d]";
  draft.values.push_back({.name = "X", .axes = {"n", "d"}});
  if (draft.has_memory) draft.values.push_back({.name = "M", .axes = {"m", "d"}});
  const int x = 0, m = draft.has_memory ? 1 : 0;
  const std::string from = draft.has_memory ? "m" : "n";
  const bool has_l = !draft.has_memory || draft.chance(0.35);
  const int l = has_l ? draft.add({"l", "d"}, draft.use(m, from, from + "=(l)")) : -1;
  const std::string s = draft.has_memory && draft.chance(0.8) ? "m" : l >= 0 ? "l" : "m";
  const int of = s == "l" ? l : m;
  if (draft.chance(0.7)) draft.add({"n", s}, "einsum(" + draft.use(x) + ", " + draft.use(of) + ")");
  else
    draft.add({"n", s, "h"}, "einsum(" + draft.use(x) + ", " + draft.use(of) + ", " +
                                 draft.parameter({"d", "h"}) + ")");
}

// A term of Y[n, d] that depends on the value. Where places count back from a row, none of them has
// a row of a parameter.
void add_term(Draft& draft, int x) {
  for (const std::string back : {"j", "i"})
    if (has(draft[x].axes, back))
      return void(draft.add(without(draft[x].axes, back),
                            "sum(" + draft.use(x) + ", reduced_dim=" + back + ")"));
  if (draft[x].axes == Axes{"n", "d"}) return draft.text.terms.push_back(draft.use(x));
  std::vector<std::string> operands = {draft.use(x)};
  Axes all = draft[x].axes, rows = {};
  for (const std::string& axis : Axes(draft[x].axes)) {
    if (!is_long(axis) || axis == "n") continue;
    const int w = draft.weights(axis);
    if (w < 0) rows.push_back(axis);
    else operands.push_back(draft.use(w)), all = joined(all, draft[w].axes);
  }
  if (!has(all, "n")) operands.push_back("X[n, d]"), all = joined(all, {"n", "d"});
  for (const std::string& axis : all)
    if (!is_long(axis) && axis != "d") rows.push_back(axis);
  if (!has(all, "d")) rows.push_back("d");
  if (!rows.empty()) operands.push_back(draft.parameter(rows));
  std::string term;
  for (const std::string& operand : operands) term += (term.empty() ? "einsum(" : ", ") + operand;
  draft.text.terms.push_back(term + ")");
}

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (char c : text + " ")
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') word += c;
    else words.insert(word), word.clear();
  return words;
}

// The lines that a later one mentions.
std::vector<RandomText::Line> mentioned(const std::vector<RandomText::Line>& lines,
                                        std::string& text) {
  std::vector<RandomText::Line> kept;
  for (size_t i = lines.size(); i-- > 0;)
    if (words_of(text).contains(lines[i].name)) {
      kept.insert(kept.begin(), lines[i]);
      text += " " + lines[i].left + " " + lines[i].right;
    }
  return kept;
}

}  // namespace

std::string RandomText::text() const {
  std::string sum, seen, all, clause;
  for (const std::string& term : terms) sum += (sum.empty() ? "" : " + ") + term;
  seen = sum;
  const std::vector<Line> lines = mentioned(statements, seen),
                          learned = mentioned(parameters, seen);
  all = "def Random(X[n, d]" + (memory.empty() ? "" : ", " + memory);
  for (const Line& p : learned) all += ",\n    " + p.left + " = " + p.right;
  for (const auto& [size, value] : sizes)
    if (words_of(seen).contains(size))
      clause += (clause.empty() ? "" : ", ") + size + " = " + (size == "e" ? joined : value);
  all += "):\n" + (clause.empty() ? "" : "  where " + clause + "\n");
  for (const Line& s : lines) all += "  " + s.left + " = " + s.right + "\n";
  all += "  Y[n, d] = " + sum + "\n  return Y[n, d]\n";
  for (const auto& [name, def] : defs)
    if (words_of(seen).contains(name)) all += def;
  return all;
}

RandomText random_text(uint64_t seed) {
  Draft draft(seed);
  begin(draft);
  const size_t count = 3 + draft.below(8);
  for (size_t tries = 0; draft.text.statements.size() < count && tries < 40; ++tries)
    add_statement(draft);
  for (size_t i = 0; i < draft.values.size(); ++i)
    if (!draft.values[i].used) add_term(draft, static_cast<int>(i));
  return draft.text;
}

}  // namespace tete::tests
