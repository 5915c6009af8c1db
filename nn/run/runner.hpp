// The runner of one call computes its values, statement by statement. The functions of
// nn/language/builtins/ take it as their argument.
#pragma once
#include <algorithm>
#include <map>
#include <optional>

#include "nn/run.hpp"

namespace tete {

// A tensor whose dimensions are the batch's, if `batched`, and then `names`.
struct Value {
  Tensor tensor;
  Names names;
  bool batched = false;
};

// The noise of one dropout of one statement.
struct Dropout {
  double rate = 0;
  Key key{0};
  uint64_t first_sample = 0;  // global number of the batch's first sample
};

struct ByDistance;
struct TileGrid;
struct TileInputs;
class TiledCall;

// The positions of a run's first rows in the two sequences.
struct FirstRows {
  Index query = 0, memory = 0;
};

// A block of a call's queries (nn/tile): the row of its first query, and the lengths of the call;
// -1 if the run has all rows.
struct QueryBlock {
  Index query = 0, queries = -1, memories = -1;
  Index rows = 0;  // of a strip; 0: sizes choose
};

// A strip of one axis of the memory, which begins at row `from`; -1 if the run has all rows of
// each.
struct Strip {
  int dim = -1;
  Index from = 0;
};

// In decoding: the earlier rows that each call of windows() still needs. `fresh` says which rows
// are new: query means the queries only, memory means both sequences.
struct Tails {
  std::map<const Node*, Tensor>* rows = nullptr;
  Role fresh = Role::none;
};

// Tensors of one shape: all of them have the batch's dimensions, or none.
struct Operands {
  Tensors tensors;
  bool batched = false;
};

// A norm that was computed along with its sum, and the vectors that it was computed from.
struct NormAhead {
  SumWithNorm made;
  Tensors vectors;  // scale and bias
};

// The call, as the run of a part of it knows it.
struct CallPart {
  Shape batch;
  Dtype dtype;
  FirstRows first;
  QueryBlock block;
  Backend* device;
  bool one_sequence;  // X and M are of one sequence
  Strip strip = {};
};

// True if no bit differs, so that -0 is not 0, and a NaN is itself; type and shape are one.
bool same_numbers(const Tensor& a, const Tensor& b);

// The mask of a call of the program. R19: a text that marks X's sequence as causal brings that part
// itself, and fails (input) if the call does, too.
Mask with_own_part(Mask mask, const Checked& program);
// Gives the table what the call's inputs and its mask tell of sizes.
void bind_call(SizeTable& sizes, const Tensors& inputs, const Mask& mask);
// True for each value that depends on an input with a batch.
std::vector<bool> batched_values(const Checked& program, const Tensors& inputs);

class Runner {
 public:
  Runner(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
         std::span<const ParamId> params, const Forward& forward, const std::string& path,
         const Mask& mask);
  // A run of a part of a call. Its sources come from set(), so no input is bound or checked.
  Runner(const SizeTable& sizes, const CallPart& part, const Forward& forward,
         const std::string& path, const Mask& mask);
  Tensor run();
  // Fails (resource) if one value alone does not fit into memory. run() calls it first.
  void check_memory();
  // The run computes the next rows of the sequences, which begin at these positions.
  void continue_at(const FirstRows& first, const Tails& tails) { first_ = first, tails_ = tails; }
  // Computes what a fusion skips and a hook looks at: only run() comes by all values.
  void show_skipped();
  // The size of `dim` in the whole call, and the row of it at which this block begins.
  Index whole_size(int dim);
  Index block_start(int dim) const;
  // The most rows of `dim` that a block of this call has.
  Index rows_of_block(int dim);
  // The position of the first row along `dim`.
  Index first(int dim);
  // The cache of the earlier rows that `node`, windows along `dim`, needs in decoding; null where
  // the run has all rows.
  Tensor* tail(const Node& node, int dim) const;

