// Reversals: lower-case strings and the same from their end, a data set that is generated. It is
// what an encoder with a decoder is tried on: the two sides differ in every place, and both are
// padded.
//
//   input   "tca", then padding          target   "act" and the end, then padding
#pragma once
#include "train/data.hpp"

namespace tete {

// Sample i has a random length and random letters, both functions of (key, i). A tenth of all
// strings, told by their checksum, is for validation only.
class ReverseData : public Data {
 public:
  // Strings have 1 … context - 1 letters; inputs and targets are padded to `context` tokens. Fails
  // on a context below 2.
  explicit ReverseData(Index context);

  // The end of a sequence is token 0 ("\n"), letters are 1 … 26.
  static Tokenizer tokenizer();
  Batch batch(Key key, Index first, Index count) const override;
  Batch validation_batch(Key key, Index first, Index count) const override;
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  Batch draw(bool held_out, Key key, Index first, Index count) const;

  Index context_;
  std::string fingerprint_;
};

}  // namespace tete
