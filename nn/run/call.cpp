// Calls that run as programs of their own: their masks, parameters and repetitions (R22 to R24).
#include "core/fused.hpp"
#include "nn/decode.hpp"
#include "nn/run/runner.hpp"

namespace tete {

namespace {

// All repetitions that are filled alike have these in common.
struct Inside {
  SizeTable sizes;
  Mask mask;
  size_t parameters;
};

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
  // A block that is recomputed gives one tensor, so that one with terms of the loss is kept.
  const bool gives_more = forward.losses && repetition.program->has_losses();
  if (forward.recompute_blocks && !gives_more && !forward.is_looked_into() && !forward.decoding)
    return recomputed(repetition, std::move(in));
  const size_t inputs = repetition.program->inputs.size();
  for (size_t i = inputs; i-- > 0;) in[i] = alias(in[i]);  // gradients come in the other order
  for (ParamId id : repetition.params) {
    Tensor& value = in[inputs + static_cast<size_t>(id.index)];
    value = alias(value);
  }
  return repetition(in);
}

// In decoding: the rows of a call for the next positions.
Tensor next_rows(const CheckedCall& call, Repetition part, const Tensors& inputs,
                 const Forward& forward) {
  part.sizes.open_lengths();
  const Growth growth = growth_of(call, part.mask.causal, part.mask.apart);
  const auto make = [&] { return Decoder(call.program, part.sizes, growth); };
  return forward.decoding->at(part.path, make)
      .next(inputs, part.params, forward, part.path, part.mask);
}

Tensors inputs_of(const CheckedCall& call, Runner& caller, Index repetition) {
  Tensors inputs;
  for (const CheckedCall::Passed& passed : call.passed) {
    const Value& value = caller.at(passed.value);
    const int axis = passed.row + (value.batched ? caller.batch_rank() : 0);
    inputs.push_back(passed.row < 0 ? value.tensor : row_of(value.tensor, axis, repetition));
  }
  return inputs;
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
Mask Runner::mask_inside(const CheckedCall& call) {
  const CallSequences inside = sequences_of(program_, call, mask_.causal, !one_sequence_);
  const int padded = call.memory >= 0 ? call.memory : call.queries;
  Mask mask;
  mask.of_model = true;
  mask.causal = inside.causal, mask.apart = inside.apart;
  if (padded >= 0) mask.lengths = lengths_inside(padded);
  if (mask.apart && call.queries >= 0) mask.query_lengths = lengths_inside(call.queries);
  const auto is_sequence = [&](int dim) { return dim >= 0 && dimension(dim).role != Role::none; };
  if (is_sequence(call.queries) && is_sequence(padded)) mask.visible = mask_.visible;
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
  // A call that follows from a complete memory alone, as an encoder does, runs as a whole.
  const auto number = static_cast<size_t>(&v - program_.values.data());
  const bool has_next_rows = forward_.decoding && program_.flow.values[number].from.queries;
  static const Tensors none;
  const Tensors& params = forward_.params;
  Forward forward = forward_.with(none);
  forward.decoding = nullptr;
  Tensors kept;
  for (Index i = 0; i < times; ++i) {
    const CheckedCall& now = c.at(i);
    const Inside& inside = insides.at(&now);
    Tensors in = inputs_of(now, *this, i);
    if (i > 0) in[0] = state;
    const auto ids = left.first(inside.parameters);
    if (!c.tied) left = left.subspan(inside.parameters);
    const std::string path = is_repeated ? text(path_of(v), "/", i) : path_of(v);
    SizeTable sizes = inside.sizes;
    if (is_repeated) sizes.set_layer(i);
    const Repetition part{now.program, std::move(sizes), {ids.begin(), ids.end()}, forward,
                          path,        inside.mask};
    if (has_next_rows) {
      state = next_rows(now, part, in, forward_);
    } else {
      in.insert(in.end(), params.begin(), params.end());
      state = is_repeated ? run_repetition(part, std::move(in), forward_) : part(in);
    }
    if (c.keeps) kept.push_back(state);
  }
  const bool batched = state.rank() > v.dims.size() - static_cast<int>(c.keeps);
  if (c.keeps) state = stacked(kept, state, batched ? batch_rank() : 0);
  if (!(state.shape() == shape_of(v.dims, batched)))
    fail_at({v.place}, "'", v.name, "' has shape ", shapes_of(v.dims), ", but the call returns ",
            state.shape());
  return {state, v.dims, batched};
}

}  // namespace tete
