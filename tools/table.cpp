#include "tools/table.hpp"

#include <algorithm>
#include <cstdio>

namespace tete {

size_t width_of(const std::string& word) {
  return static_cast<size_t>(
      std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void Table::print() const {
  std::vector<size_t> widths;
  for (const auto& words : lines_) {
    widths.resize(std::max(widths.size(), words.size()));
    for (size_t i = 0; i < words.size(); ++i) widths[i] = std::max(widths[i], width_of(words[i]));
  }
  for (const auto& words : lines_) {
    std::string line;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string space(widths[i] - width_of(words[i]), ' ');
      line += (i > 0 ? "  " : "") + (i >= first_number_ ? space + words[i] : words[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::puts(line.c_str());
  }
  std::puts("");
}

}  // namespace tete
