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

// The operations that the function recorded, and runs of it with one of their results replaced.
class Recording {
 public:
  Recording(const WatchedFunction& f, const Tensors& inputs) : f_(f) {
    for (const Tensor& in : inputs)
      leaves_.push_back(in && is_real(in.dtype()) ? in.detach().variable() : in);
    known_ = leaves_;
    const RecordWatch watch([&](const Tensor& made) {
      results_.push_back(made), known_.push_back(made), names_.emplace_back();
      return made;
    });
    size_t from = 0, named = 0;
    y_ = f_(leaves_, [&](const std::string& name, const Tensor& value) {
      if (named < names_.size()) from = std::exchange(named, names_.size());
      const bool finite = !is_real(value.dtype()) || is_finite(value);
      for (size_t i = from; i < names_.size(); ++i) {
        if (names_[i].first.empty()) names_[i].first = name;
        if (!finite && names_[i].unsound.empty()) names_[i].unsound = name;
      }
    });
  }

  const Tensors& leaves() const { return leaves_; }
  const Tensors& results() const { return results_; }  // of all operations, in order
  const Tensor& y() const { return y_; }
  const Record& record(size_t place) const { return *results_[place].made_by(); }
  // The inputs of operation `place`, with storage also where its rule reads none.
  Tensors inputs(size_t place) const { return with_storage(record(place).inputs, known_); }

  bool shows_unsound(size_t place) const { return !names_[place].unsound.empty(); }
  Fault blame(FaultKind kind, size_t place) const {
    const auto& [first, unsound] = names_[place];
    return {.kind = kind,
            .operation = record(place).op,
            .rule = file_of(record(place).rule),
            .value = kind == FaultKind::value && !unsound.empty() ? unsound : first};
  }

  // Each run is watched, as the first was: for who looks, f may compute values once more.
  Tensor run(const Tensors& inputs) const {
    return f_(inputs, [](const std::string&, const Tensor&) {});
  }

  // The function's result if operation `place` had given `value`.
  Tensor with_result(size_t place, const Tensor& value) const {
    size_t count = 0;
    const RecordWatch watch(
        [&](const Tensor& made) { return count++ == place ? tracked(value) : made; });
    return run(leaves_);
  }

  bool repeats() const {
    size_t count = 0;
    const RecordWatch watch([&](const Tensor& made) {
      ++count;
      return made;
    });
    const Tensor again = run(leaves_);
    if (count != results_.size() || !(again.shape() == y_.shape())) return false;
    const Numbers a = y_.values<double>(), b = again.values<double>();
    return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
      return x == y || (std::isnan(x) && std::isnan(y));
    });
  }

 private:
  const WatchedFunction& f_;
  Tensors leaves_, results_;
  // The named value that a result was computed for: one operation may compute several, which are
  // shown one after the other. The first of them, and the first that is not finite.
  struct Named {
    std::string first = {}, unsound = {};
  };
  std::vector<Named> names_;  // by result
  Tensors known_;             // leaves and results
  Tensor y_;
};

