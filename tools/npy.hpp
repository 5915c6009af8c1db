// NumPy's .npy files: one array of f4 or f8, in C or Fortran order.
//   \x93NUMPY, version, header length, then a Python dictionary as text:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// Versions 1.0, 2.0 and 3.0 are read, with headers of up to 64 KB; 1.0 is written. Nothing is
// allocated by a size that the file has not been shown to hold.
#pragma once
#include <string>

#include "core/tensor.hpp"

namespace tete {

// Fails with one sentence that names the file: not there, not .npy, truncated, big-endian,
// structured or of another type, more bytes or fewer than the shape says.
Tensor read_npy(const std::string& path);
// In C order, f32 or f64; complete or not at all. Fails (resource) naming the file.
void write_npy(const std::string& path, const Tensor& x);

}  // namespace tete
