// The precision that the candidate computed in, as far as its numbers show, and what rounding to it
// explains.
#pragma once
#include "nn/against/candidate.hpp"

namespace tete {

// The bits of the significand that the numbers need: 24 or 53, by their type, or fewer if none
// needs more and many need them all (half precision stored as float32), and never more than
// `stored`, what the file's type has; 0: that of x's type. 0 if that does not tell and the numbers
// are whole, and so exact in any precision, or of too few magnitudes.
int bits_shown(const Tensor& x, int stored = 0);

// Fills in what the text expects of each tensor and how far it may be off: some times what rounding
// does to the text's own values, or `tolerance` times the largest entry if that is not 0. Rounding
// is to the precision of the tensor and its operands: a product of operands that are right to 1e-7
// cannot be off by 1e-3. If something between them was not given, and for what is computed from the
// inputs alone, it is to the coarsest precision of all tensors.
// Returns the name of that: "float16", ….
const char* expect(Recorded& recorded, double tolerance);

}  // namespace tete
