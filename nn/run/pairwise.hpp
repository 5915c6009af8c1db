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
// The program that reads a sequence position by position in the place of `program`: its products
// are those of a run over some hundred positions, and what they make of the memory alone is cached.
// Null if there is none, if sizes follow from the inputs only, or if so many positions do not fit.
std::shared_ptr<const Checked> pairwise_by_rows(const Checked& program, const SizeTable& sizes);

}  // namespace tete
