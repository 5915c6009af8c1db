// Places in a text, and errors that point at them: the line, with carets under the place.
#include <algorithm>

#include "core/utf8.hpp"
#include "nn/language/notation.hpp"

namespace tete {

namespace {

constexpr size_t widest_line = 160;  // shown in an error

struct Line {
  size_t begin, end;  // without the line's end
  size_t number;      // from 1
};

Line line_at(const Place& place) {
  const std::string& text = place.source->text;
  const size_t at = std::min<size_t>(place.at, text.size());
  const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  const size_t end = std::min(text.find('\n', at), text.size());
  const auto newlines = std::count(text.begin(), text.begin() + static_cast<long>(begin), '\n');
  return {begin, end, static_cast<size_t>(newlines) + 1};
}

// The length of the character at `at`; a broken one is one byte long.
size_t step_at(std::string_view text, size_t at) {
  return static_cast<size_t>(std::max(1, read_character(text, at).length));
}

// The column of a place in characters, from 1.
size_t column_of(const Place& place, const Line& line) {
  size_t column = 1;
  for (size_t i = line.begin; i < place.at; i += step_at(place.source->text, i)) ++column;
  return column;
}

// The line, with carets under the places that are in it; a long line is shown in part.
std::string shown(const Line& line, const std::vector<Place>& places, const Source* source) {
  const std::string& whole = source->text;
  const auto is_marked = [&](size_t at) {
    return std::any_of(places.begin(), places.end(), [&](const Place& place) {
      return place.source == source && at >= place.at && at < place.at + std::max(1u, place.length);
    });
  };
  size_t begin = line.begin, end = line.end;
  if (end - begin > widest_line) {
    size_t first = begin;
    while (first < end && !is_marked(first)) ++first;
    begin = first > line.begin + 60 ? first - 60 : line.begin;
    end = std::min(line.end, begin + widest_line);
  }
  return with_carets(std::string_view(whole).substr(begin, end - begin),
                     [&](size_t at) { return is_marked(begin + at); });
}

}  // namespace

std::string line_of(const Place& place) {
  return text(place.source->name, ":", line_at(place).number);
}

std::string point_out(const std::string& sentence, const std::vector<Place>& places) {
  const Line line = line_at(places[0]);
  std::string message = text(places[0].source->name, ":", line.number, ":",
                             column_of(places[0], line), ": ", sentence);
  std::vector<std::pair<const Source*, size_t>> done;
  for (const Place& place : places) {
    const Line here = line_at(place);
    const std::pair<const Source*, size_t> key{place.source, here.begin};
    if (std::find(done.begin(), done.end(), key) != done.end()) continue;
    if (!done.empty()) message += "\n  " + line_of(place) + ":";
    message += shown(here, places, place.source);
    done.push_back(key);
  }
  return message;
}

}  // namespace tete
