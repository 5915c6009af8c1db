// One product of matrices against three loops, by every instruction set that the machine has.
#include <cblas.h>
#include <doctest/doctest.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/blas.hpp"
#include "core/cpu/multiply.hpp"
#include "core/cpu/rows.hpp"
#include "core/ops.hpp"
#include "core/threads.hpp"

using namespace tete;
using cpu_kernels::Matrix;

namespace {

template <class T>
T of_double(double x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16)};
  else return static_cast<T>(x);
}

// A matrix in memory with lines longer than they need be, row after row or column after column.
template <class T>
struct Lines {
  Index rows, columns;
  bool by_row;
  std::vector<T> memory;

  Lines(Index rows, Index columns, bool by_row, Key key)
      : rows(rows), columns(columns), by_row(by_row) {
    for (double x : random_normal({rows * columns * 2 + 8}, key).template values<double>())
      memory.push_back(of_double<T>(x));
    memory.resize(static_cast<size_t>((by_row ? rows : columns) * line()));
  }
  Index line() const { return (by_row ? columns : rows) + 3; }
  template <class U>
  Matrix<U> matrix() {
    return by_row ? Matrix<U>{memory.data(), line(), 1} : Matrix<U>{memory.data(), 1, line()};
  }
  T& at(Index i, Index j) { return memory[by_row ? i * line() + j : i + j * line()]; }
};

// The nearest number of 8 significant bits; of two, the even one.
double bf16(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double unit = std::ldexp(1.0, std::ilogb(x) - 7);
  return std::nearbyint(x / unit) * unit;
}

float value_of(float x) { return x; }
double value_of(double x) { return x; }
float value_of(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

// C is Z, A and B are X.
template <class X, class Z>
void check_product(Index m, Index n, Index k, int how) {
  const Key key(static_cast<uint64_t>(m * 1000003 + n * 1009 + k * 17 + how));
  Lines<X> A(m, k, how & 1, key.fold("A")), B(k, n, how & 2, key.fold("B"));
  Lines<Z> C(m, n, how & 4, key.fold("C"));
  const bool add = how & 8;
  Lines<Z> kept = C;
  const cpu_kernels::BlasOnOneThread blas;
  cpu_kernels::multiply<X, Z>(m, n, k, A.template matrix<const X>(), B.template matrix<const X>(),
                              C.template matrix<Z>(), add);
  Index wrong = 0;
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = 0, size = 1;
      for (Index p = 0; p < k; ++p) {
        const double term = double(value_of(A.at(i, p))) * double(value_of(B.at(p, j)));
        sum += term, size += std::abs(term);
      }
      if (add) sum += static_cast<double>(kept.at(i, j));
      const double error = std::abs(static_cast<double>(C.at(i, j)) - sum);
      wrong += !(error <= size * 4 * static_cast<double>(std::numeric_limits<Z>::epsilon()));
      kept.at(i, j) = C.at(i, j);
    }
  CHECK(wrong == 0);
  CHECK(kept.memory == C.memory);  // nothing beside the product was written
}

// Four products make the parts of C that one product makes.
template <class X, class Z>
void check_cut(Index m, Index n, Index k, int how) {
  const Key key(static_cast<uint64_t>(m * 1000003 + n * 1009 + k * 17 + how));
  Lines<X> A(m, k, how & 1, key.fold("A")), B(k, n, how & 2, key.fold("B"));
  Lines<Z> whole(m, n, how & 4, key.fold("C")), cut = whole;
  const bool add = how & 8;
  const cpu_kernels::BlasOnOneThread blas;
  const Matrix<const X> a = A.template matrix<const X>(), b = B.template matrix<const X>();
  cpu_kernels::multiply<X, Z>(m, n, k, a, b, whole.template matrix<Z>(), add);
  const Matrix<Z> c = cut.template matrix<Z>();
  const Index rows = m * 2 / 3, columns = n / 3;
  for (const auto& [i, some] : {std::pair{Index{0}, rows}, {rows, m - rows}})
    for (const auto& [j, wide] : {std::pair{Index{0}, columns}, {columns, n - columns}})
      cpu_kernels::multiply<X, Z>(some, wide, k, {a.data + i * a.row, a.row, a.column},
                                  {b.data + j * b.column, b.row, b.column},
                                  {c.data + i * c.row + j * c.column, c.row, c.column}, add);
  CHECK(whole.memory == cut.memory);
}

