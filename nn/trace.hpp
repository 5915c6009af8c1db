// Looking into a run by the paths of its named intermediates and of the parameters of attention,
// and changing them.
//
//   const auto seen = trace({.params = values}, {"decoder/*/self/W", "**/resid"},
//                           [&](const Forward& forward) { model.logits(forward, tokens); });
//   seen.at("decoder/0/self/W")                                             [b, n, m, h]
//
//   Hook without{"decoder/1/self/O", [](const std::string&, const Tensor& O) {…}};
//   run_with_hooks({.params = values}, {without}, [&](const Forward& forward) {…});
//
// In a pattern * stands for any letters within one part of a path, and ** for any parts. Where
// TransformerLens has a name for a value it is accepted, too, with * and ** between its dots; the
// value then has the shape that it has there: "blocks.*.attn.hook_pattern" is [b, h, n, m]
// (nn/tap_names.hpp).
#pragma once
#include <map>

#include "nn/forward.hpp"

namespace tete {

// What a run is: it hands the Forward on to models and layers.
using Call = std::function<void(const Forward& forward)>;

// What goes on in the place of each value whose path fits the pattern: a tensor of its shape and
// type. Gradients flow through it, and through what it is made of.
struct Hook {
  std::string pattern;
  std::function<Tensor(const std::string& path, const Tensor& value)> replace;
};

// Runs `call` with `forward` and these hooks, in their order. Fails (input), after the run, where a
// pattern fits nothing, with the nearest path.
void run_with_hooks(const Forward& forward, const std::vector<Hook>& hooks, const Call& call);

// The same, and what it makes at the paths that fit a pattern, by path (or by the name that it was
// asked by), after hooks. Only these are kept, without a graph.
std::map<std::string, Tensor> trace(const Forward& forward,
                                    const std::vector<std::string>& patterns, const Call& call,
                                    const std::vector<Hook>& hooks = {});

// Whether a path, or a name with dots, fits a pattern.
bool fits(const std::string& pattern, const std::string& path);

}  // namespace tete
