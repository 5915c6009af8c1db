// Colour scales that lightness alone tells apart, so that colour-blind people and grey prints keep
// the order: for amounts (from the paper's colour on), and for values of both signs.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tete {

using Rgb = std::array<uint8_t, 3>;

enum class Scale { amount, sign };

// The colour at 0 … 1 of a scale, on light paper. Of signs, ½ is zero.
Rgb colour_at(Scale scale, double at);
std::string hex(const Rgb& colour);

// {"light": {"amount": ["#fbfaf7", …], "sign": […]}, "dark": …}: colours at equal distances,
// between which one goes in straight lines; and "heads", a colour for each head.
nlohmann::ordered_json scales_json();
// The colour of a head; after the last they begin again.
std::string head_colour(size_t head);

}  // namespace tete
