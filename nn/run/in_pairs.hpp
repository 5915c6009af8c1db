// Einsums of three operands and more, written as products of two (in_pairs.cpp).
#pragma once
#include "core/cache.hpp"
#include "core/tensor.hpp"
#include "nn/language/check.hpp"

namespace tete {

class SizeTable;

// A program as it was before its analysis, and those that were made of it, by their orders.
struct InPairs {
  explicit InPairs(const Checked& program) : program(program) {}
  Checked program;
  Cache<Checked> written{8};
};

// For a program before its analysis; null if no einsum has more than two operands.
std::shared_ptr<InPairs> find_in_pairs(const Checked& program);

// The program that a run on these inputs takes in the place of `program`, with the same dimensions,
// inputs, parameters and named values; null if that is `program`. It writes einsums of the tile in
// pairs where blocks of queries would repeat a product that reads the memory alone.
std::shared_ptr<const Checked> in_pairs(const Checked& program, const SizeTable& sizes,
                                        const Tensors& inputs);

// True for each value that depends on an input with a batch.
std::vector<bool> batched_values(const Checked& program, const Tensors& inputs);

}  // namespace tete
