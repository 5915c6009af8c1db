// The processor as a Backend.
#include <cstdlib>

#include "core/cpu/kernels.hpp"

namespace tete {
namespace {

class CpuBackend final : public Backend {
 public:
  const char* name() const override { return "cpu"; }

  void* allocate(size_t bytes) override {
    const size_t rounded = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
    void* memory = rounded < bytes ? nullptr : std::aligned_alloc(64, rounded);
    if (!memory) fail(Kind::resource, "there is no memory for ", bytes, " more bytes");
    return memory;
  }
  void release(void* bytes, size_t) noexcept override { std::free(bytes); }

  void unary(Unary op, const View& x, const View& y) override { cpu_kernels::unary(op, x, y); }
  void unary_gradient(Unary op, const View& x, const View& y, const View& g,
                      const View& dx) override {
    cpu_kernels::unary_gradient(op, x, y, g, dx);
  }
  void binary(Binary op, const View& a, const View& b, const View& y) override {
    cpu_kernels::binary(op, a, b, y);
  }
  void select(const View& c, const View& a, const View& b, const View& y) override {
    cpu_kernels::select(c, a, b, y);
  }
  void fill(double value, const View& y) override { cpu_kernels::fill(value, y); }
  void copy(const View& x, const View& y) override { cpu_kernels::copy(x, y); }
  void fold(Fold how, const View& x, const View& y) override { cpu_kernels::fold(how, x, y); }
  void contract(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                const Labels& y) override {
    cpu_kernels::contract(A, a, B, b, Y, y);
  }
  bool multiplies_matrices(const View& A, const Labels& a, const View& B, const Labels& b,
                           const View& Y, const Labels& y) const override {
    return cpu_kernels::multiplies_matrices(A, a, B, b, Y, y);
  }
  ContractionNote describe_contraction(const View& A, const Labels& a, const View& B,
                                       const Labels& b, const View& Y,
                                       const Labels& y) const override {
    return cpu_kernels::describe_contraction(A, a, B, b, Y, y);
  }
  void gather(const View& T, const Labels& t, const View& I, const Labels& i, Label label,
              const View& Y, const Labels& y) override {
    cpu_kernels::gather(T, t, I, i, label, Y, y);
  }
  void scatter(const View& G, const Labels& g, const View& I, const Labels& i, Label label,
               const View& T, const Labels& t) override {
    cpu_kernels::scatter(G, g, I, i, label, T, t);
  }
  void uniform(uint64_t key, uint64_t first, const View& y) override {
    cpu_kernels::uniform(key, first, y);
  }
};

}  // namespace

Backend& cpu() {
  static CpuBackend* backend = new CpuBackend;  // never destroyed: tensors may outlive it
  return *backend;
}

}  // namespace tete
