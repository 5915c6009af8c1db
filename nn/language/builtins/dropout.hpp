// The dropout of the notation, where what is dropped is computed together with its readers.
#pragma once
#include "nn/run/runner.hpp"

namespace tete {

// The noise by which a statement's dropout multiplies a value of these names, with the batch if
// `batched`: the names but `shared`, along which it does not vary. No tensor outside training.
Value dropout_noise(Runner& runner, int statement, const Names& names, int shared, bool batched);

}  // namespace tete
