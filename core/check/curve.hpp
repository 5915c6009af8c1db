// The slope of a function of one number at 0, by differences with steps of many sizes. One step
// cannot tell a wrong gradient from a kink, nor either from noise; the curve of the errors can.
#pragma once
#include <functional>
#include <vector>

namespace tete {

enum class Verdict {
  right,       // the error falls with the step until rounding takes over: a V
  unreached,   // nothing depends on it, and the gradient says so
  kink,        // the slopes before and after stay apart, or part where the steps cross a kink
  noise,       // the differences do not settle
  not_finite,  // NaN or infinity
  severed,     // no gradient arrived, although the result moves
  wrong,       // the error stays as the step shrinks: a plateau
};
const char* name_of(Verdict verdict);  // "not finite"
// True if a check fails with this verdict. At a kink there is no gradient to be wrong.
constexpr bool is_fault(Verdict verdict) { return verdict >= Verdict::noise; }

struct CurvePoint {
  double step = 0;
  double numeric = 0;            // the central difference
  double before = 0, after = 0;  // the one-sided ones
  double error = 0;              // of the gradient against the central difference, relative
};

struct ErrorCurve {
  std::vector<CurvePoint> points;  // the largest step first
  Verdict verdict = Verdict::right;
  double numeric = 0, error = 0;  // at the neighbouring steps that agree best
};

struct CurveQuestion {
  double analytic = 0;  // the slope that is claimed
  double size = 1;      // errors are relative to the larger of this and the slope
  // The curve goes from a hundred times this to a thousandth of it, and as far as a hundredth of
  // that while its slopes still settle.
  double step = 1e-4;
  double tolerance = 0;   // the largest relative error that passes
  double rounding = 0;    // the size of an error in a difference, before it is divided by the step
  bool one_kink = false;  // at a kink, a slope outside of the one-sided ones is wrong
};
// rise(a, b) is the function at b less the function at a.
ErrorCurve trace(const std::function<double(double from, double to)>& rise,
                 const CurveQuestion& question);

}  // namespace tete
