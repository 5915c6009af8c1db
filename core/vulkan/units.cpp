// Products of bf16 numbers by a card's units for them: whether there are any that make the right
// numbers, and how operands are brought into the range of fp16.
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/cpu/contract.hpp"
#include "core/error.hpp"
#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

// Small whole numbers times powers of two: their products have sums that f32 holds, so that only
// one result is right.
std::vector<Bf16> test_numbers(Index count, Index first) {
  std::vector<Bf16> all;
  for (Index i = first; i < first + count; ++i) {
    const float x = std::ldexp(float(i * 7 % 13 - 6), static_cast<int>(i % 5) - 2);
    all.push_back({static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16)});
  }
  return all;
}
float value_of(const std::vector<Bf16>& all, Index i) {
  return std::bit_cast<float>(uint32_t{all[static_cast<size_t>(i)].bits} << 16);
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

// All tiles, in both orders in which they are read, and of sides that are whole matrices and
// others. Drivers have had units that made other numbers.
bool CardBackend::are_right(const Units& units) {
  // Large enough for 64 x 64, 64 x 128 and 256 x 128 of units_tiling_for.
  for (const Index size :
       can_.is_emulated() ? std::vector<Index>{64} : std::vector<Index>{64, 1536, 2048})
    for (const Index more : {0, 3})
      for (const bool turned : {false, true})
        if (!is_right(units, 2 * size + more, size + 5 * more, 96 - more, turned)) return false;
  return true;
}

// Rows of one product, of operands that are transposed in memory if `turned`, against sums that are
// taken here.
bool CardBackend::is_right(const Units& units, Index m, Index n, Index k, bool turned) {
  const Strides of_a = turned ? Strides{1, m} : Strides{k, 1},
                of_b = turned ? Strides{1, k} : Strides{n, 1};
  const auto a = test_numbers(m * k, 0), b = test_numbers(k * n, 3);
  const Temporary A(*this, Dtype::bf16, {m, k}, of_a), B(*this, Dtype::bf16, {k, n}, of_b),
      Y(*this, Dtype::f32, {m, n}, {n, 1});
  write(a.data(), A.view().data, a.size() * sizeof(Bf16));
  write(b.data(), B.view().data, b.size() * sizeof(Bf16));
  const Labels left{0, 2}, right{2, 1}, result{0, 1};
  const Product p = product_of(cpu_kernels::grouped(
      cpu_kernels::dimensions(A.view(), left, B.view(), right, Y.view(), result)));
  multiply_matrices(p, A.view(), left, B.view(), right, Y.view(), result, &units);
  std::vector<float> y(static_cast<size_t>(m * n)), line(static_cast<size_t>(n));
  stream_.read(std::array{Reading{Y.view().data, y.data(), y.size() * sizeof(float)}});
  for (Index i = 0; i < m; i += m / 64 | 1) {
    std::fill(line.begin(), line.end(), 0.0f);
    for (Index q = 0; q < k; ++q) {
      const float x = value_of(a, i * of_a[0] + q * of_a[1]);
      for (Index j = 0; j < n; ++j)
        line[static_cast<size_t>(j)] += x * value_of(b, q * of_b[0] + j * of_b[1]);
    }
    if (!std::equal(line.begin(), line.end(), y.begin() + i * n)) return false;
  }
  return true;
}

std::string CardBackend::why_bf16_is_no_faster() {
  if (can_.units.empty()) return "has no products of bfloat16";
  units_for({});
  return units_ ? "" : "has units for products of 16 bits, but a test found wrong numbers";
}

Temporary CardBackend::largest_of(const Product& p, const Loops<3>& own, size_t operand,
                                  const Window& x) {
  Loops<3> kept;  // the result, and the operand twice
  for (const Loops<3>* const loops : {&p.batch, &own})
    for (int d = 0; d < loops->shape.size(); ++d) {
      kept.shape.push_back(loops->shape[d]);
      for (size_t v : {1, 2}) kept.strides[v].push_back(loops->strides[operand][d]);
    }
  kept.strides[0] = row_major(kept.shape);
  const Strides& along = p.k.strides[operand];
  Temporary largest(*this, Dtype::f32, kept.shape, kept.strides[0]);
  fold_loops(1, Shader::fold_size, collapse(kept, 1), {p.k.shape, {along, along}}, x, x,
             largest.view());
  return largest;
}

}  // namespace tete::vulkan
