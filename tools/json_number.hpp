// Numbers in JSON, which has no infinity and no NaN.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace tete {

// null where the number is not finite.
inline nlohmann::ordered_json json_number(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json();
}

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

}  // namespace tete
