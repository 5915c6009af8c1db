// The text that a run learns from. It is read where it is asked for and not kept: the ranks of one
// machine share what the system caches of its files.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "train/files.hpp"

namespace tete {

class Corpus {
 public:
  Corpus(std::string text);  // NOLINT: the same characters
  // The files' contents, one after the other. Fails in one sentence on a file that is missing, a
  // folder or empty. They stay open: a name that another file gets changes nothing.
  explicit Corpus(const std::vector<std::string>& paths);

  // Each part is a file, or the one text.
  size_t parts() const { return sources_.size(); }
  const std::string& path(size_t part) const { return sources_[part].path; }
  size_t size(size_t part) const { return sources_[part].size; }  // in bytes
  // At most `count` bytes of a part: fewer where it ends. Fails (input) if its file has become
  // shorter; other changes are not seen.
  std::string read(size_t part, size_t first, size_t count) const;
  // Each character of the text once. Fails (input) where it is binary or not UTF-8.
  std::string characters() const;

 private:
  struct Source {
    std::string path, text;  // the path is empty for a text without a file
    std::shared_ptr<const File> file;
    size_t size;
  };
  std::vector<Source> sources_;
};

}  // namespace tete
