// The runner of one call: values by statement. The functions of nn/language/builtins/ are given it.
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

// What one dropout of one statement draws.
struct Dropout {
  double rate = 0;
  Key key{0};
  uint64_t first_sample = 0;  // global number of the batch's first
};

struct TileGrid;
struct TileInputs;
class TiledCall;

// Where in a sequence the rows of a call stand, which may be only some of them.
struct Stretch {
  Index first_query = 0, first_memory = 0;  // their positions
  // Of a block of a call: its first query in the call, and the call's own sizes; -1: all are here.
  Index query = 0, queries = -1, memories = -1;
  // What windows keep of the rows before, by the call of windows(). Rows of this role are new: of
  // queries, or of both where it is the memory.
  std::map<const Node*, Tensor>* tails = nullptr;
  Role fresh = Role::none;
};

class Runner {
 public:
  Runner(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
         std::span<const ParamId> params, const Forward& forward, const std::string& path,
         const Mask& mask);
  // Of a part of a call, whose values are set: nothing is bound or checked.
  struct Part {
    Shape batch;
    Dtype dtype;
    Stretch stretch;
  };
  Runner(const SizeTable& sizes, const Part& part, const Forward& forward, const std::string& path,
         const Mask& mask);
  Tensor run();
  // Fails (resource) at a value that does not fit into memory; run() begins with it.
  void check_memory();
  // From here on the call is of a stretch of the sequence.
  void go_on(const Stretch& stretch) { stretch_ = stretch; }
  // Of a block: the size of `dim` in the whole call, and the position in it where the block begins.
  Index whole_size(int dim);
  Index block_start(int dim) const;
  // The position of the first row along `dim`.
  Index first(int dim) const;
  // Where `node`, windows along `dim`, keeps its rows; null where all rows are there.
  Tensor* tail(const Node& node, int dim) const;

  // Value number `number` of the program, made if it is not there yet; and another in its place.
  const Value& at(int number);
  void set(int number, const Tensor& x);
  bool has(int number) const { return static_cast<bool>(values_[number].tensor); }
  // What the text makes of the values that are there; it is not kept.
  Tensor anew(int number) { return evaluate(checked(number)).tensor; }

  // The value of an expression.
  Value node(const Node& n);
  // A use of a tensor: as it is, or with elements picked and dimensions split or renamed.
  Value reference(const Node& n);
  // A number that sizes decide.
  Value number(const Node& n);
  double quantity(const Node& n) { return sizes_.quantity(n); }

  Index size(int dim) { return sizes_.size(dim); }
  Shape shape_of(const Names& names, bool batched);
  std::string shapes_of(const Names& names);  // for a message: without the batch, or with it
  const Dimension& dimension(int dim) const { return program_.dimensions[dim]; }
  const Shape& batch() const { return batch_; }
  int batch_rank() const { return batch_.size(); }
  Dtype dtype() const { return dtype_; }
  Products products() const { return forward_.products; }
  // The position of `dim` among the dimensions of x.tensor.
  int axis_of(const Value& x, int dim) const {
    return x.names.find(dim) + (x.batched ? batch_.size() : 0);
  }
  // `names` as a value of them should lie in memory, outermost first.
  Names in_memory_order(const Names& names) const;
  // The same value with the dimensions `names`, in that order: what it lacks is repeated.
  Value aligned(const Value& v, const Names& names, bool batched);
  // What the einsum `node` makes of these operands.
  Value contracted(const Node& node, const std::vector<Value>& operands);
  // a · b for truth values, with those of the names `among` that one of them has.
  Value both(const Value& a, const Value& b, const Names& among);
  // For a pattern: b0 b1 … for the batch, x7 for dimension 7, [x7] if it is marked; then a space.
  std::string spelled(const Names& names, bool batched, int marked = -1) const;

  // Of the current statement; another one at each call.
  Dropout next_dropout();

  // The call's mask (mask.cpp).
  bool hides_something() const { return !mask_.hides_nothing(); }
  bool is_causal() const { return mask_.causal; }
  // Over the two sequence axes among `names`, made once a call for each pair of them.
  const Value& call_mask(const Names& names);
  // The same as a tensor with the dimensions `names`, after the batch's if it has them.
  Tensor visible_over(const Names& names);
  // visible(n, m), visible(m)
  Value visible(const Node& n);

 private:
  const CheckedValue& checked(int value) const { return program_.values[value]; }
  void read_batch_and_type();
  void check_type(const std::string& name, const Tensor& x, bool fits) const;

  Value evaluate(const CheckedValue& v);
  bool is_pointed(std::string_view sentence) const;
  Value input(const CheckedValue& v);
  Tensor whole_numbers(const CheckedValue& v, const Tensor& x);
  Value parameter(const CheckedValue& v);
  Value statement(const CheckedValue& v);
  Value operation(const Node& n);
  // A·B + A·C as A·(B + C), where C has all names of B: one of two products is saved.
  std::optional<Value> joined(const Node& a, const Node& b);
  bool is_block() const { return stretch_.memories >= 0; }

  // Who looks into the call.
  bool is_offered(const CheckedValue& v) const;
  bool is_watched(int number) const;
  bool is_replaced(int number) const;
  std::string path_of(const CheckedValue& v) const;

  // The statements of the program's tile, a block of queries at a time (tile_run.cpp).
  bool tiles();
  TileGrid tile_grid();
  void run_tile();
  TileInputs tile_inputs();
  TiledCall tiled_call(const TileInputs& inputs, const std::vector<int>& exits);
  std::vector<Value> run_tile(const TileInputs& inputs, const std::vector<int>& exits);
  void replace_in_tile(int number, TileInputs& inputs);
  void show_tile(const TileInputs& inputs);
  Index length(Role role);
  double elements_of(const CheckedValue& v);

  void check_mask() const;
  Stretch ending_together();
  Value padding(int memory);
  Value causal(const Names& pair);
  Value given(const Names& pair);

  const Checked& program_;
  SizeTable sizes_;
  const Tensors* inputs_ = nullptr;
  std::span<const ParamId> params_;
  const Forward& forward_;
  const std::string& path_;
  const Mask& mask_;
  std::vector<Value> values_;
  std::vector<Value> masks_;
  Shape batch_;
  Dtype dtype_ = Dtype::f32;
  const CheckedValue* current_ = nullptr;
  Stretch stretch_;
  int dropouts_ = 0;  // of the current statement
};

// A number as a tensor of any shape.
Tensor spread(double value, const Shape& shape, Dtype dtype);

}  // namespace tete
