// A table for people: lines of words whose columns line up.
#pragma once
#include <string>
#include <vector>

namespace tete {

// In characters, not bytes: the column that follows depends on it.
size_t width_of(const std::string& text);

class Table {
 public:
  // Columns from this one on are to the right.
  explicit Table(size_t first_number = 2) : first_number_(first_number) {}
  void add(std::vector<std::string> words) { lines_.push_back(std::move(words)); }
  // With an empty line behind it.
  void print() const;

 private:
  size_t first_number_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace tete
