// Which of OpenBLAS's kernels is used: the choice, and that another one computes the same.
#include "core/cpu/blas_kernel.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "core/ops.hpp"
#include "train/machine.hpp"

using namespace tete;
using namespace tete::cpu_kernels;

TEST_SUITE("blas kernel") {
  TEST_CASE("a kernel of narrower vectors than the processor's makes way, and no other") {
    const struct {
      const char* chosen;
      Vectors processor;
      const char* fitting;
    } rows[] = {
        {"Prescott", Vectors::avx512, "SkylakeX"},  // Emerald Rapids, by OpenBLAS 0.3.21
        {"Prescott", Vectors::avx2, "Haswell"},     // Raptor Lake
        {"Zen", Vectors::avx512, "SkylakeX"},       // Zen 4
        {"Haswell", Vectors::avx512, "SkylakeX"},
        {"Sandybridge", Vectors::avx2, "Haswell"},
        {"Zen", Vectors::avx2, "Zen"},
        {"Haswell", Vectors::avx2, "Haswell"},
        {"SkylakeX", Vectors::avx512, "SkylakeX"},
        {"Cooperlake", Vectors::avx512, "Cooperlake"},
        {"SapphireRapids", Vectors::avx512, "SapphireRapids"},
        {"a later one", Vectors::avx512, "a later one"},
        {"Sandybridge", Vectors::narrow, "Sandybridge"},
        {"Nehalem", Vectors::narrow, "Nehalem"},
        {"neoversen1", Vectors::narrow, "neoversen1"},  // of another family of processors
    };
    for (const auto& row : rows) {
      CAPTURE(row.chosen);
      CHECK(fitting_kernel(row.chosen, row.processor) == row.fitting);
    }
  }

  TEST_CASE("another kernel is used from now on, computes the same, and is what is recorded") {
    const std::string own = blas_kernel();
    const Tensor A = random_normal({70, 90}, Key(1)), B = random_normal({90, 50}, Key(2));
    const std::vector<double> before = einsum("i j, j k -> i k", A, B).values();
    CHECK(use_blas_kernel(own));
    CHECK(!use_blas_kernel("Abacus"));
    REQUIRE(use_blas_kernel(own));
    if (use_blas_kernel("Nehalem")) {  // every processor of x86-64-v2 can
      CHECK(blas_kernel() == "Nehalem");
      CHECK(kernel_names().find(" Nehalem, rows ") != std::string::npos);
      const std::vector<double> after = einsum("i j, j k -> i k", A, B).values();
      for (size_t i = 0; i < before.size(); ++i) CHECK(std::abs(before[i] - after[i]) < 1e-4);
      if (vectors_of_processor() != Vectors::narrow) {
        CHECK(fitting_blas_kernel() != "Nehalem");
        CHECK(!kernel_warning(inspect_machine()).empty());
      }
    }
    REQUIRE(use_blas_kernel(own));
    CHECK(einsum("i j, j k -> i k", A, B).values() == before);
  }

  TEST_CASE("a program chooses the kernel that fits, unless the environment names one") {
    const std::string own = blas_kernel();
    const char* const set = std::getenv("OPENBLAS_CORETYPE");
    const std::string named = set ? set : "";
    if (use_blas_kernel("Nehalem")) {
      setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
      choose_blas_kernel();
      CHECK(blas_kernel() == "Nehalem");
      setenv("OPENBLAS_CORETYPE", "", 1);  // names none
      choose_blas_kernel();
      CHECK(blas_kernel() == fitting_blas_kernel());
      CHECK(std::string(std::getenv("OPENBLAS_CORETYPE")) == "");
    }
    if (set) setenv("OPENBLAS_CORETYPE", named.c_str(), 1);
    else unsetenv("OPENBLAS_CORETYPE");
    REQUIRE(use_blas_kernel(own));
  }
}
