// Products of bf16 numbers by a card's units for them: whether there are any that make the right
// numbers, and how operands are brought into the range of fp16.
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.hpp"
#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

// Small whole numbers times powers of two: their products have sums that f32 holds, so that only
// one result is right.
float number(Index i) { return std::ldexp(float(i * 7 % 13 - 6), static_cast<int>(i % 5) - 2); }

std::vector<Bf16> numbers(Index count, Index first) {
  std::vector<Bf16> all;
  for (Index i = 0; i < count; ++i)
    all.push_back({static_cast<uint16_t>(std::bit_cast<uint32_t>(number(first + i)) >> 16)});
  return all;
}

}  // namespace

const Units* CardBackend::units_for(const Product& p) {
  std::call_once(tests_units_, [&] {
    for (const Units& each : can_.units) {
      if (units_) continue;
      try {
        if (are_right(each)) units_ = each;
      } catch (const Error&) {  // the driver does not make the kernel
      }
    }
  });
  const bool fills =
      units_ && p.m.size() >= units_->m && p.n.size() >= units_->n && p.k.size() >= units_->k;
  return fills ? &*units_ : nullptr;
}

// A product of sizes that fill no tile, against sums that are taken here. Drivers have had units
// that made other numbers.
bool CardBackend::are_right(const Units& units) {
  constexpr Index m = 67, n = 71, k = 83;
  const auto a = numbers(m * k, 0), b = numbers(k * n, 3);
  const Temporary A(*this, Dtype::bf16, {m, k}, {k, 1}), B(*this, Dtype::bf16, {k, n}, {n, 1}),
      Y(*this, Dtype::f32, {m, n}, {n, 1});
  write(a.data(), A.view().data, a.size() * sizeof(Bf16));
  write(b.data(), B.view().data, b.size() * sizeof(Bf16));
  multiply_matrices(A.view(), {0, 2}, B.view(), {2, 1}, Y.view(), {0, 1}, &units);
  std::vector<float> y(m * n);
  stream_.read(std::array{Reading{Y.view().data, y.data(), y.size() * sizeof(float)}});
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      float sum = 0;
      for (Index q = 0; q < k; ++q) sum += number(i * k + q) * number(3 + q * n + j);
      if (y[static_cast<size_t>(i * n + j)] != sum) return false;
    }
  return true;
}

std::string CardBackend::why_bf16_is_no_faster() {
  if (can_.units.empty()) return "has no products of bfloat16";
  units_for({});
  return units_ ? "" : "has units for products of 16 bits, but a test found wrong numbers";
}

Temporary CardBackend::largest_of(const View& A, const View& B) {
  Temporary largest(*this, Dtype::f32, {2}, {1});
  const Window to = window_of(largest.view());
  stream_.fill(largest.view().data, 2 * sizeof(float), 0);
  for (const View* const x : {&A, &B}) {
    const Window from = window_of(*x);
    run_over<1>(merge(loops_of<1>({x})), {from}, Shader::largest, {}, {from.read(), to.written()},
                [&](Words& words, Index) { words.add(x == &A ? 0 : 1); });
  }
  return largest;
}

}  // namespace tete::vulkan
