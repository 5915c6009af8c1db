#include "attention/against/replay.hpp"

#include <algorithm>
#include <cmath>

namespace tete {

namespace {

Tensor shaken(const Tensor& x, double unit, Key key) {
  if (unit == 0) return x;
  return x * (1.0 + (random_uniform(x.shape(), key, Dtype::f64) * 2.0 - 1.0) * unit);
}

RunOptions options_of(const Candidate& candidate, const Change& change) {
  RunOptions options = candidate.options;
  if (change.mask) options.mask = *change.mask;
  return options;
}

TensorsByName arguments_of(const Candidate& candidate, const Rounding& rounding, bool tracked) {
  TensorsByName all = candidate.arguments;
  for (auto& [name, x] : all) {
    if (!is_real(x.dtype())) continue;
    x = shaken(x, rounding.unit, rounding.key.fold(name));
    if (tracked) x = x.variable();
  }
  return all;
}

// Another name for a value: L[n, m] = J[n, m].
bool is_alias(const CheckedValue& value) {
  return value.kind == ValueKind::same || value.right.kind == NodeKind::value;
}

// A softmax's gradient, W (gW - Σ W gW), is a difference of two numbers that are almost equal if
// one weight is near 1. Their rounding errors are of their own size, not of the difference's, and
// rounding of values does not show them. So x gets a term that is 0 and whose gradient is W gW
// times at most `unit`.
Tensor with_rounded_backward(Tensor x, const CheckedValue& value, Evaluation& run, double unit,
                             Key key) {
  if (unit == 0 || !calls(value.right, "softmax")) return x;
  const Tensor rounding = shaken(x.detach(), unit, key) - x.detach();
  for (int used : value.uses) {
    const Tensor logits = run.value(used);
    if (logits.tracked() && logits.shape() == x.shape())
      x = x + rounding * (logits - logits.detach());
  }
  return x;
}

class Replay {
 public:
  Replay(const Candidate& candidate, From from, const Change& change, const Rounding& rounding,
         bool tracked)
      : candidate_(candidate),
        from_(from),
        change_(change),
        rounding_(rounding),
        program_(change.program ? change.program : candidate.program),
        arguments_(arguments_of(candidate, rounding, tracked)),
        run_(program_, arguments_, options_of(candidate, change)) {}

  Tensors values(const std::vector<int>& of) {
    Tensors found(of.size());
    const std::vector<bool> asked = candidate_.marked(of);
    std::vector<bool> needed = asked;
    mark_sources(*candidate_.program, needed, [&](int i) { return given(i) && !asked[i]; });
    for (int i = 0; i < candidate_.count(); ++i) {
      if (!needed[i]) continue;
      if (asked[i])
        found[std::find(of.begin(), of.end(), i) - of.begin()] = as_asked(seen(i, computed(i)));
      place(i, rounded(i, placed(i)));
    }
    return found;
  }

  Tensors gradients(const std::vector<int>& of) {
    const std::vector<bool> asked = candidate_.marked(of);
    std::vector<bool> reached = asked;
    mark_results(*candidate_.program, reached, [&](int i) { return is_cut(i) && !asked[i]; });
    leaves_.resize(reached.size());
    for (int i = 0; i < candidate_.count(); ++i) {
      if (reached[i]) pass(i);
      else if (given(i) || rounding_.unit > 0 || change_.value == i)
        place(i, rounded(i, placed(i)));
    }
    Tensors xs;
    for (int i : of) xs.push_back(leaves_[i]);
    Tensors found = objective_ && objective_.tracked() ? grad(objective_, xs) : Tensors(xs.size());
    for (size_t i = 0; i < of.size(); ++i)
      found[i] = as_asked(found[i] ? found[i] : Tensor::zeros(xs[i].shape(), Dtype::f64));
    return found;
  }

 private:
  const CheckedValue& value(int i) const { return candidate_.value(i); }
  bool given(int i) const { return from_ == From::operands && candidate_.values.contains(i); }
  // True if backward starts at value i.
  bool is_cut(int i) const {
    return from_ == From::operands ? candidate_.cuts_backward(i) : i == program_->result;
  }

  // Arguments were rounded before the run.
  Tensor rounded(int i, const Tensor& x) const {
    return value(i).element == Element::real && !candidate_.is_argument(i)
               ? shaken(x, rounding_.unit, rounding_.key.fold(static_cast<uint64_t>(i)))
               : x;
  }
  Tensor seen(int i, const Tensor& x) const {
    return change_.value == i && change_.seen_as ? change_.seen_as(x) : x;
  }
  Tensor as_asked(const Tensor& x) const { return change_.result_as ? change_.result_as(x) : x; }
  Tensor computed(int i) {
    const int operand = change_.value == i ? change_.detached : -1;
    if (operand < 0) return run_.value(i);
    const Tensor x = run_.value(operand);
    run_.set(operand, x.detach());
    const Tensor y = run_.value(i);
    run_.set(operand, x);
    return y;
  }
  // The value that others are computed from.
  Tensor placed(int i) { return given(i) ? candidate_.values.at(i) : computed(i); }
  void place(int i, const Tensor& x) {
    if (!candidate_.is_argument(i) || change_.value == i) run_.set(i, seen(i, x));
  }

  // Records a value between those asked for and the gradients that backward starts from.
  void pass(int i) {
    const auto at = static_cast<size_t>(i);
    const Key key = rounding_.key.fold("backward").fold(at);
    Tensor x = with_rounded_backward(computed(i), value(i), run_, rounding_.unit, key);
    if (is_cut(i)) add(i, x);
    if (candidate_.is_argument(i)) {
      leaves_[at] = arguments_.at(candidate_.name(i));
    } else if (is_cut(i) && from_ == From::operands) {
      x = rounded(i, given(i) ? candidate_.values.at(i) : x.detach()).variable();
      leaves_[at] = x;
    } else {
      if (given(i)) x = x + (candidate_.values.at(i) - x.detach());
      x = rounded(i, x);
      // A node of its own, so that the gradient is of this name's uses only.
      if (is_alias(value(i))) x = x * 1.0;
      leaves_[at] = x;
    }
    place(i, x);
  }

  void add(int i, const Tensor& x) {
    if (!x.tracked()) return;
    const Key key = rounding_.key.fold("gradient").fold(static_cast<uint64_t>(i));
    const Tensor part = sum(x * shaken(candidate_.gradients.at(i), rounding_.unit, key));
    objective_ = objective_ ? objective_ + part : part;
  }

  const Candidate& candidate_;
  From from_;
  const Change& change_;
  const Rounding& rounding_;
  std::shared_ptr<const Checked> program_;
  TensorsByName arguments_;
  Evaluation run_;
  Tensors leaves_;
  Tensor objective_;
};

}  // namespace

Tensors replay(const Candidate& candidate, const std::vector<int>& of, bool gradients, From from,
               const Change& change, const Rounding& rounding) {
  Replay replay(candidate, from, change, rounding, gradients);
  return gradients ? replay.gradients(of) : replay.values(of);
}

}  // namespace tete
