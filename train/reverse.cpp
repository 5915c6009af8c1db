#include "train/reverse.hpp"

#include <algorithm>

#include "train/checksum.hpp"

namespace tete {

namespace {

constexpr int64_t letters = 26;

bool is_held_out(const std::vector<int64_t>& string) {
  return checksum(string.data(), string.size() * sizeof(int64_t)) % 10 == 0;
}

// Drawn again until it is of the part that is asked for.
std::vector<int64_t> draw_string(bool held_out, Key key, Index longest) {
  std::vector<int64_t> string;
  for (uint64_t attempt = 0; string.empty() || is_held_out(string) != held_out; ++attempt) {
    const Key own = key.fold(attempt);
    string.assign(1 + uniform_below(own, 0, static_cast<uint64_t>(longest)), 0);
    for (size_t i = 0; i < string.size(); ++i)
      string[i] = 1 + static_cast<int64_t>(uniform_below(own, i + 1, letters));
  }
  return string;
}

}  // namespace

ReverseData::ReverseData(Index context)
    : context_(context), fingerprint_(text("reverse 1 ", context)) {
  if (context < 2)
    bad_input("to reverse a string, a context of at least 2 tokens is needed, got ", context);
}

Tokenizer ReverseData::tokenizer() { return Tokenizer::characters("\nabcdefghijklmnopqrstuvwxyz"); }

Batch ReverseData::draw(bool held_out, Key key, Index first, Index count) const {
  std::vector<int64_t> input(count * context_, 0), target(count * context_, -1), lengths;
  for (Index i = 0; i < count; ++i) {
    const std::vector<int64_t> string = draw_string(held_out, key.fold(first + i), context_ - 1);
    std::copy(string.begin(), string.end(), input.begin() + i * context_);
    *std::copy(string.rbegin(), string.rend(), target.begin() + i * context_) = 0;
    lengths.push_back(static_cast<int64_t>(string.size()));
  }
  const Shape shape = {count, context_};
  return {Tensor::of<int64_t>(shape, input), Tensor::of<int64_t>(shape, target), first,
          Tensor::of<int64_t>({count}, lengths)};
}

Batch ReverseData::batch(Key key, Index first, Index count) const {
  return draw(false, key, first, count);
}

Batch ReverseData::validation_batch(Key key, Index first, Index count) const {
  return draw(true, key, first, count);
}

}  // namespace tete
