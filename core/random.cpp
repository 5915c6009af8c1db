#include "core/random.hpp"

#include <cmath>
#include <numbers>

#include "core/ops.hpp"
#include "core/philox.hpp"

namespace tete {

// Draws for one element use counters element · 64, …+1, …+2: a rejected draw takes the next one and
// changes no other element.
static constexpr uint64_t draws_per_element = 64;

static double to_unit(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
}

// Box-Muller: two uniform numbers make one normal one.
static double normal(uint64_t key, uint64_t counter) {
  const PhiloxBlock block = philox(key, counter);
  const double u = 1.0 - to_unit(block.words[0], block.words[1]);  // in (0, 1]
  const double v = to_unit(block.words[2], block.words[3]);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

static double truncated_normal(uint64_t key, uint64_t element) {
  for (uint64_t draw = 0; draw < draws_per_element; ++draw)
    if (const double z = normal(key, element * draws_per_element + draw); std::fabs(z) <= 2.0)
      return z;
  return 0.0;  // after 64 rejections of probability 0.046
}

template <class Draw>
static Tensor drawn(const Shape& shape, Dtype dtype, Backend& on, Draw draw) {
  return visit(dtype, [&]<class T>() {
    std::vector<T> numbers(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(draw(i));
    return Tensor::of(shape, std::span<const T>(numbers), on);
  });
}

double uniform(Key key, uint64_t counter) {
  const PhiloxBlock block = philox(key.bits(), counter);
  return to_unit(block.words[0], block.words[1]);
}

// Rejects those of a block's 2^64 numbers that are past the last whole multiple of `bound`.
uint64_t uniform_below(Key key, uint64_t counter, uint64_t bound) {
  if (bound == 0) bad_input("uniform_below: expected a bound of at least 1, got 0");
  const uint64_t excess = (UINT64_MAX % bound + 1) % bound;
  for (uint64_t draw = 0;; ++draw) {
    const PhiloxBlock block = philox(key.fold(draw).bits(), counter);
    const uint64_t number = (uint64_t{block.words[0]} << 32) | block.words[1];
    if (number <= UINT64_MAX - excess) return number % bound;
  }
}

Tensor random_uniform(const Shape& shape, Key key, Dtype dtype, uint64_t first, Backend& on) {
  Tensor made = Tensor::empty(shape, dtype, on);
  made.backend().uniform(key.bits(), first, made.view());
  return made;
}

Tensor random_normal(const Shape& shape, Key key, Dtype dtype, Backend& on) {
  return drawn(shape, dtype, on, [key](uint64_t i) { return normal(key.bits(), i); });
}

Tensor random_truncated_normal(const Shape& shape, Key key, Dtype dtype, Backend& on) {
  return drawn(shape, dtype, on, [key](uint64_t i) { return truncated_normal(key.bits(), i); });
}

static Tensor dropped(const Tensor& x, double rate, Key key, uint64_t first) {
  const Tensor y = Tensor::empty_like(x);
  if (x.backend().dropout(x.view(), rate, key.bits(), first, y.view())) return y;
  const Tensor noise = random_uniform(x.shape(), key, x.dtype(), first, x.backend());
  const Tensor is_dropped = less(noise, Tensor::repeated_like(x, rate));
  return select(is_dropped, Tensor::repeated_like(x, 0), x * (1 / (1 - rate)));
}

// Linear in x, so its gradient is the same operation on g.
Tensor dropout(const Tensor& x, double rate, Key key, uint64_t first) {
  if (!(rate >= 0 && rate < 1)) bad_input("dropout: expected a rate in [0, 1), got ", rate);
  if (rate == 0) return x;
  const Tensor y = dropped(x.detach(), rate, key, first);
  return record(
      "dropout", y, {x},
      [rate, key, first](const Backward& at) -> Tensors {
        return {dropout(at.g, rate, key, first)};
      },
      saves_nothing);
}

}  // namespace tete
