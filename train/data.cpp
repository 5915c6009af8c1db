#include "train/data.hpp"

#include <algorithm>

#include "train/checksum.hpp"

namespace tete {

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
  fingerprint_ = text(hexadecimal(tokens_.checksum()), " ", cut_, "+", total - cut_);
}

Batch TextData::draw(Index begin, Index end, Key key, Index first, Index count) const {
  std::vector<int64_t> input, target;
  input.reserve(count * context_), target.reserve(count * context_);
  std::vector<int64_t> window(static_cast<size_t>(context_) + 1);
  for (Index i = 0; i < count; ++i) {
    const uint64_t places = end - begin - context_;  // the last one has its target in the part
    tokens_.read(begin + static_cast<Index>(uniform_below(key, first + i, places)), window);
    input.insert(input.end(), window.begin(), window.end() - 1);
    target.insert(target.end(), window.begin() + 1, window.end());
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
