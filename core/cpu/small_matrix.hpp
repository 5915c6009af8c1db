// Contractions in which a small matrix meets long rows. Both say whether the contraction was one
// of theirs, and has been computed.
#pragma once
#include "core/cpu/product.hpp"

namespace tete::cpu_kernels {

// B is the small matrix.
template <class T>
bool mix(const Groups& groups, const T* A, const T* B, T* Y);
// Y is the small matrix.
template <class T>
bool pair(const Groups& groups, const T* A, const T* B, T* Y);

}  // namespace tete::cpu_kernels
