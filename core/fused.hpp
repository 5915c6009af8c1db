// fused: a fast kernel together with its meaning in ordinary operations.
#pragma once
#include "core/graph.hpp"

namespace tete {

// The result of a fused operation's kernel: its value, and tensors for its gradient kernel.
struct FusedValue {
  Tensor y;
  Tensors kept = {};
};

struct Fused {
  const char* name;
  // The fast kernel of the value; its inputs are untracked. It returns {} on a device that lacks
  // the kernel: then the result is `meaning`.
  std::function<FusedValue(const Tensors& in)> value;
  // The fast kernel of the inputs' gradients; all that Backward holds is untracked.
  Vjp gradient;
  // The same value as an ordinary differentiable expression of the inputs. Tests compare both
  // kernels with it, and it gives the higher derivatives unless `again` is set.
  std::function<Tensor(const Tensors& in)> meaning;
  Saved saved = saves_all;  // for `gradient` and `again`; `meaning` reads the inputs
  // The gradient in differentiable operations, for second derivatives. If empty, the gradient of
  // `meaning`.
  Vjp again = {};
};

// x for one group of readers: their gradients are summed first, then added to the gradients of x's
// other readers. So recomputed(f, {x}) has the bits of f({alias(x)}), whatever else reads x. Shares
// x's storage; returns x itself if it carries no gradient.
Tensor alias(const Tensor& x);

// y = x and y += x, for kernels that made y: all who refer to y see it, and no graph that has read
// y may be asked for a gradient.
void copy_onto(const Tensor& x, const Tensor& y);
void add_onto(const Tensor& x, const Tensor& y);

// op(a, b). `kernel` writes the values into y while it computes something else.
using Kernel = std::function<void(const Tensor& y)>;
Tensor binary_by(Binary op, const Tensor& a, const Tensor& b, const Kernel& kernel);

Tensor fused(const Fused& op, Tensors inputs, CodeLine rule = CodeLine::here());
// f(inputs). The graph saves the inputs only: the gradient computes f again (Chen, Xu, Zhang,
// Guestrin 2016, "Training deep nets with sublinear memory cost"). f may read nothing tracked but
// its inputs, and must compute the same each time. A second derivative saves everything.
Tensor recomputed(const std::function<Tensor(const Tensors& in)>& f, Tensors inputs,
                  CodeLine rule = CodeLine::here());
// The meaning of the fused operation that made a result, at the inputs that are recorded; those
// without storage are looked up in `known`. An empty Tensor if no fused operation made it. For
// tests.
Tensor meaning_of(const Tensor& made, std::span<const Tensor> known);

}  // namespace tete
