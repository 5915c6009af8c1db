// How a block of queries goes through its memory a piece at a time.
//
// Most statements over the memory need at a position what others have at that position. Two kinds
// need all of it: a sum over the memory (an einsum that contracts it), whose parts are added, and a
// softmax, whose rows need the sum of their exponentials first. Each begins a further pass for what
// reads it.
#include <algorithm>

#include "nn/language/check/tiling.hpp"

namespace tete {

namespace {

class PassFinder {
 public:
  PassFinder(const Checked& program, const Tile& tile)
      : program_(program),
        tile_(tile),
        made_of_memory_(dimensions_made_of(program, Role::memory)),
        there_(program.values.size(), 0) {}

  std::vector<Tile::Pass> find() {
    if (tile_.inside.empty() || !memory_pieces(program_).empty()) return {};
    for (int i : tile_.given)
      if (!has_one_memory_at_most(value(i).dims)) return {};
    for (int i : tile_.inside)
      if (!place(i)) return {};
    finish_values();
    find_carried();
    return passes_;
  }

 private:
  using Kind = Tile::Step::Kind;

  const CheckedValue& value(int i) const { return program_.values[i]; }
  bool is_memory(int dim) const { return program_.dimensions[dim].role == Role::memory; }
  bool has_memory(const Names& dims) const {
    return std::any_of(dims.begin(), dims.end(), [this](int dim) { return is_memory(dim); });
  }
  bool has_one_memory_at_most(const Names& dims) const {
    return std::count_if(dims.begin(), dims.end(), [this](int dim) { return is_memory(dim); }) <
               2 &&
           std::none_of(dims.begin(), dims.end(), [this](int dim) { return made_of_memory_[dim]; });
  }

  // Puts statement i into the passes, and notes in which pass others can read it.
  bool place(int i) {
    const CheckedValue& v = value(i);
    if (!has_one_memory_at_most(v.dims) || !has_one_memory_at_most(v.names)) return false;
    size_t pass = 0;
    for (int used : v.uses) pass = std::max(pass, there_[used]);
    size_t& there = there_[i];
    there = pass;
    if (v.kind == CheckedValue::Kind::same)
      return !has_memory(v.dims) || (add(pass, Kind::value, i), true);
    if (has_memory(v.names)) {
      if (v.names != v.dims) return false;
      if (!is_softmax_over_memory(v.right))
        return stays(v.right) && (add(pass, Kind::value, i), true);
      if (!std::all_of(v.right.args.begin(), v.right.args.end(), inner_) || !keys_stay(v.right))
        return false;
      add(pass, Kind::softmax_total, i);
      add(there = pass + 1, Kind::softmax, i);
      return true;
    }
    if (stays(v.right)) return true;  // nothing in it is over the memory
    if (!is_sum_over_memory(v.right)) return false;
    add(pass, Kind::sum, i);
    there = pass + 1;
    return true;
  }

  void add(size_t pass, Kind kind, int i) {
    if (passes_.size() <= pass) passes_.resize(pass + 1);
    passes_[pass].steps.push_back({kind, i});
  }

  bool is_softmax_over_memory(const Node& node) const {
    return calls(node, "softmax") && is_memory(node.dim());
  }
  // Linear in what is over the memory: its parts add up.
  bool is_sum_over_memory(const Node& node) const {
    const bool linear =
        calls(node, "einsum") || (calls(node, "sum") && node.dim() >= 0 && is_memory(node.dim()));
    return linear && std::all_of(node.args.begin(), node.args.end(), inner_);
  }
  // An extra logit is one for a row, and is made apart from it: noise in it would be drawn as the
  // first of the statement.
  bool keys_stay(const Node& softmax) const {
    for (size_t k = 1; k < softmax.keys.size(); ++k)
      if (!std::all_of(softmax.keys[k].value.begin(), softmax.keys[k].value.end(), inner_))
        return false;
    const std::vector<Node>& extra = softmax.keys[2].value;
    bool draws = false;
    for (const Node& logit : extra)
      visit(logit, [&](const Node& node) { draws = draws || calls(node, "dropout"); });
    return extra.empty() || (!reads_memory(extra[0]) && !draws);
  }
  bool reads_memory(const Node& whole) const {
    bool reads = false;
    visit(whole, [&](const Node& node) { reads = reads || has_memory(node.names); });
    return reads;
  }

