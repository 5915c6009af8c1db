#include "nn/model.hpp"

#include "nn/run/runner.hpp"

namespace tete {

namespace {

void check_is_model(const Checked& program) {
  const bool reads_tokens = program.inputs.size() == 1 && program.input_names[0] == "X" &&
                            program.values[program.inputs[0]].below >= 0;
  if (!reads_tokens || !program.causal)
    bad_input("'", program.name, "' is no language model: its input is one causal sequence of ",
              "tokens, X[causal n] < v");
  const CheckedValue &X = program.values[program.inputs[0]], &Y = program.values[program.result];
  if (Y.dims.size() != 2 || Y.dims[0] != X.dims[0] || Y.dims[1] != X.below)
    fail_at({Y.place},
            text("a language model returns a logit for each position and token, as in Y[",
                 program.dimensions[X.dims[0]].name, ", ", program.dimensions[X.below].name, "]"));
  if (!program.leak.empty()) throw Error(ErrorKind::input, program.leak);
}

}  // namespace

Model::Model(std::shared_ptr<const Checked> program, const SizesByName& sizes)
    : program_((check_is_model(*program), std::move(program))), sizes_(program_, sizes) {
  for (ParameterSpec& made : parameter_specs(*program_, sizes_)) {
    const int known = made.per_stack ? params_.find(made.spec.name) : -1;
    ids_.push_back(known >= 0 ? ParamId{known} : params_.declare(std::move(made.spec)));
  }
}

Tensor Model::logits(const Forward& forward, const Tensor& X) const {
  return run(*program_, sizes_, {X}, ids_, forward);
}

// The last position of Y[b, n, v].
static Tensor last_row(const Tensor& Y) {
  const Index n = Y.size(1);
  if (n == 0) bad_input("nothing follows an empty sequence");
  return reshape(slice(Y, 1, n - 1, 1), {Y.size(0), Y.size(2)});
}

Tensor Model::last_logits(const Forward& forward, const Tensor& X) const {
  return last_row(logits(forward, X));
}

Tensor Model::next_logits(const Forward& forward, const Tensor& X, Decoding& decoding) const {
  if (!reads_row_by_row(*program_))
    bad_input("'", program_->name, "' cannot be read position by position: rows need others");
  Forward next = forward;
  next.decoding = &decoding;
  const std::string path;
  const Tensors inputs{X};
  const Mask mask;
  Runner runner(*program_, sizes_, inputs, ids_, next, path, mask);
  runner.continue_at({.query = decoding.length}, {});
  const Tensor Y = last_row(runner.run());
  decoding.length += X.size(1);
  return Y;
}

Tensor Model::logits_behind(const Forward& forward, const Tensor& X, int value,
                            const Tensor& x) const {
  const std::string path;
  const Tensors inputs{X};
  const Mask mask;
  Runner runner(*program_, sizes_, inputs, ids_, forward, path, mask);
  runner.set(value, x);
  return runner.at(program_->result).tensor;
}

Loss Model::loss(const Forward& forward, const Tensor& X, const Tensor& targets) const {
  return token_loss(logits(forward, X), targets);
}

}  // namespace tete
