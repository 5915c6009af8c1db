// Random numbers as functions of a key and a counter (Philox 4x32-10; Salmon et al. 2011): the
// same key gives the same numbers on every device, for any number of threads or ranks.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/tensor.hpp"

namespace tete {

// A key is split, never advanced: key.fold("init").fold(3) names one stream for ever.
class Key {
 public:
  explicit constexpr Key(uint64_t seed) : bits_(mix(seed)) {}
  constexpr Key fold(uint64_t number) const {
    return Key(bits_ ^ mix(number + 0x9E3779B97F4A7C15));
  }
  constexpr Key fold(std::string_view name) const {
    uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
    for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return fold(hash);
  }
  constexpr uint64_t bits() const { return bits_; }

 private:
  // The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  uint64_t bits_;
};

// The four words of one Philox block.
struct PhiloxBlock {
  uint32_t words[4];
};
PhiloxBlock philox(uint64_t key, uint64_t counter);
// One number from a key: uniform in [0, 1), or an integer in [0, bound) without bias.
double uniform(Key key, uint64_t counter);
uint64_t uniform_below(Key key, uint64_t counter, uint64_t bound);

// Tensors in row-major order of their logical coordinates, element i from counter `first` + i.
Tensor random_uniform(const Shape& shape, Key key, Dtype dtype = Dtype::f32, uint64_t first = 0,
                      Backend& on = cpu());
// Standard normal (Box-Muller in f64, then rounded).
Tensor random_normal(const Shape& shape, Key key, Dtype dtype = Dtype::f32, Backend& on = cpu());
// Standard normal cut at two deviations, by rejection; no variance correction (spec §0: the real
// deviation is 0.8796).
Tensor random_truncated_normal(const Shape& shape, Key key, Dtype dtype = Dtype::f32,
                               Backend& on = cpu());

// x / (1 - rate) where kept, else 0. The noise of element i is counter `first` + i of the key, so
// a batch that is cut anywhere along its first dimension draws the same noise. rate in [0, 1).
Tensor dropout(const Tensor& x, double rate, Key key, uint64_t first = 0);

}  // namespace tete
