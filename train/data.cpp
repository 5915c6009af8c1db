#include "train/data.hpp"

#include <algorithm>

#include "core/utf8.hpp"
#include "train/checksum.hpp"
#include "train/files.hpp"

namespace tete {

std::string read_texts(const std::vector<std::string>& paths, Tokenizer::Unit unit) {
  std::string all;
  for (const std::string& path : paths) {
    const std::string one = read_file(path);
    if (one.empty()) bad_input(path, " is empty");
    if (unit == Tokenizer::Unit::characters) {
      const size_t nul = one.find('\0');
      if (nul != std::string::npos)
        bad_input(path, " is not a text: byte ", nul, " is zero; to train on any bytes, use bytes",
                  " as tokens");
      const size_t bad = find_invalid_utf8(one);
      if (bad != std::string::npos)
        bad_input(path, " is not UTF-8: byte ", bad, " does not continue a character; convert it",
                  " (iconv), or use bytes as tokens");
    }
    all += one;
  }
  return all;
}

TextData::TextData(std::vector<int32_t> tokens, Index context, double held_out)
    : tokens_(std::move(tokens)), context_(context) {
  if (context < 1) bad_input("the context must be at least 1 token, got ", context);
  if (!(held_out > 0 && held_out < 1))
    bad_input("the part held out for validation must lie between 0 and 1, got ", held_out);
  const Index total = static_cast<Index>(tokens_.size());
  cut_ = static_cast<Index>((1 - held_out) * static_cast<double>(total));
  const Index shorter = std::min(cut_, total - cut_);
  if (shorter < context + 1)
    bad_input("the text is too short: a context of ", context, " tokens needs ", context + 1,
              " in each part, but its ", total, " tokens give ", cut_, " to train on and ",
              total - cut_, " for validation; use a longer text or a shorter context");
  const uint64_t hash = checksum(tokens_.data(), tokens_.size() * sizeof(int32_t));
  fingerprint_ = text(hexadecimal(hash), " ", cut_, "+", total - cut_);
}

Batch TextData::draw(Index begin, Index end, Key key, Index first, Index count) const {
  std::vector<int64_t> input, target;
  input.reserve(count * context_), target.reserve(count * context_);
  for (Index i = 0; i < count; ++i) {
    const uint64_t places = end - begin - context_;  // the last one has its target in the part
    const Index at = begin + static_cast<Index>(uniform_below(key, first + i, places));
    input.insert(input.end(), &tokens_[at], &tokens_[at] + context_);
    target.insert(target.end(), &tokens_[at + 1], &tokens_[at + 1] + context_);
  }
  const Shape shape = {count, context_};
  return {Tensor::of<int64_t>(shape, input), Tensor::of<int64_t>(shape, target), first};
}

Batch TextData::batch(Key key, Index first, Index count) const {
  return draw(0, cut_, key, first, count);
}

Batch TextData::validation_batch(Key key, Index first, Index count) const {
  return draw(cut_, static_cast<Index>(tokens_.size()), key, first, count);
}

}  // namespace tete
