// The processor's kernels behind core/softmax, normalize, cross_entropy, dropout and fused. Same
// rules as for a Backend (core/backend.hpp): strided inputs, complete outputs, results independent
// of the number of threads. All views of one call have the same real dtype.
#pragma once
#include "core/backend.hpp"

namespace tete::cpu_kernels {

// y = softmax of x over `axis`, where mask is not 0; a row hidden everywhere gives zeros. mask is
// broadcast to x's shape by strides; mask.data == nullptr: nothing is hidden. Fast where `axis`
// has stride 1 in x and y.
void softmax(const View& x, const View& mask, int axis, const View& y);
// dx = y (g - Σ y g), the sum over `axis`.
void softmax_gradient(const View& y, const View& g, int axis, const View& dx);

// Over the last dimension. stats has x's shape but for the last dimension, which is 2 long: μ and
// 1/√(σ² + ε) (rms: 0 and 1/√(mean x² + ε)). center: layer norm; otherwise RMS norm, without bias.
void norm(const View& x, const View& scale, const View& bias, bool center, double epsilon,
          const View& y, const View& stats);
// The same of s = x + r, which is written, too.
void add_norm(const View& x, const View& r, const View& scale, const View& bias, bool center,
              double epsilon, const View& s, const View& y, const View& stats);
// The gradients of x, scale and bias; dbias.data == nullptr for RMS norm. Sums over rows run in
// fixed blocks, added in a fixed tree.
void norm_gradient(const View& x, const View& scale, const View& g, const View& stats, bool center,
                   const View& dx, const View& dscale, const View& dbias);

// loss[t] = logsumexp_v logits[t, v] - logits[t, targets[t]]; lse[t] is kept for the gradient.
void cross_entropy(const View& logits, const View& targets, const View& loss, const View& lse);
// dlogits[t, v] = g[t] (exp(logits[t, v] - lse[t]) - [v = targets[t]]).
void cross_entropy_gradient(const View& logits, const View& targets, const View& lse, const View& g,
                            const View& dlogits);

// y = op(a + b), and dsum = g · op'(a + b), where y = op(a + b). Every view has y's shape.
void unary_of_sum(Unary op, const View& a, const View& b, const View& y);
void unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y, const View& g,
                           const View& dsum);

// y += x, of one shape.
void accumulate(const View& x, const View& y);

// y = x/(1 - rate) where the uniform number of counter first + i (row-major i) of the key is at
// least rate, else 0. Its own gradient: apply it to g.
void dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y);

}  // namespace tete::cpu_kernels
