#include "train/tokens.hpp"

#include <algorithm>

#include "train/checksum.hpp"

namespace tete {

Tokens::Tokens(MappedText text, Tokenizer tokenizer)
    : text_(std::move(text)), tokenizer_(std::move(tokenizer)) {
  Checksum sum;
  std::vector<int32_t> some;
  const auto add = [&] {
    sum.add(some.data(), some.size() * sizeof(int32_t));
    some.clear();
  };
  for (std::string_view bytes : text_.parts()) {
    Part& part = parts_.emplace_back(Part{bytes, size_});
    for (size_t at = 0; at < bytes.size(); ++size_) {
      if ((size_ - part.first) % marked == 0) part.places.push_back(at);
      some.push_back(tokenizer_.next(bytes, at));
      if (some.size() == 4096) add();
    }
  }
  add();
  checksum_ = sum.value();
}

void Tokens::read(Index first, std::span<int64_t> to) const {
  text_.check_unchanged();
  auto part = std::upper_bound(parts_.begin(), parts_.end(), first,
                               [](Index at, const Part& each) { return at < each.first; });
  --part;
  Index number = first - part->first;
  size_t at = part->places[static_cast<size_t>(number / marked)];
  for (number %= marked; number > 0; --number) tokenizer_.next(part->bytes, at);
  for (int64_t& token : to) {
    for (; at == part->bytes.size(); at = 0) ++part;
    token = tokenizer_.next(part->bytes, at);
  }
}

}  // namespace tete
