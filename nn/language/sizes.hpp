// Sizes by name: those that the caller sets, that tensors have, and that `where` gives by default.
//
// In this order (R8): the caller; arguments; `where`, evaluated on demand in any order and never
// solved backwards; a merge on the left; the sequence that it is another name of; the calling def's
// size of the same name; the result of a called def. Division must be exact, // and % round down.
// The number of windows is at least 0. A size that is open, contradictory, circular, inexact or too
// large is an Error (input) that shows the lines that disagree.
#pragma once
#include <map>
#include <optional>

#include "nn/language/check.hpp"

namespace tete {

using SizesByName = std::map<std::string, Index>;

// True if a def of the program, or of its calls', decides itself how large `name` is.
bool has_size(const Checked& program, const std::string& name);

class SizeTable {
 public:
  // A name that the program itself does not have is that of every def in it, and in the programs of
  // its calls, that has the name and no argument for it; "Z.A.h" is that of the call that makes Z
  // alone (R27). Fails on a name that none has.
  SizeTable(std::shared_ptr<const Checked> program, const SizesByName& given);

  // Takes the sizes of the input or parameter `value` from its tensor's shape; leading dimensions
  // are the batch.
  void bind(int value, const Shape& shape);
  // The same sizes for another program with these dimensions, inputs and parameters.
  SizeTable of(std::shared_ptr<const Checked> program) const;
  void set_causal(bool causal) { causal_ = causal; }
  // The number of the innermost repetition around the program.
  void set_layer(Index layer) { layer_ = layer; }
  // For a call that has only some rows of its sequences: sets the length of all query axes and that
  // of all memory axes. They may differ even if the text says that M is X.
  void set_lengths(Index queries, Index memories);
  // Leaves the lengths of all sequences to the tensors of a call.
  void open_lengths() {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (program_->dimensions[i].role != Role::none) entries_[i] = {};
  }
  void set(int dim, Index size) { entry(dim) = {Origin::caller, false, size, -1}; }

  // The size of a dimension; fails if it is open.
  Index size(int dim);
  // The same, but empty if it is open.
  std::optional<Index> find(int dim);
  // Checks the sizes that are known so far, so that contradictions show before the first call.
  void check_known();
  // Fails unless every size is known and all conditions hold.
  void check_all();

  // The sizes of a call's own program, as far as they follow from these.
  SizeTable inside(const CheckedCall& call);
  // The number of a call's repetitions; 1 if it is not repeated. Fails where one that has a filling
  // of its own is none of them.
  Index times_of(const CheckedCall& call);
  // The number of parameter sets of a call: one, or one for each repetition.
  Index sets_of(const CheckedCall& call) { return call.tied ? 1 : times_of(call); }

  // The value of a constant expression. "/" is real division here.
  double quantity(const Node& node);

  const Checked& program() const { return *program_; }

 private:
  bool set_by_name(const std::string& name, Index size);
  bool set_in_defs(const std::string& name, Index size);
  bool set_in_call(const std::string& name, Index size);
  enum class Origin : uint8_t { open, caller, argument, derived };
  struct Entry {
    Origin origin = Origin::open;
    bool pending = false;  // it is being derived
    Index size = 0;
    int value = -1;                   // the argument that brought it
    std::optional<Index> outer = {};  // the caller's size of the same name
  };
  Entry& entry(int dim) { return entries_[dim]; }
  const Dimension& dimension(int dim) const { return program_->dimensions[dim]; }
  std::optional<Index> derive(int dim);
  std::optional<Index> whole(const Node& node);
  bool causal(const Node& node) const;
  void check(const Condition& condition);
  void check_total(const Condition& condition);
  std::optional<Index> returned(const Condition& condition);
  std::vector<Place> places_of(int dim, std::vector<Place> before);
  // `dim` is needed to derive itself. Fails if a default of `where` is in the circle; without one,
  // the circle is only several names of one open size.
  void refuse_circle(int dim) const;

  std::shared_ptr<const Checked> program_;
  std::vector<Entry> entries_;
  SizesByName inner_ = {};                    // that the caller set, for the programs of calls
  std::map<int, SizesByName> in_calls_ = {};  // ... and for that of one call
  std::optional<bool> causal_;
  Index layer_ = 0;
  bool parted_ = false;     // set_lengths
  int open_ = -1;           // the dimension that the last evaluation found open
  std::vector<int> stack_;  // the dimensions that are being derived
  size_t operators_ = 0;    // operators that are being evaluated
};

// The parameters of a program as a ParamList takes them.
struct ParameterSpec {
  ParamSpec spec;          // spec.name is the program's: "P_q", "Y.P_q"
  bool per_stack = false;  // one tensor for all layers of a stack
};
// The program's own, then those of its calls, "Z/0/A/P_q", in the order of Runner's parameters. One
// that is per stack comes once for each repetition, under one name: "Z/A/T5Bias.B" (R12).
std::vector<ParameterSpec> parameter_specs(const Checked& program, SizeTable& sizes);
// Declares each of them once, starting as `rule`, if given, says, and returns their ids in that
// order.
std::vector<ParamId> declare_parameters(const Checked& program, SizeTable& sizes, ParamList& params,
                                        const InitRule& rule = {});
size_t parameter_count(const Checked& program, SizeTable& sizes);
// Those of all repetitions of a call, by the sizes of its caller.
size_t parameter_count(const CheckedCall& call, SizeTable& sizes);

}  // namespace tete