// Numbers that end where the process has no memory.
template <class T>
class AtTheEnd {
 public:
  explicit AtTheEnd(Index count) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)),
                 bytes = static_cast<size_t>(count) * sizeof(T);
    pages_ = (bytes + page - 1) / page * page;
    memory_ = mmap(nullptr, pages_ + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(mprotect(memory_, pages_, PROT_READ | PROT_WRITE) == 0);
    all_ = pages_ + page;
    data = reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + pages_ - bytes);
    std::fill_n(data, count, of_double<T>(1));
  }
  ~AtTheEnd() { munmap(memory_, all_); }
  AtTheEnd(const AtTheEnd&) = delete;
  Matrix<const T> matrix(Index rows, Index columns, bool by_row) const {
    return by_row ? Matrix<const T>{data, columns, 1} : Matrix<const T>{data, 1, rows};
  }
  T* data;

 private:
  void* memory_;
  size_t pages_, all_;
};

template <class X, class Z>
void check_ends(Index m, Index n, Index k, int how) {
  const AtTheEnd<X> A(m * k), B(k * n);
  AtTheEnd<Z> C(m * n);
  const cpu_kernels::BlasOnOneThread blas;
  cpu_kernels::multiply<X, Z>(m, n, k, A.matrix(m, k, how & 1), B.matrix(k, n, how & 2),
                              {C.data, n, 1}, false);
  CHECK(C.data[m * n - 1] == static_cast<Z>(k));
}

}  // namespace

