// The text that a run learns from. Its files are mapped, so that the ranks of one machine share
// their pages.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizer.hpp"

namespace tete {

class MappedText {
 public:
  MappedText(std::string text);  // NOLINT: the same characters
  // The files' contents, one after the other. Fails in one sentence on a file that is missing, a
  // folder, empty or binary, and on one that is not UTF-8 if it is to be read as characters.
  MappedText(const std::vector<std::string>& paths, Tokenizer::Unit unit);

  // They end between characters.
  const std::vector<std::string_view>& parts() const { return parts_; }
  // Fails (input) if a file was written to since it was mapped. One whose name is another file's
  // now stays what it was.
  void check_unchanged() const;

 private:
  struct Mapping;
  std::vector<std::shared_ptr<const Mapping>> files_;
  std::shared_ptr<const std::string> kept_;
  std::vector<std::string_view> parts_;
};

}  // namespace tete