  // Whether a position of the result needs that position alone of what is over the memory.
  bool stays(const Node& node) const {
    if (!stays_itself(node)) return false;
    for (const Node::Key& key : node.keys)
      if (!std::all_of(key.value.begin(), key.value.end(), inner_)) return false;
    return std::all_of(node.args.begin(), node.args.end(), inner_);
  }
  bool stays_itself(const Node& node) const {
    if (!has_one_memory_at_most(node.names)) return false;
    if (node.kind == Node::Kind::size)
      return !is_memory(node.index) && !made_of_memory_[node.index];
    for (const Node::Key& key : node.keys)
      if (!calls(node, "dropout") && ((key.dim >= 0 && is_memory(key.dim)) || has_memory(key.dims)))
        return false;
    for (const char* counting : {"index", "windows", "scatter", "concat", "top_k"})
      if (calls(node, counting) && reads_memory(node)) return false;
    for (const Node& arg : node.args)
      if (has_memory(arg.names) && !has_memory(node.names)) return false;
    if (node.kind != Node::Kind::value || node.plain) return true;
    const CheckedValue& used = value(node.index);
    for (int k = 0; k < used.dims.size(); ++k) {
      const Node::RefAxis& axis = node.axes[k];
      if (is_memory(used.dims[k]) && (axis.pick >= 0 || axis.parts.size() != 1)) return false;
    }
    return true;
  }

  void finish_values() {
    std::vector<bool> read(program_.values.size());
    for (size_t pass = passes_.size(); pass-- > 0;)
      for (size_t s = passes_[pass].steps.size(); s-- > 0;) {
        Tile::Step& step = passes_[pass].steps[s];
        const auto finish = [&](int i) {
          if (is_inside(i) && has_memory(value(i).dims) && !read[i]) step.finished.push_back(i);
          read[i] = true;
        };
        if (step.kind != Kind::softmax_total) finish(step.value);
        if (step.kind == Kind::softmax) continue;  // it has read the others in the pass before
        for (int used : value(step.value).uses) finish(used);
      }
  }

  void find_carried() {
    std::vector<size_t> made(program_.values.size());
    for (size_t pass = 0; pass < passes_.size(); ++pass)
      for (const Tile::Step& step : passes_[pass].steps) {
        if (step.kind == Kind::value || step.kind == Kind::softmax) made[step.value] = pass;
        if (step.kind == Kind::softmax) continue;
        for (int used : value(step.value).uses) {
          const size_t before = made[used];
          if (!is_inside(used) || !has_memory(value(used).dims) || before == pass) continue;
          add_once(passes_[pass].reads, used);
          add_once(passes_[before].leaves, used);
        }
      }
  }
  static void add_once(std::vector<int>& all, int one) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
  bool is_inside(int i) const {
    return std::binary_search(tile_.inside.begin(), tile_.inside.end(), i);
  }

  const Checked& program_;
  const Tile& tile_;
  std::vector<bool> made_of_memory_;
  std::vector<size_t> there_;  // the first pass in which a value can be read
  std::vector<Tile::Pass> passes_;
  const std::function<bool(const Node&)> inner_ = [this](const Node& node) { return stays(node); };
};

}  // namespace

std::vector<Tile::Pass> find_passes(const Checked& program, const Tile& tile) {
  return PassFinder(program, tile).find();
}

bool passes_go_back(const Checked& program, const Tile& tile) {
  const auto over_memory = [&](int value) {
    const Names& dims = program.values[value].dims;
    return std::any_of(dims.begin(), dims.end(),
                       [&](int dim) { return program.dimensions[dim].role == Role::memory; });
  };
  for (const Tile::Pass& pass : tile.passes)
    for (const Tile::Step& step : pass.steps) {
      const CheckedValue& v = program.values[step.value];
      if (step.kind == Tile::Step::Kind::softmax && !v.right.keys[2].value.empty()) return false;
      for (int used : v.uses)
        if (!over_memory(used) && std::count(tile.given.begin(), tile.given.end(), used) == 0)
          return false;
    }
  return true;
}

}  // namespace tete
