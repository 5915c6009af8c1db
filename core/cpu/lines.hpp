// Rows of numbers of stride 1, memory for some, and how they are fetched ahead.
#pragma once
#include <optional>

#include "core/cpu/backend.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {

// Row r begins at data + r·step.
template <class T>
struct Lines {
  T* data;
  Index step;

  T* operator[](Index row) const { return data + row * step; }
  // The same rows from this one on.
  Lines from_row(Index row) const { return {(*this)[row], step}; }
  // The same rows without their first numbers.
  Lines from(Index number) const { return {data + number, step}; }
  Lines<const T> read() const { return {data, step}; }
};

// Kernels that walk along many rows at once ask for numbers this far ahead: a processor fetches by
// itself what a few rows bring, not dozens.
inline constexpr Index far_ahead = 128;

// Asks for numbers first … first + count - 1 of each of these rows, which are needed soon.
// locality: 3 for the first-level cache, 2 for the second-level one. Inlined, as g++ drops calls of
// a function that does nothing but this.
template <int locality = 3, class T>
[[gnu::always_inline]] inline void fetch(const Lines<T>& x, Index rows, Index first, Index count) {
  constexpr Index line = 64 / sizeof(T);
  for (Index r = 0; r < rows; ++r)
    for (Index i = first; i < first + count; i += line) __builtin_prefetch(x[r] + i, 0, locality);
}

// Loops over the views without their last `dropped` dimensions: over matrices, or over samples of
// several (3). A view without data gets the offsets of the first one.
template <int N>
Loops<N> outer_loops(const std::array<const View*, N>& views, int dropped = 2) {
  std::array<View, N> first;
  std::array<const View*, N> at;
  for (int i = 0; i < N; ++i) {
    first[i] = views[i]->data ? *views[i] : *views[0];
    for (int d = 1; d < dropped; ++d) first[i].shape.pop_back(), first[i].strides.pop_back();
    at[i] = &first[i];
  }
  return rows_along<N>(at, first[0].rank() - 1);
}

// The rows of a matrix, the last two dimensions of x, at this offset; none if x has no data.
template <class T>
Lines<T> lines_at(const View& x, Index offset) {
  if (!x.data) return {nullptr, 0};
  return {x.as<std::remove_const_t<T>>() + offset, x.strides[x.rank() - 2]};
}

// Memory for rows that are a line of a cache further apart, so that not all fall into the same set;
// for no rows none is taken.
template <class T>
class LineSpace {
 public:
  LineSpace(Index rows, Index numbers) : step_(rounded_up(numbers, whole) + 64 / Index{sizeof(T)}) {
    if (rows > 0) memory_.emplace(static_cast<size_t>(rows * step_) * sizeof(T));
  }
  Lines<T> lines() const { return {memory_ ? memory_->template as<T>() : nullptr, step_}; }
  Lines<const T> read() const { return lines().read(); }

 private:
  static constexpr Index whole = 64;  // product_columns of any registers divide it
  const Index step_;
  std::optional<Scratch> memory_;
};

}  // namespace tete::cpu_kernels