  // The value with this index in program.values, computed when first asked for; set() replaces it.
  const Value& at(int number);
  void set(int number, const Tensor& x);
  bool has(int number) const { return static_cast<bool>(values_[number].tensor); }
  // If the value is an exit of the tile, a product that nothing inside reads: its place in the
  // graph is made without its numbers. A gradient does not read them.
  void make_only_graph_of(int number);

  // The value of an expression.
  Value node(const Node& n);
  // The same, but numbers and positions stay on the processor until they meet another value: what
  // is computed from them there needs no read from a device.
  Value unplaced(const Node& n);
  // These values with the dimensions `names`, and with the batch if one of them has it; if they
  // are on two devices, on that of the run.
  Operands operands(const std::vector<Value>& values, const Names& names);
  // The norm that was computed ahead of this fusion, once; its tensors are empty if there is none.
  NormAhead norm_ahead(const Fusion& norm);
  // A use of a tensor: as it is, or with elements picked and dimensions split or renamed.
  Value reference(const Node& n);
  // The value of an expression by distance, without of.n: along of.m, that of row i and position j
  // is at rows - 1 - i + j (nn/run/by_distance.cpp).
  Value by_distance(const Node& expression, const ByDistance& of);
  // A number that follows from sizes.
  Value number(const Node& n);
  double quantity(const Node& n) { return sizes_.quantity(n); }

  Index size(int dim) { return sizes_.size(dim); }
  Shape shape_of(const Names& names, bool batched);
  std::string shapes_of(const Names& names);  // for an error: the shape without and with the batch
  const Dimension& dimension(int dim) const { return program_.dimensions[dim]; }
  const Shape& batch() const { return batch_; }
  int batch_rank() const { return batch_.size(); }
  Dtype dtype() const { return dtype_; }
  Backend& device() const { return *device_; }
  // True if matrix products round what they multiply.
  bool rounds_products() const { return forward_.products != Products::full; }
  // The names of a value before a merge on the left.
  const Names& names_of(int value) const { return checked(value).names; }
  // The position of `dim` among the dimensions of x.tensor.
  int axis_of(const Value& x, int dim) const {
    return x.names.find(dim) + (x.batched ? batch_.size() : 0);
  }
  // The same value with the dimensions `names`, in that order; those that it lacks are broadcast.
  Value aligned(const Value& v, const Names& names, bool batched);
  // The result of the einsum `node` on these operands.
  Value contracted(const Node& node, const std::vector<Value>& operands);
  // a and b for truth values. The result has those names of `among` that a or b has.
  Value both(const Value& a, const Value& b, const Names& among);

  // The next dropout of the current statement. Each call folds another number into the key.
  Dropout next_dropout();
  // The dropout of a statement that has one.
  Dropout dropout_of(int statement) const { return dropout_of(checked(statement), 0); }

  // The call's mask (mask.cpp).
  // True if the call's mask hides later positions of `dim`.
  bool is_causal(int dim) const {
    return mask_.causal && !(mask_.apart && dimension(dim).sequence == Role::memory);
  }
  // The mask of the call on a tensor with these names, for a function that reduces `dim`
  // (R18); no tensor where it hides nothing.
  Value mask_along(const Names& names, int dim);
  // 1 where `dim` is no padding: [batch…, dim]; no tensor where the call does not pad it.
  Value padding_along(int dim);
  // The same, also for pieces of a padded sequence: 1 where a piece is there.
  Value there_along(int dim);
  // The mask over the query and the memory axis among `names`, as a tensor over `names`, after the
  // batch's dimensions if it depends on them.
  Tensor visible_over(const Names& names);
  // The number of positions of `dim` that the first of `rows` sees, where each later row sees one
  // more; shows_all where nothing is hidden, and nothing where masks hide others. `names` and `dim`
  // as above.
  std::optional<Index> shown_to_first(const Names& names, int rows, int dim);
  // The functions visible(n, m) and visible(m) of the notation.
  Value visible(const Node& n);

