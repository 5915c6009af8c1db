// OpenBLAS recognizes the processors of its own time. One that came later gets a kernel of narrower
// vectors, down to SSE3's: 0.3.21 takes Emerald Rapids and Raptor Lake for a Prescott, and Zen 4
// for a Zen without AVX-512. So this file compares the widths of the vectors, and replaces
// OpenBLAS's own choice if it is narrower than the processor.
//
// There are three ways to change it. cblas.h has none; the environment (OPENBLAS_CORETYPE) is read
// before main, so that a program would have to start itself anew, which leaves valgrind, and leaves
// an emulator for the processor below it (tete does so for OpenMP, but not where its bound is set).
// The third is the one taken: OpenBLAS's own initialization, which reads that variable, is called
// again. It takes 20 µs.
#include "core/cpu/blas_kernel.hpp"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

// Not declared in cblas.h, but exported since GotoBLAS2 by every build for several processors;
// absent from the others.
extern "C" {
void gotoblas_dynamic_init() __attribute__((weak));
void gotoblas_dynamic_quit() __attribute__((weak));
}

namespace tete::cpu_kernels {
namespace {

constexpr const char* variable = "OPENBLAS_CORETYPE";

// Sets the variable, and restores its old value when destroyed.
class Environment {
 public:
  explicit Environment(const std::string& kernel) {
    if (const char* set = std::getenv(variable)) before_ = set;
    setenv(variable, kernel.c_str(), 1);
  }
  ~Environment() {
    if (before_) setenv(variable, before_->c_str(), 1);
    else unsetenv(variable);
  }
  Environment(const Environment&) = delete;

 private:
  std::optional<std::string> before_ = {};
};

}  // namespace

Vectors vectors_of_processor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return Vectors::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::avx2;
#endif
  return Vectors::narrow;
}

Vectors vectors_of_kernel(std::string_view kernel) {
  static constexpr std::string_view avx2[] = {"Haswell", "Zen", "Excavator"},
                                    narrow[] = {"Prescott",   "Atom",        "Core2",
                                                "Penryn",     "Dunnington",  "Nehalem",
                                                "Opteron",    "Barcelona",   "Nano",
                                                "Bobcat",     "Bulldozer",   "Opteron_SSE3",
                                                "Piledriver", "Steamroller", "Sandybridge"};
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), kernel) != std::end(names);
  };
  return among(narrow) ? Vectors::narrow : among(avx2) ? Vectors::avx2 : Vectors::avx512;
}

std::string fitting_kernel(const std::string& chosen, Vectors processor) {
  if (vectors_of_kernel(chosen) >= processor) return chosen;
  return processor == Vectors::avx512 ? "SkylakeX" : "Haswell";
}

std::string blas_kernel() { return openblas_get_corename(); }

std::string fitting_blas_kernel() { return fitting_kernel(blas_kernel(), vectors_of_processor()); }

bool environment_names_kernel() {
  const char* const name = std::getenv(variable);
  return name && *name;
}

bool use_blas_kernel(const std::string& name) {
  if (name != blas_kernel() && gotoblas_dynamic_init && gotoblas_dynamic_quit) {
    const Environment named(name);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
  }
  return name == blas_kernel();
}

void choose_blas_kernel() {
  if (!environment_names_kernel()) use_blas_kernel(fitting_blas_kernel());
}

}  // namespace tete::cpu_kernels
