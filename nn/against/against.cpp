#include "nn/against.hpp"

#include <algorithm>
#include <cmath>

#include "nn/against/guess.hpp"
#include "nn/against/precision.hpp"

namespace tete {

namespace {

using Verdict = TensorReport::Verdict;

bool share(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int i) { return std::find(b.begin(), b.end(), i) != b.end(); });
}

class Judge {
 public:
  explicit Judge(const Recorded& recorded)
      : recorded_(recorded), candidate_(recorded.candidate), program_(*candidate_.program) {}

  std::vector<TensorReport> rows() {
    for (const Compared& c : recorded_.compared) judge(c);
    return std::move(rows_);
  }

 private:
  // A mistake that was found, and the statements that may hold it.
  struct Mistake {
    std::string tensor;  // the name of the tensor that shows it
    int value;
    bool gradient;
    std::vector<int> statements;
    Explanation explanation;
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
    if (!row.cause.empty()) row.verdict = Verdict::follows;
    else if (!row.shape.empty() || (!right && !right_from_inputs)) row.verdict = Verdict::differs;
    if (row.verdict == Verdict::differs) blame(c, right, row);
    rows_.push_back(std::move(row));
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
    const Tensor both = replay_gradients(candidate_, {other}, From::inputs)[0];
    return distance(c.theirs.values(), both.values(), {}).within(allowed);
  }

  void blame(const Compared& c, bool right, TensorReport& row) {
    Mistake mistake{row.name, c.value, c.gradient, unseen(c), {}};
    if (!c.gradient) row.unseen = mistake.statements;
    if (c.fits() && !right) mistake.explanation = explain(candidate_, c);
    const Explanation& found = mistake.explanation;
    row.guess = {found.sentence, found.statement, found.gave_up};
    if (found.statement >= 0) mistake.statements = {found.statement};
    mistakes_.push_back(std::move(mistake));
  }

  // The statements that may hold the mistake and whose own result or gradient was not given.
  std::vector<int> unseen(const Compared& c) const {
    std::vector<int> statements =
        c.gradient ? statements_from(candidate_, c.value) : statements_to(candidate_, c.value);
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
      if (candidate_.value(s).kind != CheckedValue::Kind::same) return false;
    }
  }

  // The name of a tensor that showed a mistake before, if c is wrong because of that mistake; or
  // "".
  std::string cause_of(const Compared& c, bool right) const {
    for (const Mistake& mistake : mistakes_)
      if (right ? leads_to(mistake, c) : accounts_for(mistake, c)) return mistake.tensor;
    return "";
  }
  bool leads_to(const Mistake& mistake, const Compared& c) const {
    return c.gradient || depends(c.value, mistake.value);
  }
  // True if one mistake makes both tensors wrong: its explanation gives this one's numbers too, or
  // both are computed by statements of which nothing more is known.
  bool accounts_for(const Mistake& mistake, const Compared& c) const {
    if (!c.fits()) return false;
    const Explanation& found = mistake.explanation;
    if (!found.sentence.empty() && reproduces(candidate_, c, found.change)) return true;
    if (c.gradient && !mistake.gradient) {
      const std::vector<int> through = statements_from(candidate_, c.value);
      return c.value == mistake.value || share(through, {mistake.value}) ||
             share(through, mistake.statements);
    }
    return found.sentence.empty() && share(mistake.statements, unseen(c));
  }
  bool depends(int i, int on) const {
    std::vector<bool> made(static_cast<size_t>(candidate_.count()));
    made[on] = true;
    mark_results(program_, made);
    return made[i];
  }

  const Recorded& recorded_;
  const Candidate& candidate_;
  const Checked& program_;
  std::vector<TensorReport> rows_;
  std::vector<Mistake> mistakes_;
};

}  // namespace

AgainstReport check_against(std::shared_ptr<const Checked> program, const TensorsByName& theirs,
                            const AgainstOptions& options) {
  Recorded recorded = read_candidate(std::move(program), theirs, options);
  AgainstReport report;
  report.unknown = recorded.unknown;
  report.precision = expect(recorded, options.tolerance);
  report.tensors = Judge(recorded).rows();
  const auto first =
      std::find_if(report.tensors.begin(), report.tensors.end(),
                   [](const TensorReport& row) { return row.verdict == Verdict::differs; });
  if (first != report.tensors.end())
    report.first = static_cast<int>(first - report.tensors.begin());
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
  std::string all;
  for (int axis = 0; axis < shape.size(); ++axis)
    all += text(axis > 0 ? ", " : "", axis_name(program, value, shape.size(), axis), "=",
                number / strides[axis] % shape[axis]);
  return v.name + "[" + all + "]";
}

}  // namespace tete
