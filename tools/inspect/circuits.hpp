// The QK and OV circuits of heads, as matrices over tokens. Elhage et al. 2021, "A mathematical
// framework for transformer circuits"; here of any text of attention: its own statements are run on
// one query and one memory, so that all the attention is on that.
#pragma once
#include "tools/inspect/parts.hpp"
#include "tools/inspect/readings.hpp"

namespace tete {

struct Circuits {
  std::vector<Circuit> found;
  std::vector<std::string> missing;  // sentences: which there are not, and why
};

// The circuits of these heads: PATH[2], or PATH for each head, of attentions or a glob of them. The
// tokens are the whole vocabulary where that is small, else those of the text. Logits are told with
// the last norm's divisor as it is after the position that is asked about. `seen` has every value
// of the text's run. Fails (input) on paths that are no attention, and on heads that are not there.
Circuits circuits_of(const Trained& trained, const TextReading& reading, const Activations& seen,
                     const std::vector<std::string>& heads);

}  // namespace tete
