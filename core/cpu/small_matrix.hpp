// Contractions in which small matrices meet long rows, their dimensions merged.
#pragma once
#include "core/cpu/product.hpp"

namespace tete::cpu_kernels {

// A or B is the small matrix: a product that moves more numbers than it multiplies.
bool is_mix(const Groups& groups);
// A, B and Y are matrices at each place of a row.
bool is_lane_product(const Groups& groups);
template <class T>
void lane_product(const Groups& groups, const T* A, const T* B, T* Y);
// Y is the small matrix.
bool is_pair(const Groups& groups);
template <class T>
void pair(const Groups& groups, const T* A, const T* B, T* Y);

}  // namespace tete::cpu_kernels
