#include "tools/bench/rates.hpp"

#include <cblas.h>

#include "core/cpu/blas.hpp"
#include "core/cpu/blas_kernel.hpp"
#include "core/cpu/rows.hpp"
#include "core/devices.hpp"
#include "core/random.hpp"
#include "core/tensor.hpp"
#include "core/threads.hpp"

namespace tete {

namespace {

constexpr int products = 2;  // of a thread, in a call

template <class T>
void multiply_some(const Tensor& A, const Tensor& B, const Tensor& C) {
  constexpr Index n = gemm_size;
  const auto data = [](const Tensor& x) { return reinterpret_cast<T*>(x.host_bytes().data()); };
  for (int i = 0; i < products; ++i)
    cpu_kernels::blas_multiply<T>(n, n, n, {data(A), n, 1}, {data(B), n, 1}, {data(C), n, 1},
                                  false);
}

// A tile of a product, whose every step reads the same numbers: they stay in the nearest cache.
template <class T>
Probe peak_of(int threads) {
  constexpr Index steps = 1 << 18;
  const auto& rows = cpu_kernels::rows<T>();
  const Index m = rows.product_rows, n = rows.product_columns;
  const double work = 2.0 * static_cast<double>(steps * m * n) * threads;
  const auto call = [&rows, m, n, threads, work] {
    parallel_for(threads, work, [&](Index) {
      const std::vector<T> a(static_cast<size_t>(m), T(0)), b(static_cast<size_t>(n), T(0));
      std::vector<T> c(static_cast<size_t>(m * n));
      rows.product(m, steps, a.data(), 1, 0, b.data(), 0, 0, c.data(), n, n, false);
    });
  };
  return {turn_of(call), work};
}

// The program's products have their own kernel back when this ends.
class FittingKernel {
 public:
  FittingKernel() : own_(cpu_kernels::blas_kernel()) {
    cpu_kernels::use_blas_kernel(cpu_kernels::fitting_blas_kernel());
  }
  ~FittingKernel() { cpu_kernels::use_blas_kernel(own_); }
  FittingKernel(const FittingKernel&) = delete;

 private:
  std::string own_;
};

}  // namespace

Probe peak_probe(Dtype dtype, int threads) {
  return dtype == Dtype::f64 ? peak_of<double>(threads) : peak_of<float>(threads);
}

Probe gemm_probe(Dtype dtype, int threads) {
  constexpr Index n = gemm_size;
  Tensors A, B, C;
  for (int thread = 0; thread < threads; ++thread) {
    const Key key = Key(0).fold(thread);
    A.push_back(random_normal({n, n}, key.fold("A"), dtype));
    B.push_back(random_normal({n, n}, key.fold("B"), dtype));
    C.push_back(Tensor::zeros({n, n}, dtype));
  }
  const double work = 2.0 * n * n * n * products * threads;
  const auto call = [A, B, C, dtype, threads, work] {
    const FittingKernel kernel;
    const cpu_kernels::BlasOnOneThread blas;
    parallel_for(threads, work, [&](Index thread) {
      const auto i = static_cast<size_t>(thread);
      if (dtype == Dtype::f64) multiply_some<double>(A[i], B[i], C[i]);
      else multiply_some<float>(A[i], B[i], C[i]);
    });
  };
  return {turn_of(call), work};
}

std::string gemm_kernel() {
  const FittingKernel kernel;
  return cpu_kernels::blas_kernel();
}

// Blocks of two arrays that no cache holds, on all threads; the work is that many arrays' bytes.
static Probe probe_of_blocks(double arrays, void (*on_block)(Index n, const float* x, float* y)) {
  constexpr Index blocks = 48, block = 1 << 19;  // 96 MiB an array
  const Tensor x = Tensor::ones({blocks, block}), y = Tensor::ones({blocks, block});
  const auto call = [x, y, on_block] {
    const cpu_kernels::BlasOnOneThread blas;
    parallel_for(blocks, static_cast<double>(blocks * block), [&](Index i) {
      const auto row = [&](const Tensor& t) {
        return static_cast<float*>(t.storage().data()) + i * block;
      };
      on_block(block, row(x), row(y));
    });
  };
  return {turn_of(call), arrays * sizeof(float) * blocks * block};
}

Probe memory_probe() {
  return probe_of_blocks(
      3, [](Index n, const float* x, float* y) { cblas_saxpy(n, 1e-3f, x, 1, y, 1); });
}

Probe read_probe() {
  return probe_of_blocks(2, [](Index n, const float* x, float* y) {
    if (cblas_sdot(n, x, 1, y, 1) == 0) fail(ErrorKind::numbers, "a sum of products of ones is 0");
  });
}

Probe copy_probe(Backend& on) {
  const auto* const device = dynamic_cast<const Accelerator*>(&on);
  const bool is_large = device && device->free_memory() > size_t{2} << 30;
  const Shape shape{Index{1} << (is_large ? 24 : 20)};
  const Tensor from = Tensor::zeros(shape, Dtype::f32, on),
               to = Tensor::zeros(shape, Dtype::f32, on);
  return {turn_of([&on, from, to] { on.copy(from.view(), to.view()); }, [&on] { on.finish(); }),
          2.0 * sizeof(float) * static_cast<double>(from.size())};
}

}  // namespace tete
