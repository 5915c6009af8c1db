#include "core/check/faults.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/ops.hpp"

namespace tete {

namespace {

bool is_finite(const Tensor& x) {
  const Numbers values = x.values<double>();
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

bool is_f64(const Tensor& x) { return x && x.dtype() == Dtype::f64; }

// x as a leaf that operations are recorded on.
Tensor tracked(const Tensor& x) {
  return x && is_real(x.dtype()) && !x.tracked() ? x.variable() : x;
}

// The name of a line's file, without its folders, and the line's number.
std::string file_of(const CodeLine& line) {
  const std::string path = line.file;
  return text(path.substr(path.find_last_of('/') + 1), ":", line.line);
}

class Search {
 public:
  Search(const WatchedFunction& f, const Tensors& inputs, const GradCheckOptions& options,
         const GradReport& report)
      : f_(f), options_(options), report_(report) {
    for (const Tensor& in : inputs)
      leaves_.push_back(in && is_real(in.dtype()) ? in.detach().variable() : in);
    known_ = leaves_;
    y_ = run_and_note();
  }

  std::optional<Fault> fault() {
    if (!repeats()) return Fault{.kind = Fault::Kind::unsteady};
    bool first_order = false, infinite = false;
    for (const InputReport& input : report_.inputs)
      if (is_fault(input.verdict)) {
        first_order |= input.order == 1;
        infinite |= input.verdict == Verdict::not_finite;
      }
    if (infinite)
      if (const auto found = not_finite()) return found;
    return first_order ? wrong_rule() : wrong_higher_rule();
  }

 private:
  struct Recorded {
    Tensor result;
    std::string value = {};  // the named value that it was computed for
  };

  // ---- Runs -------------------------------------------------------------------------------------

  Tensor run_and_note() {
    const RecordWatch watch([&](const Tensor& made) {
      made_.push_back({made}), known_.push_back(made);
      return made;
    });
    size_t named = 0;
    return f_(leaves_, [&](const std::string& name, const Tensor&) {
      for (; named < made_.size(); ++named) made_[named].value = name;
    });
  }

  bool repeats() {
    size_t count = 0;
    const RecordWatch watch([&](const Tensor& made) {
      ++count;
      return made;
    });
    const Tensor again = run(leaves_);
    if (count != made_.size() || !(again.shape() == y_.shape())) return false;
    const Numbers a = y_.values<double>(), b = again.values<double>();
    return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
      return x == y || (std::isnan(x) && std::isnan(y));
    });
  }

  Tensor run(const Tensors& inputs) { return f_(inputs, {}); }

  // The function's result if operation `place` had given `value`.
  Tensor with_result(size_t place, const Tensor& value) {
    size_t count = 0;
    const RecordWatch watch(
        [&](const Tensor& made) { return count++ == place ? tracked(value) : made; });
    return run(leaves_);
  }

  // Computes operation `place` with `values` in the place of `sources`, those of its inputs that
  // carry a gradient. All operations before it return their recorded results.
  Tensor operation(size_t place, const Tensors& sources, const Tensors& values) {
    Tensor result;
    size_t count = 0;
    const auto given = [&](const Tensor& recorded) {
      for (size_t i = 0; i < sources.size(); ++i)
        if (sources[i].same(recorded)) return tracked(values[i]);
      return Tensor();
    };
    const RecordWatch watch([&](const Tensor& made) {
      const size_t at = count++;
      if (at == place) result = made, follows_ = follows_ || !same_constants(made, place);
      if (at >= place) return made;
      const Tensor taken = given(made_[at].result);
      return taken ? taken : tracked(made_[at].result.detach());
    });
    Tensors inputs;
    for (const Tensor& leaf : leaves_) {
      const Tensor taken = leaf ? given(leaf) : Tensor();
      inputs.push_back(taken ? taken : leaf);
    }
    try {
      run(inputs);
    } catch (const Error&) {
      if (!result) throw;  // otherwise a later operation failed
    }
    return result;
  }

  // True if the operation's inputs without a gradient have the numbers of the first run.
  bool same_constants(const Tensor& made, size_t place) const {
    const Tensors now = made.made_by()->inputs, then = inputs(place);
    for (size_t i = 0; i < then.size(); ++i)
      if (then[i] && !then[i].tracked() && now[i].values<double>() != then[i].values<double>())
        return false;
    return true;
  }

