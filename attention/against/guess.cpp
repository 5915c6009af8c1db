#include "attention/against/guess.hpp"

#include <algorithm>
#include <cmath>

#include "core/ops.hpp"

namespace tete {

namespace {

bool contains(const std::vector<int>& list, int item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Those of the dimensions that are the queries' and the memory's: two, where a mask applies.
Names pair_of(const Checked& program, const Names& dims) {
  Names pair;
  for (const Role role : {Role::query, Role::memory})
    for (int d : dims)
      if (program.dimensions[d].role == role) pair.push_back(d);
  return pair;
}

// The dimension over which queries and keys are multiplied, like d_k, and the value that is scaled
// by its root, or else their product.
struct Scale {
  int dimension = -1, value = -1;
};
Scale scale_of(const Checked& program) {
  Scale scale;
  for (int i = 0; i < static_cast<int>(program.values.size()); ++i) {
    const CheckedValue& v = program.values[i];
    if (pair_of(program, v.dims).size() != 2) continue;
    for (int used : v.uses)
      for (int d : program.values[used].dims)
        if (scale.dimension < 0 && !v.dims.contains(d) && program.dimensions[d].role == Role::none)
          scale = {d, i};
    visit(v.right, [&](const Node& node) {
      if (node.kind == NodeKind::size && node.index == scale.dimension) scale.value = i;
    });
  }
  return scale;
}

// A softmax or log_softmax.
bool is_softmax(const Node& node) { return node.builtin && node.builtin->masks; }

void reduce_over(Node& node, int dim) {
  if (is_softmax(node)) node.keys[0].dim = dim;
  for (Node& arg : node.args) reduce_over(arg, dim);
}

// Tries changes of the text, each as it is told, until one reproduces the tensor or too many
// statements have been run.
class Attempts {
 public:
  Attempts(const Candidate& candidate, const Compared& compared)
      : candidate(candidate), compared(compared) {}

  const Checked& program() const { return *candidate.program; }
  Evaluation& text() const { return *candidate.text; }
  int target() const { return compared.value; }
  const std::vector<int>& statements() const { return compared.statements; }
  // The operands, and then the statements.
  std::vector<int> values() const {
    std::vector<int> all = compared.operands;
    all.insert(all.end(), statements().begin(), statements().end());
    return all;
  }
  // The statement to blame for a change of v: v itself, or the first one that reads it.
  int statement_of(int v) const {
    if (v == target() || contains(statements(), v)) return v;
    const auto reader = std::find_if(statements().begin(), statements().end(),
                                     [&](int s) { return contains(candidate.value(s).uses, v); });
    return reader == statements().end() ? v : *reader;
  }

  void add(std::string sentence, int statement, Change change) {
    if (is_done()) return;
    ran_ += statements().size();
    if (reproduces(candidate, compared, change))
      found_ = {{std::move(sentence), statement}, std::move(change)};
  }
  // The tensor itself, or one that it is computed from, is seen as this function's result.
  void add_seen(int v, std::string sentence, std::function<Tensor(const Tensor&)> as) {
    Change change;
    if (v == target()) change.result_as = std::move(as);
    else change.value = v, change.seen_as = std::move(as);
    add(std::move(sentence), statement_of(v), std::move(change));
  }
  bool is_done() const { return ran_ >= most || !found_.guess.sentence.empty(); }
  Explanation result() {
    found_.guess.gave_up = found_.guess.sentence.empty() && ran_ >= most;
    return std::move(found_);
  }

  const Candidate& candidate;
  const Compared& compared;

 private:
  static constexpr size_t most = 10'000;  // runs of statements
  Explanation found_;
  size_t ran_ = 0;
};

// ---- Factors ------------------------------------------------------------------------------------

// √d_k and 1/√d_k, by name.
std::vector<std::pair<std::string, double>> roots(Attempts& all) {
  const int d = scale_of(all.program()).dimension;
  if (d < 0) return {};
  const std::string name = "√" + all.program().dimensions[d].name;
  const double root = std::sqrt(static_cast<double>(all.text().size(d)));
  return {{"1/" + name, 1 / root}, {name, root}};
}

void try_factor(Attempts& all) {
  const double factor = factor_of(all.compared).factor;
  if (!std::isfinite(factor)) return;
  const Expected& expected = all.compared.from_operands;
  const double apart = expected.allowed.farthest / largest_of(expected.tensor.values());
  std::string sentence = text("it is the text's times ", number_text(factor, 4));
  const bool before_softmax = all.target() <= scale_of(all.program()).value;
  for (const auto& [name, value] : roots(all))
    if (before_softmax && std::abs(factor / value - 1) <= apart) sentence += " = " + name;
  if (std::abs(factor + 1) <= apart) sentence = "its sign is the opposite";
  if (factor == 0)
    sentence = all.compared.gradient ? "it is zero: no gradient arrives here, as after a detach"
                                     : "it is zero everywhere";
  all.add_seen(all.target(), sentence, [=](const Tensor& x) { return x * factor; });
}

// Logits that are not scaled, or twice, where a softmax after them hides the factor.
void try_scale(Attempts& all) {
  const int v = scale_of(all.program()).value;
  if (v == all.target() || !contains(all.values(), v)) return;
  for (const auto& [name, value] : roots(all))
    all.add_seen(v, text("as if ", all.candidate.name(v), " were multiplied by ", name),
                 [by = value](const Tensor& x) { return x * by; });
}

// ---- Dimensions ---------------------------------------------------------------------------------

void try_softmaxes(Attempts& all) {
  for (int s : all.statements())
    visit(all.candidate.value(s).right, [&](const Node& node) {
      if (!is_softmax(node)) return;
      for (int name : node.names) {
        if (name == node.dim()) continue;
        auto altered = std::make_shared<Checked>(all.program());
        reduce_over(altered->values[s].right, name);
        all.add(text("as if ", node.builtin->name, " went over ",
                     altered->dimensions[name].short_name(), ", not over ",
                     altered->dimensions[node.dim()].short_name()),
                s, {.program = altered});
      }
    });
}

// Axes i and j of v, a tensor of this shape, are swapped; or the numbers only, in memory, as when
// heads are split or merged the wrong way round.
void add_swap(Attempts& all, int v, const Shape& shape, int i, int j) {
  const auto axis = [&](int k) { return axis_name(all.program(), v, shape.size(), k); };
  const bool is_gradient = v == all.target() && all.compared.gradient;
  const std::string sentence =
      text("as if ", is_gradient ? "the gradient" : all.candidate.name(v), "'s ", axis(i), " and ",
           axis(j), " were swapped",
           shape[i] == shape[j] ? " (transposed)" : " in memory, but not in its shape");
  Axes order = all_axes(shape.size());
  std::swap(order[i], order[j]);
  Shape swapped = shape;
  std::swap(swapped[i], swapped[j]);
  all.add_seen(v, sentence, [=](const Tensor& x) { return reshape(permute(x, order), shape); });
  all.add_seen(v, sentence, [=](const Tensor& x) { return permute(reshape(x, swapped), order); });
}

void try_swaps(Attempts& all) {
  std::vector<int> values = all.values();
  std::erase(values, all.target());
  values.insert(values.begin(), all.target());
  for (int v : values) {
    if (all.is_done()) return;
    const Shape shape =
        v == all.target() ? all.compared.theirs.shape() : all.text().value(v).shape();
    for (int i = 0; i < shape.size(); ++i)
      for (int j = i + 1; j < shape.size(); ++j) add_swap(all, v, shape, i, j);
  }
}

// ---- Masks --------------------------------------------------------------------------------------

void try_masks(Attempts& all) {
  const bool masked = !all.candidate.options.mask.hides_nothing();
  for (int s : all.statements())
    visit(all.candidate.value(s).right, [&](const Node& node) {
      if (!node.takes_call_mask) return;
      if (!masked)
        return all.add("as if a causal mask were applied, where none is given", s,
                       {.mask = Mask{.causal = true}});
      all.add("as if no mask were applied", s, {.mask = Mask{}});
      if (const Names pair = pair_of(all.program(), node.names); pair.size() == 2)
        all.add("as if the mask were inverted: here 1 means 'may attend'", s,
                {.mask = Mask{.visible = 1.0 - all.text().visible(pair)}});
    });
}

// Another tensor than the softmax's has a number where the mask hides: one before heads are mixed,
// or one after the softmax.
void try_fills(Attempts& all) {
  if (all.candidate.options.mask.hides_nothing() || all.compared.gradient) return;
  for (const std::vector<int>* list : {&all.statements(), &all.compared.operands})
    for (int v : *list) {
      const CheckedValue& value = all.candidate.value(v);
      if (all.is_done() || value.element != Element::real ||
          pair_of(all.program(), value.dims).size() != 2)
        continue;
      const Tensor visible = visible_like(all.text().value(v), value.dims, all.text());
      for (const double fill : {-1e9, -1e4, 0.0})
        all.add(text("as if the mask were applied to ", all.candidate.name(v), " (as ",
                     number_text(fill, 1), "), where the text applies it in its softmax"),
                all.statement_of(v),
                {.value = v,
                 .seen_as =
                     [=](const Tensor& x) {
                       return select(visible, x, Tensor::repeated_like(x, fill));
                     },
                 .mask = Mask{}});
    }
}

// ---- Gradients ----------------------------------------------------------------------------------

void try_detached(Attempts& all) {
  if (!all.compared.gradient) return;
  const int v = all.target();
  for (int u : all.statements())
    if (contains(all.candidate.value(u).uses, v))
      all.add(text("no gradient comes by way of ", all.candidate.name(u), ", as if ",
                   all.candidate.name(v), " were detached there"),
              u, {.value = u, .detached = v});
}

// ---- Fit ----------------------------------------------------------------------------------------

// True if theirs agrees with y, the changed text's tensor, and not with the text's tensor. Where
// an entry of y exceeds the text's largest, its tolerance grows in proportion.
bool agrees(const Compared& c, const std::vector<double>& y) {
  const std::vector<double> text = c.from_operands.tensor.values();
  const Distance& allowed = c.from_operands.allowed;
  std::vector<double> x = c.theirs.values(), shrunk = y;
  if (distance(x, text, c.ignored).within(allowed)) return false;
  if (const double largest = largest_of(text); largest > 0)
    for (size_t i = 0; i < x.size(); ++i)
      if (const double grown = std::abs(y[i]) / largest; grown > 1 && std::isfinite(grown))
        x[i] /= grown, shrunk[i] /= grown;
  return distance(x, shrunk, c.ignored).within(allowed);
}

}  // namespace

bool reproduces(const Candidate& candidate, const Compared& compared, const Change& change) {
  try {
    const Tensor made =
        replay(candidate, {compared.value}, compared.gradient, From::operands, change)[0];
    return made.shape() == compared.theirs.shape() && agrees(compared, made.values());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    return false;  // the change makes no sense here
  }
}

Explanation explain(const Candidate& candidate, const Compared& compared) {
  Attempts all(candidate, compared);
  for (const auto attempt :
       {try_factor, try_softmaxes, try_masks, try_swaps, try_detached, try_fills, try_scale})
    attempt(all);
  return all.result();
}

}  // namespace tete
