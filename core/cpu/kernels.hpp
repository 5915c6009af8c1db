// The processor's kernels, one file each; CpuBackend (backend.cpp) hands its calls to them.
#pragma once
#include "core/storage.hpp"

namespace tete::cpu_kernels {

// elementwise.cpp
void unary(Unary op, const View& x, const View& y);
void unary_gradient(Unary op, const View& x, const View& y, const View& g, const View& dx);
void binary(Binary op, const View& a, const View& b, const View& y);
void select(const View& c, const View& a, const View& b, const View& y);

// copy.cpp
void fill(double value, const View& y);
void copy(const View& x, const View& y);

// fold.cpp
void fold(Fold how, const View& x, const View& y);
// y = Σ a·b: the three views have one shape, in which y has stride 0 on the summed dimensions.
void fold_product(const View& a, const View& b, const View& y);

// contract.cpp
void contract(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
              const Labels& y);
bool multiplies_matrices(const View& A, const Labels& a, const View& B, const Labels& b,
                         const View& Y, const Labels& y);

// index.cpp
void gather(const View& T, const Labels& t, const View& I, const Labels& i, Label label,
            const View& Y, const Labels& y);
void scatter(const View& G, const Labels& g, const View& I, const Labels& i, Label label,
             const View& T, const Labels& t);
Index find_outside(const View& I, Index size);

// random.cpp
void uniform(uint64_t key, uint64_t first, const View& y);
void dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y);

// The fused kernels, as Backend describes them: softmax.cpp (fast where `axis` has stride 1 in x
// and y), norm.cpp (sums over rows run in fixed blocks, added in a fixed tree), cross_entropy.cpp,
// elementwise.cpp.
void softmax(const View& x, const View& mask, int axis, const View& y);
void softmax_gradient(const View& y, const View& g, int axis, const View& dx);
void norm(const View& x, const View& scale, const View& bias, bool center, double epsilon,
          const View& y, const View& stats);
void add_norm(const View& x, const View& r, const View& scale, const View& bias, bool center,
              double epsilon, const View& s, const View& y, const View& stats);
void norm_gradient(const View& x, const View& scale, const View& g, const View& stats, bool center,
                   const View& dx, const View& dscale, const View& dbias);
void cross_entropy(const View& logits, const View& targets, const View& loss, const View& lse);
void cross_entropy_gradient(const View& logits, const View& targets, const View& lse, const View& g,
                            const View& dlogits);
void unary_of_sum(Unary op, const View& a, const View& b, const View& y);
void unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y, const View& g,
                           const View& dsum);
void accumulate(const View& x, const View& y);

// Aligned memory for one kernel's own use, released when destroyed.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : memory_(cpu(), bytes) {}
  Scratch(const Scratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_.data());
  }

 private:
  Storage memory_;
};

}  // namespace tete::cpu_kernels
