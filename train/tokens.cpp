#include "train/tokens.hpp"

#include <algorithm>

#include "train/checksum.hpp"

namespace tete {

Tokens::Tokens(Corpus text, Tokenizer tokenizer)
    : text_(std::move(text)), tokenizer_(std::move(tokenizer)) {
  const size_t longest = tokenizer_.unit() == Tokenizer::Unit::bytes ? 1 : 4;  // bytes of a token
  Checksum sum;
  for (size_t part = 0; part < text_.parts(); ++part) {
    parts_.push_back({size_});
    for (size_t begin = 0; begin < text_.size(part);) {
      const std::string bytes = text_.read(part, begin, block_tokens * longest);
      std::vector<int32_t> some;
      size_t at = 0;
      while (at < bytes.size() && std::ssize(some) < block_tokens)
        some.push_back(tokenizer_.next(bytes, at));
      sum.add(some.data(), some.size() * sizeof(int32_t));
      parts_.back().blocks.push_back({begin, at, tete::checksum(bytes.data(), at)});
      begin += at, size_ += std::ssize(some);
    }
  }
  checksum_ = sum.value();
}

std::vector<int32_t> Tokens::tokens_of(size_t part, const Block& block) const {
  const std::string bytes = text_.read(part, block.begin, block.bytes);
  if (tete::checksum(bytes) != block.checksum)
    bad_input(text_.path(part), " was written to while a run learns from it");
  return tokenizer_.encode(bytes);
}

void Tokens::read(Index first, std::span<int64_t> to) const {
  const auto behind = std::upper_bound(parts_.begin(), parts_.end(), first,
                                       [](Index at, const Part& each) { return at < each.first; });
  auto part = static_cast<size_t>(behind - parts_.begin() - 1);
  auto block = static_cast<size_t>((first - parts_[part].first) / block_tokens);
  Index skipped = (first - parts_[part].first) % block_tokens;
  for (size_t done = 0; done < to.size(); ++block, skipped = 0) {
    for (; block == parts_[part].blocks.size(); block = 0) ++part;
    const std::vector<int32_t> some = tokens_of(part, parts_[part].blocks[block]);
    const size_t count = std::min(to.size() - done, some.size() - static_cast<size_t>(skipped));
    std::copy_n(some.begin() + skipped, count, to.begin() + static_cast<std::ptrdiff_t>(done));
    done += count;
  }
}

}  // namespace tete
