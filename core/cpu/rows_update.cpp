// Rows of a parameter's update.
#include "core/cpu/lanes.hpp"
#include "core/cpu/number.hpp"
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tete::cpu_kernels::TETE_ISA {
namespace {

template <class T, class SG, class SM, class SV>
TETE_INLINE void adam_loop(const AdamRow<T>& r, SG sg, SM sm, SV sv, T* __restrict y,
                           T* __restrict m_to, T* __restrict v_to) {
  const AdamNumbers<T>& s = r.numbers;
  for (Index i = 0; i < r.n; ++i) {
    const T g = r.g[i * sg];
    const T m = r.m[i * sm] * s.beta1 + g * s.other1, v = r.v[i * sv] * s.beta2 + g * g * s.other2;
    m_to[i] = m, v_to[i] = v;
    y[i] = r.p[i] * s.keep - s.rate * m / (sqrt(v) * s.unit + s.epsilon);
  }
}
template <class T>
void adam_row(const AdamRow<T>& r) {
  const Fixed<1> one;
  if (r.sg == 1 && r.sm == 1 && r.sv == 1)
    return adam_loop<T>(r, one, one, one, r.y, r.m_to, r.v_to);
  adam_loop<T>(r, r.sg, r.sm, r.sv, r.y, r.m_to, r.v_to);
}

// A factor that a row has one of, or one of for each place.
template <class T>
TETE_INLINE Register<T> factor(const T* a, Index sa, Index i) {
  return sa == 0 ? all_lanes(*a) : load(a + i);
}

template <class T>
T product_squares(const ProductRow<T>& r) {
  const auto one = [&](Index i) {
    const T u = r.g[i * r.sg] * r.a[i * r.sa] * r.b[i * r.sb];
    return u * u;
  };
  if (r.sg == 1 && r.sa <= 1 && r.sb <= 1)
    return lane_sum<T>(
        r.n,
        [&](Index i) {
          const Register<T> u = load(r.g + i) * factor(r.a, r.sa, i) * factor(r.b, r.sb, i);
          return u * u;
        },
        one);
  T lane[lanes<T>] = {};
  for (Index i = 0; i < r.n; ++i) lane[i % lanes<T>] += one(i);
  return sum_of_lanes(lane, lanes<T>);
}

// Past the caches, to where nobody reads soon: what is overwritten is not read first.
#if defined(__AVX512F__)
TETE_INLINE void stream(float* y, const Register<float>& x) {
  _mm512_stream_ps(y, __builtin_bit_cast(__m512, x));
}
TETE_INLINE void stream(double* y, const Register<double>& x) {
  _mm512_stream_pd(y, __builtin_bit_cast(__m512d, x));
}
TETE_INLINE void end_of_stream() { _mm_sfence(); }
#else
template <class T>
TETE_INLINE void stream(T* y, const Register<T>& x) {
  store<T>(y, x);
}
TETE_INLINE void end_of_stream() {}
#endif

template <class T>
void minus_product(const ProductRow<T>& r, const T* p, T rate, T* y, bool past_caches) {
  const auto one = [&](Index i) {
    y[i] = p[i] - rate * (r.g[i * r.sg] * r.a[i * r.sa] * r.b[i * r.sb]);
  };
  const auto whole = [&](Index i) {
    return load(p + i) - rate * (load(r.g + i) * factor(r.a, r.sa, i) * factor(r.b, r.sb, i));
  };
  Index i = 0;
  if (r.sg == 1 && r.sa <= 1 && r.sb <= 1) {
    if (past_caches && reinterpret_cast<uintptr_t>(y) % register_bytes == 0) {
      for (; i + width<T> <= r.n; i += width<T>) stream(y + i, whole(i));
      end_of_stream();
    }
    for (; i + width<T> <= r.n; i += width<T>) store<T>(y + i, whole(i));
  }
  for (; i < r.n; ++i) one(i);
}

template <class T>
void fill(Rows<T>& rows) {
  rows.adam = adam_row<T>;
  rows.product_squares = product_squares<T>;
  rows.minus_product = minus_product<T>;
}

}  // namespace

void fill_update(Rows<float>& rows) { fill(rows); }
void fill_update(Rows<double>& rows) { fill(rows); }

}  // namespace tete::cpu_kernels::TETE_ISA