 private:
  // Describes this run, without its strip.
  CallPart part() const { return {batch_, dtype_, first_, block_, device_, one_sequence_}; }
  Dropout dropout_of(const CheckedValue& statement, int number) const;
  const CheckedValue& checked(int value) const { return program_.values[value]; }
  void read_batch_and_type();
  Value evaluate(const CheckedValue& v);
  Value input(const CheckedValue& v);
  Value parameter(const CheckedValue& v);
  // A call that is a program of its own (call.cpp).
  Value call(const CheckedValue& v);
  std::span<const ParamId> params_inside(int call);
  Value statement(const CheckedValue& v);
  Value normed_sum(const CheckedValue& v);
  Value operation(const Node& n);
  std::optional<Value> in_one_pass(const Node& n);
  // True unless a hook replaces a value inside, or one has been computed or is watched; who watches
  // does not stop a fusion that rounds otherwise.
  bool runs(const Fusion& fusion) const;
  // FusionRow::stores for the fusion that the value is inside; nothing if it is stored.
  std::optional<double> stored_instead(int number);
  // True if something over queries and memory is stored: the value, or what stands in its place, as
  // stored_instead has it.
  bool stores_pairs(int number, const std::optional<double>& instead) const;

  // The caller's hooks, Forward::watch and Forward::replace.
  bool is_offered(const CheckedValue& v) const;
  bool is_watched(int number) const;
  bool is_replaced(int number) const;
  std::string path_of(const CheckedValue& v) const;

  // The program's tile runs a block of queries at a time (nn/tile/run.cpp).
  bool tiles();
  bool is_as_long(int number);
  TileGrid tile_grid();
  void run_tile();
  // True if one kernel computes the whole tile in linear memory. Blocks would cut its products, and
  // run it again for the gradient.
  bool is_one_kernel();
  void run_one_kernel();
  void cut_tile(TileInputs& inputs);
  TiledCall tiled_call(const TileInputs& inputs, const std::vector<int>& exits);
  std::vector<Value> run_blocks(const TileInputs& inputs, const std::vector<int>& exits);
  void replace_in_tile(int number, TileInputs& inputs);
  void show_tile(const TileInputs& inputs);
  // Sums over a strip of the memory at a time (nn/tile/strips.cpp).
  struct StripSum;
  bool sums_strips(const Node& n);
  Index strip_rows(const Strips& strips);
  Value summed_in_strips(const Node& n);
  Index length(Role role);

  void check_mask();
  void check_lengths();
  bool is_padded(int dim) const;
  bool reads_padding(const Combination& c);
  Value call_mask(const AxisPair& pair);
  Value padding(int dim, const Tensor& of_samples);
  Value given(const Names& pair);
  Tensor lengths_of(int dim) const;
  Mask mask_inside(const CheckedCall& call);
  Tensor lengths_inside(int dim);

  const Checked& program_;
  SizeTable sizes_;
  const Tensors* inputs_ = nullptr;
  std::span<const ParamId> params_;
  const Forward& forward_;
  const std::string& path_;
  Mask mask_;
  std::vector<Value> values_;
  std::vector<Value> masks_;
  std::map<const Fusion*, NormAhead> norms_ahead_;
  Shape batch_;
  Dtype dtype_ = Dtype::f32;
  Backend* device_ = &cpu();  // of all values
  const CheckedValue* current_ = nullptr;
  FirstRows first_;
  QueryBlock block_;
  Strip strip_;
  bool one_sequence_ = false;
  Tails tails_;
  int dropouts_ = 0;                  // so far in the current statement
  const Node* only_graph_ = nullptr;  // the expression whose numbers are left out
  // True if a hook replaced a value in which something is hidden; and if that changed the numbers.
  bool replaced_hidden_ = false, changed_hidden_ = false;
};

// A·B + A·C as A·(B + C), one product less, if C has all names of B; otherwise empty
// (products.cpp).
std::optional<Value> joined(Runner& runner, const Node& a, const Node& b);

}  // namespace tete
