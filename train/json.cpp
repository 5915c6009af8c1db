#include "train/json.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "core/utf8.hpp"

namespace tete {

using Json = nlohmann::ordered_json;

nlohmann::ordered_json parse_json(std::string_view text) {
  constexpr int deepest = 64;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (depth >= deepest && (event == Event::object_start || event == Event::array_start))
      bad_input("its values nest more than ", deepest, " deep");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second)
      bad_input("'", shortened(value.get<std::string>()), "' is set twice");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    const std::string said = error.what();  // "[json.exception…] parse error at line 2, …"
    bad_input("not JSON: ", said.substr(said.find("] ") + 2));
  }
}

nlohmann::ordered_json json_or_null(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace tete
