// The gradient of a tile, block by block; the gradients of rows that blocks share are summed.
#include <map>
#include <mutex>

#include "core/threads.hpp"
#include "core/unchanged.hpp"
#include "nn/tile/tile.hpp"

namespace tete {

namespace {

// The gradients of the given values. If blocks share rows, each unit has a sum of its own, and
// these are added in the units' order, whichever is ready first.
class GradientSums {
 public:
  GradientSums(const TiledCall& call, const Backward& at) : call_(call) {
    for (size_t i = 0; i < at.in.size(); ++i)
      sums_.push_back(at.wants(i) && is_real(at.in[i].dtype()) ? zeros_like(at.in[i]) : Tensor());
  }

  // The gradients that one unit adds.
  struct Unit {
    struct Rows {
      Range range;
      Index memory;  // positions, from the first
      Tensor gradient;
    };
    std::vector<std::vector<Rows>> rows;  // by given value
  };
  Unit begin(Index unit) const {
    Unit made;
    made.rows.resize(sums_.size());
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (!sums_[i] || is_alone(i) || has_queries(i)) continue;
      const Range range = call_.grid.block(call_.grid.first_block(unit));
      const Index all = call_.memory();
      made.rows[i].push_back({range, all, zeros_like(rows(i, range, all))});
    }
    return made;
  }
  void add(Unit& unit, size_t i, const Range& range, const Tensor& gradient) const {
    const Index memory = call_.seen(range);
    if (is_alone(i)) return add_onto(gradient, rows(i, range, memory));
    if (has_queries(i)) return unit.rows[i].push_back({range, memory, gradient});
    Range here = range;
    here.sample = 0;  // the unit's sum begins with its own samples
    add_onto(gradient, call_.part_of(unit.rows[i][0].gradient, call_.given[i], here, memory));
  }
  void end(Index number, Unit unit) {
    const std::lock_guard lock(mutex_);
    ready_.emplace(number, std::move(unit));
    for (auto next = ready_.find(done_); next != ready_.end(); next = ready_.find(++done_)) {
      for (size_t i = 0; i < sums_.size(); ++i)
        for (const Unit::Rows& some : next->second.rows[i])
          add_onto(some.gradient, rows(i, some.range, some.memory));
      ready_.erase(next);
    }
  }

  Tensors all() const { return sums_; }

 private:
  static Tensor zeros_like(const Tensor& x) {
    const Tensor zeros = Tensor::empty_like(x);
    zeros.backend().fill(0, zeros.view());
    return zeros;
  }
  bool has_queries(size_t i) const { return call_.given[i].query >= 0; }
  // True if no two units share a row of given value i.
  bool is_alone(size_t i) const {
    const bool by_sample = call_.given[i].batched || call_.grid.sample_blocks() == 1;
    return by_sample && (has_queries(i) || call_.grid.parts == 1);
  }
  Tensor rows(size_t i, const Range& range, Index memory) const {
    return call_.part_of(sums_[i], call_.given[i], range, memory);
  }

  const TiledCall& call_;
  Tensors sums_;
  std::mutex mutex_;
  std::map<Index, Unit> ready_;
  Index done_ = 0;
};

struct BlockRun {
  Tensor y;
  Tensors leaves;
};

void add_gradient(const TiledCall& call, const Backward& at, const BlockRun& run,
                  const Range& range, GradientSums& sums, GradientSums::Unit& unit) {
  if (!run.y.tracked()) return;
  Tensors asked;
  std::vector<size_t> inputs;
  for (size_t i = 0; i < run.leaves.size(); ++i)
    if (at.wants(i) && run.leaves[i].tracked()) asked.push_back(run.leaves[i]), inputs.push_back(i);
  const Tensors found = grad(run.y, asked, {.cotangent = call.rows(at.g, range)});
  for (size_t k = 0; k < found.size(); ++k)
    if (found[k]) sums.add(unit, inputs[k], range, found[k]);
}

}  // namespace

Tensors tile_gradient(const TiledCall& call, const Backward& at) {
  GradientSums sums(call, at);
  std::vector<BlockRun> kept;
  const size_t size = 1 + call.given.size();  // the tensors of one block that was kept
  for (auto next = at.kept.begin(); next != at.kept.end(); next += size)
    kept.push_back({*next, Tensors(next + 1, next + size)});
  const Unchanged memory(call.without_queries(at.in));
  parallel_for(call.grid.units(), 4 * call.work(), [&](Index number) {
    const Unchanged::Here known(memory);
    const RecordWatch unseen([](const Tensor& made) { return made; });
    GradientSums::Unit unit = sums.begin(number);
    for (Index b = call.grid.first_block(number); b < call.grid.first_block(number + 1); ++b) {
      const Range range = call.grid.block(b);
      if (!kept.empty()) {
        add_gradient(call, at, kept[b], range, sums, unit);
        continue;
      }
      const Tensors leaves = leaves_of(call.parts_of(at.in, range, call.seen(range)), at.wanted);
      add_gradient(call, at, {call.graph_of(leaves, range), leaves}, range, sums, unit);
    }
    sums.end(number, std::move(unit));
  });
  return sums.all();
}

}  // namespace tete
