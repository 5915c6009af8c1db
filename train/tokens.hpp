// The tokens of a text. They are made of its bytes whenever they are asked for: in memory is only
// where every 256th begins, and a checksum.
#pragma once
#include <span>
#include <string>

#include "core/shape.hpp"
#include "train/corpus.hpp"
#include "train/tokenizer.hpp"

namespace tete {

class Tokens {
 public:
  // Reads the text once.
  Tokens(Corpus text, Tokenizer tokenizer);

  Index size() const { return size_; }
  // The checksum of all of them, as if each took four bytes.
  uint64_t checksum() const { return checksum_; }
  // Reads the tokens from number `first` on. Fails (input) if a file has other bytes there than it
  // had.
  void read(Index first, std::span<int64_t> to) const;

 private:
  static constexpr Index block_tokens = 256;
  struct Block {
    size_t begin, bytes;  // in its part
    uint64_t checksum;    // of its bytes
  };
  struct Part {
    Index first;  // the number of its first token
    std::vector<Block> blocks = {};
  };
  std::vector<int32_t> tokens_of(size_t part, const Block& block) const;

  Corpus text_;
  Tokenizer tokenizer_;
  std::vector<Part> parts_;
  Index size_ = 0;
  uint64_t checksum_ = 0;
};

}  // namespace tete