// One recorded operation by itself, a function of those of its inputs that carry a gradient.
class Operation {
 public:
  Operation(const Recording& recording, size_t place)
      : recording_(recording), place_(place), inputs_(recording.inputs(place)) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& in = inputs_[i];
      const auto is_in = [&](const Tensor& known) { return known.same(in); };
      if (!in || !in.tracked() || std::any_of(sources_.begin(), sources_.end(), is_in)) continue;
      sources_.push_back(in);
      names_.push_back(text("input ", i + 1));
    }
  }

  // Checks it at the inputs that it had.
  std::optional<Fault> check(int order, const GradCheckOptions& all) {
    if (!std::all_of(sources_.begin(), sources_.end(), is_f64) ||
        !is_f64(recording_.results()[place_]))
      return {};
    Tensors values;
    for (const Tensor& source : sources_) values.push_back(source.detach());
    const GradCheckOptions options{.order = order,
                                   .tolerance = all.tolerance,
                                   .step = all.step,
                                   .explain = false,
                                   .key = all.key,
                                   .names = names_};
    const GradReport report =
        check_gradient([&](const Tensors& given) { return apply(given); }, values, options);
    if (follows_) return {};
    return fault_in(report, order);
  }

 private:
  // Computes it with `values` in the place of the sources. All operations before it return their
  // recorded results.
  Tensor apply(const Tensors& values) {
    const auto given = [&](const Tensor& recorded, const Tensor& otherwise) {
      for (size_t i = 0; i < sources_.size(); ++i)
        if (sources_[i].same(recorded)) return tracked(values[i]);
      return otherwise;
    };
    Tensor result;
    size_t count = 0;
    const RecordWatch watch([&](const Tensor& made) {
      const size_t at = count++;
      if (at == place_) result = made, follows_ = follows_ || !same_constants(made);
      if (at >= place_) return made;
      const Tensor& recorded = recording_.results()[at];
      return given(recorded, tracked(recorded.detach()));
    });
    Tensors inputs;
    for (const Tensor& leaf : recording_.leaves())
      inputs.push_back(leaf ? given(leaf, leaf) : leaf);
    try {
      recording_.run(inputs);
    } catch (const Error&) {
      if (!result) throw;  // otherwise a later operation failed
    }
    return result;
  }

  // True if the operation's inputs without a gradient have the numbers of the first run.
  bool same_constants(const Tensor& made) const {
    const Tensors now = made.made_by()->inputs;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i] && !inputs_[i].tracked() &&
          now[i].values<double>() != inputs_[i].values<double>())
        return false;
    return true;
  }

  // A wrong rule at this order, or else a kink.
  std::optional<Fault> fault_in(const GradReport& report, int order) const {
    std::optional<Fault> found;
    for (const InputReport& input : report.inputs) {
      const bool is_wrong = is_fault(input.verdict) && input.order == order;
      if (!is_wrong && (found || input.verdict != Verdict::kink)) continue;
      found = recording_.blame(is_wrong ? FaultKind::rule : FaultKind::kink, place_);
      found->order = input.order;
      found->own = input;
      if (is_wrong) break;
    }
    return found;
  }

  const Recording& recording_;
  size_t place_;
  Tensors inputs_, sources_;
  std::vector<std::string> names_;  // of the sources
  // True if an input without a gradient moves with one that has one: differences then say nothing
  // about the rule.
  bool follows_ = false;
};

class Search {
 public:
  Search(const WatchedFunction& f, const Tensors& inputs, const GradCheckOptions& options,
         const GradReport& report)
      : recording_(f, inputs), options_(options), report_(report) {}

