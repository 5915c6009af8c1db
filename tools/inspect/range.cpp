#include "tools/inspect/range.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tete {

std::string digits(double x, const char* how) {
  char out[32];
  std::snprintf(out, sizeof out, how, x);
  return out;
}

std::string ink_on(const Rgb& colour) {
  return colour[0] * 0.299 + colour[1] * 0.587 + colour[2] * 0.114 > 140 ? "#191c22" : "#ffffff";
}

Rgb Range::colour(double value) const {
  const auto bend = [this](double x) { return bent ? std::sqrt(x) : x; };
  if (!is_signed())
    return colour_at(Scale::amount, high > low ? bend((value - low) / (high - low)) : 0);
  const double size = std::max(-low, high);
  return colour_at(Scale::sign,
                   0.5 + 0.5 * std::copysign(bend(std::min(1.0, std::abs(value) / size)), value));
}

void draw_scale(Svg& svg, const Range& range, double x, double y, double width) {
  constexpr int cells = 64;
  for (int i = 0; i < cells; ++i)
    svg.rect({x + width * i / cells, y, width / cells + 0.5, 8},
             hex(range.colour(range.low + (range.high - range.low) * (i + 0.5) / cells)));
  svg.word(x, y + 21, digits(range.low), Svg::At::start, 11, faint);
  if (range.is_signed())
    svg.word(x - width * range.low / (range.high - range.low), y + 21, "0", Svg::At::middle, 11,
             faint);
  svg.word(x + width, y + 21, digits(range.high), Svg::At::end, 11, faint);
}

}  // namespace tete
