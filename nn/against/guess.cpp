#include "nn/against/guess.hpp"

#include <algorithm>
#include <cmath>

#include "nn/against/alter.hpp"
#include "nn/against/masks.hpp"
#include "nn/against/misreadings.hpp"

namespace tete {

namespace {

bool contains(const std::vector<int>& list, int item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// A tensor that is wrong, and the values that it is computed from.
struct Suspect {
  const Candidate& candidate;
  const Compared& compared;
  std::vector<int> statements = {};  // in which the mistake may be
  std::vector<int> operands = {};    // values that these read
  Tensors values = {};               // every value, from the candidate's of its operands

  const Checked& program() const { return *candidate.program; }
  int target() const { return compared.value; }
  const Tensor& text() const { return compared.from_operands.tensor; }
  bool is_real(int i) const { return candidate.value(i).element == Element::real; }
  const Shape& shape(int i) const { return i == target() ? text().shape() : values[i].shape(); }
  // The statement to blame for a change of v: v itself, or the first one that reads it.
  int statement_of(int v) const {
    if (v == target() || contains(statements, v)) return v;
    int first = v;
    for (int s : statements)
      if (contains(candidate.value(s).uses, v) && (first == v || s < first)) first = s;
    return first;
  }
};

// Tries each explanation as it is added, until one reproduces the tensor or too many statements
// have been run.
class Explanations {
 public:
  explicit Explanations(const Suspect& suspect) : suspect_(suspect) {}

  void push_back(Explanation explanation) {
    if (done()) return;
    ran_ += suspect_.statements.size();
    if (reproduces(suspect_.candidate, suspect_.compared, explanation.change))
      found_ = std::move(explanation);
  }
  bool done() const { return ran_ >= most || !found_.sentence.empty(); }
  Explanation result() {
    found_.gave_up = found_.sentence.empty() && ran_ >= most;
    return std::move(found_);
  }

 private:
  static constexpr size_t most = 10'000;  // a layer with only its result given takes some thousands
  const Suspect& suspect_;
  size_t ran_ = 0;
  Explanation found_;
};

Suspect suspect_of(const Candidate& candidate, const Compared& compared) {
  Suspect s{.candidate = candidate, .compared = compared};
  if (compared.gradient) {
    s.statements = statements_from(candidate, compared.value);
    for (int i : s.statements)
      for (int used : candidate.value(i).uses)
        if (used != compared.value && !contains(s.operands, used)) s.operands.push_back(used);
  } else {
    s.statements = statements_to(candidate, compared.value, &s.operands);
  }
  std::vector<int> all;
  for (int i = 0; i < candidate.count(); ++i) all.push_back(i);
  s.values = replay_values(candidate, all, From::operands);
  return s;
}

// ---- Texts and masks ----------------------------------------------------------------------------

void add_zero(const Suspect& s, Explanations& all) {
  all.push_back({s.compared.gradient ? "it is zero: no gradient arrives here, as after a detach"
                                     : "it is zero everywhere",
                 s.target(),
                 {.result_as = [](const Tensor& x) { return x * 0.0; }}});
}

void add_texts(const Suspect& s, Explanations& all) {
  for (auto i = s.statements.rbegin(); i != s.statements.rend() && !all.done(); ++i)
    for (Alteration& alteration : alterations(s.program(), *i))
      all.push_back({alteration.sentence, *i, {.program = alteration.program}});
}

void add_masks(const Suspect& s, Explanations& all) {
  for (int i : s.statements) {
    if (all.done() || !takes_call_mask(s.candidate.value(i).right)) continue;
    Evaluation run(s.candidate.program, s.candidate.arguments, s.candidate.options);
    for (OtherMask& other : other_masks(s.program(), run, s.candidate.options.mask))
      all.push_back({other.sentence, i, {.mask = other.mask}});
  }
}

// The mask is applied to j, and a statement mixes it before the softmax.
void add_early_masks(const Suspect& s, Explanations& all) {
  const Names pair = masked_pair(s.program());
  if (pair.size() != 2 || s.candidate.options.mask.hides_nothing() || s.compared.gradient) return;
  for (const std::vector<int>* list : {&s.statements, &s.operands})
    for (int j : *list) {
      const Names& dims = s.candidate.value(j).dims;
      if (all.done() || !s.is_real(j) || !dims.contains(pair[0]) || !dims.contains(pair[1]) ||
          enters_masked_softmax(s.program(), j))
        continue;
      for (const double fill : {-1e9, -1e4})
        all.push_back({text("as if the mask were applied to ", s.candidate.name(j),
                            ", where the text applies it in its softmax"),
                       s.statement_of(j),
                       {.value = j,
                        .seen_as =
                            [&dims, fill](const Tensor& x, Evaluation& run) {
                              return filled_where_hidden(x, dims, run, fill);
                            },
                        .program = without_masks(s.program())}});
    }
}

// ---- Scales -------------------------------------------------------------------------------------

// The dimension over which queries and keys are multiplied, like d_k: the logits' scale follows
// from its size.
int scaled_dimension(const Checked& program) {
  const auto has = [&](const Names& dims, Role role) {
    return std::any_of(dims.begin(), dims.end(),
                       [&](int d) { return program.dimensions[d].role == role; });
  };
  for (const CheckedValue& v : program.values) {
    if (!has(v.dims, Role::query) || !has(v.dims, Role::memory)) continue;
    for (int used : v.uses) {
      const CheckedValue& operand = program.values[used];
      if (has(operand.dims, Role::query) == has(operand.dims, Role::memory)) continue;
      for (int d : operand.dims) {
        const Dimension& dimension = program.dimensions[d];
        if (!v.dims.contains(d) && dimension.role == Role::none) return d;
      }
    }
  }
  return -1;
}

struct Factor {
  std::string name;
  double value;
};
std::vector<Factor> known_factors(const Suspect& s) {
  std::vector<Factor> all = {{"-1", -1}, {"log2(e)", 1 / std::log(2.0)}, {"ln(2)", std::log(2.0)}};
  const int d = scaled_dimension(s.program());
  if (d < 0) return all;
  const std::string name = s.program().dimensions[d].name;
  const double root = std::sqrt(static_cast<double>(
      Evaluation(s.candidate.program, s.candidate.arguments, s.candidate.options).size(d)));
  all.insert(all.begin(), {{"1/√" + name, 1 / root}, {"√" + name, root}});
  return all;
}

// True if the value is a step on the way to some softmax.
bool feeds_softmax(const Candidate& candidate, int value) {
  std::vector<bool> made(static_cast<size_t>(candidate.count()), false);
  made[value] = true;
  for (int i = value + 1; i < candidate.count(); ++i) {
    const std::vector<int>& uses = candidate.value(i).uses;
    if (!std::any_of(uses.begin(), uses.end(), [&](int u) { return made[u]; })) continue;
    if (calls(candidate.value(i).right, "softmax")) return true;
    made[i] = true;
  }
  return false;
}

// The factor f that minimises Σ (theirs - f · text)².
double factor_of(const Compared& c) {
  const std::vector<double> x = c.theirs.values(), y = c.from_operands.tensor.values();
  double xy = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && (c.ignored.empty() || !c.ignored[i]))
      xy += x[i] * y[i], yy += y[i] * y[i];
  return xy / yy;
}

void add_scale(const Suspect& s, Explanations& all) {
  const double factor = factor_of(s.compared), largest = largest_of(s.text().values());
  if (!std::isfinite(factor) || factor == 0) return;
  std::string sentence = text("it is the text's times ", number_text(factor, 4));
  const double apart = s.compared.from_operands.allowed.farthest / largest;
  if (std::abs(factor + 1) <= apart) sentence = "its sign is the opposite";
  else if (feeds_softmax(s.candidate, s.target()))
    for (const Factor& f : known_factors(s))
      if (std::abs(factor / f.value - 1) <= apart) {
        sentence += " = " + f.name;
        break;
      }
  all.push_back(
      {sentence, s.target(), {.result_as = [factor](const Tensor& x) { return x * factor; }}});
}

// Operands that are wrong by a factor. A nonlinear function after them tells this from a factor of
// the result.
void add_scaled_operands(const Suspect& s, Explanations& all) {
  for (const std::vector<int>* list : {&s.statements, &s.operands})
    for (auto v = list->rbegin(); v != list->rend(); ++v)
      if (!all.done() && *v != s.target() && s.is_real(*v) && feeds_softmax(s.candidate, *v))
        for (const Factor& f : known_factors(s))
          all.push_back({text("as if ", s.candidate.name(*v), " were multiplied by ", f.name),
                         s.statement_of(*v),
                         {.value = *v, .seen_as = [by = f.value](const Tensor& x, Evaluation&) {
                            return x * by;
                          }}});
}

// ---- Dimensions and names -----------------------------------------------------------------------

NamedAxes axes_of(const Suspect& s, int v) {
  const bool is_gradient = v == s.target() && s.compared.gradient;
  const int rank = s.shape(v).size();
  NamedAxes named{is_gradient ? "the gradient" : s.candidate.name(v), {}, 0};
  named.batch = rank - s.candidate.value(v).dims.size();
  for (int axis = 0; axis < rank; ++axis)
    named.axes.push_back(axis_name(s.program(), v, rank, axis));
  return named;
}

void add(const Suspect& s, int v, const Misreading& misreading, Explanations& all) {
  Change change;
  if (v == s.target()) change.result_as = misreading.of;
  else
    change.value = v,
    change.seen_as = [of = misreading.of](const Tensor& x, Evaluation&) { return of(x); };
  all.push_back({misreading.sentence, s.statement_of(v), std::move(change)});
}

// The tensor itself, then the values that it is computed from, parameters before others.
std::vector<int> target_and_operands(const Suspect& s) {
  std::vector<int> all = {s.target()};
  for (const std::vector<int>* list : {&s.operands, &s.statements})
    for (int v : *list)
      if (!contains(all, v)) all.push_back(v);
  return all;
}

void add_confused(const Suspect& s, Explanations& all) {
  for (int v : target_and_operands(s)) {
    if (all.done()) return;
    for (const Misreading& misreading : confused_dimensions(axes_of(s, v), s.shape(v)))
      add(s, v, misreading, all);
  }
}

// Another value in the place of the target or of an operand.
void add_other_names(const Suspect& s, Explanations& all) {
  for (int v : target_and_operands(s)) {
    if (all.done() || !s.is_real(v) || (v == s.target() && s.compared.gradient)) continue;
    for (int w = 0; w < s.candidate.count(); ++w) {
      if (w == v || w == s.target() || !s.is_real(w) || !(s.shape(w) == s.shape(v))) continue;
      const auto other = [w](Evaluation& run) { return run.value(w); };
      if (v == s.target())
        all.push_back({text("it is what the text calls ", s.candidate.name(w)),
                       v,
                       {.value = v, .computed_as = other}});
      else
        all.push_back(
            {text("as if ", s.candidate.name(w), " stood in the place of ", s.candidate.name(v)),
             s.statement_of(v),
             {.value = v,
              .seen_as = [other](const Tensor&, Evaluation& run) { return other(run); }}});
    }
  }
}

// ---- Gradients ----------------------------------------------------------------------------------

void add_detached(const Suspect& s, Explanations& all) {
  if (!s.compared.gradient) return;
  const int v = s.target();
  for (int u : s.statements) {
    if (!contains(s.candidate.value(u).uses, v)) continue;
    all.push_back({text("no gradient comes by way of ", s.candidate.name(u), ", as if ",
                        s.candidate.name(v), " were detached there"),
                   u,
                   {.value = u, .computed_as = [=](Evaluation& run) {
                      const Tensor x = run.value(v);
                      run.set(v, x.detach());
                      const Tensor y = run.anew(u);
                      run.set(v, x);
                      return y;
                    }}});
    if (calls(s.candidate.value(u).right, "softmax") && s.shape(u) == s.shape(v))
      all.push_back({"the sum over the reduced dimension is missing from softmax's gradient",
                     u,
                     {.value = u, .computed_as = [=](Evaluation& run) {
                        return run.anew(u).detach() * run.value(v);
                      }}});
  }
}

// ---- Fit ----------------------------------------------------------------------------------------

// True if theirs agrees with y, the changed text's tensor, in all entries that are defined there,
// and does not agree with the text's tensor. An entry of y that is larger than the text's largest
// may be off by as much more.
bool agrees(const Compared& c, const std::vector<double>& y, std::vector<bool> undefined) {
  const std::vector<double> text = c.from_operands.tensor.values();
  const Distance& allowed = c.from_operands.allowed;
  undefined.resize(text.size());
  for (size_t i = 0; i < c.ignored.size(); ++i) undefined[i] = undefined[i] || c.ignored[i];
  std::vector<double> x = c.theirs.values();
  if (distance(x, text, undefined).within(allowed)) return false;
  std::vector<double> shrunk = y;
  if (const double largest = largest_of(text); largest > 0)
    for (size_t i = 0; i < x.size(); ++i)
      if (const double grown = std::abs(y[i]) / largest; grown > 1 && std::isfinite(grown))
        x[i] /= grown, shrunk[i] /= grown;
  return distance(x, shrunk, undefined).within(allowed);
}

}  // namespace

bool reproduces(const Candidate& candidate, const Compared& compared, const Change& change) {
  try {
    const auto replay = compared.gradient ? replay_gradients : replay_values;
    const Tensor made = replay(candidate, {compared.value}, From::operands, change, {})[0];
    if (!(made.shape() == compared.theirs.shape())) return false;
    std::vector<bool> undefined;
    if (change.mask && !compared.gradient) {
      RunOptions options = candidate.options;
      options.mask = *change.mask;
      Evaluation run(candidate.program, candidate.arguments, options);
      undefined = blind_entries(*candidate.program, compared.value, made.shape(), run);
    }
    return agrees(compared, made.values(), undefined);
  } catch (const Error& error) {
    if (error.kind() != Kind::input) throw;
    return false;  // the change makes no sense here
  }
}

Explanation explain(const Candidate& candidate, const Compared& compared) {
  const Suspect suspect = suspect_of(candidate, compared);
  Explanations all(suspect);
  for (const auto add : {add_zero, add_texts, add_masks, add_scale, add_confused, add_detached,
                         add_other_names, add_early_masks, add_scaled_operands})
    add(suspect, all);
  return all.result();
}

}  // namespace tete
