// The tokens of a text. They are made of its bytes whenever they are asked for: in memory is only
// where every 256th begins.
#pragma once
#include <span>
#include <string>

#include "core/shape.hpp"
#include "train/mapped_text.hpp"

namespace tete {

class Tokens {
 public:
  // Reads the text once.
  Tokens(MappedText text, Tokenizer tokenizer);

  Index size() const { return size_; }
  // The checksum of all of them, as if each took four bytes.
  uint64_t checksum() const { return checksum_; }
  // Those from number `first` on. Fails (input) if a file of the text was written to.
  void read(Index first, std::span<int64_t> to) const;

 private:
  static constexpr Index marked = 256;
  struct Part {
    std::string_view bytes;
    Index first;                      // the number of its first token
    std::vector<size_t> places = {};  // where its tokens 0, 256, 512 … begin
  };
  MappedText text_;
  Tokenizer tokenizer_;
  std::vector<Part> parts_;
  Index size_ = 0;
  uint64_t checksum_ = 0;
};

}  // namespace tete
