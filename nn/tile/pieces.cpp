#include "nn/tile/pieces.hpp"

#include "core/cpu/fused.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

// Σ xs, of one shape. `unread`: only its gradient is wanted.
Tensor sum_of(const Tensors& xs, bool unread) {
  const auto value = [unread](const Tensors& in) {
    const Tensor y = Tensor::empty_like(in[0]);
    if (!unread) copy_onto(in[0], y);
    for (size_t i = 1; i < in.size() && !unread; ++i) add_onto(in[i], y);
    return FusedValue{y};
  };
  const auto gradient = [](const Backward& at) { return Tensors(at.in.size(), at.g); };
  const auto meaning = [](const Tensors& in) {
    Tensor y = in[0];
    for (size_t i = 1; i < in.size(); ++i) y = y + in[i];
    return y;
  };
  return fused({"sum_of", value, gradient, meaning, saves_nothing, gradient}, xs);
}

// A number whose gradient, 1, is these of the tensors.
Tensor joined(const Tensors& made, const Tensors& gradients) {
  return record(
      "joined", Tensor::empty({}, made[0].dtype()), made,
      [](const Backward& at) { return at.kept; }, gradients, CodeLine::here(), saves_nothing);
}

Tensor fresh_copy(const Tensor& x) {
  const Tensor y = Tensor::empty_like(x);
  copy_onto(x, y);
  return y;
}

void add_to(Tensor& sum, const Tensor& x) {
  if (sum) add_onto(x, sum);
  else sum = fresh_copy(x);
}

// With the batch's dimensions.
SoftmaxArgument of_samples(Runner& run, const SoftmaxArgument& row) {
  const auto batched = [&](const Tensor& x) {
    return x ? run.aligned({x, row.x.names, row.x.batched}, row.x.names, true).tensor : x;
  };
  return {{batched(row.x.tensor), row.x.names, true}, batched(row.visible)};
}

}  // namespace

PieceRun::PieceRun(const TiledCall& call, const Parts& parts, const Range& range,
                   const Pieces& pieces)
    : call_(call),
      program_(call.program()),
      range_(range),
      parts_(parts),
      pieces_(pieces),
      block_(call, range, call.seen(range)),
      left_(pieces.size()),
      gradients_(pieces.size()) {
  for (size_t i = 0; i < parts.size(); ++i)
    if (call.given[i].memory < 0) block_->set(call.given[i].value, parts[i][0]);
}

bool PieceRun::is_given(int number) const {
  return std::any_of(call_.given.begin(), call_.given.end(),
                     [&](const TileInput& in) { return in.value == number; });
}

// ---- Values -------------------------------------------------------------------------------------

Runner& PieceRun::run(const Unread& unread) {
  for (const Tile::Pass& pass : program_.tile.passes) {
    make_all(pass, parts_, pieces_.size(), unread);
    for (Left& left : left_)  // of what this pass was the last to read
      for (const Tile::Step& step : pass.steps) {
        for (int finished : step.finished) left.values.erase(finished);
        if (step.kind == Tile::Step::Kind::softmax) left.rows.erase(step.value);
      }
    complete(pass, unread);
  }
  return *block_;
}

// Of the first `count` pieces.
void PieceRun::make_all(const Tile::Pass& pass, const Parts& parts, size_t count,
                        const Unread& unread) {
  for (size_t piece = 0; piece < count; ++piece) {
    Left &left = left_[piece], made = make(pass, parts, piece, left, unread);
    left.values.merge(made.values), left.sums.merge(made.sums);
    left.totals.merge(made.totals), left.rows.merge(made.rows);
  }
}

PieceRun::Left PieceRun::make(const Tile::Pass& pass, const Parts& parts, size_t piece,
                              const Left& read, const Unread& unread) {
  TileBlock block(call_, range_, pieces_[piece], unread);
  block.set(parts, piece);
  for (int number : pass.reads)
    if (!is_given(number)) block->set(number, read.values.at(number));
  Left made;
  for (const Tile::Step& next : pass.steps) {
    step(next, *block, read, made);
    for (int finished : next.finished) block->release(finished);
  }
  for (int number : pass.leaves)
    if (!is_given(number)) made.values[number] = block->at(number).tensor;
  return made;
}