  // ---- Blame ------------------------------------------------------------------------------------

  const Record& record(size_t place) const { return *made_[place].result.made_by(); }
  // The inputs of operation `place`, with storage also where its rule reads none.
  Tensors inputs(size_t place) const { return with_storage(record(place).inputs, known_); }

  Fault blame(Fault::Kind kind, size_t place) const {
    return {.kind = kind,
            .operation = record(place).op,
            .rule = file_of(record(place).rule),
            .value = made_[place].value};
  }

  // Finds the first result that is not finite although its inputs are; or else, backwards, the
  // first such gradient.
  std::optional<Fault> not_finite() const {
    const auto sound = [](const Tensor& x) { return !x || !is_real(x.dtype()) || is_finite(x); };
    if (!is_finite(y_))
      for (size_t i = 0; i < made_.size(); ++i) {
        const Tensors in = inputs(i);
        if (!is_finite(made_[i].result) && std::all_of(in.begin(), in.end(), sound))
          return blame(Fault::Kind::value, i);
      }
    if (!y_.tracked()) return {};
    const Tensors arrived = gradients_of_all();
    for (size_t i = made_.size(); i-- > 0;) {
      if (!arrived[i] || !is_finite(arrived[i])) continue;
      const Tensors in = inputs(i);
      const std::vector<bool> wanted(in.size(), true);
      const Tensors passed =
          record(i).vjp({in, record(i).kept, made_[i].result.detach(), arrived[i], wanted});
      if (!std::all_of(passed.begin(), passed.end(), sound)) return blame(Fault::Kind::gradient, i);
    }
    return {};
  }

  Tensor cotangent() const {
    return random_normal(y_.shape(), options_.key.fold("fault"), Dtype::f64);
  }

  // The gradient that arrives at each recorded result; empty if none does.
  Tensors gradients_of_all() const {
    Tensors asked;
    for (const Recorded& made : made_) asked.push_back(made.result);
    if (!y_.tracked()) return Tensors(asked.size());
    return grad(y_, asked, {.cotangent = cotangent()});
  }

  std::optional<Fault> wrong_rule() {
    const Tensors arrived = gradients_of_all();
    const Numbers weights = cotangent().values<double>();
    for (size_t i = made_.size(); i-- > 0;)
      if (is_f64(made_[i].result) && is_wrong(i, arrived[i], weights)) {
        if (auto found = wrong_rule_after(made_[i].result)) return found;
        return blame(Fault::Kind::unrecorded, i);
      }
    size_t checked = 0;  // reports are of the inputs that are real, in their order
    for (const Tensor& leaf : leaves_) {
      if (!leaf || !is_real(leaf.dtype())) continue;
      const InputReport& input = report_.inputs[checked++];
      if (!is_fault(input.verdict)) continue;
      if (auto found = wrong_rule_after(leaf)) return found;
      if (input.verdict != Verdict::noise)
        return Fault{.kind = Fault::Kind::unrecorded, .value = input.input};
    }
    return {};
  }

  // True if the gradient that arrived at a result is wrong.
  bool is_wrong(size_t place, const Tensor& arrived, const Numbers& weights) {
    const Tensors value{made_[place].result.detach()};
    const Differences differences([&](const Tensors& in) { return with_result(place, in[0]); },
                                  value, options_.step);
    const Key key = options_.key.fold("fault").fold(place);
    const Numbers way = random_normal({value[0].size()}, key, Dtype::f64).values<double>();
    const CurveQuestion question{.analytic = arrived ? dot(arrived.values<double>(), way) : 0,
                                 .size = differences.scale(weights),
                                 .step = options_.step,
                                 .tolerance = options_.tolerance,
                                 .rounding = differences.rounding(weights)};
    const double numeric = dot(differences.slopes(0, way), weights);
    const double apart = std::fabs(numeric - question.analytic);
    if (apart <= question.tolerance * std::max(std::fabs(numeric), question.size)) return false;
    const auto rise = [&](double from, double to) {
      return differences.rise(0, way, weights, from, to);
    };
    return trace(rise, question).verdict == Verdict::wrong;
  }

