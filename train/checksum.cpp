#include "train/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tete {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

namespace {

constexpr uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F,
                   prime3 = 0x165667B19E3779F9, prime4 = 0x85EBCA77C2B2AE63,
                   prime5 = 0x27D4EB2F165667C5;

template <class T>
T load(const unsigned char* at) {
  T word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint64_t mix(uint64_t lane, uint64_t word) { return std::rotl(lane + word * prime2, 31) * prime1; }
uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ mix(0, lane)) * prime1 + prime4; }

}  // namespace

Checksum::Checksum(uint64_t seed)
    : seed_(seed), lanes_{seed + prime1 + prime2, seed + prime2, seed, seed - prime1} {}

void Checksum::add(const void* bytes, size_t count) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  const auto mix_block = [this](const unsigned char* block) {
    for (int i = 0; i < 4; ++i) lanes_[i] = mix(lanes_[i], load<uint64_t>(block + 8 * i));
  };
  const size_t begun = total_ % 32;
  total_ += count;
  if (begun > 0) {
    const size_t taken = std::min(count, 32 - begun);
    std::memcpy(rest_ + begun, at, taken);
    if (begun + taken < 32) return;
    mix_block(rest_);
    at += taken, count -= taken;
  }
  auto [a, b, c, d] = lanes_;  // in registers
  for (; count >= 32; count -= 32, at += 32) {
    a = mix(a, load<uint64_t>(at)), b = mix(b, load<uint64_t>(at + 8));
    c = mix(c, load<uint64_t>(at + 16)), d = mix(d, load<uint64_t>(at + 24));
  }
  lanes_[0] = a, lanes_[1] = b, lanes_[2] = c, lanes_[3] = d;
  if (count > 0) std::memcpy(rest_, at, count);
}

uint64_t Checksum::value() const {
  uint64_t hash = seed_ + prime5;
  if (total_ >= 32) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash += total_;
  const unsigned char* at = rest_;
  size_t count = total_ % 32;
  for (; count >= 8; count -= 8, at += 8)
    hash = std::rotl(hash ^ mix(0, load<uint64_t>(at)), 27) * prime1 + prime4;
  for (; count >= 4; count -= 4, at += 4)
    hash = std::rotl(hash ^ load<uint32_t>(at) * prime1, 23) * prime2 + prime3;
  for (; count > 0; --count, ++at) hash = std::rotl(hash ^ *at * prime5, 11) * prime1;
  hash = (hash ^ (hash >> 33)) * prime2;
  hash = (hash ^ (hash >> 29)) * prime3;
  return hash ^ (hash >> 32);
}

uint64_t checksum(const void* bytes, size_t count, uint64_t seed) {
  Checksum all(seed);
  all.add(bytes, count);
  return all.value();
}

std::string hexadecimal(uint64_t number) {
  std::string digits(16, '0');
  for (int i = 15; i >= 0; --i, number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
  return digits;
}

}  // namespace tete
