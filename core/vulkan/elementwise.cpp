// Elementwise operations, fills, copies and random numbers.
#include <bit>
#include <cmath>
#include <limits>

#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

// True if GLSL has the functions of doubles that the row takes.
bool has_doubles(Unary op) {
  switch (op) {
    case Unary::neg:
    case Unary::sqrt:
    case Unary::rsqrt:
    case Unary::square:
    case Unary::reciprocal:
    case Unary::abs:
    case Unary::relu:
    case Unary::step:
    case Unary::floor:
      return true;
    default:
      return false;
  }
}

}  // namespace

void CardBackend::elements(Kind kind, uint32_t op, const std::vector<const View*>& inputs,
                           const View& y, const View* rate) {
  std::array<const View*, 5> views;
  views.fill(inputs[0]);
  std::copy(inputs.begin(), inputs.end(), views.begin());
  views[4] = &y;
  const auto windows = windows_of<5>(views);
  const Window scalar = rate ? window_of(*rate) : windows[0];
  std::vector<Bound> buffers = bound(windows);
  buffers.push_back(scalar.read());
  const auto add_rate = [&](Words& words, Index) { words.add(scalar.first); };
  run_over<5>(collapse(loops_of<5>(views), 4), windows, in(y.dtype, Shader::elementwise_f32),
              {static_cast<uint32_t>(kind), op}, buffers, add_rate, 1, each_of(y.size()));
}

bool CardBackend::try_unary(Unary op, const View& x, const View& y) {
  if (!has(y.dtype) || (y.dtype == Dtype::f64 && !has_doubles(op))) return false;
  elements(Kind::unary, static_cast<uint32_t>(op), {&x}, y);
  return true;
}

bool CardBackend::try_unary_gradient(Unary op, const View& x, const View& y, const View& g,
                                     const View& dx) {
  if (!has(dx.dtype) || (dx.dtype == Dtype::f64 && !has_doubles(op))) return false;
  elements(Kind::slope, static_cast<uint32_t>(op), {&x, &y, &g}, dx);
  return true;
}

bool CardBackend::try_binary(Binary op, const View& a, const View& b, const View& y) {
  if (!has(y.dtype) || (y.dtype == Dtype::f64 && op == Binary::pow)) return false;
  elements(Kind::binary, static_cast<uint32_t>(op), {&a, &b}, y);
  return true;
}

bool CardBackend::try_select(const View& c, const View& a, const View& b, const View& y) {
  if (has(y.dtype)) elements(Kind::select, 0, {&c, &a, &b}, y);
  return has(y.dtype);
}

bool CardBackend::unary_of_sum(Unary op, const View& a, const View& b, const View& y) {
  if (y.dtype != Dtype::f32) return false;
  elements(Kind::unary_of_sum, static_cast<uint32_t>(op), {&a, &b}, y);
  return true;
}

bool CardBackend::unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y,
                                        const View& g, const View& dsum) {
  if (y.dtype != Dtype::f32) return false;
  elements(Kind::slope_of_sum, static_cast<uint32_t>(op), {&a, &b, &y, &g}, dsum);
  return true;
}

bool CardBackend::accumulate(const View& x, const View& y) {
  if (has(y.dtype)) elements(Kind::add_onto, 0, {&x}, y);
  return has(y.dtype);
}

// ---- Fill and copy ---------------------------------------------------------------------------

namespace {

constexpr uint32_t a_number = 4;  // as copy.comp has it

}  // namespace

bool CardBackend::try_fill(double value, const View& y) {
  if (y.dtype == Dtype::bf16 && !can_.stores_16_bits) return false;
  const auto bits = bits_of(value, y.dtype);
  const Window to = window_of(y);
  const auto add_bits = [&](Words& words, Index) { words.add(bits[0], bits[1]); };
  run_over<2>(collapse(loops_of<2>({&y, &y}), 0), {to, to},
              y.dtype == Dtype::bf16 ? Shader::copy_bf16 : Shader::copy,
              {a_number, static_cast<uint32_t>(y.dtype)}, {to.written(), to.written()}, add_bits, 1,
              each_of(y.size()));
  return true;
}

bool CardBackend::try_copy(const View& x, const View& y) {
  const bool moves = x.dtype == y.dtype,
             takes_doubles = !moves && (x.dtype == Dtype::f64 || y.dtype == Dtype::f64);
  if ((takes_doubles && !can_.f64) || (y.dtype == Dtype::bf16 && !can_.stores_16_bits))
    return false;
  if (takes_doubles && y.dtype == Dtype::bf16) {
    const Temporary between(*this, Dtype::f32, x.shape, row_major(x.shape));
    copy(x, between.view()), copy(between.view(), y);
    return true;
  }
  // A whole number becomes a float in one rounding where there are doubles.
  const bool by_doubles =
      takes_doubles || (can_.f64 && x.dtype == Dtype::i64 && y.dtype == Dtype::f32);
  const auto windows = windows_of<2>({&x, &y});
  const auto add_nothing = [](Words& words, Index) { words.add(0, 0); };
  run_over<2>(collapse(loops_of<2>({&x, &y}), 1), windows,
              y.dtype == Dtype::bf16 ? Shader::copy_bf16
              : by_doubles           ? Shader::copy_f64
                                     : Shader::copy,
              {static_cast<uint32_t>(x.dtype), static_cast<uint32_t>(y.dtype)}, bound(windows),
              add_nothing, 1, each_of(y.size()));
  return true;
}

// ---- Random numbers --------------------------------------------------------------------------

// The smallest uniform number that is at least `rate`, as the processor compares.
static double threshold(double rate, Dtype dtype) {
  const double steps = dtype == Dtype::f32 ? 0x1p24 : 0x1p53;
  return std::ceil(rate * steps) / steps;
}

void CardBackend::random(const View& x, const View& y, bool drops, double rate, uint64_t key,
                         uint64_t first) {
  const auto windows = windows_of<2>({&x, &y});
  std::vector<Bound> buffers = bound(windows);
  buffers[0].writes = !drops;  // it is y
  run_over<2>(merge(loops_of<2>({&x, &y})), windows, in(y.dtype, Shader::random_f32), {drops},
              buffers, [&](Words& words, Index before) {
                const uint64_t count = first + static_cast<uint64_t>(before);
                words.add(key, key >> 32, count, count >> 32);
                for (double number : {threshold(rate, y.dtype), 1 / (1 - rate)})
                  words.add_real(number, y.dtype);
              });
}

bool CardBackend::turn(const View&, const View&, const View&, const View&, const View&,
                       const View&) {
  return false;
}

bool CardBackend::try_uniform(uint64_t key, uint64_t first, const View& y) {
  if (has(y.dtype)) random(y, y, false, 0, key, first);
  return has(y.dtype);
}

bool CardBackend::dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y) {
  if (has(y.dtype)) random(x, y, true, rate, key, first);
  return has(y.dtype);
}

}  // namespace tete::vulkan
