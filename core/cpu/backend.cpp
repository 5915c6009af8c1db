// The processor as a Backend.
#include <cstdlib>
#include <cstring>

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
  void read(const void* from, void* to, size_t bytes) override { copy_bytes(from, to, bytes); }
  void write(const void* from, void* to, size_t bytes) override { copy_bytes(from, to, bytes); }

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
  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override {
    return cpu_kernels::multiplies_matrices(A, a, B, b, Y, y);
  }
  void gather(const View& T, const Labels& t, const View& I, const Labels& i, Label label,
              const View& Y, const Labels& y) override {
    cpu_kernels::gather(T, t, I, i, label, Y, y);
  }
  void scatter(const View& G, const Labels& g, const View& I, const Labels& i, Label label,
               const View& T, const Labels& t) override {
    cpu_kernels::scatter(G, g, I, i, label, T, t);
  }
  Index find_outside(const View& I, Index size) override {
    return cpu_kernels::find_outside(I, size);
  }
  void uniform(uint64_t key, uint64_t first, const View& y) override {
    cpu_kernels::uniform(key, first, y);
  }

  bool has(FusedKernel) const override { return true; }
  void softmax(const View& x, const View& mask, int axis, const View& y) override {
    cpu_kernels::softmax(x, mask, axis, y);
  }
  void softmax_gradient(const View& y, const View& g, int axis, const View& dx) override {
    cpu_kernels::softmax_gradient(y, g, axis, dx);
  }
  void norm(const View& x, const View& scale, const View& bias, bool center, double epsilon,
            const View& y, const View& stats) override {
    cpu_kernels::norm(x, scale, bias, center, epsilon, y, stats);
  }
  void add_norm(const View& x, const View& r, const View& scale, const View& bias, bool center,
                double epsilon, const View& s, const View& y, const View& stats) override {
    cpu_kernels::add_norm(x, r, scale, bias, center, epsilon, s, y, stats);
  }
  void norm_gradient(const View& x, const View& scale, const View& g, const View& stats,
                     bool center, const View& dx, const View& dscale, const View& dbias) override {
    cpu_kernels::norm_gradient(x, scale, g, stats, center, dx, dscale, dbias);
  }
  void cross_entropy(const View& logits, const View& targets, const View& loss,
                     const View& lse) override {
    cpu_kernels::cross_entropy(logits, targets, loss, lse);
  }
  void cross_entropy_gradient(const View& logits, const View& targets, const View& lse,
                              const View& g, const View& dlogits) override {
    cpu_kernels::cross_entropy_gradient(logits, targets, lse, g, dlogits);
  }
  void unary_of_sum(Unary op, const View& a, const View& b, const View& y) override {
    cpu_kernels::unary_of_sum(op, a, b, y);
  }
  void unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y, const View& g,
                             const View& dsum) override {
    cpu_kernels::unary_of_sum_gradient(op, a, b, y, g, dsum);
  }
  void dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y) override {
    cpu_kernels::dropout(x, rate, key, first, y);
  }
  void accumulate(const View& x, const View& y) override { cpu_kernels::accumulate(x, y); }

 private:
  static void copy_bytes(const void* from, void* to, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
};

}  // namespace

Backend& cpu() {
  static CpuBackend* backend = new CpuBackend;  // never destroyed: tensors may outlive it
  return *backend;
}

}  // namespace tete
