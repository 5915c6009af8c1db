// One product of matrices against three loops, by every instruction set that the machine has.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/blas.hpp"
#include "core/cpu/rows.hpp"
#include "core/random.hpp"
#include "core/tensor.hpp"

using namespace tete;
using cpu_kernels::Matrix;

namespace {

// A matrix in memory with lines longer than they need be, row after row or column after column.
template <class T>
struct Lines {
  Index rows, columns;
  bool by_row;
  std::vector<T> memory;

  Lines(Index rows, Index columns, bool by_row, Key key)
      : rows(rows), columns(columns), by_row(by_row) {
    for (double x : random_normal({rows * columns * 2 + 8}, key).template values<double>())
      memory.push_back(static_cast<T>(x));
    memory.resize(static_cast<size_t>((by_row ? rows : columns) * line()));
  }
  Index line() const { return (by_row ? columns : rows) + 3; }
  template <class U>
  Matrix<U> matrix() {
    return by_row ? Matrix<U>{memory.data(), line(), 1} : Matrix<U>{memory.data(), 1, line()};
  }
  T& at(Index i, Index j) {
    return memory[static_cast<size_t>(by_row ? i * line() + j : i + j * line())];
  }
};

// The nearest number of 8 significant bits; of two, the even one.
double bf16(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double unit = std::ldexp(1.0, std::ilogb(x) - 7);
  return std::nearbyint(x / unit) * unit;
}

template <class T>
void check_product(Index m, Index n, Index k, int how, Products products) {
  const Key key(static_cast<uint64_t>(m * 1000003 + n * 1009 + k * 17 + how));
  Lines<T> A(m, k, how & 1, key.fold("A")), B(k, n, how & 2, key.fold("B")),
      C(m, n, how & 4, key.fold("C"));
  const bool add = how & 8;
  const std::vector<T> before = C.memory;
  Lines<T> kept = C;
  cpu_kernels::keep_blas_on_one_thread();
  cpu_kernels::multiply<T>(m, n, k, A.template matrix<const T>(), B.template matrix<const T>(),
                           C.template matrix<T>(), add, products);
  const bool rounds = products == Products::bf16 && sizeof(T) == 4;
  const auto number = [&](T x) {
    return rounds ? bf16(static_cast<double>(x)) : static_cast<double>(x);
  };
  Index wrong = 0;
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = 0, size = 1;
      for (Index p = 0; p < k; ++p) {
        const double term = number(A.at(i, p)) * number(B.at(p, j));
        sum += term, size += std::abs(term);
      }
      if (add) sum += static_cast<double>(kept.at(i, j));
      const double error = std::abs(static_cast<double>(C.at(i, j)) - sum);
      wrong += !(error <= size * 4 * static_cast<double>(std::numeric_limits<T>::epsilon()));
      kept.at(i, j) = C.at(i, j);
    }
  CHECK(wrong == 0);
  CHECK(kept.memory == C.memory);  // nothing beside the product was written
}

}  // namespace

TEST_SUITE("multiply") {
  TEST_CASE("multiply: every instruction set, layout and size around the blocks") {
    const Index sizes[][3] = {{1, 1, 1},   {1, 33, 2},   {2, 16, 3},   {5, 17, 4},   {12, 32, 8},
                              {13, 31, 1}, {11, 64, 65}, {25, 65, 37}, {97, 33, 64}, {24, 96, 385},
                              {3, 385, 7}, {193, 40, 9}, {64, 8, 130}, {7, 5, 769}};
    for (const char* set : {"v2", "v3", "v4", "v4_bf16", "generic"}) {
      const std::string before = cpu_kernels::instruction_set();
      if (!cpu_kernels::use_instruction_set(set)) continue;
      for (const auto& [m, n, k] : sizes)
        for (int how = 0; how < 16; ++how) {
          CAPTURE(std::string(set));
          CAPTURE(how);
          const Index M = m, N = n, K = k;
          CAPTURE(M);
          CAPTURE(N);
          CAPTURE(K);
          check_product<float>(m, n, k, how, Products::full);
          check_product<double>(m, n, k, how, Products::full);
          check_product<float>(m, n, k, how, Products::bf16);
        }
      cpu_kernels::use_instruction_set(before.c_str());
    }
  }

  TEST_CASE("multiply: bfloat16 keeps infinities and NaN, and rounds ties to even") {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    struct Case {
      float x, y;
    };
    const Case cases[] = {{inf, inf},
                          {-inf, -inf},
                          {nan, nan},
                          {1 + 0x1p-8f, 1},
                          {1 + 0x3p-8f, 1 + 0x4p-8f},
                          {1 + 0x1p-8f + 0x1p-20f, 1 + 0x2p-8f},
                          {3.4e38f, inf},
                          {-1 - 0x3p-8f, -1 - 0x4p-8f}};
    for (const char* set : {"v2", "v3", "v4", "v4_bf16", "generic"}) {
      const std::string before = cpu_kernels::instruction_set();
      if (!cpu_kernels::use_instruction_set(set)) continue;
      for (const Case& c : cases) {
        CAPTURE(std::string(set));
        CAPTURE(c.x);
        float one = 1, left = 0, right = 0;
        cpu_kernels::multiply<float>(1, 1, 1, {&c.x, 1, 1}, {&one, 1, 1}, {&left, 1, 1}, false,
                                     Products::bf16);
        cpu_kernels::multiply<float>(1, 1, 1, {&one, 1, 1}, {&c.x, 1, 1}, {&right, 1, 1}, false,
                                     Products::bf16);
        CHECK((left == c.y || (std::isnan(left) && std::isnan(c.y))));
        CHECK((right == c.y || (std::isnan(right) && std::isnan(c.y))));
      }
      cpu_kernels::use_instruction_set(before.c_str());
    }
  }
}