  std::optional<Fault> fault() const {
    if (!recording_.repeats()) return Fault{.kind = FaultKind::unsteady};
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
  static bool is_sound(const Tensor& x) { return !x || !is_real(x.dtype()) || is_finite(x); }

  std::optional<Fault> not_finite() const {
    if (!is_finite(y_))
      if (const auto found = value_not_finite()) return found;
    return gradient_not_finite();
  }

  // Finds the first result that is not finite although its inputs are; rather one whose named value
  // shows it, as a result that goes on to be finite, e^-∞, does no harm.
  std::optional<Fault> value_not_finite() const {
    std::optional<Fault> first;
    for (size_t i = 0; i < made_.size(); ++i) {
      const Tensors in = recording_.inputs(i);
      if (is_finite(made_[i]) || !std::all_of(in.begin(), in.end(), is_sound)) continue;
      const bool is_shown = recording_.shows_unsound(i);
      if (is_shown || !first) first = recording_.blame(FaultKind::value, i);
      if (is_shown) break;
    }
    return first;
  }

  // Finds the same backwards, for gradients.
  std::optional<Fault> gradient_not_finite() const {
    if (!y_.tracked()) return {};
    const Tensors arrived = gradients_of_all();
    for (size_t i = made_.size(); i-- > 0;) {
      if (!arrived[i] || !is_finite(arrived[i])) continue;
      const Record& record = recording_.record(i);
      const Tensors in = recording_.inputs(i);
      const std::vector<bool> wanted(in.size(), true);
      const Tensors passed = record.vjp({in, record.kept, made_[i].detach(), arrived[i], wanted});
      if (!std::all_of(passed.begin(), passed.end(), is_sound))
        return recording_.blame(FaultKind::gradient, i);
    }
    return {};
  }

  Tensor cotangent() const {
    return random_normal(y_.shape(), options_.key.fold("fault"), Dtype::f64);
  }

  // The gradient that arrives at each recorded result; empty if none does.
  Tensors gradients_of_all() const {
    if (!y_.tracked()) return Tensors(made_.size());
    return grad(y_, made_, {.cotangent = cotangent()});
  }

  std::optional<Fault> wrong_rule() const {
    const Tensors arrived = gradients_of_all();
    const Numbers weights = cotangent().values<double>();
    for (size_t i = made_.size(); i-- > 0;)
      if (is_f64(made_[i]) && is_wrong(i, arrived[i], weights)) {
        if (auto found = wrong_rule_after(made_[i])) return found;
        return recording_.blame(FaultKind::unrecorded, i);
      }
    size_t checked = 0;  // reports are of the inputs that are real, in their order
    for (const Tensor& leaf : recording_.leaves()) {
      if (!leaf || !is_real(leaf.dtype())) continue;
      const InputReport& input = report_.inputs[checked++];
      if (!is_fault(input.verdict)) continue;
      if (auto found = wrong_rule_after(leaf)) return found;
      if (input.verdict != Verdict::noise)
        return Fault{.kind = FaultKind::unrecorded, .value = input.input};
    }
    return {};
  }

  // True if the gradient that arrived at a result is wrong.
  bool is_wrong(size_t place, const Tensor& arrived, const Numbers& weights) const {
    const Tensors value{made_[place].detach()};
    const Differences differences(
        [&](const Tensors& in) { return recording_.with_result(place, in[0]); }, value,
        options_.step);
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
  std::optional<Fault> wrong_rule_after(const Tensor& x) const {
    std::optional<Fault> kink;
    for (size_t i = made_.size(); i-- > 0;) {
      const Tensors in = recording_.inputs(i);
      if (std::none_of(in.begin(), in.end(),
                       [&](const Tensor& each) { return each && each.same(x); }))
        continue;
      std::optional<Fault> found = Operation(recording_, i).check(1, options_);
      if (found && found->kind == FaultKind::rule) return found;
      if (found) kink = std::move(found);
    }
    return kink;
  }

  std::optional<Fault> wrong_higher_rule() const {
    int order = options_.order;
    for (const InputReport& input : report_.inputs)
      if (is_fault(input.verdict)) order = std::min(order, input.order);
    for (size_t i = made_.size(); i-- > 0;)
      if (auto found = Operation(recording_, i).check(order, options_);
          found && found->kind == FaultKind::rule)
        return found;
    return {};
  }

  const Recording recording_;
  const GradCheckOptions& options_;
  const GradReport& report_;
  const Tensors& made_ = recording_.results();
  const Tensor& y_ = recording_.y();
};

}  // namespace

std::optional<Fault> find_fault(const WatchedFunction& f, const Tensors& inputs,
                                const GradCheckOptions& options, const GradReport& report) {
  return Search(f, inputs, options, report).fault();
}

// Six digits say enough of a measured number.
static std::string six_digits(double number) { return number_text(number, 6); }

std::string Fault::sentence() const {
  if (kind == FaultKind::unsteady)
    return "the function does not repeat itself: two calls with the same inputs differ";
  const std::string what = operation.empty()
                               ? text("'", value, "'")
                               : text("operation '", operation, "' (", rule, ")",
                                      value.empty() ? "" : text(", computed for '", value, "'"),
                                      line.empty() ? "" : text(" in ", line));
  switch (kind) {
    case FaultKind::value:
      return text(what, ": its result is not finite, although all that it was given is");
    case FaultKind::gradient:
      return text(what, ": the gradient that it passes on is not finite, although all that it was ",
                  "given is");
    case FaultKind::unrecorded:
      return text(operation.empty() ? "" : "the result of ", what,
                  " reaches the end on a path that is not recorded (detach, or numbers taken out ",
                  "of a tensor), which no gradient comes back on");
    case FaultKind::kink:
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
