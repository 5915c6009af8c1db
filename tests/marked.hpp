// Texts with a mistake, marked where an error must point.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "nn/language/check.hpp"
#include "tests/error_of.hpp"

namespace tete {

// A text and the sentence that must be said about it: «» is the place that is given by line and
// column, with carets under it, and ‹› is shown beside it, with carets, too. «» alone is one caret.
struct Marked {
  const char* sentence;
  const char* text;
};

// A marked text, read: its lines as they are shown, each with its carets.
class MarkedText {
 public:
  explicit MarkedText(std::string_view marked) {
    lines_.emplace_back();
    for (size_t at = 0; at < marked.size();) {
      const auto takes = [&](std::string_view sign) {
        return marked.substr(at, sign.size()) == sign ? at += sign.size() : 0;
      };
      if (takes("«")) begin(true);
      else if (takes("‹")) begin(false);
      else if (takes("»") || takes("›")) end();
      else character(marked, at);
    }
  }
  std::string text() const { return text_; }
  // The whole error: the line of «, then every other line that has a mark, in the order given.
  std::string message(const std::string& name, const std::string& sentence) const {
    std::string said = tete::text(name, ":", first_ + 1, ":", column_, ": ", sentence);
    std::string others;
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].carets.find('^') == std::string::npos) continue;
      const std::string shown = "\n    " + lines_[i].text + "\n    " + lines_[i].carets;
      if (i == first_) said += shown;
      else others += tete::text("\n  ", name, ":", i + 1, ":", shown);
    }
    return said + others;
  }

 private:
  struct Line {
    std::string text, carets;
    size_t characters = 0;
  };
  void begin(bool leads) {
    open_ = true, empty_ = true;
    if (leads) first_ = lines_.size() - 1, column_ = lines_.back().characters + 1;
  }
  void end() {
    if (empty_) mark();
    open_ = false;
  }
  void mark() {
    Line& line = lines_.back();
    line.carets.resize(line.characters, ' ');
    line.carets += '^';
    empty_ = false;
  }
  void character(std::string_view marked, size_t& at) {
    size_t next = at + 1;
    while (next < marked.size() && (static_cast<unsigned char>(marked[next]) & 0xC0) == 0x80)
      ++next;
    text_ += marked.substr(at, next - at);
    if (marked[at] == '\n') {
      lines_.emplace_back();
    } else {
      if (open_) mark();
      lines_.back().text += marked.substr(at, next - at);
      ++lines_.back().characters;
    }
    at = next;
  }

  std::string text_;
  std::vector<Line> lines_;
  bool open_ = false, empty_ = false;
  size_t first_ = 0, column_ = 0;
};

inline void check_messages(std::span<const Marked> rows) {
  for (const Marked& row : rows) {
    const MarkedText marked(row.text);
    CHECK(error_of([&] { check(Program::parse(marked.text())); }) ==
          marked.message("text", row.sentence));
  }
}

}  // namespace tete
