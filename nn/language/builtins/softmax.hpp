// What a softmax is of, for those that take it a part at a time.
#pragma once
#include "nn/run/runner.hpp"

namespace tete {

struct SoftmaxArgument {
  Value x;
  Tensor visible;  // of x's shape; none: all is
};
// Of the call `node` of softmax or log_softmax, without its extra logit.
SoftmaxArgument softmax_argument(Runner& runner, const Node& node);
// The logit that each row has besides, or null.
const Node* extra_logit(const Node& node);

}  // namespace tete
