// Elementwise operations, fills, copies and random numbers.
#include <bit>
#include <cmath>
#include <limits>

#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

const char* const unary_names[] = {
#define UNARY(name, value, gradient, low, high) #name,
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
};

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

std::string named(const char* name, Dtype dtype) { return text(name, " in ", name_of(dtype)); }
std::string named(Unary op, Dtype dtype, const char* what = "") {
  return named((unary_names[static_cast<int>(op)] + std::string(what)).c_str(), dtype);
}

}  // namespace

void CardBackend::elements(Kind kind, uint32_t op, const std::vector<const View*>& inputs,
                           const View& y, const View* rate) {
  if (y.size() == 0) return;
  std::array<const View*, 5> views;
  views.fill(inputs[0]);
  std::copy(inputs.begin(), inputs.end(), views.begin());
  views[4] = &y;
  const auto windows = windows_of<5>(views);
  const Window scalar = rate ? window_of(*rate) : windows[0];
  const Shader shader = y.dtype == Dtype::f64 ? Shader::elementwise_f64 : Shader::elementwise_f32;
  for_each_part(collapse(loops_of<5>(views), 4), 4,
                [&](const Loops<5>& inner, const auto& at, Index) {
                  Call call = call_for<5>(shader, inner, windows, at);
                  call.constants.push_back(static_cast<uint32_t>(kind));
                  call.constants.push_back(op);
                  call.words.add(scalar.first);
                  for (size_t v = 0; v < 4; ++v) call.buffers.push_back(windows[v].read());
                  call.buffers.push_back(windows[4].written());
                  call.buffers.push_back(scalar.read());
                  stream_.run(call);
                });
}

void CardBackend::unary(Unary op, const View& x, const View& y) {
  if (has(y.dtype) && (y.dtype == Dtype::f32 || has_doubles(op)))
    return elements(Kind::unary, static_cast<uint32_t>(op), {&x}, y);
  on_processor(named(op, y.dtype), {x}, {y},
               [op](const Views& in, const Views& out) { cpu().unary(op, in[0], out[0]); });
}

void CardBackend::unary_gradient(Unary op, const View& x, const View& y, const View& g,
                                 const View& dx) {
  if (has(dx.dtype) && (dx.dtype == Dtype::f32 || has_doubles(op)))
    return elements(Kind::slope, static_cast<uint32_t>(op), {&x, &y, &g}, dx);
  on_processor(named(op, dx.dtype, "'s gradient"), {x, y, g}, {dx},
               [op](const Views& in, const Views& out) {
                 cpu().unary_gradient(op, in[0], in[1], in[2], out[0]);
               });
}

void CardBackend::binary(Binary op, const View& a, const View& b, const View& y) {
  if (has(y.dtype) && (y.dtype == Dtype::f32 || op != Binary::pow))
    return elements(Kind::binary, static_cast<uint32_t>(op), {&a, &b}, y);
  on_processor(named("arithmetic", y.dtype), {a, b}, {y},
               [op](const Views& in, const Views& out) { cpu().binary(op, in[0], in[1], out[0]); });
}

void CardBackend::select(const View& c, const View& a, const View& b, const View& y) {
  if (has(y.dtype)) return elements(Kind::select, 0, {&c, &a, &b}, y);
  on_processor(named("select", y.dtype), {c, a, b}, {y}, [](const Views& in, const Views& out) {
    cpu().select(in[0], in[1], in[2], out[0]);
  });
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
  if (!has(y.dtype)) return false;
  elements(Kind::add_onto, 0, {&x}, y);
  return true;
}

// ---- Fill and copy ---------------------------------------------------------------------------

