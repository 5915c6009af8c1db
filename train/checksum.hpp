// XXH64, the 64-bit checksum of xxHash (Collet 2012): a few bytes a cycle, and published, so that
// others can verify our files.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tete {

// The checksum of bytes that do not lie together.
class Checksum {
 public:
  explicit Checksum(uint64_t seed = 0);
  void add(const void* bytes, size_t count);
  // The checksum of all that was added.
  uint64_t value() const;

 private:
  uint64_t seed_, lanes_[4];
  size_t total_ = 0;
  unsigned char rest_[32];  // the last total_ % 32 bytes, which fill no block
};

uint64_t checksum(const void* bytes, size_t count, uint64_t seed = 0);
inline uint64_t checksum(std::string_view text) { return checksum(text.data(), text.size()); }
// The number as 16 hexadecimal digits.
std::string hexadecimal(uint64_t number);

}  // namespace tete
