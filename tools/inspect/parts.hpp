// Parts of a model's values, as options name them:
//
//   decoder/0/A/O            each head in turn
//   decoder/*/A/O[2]         head 2 of each layer
//   decoder/0/A/O[h_v=2, n=5]   by the names of the text's axes
//   decoder/0/A/O[]          all of it at once
#pragma once
#include <optional>

#include "tools/inspect/passage.hpp"
#include "tools/inspect/places.hpp"
#include "tools/inspect/roles.hpp"

namespace tete {

// A part as it is written.
struct Selection {
  struct Pick {
    std::string axis;  // "": that of heads
    Index element;
  };
  std::string option, written;  // "--ablate", "decoder/0/A/O[2]", for errors
  std::string pattern;          // the path, or a glob of paths
  std::vector<Pick> picks = {};
  bool is_whole = false;  // []: no head in turn

  // Fails (input) unless it is a path, or a path and [numbers or axis=number].
  static Selection read(const std::string& option, const std::string& written);
};

// A value and its axes, as its text has them.
struct NamedValue {
  std::string path;
  std::string text;                    // "O[n, d_v, h_v]"
  std::vector<std::string> dims = {};  // names
  int heads = -1, positions = -1;      // axes; -1: it has none
  std::vector<int> sequences = {};     // by axis: which of the model's sequences; -1: none
};

// A value of a place, by its number; the roles are its program's.
NamedValue named_value(const SitePlace& place, const Roles& roles, int number);

// The elements of a value at some places of its axes; all of it without any.
struct Part {
  const NamedValue* value;
  std::vector<std::pair<int, Index>> picks = {};  // axis of the text, element

  std::optional<Index> at(int axis) const;
  // The picks besides those of heads and positions: "[s=1]"; "" without any.
  std::string others() const;
};

// The values of a model by path, with what they are like in one run.
class NamedValues {
 public:
  // `seen` has every value of a run of the passage.
  NamedValues(const Model& model, const Activations& seen);

  // The parts that are meant: each head in turn if none is picked, where the value has heads and
  // `each_head`; likewise each position. `lengths` has those of the model's sequences, which may be
  // longer than in `seen`. Fails (input) on paths, axes and elements that are not there; the error
  // has the nearest.
  std::vector<Part> parts(const Selection& selection, bool each_head, bool each_position,
                          const std::vector<Index>& lengths) const;
  // The size of an axis in that run; of a sequence its length.
  Index size(const NamedValue& value, int axis, const std::vector<Index>& lengths) const;

 private:
  Part part_of(const NamedValue& value, const Selection& selection,
               const std::vector<Index>& lengths) const;
  void check_finds(const Selection& selection) const;

  std::map<std::string, NamedValue> values_;
  std::map<std::string, Shape> shapes_;  // [dims], without a batch
};

// x where it is not of the part, and `to` where it is. Both are [batch…, dims].
Tensor replaced_at(const Part& part, const Tensor& x, const Tensor& to);

}  // namespace tete
