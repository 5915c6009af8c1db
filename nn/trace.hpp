// Reads and replaces the named intermediates and the parameters of a run by their paths.
//
//   const auto seen = trace({.params = values}, {"decoder/*/A/W", "**/B"},
//                           [&](const Forward& forward) { model.logits(forward, {.X = tokens}); });
//   seen.at("decoder/0/A/W")                                                [b, n, m, h]
//
//   Hook without{"decoder/1/A/O", [](const std::string&, const Tensor& O) {…}};
//   run_with_hooks({.params = values}, {without}, [&](const Forward& forward) {…});
//
// In a pattern * stands for any letters within one part of a path, and ** for any parts.
#pragma once
#include <map>
#include <set>

#include "nn/forward.hpp"

namespace tete {

// A run: a function that hands the Forward on to models and layers.
using Call = std::function<void(const Forward& forward)>;

// Replaces each value whose path fits the pattern by a tensor of its shape and type. Gradients flow
// through the replacement to the tensors that it is computed from.
struct Hook {
  std::string pattern;
  std::function<Tensor(const std::string& path, const Tensor& value)> replace;
};

// Runs `call` with `forward` and these hooks, in their order. Fails (input), after the run, if a
// pattern fits no path; the error names the nearest path.
void run_with_hooks(const Forward& forward, const std::vector<Hook>& hooks, const Call& call);

// The same. Returns copies, without a graph, of the values whose paths fit a pattern, after hooks,
// by path.
std::map<std::string, Tensor> trace(const Forward& forward,
                                    const std::vector<std::string>& patterns, const Call& call,
                                    const std::vector<Hook>& hooks = {});

// True if a path, or a name with dots, fits a pattern.
bool fits(const std::string& pattern, const std::string& path);

// Fails (input): the pattern fits none of these names. The error has the nearest name, or what the
// pattern's first parts lead to.
[[noreturn]] void fail_nothing_at(const std::string& pattern, const std::set<std::string>& names);

}  // namespace tete
