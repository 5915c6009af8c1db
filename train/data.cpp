#include "train/data.hpp"

#include <algorithm>

#include "core/utf8.hpp"
#include "train/checksum.hpp"
#include "train/files.hpp"

namespace tete {

static void check_characters(const std::string& path, std::string_view text) {
  const size_t nul = text.find('\0');
  if (nul != std::string::npos)
    bad_input(path, " is not a text: byte ", nul, " is zero; to train on any bytes, use bytes",
              " as tokens");
  const size_t bad = find_invalid_utf8(text);
  if (bad != std::string::npos)
    bad_input(path, " is not UTF-8: byte ", bad, " does not continue a character; convert it",
              " (iconv), or use bytes as tokens");
}

std::string read_texts(const std::vector<std::string>& paths, Tokenizer::Unit unit) {
  std::string all;
  size_t total = 0;  // one that grew would need twice the memory for a moment
  for (const std::string& path : paths) total += file_size(open_regular_file(path));
  all.reserve(total);
  for (const std::string& path : paths) {
    const size_t before = all.size();
    append_file(all, path);
    if (all.size() == before) bad_input(path, " is empty");
    if (unit == Tokenizer::Unit::characters)
      check_characters(path, std::string_view(all).substr(before));
  }
  return all;
}

// As if each token took four bytes: the fingerprint tells texts apart, not how they are held.
static uint64_t checksum_of(const Tokens& tokens) {
  Checksum sum;
  std::vector<int32_t> some;
  for (Index i = 0; i < tokens.size(); ++i) {
    some.push_back(tokens[i]);
    if (some.size() < 4096 && i + 1 < tokens.size()) continue;
    sum.add(some.data(), some.size() * sizeof(int32_t));
    some.clear();
  }
  return sum.value();
}

TextData::TextData(Tokens tokens, Index context, double held_out)
    : tokens_(std::move(tokens)), context_(context) {
  if (context < 1) bad_input("the context must be at least 1 token, got ", context);
  if (!(held_out > 0 && held_out < 1))
    bad_input("the part held out for validation must lie between 0 and 1, got ", held_out);
  const Index total = tokens_.size();
  cut_ = static_cast<Index>((1 - held_out) * static_cast<double>(total));
  const Index shorter = std::min(cut_, total - cut_);
  if (shorter < context + 1)
    bad_input("the text is too short: a context of ", context, " tokens needs ", context + 1,
              " in each part, but its ", total, " tokens give ", cut_, " to train on and ",
              total - cut_, " for validation; use a longer text or a shorter context");
  fingerprint_ = text(hexadecimal(checksum_of(tokens_)), " ", cut_, "+", total - cut_);
}

Batch TextData::draw(Index begin, Index end, Key key, Index first, Index count) const {
  std::vector<int64_t> input, target;
  input.reserve(count * context_), target.reserve(count * context_);
  for (Index i = 0; i < count; ++i) {
    const uint64_t places = end - begin - context_;  // the last one has its target in the part
    const Index at = begin + static_cast<Index>(uniform_below(key, first + i, places));
    for (Index k = at; k < at + context_; ++k)
      input.push_back(tokens_[k]), target.push_back(tokens_[k + 1]);
  }
  const Shape shape = {count, context_};
  return {Tensor::of<int64_t>(shape, input), Tensor::of<int64_t>(shape, target), first};
}

Batch TextData::batch(Key key, Index first, Index count) const {
  return draw(0, cut_, key, first, count);
}

Batch TextData::validation_batch(Key key, Index first, Index count) const {
  return draw(cut_, tokens_.size(), key, first, count);
}

}  // namespace tete
