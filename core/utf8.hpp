// Text in UTF-8.
#pragma once
#include <functional>
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
// True if a character leaves no mark of its own: a byte order mark, marks of direction, joiners and
// separators, spaces that are not ' ', control characters.
bool is_invisible(char32_t code);
// "U+202E"
std::string code_point(char32_t code);
// The name in an error of the character at `at`, which is UTF-8: "'+'", "'é' (U+00E9)", "the
// invisible U+FEFF".
std::string named_character(std::string_view text, size_t at);
// The same text with control characters and bytes that are not UTF-8 written as numbers, "\x1b[2J",
// and other invisible characters as code points, "U+FEFF". A joiner after a character that is no
// ASCII stays, as scripts and emoji need it.
std::string printable(std::string_view text);
// A key or a value as messages quote it: its first 80 bytes and "…" if there are more.
std::string shortened(std::string_view quoted);
// The line, and under it carets where `is_marked` says so of a character's first byte (or of the
// line's end); without a mark, the line alone. Every character takes one column: an invisible one
// is shown as '?', a control character as a space.
std::string with_carets(std::string_view line, const std::function<bool(size_t at)>& is_marked);

}  // namespace tete
