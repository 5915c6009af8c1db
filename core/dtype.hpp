// The types of a tensor's elements. A Dtype is a run-time value; templates live in kernel files,
// behind `visit`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/bf16.hpp"
#include "core/error.hpp"

namespace tete {

enum class Dtype : uint8_t {
  f32,
  f64,
  i64,   // indices: they carry no gradient and take part in no arithmetic
  bf16,  // f32 numbers, rounded for products of matrices: contract() takes them, no arithmetic does
};

constexpr size_t size_of(Dtype t) { return t == Dtype::bf16 ? 2 : t == Dtype::f32 ? 4 : 8; }
constexpr const char* name_of(Dtype t) {
  return t == Dtype::f32 ? "f32" : t == Dtype::f64 ? "f64" : t == Dtype::i64 ? "i64" : "bf16";
}
constexpr bool is_real(Dtype t) { return t == Dtype::f32 || t == Dtype::f64; }
constexpr double epsilon(Dtype t) {
  return t == Dtype::f32 ? std::numeric_limits<float>::epsilon()
                         : std::numeric_limits<double>::epsilon();
}
// The largest difference that two right computations of a result of size `scale` may have.
constexpr double tolerance(Dtype t, double scale = 1.0) { return 32 * epsilon(t) * scale; }

template <class T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return Dtype::f32;
  if constexpr (std::is_same_v<T, double>) return Dtype::f64;
  if constexpr (std::is_same_v<T, Bf16>) return Dtype::bf16;
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Bf16> ||
                std::is_same_v<T, int64_t>);
  return Dtype::i64;
}

// visit(t, []<class T>() { … }): runs the body with T = float or double.
template <class F>
decltype(auto) visit(Dtype t, F&& body) {
  switch (t) {
    case Dtype::f32:
      return body.template operator()<float>();
    case Dtype::f64:
      return body.template operator()<double>();
    default:
      bad_input("expected real numbers (f32 or f64), got ", name_of(t));
  }
}

}  // namespace tete
