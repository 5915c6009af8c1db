// Changes: what the loss and a token's probability become when values of a model are zero, are
// another run's, or have a vector added. Each is a run with a hook (nn/trace.hpp) at the value.
#pragma once
#include "nn/trace.hpp"
#include "tools/inspect/parts.hpp"
#include "tools/inspect/readings.hpp"

namespace tete {

struct ChangeOptions {
  std::vector<std::string> ablate = {}, patch = {};  // parts of values (tools/inspect/parts.hpp)
  std::vector<std::string> steer = {};               // PART=FILE, an .npy array that is added
  // The source of patches: another checkpoint, or the same one; with another text, or the same.
  // One of them is set.
  std::string from = {};
  std::optional<std::string> text_from = {};
  bool each_position = false;  // one change for each position

  bool any() const { return !ablate.empty() || !patch.empty() || !steer.empty(); }
};

// Fails (input) on patches without a source, and on a source without patches.
void check(const ChangeOptions& options);

// A hook that puts zeros at the part.
Hook ablating(const Part& part);
// A hook that puts there what `source` has there. Both have one shape.
Hook patching(const Part& part, const Tensor& source);
// A hook that adds `vector` there: of the value's dimensions less those that are picked, or of
// these less the sequences.
Hook steering(const Part& part, const Tensor& vector);

// The changes in the order of the options, of the model on these texts. Fails (input) on parts that
// are not there, on files of another shape, and on sources of another.
ValueChanges changes_of(const Trained& trained, const std::vector<TextReading>& readings,
                        const ChangeOptions& options, Backend& device);

}  // namespace tete
