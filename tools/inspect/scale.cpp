#include "tools/inspect/scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

namespace tete {

namespace {

using Colours = std::span<const char* const>;

const char* const light_amount[] = {"#fdfcf9", "#e3edf4", "#bcd7e8", "#8abbd8", "#569bc4",
                                    "#3478ac", "#265690", "#1d376e", "#141b46"};
const char* const dark_amount[] = {"#15181e", "#221f45", "#432a6f", "#6d2f83", "#9c3a82",
                                   "#cb4d72", "#ee7561", "#fbae6f", "#fdeeb5"};
// Blue below zero, orange above.
const char* const light_sign[] = {"#0b3c6f", "#2f72ae", "#79add6", "#c3dcec", "#fdfcf9",
                                  "#f9d6b0", "#ec9c55", "#c0601b", "#7a3306"};
const char* const dark_sign[] = {"#b9e2ff", "#62b1ea", "#2f77b2", "#1f4468", "#15181e",
                                 "#5c3a1c", "#a8612a", "#e8964b", "#ffdcae"};
// Okabe and Ito's, without yellow and black, and two more that keep apart on either paper.
const char* const heads[] = {"#0f7fc4", "#e08a00", "#0a9d76", "#d1569c",
                             "#43a6d8", "#d1530a", "#8b73d6", "#8a8577"};

Colours colours(Scale scale, bool dark) {
  if (scale == Scale::amount) return dark ? Colours(dark_amount) : Colours(light_amount);
  return dark ? Colours(dark_sign) : Colours(light_sign);
}

Rgb parsed(const char* colour) {
  const auto number = std::stoul(colour + 1, nullptr, 16);
  return {static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8),
          static_cast<uint8_t>(number)};
}

}  // namespace

Rgb colour_at(Scale scale, double at) {
  const Colours stops = colours(scale, false);
  const double place = std::clamp(at, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const size_t below = std::min(static_cast<size_t>(place), stops.size() - 2);
  const Rgb a = parsed(stops[below]), b = parsed(stops[below + 1]);
  Rgb out{};
  for (size_t i = 0; i < 3; ++i)
    out[i] = static_cast<uint8_t>(std::lround(a[i] + (place - below) * (b[i] - a[i])));
  return out;
}

std::string hex(const Rgb& colour) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "#%02x%02x%02x", colour[0], colour[1], colour[2]);
  return digits;
}

nlohmann::ordered_json scales_json() {
  nlohmann::ordered_json json;
  for (const bool dark : {false, true}) {
    nlohmann::ordered_json& theme = json[dark ? "dark" : "light"];
    for (const Scale scale : {Scale::amount, Scale::sign}) {
      const Colours stops = colours(scale, dark);
      theme[scale == Scale::amount ? "amount" : "sign"] =
          std::vector<std::string>(stops.begin(), stops.end());
    }
  }
  json["heads"] = heads;
  return json;
}

std::string head_colour(size_t head) { return heads[head % std::size(heads)]; }

}  // namespace tete
