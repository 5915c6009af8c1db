#include "train/events.hpp"

#include <array>
#include <bit>

namespace tete {

namespace {

// One step of the remainder for every value of a byte; the polynomial is reversed.
constexpr std::array<uint32_t, 256> remainders = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82F63B78 : 0);
    table[byte] = rest;
  }
  return table;
}();

// Little-endian, whatever the machine.
template <class Number>
std::string bytes_of(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFF);
  return bytes;
}

// Seven bits a byte, the lowest first; the highest bit says that more follow.
std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7F) | 0x80);
  return bytes + static_cast<char>(number);
}

enum Wire : uint64_t { whole = 0, eight_bytes = 1, counted_bytes = 2, four_bytes = 5 };

std::string field(uint64_t number, Wire kind, const std::string& value) {
  return varint(number << 3 | kind) + (kind == counted_bytes ? varint(value.size()) : "") + value;
}

// A checksum of bytes that hold checksums is weak, so these are disguised.
std::string disguised_crc(const std::string& bytes) {
  return bytes_of(std::rotr(crc32c(bytes), 15) + 0xA282EAD8u);
}

std::string record(const std::string& event) {
  const std::string length = bytes_of(static_cast<uint64_t>(event.size()));
  return length + disguised_crc(length) + event + disguised_crc(event);
}

std::string wall_time_field(double wall_time) {
  return field(1, eight_bytes, bytes_of(std::bit_cast<uint64_t>(wall_time)));
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t rest = ~0u;
  for (char byte : bytes)
    rest = rest >> 8 ^ remainders[(rest ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~rest;
}

std::string first_event(double wall_time) {
  return record(wall_time_field(wall_time) + field(3, counted_bytes, "brain.Event:2"));
}

std::string scalar_event(double wall_time, int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    summary += field(1, counted_bytes,
                     field(1, counted_bytes, tag) + field(2, four_bytes, bytes_of(bits)));
  }
  return record(wall_time_field(wall_time) + field(2, whole, varint(static_cast<uint64_t>(step))) +
                field(5, counted_bytes, summary));
}

}  // namespace tete
