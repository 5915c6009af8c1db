#include "core/check/curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tete {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class Judge {
 public:
  Judge(ErrorCurve& curve, const CurveQuestion& question) : curve_(curve), question_(question) {
    for (const CurvePoint& p : curve.points)
      if (std::isfinite(p.numeric) && std::isfinite(p.before) && std::isfinite(p.after))
        points_.push_back(p);
  }

  Verdict verdict() {
    if (!std::isfinite(question_.analytic) || points_.size() < 3) return Verdict::not_finite;
    const Estimates plain = estimates(), finer = extrapolated();
    settle(plain), settle(finer);
    if (is_right(plain) || is_right(finer))
      return crosses_a_kink() ? Verdict::kink : Verdict::right;
    if (is_at_a_kink()) return Verdict::kink;
    return curve_.error > 5 * spread_ + question_.tolerance ? Verdict::wrong : Verdict::noise;
  }

 private:
  struct Estimate {
    double numeric, error;
  };
  using Estimates = std::vector<Estimate>;  // the largest step first

  double size(double slope) const { return std::max(std::fabs(slope), question_.size); }
  static double jump(const CurvePoint& p) { return std::fabs(p.after - p.before); }

  Estimates estimates() const {
    Estimates all;
    for (const CurvePoint& p : points_) all.push_back({p.numeric, p.error});
    return all;
  }

  // Without the error O(h²) that the slopes of two neighbouring steps share (Richardson). Where the
  // function is smooth but turns within a step, as a norm of two numbers that are nearly equal, the
  // plain slopes come near enough at the smallest step only.
  Estimates extrapolated() const {
    Estimates all;
    for (size_t i = 0; i + 1 < points_.size(); ++i) {
      const CurvePoint &wide = points_[i], &narrow = points_[i + 1];
      const double ratio = std::pow(wide.step / narrow.step, 2);
      const double numeric = (ratio * narrow.numeric - wide.numeric) / (ratio - 1);
      all.push_back({numeric, std::fabs(question_.analytic - numeric) / size(numeric)});
    }
    return all;
  }

  // Takes the slope from the three neighbouring steps that agree best. Two may agree by chance.
  void settle(const Estimates& all) {
    for (size_t i = 0; i + 2 < all.size(); ++i) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(i);
      const auto [low, high] = std::minmax_element(
          first, first + 3,
          [](const Estimate& a, const Estimate& b) { return a.numeric < b.numeric; });
      const double apart = (high->numeric - low->numeric) / size(low->numeric);
      if (!(apart < spread_)) continue;
      spread_ = apart;
      const Estimate& nearest = *std::min_element(
          first, first + 3, [](const Estimate& a, const Estimate& b) { return a.error < b.error; });
      curve_.numeric = nearest.numeric, curve_.error = nearest.error;
    }
  }

  // One step may hit by chance, two in a row do not.
  bool is_right(const Estimates& all) {
    for (size_t i = 0; i + 1 < all.size(); ++i)
      if (all[i].error <= question_.tolerance && all[i + 1].error <= question_.tolerance) {
        right_from_ = i;
        return true;
      }
    return false;
  }

  // True if some larger step crosses a kink. On a smooth function the one-sided slopes differ about
  // ten times as much for a step ten times as large.
  bool crosses_a_kink() const {
    for (size_t i = 0; i < right_from_; ++i)
      if (jump(points_[i]) > 30 * jump(points_[i + 1]) &&
          jump(points_[i]) > question_.tolerance * size(points_[i].numeric))
        return true;
    return false;
  }

  // True if the one-sided slopes differ by as much however small the step (a kink), or in
  // proportion to its inverse (the function itself jumps). Looks at the three smallest steps at
  // which rounding does not hide the difference.
  bool is_at_a_kink() const {
    size_t last = points_.size();
    const auto blurred = [&](const CurvePoint& p) {
      return jump(p) * p.step < 100 * question_.rounding ||
             jump(p) < question_.tolerance * size(p.numeric);
    };
    while (last > 0 && blurred(points_[last - 1])) --last;
    if (last < 3) return false;
    bool apart = true, jumps = true;
    for (size_t i = last - 2; i < last; ++i) {
      const double grown = jump(points_[i]) / jump(points_[i - 1]);
      apart = apart && grown > 0.5 && grown < 2;
      jumps = jumps && std::fabs(grown - points_[i - 1].step / points_[i].step) < 0.1;
    }
    return jumps || (apart && is_between(points_[last - 1]));
  }

  bool is_between(const CurvePoint& p) const {
    const double slack = question_.tolerance * size(p.numeric) + jump(p) / 100;
    return !question_.one_kink || (question_.analytic >= std::min(p.before, p.after) - slack &&
                                   question_.analytic <= std::max(p.before, p.after) + slack);
  }

  ErrorCurve& curve_;
  const CurveQuestion& question_;
  std::vector<CurvePoint> points_;  // the finite ones
  double spread_ = infinity;
  size_t right_from_ = 0;
};

}  // namespace

const char* name_of(Verdict verdict) {
  static constexpr const char* names[] = {"right",      "unreached", "kink", "noise",
                                          "not finite", "severed",   "wrong"};
  return names[static_cast<int>(verdict)];
}

namespace {

CurvePoint point_at(double step, const std::function<double(double, double)>& rise,
                    const CurveQuestion& question) {
  CurvePoint p;
  p.step = step;
  p.after = rise(0, p.step) / p.step;
  p.before = rise(-p.step, 0) / p.step;
  p.numeric = (p.after + p.before) / 2;
  p.error =
      std::fabs(question.analytic - p.numeric) / std::max(std::fabs(p.numeric), question.size);
  if (std::isnan(p.error)) p.error = infinity;
  return p;
}

// True if the slopes still come nearer to each other as O(h²) at the smallest steps, which rounding
// would end.
bool still_settles(const std::vector<CurvePoint>& points) {
  const auto last = points.end();
  const double before = std::fabs(last[-3].numeric - last[-2].numeric);
  return before > 30 * std::fabs(last[-2].numeric - last[-1].numeric);
}

}  // namespace

ErrorCurve trace(const std::function<double(double, double)>& rise, const CurveQuestion& question) {
  ErrorCurve curve;
  curve.numeric = std::numeric_limits<double>::quiet_NaN(), curve.error = infinity;
  for (double factor : {1e2, 1e1, 1e0, 1e-1, 1e-2, 1e-3})
    curve.points.push_back(point_at(question.step * factor, rise, question));
  curve.verdict = Judge(curve, question).verdict();
  for (double factor : {1e-4, 1e-5}) {
    if (curve.verdict != Verdict::noise || !still_settles(curve.points)) break;
    curve.points.push_back(point_at(question.step * factor, rise, question));
    curve.verdict = Judge(curve, question).verdict();
  }
  return curve;
}

}  // namespace tete
