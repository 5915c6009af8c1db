// Sizes by name: what the caller sets, what tensors bring, what `where` says otherwise.
//
// In this order (R8): the caller; arguments; `where`, evaluated on demand in any order and never
// solved backwards; a merge on the left; the calling def's size of the same name; what a called
// def returns. Division must be exact, // and % round down. Whatever is open, contradictory,
// circular, inexact or too large is an Error (input) that shows the lines that disagree.
#pragma once
#include <map>
#include <optional>

#include "nn/language/check.hpp"

namespace tete {

using SizesByName = std::map<std::string, Index>;

class SizeTable {
 public:
  // Fails on a name that the program does not have.
  SizeTable(std::shared_ptr<const Checked> program, const SizesByName& given);

  // A tensor of this shape is the input or parameter `value`; leading dimensions are the batch.
  void bind(int value, const Shape& shape);
  void set_causal(bool causal) { causal_ = causal; }
  // Of a call that brings some rows of a sequence: all query axes have one length and all memory
  // axes another, also where the text has the memory be the queries.
  void set_lengths(Index queries, Index memories);
  void set(int dim, Index size) { entry(dim) = {Origin::caller, false, size, -1}; }

  // The size of a dimension; fails where it is open.
  Index size(int dim);
  // Nothing where it is open.
  std::optional<Index> find(int dim);
  // Checks what is known so far: contradictions show before the first call.
  void check_known();
  // Every size is known and all conditions hold.
  void check_all();

  // The number that a constant expression comes to. "/" is real division here.
  double quantity(const Node& node);

  const Checked& program() const { return *program_; }

 private:
  enum class Origin : uint8_t { open, caller, argument, derived };
  struct Entry {
    Origin origin = Origin::open;
    bool pending = false;  // it is being derived
    Index size = 0;
    int value = -1;  // the argument that brought it
  };
  Entry& entry(int dim) { return entries_[dim]; }
  const Dimension& dimension(int dim) const { return program_->dimensions[dim]; }
  std::optional<Index> derive(int dim);
  std::optional<Index> whole(const Node& node);
  bool causal(const Node& node) const;
  void check(const Condition& condition);
  std::string origin_of(int dim);
  std::vector<Place> places_of(int dim, std::vector<Place> before);
  [[noreturn]] void fail_open(int dim);
  // `dim` is needed to derive itself: a mistake where a default is among what leads there.
  void refuse_circle(int dim) const;

  std::shared_ptr<const Checked> program_;
  std::vector<Entry> entries_;
  std::optional<bool> causal_;
  bool parted_ = false;     // set_lengths
  int open_ = -1;           // the dimension that the last evaluation found open
  std::vector<int> stack_;  // the dimensions that are being derived
  size_t operators_ = 0;    // that are being evaluated
};

// The parameters of a program as a ParamList takes them.
struct ParameterSpec {
  ParamSpec spec;          // spec.name is the program's: "P_q", "Y.P_q"
  bool per_stack = false;  // one tensor for all layers of a stack
};
std::vector<ParameterSpec> parameter_specs(const Checked& program, SizeTable& sizes);

}  // namespace tete
