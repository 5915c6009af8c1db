#include "train/masked.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/dice.hpp"

namespace tete {

namespace {

constexpr double asked_part = 0.15;

// Hides tokens of one sample, and writes what they were into its targets.
void hide(Dice dice, int64_t mask, std::span<int64_t> input, std::span<int64_t> target) {
  const Index n = std::ssize(input);
  std::vector<Index> places(input.size());
  std::iota(places.begin(), places.end(), 0);
  const Index asked = std::max<Index>(1, std::lround(asked_part * static_cast<double>(n)));
  for (Index i = 0; i < asked; ++i) {
    std::swap(places[i], places[dice.between(i, n - 1)]);
    const Index at = places[i], chance = dice.below(10), any = dice.below(mask);
    target[at] = input[at];
    if (chance < 8) input[at] = mask;
    else if (chance == 8) input[at] = any;
  }
}

}  // namespace

int64_t vocabulary_of(const std::string& task, const Tokenizer& tokenizer) {
  return tokenizer.size() + (task == masked_task);
}

std::vector<int32_t> encode_with_blanks(const Tokenizer& tokenizer, std::string_view prompt) {
  std::vector<int32_t> tokens;
  for (size_t at = 0; at <= prompt.size();) {
    const size_t end = std::min(prompt.find(blank, at), prompt.size());
    const std::vector<int32_t> between = tokenizer.encode(prompt.substr(at, end - at));
    tokens.insert(tokens.end(), between.begin(), between.end());
    if (end < prompt.size()) tokens.push_back(static_cast<int32_t>(tokenizer.size()));
    at = end + 1;
  }
  return tokens;
}

std::string decode_with_blanks(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  std::string text;
  for (int32_t token : tokens)
    text += token < tokenizer.size() ? tokenizer.piece(token) : std::string(1, blank);
  return text;
}

MaskedData::MaskedData(TextData text, int64_t mask)
    : text_(std::move(text)), mask_(mask), fingerprint_(text_.fingerprint() + " masked") {}

Batch MaskedData::masked(const Batch& windows, Key key) const {
  std::vector<int64_t> input = windows.input.values<int64_t>(), target(input.size(), -1);
  const auto context = static_cast<size_t>(text_.context());
  for (size_t at = 0; at < input.size(); at += context) {
    const auto sample = static_cast<uint64_t>(windows.first_sample) + at / context;
    hide(Dice(key.fold("mask").fold(sample)), mask_, std::span(input).subspan(at, context),
         std::span(target).subspan(at, context));
  }
  const Shape& shape = windows.input.shape();
  return {Tensor::of<int64_t>(shape, input), Tensor::of<int64_t>(shape, target),
          windows.first_sample};
}

Batch MaskedData::batch(Key key, Index first, Index count) const {
  return masked(text_.batch(key, first, count), key);
}

Batch MaskedData::validation_batch(Key key, Index first, Index count) const {
  return masked(text_.validation_batch(key, first, count), key);
}

}  // namespace tete