void PieceRun::step(const Tile::Step& step, Runner& run, const Left& read, Left& made) {
  using Kind = Tile::Step::Kind;
  const CheckedValue& v = value(step.value);
  if (is_given(step.value)) return;  // a hook has replaced it
  if (step.kind != Kind::softmax)
    for (int used : v.uses)
      if (!run.has(used)) run.set(used, block_->at(used).tensor);
  switch (step.kind) {
    case Kind::value:
      run.at(step.value);
      return;
    case Kind::sum:
      made.sums[step.value] = run.at(step.value).tensor;
      return run.release(step.value);
    case Kind::softmax_total:
      return run.within(step.value, [&] {
        SoftmaxArgument row = softmax_argument(run, v.right);
        if (has_logit_of_samples(v.right)) row = of_samples(run, row);
        made.rows[step.value] = row;
        if (totals_.count(step.value) == 0)
          made.totals[step.value] =
              logsumexp_of_part(row.x.tensor, run.axis_of(row.x, v.right.dim()), row.visible);
      });
    case Kind::softmax: {
      const SoftmaxArgument& row = read.rows.at(step.value);
      const Tensor& total =
          read.totals.count(step.value) ? read.totals.at(step.value) : totals_.at(step.value);
      const Tensor y =
          softmax_of_part(row.x.tensor, run.axis_of(row.x, v.right.dim()), row.visible, total);
      run.set(step.value,
              run.aligned({y, row.x.names, row.x.batched}, v.names, row.x.batched).tensor);
    }
  }
}

bool PieceRun::has_logit_of_samples(const Node& softmax) {
  const Node* extra = extra_logit(softmax);
  return extra && block_->node(*extra).batched;
}

// What a pass has made for those after it.
void PieceRun::complete(const Tile::Pass& pass, const Unread& unread) {
  using Kind = Tile::Step::Kind;
  for (const Tile::Step& step : pass.steps) {
    if (is_given(step.value)) continue;
    if (step.kind == Kind::softmax_total) totals_[step.value] = total_of(step.value);
    if (step.kind != Kind::sum) continue;
    Tensors parts;
    for (Left& left : left_)
      if (auto part = left.sums.extract(step.value)) parts.push_back(part.mapped());
    const Node* const right = &value(step.value).right;
    const bool is_unread = std::find(unread.begin(), unread.end(), right) != unread.end();
    block_->set(step.value, sum_of(parts, is_unread));
  }
}

// log Σ e^x of whole rows, and of the logit that each row has besides.
Tensor PieceRun::total_of(int number) {
  const Node& softmax = value(number).right;
  const Value& x = left_[0].rows.at(number).x;
  const int axis = block_->axis_of(x, softmax.dim());
  Tensors totals;
  for (Left& left : left_) totals.push_back(left.totals.extract(number).mapped());
  if (const Node* extra = extra_logit(softmax))
    block_->within(number, [&] {
      Names rest = x.names;
      rest.erase(rest.find(softmax.dim()));
      const Value logit = block_->node(*extra);
      totals.push_back(reshape(block_->aligned(logit, rest, x.batched).tensor, totals[0].shape()));
    });
  return logsumexp(concat(totals, axis), {axis}, true);
}

// ---- Gradients ----------------------------------------------------------------------------------

void PieceRun::gradients(const Tensor& g, const Add& add) {
  const std::vector<Tile::Pass>& passes = program_.tile.passes;
  Parts values = parts_;
  for (Tensors& parts : values)
    for (Tensor& x : parts) x = x.detach();
  for (const Tile::Pass& pass : passes) {
    // Of sums that are exits nothing but the shape is wanted, which one piece shows.
    const bool shapes_only = &pass == &passes.back() && exits_are_sums();
    const Unread unread = shapes_only ? unread_going_back(pass) : Unread();
    make_all(pass, values, shapes_only ? 1 : pieces_.size(), unread);
    complete(pass, unread);
  }
  gradients_of_exits(g, add);
  for (size_t pass = passes.size(); pass-- > 0;)
    for (size_t piece = 0; piece < pieces_.size(); ++piece) go_back(passes[pass], piece, add);
  for (const auto& [input, gradient] : shared_) add(input, pieces_[0], gradient);
}

// Whether nothing inside is made of sums over the memory.
bool PieceRun::exits_are_sums() const {
  size_t over_memory = 0;
  for (const Tile::Pass& pass : program_.tile.passes)
    for (const Tile::Step& step : pass.steps)
      over_memory += step.kind != Tile::Step::Kind::softmax_total;
  return over_memory == program_.tile.inside.size();
}

// Sums, and what a softmax alone reads: their numbers are there, or nobody wants them.
Unread PieceRun::unread_going_back(const Tile::Pass& pass) const {
  Unread unread;
  for (const Tile::Step& step : pass.steps) {
    const Node& right = value(step.value).right;
    if (step.kind == Tile::Step::Kind::sum) unread.push_back(&right);
    if (step.kind != Tile::Step::Kind::softmax_total) continue;
    const Node& argument = right.args[0];
    if (argument.kind != Node::Kind::value || !argument.plain) continue;
    Index readers = 0;
    for (int i : program_.tile.inside)
      readers += std::count(value(i).uses.begin(), value(i).uses.end(), argument.index);
    if (readers == 1) unread.push_back(&value(argument.index).right);
  }
  return unread;
}

