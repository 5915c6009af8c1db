// Range: from which value to which the colours of a picture go.
#pragma once
#include "tools/inspect/svg.hpp"

namespace tete {

// What is written beside a picture, and the lines between its parts.
inline const std::string faint = "#6a6c72", edge = "#dedacf";

// "0.123", or as printf's `how` says.
std::string digits(double x, const char* how = "%.3g");
// Black or white, whichever reads better on a colour.
std::string ink_on(const Rgb& colour);

// Amounts go from low to high, values of both signs from zero on.
struct Range {
  double low, high;
  bool bent;  // amounts and signs go with their square roots, so that small ones are seen
  bool is_signed() const { return low < 0 && high > 0; }
  Rgb colour(double value) const;
};

// The scale as a bar, with its ends.
void draw_scale(Svg& svg, const Range& range, double x, double y, double width);

}  // namespace tete
