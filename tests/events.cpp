// Event files, against bytes that TensorBoard's own writer made of the same numbers, and a checksum
// with its published value.
#include <doctest/doctest.h>

#include "train/events.hpp"

using namespace tete;

namespace {

std::string hexadecimal_of(const std::string& bytes) {
  std::string digits;
  for (unsigned char byte : bytes)
    for (int half : {byte >> 4, byte & 15}) digits += "0123456789abcdef"[half];
  return digits;
}

}  // namespace

TEST_SUITE("events") {
  TEST_CASE("CRC-32C has its published values") {
    CHECK(crc32c("") == 0);
    CHECK(crc32c("123456789") == 0xE3069283);
    CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, B.4
    CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  }

  TEST_CASE("records are those of TensorBoard's writer, byte for byte") {
    CHECK(hexadecimal_of(first_event(1700000000.5)) ==
          "1800000000000000a37f4b2209000020"
          "40fc54d9411a0d627261696e2e457665"
          "6e743a322b353110");
    CHECK(hexadecimal_of(scalar_event(1700000001.25, 300,
                                      {{"train/loss", 1.5}, {"validation/loss", -0.25}})) ==
          "39000000000000008b0737f109000050"
          "40fc54d94110ac022a2b0a110a0a7472"
          "61696e2f6c6f7373150000c03f0a160a"
          "0f76616c69646174696f6e2f6c6f7373"
          "15000080be97841295");
  }
}
