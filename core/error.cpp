#include "core/error.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "core/utf8.hpp"

namespace tete {

// The same sentence with words of more than 256 bytes shortened; they can only be quoted ones.
static std::string with_short_words(const std::string& sentence) {
  std::string all;
  for (size_t at = 0; at < sentence.size();) {
    const size_t end = std::min(sentence.find_first_of(" \n", at), sentence.size());
    const std::string word = sentence.substr(at, end - at);
    all += word.size() > 256 ? shortened(word) : word;
    if (end < sentence.size()) all += sentence[end];
    at = end + 1;
  }
  return all;
}

Error::Error(ErrorKind kind, const std::string& sentence)
    : std::runtime_error(printable(with_short_words(sentence))), kind_(kind) {}

template <class Real>
static std::string shortest(Real number) {
  if (std::isnan(number)) return "nan";  // a sign would mean nothing
  char digits[64];
  const bool whole = std::abs(number) < 0x1p53 && number == std::floor(number);
  char* const end = whole
                        ? std::to_chars(digits, std::end(digits), static_cast<int64_t>(number)).ptr
                        : std::to_chars(digits, std::end(digits), number).ptr;
  std::string shown(digits, end);
  // 1e-05 and 1e+20 are 1e-5 and 1e20.
  if (size_t at = shown.find('e'); at != std::string::npos) {
    at += shown[at + 1] == '-' ? 2 : 1;
    shown.erase(at, shown.find_first_not_of("+0", at) - at);
  }
  return shown;
}

std::string number_text(double number) { return shortest(number); }
std::string number_text(float number) { return shortest(number); }
std::string number_text(double number, int digits) {
  char rounded[64];
  std::snprintf(rounded, sizeof rounded, "%.*g", digits, number);
  return shortest(std::strtod(rounded, nullptr));
}

// Levenshtein's distance, one row at a time.
static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string counted(int64_t count, std::string_view noun) {
  return text(count, " ", noun, count == 1 ? "" : "s");
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty()) return "";
  std::string best;
  const size_t furthest = std::min(std::max<size_t>(2, word.size() / 3), word.size() - 1);
  size_t best_distance = furthest + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : text("; did you mean '", near, "'?");
}

std::string choice(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = suggestion(word, candidates);
  if (!near.empty() || candidates.empty()) return near;
  return (candidates.size() == 1 ? "; there is " : "; there are ") + list_of(candidates);
}

}  // namespace tete
