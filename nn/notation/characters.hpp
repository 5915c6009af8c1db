// The characters of a text, in UTF-8.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tete {

// The length of the UTF-8 character at `at`, or 0 where there is none.
inline size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = lead < 0x80       ? 1
                        : lead >> 5 == 6  ? 2
                        : lead >> 4 == 14 ? 3
                        : lead >> 3 == 30 ? 4
                                          : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if (byte(at + i) >> 6 != 2) return 0;
  return length;
}

// The character at `at` is that many bytes long; a broken one is one.
inline size_t step_at(std::string_view text, size_t at) {
  return std::max<size_t>(1, character_length(text, at));
}

}  // namespace tete
