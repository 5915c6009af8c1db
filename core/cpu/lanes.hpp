// Vectors of one register, and sums over a fixed number of lanes.
//
// A sum runs over 64 lanes (f32) or 32 (f64) for registers of any width: its order is the same on
// every machine, and no lane adds more than a 64th (32nd) of the row.
#pragma once
#include "core/cpu/number.hpp"
#include "core/cpu/rows.hpp"

namespace tete::cpu_kernels::TETE_ISA {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
inline constexpr int register_count = 32;
#elif defined(__AVX2__)
inline constexpr int register_bytes = 32;
inline constexpr int register_count = 16;
#else
inline constexpr int register_bytes = 16;
inline constexpr int register_count = 16;
#endif

// A register's variable is aligned, wherever a compiler puts it; numbers in memory are read and
// written through the type that asks for no alignment.
typedef float FloatRegister __attribute__((vector_size(register_bytes)));
typedef double DoubleRegister __attribute__((vector_size(register_bytes)));
typedef float FloatsInMemory __attribute__((vector_size(register_bytes), aligned(4), may_alias));
typedef double DoublesInMemory __attribute__((vector_size(register_bytes), aligned(8), may_alias));
template <class T>
struct RegisterOf {
  using type = FloatRegister;
  using in_memory = FloatsInMemory;
};
template <>
struct RegisterOf<double> {
  using type = DoubleRegister;
  using in_memory = DoublesInMemory;
};
template <class T>
using Register = typename RegisterOf<T>::type;
template <class T>
using InMemory = typename RegisterOf<T>::in_memory;
template <class T>
inline constexpr int width = register_bytes / static_cast<int>(sizeof(T));

template <class T>
TETE_INLINE Register<T> load(const T* x) {
  return *reinterpret_cast<const InMemory<T>*>(x);
}
template <class T>
TETE_INLINE void store(T* y, const Register<T>& v) {
  *reinterpret_cast<InMemory<T>*>(y) = v;
}
// The first n numbers of a register, which may be none or all; the others are 0.
template <class T>
TETE_INLINE Register<T> load_part(const T* x, Index n) {
  if (n >= width<T>) return load(x);
  Register<T> part = {};
  for (Index i = 0; i < n; ++i) part[i] = x[i];
  return part;
}
template <class T>
TETE_INLINE void store_part(T* y, const Register<T>& v, Index n) {
  if (n >= width<T>) return store<T>(y, v);
  for (Index i = 0; i < n; ++i) y[i] = v[i];
}
template <class T>
TETE_INLINE Register<T> all_lanes(T v) {
  return v - Register<T>{};
}

// A row's register from place i on; its stride is 1, or 0 for one number in all places.
template <class T>
TETE_INLINE Register<T> factor(const T* x, Index stride, Index i) {
  return stride == 0 ? all_lanes(*x) : load(x + i);
}

template <class T>
inline constexpr int lanes = 256 / static_cast<int>(sizeof(T));

// The sum of `count` numbers (a power of two) as a balanced tree; they are overwritten.
template <class T>
TETE_INLINE T sum_of_lanes(T* lane, int count) {
  for (int half = count / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

// All lanes of one register joined, as a balanced tree.
template <class T, class Join>
TETE_INLINE T joined_lanes(Register<T> v, const Join& join) {
#define TETE_JOIN_BEHIND(...) v = join(v, __builtin_shufflevector(v, v, __VA_ARGS__))
  if constexpr (width<T> == 16)
    TETE_JOIN_BEHIND(8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
  if constexpr (width<T> == 16) TETE_JOIN_BEHIND(4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
  if constexpr (width<T> == 16) TETE_JOIN_BEHIND(2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3);
  if constexpr (width<T> == 8) TETE_JOIN_BEHIND(4, 5, 6, 7, 4, 5, 6, 7);
  if constexpr (width<T> == 8) TETE_JOIN_BEHIND(2, 3, 2, 3, 2, 3, 2, 3);
  if constexpr (width<T> == 4) TETE_JOIN_BEHIND(2, 3, 2, 3);
#undef TETE_JOIN_BEHIND
  return join(T(v[0]), T(v[1]));
}

// The terms of i < n joined, in fixed lanes that begin as `none`. `whole(i)` gives the register of
// terms i, i+1, …
template <class T, class Join, class Whole, class Term>
TETE_INLINE T joined_terms(Index n, T none, const Join& join, const Whole& whole,
                           const Term& term) {
  constexpr int registers = lanes<T> / width<T>;
  Register<T> total[registers];  // loops over it are unrolled, so that it needs no memory
#pragma GCC unroll 16
  for (int r = 0; r < registers; ++r) total[r] = all_lanes(none);
  Index i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) {
#pragma GCC unroll 16
    for (int r = 0; r < registers; ++r) total[r] = join(total[r], whole(i + r * width<T>));
  }
  if (i < n) {
    T lane[lanes<T>];
#pragma GCC unroll 16
    for (int r = 0; r < registers; ++r) store<T>(lane + r * width<T>, total[r]);
    for (int l = 0; i < n; ++i, ++l) lane[l] = join(lane[l], term(i));
#pragma GCC unroll 16
    for (int r = 0; r < registers; ++r) total[r] = load(lane + r * width<T>);
  }
#pragma GCC unroll 5
  for (int half = registers / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int r = 0; r < half; ++r) total[r] = join(total[r], total[r + half]);
  return joined_lanes<T>(total[0], join);
}

// Σ term(i) over i < n.
template <class T, class Whole, class Term>
TETE_INLINE T lane_sum(Index n, const Whole& whole, const Term& term) {
  return joined_terms<T>(
      n, T(0), [](auto a, auto b) { return a + b; }, whole, term);
}

// Σ x[i] and Σ a[i] b[i] over i < n.
template <class T>
TETE_INLINE T dense_sum(const T* x, Index n) {
  return lane_sum<T>(
      n, [=](Index i) { return load(x + i); }, [=](Index i) { return x[i]; });
}
template <class T>
TETE_INLINE T dense_dot(const T* a, const T* b, Index n) {
  return lane_sum<T>(
      n, [=](Index i) { return load(a + i) * load(b + i); }, [=](Index i) { return a[i] * b[i]; });
}

}  // namespace tete::cpu_kernels::TETE_ISA
