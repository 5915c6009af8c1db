// An error is one sentence: it says what was expected, what came, and where.
#pragma once
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tete {

// The kind of a failure is the exit code of the program that reports it.
enum class ErrorKind : int {
  check = 1,     // a check that was asked for found a difference
  input = 2,     // bad usage or bad input: the caller can fix it
  numbers = 3,   // NaN, infinity or divergence
  resource = 4,  // disk, memory or processor
  peer = 5,      // another process of the run was lost; safe to restart
};

class Error : public std::runtime_error {
 public:
  // `sentence` may quote any bytes; what() is printable UTF-8 (core/utf8.hpp).
  Error(ErrorKind kind, const std::string& sentence);
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// A real number as people write it, and as it reads back: "1000000", "0.001", "1e-5", "nan". Whole
// numbers below 2^53 have all their digits.
std::string number_text(double number);
std::string number_text(float number);
// The same, rounded to so many digits.
std::string number_text(double number, int digits);

// All parts, one after the other: real numbers by number_text, the others as << prints them.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  const auto write = [&out](const auto& part) {
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(part)>>)
      out << number_text(part);
    else out << part;
  };
  (write(parts), ...);
  return out.str();
}

// Throws an Error whose sentence is all parts, one after the other.
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, text(parts...));
}
template <class... Parts>
[[noreturn]] void bad_input(const Parts&... parts) {
  throw Error(ErrorKind::input, text(parts...));
}

// "a, b, c"; if `last` is " and ", "a, b and c". `written` returns what is printed of each.
template <class All, class Written = std::identity>
std::string list_of(const All& all, const Written& written = {}, std::string_view last = ", ") {
  std::string list;
  auto left = std::size(all);
  for (const auto& each : all) {
    if (!list.empty()) list += left > 1 ? ", " : last;
    list += text(written(each)), --left;
  }
  return list;
}

// "1 dimension", "2 dimensions"
std::string counted(int64_t count, std::string_view noun);

// The candidate with the smallest edit distance to `word`, or "" if none is near (within a third of
// its letters, or two, but not all of them).
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "; did you mean 'x'?" for the nearest candidate, or "".
std::string suggestion(std::string_view word, std::span<const std::string> candidates);
// The same, or "; there are a, b" if none is near.
std::string choice(std::string_view word, std::span<const std::string> candidates);

// The row of a table that has this name, or null.
template <class Rows>
auto find_named(std::string_view name, const Rows& rows) -> decltype(&*std::begin(rows)) {
  for (const auto& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}
template <class Rows>
std::vector<std::string> names_of_rows(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}
// The row of that name. Fails (input) without one: "unknown KIND 'NAME'", with the nearest name.
template <class Rows>
auto row_named(const char* kind, std::string_view name, const Rows& rows)
    -> decltype(*std::begin(rows)) {
  if (const auto* const row = find_named(name, rows)) return *row;
  bad_input("unknown ", kind, " '", name, "'", choice(name, names_of_rows(rows)));
}

}  // namespace tete
