#include "core/utf8.hpp"

#include <algorithm>
#include <cstdio>

namespace tete {

// The number of bytes of a character with this first byte; 0 if no character begins so.
static int length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation byte, or an overlong form of ASCII
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

Character read_character(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const int length = length_of(byte(0));
  if (length <= 1) return {byte(0), length};
  if (text.size() - at < static_cast<size_t>(length)) return {};
  char32_t code = byte(0) & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

void append_character(std::string& text, char32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6), tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12), tail(6), tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18), tail(12), tail(6), tail(0);
  }
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int length = read_character(text, at).length;
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

bool is_control(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
}

bool is_invisible(char32_t code) {
  struct Range {
    char32_t first, last;
  };
  static constexpr Range ranges[] = {
      {0xA0, 0xA0},     {0xAD, 0xAD},     {0x34F, 0x34F},     {0x61C, 0x61C},    {0x115F, 0x1160},
      {0x1680, 0x1680}, {0x17B4, 0x17B5}, {0x180B, 0x180F},   {0x2000, 0x200F},  {0x2028, 0x202F},
      {0x205F, 0x206F}, {0x3000, 0x3000}, {0x3164, 0x3164},   {0xFEFF, 0xFEFF},  {0xFFA0, 0xFFA0},
      {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0x1BCA0, 0x1BCA3}, {0xE0000, 0xE0FFF}};
  return is_control(code) || std::any_of(std::begin(ranges), std::end(ranges), [code](Range r) {
           return code >= r.first && code <= r.last;
         });
}

std::string code_point(char32_t code) {
  char number[16];
  std::snprintf(number, sizeof number, "U+%04X", static_cast<unsigned>(code));
  return number;
}

std::string named_character(std::string_view text, size_t at) {
  const Character c = read_character(text, at);
  if (is_invisible(c.code)) return "the invisible " + code_point(c.code);
  const std::string quoted = "'" + std::string(text.substr(at, c.length)) + "'";
  return c.code < 0x80 ? quoted : quoted + " (" + code_point(c.code) + ")";
}

static bool is_joiner(char32_t code) { return code == 0x200C || code == 0x200D; }

std::string printable(std::string_view text) {
  std::string shown;
  char32_t before = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = read_character(text, at);
    const size_t length = c.length == 0 ? 1 : static_cast<size_t>(c.length);
    const std::string_view bytes = text.substr(at, length);
    if (c.length == 0 || is_control(c.code)) {
      for (const unsigned char byte : bytes) {
        constexpr std::string_view digits = "0123456789abcdef";
        shown += "\\x";
        shown += digits[byte >> 4];
        shown += digits[byte & 15];
      }
    } else if (is_invisible(c.code) && !(is_joiner(c.code) && before >= 0x80)) {
      shown += code_point(c.code);
    } else {
      shown += bytes;
    }
    before = c.code;
    at += length;
  }
  return shown;
}

std::string shortened(std::string_view quoted) {
  size_t end = 80;
  if (quoted.size() <= end) return std::string(quoted);
  while (end > 0 && (quoted[end] & 0xC0) == 0x80) --end;  // no character is cut
  return std::string(quoted.substr(0, end)) + "…";
}

std::string with_carets(std::string_view line, const std::function<bool(size_t)>& is_marked) {
  constexpr const char* margin = "\n    ";
  std::string shown, carets;
  for (size_t at = 0; at < line.size();) {
    const Character c = read_character(line, at);
    const size_t length = c.length == 0 ? 1 : static_cast<size_t>(c.length);
    const bool is_tab = c.code == '\t';
    if (c.length == 0 || (is_invisible(c.code) && !is_control(c.code))) shown += '?';
    else if (!is_tab && (c.code < ' ' || is_control(c.code))) shown += ' ';
    else shown += line.substr(at, length);
    carets += is_marked(at) ? '^' : is_tab ? '\t' : ' ';
    at += length;
  }
  if (is_marked(line.size())) carets += '^';
  carets.erase(carets.find_last_not_of(" \t") + 1);
  shown.erase(shown.find_last_not_of(' ') + 1);
  return margin + shown + (carets.empty() ? "" : margin + carets);
}

}  // namespace tete
