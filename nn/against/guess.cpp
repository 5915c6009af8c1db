#include "nn/against/guess.hpp"

#include <algorithm>
#include <cmath>

#include "core/ops.hpp"
#include "nn/against/masks.hpp"

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
      if (node.kind == Node::Kind::size && node.index == scale.dimension) scale.value = i;
    });
  }
  return scale;
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

void reduce_over(Node& node, int dim) {
  if (calls(node, "softmax")) node.keys[0].dim = dim;
  for (Node& arg : node.args) reduce_over(arg, dim);
}

class Guesser {
 public:
  Guesser(const Candidate& candidate, const Compared& compared)
      : candidate_(candidate),
        compared_(compared),
        text_(candidate.program, candidate.arguments, candidate.options) {
    if (!compared.gradient) {
      statements_ = statements_to(candidate, target(), &operands_);
      return;
    }
    statements_ = statements_from(candidate, target());
    for (int s : statements_)
      for (int used : candidate.value(s).uses)
        if (used != target() && !contains(operands_, used)) operands_.push_back(used);
  }

  Explanation guess() {
    for (const auto attempt :
         {&Guesser::try_factor, &Guesser::try_softmaxes, &Guesser::try_masks, &Guesser::try_swaps,
          &Guesser::try_detached, &Guesser::try_fills, &Guesser::try_scale})
      (this->*attempt)();
    found_.gave_up = found_.sentence.empty() && ran_ >= most;
    return std::move(found_);
  }

 private:
  static constexpr size_t most = 10'000;  // runs of statements

  const Checked& program() const { return *candidate_.program; }
  int target() const { return compared_.value; }
  bool is_done() const { return ran_ >= most || !found_.sentence.empty(); }
  // The statement to blame for a change of v: v itself, or the first one that reads it.
  int statement_of(int v) const {
    if (v == target() || contains(statements_, v)) return v;
    const auto reader = std::find_if(statements_.begin(), statements_.end(),
                                     [&](int s) { return contains(candidate_.value(s).uses, v); });
    return reader == statements_.end() ? v : *reader;
  }

  void attempt(std::string sentence, int statement, Change change) {
    if (is_done()) return;
    ran_ += statements_.size();
    if (reproduces(candidate_, compared_, change))
      found_ = {std::move(sentence), statement, std::move(change)};
  }

  // ---- Factors ----------------------------------------------------------------------------------

  // √d_k and 1/√d_k, by name.
  std::vector<std::pair<std::string, double>> roots() {
    const int d = scale_of(program()).dimension;
    if (d < 0) return {};
    const std::string name = "√" + program().dimensions[d].name;
    const double root = std::sqrt(static_cast<double>(text_.size(d)));
    return {{"1/" + name, 1 / root}, {name, root}};
  }

  void try_factor() {
    const double factor = factor_of(compared_);
    if (!std::isfinite(factor)) return;
    const Expected& expected = compared_.from_operands;
    const double apart = expected.allowed.farthest / largest_of(expected.tensor.values());
    std::string sentence = text("it is the text's times ", number_text(factor, 4));
    for (const auto& [name, value] : roots())
      if (std::abs(factor / value - 1) <= apart) sentence += " = " + name;
    if (std::abs(factor + 1) <= apart) sentence = "its sign is the opposite";
    if (factor == 0)
      sentence = compared_.gradient ? "it is zero: no gradient arrives here, as after a detach"
                                    : "it is zero everywhere";
    attempt(sentence, target(), {.result_as = [=](const Tensor& x) { return x * factor; }});
  }

  // Logits that are not scaled, or twice, where a softmax after them hides the factor.
  void try_scale() {
    const int v = scale_of(program()).value;
    if (v == target() || (!contains(statements_, v) && !contains(operands_, v))) return;
    for (const auto& [name, value] : roots())
      attempt(text("as if ", candidate_.name(v), " were multiplied by ", name), statement_of(v),
              {.value = v, .seen_as = [by = value](const Tensor& x) { return x * by; }});
  }

  // ---- Dimensions -------------------------------------------------------------------------------

  void try_softmaxes() {
    for (int s : statements_)
      visit(candidate_.value(s).right, [&](const Node& node) {
        if (!calls(node, "softmax")) return;
        for (int name : node.names) {
          if (name == node.dim()) continue;
          auto altered = std::make_shared<Checked>(program());
          reduce_over(altered->values[s].right, name);
          attempt(text("as if softmax went over ", program().dimensions[name].short_name(),
                       ", not over ", program().dimensions[node.dim()].short_name()),
                  s, {.program = altered});
        }
      });
  }

  void try_swaps() {
    swap_dimensions(target(), compared_.theirs.shape());
    for (const std::vector<int>* list : {&operands_, &statements_})
      for (int v : *list)
        if (v != target() && !is_done()) swap_dimensions(v, text_.value(v).shape());
  }

