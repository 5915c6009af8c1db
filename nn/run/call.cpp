// Calls that run as programs of their own: their masks, parameters and repetitions (R22 to R24).
#include "core/alias.hpp"
#include "core/fused.hpp"
#include "nn/decode.hpp"
#include "nn/run/runner.hpp"

namespace tete {

namespace {

// One repetition: all that its gradient needs when the caller's Runner is gone.
struct Repetition {
  std::shared_ptr<const Checked> program;
  SizeTable sizes;
  std::vector<ParamId> params;
  Forward forward;  // without parameters
  std::string path;
  Mask mask;

  // `in` has the program's inputs, then the values of all parameters.
  Tensor operator()(const Tensors& in) const {
    const auto inputs_end = in.begin() + std::ssize(program->inputs);
    const Tensors inputs(in.begin(), inputs_end), values(inputs_end, in.end());
    return tete::run(*program, sizes, inputs, params, forward.with(values), path, mask);
  }
};

// Runs one of several repetitions. One that is recomputed adds one gradient for each tensor that
// others read, too. An alias makes the others do the same: the same terms summed in another order
// would give other bits.
Tensor run_repetition(const Repetition& repetition, Tensors in, const Forward& forward) {
  if (forward.recompute_blocks && !forward.is_looked_into() && !forward.decoding)
    return recomputed(repetition, std::move(in));
  const size_t inputs = repetition.program->inputs.size();
  for (size_t i = 1; i < inputs; ++i) in[i] = alias(in[i]);
  for (ParamId id : repetition.params) {
    Tensor& value = in[inputs + static_cast<size_t>(id.index)];
    value = alias(value);
  }
  return repetition(in);
}

// Row `row` of a value's dimension at `axis`, without that dimension.
Tensor row_of(const Tensor& x, int axis, Index row) {
  Shape shape = x.shape();
  shape.erase(axis);
  return reshape(slice(x, axis, row, 1), shape);
}

// The states along a new dimension at `axis`; they have the shape of `like`.
Tensor stacked(const Tensors& states, const Tensor& like, int axis) {
  Shape shape = like.shape();
  shape.insert(axis, 1);
  Tensors rows;
  for (const Tensor& state : states) rows.push_back(reshape(state, shape));
  return rows.empty() ? slice(reshape(like, shape), axis, 0, 0) : concat(rows, axis);
}

}  // namespace

// The mask of a call: what its X and M are in this one (R17, R19).
Mask Runner::mask_inside(const CheckedCall& call) const {
  const CallSequences inside = sequences_of(program_, call, mask_.causal, !one_sequence_);
  const int padded = call.memory >= 0 ? call.memory : call.queries;
  Mask mask;
  mask.of_model = true;
  mask.causal = inside.causal, mask.apart = inside.apart;
  if (padded >= 0) mask.lengths = lengths_of(padded);
  if (mask.apart && call.queries >= 0) mask.query_lengths = lengths_of(call.queries);
  return mask;
}

// The parameters of a call: one set, or one after the other for its repetitions.
std::span<const ParamId> Runner::params_inside(int call) {
  size_t first = program_.parameters.size(), count = 0;
  for (int i = 0; i <= call; ++i) {
    first += count;
    count = parameter_count(program_.calls[i], sizes_);
  }
  if (first + count > params_.size())
    bad_input("'", program_.name, "' needs ", first + count, " parameters, got ", params_.size());
  return params_.subspan(first, count);
}

Tensors Runner::inputs_of(const CheckedCall& call, Index repetition) {
  Tensors inputs;
  for (const CheckedCall::Passed& passed : call.passed) {
    const Value& value = at(passed.value);
    const int axis = passed.row + (value.batched ? batch_rank() : 0);
    inputs.push_back(passed.row < 0 ? value.tensor : row_of(value.tensor, axis, repetition));
  }
  return inputs;
}

// In decoding: the call's rows for the next positions. What attends to a memory has a decoder.
Tensor Runner::next_rows(const CheckedCall& call, const Tensors& inputs,
                         std::span<const ParamId> params, const std::string& path, SizeTable sizes,
                         const Mask& mask) {
  if (call.memory < 0) {
    Runner inner(*call.program, sizes, inputs, params, forward_, path, mask);
    inner.continue_at(first_, {});
    return inner.run();
  }
  sizes.open_lengths();
  const Growth growth = mask.causal && !mask.apart ? Growth::grows : Growth::complete;
  Decoder& decoder =
      forward_.decoding->at(path, [&] { return Decoder(call.program, sizes, growth); });
  return decoder.next(inputs, params, forward_, path, mask);
}

Value Runner::call(const CheckedValue& v) {
  const CheckedCall& c = program_.calls[v.index];
  const bool is_repeated = c.repeated >= 0;
  const Index times = sizes_.times_of(c);
  std::map<const CheckedCall*, Inside> insides;
  visit(c, [&](const CheckedCall& each) {
    SizeTable inside = sizes_.inside(each);
    const size_t parameters = parameter_count(*each.program, inside);
    insides.emplace(&each, Inside{std::move(inside), mask_inside(each), parameters});
  });
  std::span<const ParamId> left = params_inside(v.index);
  Tensor state = times == 0 ? at(c.passed[0].value).tensor : Tensor();
  Tensors kept;
  for (Index i = 0; i < times; ++i) {
    const CheckedCall& now = c.at(i);
    const Inside& inside = insides.at(&now);
    Tensors in = inputs_of(now, i);
    if (i > 0) in[0] = state;
    static const Tensors none;
    const auto ids = left.first(inside.parameters);
    if (!c.tied) left = left.subspan(inside.parameters);
    const std::string path = is_repeated ? text(path_of(v), "/", i) : path_of(v);
    if (forward_.decoding) {
      state = next_rows(now, in, ids, path, inside.sizes, inside.mask);
    } else {
      const Repetition repetition{now.program,         inside.sizes, {ids.begin(), ids.end()},
                                  forward_.with(none), path,         inside.mask};
      in.insert(in.end(), forward_.params.begin(), forward_.params.end());
      state = is_repeated ? run_repetition(repetition, std::move(in), forward_) : repetition(in);
    }
    if (c.keeps) kept.push_back(state);
  }
  const bool batched = state.rank() > v.dims.size() - static_cast<int>(c.keeps);
  if (c.keeps) state = stacked(kept, state, batched ? batch_rank() : 0);
  if (!(state.shape() == shape_of(v.dims, batched)))
    fail_at({v.place}, text("'", v.name, "' has shape ", shapes_of(v.dims),
                            ", but the call returns ", state.shape()));
  return {state, v.dims, batched};
}

}  // namespace tete
