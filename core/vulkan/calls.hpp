// How kernels speak of views to shaders: as the bytes that are bound and, in the words of a call,
// first elements and steps. A shader takes few dimensions; those beyond them are loops here.
#pragma once
#include "core/cpu/walk.hpp"
#include "core/storage.hpp"
#include "core/vulkan/stream.hpp"

namespace tete::vulkan {

using cpu_kernels::collapse;
using cpu_kernels::Loops;
using cpu_kernels::loops_of;
using cpu_kernels::merge;

// The bytes of a view's elements, from a multiple of `piece` on, and the number of its first
// element in them.
struct Window {
  const void* from;
  size_t bytes;
  Index first;

  // The same window from a later element on.
  Window after(Index elements) const { return {from, bytes, first + elements}; }
  Bound read() const { return {from, bytes, false}; }
  Bound written() const { return {from, bytes, true}; }
};
Window window_of(const View& view);

// body(inner, offsets, before): the inner dimensions, at most `rank`, at each place of the others;
// `before` elements come first.
template <int N, class Body>
void for_each_part(const Loops<N>& loops, int rank, const Body& body) {
  Loops<N> outer, inner;
  const int cut = std::max(0, loops.shape.size() - rank);
  for (int d = 0; d < loops.shape.size(); ++d) {
    Loops<N>& to = d < cut ? outer : inner;
    to.shape.push_back(loops.shape[d]);
    for (int v = 0; v < N; ++v) to.strides[v].push_back(loops.strides[v][d]);
  }
  outer.shape.push_back(1);
  for (Strides& s : outer.strides) s.push_back(0);
  const Index size = element_count(inner.shape);
  if (size == 0) return;
  cpu_kernels::RowCursor<N> at(outer, 0);
  for (Index i = 0; i < outer.rows(); ++i, at.next()) body(inner, at.offsets(), i * size);
}

// `rank` numbers, after as many of `lead` as are missing.
template <class Numbers>
void add_padded(Words& words, const Numbers& numbers, int rank, Index lead) {
  for (int d = numbers.size(); d < rank; ++d) words.add(lead);
  for (Index number : numbers) words.add(number);
}

// Binds the windows of a call that reads all but the last, and writes that.
template <size_t N>
std::vector<Bound> bound(const std::array<Window, N>& windows) {
  std::vector<Bound> all;
  for (const Window& each : windows) all.push_back(each.read());
  all.back().writes = true;
  return all;
}

template <int N>
std::array<Window, N> windows_of(const std::array<const View*, N>& views) {
  std::array<Window, N> windows;
  for (size_t v = 0; v < N; ++v) windows[v] = window_of(*views[v]);
  return windows;
}

// Memory of the device for one kernel's own use. It may be given back before the kernel runs:
// whoever takes it next is behind it in the stream.
class Temporary {
 public:
  Temporary(Backend& on, Dtype dtype, const Shape& shape, const Strides& strides)
      : memory_(on, static_cast<size_t>(std::max<Index>(1, element_count(shape))) * size_of(dtype)),
        view_{dtype, shape, strides, memory_.data()} {}
  const View& view() const { return view_; }

 private:
  Storage memory_;
  View view_;
};

// The bits of a number in a type, in one word or two.
inline std::array<uint32_t, 2> bits_of(double value, Dtype dtype) {
  uint64_t bits = 0;
  cpu().fill(value, {dtype, {}, {}, &bits});
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

}  // namespace tete::vulkan
