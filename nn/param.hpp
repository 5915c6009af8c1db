// Parameters: what a model learns, by name.
//
// A model declares its parameters once, in a ParamList; a layer keeps the ParamIds it was given.
// Values are a plain list of tensors in the order of declaration, passed to every call: there is
// no hidden state, so the same model runs with tracked values (training), detached ones
// (evaluation, sampling) or float64 ones (checks).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/memory.hpp"
#include "core/ops.hpp"

namespace tete {

// How a parameter starts. Deviations are nominal (spec §0 and D5).
struct Initializer {
  enum class Kind : uint8_t {
    normal,
    truncated_normal,
    uniform,
    glorot,
    constant,
    zeros,
    ones,
    identity
  } kind = Kind::zeros;
  double a = 0, b = 0;  // normal, truncated_normal: deviation; uniform: bounds; constant: value
};

struct ParamSpec {
  std::string name;               // a path: "decoder/3/self/P_q"
  std::vector<std::string> dims;  // declared names, as many as sizes: {"d_X", "d_k", "h"}
  Shape shape;
  Initializer init;
  bool fixed = false;      // saved, but not trained
  Short<int> layout = {};  // order in memory, outermost first; empty: row-major
};

struct ParamId {
  int index = -1;
};

class ParamList {
 public:
  // Fails on a name that is already declared.
  ParamId declare(ParamSpec spec);
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ParamSpec& operator[](ParamId id) const { return specs_[id.index]; }
  int size() const { return static_cast<int>(specs_.size()); }
  // -1 where there is none.
  int find(const std::string& name) const;
  Index element_total() const;
  // The values to be made, for require_memory().
  std::vector<Planned> planned(Dtype dtype) const;
  // Each from its own stream of the key, by name: adding a parameter moves no other one's start.
  // Fails (resource) where they do not fit into memory.
  Tensors initial_values(Key key, Dtype dtype = Dtype::f32) const;

 private:
  std::vector<ParamSpec> specs_;
};

// One tensor drawn as `init` says. Glorot's fans as spec D5 (k-D: receptive field times the last
// two dimensions).
Tensor initial_value(const ParamSpec& spec, Key key, Dtype dtype);

// Where a layer declares its parameters: the list, and the path so far.
struct Scope {
  ParamList& params;
  std::string path = {};
  Scope in(const std::string& name) const {
    return {params, path.empty() ? name : path + "/" + name};
  }
  ParamId declare(ParamSpec spec) const {
    spec.name = path.empty() ? spec.name : path + "/" + spec.name;
    return params.declare(std::move(spec));
  }
};

// How a program runs that can run a block of queries at a time (nn/run/tile.hpp). No choice changes
// what it means; 0 leaves one to the sizes.
struct Tiling {
  bool allowed = true;
  Index queries = 0, samples = 0;  // of a block
  Index memory = 0;                // of a piece of a block's memory
  // A block in pieces whose values take more bytes does not hold them until its gradient is taken,
  // but makes its pieces again: a tenth more time, half the memory.
  double held = 256e6;
  // Values over queries and memory are kept for the gradient, and not computed again, where they
  // take at most `least` bytes; or else where memory has at most `length` positions, they take at
  // most `share` times the bytes that the tile is given and leaves, and tensors hold at most
  // `bytes` with them. So memory stays linear in the length.
  struct Keep {
    double least = 16e6, share = 20, bytes = 1e9;
    Index length = 2048;

    static Keep never() { return {.least = -1, .share = 0, .bytes = 0}; }
    static Keep always() { return {.least = 1e300}; }
  } keep = {};
};

struct Decoding;  // nn/decode.hpp
struct Checked;   // nn/check.hpp

// What one call of a model is given besides its input.
struct Forward {
  const Tensors& params;
  bool training = false;   // dropout is the identity outside training
  double dropout = 0;      // rate
  Key key{0};              // of the noise: folded with layer and statement as the call descends
  Index first_sample = 0;  // global number of the batch's first sample: the noise depends on it
  // Every named intermediate ("decoder/3/self/W"), and every parameter of an attention's text
  // ("decoder/3/self/P_l"), is offered by its path. `watch`, if set, is
  // called with those that `watched` asks for (all, if that is not set); looking changes no bit. Of
  // what `replaced` asks for, what `replace` returns goes on in the value's place: a tensor of its
  // shape and type, through which gradients flow. One that holds the same numbers changes no bit of
  // the result. What nobody asks for is not made if it need not be (nn/run/tile.hpp). nn/trace.hpp
  // asks by patterns.
  using Asks = std::function<bool(const std::string& path)>;
  std::function<void(const std::string& path, const Tensor& value)> watch = {};
  Asks watched = {};
  std::function<Tensor(const std::string& path, const Tensor& value)> replace = {};
  Asks replaced = {};
  // If set, called with each program that begins to run, and the path of its values.
  std::function<void(const std::string& path, const Checked& program)> entered = {};
  // If set, the call brings the next positions of a sequence whose past is kept there.
  Decoding* decoding = nullptr;
  Tiling tiling = {};
  Products products = Products::full;  // of all matrix products
  // Of each block only the input is kept for the gradient, which computes the block again: memory
  // for one block instead of all, a third more time, and the same bits, also in the gradient of
  // what all blocks read (a decoder's memory). Not where somebody looks in.
  bool recompute_blocks = false;

  const Tensor& operator[](ParamId id) const { return params[id.index]; }
  // The same call with other values of the parameters.
  Forward with(const Tensors& values) const;

  bool is_looked_into() const { return watch || replace; }
  bool watches(const std::string& path) const { return watch && (!watched || watched(path)); }
  bool replaces(const std::string& path) const { return replace && (!replaced || replaced(path)); }
  // What goes on in the place of x, which is not shown yet. Fails (input) on another shape or type.
  Tensor replacement(const std::string& path, const Tensor& x) const;
  bool asks_for(const std::string& path) const { return watches(path) || replaces(path); }
  // Offers x as scope + "/" + name, and returns what goes on.
  Tensor offer(const std::string& scope, const std::string& name, const Tensor& x) const;
};

}  // namespace tete
