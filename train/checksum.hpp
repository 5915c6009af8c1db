// XXH64, the 64-bit checksum of xxHash (Collet 2012): a few bytes a cycle, and published, so that
// others can verify our files.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tete {

uint64_t checksum(const void* bytes, size_t count, uint64_t seed = 0);
inline uint64_t checksum(std::string_view text) { return checksum(text.data(), text.size()); }
// 16 hexadecimal digits.
std::string hexadecimal(uint64_t number);

}  // namespace tete
