// Numbers in JSON, which has no infinity and no NaN.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>

namespace tete {

// null where the number is not finite.
inline nlohmann::ordered_json json_number(double x) {
  return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json();
}

}  // namespace tete
