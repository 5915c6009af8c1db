// Text in UTF-8.
#pragma once
#include <string>
#include <string_view>

namespace tete {

// One character: its code point and how many bytes it took. length 0: the bytes at that place are
// not UTF-8 (overlong, a surrogate, beyond U+10FFFF, a stray or missing continuation byte).
struct Character {
  char32_t code = 0;
  int length = 0;
};
Character read_character(std::string_view text, size_t at);
void append_character(std::string& text, char32_t code);
// The offset of the first byte that is not UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);
// A control character moves cursors and rings bells; tab and newline do not count as such.
bool is_control(char32_t code);
// The same text with what is not UTF-8 and control characters written as numbers: "\x1b[2J".
std::string printable(std::string_view text);

}  // namespace tete
