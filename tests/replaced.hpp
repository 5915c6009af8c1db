// Texts that differ from another in a few words.
#pragma once
#include <string>

namespace tete::tests {

// `text` with `to` wherever `from` stands.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace tete::tests
