// One call of a model takes, besides its input, the values of its parameters, dropout's noise,
// callbacks that see or replace intermediate values, and choices of how to compute.
#pragma once
#include <functional>
#include <string>

#include "nn/param.hpp"

namespace tete {

// The blocks in which a program's tile runs (nn/tile/tile.hpp). No choice changes the meaning of a
// program. 0 leaves the choice to the sizes, and where one kernel computes the whole tile in linear
// memory, there are no blocks.
struct Tiling {
  bool allowed = true;
  Index queries = 0, samples = 0;  // of a block
  bool is_asked() const { return queries > 0 || samples > 0; }
  // Blocks keep their values for the gradient, instead of computing them again, if these take at
  // most `least` bytes; or if they take at most `share` times the bytes of the tile's inputs and
  // exits, and all live tensors at most `bytes` with them, or what the device allows
  // (Pieces::kept), and the memory has at most `length` positions unless no value that is kept is
  // over queries and memory. So memory stays linear in the length.
  struct Keep {
    double least = 16e6, share = 20, bytes = 1e9;
    Index length = 2048;

    static Keep never() { return {.least = -1, .share = 0, .bytes = 0}; }
    static Keep always() { return {.least = 1e300}; }
  } keep = {};
};

struct Decoding;  // nn/decode.hpp

struct Forward {
  std::reference_wrapper<const Tensors> params;
  bool training = false;   // dropout is the identity outside training
  double dropout = 0;      // rate
  Key key{0};              // of the noise: folded with layer and statement as the call descends
  Index first_sample = 0;  // global number of the batch's first sample: the noise depends on it
  // Hooks. Every named intermediate ("decoder/3/A/W"), and every parameter ("decoder/3/A/P_l"), is
  // offered by its path. `watch`, if set, is called with each value for which `watched` is true
  // (all, if that is not set), and changes no bit of a run. `replace`, if set, is called with
  // those for which `replaced` is true (all, if not set), and the run continues with its result: a
  // tensor of the value's shape and type, through which gradients flow. A result with the same
  // numbers changes no bit, except in attention that would run in one pass (nn/run/attention.hpp):
  // it then runs in steps, and the last bits differ. A value inside a tile is stored whole only if
  // a hook asks for it (nn/tile/tile.hpp). nn/trace.hpp makes hooks from patterns.
  using Asks = std::function<bool(const std::string& path)>;
  std::function<void(const std::string& path, const Tensor& value)> watch = {};
  Asks watched = {};
  std::function<Tensor(const std::string& path, const Tensor& value)> replace = {};
  Asks replaced = {};
  // If set, the call brings the next positions of a sequence; the past is cached there.
  Decoding* decoding = nullptr;
  // If set, in training, the terms of the loss that the text has are added here, each as one
  // number: its mean over the samples (R25).
  Tensors* losses = nullptr;
  Tiling tiling = {};
  // All matrix products follow it, but those of attention in one pass (nn/run/attention.hpp).
  Products products = Products::full;
  // If true, only the input of each block is kept for the gradient, which recomputes the block:
  // memory for one block instead of all, a third more time, and the same bits, also in the gradient
  // of the memory that all blocks of a decoder read. Ignored with hooks and in decoding.
  bool recompute_blocks = false;

  // If set, it is called before a parameter is read: its value may still be on its way.
  std::function<void(ParamId id)> before_read = {};

  const Tensor& operator[](ParamId id) const {
    if (before_read) before_read(id);
    return params.get()[id.index];
  }
  // The same call with other values of the parameters.
  Forward with(const Tensors& values) const;

  bool is_looked_into() const { return watch || replace; }
  bool watches(const std::string& path) const { return watch && (!watched || watched(path)); }
  bool replaces(const std::string& path) const { return replace && (!replaced || replaced(path)); }
  // The result of `replace` for x; `watch` is not called. Fails (input) on another shape or type.
  Tensor replacement(const std::string& path, const Tensor& x) const;
  // Offers x to the hooks; returns x or its replacement.
  Tensor offer(const std::string& path, const Tensor& x) const;
};

}  // namespace tete
