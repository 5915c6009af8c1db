#include "attention/against.hpp"

#include <algorithm>
#include <cmath>

#include "attention/against/guess.hpp"
#include "attention/against/precision.hpp"

namespace tete {

namespace {

bool share(const std::vector<int>& a, const std::vector<int>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

class Judge {
 public:
  explicit Judge(const Candidate& candidate)
      : candidate_(candidate), program_(*candidate_.program) {}

  AgainstReport report() {
    for (const Compared& c : candidate_.compared) judge(c);
    report_.unknown = candidate_.unknown;
    return std::move(report_);
  }

 private:
  // A mistake that was found, and the statements that may hold it.
  struct Mistake {
    const Compared& shown;  // the tensor that shows it
    std::string name;       // of that tensor
    std::vector<int> statements;
    Explanation explanation = {};
  };

  void judge(const Compared& c) {
    TensorReport row;
    row.name = (c.gradient ? "grad:" : "") + candidate_.name(c.value);
    row.value = c.value, row.gradient = c.gradient, row.shape = c.shape;
    Distance from_ours;
    if (c.fits()) from_ours = distance(c.theirs.values(), c.from_inputs.tensor.values(), c.ignored);
    row.from_ours = from_ours.farthest;
    const bool right = c.fits() && measure(c, row);
    const bool right_from_inputs = c.fits() && agrees_from_inputs(c, from_ours);
    if (!right_from_inputs && row.shape.empty()) row.cause = cause_of(c, right);
    if (!row.cause.empty()) row.verdict = TensorReport::Verdict::follows;
    else if (!row.shape.empty() || (!right && !right_from_inputs))
      row.verdict = TensorReport::Verdict::differs;
    if (row.verdict == TensorReport::Verdict::differs) blame(c, right, row);
    report_.tensors.push_back(std::move(row));
  }

  // Fills in the distance to the text's tensor from their operands. True if it is within tolerance.
  bool measure(const Compared& c, TensorReport& row) const {
    const std::vector<double> x = c.theirs.values(), y = c.from_operands.tensor.values();
    const Distance apart = distance(x, y, c.ignored), &allowed = c.from_operands.allowed;
    row.largest = largest_of(y);
    row.difference = apart.farthest, row.tolerance = allowed.farthest;
    row.rms = apart.rms, row.rms_tolerance = allowed.rms;
    if (x.empty()) return true;
    row.theirs = x[apart.at], row.text = y[apart.at];
    row.finite = std::isfinite(row.theirs) || !std::isfinite(row.text);
    row.entry = entry_name(program_, c.value, c.theirs.shape(), static_cast<Index>(apart.at));
    return apart.within(allowed);
  }

  bool agrees_from_inputs(const Compared& c, const Distance& from_ours) const {
    const Distance& allowed = c.from_inputs.allowed;
    // Behind a saturated softmax rounding explains anything: such an allowance acquits nobody.
    if (allowed.farthest > 0.1 * largest_of(c.from_inputs.tensor.values())) return false;
    if (from_ours.within(allowed)) return true;
    // In their code, an input under two names may be one tensor, whose gradient sums both uses.
    const int other = candidate_.renamed_argument(c.value);
    if (!c.gradient || other < 0 || other == c.value) return false;
    const Tensor both = replay(candidate_, {other}, true, From::inputs)[0];
    return distance(c.theirs.values(), both.values(), {}).within(allowed);
  }

  void blame(const Compared& c, bool right, TensorReport& row) {
    if (report_.first < 0) report_.first = static_cast<int>(report_.tensors.size());
    Mistake mistake{c, row.name, unseen(c)};
    if (!c.gradient) row.unseen = mistake.statements;
    if (c.fits() && !right) mistake.explanation = explain(candidate_, c);
    row.guess = mistake.explanation.guess;
    if (row.guess.statement >= 0) mistake.statements = {row.guess.statement};
    mistakes_.push_back(std::move(mistake));
  }

  // The statements that may hold the mistake and whose own result or gradient was not given.
  std::vector<int> unseen(const Compared& c) const {
    std::vector<int> statements = c.statements;
    std::erase_if(statements, [&](int s) {
      return c.gradient ? s == program_.result || candidate_.gradients.contains(s)
                        : s == c.value || is_in_file(s);
    });
    return statements;
  }
  // True if their file has the value, by its own name (which several values may have) or by the
  // name of the value that it renames.
  bool is_in_file(int s) const {
    for (;; s = candidate_.value(s).index) {
      for (const auto& [number, x] : candidate_.values)
        if (candidate_.name(number) == candidate_.name(s)) return true;
      if (candidate_.is_argument(s)) return true;
      if (candidate_.value(s).kind != ValueKind::same) return false;
    }
  }

  // The name of a tensor that showed a mistake before, if c is wrong because of that mistake; or
  // "".
  std::string cause_of(const Compared& c, bool right) const {
    for (const Mistake& mistake : mistakes_)
      if (right ? leads_to(mistake, c) : accounts_for(mistake, c)) return mistake.name;
    return "";
  }
  bool leads_to(const Mistake& mistake, const Compared& c) const {
    std::vector<bool> made = candidate_.marked({mistake.shown.value});
    mark_results(program_, made);
    return c.gradient || made[c.value];
  }
  // True if one mistake makes both tensors wrong: its explanation gives this one's numbers too, or
  // both are computed by statements of which nothing more is known.
  bool accounts_for(const Mistake& mistake, const Compared& c) const {
    if (!c.fits()) return false;
    const auto& [guess, change] = mistake.explanation;
    if (!guess.sentence.empty() && reproduces(candidate_, c, change)) return true;
    if (c.gradient && !mistake.shown.gradient)
      return c.value == mistake.shown.value || share(c.statements, {mistake.shown.value}) ||
             share(c.statements, mistake.statements);
    return guess.sentence.empty() && share(mistake.statements, unseen(c));
  }

  const Candidate& candidate_;
  const Checked& program_;
  AgainstReport report_;
  std::vector<Mistake> mistakes_;
};

}  // namespace

AgainstReport check_against(std::shared_ptr<const Checked> program, const TensorsByName& theirs,
                            const AgainstOptions& options) {
  Candidate candidate = read_candidate(std::move(program), theirs, options);
  const char* const precision = expect(candidate, options.tolerance);
  AgainstReport report = Judge(candidate).report();
  report.precision = precision;
  return report;
}

std::string axis_name(const Checked& program, int value, int rank, int axis) {
  const CheckedValue& v = program.values[value];
  const int batch = rank - v.dims.size();
  if (axis < batch) return batch == 1 ? "batch" : text("batch", axis);
  return program.dimensions[v.dims[axis - batch]].short_name();
}

std::string entry_name(const Checked& program, int value, const Shape& shape, Index number) {
  const CheckedValue& v = program.values[value];
  const Strides strides = row_major(shape);
  const auto index = [&](int axis) {
    return text(axis_name(program, value, shape.size(), axis), "=",
                number / strides[axis] % shape[axis]);
  };
  return v.name + "[" + list_of(all_axes(shape.size()), index) + "]";
}

}  // namespace tete
