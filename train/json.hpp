// JSON that anyone may have written: files of a run, metadata of a checkpoint.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tete {

// The value of a text. Fails (input) on a text that is not JSON, on values that nest more than 64
// deep, as copying and printing a value takes stack for each level, and on a key that an object has
// twice.
nlohmann::ordered_json parse_json(std::string_view text);
// The same, and null where that fails.
nlohmann::ordered_json json_or_null(std::string_view text);

}  // namespace tete
