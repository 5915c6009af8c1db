// Sizes, strides and views: the layout of a tensor in memory. No type here owns memory.
#pragma once
#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <span>
#include <type_traits>

#include "core/dtype.hpp"

namespace tete {

using Index = int64_t;
inline constexpr int max_rank = 16;

// The number of pieces of `size` that `count` is cut into; the last one may be smaller.
template <class T>
constexpr T pieces_of(T count, std::type_identity_t<T> size) {
  return (count + size - 1) / size;
}
// The least multiple of `unit` that is not below `count`.
template <class T>
constexpr T rounded_up(T count, std::type_identity_t<T> unit) {
  return pieces_of(count, unit) * unit;
}

// A short list with its elements in place: shapes, strides and labels never touch the heap.
template <class T>
class Short {
 public:
  constexpr Short() = default;
  constexpr Short(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }
  constexpr Short(int count, T value) {
    for (int i = 0; i < count; ++i) push_back(value);
  }
  explicit constexpr Short(std::span<const T> items) {
    for (const T& item : items) push_back(item);
  }
  constexpr int size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](int i) { return assert(i >= 0 && i < size_), items_[i]; }
  constexpr const T& operator[](int i) const { return assert(i >= 0 && i < size_), items_[i]; }
  constexpr T* begin() { return items_.data(); }
  constexpr T* end() { return items_.data() + size_; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr T& back() { return items_[size_ - 1]; }
  constexpr const T& back() const { return items_[size_ - 1]; }
  constexpr void push_back(T item) {
    if (size_ == max_rank) bad_input("more than ", max_rank, " dimensions in one tensor");
    items_[size_++] = item;
  }
  constexpr void pop_back() { --size_; }
  constexpr void insert(int at, T item) {
    push_back(item);
    std::rotate(begin() + at, end() - 1, end());
  }
  constexpr void erase(int at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  // The position of `item`, or -1.
  constexpr int find(const T& item) const {
    const T* at = std::find(begin(), end(), item);
    return at == end() ? -1 : static_cast<int>(at - begin());
  }
  constexpr bool contains(const T& item) const { return find(item) >= 0; }
  // The other items, in their order.
  constexpr Short without(const T& item) const {
    Short others;
    for (const T& each : *this)
      if (!(each == item)) others.push_back(each);
    return others;
  }
  friend constexpr bool operator==(const Short& a, const Short& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<T, max_rank> items_{};
  int size_ = 0;
};

using Shape = Short<Index>;
using Strides = Short<Index>;  // in elements
using Label = uint8_t;         // a dimension's name inside one operation, as a small number
using Labels = Short<Label>;

// The number of elements. Sizes whose product, zeros aside, is more than 2^60 are too many: strides
// and bytes would not fit in 63 bits. Fails (resource) there, or gives nothing.
Index element_count(const Shape& shape);
std::optional<Index> element_count_that_fits(const Shape& shape);
// Row-major strides: the last dimension is the densest.
Strides row_major(const Shape& shape);
// Dense strides for the memory order `order`, outermost first, a permutation of 0 … rank-1.
Strides dense_strides(const Shape& shape, const Short<int>& order);
// The order of dimensions in memory, outermost (largest stride) first; broadcast ones (stride 0)
// keep their places.
Short<int> memory_order(const Shape& shape, const Strides& strides);

// A window onto memory, without ownership. Kernels read and write Views.
struct View {
  Dtype dtype = Dtype::f32;
  Shape shape;
  Strides strides;
  void* data = nullptr;

  Index size() const { return element_count(shape); }
  int rank() const { return shape.size(); }
  template <class T>
  T* as() const {
    return assert(dtype == dtype_of<T>()), static_cast<T*>(data);
  }
};

// "f32[8, 128, 512]"
std::string describe(Dtype dtype, const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Shape& shape);  // "[8, 128, 512]"

}  // namespace tete