namespace {

constexpr uint32_t a_number = 4;  // as copy.comp has it

// The bits of a number in a type, in one word or two.
std::array<uint32_t, 2> bits_of(double value, Dtype dtype) {
  if (dtype == Dtype::f32) return {std::bit_cast<uint32_t>(static_cast<float>(value)), 0};
  if (dtype == Dtype::bf16) {
    const View from{Dtype::f64, {}, {}, &value};
    uint16_t half = 0;
    cpu().copy(from, {Dtype::bf16, {}, {}, &half});
    return {half, 0};
  }
  uint64_t bits = std::bit_cast<uint64_t>(value);
  if (dtype == Dtype::i64) cpu().fill(value, {Dtype::i64, {}, {}, &bits});
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

}  // namespace

void CardBackend::fill(double value, const View& y) {
  if (y.size() == 0) return;
  if (y.dtype == Dtype::bf16 && !can_.stores_16_bits)
    return on_processor(named("fill", y.dtype), {}, {y},
                        [value](const Views&, const Views& out) { cpu().fill(value, out[0]); });
  const auto bits = bits_of(value, y.dtype);
  const Window to = window_of(y);
  const Shader shader = y.dtype == Dtype::bf16 ? Shader::copy_bf16 : Shader::copy;
  for_each_part(collapse(loops_of<2>({&y, &y}), 0), 4,
                [&](const Loops<2>& inner, const auto& at, Index) {
                  Call call = call_for<2>(shader, inner, {to, to}, at);
                  call.constants.push_back(a_number);
                  call.constants.push_back(static_cast<uint32_t>(y.dtype));
                  for (uint32_t word : bits) call.words.add(word);
                  call.buffers = {to.written(), to.written()};
                  stream_.run(call);
                });
}

void CardBackend::copy(const View& x, const View& y) {
  if (y.size() == 0) return;
  const bool moves = x.dtype == y.dtype,
             takes_doubles = !moves && (x.dtype == Dtype::f64 || y.dtype == Dtype::f64);
  if (takes_doubles && can_.f64 && y.dtype == Dtype::bf16) {
    const Temporary between(*this, Dtype::f32, x.shape, row_major(x.shape));
    copy(x, between.view());
    return copy(between.view(), y);
  }
  if ((takes_doubles && !can_.f64) || (y.dtype == Dtype::bf16 && !can_.stores_16_bits))
    return on_processor(text("copy of ", name_of(x.dtype), " to ", name_of(y.dtype)), {x}, {y},
                        [](const Views& in, const Views& out) { cpu().copy(in[0], out[0]); });
  // A whole number becomes a float in one rounding where there are doubles.
  const bool by_doubles =
      takes_doubles || (can_.f64 && x.dtype == Dtype::i64 && y.dtype == Dtype::f32);
  const Shader shader = y.dtype == Dtype::bf16 ? Shader::copy_bf16
                        : by_doubles           ? Shader::copy_f64
                                               : Shader::copy;
  const auto windows = windows_of<2>({&x, &y});
  for_each_part(collapse(loops_of<2>({&x, &y}), 1), 4,
                [&](const Loops<2>& inner, const auto& at, Index) {
                  Call call = call_for<2>(shader, inner, windows, at);
                  call.constants.push_back(static_cast<uint32_t>(x.dtype));
                  call.constants.push_back(static_cast<uint32_t>(y.dtype));
                  for (uint32_t word : {0, 0}) call.words.add(word);
                  call.buffers = {windows[0].read(), windows[1].written()};
                  stream_.run(call);
                });
}

// ---- Random numbers --------------------------------------------------------------------------

namespace {

// The smallest uniform number that is at least `rate`, as the processor compares.
double threshold(double rate, Dtype dtype) {
  const double steps = dtype == Dtype::f32 ? 0x1p24 : 0x1p53;
  return std::ceil(rate * steps) / steps;
}

Call random_call(const Loops<2>& inner, const std::array<Window, 2>& windows,
                 const std::array<Index, 2>& at, Dtype dtype, bool drops, uint64_t key,
                 uint64_t first) {
  const Shader shader = dtype == Dtype::f64 ? Shader::random_f64 : Shader::random_f32;
  Call call = call_for<2>(shader, inner, windows, at);
  call.constants.push_back(drops);
  for (uint64_t word : {key, key >> 32, first, first >> 32}) call.words.add(word);
  call.buffers = {drops ? windows[0].read() : windows[1].written(), windows[1].written()};
  return call;
}

}  // namespace

void CardBackend::uniform(uint64_t key, uint64_t first, const View& y) {
  if (y.size() == 0) return;
  if (!has(y.dtype))
    return on_processor(named("uniform", y.dtype), {}, {y},
                        [=](const Views&, const Views& out) { cpu().uniform(key, first, out[0]); });
  const Window to = window_of(y);
  for_each_part(merge(loops_of<2>({&y, &y})), 4,
                [&](const Loops<2>& inner, const auto& at, Index before) {
                  stream_.run(random_call(inner, {to, to}, at, y.dtype, false, key,
                                          first + static_cast<uint64_t>(before)));
                });
}

bool CardBackend::dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y) {
  if (!has(y.dtype)) return false;
  if (y.size() == 0) return true;
  const auto windows = windows_of<2>({&x, &y});
  const double least = threshold(rate, y.dtype), scale = 1 / (1 - rate);
  for_each_part(merge(loops_of<2>({&x, &y})), 4,
                [&](const Loops<2>& inner, const auto& at, Index before) {
                  Call call = random_call(inner, windows, at, y.dtype, true, key,
                                          first + static_cast<uint64_t>(before));
                  for (double number : {least, scale})
                    if (y.dtype == Dtype::f64) call.words.add(number);
                    else call.words.add(static_cast<float>(number));
                  stream_.run(call);
                });
  return true;
}

}  // namespace tete::vulkan
