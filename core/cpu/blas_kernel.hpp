// OpenBLAS holds kernels for many processors: which one it uses, and which one fits this processor.
#pragma once
#include <string>
#include <string_view>

namespace tete::cpu_kernels {

// The widest vectors of a processor, or of a kernel. avx2 and avx512 multiply and add at once.
enum class Vectors { narrow, avx2, avx512 };
Vectors vectors_of_processor();
// A kernel that is not known is taken for a newer one, with the widest vectors.
Vectors vectors_of_kernel(std::string_view kernel);
// `chosen`, unless its vectors are narrower than the processor's.
std::string fitting_kernel(const std::string& chosen, Vectors processor);

// The kernel in use, by OpenBLAS's name ("SkylakeX"), and the one that fits.
std::string blas_kernel();
std::string fitting_blas_kernel();
// True if OPENBLAS_CORETYPE names a kernel.
bool environment_names_kernel();

// False if OpenBLAS does not know the kernel, or was built for one processor. No product may be
// running in any thread.
bool use_blas_kernel(const std::string& name);

// Uses the kernel that fits, unless the environment names one. A program calls this once, before
// its first product; a library must not, since other threads of its program may be multiplying.
void choose_blas_kernel();

}  // namespace tete::cpu_kernels
