// Products and sums in registers alone: the highest rate that this processor reaches.
#include "core/cpu/lanes.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

// Two units that take four cycles, or five, for a product and a sum are kept busy by ten of them
// that do not wait for each other; registers are left for both constants.
constexpr int sums = 12;

template <class T>
void multiply_add(Index rounds, T* y) {
  const Register<T> half = all_lanes(T(0.5));
  Register<T> sum[sums];
  for (int i = 0; i < sums; ++i) sum[i] = load(y + i * width<T>);
  for (Index round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < sums; ++i) sum[i] = sum[i] * half + half;
  }
  for (int i = 0; i < sums; ++i) store<T>(y + i * width<T>, sum[i]);
}

template <class T>
void fill(Rows<T>& rows) {
  rows.multiply_add = multiply_add<T>;
  rows.multiply_add_numbers = sums * width<T>;
}

}  // namespace

void fill_peak(Rows<float>& rows) { fill(rows); }
void fill_peak(Rows<double>& rows) { fill(rows); }

}  // namespace tete::cpu_kernels::TETE_ISA