  // Finds an operation that reads x and whose own rule is wrong; or else one at a kink.
  std::optional<Fault> wrong_rule_after(const Tensor& x) {
    std::optional<Fault> kink;
    for (size_t i = made_.size(); i-- > 0;) {
      const Tensors in = inputs(i);
      if (std::none_of(in.begin(), in.end(),
                       [&](const Tensor& each) { return each && each.same(x); }))
        continue;
      std::optional<Fault> found = check_operation(i, 1);
      if (found && found->kind == Fault::Kind::rule) return found;
      if (found) kink = std::move(found);
    }
    return kink;
  }

  std::optional<Fault> wrong_higher_rule() {
    int order = options_.order;
    for (const InputReport& input : report_.inputs)
      if (is_fault(input.verdict)) order = std::min(order, input.order);
    for (size_t i = made_.size(); i-- > 0;)
      if (auto found = check_operation(i, order); found && found->kind == Fault::Kind::rule)
        return found;
    return {};
  }

  // Checks one operation by itself, at the inputs that it had.
  std::optional<Fault> check_operation(size_t place, int order) {
    Tensors sources, values;
    GradCheckOptions options{.order = order,
                             .tolerance = options_.tolerance,
                             .step = options_.step,
                             .explain = false,
                             .key = options_.key};
    const Tensors in = inputs(place);
    for (size_t i = 0; i < in.size(); ++i) {
      const auto is_known = [&](const Tensor& known) { return known.same(in[i]); };
      if (!in[i] || !in[i].tracked() || std::any_of(sources.begin(), sources.end(), is_known))
        continue;
      if (!is_f64(in[i])) return {};
      sources.push_back(in[i]);
      values.push_back(in[i].detach());
      options.names.push_back(text("input ", i + 1));
    }
    if (!is_f64(made_[place].result)) return {};
    follows_ = false;
    const GradReport own = check_gradient(
        [&](const Tensors& given) { return operation(place, sources, given); }, values, options);
    std::optional<Fault> found;
    if (follows_) return found;
    for (const InputReport& input : own.inputs) {
      const bool is_wrong = is_fault(input.verdict) && input.order == order;
      if (!is_wrong && (found || input.verdict != Verdict::kink)) continue;
      found = blame(is_wrong ? Fault::Kind::rule : Fault::Kind::kink, place);
      found->order = input.order;
      found->own = input;
      if (is_wrong) break;
    }
    return found;
  }

  const WatchedFunction& f_;
  const GradCheckOptions& options_;
  const GradReport& report_;
  Tensors leaves_;
  std::vector<Recorded> made_;  // every recorded result, in order
  Tensors known_;               // these and the leaves
  // True if, in the operation being checked, an input without a gradient moves with one that has
  // one: differences then say nothing about its rule.
  bool follows_ = false;
  Tensor y_;
};

}  // namespace

std::optional<Fault> find_fault(const WatchedFunction& f, const Tensors& inputs,
                                const GradCheckOptions& options, const GradReport& report) {
  return Search(f, inputs, options, report).fault();
}

// Six digits say enough of a measured number.
static std::string six_digits(double number) { return number_text(number, 6); }

std::string Fault::sentence() const {
  if (kind == Kind::unsteady)
    return "the function does not repeat itself: two calls with the same inputs differ";
  const std::string what = operation.empty()
                               ? text("'", value, "'")
                               : text("operation '", operation, "' (", rule, ")",
                                      value.empty() ? "" : text(", computed for '", value, "'"),
                                      line.empty() ? "" : text(" in ", line));
  switch (kind) {
    case Kind::value:
      return text(what, ": its result is not finite, although all that it was given is");
    case Kind::gradient:
      return text(what, ": the gradient that it passes on is not finite, although all that it was ",
                  "given is");
    case Kind::unrecorded:
      return text(operation.empty() ? "" : "the result of ", what,
                  " reaches the end on a path that is not recorded (detach, or numbers taken out ",
                  "of a tensor), which no gradient comes back on");
    case Kind::kink:
      return text(what, " is at a kink, and no operation's rule is wrong");
    default:
      break;
  }
  return text(what, ": its own gradient rule is wrong", order > 1 ? text(" at order ", order) : "",
              ". By itself, at the inputs that it had, it says ", six_digits(own->worst.analytic),
              " for ", own->place(), " (shape ", own->shape, ")",
              own->worst.result.empty() ? "" : ", of " + own->result_place() + ",",
              " and differences say ", six_digits(own->worst.numeric));
}

}  // namespace tete
