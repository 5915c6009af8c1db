// The places in a model where a text attends: their paths, what they are given, and which
// sequences are their rows and columns.
#pragma once
#include <map>

#include "nn/model.hpp"

namespace tete {

// Values by their paths.
using Activations = std::map<std::string, Tensor>;

// One attention of a model.
struct SitePlace {
  std::string path;   // "decoder/3/A"
  std::string stack;  // the path of the repeated call around it, without the number: "decoder"
  Index layer;        // that number
  bool cross, causal;
  std::shared_ptr<const Checked> program;
  SizesByName sizes;  // all that are known without a call
  std::string X, M;   // the paths of its inputs; "" where nothing is offered
  int rows, columns;  // which of the model's sequences: 0 and 1; the source comes first
};

// Every call of the model that takes X and M, and every other program in it that has a softmax over
// a sequence, in the order in which the model goes through them.
std::vector<SitePlace> places_of(const Model& model);
// The bodies of a text's repeated calls, each repetition one, as places.
std::vector<SitePlace> blocks_of(const Model& model);
// Every program inside the model's, its own first.
std::vector<SitePlace> programs_of(const Model& model);

// The path of a value of its text, by its number in program.values; of an input, the path of what
// the site is given.
std::string path_of(const SitePlace& place, int number);
// The program that has a value at this path, and its number there; no program if none has.
struct PlacedValue {
  const Checked* program = nullptr;
  int number = -1;
};
PlacedValue value_at(const std::vector<SitePlace>& programs, const std::string& path);
// A path without the numbers of its repetitions, under which a parameter `per stack` is found.
std::string without_numbers(const std::string& path);

// The residual stream of a text: a call that is repeated, whose last state leads to the result.
struct Stream {
  int value = -1;                     // in the model's program.values; -1: there is none
  std::vector<std::string> points{};  // paths of its states: what goes in, then each sum and result
};
Stream stream_of(const Model& model);
// True for a use of a value with the dimensions that it was defined with.
bool is_plain_value(const Node& node);
// True if a value is another one, or a sum that begins with it.
bool is_plus_something(const Checked& program, int value, int other);
// True if a value of a block is its first input, or a sum that begins with it.
bool is_on_stream(const Checked& block, int number);

}  // namespace tete