void PieceRun::gradients_of_exits(const Tensor& g, const Add& add) {
  Leaves leaves;
  for (const Tile::Pass& pass : program_.tile.passes)
    for (const Tile::Step& step : pass.steps) {
      if (step.kind != Tile::Step::Kind::sum || is_given(step.value)) continue;
      leaves.ask(block_->at(step.value).tensor.variable(),
                 [this, &step](const Tensor& found) { sum_gradients_[step.value] = found; });
      block_->set(step.value, leaves.asked.back());
    }
  ask_parts(leaves, 0, false, add);
  leaves.take(call_.collected(*block_, range_), g);
}

void PieceRun::Leaves::ask(const Tensor& x, const std::function<void(const Tensor&)>& taker) {
  asked.push_back(x), takers.push_back(taker);
}

void PieceRun::Leaves::take(const Tensor& y, const Tensor& g) const {
  if (!y.tracked() || asked.empty()) return;
  const Tensors found = grad(y, asked, {.cotangent = g});
  for (size_t k = 0; k < found.size(); ++k)
    if (found[k]) takers[k](found[k]);
}

// What is given to all pieces, and to this one.
void PieceRun::ask_parts(Leaves& leaves, size_t piece, bool over_memory, const Add& add) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    const bool own = call_.given[i].memory >= 0;
    const Tensor& x = parts_[i][own && parts_[i].size() > 1 ? piece : 0];
    if (!x.tracked() || (own && !over_memory)) continue;
    leaves.ask(x, [this, own, i, piece, &add](const Tensor& found) {
      if (own) add(i, pieces_[piece], found);
      else add_to(shared_[i], found);
    });
  }
}

PieceRun::Leaves PieceRun::leaves_of(const Tile::Pass& pass, size_t piece, const Add& add) {
  Leaves leaves;
  ask_parts(leaves, piece, true, add);
  for (int number : pass.reads) {
    if (is_given(number)) continue;
    const Tensor x = left_[piece].values.at(number).variable();
    leaves.left.values[number] = x;
    leaves.ask(x, [this, piece, number](const Tensor& found) {
      add_to(gradients_[piece].values[number], found);
    });
  }
  for (const Tile::Step& step : pass.steps) {
    if (step.kind != Tile::Step::Kind::softmax || is_given(step.value)) continue;
    const int number = step.value;
    SoftmaxArgument row = left_[piece].rows.at(number);
    row.x.tensor = row.x.tensor.variable();
    leaves.left.rows[number] = row;
    leaves.left.totals[number] = totals_.at(number).variable();
    leaves.ask(row.x.tensor, [this, piece, number](const Tensor& found) {
      gradients_[piece].rows[number] = found;
    });
    leaves.ask(leaves.left.totals[number],
               [this, number](const Tensor& found) { add_to(total_gradients_[number], found); });
  }
  return leaves;
}

void PieceRun::go_back(const Tile::Pass& pass, size_t piece, const Add& add) {
  using Kind = Tile::Step::Kind;
  Gradients& gradients = gradients_[piece];
  const Leaves leaves = leaves_of(pass, piece, add);
  const Left made = make(pass, parts_, piece, leaves.left, unread_going_back(pass));
  Tensors ends, cotangents;
  const auto end = [&](const Values& values, int number, const Tensor& gradient) {
    if (const auto x = values.find(number); x != values.end() && x->second.tracked() && gradient)
      ends.push_back(x->second), cotangents.push_back(gradient);
  };
  for (const Tile::Step& step : pass.steps) {
    if (step.kind == Kind::sum) end(made.sums, step.value, sum_gradients_[step.value]);
    if (step.kind == Kind::softmax_total && made.rows.count(step.value))
      end({{step.value, made.rows.at(step.value).x.tensor}}, step.value,
          row_gradient(step.value, piece));
  }
  for (int number : pass.leaves) end(made.values, number, gradients.values[number]);
  if (!ends.empty()) leaves.take(joined(ends, cotangents), Tensor::ones({}, ends[0].dtype()));
}

// Of a softmax's rows x: what its values said, and what the total does; its slope is e^(x - total).
Tensor PieceRun::row_gradient(int softmax, size_t piece) {
  const SoftmaxArgument row = std::move(left_[piece].rows.extract(softmax).mapped());
  const Tensor& x = row.x.tensor;
  const Tensor of_values = gradients_[piece].rows[softmax], of_total = total_gradients_[softmax];
  gradients_[piece].rows.erase(softmax);
  if (!of_values || !of_total) return {};
  const Tensor sum = Tensor::empty_like(x);
  const int axis = block_->axis_of(row.x, value(softmax).right.dim());
  cpu_kernels::exp_minus(x.view(), row.visible ? row.visible.view() : View{},
                         totals_.at(softmax).view(), of_total.view(), axis, sum.view());
  add_onto(of_values, sum);
  return sum;
}

}  // namespace tete
