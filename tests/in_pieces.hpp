// Decoding in pieces.
#pragma once
#include <doctest/doctest.h>

#include "attention/attention.hpp"

namespace tete::tests {

// The rows over X and M, [batch, n, d], read in pieces of these lengths.
inline Tensor in_pieces(const Attention& attention, const Forward& forward, const Tensor& X,
                        const Tensor& M, const std::vector<Index>& lengths) {
  Decoder decoder = attention.decoder(Growth::grows);
  Tensors rows;
  Index at = 0;
  for (Index count : lengths) {
    rows.push_back(
        attention.next(decoder, forward, "", slice(X, 1, at, count), slice(M, 1, at, count)));
    at += count;
  }
  CHECK(decoder.length() == at);
  return concat(rows, 1);
}

}  // namespace tete::tests