  // Two axes of v that are swapped; or the numbers only, in memory, as when heads are split or
  // merged the wrong way round.
  void swap_dimensions(int v, const Shape& shape) {
    const bool is_gradient = v == target() && compared_.gradient;
    for (int i = 0; i < shape.size(); ++i)
      for (int j = i + 1; j < shape.size(); ++j) {
        const auto axis = [&](int k) { return axis_name(program(), v, shape.size(), k); };
        const std::string sentence =
            text("as if ", is_gradient ? "the gradient" : candidate_.name(v), "'s ", axis(i),
                 " and ", axis(j), " were swapped",
                 shape[i] == shape[j] ? " (transposed)" : " in memory, but not in its shape");
        Axes order;
        for (int k = 0; k < shape.size(); ++k) order.push_back(k);
        std::swap(order[i], order[j]);
        Shape swapped = shape;
        std::swap(swapped[i], swapped[j]);
        attempt_on(v, sentence, [=](const Tensor& x) { return reshape(permute(x, order), shape); });
        attempt_on(v, sentence,
                   [=](const Tensor& x) { return permute(reshape(x, swapped), order); });
      }
  }

  void attempt_on(int v, const std::string& sentence,
                  const std::function<Tensor(const Tensor&)>& of) {
    Change change;
    if (v == target()) change.result_as = of;
    else change.value = v, change.seen_as = of;
    attempt(sentence, statement_of(v), std::move(change));
  }

  // ---- Masks ------------------------------------------------------------------------------------

  void try_masks() {
    for (int s : statements_)
      visit(candidate_.value(s).right, [&](const Node& node) {
        if (node.takes_call_mask) try_masks_of(s, pair_of(program(), node.names));
      });
  }

  void try_masks_of(int s, const Names& pair) {
    if (candidate_.options.mask.hides_nothing()) {
      attempt("as if a causal mask were applied, where none is given", s,
              {.mask = Mask{.causal = true}});
      return;
    }
    attempt("as if no mask were applied", s, {.mask = Mask{}});
    if (pair.size() == 2)
      attempt("as if the mask were inverted: here 1 means 'may attend'", s,
              {.mask = Mask{.visible = 1.0 - text_.visible(pair)}});
  }

  // Another tensor than the softmax's has a number where the mask hides: one before heads are
  // mixed, or one after the softmax.
  void try_fills() {
    if (candidate_.options.mask.hides_nothing() || compared_.gradient) return;
    for (const std::vector<int>* list : {&statements_, &operands_})
      for (int v : *list) {
        const CheckedValue& value = candidate_.value(v);
        if (is_done() || value.element != Element::real ||
            pair_of(program(), value.dims).size() != 2)
          continue;
        const Tensor visible = visible_like(text_.value(v), value.dims, text_);
        for (const double fill : {-1e9, -1e4, 0.0})
          attempt(text("as if the mask were applied to ", candidate_.name(v), " (as ",
                       number_text(fill, 1), "), where the text applies it in its softmax"),
                  statement_of(v),
                  {.value = v,
                   .seen_as =
                       [=](const Tensor& x) {
                         return select(visible, x, Tensor::repeated(fill, x.shape(), x.dtype()));
                       },
                   .mask = Mask{}});
      }
  }

  // ---- Gradients --------------------------------------------------------------------------------

  void try_detached() {
    if (!compared_.gradient) return;
    const int v = target();
    for (int u : statements_)
      if (contains(candidate_.value(u).uses, v))
        attempt(text("no gradient comes by way of ", candidate_.name(u), ", as if ",
                     candidate_.name(v), " were detached there"),
                u, {.value = u, .computed_as = [=](Evaluation& run) {
                      const Tensor x = run.value(v);
                      run.set(v, x.detach());
                      const Tensor y = run.anew(u);
                      run.set(v, x);
                      return y;
                    }});
  }

  const Candidate& candidate_;
  const Compared& compared_;
  Evaluation text_;              // of the candidate's inputs and parameters
  std::vector<int> statements_;  // the statements in which the mistake may be
  std::vector<int> operands_;    // the values that they read
  Explanation found_;
  size_t ran_ = 0;
};

// True if theirs agrees with y, the changed text's tensor, and not with the text's tensor. An entry
// of y that is larger than the text's largest may be off by as much more.
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
    const auto replay = compared.gradient ? replay_gradients : replay_values;
    const Tensor made = replay(candidate, {compared.value}, From::operands, change, {})[0];
    return made.shape() == compared.theirs.shape() && agrees(compared, made.values());
  } catch (const Error& error) {
    if (error.kind() != Kind::input) throw;
    return false;  // the change makes no sense here
  }
}

Explanation explain(const Candidate& candidate, const Compared& compared) {
  return Guesser(candidate, compared).guess();
}

}  // namespace tete
