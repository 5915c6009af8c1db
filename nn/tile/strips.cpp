// Strips of the memory: a sum over one of its axes, of values that are over another one, too, is in
// a block the sum of such sums over a strip of the axis at a time. Each strip's values are computed
// where the sum needs them, and again for the gradient, so they are never stored whole.
#include <algorithm>

#include "core/fused.hpp"
#include "nn/tile/tile.hpp"

namespace tete {

namespace {

class StripFinder {
 public:
  explicit StripFinder(Checked& program) : program_(program) {}

  void find() {
    for (CheckedValue& v : program_.values)
      if (v.kind == ValueKind::statement) find(v.right);
    while (refuse_shared()) continue;
    for (size_t i = 0; i < program_.strips.size(); ++i)
      for (int number : program_.strips[i].inside)
        program_.values[number].strips = static_cast<int>(i);
  }

 private:
  bool is_memory(int dim) const { return program_.dimensions[dim].role == Role::memory; }
  bool is_of_queries(int dim) const {
    return program_.dimensions[dim].role == Role::query ||
           program_.flow.dimensions[dim].made_of_queries;
  }
  bool is_made_of_memory(int dim) const { return program_.flow.dimensions[dim].made_of_memory; }

  void find(Node& node) {
    for (Node& arg : node.args) find(arg);
    if (!node.builtin || !node.builtin->adds) return;
    for (const Node& arg : node.args)
      for (int dim : arg.names) {
        Strips strips{dim};
        if (node.names.contains(dim) || !is_memory(dim) || !collect(node, strips)) continue;
        node.strips = static_cast<int>(program_.strips.size());
        program_.strips.push_back(strips);
        return;
      }
  }

  // False if no value below the sum is over the memory twice, or if the rows of one along the axis
  // depend on each other.
  bool collect(const Node& sum, Strips& strips) const {
    for (const Node& arg : sum.args)
      if (!keeps_rows(arg, strips.dim) || !collect(arg.index, strips)) return false;
    return !strips.inside.empty();
  }

  bool collect(int number, Strips& strips) const {
    const auto has = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), number) != list.end();
    };
    if (has(strips.inside) || has(strips.given)) return true;
    const CheckedValue& v = program_.values[number];
    const auto memories =
        std::count_if(v.dims.begin(), v.dims.end(), [&](int dim) { return is_memory(dim); });
    if (v.kind != ValueKind::statement || !v.dims.contains(strips.dim) || memories < 2) {
      strips.given.push_back(number);
      return true;
    }
    if (!(v.names == v.dims) || !keeps_rows(v.right, strips.dim) || needs_all_queries(v))
      return false;
    strips.inside.push_back(number);
    return std::all_of(v.uses.begin(), v.uses.end(),
                       [&](int used) { return collect(used, strips); });
  }

  // True if a value that has no queries reads some: a block has only its own.
  bool needs_all_queries(const CheckedValue& v) const {
    const auto has_queries = [&](const Names& dims) { return program_.is_over(dims, Role::query); };
    bool reads = std::any_of(v.uses.begin(), v.uses.end(),
                             [&](int used) { return has_queries(program_.values[used].dims); });
    visit(v.right, [&](const Node& node) {
      reads = reads || (node.kind == NodeKind::size && is_of_queries(node.index));
    });
    return reads && !has_queries(v.dims);
  }

  // True if a row of the expression along `dim` follows from the same rows of what it reads.
  bool keeps_rows(const Node& whole, int dim) const {
    bool keeps = true;
    visit(whole, [&](const Node& node) { keeps = keeps && row_keeps(node, dim); });
    return keeps;
  }

  bool row_keeps(const Node& node, int dim) const {
    const bool combines = node.builtin && node.builtin->combines_positions;
    for (const Node::Key& key : node.keys)
      if (combines && (key.dim == dim || key.dims.contains(dim))) return false;
    if (node.builtin && node.builtin->counts_positions) return false;
    if (node.kind == NodeKind::size && (is_memory(node.index) || is_made_of_memory(node.index)))
      return false;
    for (int name : node.names)
      if (is_made_of_memory(name)) return false;
    for (const Node& arg : node.args)
      if (arg.names.contains(dim) && !node.names.contains(dim)) return false;
    return node.kind != NodeKind::value || node.plain || leaves(node, dim);
  }

  // True if a use of a value that picks, splits or renames leaves `dim` as it is.
  bool leaves(const Node& node, int dim) const {
    const Names& dims = program_.values[node.index].dims;
    for (int k = 0; k < dims.size(); ++k) {
      const Names& parts = node.axes[k].parts;
      const bool is_kept = parts.size() == 1 && parts[0] == dims[k];
      if (!is_kept && (dims[k] == dim || parts.contains(dim))) return false;
    }
    return true;
  }

  // Gives up the strips with a value that something else reads, too, as it is stored whole for
  // that. True if there were such.
  bool refuse_shared() {
    std::vector<bool> is_read(program_.values.size());
    std::vector<bool> inside(program_.values.size());
    is_read[program_.result] = true;
    for (const Strips& strips : program_.strips)
      for (int number : strips.inside) inside[number] = true;
    for (size_t i = 0; i < inside.size(); ++i)
      if (!inside[i]) mark_read(program_.values[i].right, is_read);
    bool found = false;
    for (Strips& strips : program_.strips)
      if (std::any_of(strips.inside.begin(), strips.inside.end(),
                      [&](int number) { return is_read[number]; }))
        strips = {}, found = true;
    return found;
  }

  void mark_read(const Node& node, std::vector<bool>& is_read) const {
    if (node.strips >= 0 && !program_.strips[node.strips].inside.empty()) return;
    if (node.kind == NodeKind::value) is_read[node.index] = true;
    for (const Node& arg : node.args) mark_read(arg, is_read);
    for (const Node::Key& key : node.keys)
      for (const Node& value : key.value) mark_read(value, is_read);
  }

  Checked& program_;
};

}  // namespace

