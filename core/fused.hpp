// fused: a kernel that says what it means.
#pragma once
#include "core/tensor.hpp"

namespace tete {

// What a fused operation's kernel returns: its value, and tensors for its gradient kernel.
struct FusedValue {
  Tensor y;
  Tensors kept = {};
};

struct Fused {
  const char* name;
  // Fast code for the value. Sees untracked inputs.
  std::function<FusedValue(const Tensors& in)> value;
  // Fast code for the gradients of the inputs; sees what Backward offers, all untracked.
  Vjp gradient;
  // The same value as an ordinary differentiable expression of the inputs. It is what the tests
  // hold both kernels to, it gives every higher derivative, and it is what a reader reads.
  std::function<Tensor(const Tensors& in)> meaning;
  Reads reads = reads_all;  // what `gradient` and `again` do; `meaning` reads the inputs
  // The gradients of the inputs in ordinary operations, for who differentiates them again. Where
  // there is none they are those of the meaning.
  Vjp again = {};
};

// For kernels, into memory of theirs that nobody has seen yet: y = x, y += x.
void copy_onto(const Tensor& x, const Tensor& y);
void add_onto(const Tensor& x, const Tensor& y);

// op(a, b), whose values the kernel writes into y, on the way to something else.
using Kernel = std::function<void(const Tensor& y)>;
Tensor binary_by(Binary op, const Tensor& a, const Tensor& b, const Kernel& kernel);

Tensor fused(const Fused& op, Tensors inputs, CodeLine rule = CodeLine::here());
// f(inputs), of which only the inputs are kept: the gradient computes f again (Chen, Xu, Zhang,
// Guestrin 2016, "Training deep nets with sublinear memory cost"). Nothing tracked but its inputs
// may reach f, and it must compute the same each time. A second derivative keeps all.
Tensor recomputed(const std::function<Tensor(const Tensors& in)>& f, Tensors inputs,
                  CodeLine rule = CodeLine::here());
// What a result means: its fused operation's meaning at the inputs that are recorded; those whose
// numbers are not are among `known`. An empty Tensor if no fused operation made it. For tests.
Tensor meaning_of(const Tensor& made, std::span<const Tensor> known);

}  // namespace tete
