#include "tools/inspect/levels.hpp"

#include <algorithm>
#include <cmath>

namespace tete {

namespace {

bool is_half(const AttentionMap& map, bool causal) {
  return causal && map.row_tokens && map.column_tokens && map.values.size(1) == map.values.size(2);
}

// The visible entries of a map, in its order.
std::vector<double> seen(const AttentionMap& map, bool half) {
  std::vector<double> values = map.values.values();
  if (!half) return values;
  const Index n = map.values.size(1);
  Index kept = 0;
  for (Index i = 0; i < map.values.size(); ++i)
    if (i % n <= i / n % n) values[kept++] = values[i];
  values.resize(static_cast<size_t>(kept));
  return values;
}

// Steps that give numbers about four digits, if they are fine enough for that and few enough.
void take_decimal_steps(Levels& levels) {
  constexpr double most = 20000;
  int decimals = 9;
  while (decimals >= 0 && (levels.high - levels.low) * std::pow(10, decimals) > most) --decimals;
  if (decimals < 0) return;
  levels.decimals = decimals;
  levels.step = std::pow(10, -decimals);
  levels.origin = std::floor(levels.low * std::pow(10, decimals)) / std::pow(10, decimals);
}

uint16_t level_of(double value, const Levels& levels) {
  if (!std::isfinite(value)) return static_cast<uint16_t>(levels.top());
  if (!levels.decimals)
    return static_cast<uint16_t>(
        levels.step > 0 ? std::lround((value - levels.origin) / levels.step) : 0);
  // Rounded as it would be printed, and only then counted from the origin.
  const double scale = std::pow(10, *levels.decimals);
  return static_cast<uint16_t>(std::lround(value * scale) - std::lround(levels.origin * scale));
}

}  // namespace

Levels levels_of(const AttentionMap& map, bool causal, int bits) {
  Levels out{.bits = bits, .half = is_half(map, causal)};
  const std::vector<double> values = seen(map, out.half);
  bool any = map.weights;
  for (double value : values) {
    if (!std::isfinite(value)) continue;
    out.low = any ? std::min(out.low, value) : value;
    out.high = any ? std::max(out.high, value) : value;
    any = true;
  }
  out.origin = out.low;
  out.step = (out.high - out.low) / (out.top() - 1);
  if (bits == 16) take_decimal_steps(out);
  out.levels.reserve(values.size());
  for (double value : values) out.levels.push_back(level_of(value, out));
  return out;
}

Index level_count(const AttentionMap& map, bool causal) {
  if (!is_half(map, causal)) return map.values.size();
  const Index n = map.values.size(1);
  return map.values.size(0) * n * (n + 1) / 2;
}

std::string bytes_of(const Levels& levels) {
  std::string bytes;
  bytes.reserve(levels.levels.size() * static_cast<size_t>(levels.bits / 8));
  for (uint16_t level : levels.levels) {
    bytes += static_cast<char>(level & 0xFF);
    if (levels.bits == 16) bytes += static_cast<char>(level >> 8);
  }
  return bytes;
}

std::string base64(std::string_view bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j)
      out += i + j <= bytes.size() ? digits[three >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace tete
