// The precision that the candidate computed in, as far as its numbers show, and the errors that
// rounding to this precision explains.
#pragma once
#include "attention/against/candidate.hpp"

namespace tete {

// The bits of the significand that the numbers need: 24 or 53, by their type; or 8 or 11 if no
// number needs more and many need all of these (half precision stored as float32); never more than
// `stored`, the bits of the file's type (0: of x's type). Returns 0 if the numbers do not show it,
// because they are whole, and so exact in any precision, or of too few magnitudes.
int bits_shown(const Tensor& x, int stored = 0);

// Fills in the text's tensors and their tolerances: a multiple of the error that rounding makes in
// the text's own values, or `tolerance` times the largest entry if that is not 0. Rounding is to
// the precision of the tensor and its operands: a product of operands that are right to 1e-7 cannot
// be off by 1e-3. If a value between them was not given, and for tensors computed from the inputs
// alone, rounding is to the coarsest precision of all tensors. Returns the name of the coarsest
// precision: "float16", ….
const char* expect(Candidate& candidate, double tolerance);

}  // namespace tete