void find_strips(Checked& program) { StripFinder(program).find(); }

// ---- Running ------------------------------------------------------------------------------------

// One sum, with all that a strip of it needs: its gradient is taken when the block's Runner is
// gone.
struct Runner::StripSum {
  SizeTable sizes;
  CallPart part;
  Forward forward;
  std::string path;
  Mask mask;
  const Node& node;

  const Strips& strips() const { return sizes.program().strips[node.strips]; }
  // The sum over the strip whose first rows these are; `given` are its rows.
  Tensor run(const Tensors& given, Index from, Index rows) const {
    SizeTable sizes_here = sizes;
    sizes_here.set(strips().dim, rows);
    CallPart here = part;
    here.strip = {strips().dim, from};
    Runner runner(sizes_here, here, forward, path, mask);
    for (size_t i = 0; i < given.size(); ++i) runner.set(strips().given[i], given[i]);
    const Value sum = runner.unplaced(node);
    return runner.aligned(sum, node.names, sum.batched).tensor;
  }
};

// A hook may have replaced a value inside.
bool Runner::sums_strips(const Node& n) {
  const std::vector<int>& inside = program_.strips[n.strips].inside;
  return block_.memories >= 0 && strip_.dim < 0 && !inside.empty() &&
         size(program_.strips[n.strips].dim) > 0 &&
         std::none_of(inside.begin(), inside.end(), [&](int number) { return has(number); });
}

Index Runner::strip_rows(const Strips& strips) {
  if (block_.rows > 0) return block_.rows;
  double widest = 0;
  for (int number : strips.inside) widest = std::max(widest, elements_of(checked(number), *this));
  const Index rows = size(strips.dim);
  return block_queries(widest / static_cast<double>(rows), rows, device_->pieces());
}

Value Runner::summed_in_strips(const Node& n) {
  const Strips& strips = program_.strips[n.strips];
  const auto sum = std::make_shared<const StripSum>(
      StripSum{sizes_, part(), inside_tile(forward_), path_, mask_, n});
  const Index all = size(strips.dim), step = strip_rows(strips);
  Tensor total;
  for (Index from = 0; from < all; from += step) {
    const Index rows = std::min(step, all - from);
    Tensors given;
    for (int number : strips.given) {
      const Value& v = at(number);
      const bool is_cut = v.names.contains(strips.dim);
      given.push_back(is_cut ? slice(v.tensor, axis_of(v, strips.dim), from, rows) : v.tensor);
    }
    const Tensor part_sum = recomputed(
        [sum, from, rows](const Tensors& in) { return sum->run(in, from, rows); }, given);
    total = total ? total + part_sum : part_sum;
  }
  return {total, n.names, total.rank() > n.names.size()};
}

}  // namespace tete
