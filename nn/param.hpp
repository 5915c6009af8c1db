// The parameters of a model, by name.
//
// A model declares its parameters once, in a ParamList; a Model keeps their ParamIds.
// Values are a plain list of tensors in the order of declaration, passed to every call: there is
// no hidden state, so the same model runs with tracked values (training), detached ones
// (evaluation, sampling) or float64 ones (checks).
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ops.hpp"
#include "nn/memory.hpp"

namespace tete {

enum class InitializerKind : uint8_t {
  normal,
  truncated_normal,
  uniform,
  glorot,
  constant,
  zeros,
  ones,
  identity
};

// The distribution of a parameter's first value. Deviations are nominal (spec §0 and D5).
struct Initializer {
  InitializerKind kind = InitializerKind::zeros;
  double a = 0, b = 0;  // normal, truncated_normal: deviation; uniform: bounds; constant: value

  // True if it only says how far the values spread about 0, which a style like GPT-2's may replace.
  bool is_spread() const {
    return kind == InitializerKind::normal || kind == InitializerKind::truncated_normal ||
           kind == InitializerKind::glorot;
  }
};

struct ParamSpec {
  std::string name;               // a path: "decoder/3/A/P_q"
  std::vector<std::string> dims;  // declared names, as many as sizes: {"d_X", "d_k", "h"}
  Shape shape;
  Initializer init;
  bool fixed = false;      // saved, but not trained
  Short<int> layout = {};  // order in memory, outermost first; empty: row-major
};

struct ParamId {
  int index = -1;
};

// True for a matrix that mixes heads: all its dimensions are called h or h_….
bool mixes_heads(const std::vector<std::string>& dims);

class ParamList {
 public:
  // Fails on a name that is already declared.
  ParamId declare(ParamSpec spec);
  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ParamSpec& operator[](ParamId id) const { return specs_[id.index]; }
  int size() const { return static_cast<int>(specs_.size()); }
  // The index of the parameter with this name, or -1.
  int find(const std::string& name) const;
  Index element_total() const;
  // The values that initial_values() makes, for require_memory().
  std::vector<Planned> planned(Dtype dtype) const;
  // Each value is drawn from its own stream of the key, by name: adding a parameter changes no
  // other one's value, and draws them on the processor. Fails (resource) if they do not fit into
  // memory.
  Tensors initial_values(Key key, Dtype dtype = Dtype::f32, Backend& on = cpu()) const;

 private:
  std::vector<ParamSpec> specs_;
  std::unordered_map<std::string, int> by_name_;
};

// Draws one tensor from spec.init. Glorot's fans are those of spec D5 (k-D: receptive field times
// the last two dimensions).
Tensor initial_value(const ParamSpec& spec, Key key, Dtype dtype);

// Returns the initialiser that a parameter gets, in place of the declared one, spec.init.
using InitRule = std::function<Initializer(const ParamSpec& spec)>;
// The rule "t5" or "admin" (all as declared, spec D5) or "gpt2" (gpt2_init). Fails on another name.
InitRule init_rule(const std::string& style);
// N(0.02) in the place of normal, truncated_normal and glorot of more than one dimension; matrices
// that mix heads (all their dimensions are called h or h_…) then start as the identity. All else
// starts as declared.
Initializer gpt2_init(const ParamSpec& spec);

// The place where a layer declares its parameters: the list, and the path so far.
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

}  // namespace tete
