// Einsums of three operands and more, written as products of two (pairwise.cpp).
#pragma once
#include "core/cache.hpp"
#include "core/tensor.hpp"
#include "nn/language/check.hpp"
#include "nn/run.hpp"

namespace tete {

// A program without its analysis, and what was written of it, by the orders of products.
struct Pairwise {
  explicit Pairwise(const Checked& program) : program(program) {}
  Checked program;
  Cache<Checked> written{8};
};

// The program that run() takes in the place of `program`, with the same dimensions, inputs,
// parameters and named values: each einsum of many operands in its tile is statements of two, in
// the order that is the cheapest for the sizes of this call. Null if there is none, or if they
// would store more (pairwise.cpp).
std::shared_ptr<const Checked> pairwise(const Checked& program, const SizeTable& sizes,
                                        const Tensors& inputs, const Mask& mask);
// The program that a Decoder takes in the place of `program`, with products as a run over a
// sequence of these sizes makes them: those of the memory alone are rows that are cached. Null if
// there is none, if some size follows from the inputs only, or if there is no sequence of these
// sizes.
std::shared_ptr<const Checked> pairwise_by_rows(const Checked& program, SizeTable sizes);

}  // namespace tete
