// The loss of a language model is a sum and a count. The caller divides them once, after adding up
// all parts of a batch.
#pragma once
#include "nn/param.hpp"

namespace tete {

struct Loss {
  Tensor sum;          // one number: -Σ log p(target), natural logarithm
  int64_t tokens = 0;  // how many targets were counted
};

// logits[b, n, v], targets[b, n] (i64). A target below 0 is padding and is not counted.
Loss token_loss(const Tensor& logits, const Tensor& targets);

// The loss with further terms (R25), each a number that all targets have alike.
Loss with_losses(Loss loss, const Tensors& terms);

// Counts the targets that have the largest logit (ties: the smaller token), and the samples whose
// counted targets all have. If the logits at each position saw the earlier targets, these are the
// samples that greedy decoding gets right.
struct Matches {
  Index tokens = 0, samples = 0;
};
Matches exact_matches(const Tensor& logits, const Tensor& targets);

}  // namespace tete
