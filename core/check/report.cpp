// Prints the findings of a gradient check.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "core/check/gradcheck.hpp"

namespace tete {

namespace {

// "d_X=5, d_k=1": coordinates by the names of their dimensions, if those have names.
std::string named(const std::vector<Index>& at, const std::vector<std::string>& dims) {
  std::string all;
  for (size_t i = 0; i < at.size(); ++i) {
    if (i > 0) all += ", ";
    if (i < dims.size()) all += dims[i] + "=";
    all += text(at[i]);
  }
  return all.empty() ? "" : "[" + all + "]";
}

// "P_q[d_X=6, d_k=2, h_k=3]", with sizes instead of coordinates.
std::string with_shape(const InputReport& input) {
  return input.input +
         named(std::vector<Index>(input.shape.begin(), input.shape.end()), input.dims);
}

// printf's %g writes "-nan", too.
double plain(double x) { return std::isnan(x) ? std::fabs(x) : x; }

template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  char line[256];
  std::snprintf(line, sizeof line, format, arguments...);
  return line;
}

// How a verdict and its curve are told; by verdict.
struct Words {
  const char *verdict, *curve;
};
constexpr Words words[] = {
    {" is right", ""},
    {" is unreached", ""},
    {" is at a kink",
     "the slopes before and after differ however small the step, or the steps cross such a place: "
     "a kink, where no gradient is wrong"},
    {" cannot be told from noise",
     "the differences do not settle: too much noise to tell (is anything rounded to float32, or "
     "drawn at random?)"},
    {" is not finite", "the numbers are not finite"},
    {" is severed", "the result moves, but no gradient arrives: the path is severed"},
    {" is wrong", "the error stays as the step shrinks (a plateau): the gradient is wrong"},
};
const Words& words_of(Verdict verdict) { return words[static_cast<size_t>(verdict)]; }

// The input that is most clearly wrong. One is enough: a fault makes all inputs before it wrong.
const InputReport* worst_of(const GradReport& report) {
  const InputReport* worst = nullptr;
  for (const InputReport& input : report.inputs)
    if (!input.curve.points.empty() &&
        (!worst || std::pair(input.verdict, input.worst.error) >
                       std::pair(worst->verdict, worst->worst.error)))
      worst = &input;
  return worst;
}

void print_row(std::ostream& out, const InputReport& input, size_t width) {
  std::string name = with_shape(input);
  name.resize(std::max(width, name.size()), ' ');
  out << name
      << formatted("  %13.6g %13.6g %8.1e  %-10s ", plain(input.along.analytic),
                   plain(input.along.numeric), input.worst.error, name_of(input.verdict))
      << (input.compared > 0 ? input.place() : "nothing in it") << "\n";
}

void print_curve(std::ostream& out, const InputReport& input) {
  out << "\n" << input.input << words_of(input.verdict).verdict;
  if (input.order > 1) out << " at order " << input.order;
  out << ": at " << input.place();
  if (!input.worst.result.empty()) out << ", of " << input.result_place() << ",";
  out << " the gradient is " << formatted("%.9g", plain(input.worst.analytic))
      << ", differences say " << formatted("%.9g", plain(input.worst.numeric)) << "\n";
  if (input.kinks > 0) out << "    (" << input.kinks << " of " << input.compared << " at a kink)\n";
  out << "       step    difference        before         after     error\n";
  for (const CurvePoint& p : input.curve.points)
    out << formatted("    %7.0e %13.7g %13.7g %13.7g  %8.1e\n", p.step, p.numeric, p.before,
                     p.after, p.error);
  if (input.verdict == Verdict::severed || input.verdict == input.curve.verdict)
    out << "    " << words_of(input.verdict).curve << "\n";
}

}  // namespace

std::string InputReport::place() const {
  return worst.of_entry ? input + named(worst.entry, dims) : input + ", along a random direction";
}

std::string InputReport::result_place() const {
  return worst.result.empty() ? "" : "the result's " + named(worst.result, result_dims);
}

std::ostream& operator<<(std::ostream& out, const GradReport& report) {
  size_t width = 0;
  for (const InputReport& input : report.inputs) width = std::max(width, with_shape(input).size());
  int order = 0;
  for (const InputReport& input : report.inputs) {
    if (input.order != order) {
      order = input.order;
      std::string title = text("order ", order);
      title.resize(std::max(width, title.size()), ' ');
      out << title << "       analytic       numeric    error  verdict    worst entry\n";
    }
    print_row(out, input, width);
  }
  for (const InputReport& input : report.inputs)
    if (input.verdict == Verdict::unreached)
      out << input.input << " does not reach the result: nothing depends on it.\n";
  if (const InputReport* const worst = worst_of(report)) print_curve(out, *worst);
  if (report.fault) out << "\n" << report.fault->sentence() << ".\n";
  return out;
}

}  // namespace tete
