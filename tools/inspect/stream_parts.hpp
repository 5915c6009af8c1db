// The parts of a model's residual stream: what is added to it, from the embedding on.
#pragma once
#include "tools/inspect/places.hpp"

namespace tete {

struct StreamPart {
  std::string path;  // "decoder/3/A"
  Index head = -1;   // -1: all of it, or what is no head's
  Tensor value;      // [rows, d_X], f64, on the CPU; rows: of all samples
};

struct StreamParts {
  std::vector<StreamPart>
      parts;                 // in the order in which they are added; their sum is the last state
  std::string refused = {};  // a sentence: why the last state is no sum; then there are no parts
};

// `seen` has every value of one run, and at "…/Y/heads" what each head adds.
StreamParts stream_parts(const Model& model, const Activations& seen);
// The parts of what goes into the first block: embedding, positions.
StreamParts stream_start(const Model& model, const Activations& seen);

}  // namespace tete