TEST_SUITE("multiply") {
  TEST_CASE("multiply: every instruction set, layout and size around the blocks") {
    const Index sizes[][3] = {
        {1, 1, 1},     {1, 33, 2},    {2, 16, 3},    {5, 17, 4},     {12, 32, 8},   {13, 31, 1},
        {11, 64, 65},  {25, 65, 37},  {97, 33, 64},  {24, 96, 385},  {3, 385, 7},   {193, 40, 9},
        {64, 8, 130},  {7, 5, 769},   {3, 515, 257}, {16, 66, 1990}, {401, 20, 5},  {96, 64, 64},
        {16, 48, 32},  {31, 47, 31},  {113, 16, 33}, {4, 5, 6200},   {14, 769, 20}, {3, 800, 390},
        {397, 70, 40}, {14, 1021, 34}};
    for (const char* set : {"v2", "v3", "v4", "v4_bf16", "v4_amx", "generic"}) {
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
          check_product<float, float>(m, n, k, how);
          check_product<double, double>(m, n, k, how);
          check_product<Bf16, float>(m, n, k, how);
        }
      cpu_kernels::use_instruction_set(before.c_str());
    }
  }

  TEST_CASE("multiply: nothing is read behind an operand's last number") {
    const Index sizes[][3] = {{1, 1, 1},     {16, 16, 32},    {32, 32, 64},  {5, 40, 7},
                              {33, 17, 34},  {174, 171, 384}, {31, 33, 400}, {98, 50, 33},
                              {17, 390, 65}, {13, 775, 5}};
    for (const char* set : {"v2", "v3", "v4", "v4_bf16", "v4_amx", "generic"}) {
      const std::string before = cpu_kernels::instruction_set();
      if (!cpu_kernels::use_instruction_set(set)) continue;
      CAPTURE(std::string(set));
      for (const auto& [m, n, k] : sizes)
        for (int how = 0; how < 4; ++how) {
          check_ends<float, float>(m, n, k, how);
          check_ends<double, double>(m, n, k, how);
          check_ends<Bf16, float>(m, n, k, how);
        }
      cpu_kernels::use_instruction_set(before.c_str());
    }
  }

  TEST_CASE("multiply: however a product is cut, its numbers have the same bits") {
    const Index sizes[][3] = {{40, 700, 400}, {40, 800, 400}, {25, 65, 37},   {24, 401, 24},
                              {29, 97, 769},  {33, 70, 64},   {17, 33, 5},    {13, 1100, 300},
                              {96, 96, 96},   {397, 70, 64},  {174, 171, 384}};
    for (const char* set : {"v2", "v3", "v4", "v4_bf16", "v4_amx"}) {
      const std::string before = cpu_kernels::instruction_set();
      if (!cpu_kernels::use_instruction_set(set)) continue;
      CAPTURE(std::string(set));
      for (const auto& [m, n, k] : sizes)
        for (int how = 0; how < 16; ++how) {
          CAPTURE(how);
          const Index M = m, N = n;
          CAPTURE(M);
          CAPTURE(N);
          if (cpu_kernels::cuts_keep_bits<float>()) check_cut<float, float>(m, n, k, how);
          if (cpu_kernels::cuts_keep_bits<double>()) check_cut<double, double>(m, n, k, how);
          CHECK((cpu_kernels::cuts_keep_bits<Bf16>() || std::string_view(set) == "v2"));
          if (cpu_kernels::cuts_keep_bits<Bf16>()) check_cut<Bf16, float>(m, n, k, how);
        }
      cpu_kernels::use_instruction_set(before.c_str());
    }
  }

  TEST_CASE("multiply: a long sum of few rows is one of blocks") {
    const Index m = 3, n = 67, k = 20000;
    std::vector<float> A, B, C(m * n);
    for (double x : random_normal({m * k}, Key(1)).values()) A.push_back(std::abs(x));
    for (double x : random_normal({k * n}, Key(2)).values()) B.push_back(std::abs(x));
    std::vector<double> exact(m * n);
    for (Index i = 0; i < m; ++i)
      for (Index p = 0; p < k; ++p)
        for (Index j = 0; j < n; ++j) exact[i * n + j] += double{A[i * k + p]} * B[p * n + j];
    for (const char* set : {"v3", "v4", "v4_bf16", "v4_amx"}) {
      const std::string before = cpu_kernels::instruction_set();
      if (!cpu_kernels::use_instruction_set(set)) continue;
      CAPTURE(std::string(set));
      cpu_kernels::multiply<float, float>(m, n, k, {A.data(), k, 1}, {B.data(), n, 1},
                                          {C.data(), n, 1}, false);
      double worst = 0;
      for (Index i = 0; i < m * n; ++i) worst = std::max(worst, std::abs(C[i] / exact[i] - 1));
      CHECK(worst < 2e-6);
      cpu_kernels::use_instruction_set(before.c_str());
    }
  }

  TEST_CASE("multiply: bfloat16 keeps infinities and NaN, and rounds ties to even") {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    const std::vector<std::pair<float, float>> cases = {{inf, inf},
                                                        {-inf, -inf},
                                                        {nan, nan},
                                                        {1 + 0x1p-8f, 1},
                                                        {1 + 0x3p-8f, 1 + 0x4p-8f},
                                                        {1 + 0x1p-8f + 0x1p-20f, 1 + 0x2p-8f},
                                                        {3.4e38f, inf},
                                                        {-1 - 0x3p-8f, -1 - 0x4p-8f}};
    std::vector<float> numbers;
    // In vectors, and what is left of them.
    for (int again = 0; again < 5; ++again)
      for (const auto& [x, y] : cases) numbers.push_back(x);
    for (const char* set : {"v2", "v3", "v4", "v4_bf16", "v4_amx", "generic"}) {
      const std::string before = cpu_kernels::instruction_set();
      if (!cpu_kernels::use_instruction_set(set)) continue;
      CAPTURE(std::string(set));
      for (size_t count : {size_t{1}, size_t{7}, size_t{16}, size_t{33}, numbers.size()}) {
        const auto x = Tensor::of<float>({static_cast<Index>(count)}, {numbers.data(), count});
        const std::vector<double> rounded = cast(x, Dtype::bf16).values();
        for (size_t i = 0; i < count; ++i) {
          CAPTURE(i);
          const double y = cases[i % cases.size()].second;
          CHECK((rounded[i] == y || (std::isnan(rounded[i]) && std::isnan(y))));
        }
      }
      const std::vector<double> x = random_normal({1000}, Key(5), Dtype::f32).values();
      const std::vector<double> y = random_normal({1000}, Key(5), Dtype::f32).rounded().values();
      for (size_t i = 0; i < x.size(); ++i) CHECK(y[i] == bf16(x[i]));
      cpu_kernels::use_instruction_set(before.c_str());
    }
  }

  TEST_CASE("a product leaves BLAS, OpenMP and their treatment of denormals as it found them") {
    const int omp = omp_get_max_threads(), blas = openblas_get_num_threads(), ours = threads();
    set_threads(3);
    omp_set_num_threads(5), openblas_set_num_threads(5);  // which may set OpenMP's number, too
    const bool before = denormals_are_flushed();
    const auto flushed = [] {
      std::vector<int> each(3);
#pragma omp parallel num_threads(3)
      each[static_cast<size_t>(omp_get_thread_num())] = denormals_are_flushed();
      return each;
    };
#pragma omp parallel num_threads(3)
    flush_denormals(false);
    flush_denormals(true);
    const std::vector<int> found = flushed();  // clang's OpenMP lets all threads take the first's
    const Tensor x = Tensor::ones({400, 300}), y = Tensor::ones({300, 200});
    CHECK(einsum("i j, j k -> i k", x, y).values()[7] == 300);
    CHECK(flushed() == found);
    CHECK(omp_get_max_threads() == 5);
    CHECK(openblas_get_num_threads() == 5);
    flush_denormals(before);
    omp_set_num_threads(omp), openblas_set_num_threads(blas), omp_set_num_threads(omp);
    set_threads(ours);
  }
}
