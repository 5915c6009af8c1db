#include "nn/model.hpp"

#include <algorithm>

#include "nn/run/runner.hpp"

namespace tete {

namespace {

// The value of this input, or nullptr.
const CheckedValue* find_input(const Checked& program, const std::string& name) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.input_names[i] == name) return &program.values[program.inputs[i]];
  return nullptr;
}

// X, M and S are whole numbers of one sequence; S is of that of X.
void check_inputs(const Checked& program) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const CheckedValue& v = program.values[program.inputs[i]];
    const std::string& name = program.input_names[i];
    if (name != "X" && name != "M" && name != "S")
      fail_at({v.place}, "a model reads tokens X, a source M and segments S; '", name,
              "' is none of these");
    if (v.below < 0 || v.dims.size() != 1)
      fail_at({v.place}, "a model reads tokens, as in ", name, name == "M" ? "[m]" : "[n]", " < ",
              name == "S" ? "s" : "v");
    if (name == "S" && v.dims[0] != find_input(program, "X")->dims[0])
      fail_at({v.place}, "each token of X has a segment, as in X[n] < v, S[n] < s");
  }
}

void check_result(const Checked& program) {
  const CheckedValue &X = *find_input(program, "X"), &Y = program.values[program.result];
  if (Y.dims.size() != 2 || Y.dims[0] != X.dims[0] || Y.dims[1] != X.below)
    fail_at({Y.place}, "a model returns a logit for each position and token, as in Y[",
            program.dimensions[X.dims[0]].name, ", ", program.dimensions[X.below].name, "]");
}

ModelKind kind_of(const Checked& program) {
  const CheckedValue* X = find_input(program, "X");
  const CheckedValue* M = find_input(program, "M");
  if (!X) bad_input("'", program.name, "' is no model: it reads no tokens, X[n] < v");
  check_inputs(program);
  check_result(program);
  if (M && !program.causal)
    fail_at({X->place, M->place},
            "beside a source M, X is what a decoder reads, and so causal, as in X[causal n]");
  if (!program.causal) return ModelKind::encoder;
  if (!program.leak.empty())
    bad_input("a decoder must not see the future, but here it would: take what is causal instead ",
              "('tete list' tells), or mend the text\n", program.leak);
  return M ? ModelKind::encoder_decoder : ModelKind::language_model;
}

}  // namespace

const char* name_of(ModelKind kind) {
  static constexpr const char* names[] = {"a language model", "an encoder with a decoder",
                                          "an encoder"};
  return names[static_cast<size_t>(kind)];
}

Model::Model(std::shared_ptr<const Checked> program, const SizesByName& sizes, const InitRule& rule)
    : program_(std::move(program)),
      kind_(kind_of(*program_)),
      sizes_(program_, sizes),
      ids_(declare_parameters(*program_, sizes_, params_, rule)) {}

Tensors Model::in_order(const ModelInputs& in) const {
  const auto refuse = [&](const char* what) { bad_input("'", program_->name, "' ", what); };
  const bool reads_source = kind_ == ModelKind::encoder_decoder;
  if (!in.X) refuse("needs tokens, X");
  if (reads_source != static_cast<bool>(in.M))
    refuse(reads_source ? "needs a source, M" : "reads no source, M");
  if (in.lengths && kind_ == ModelKind::language_model)
    refuse("takes no lengths: what comes later changes no row");
  if (in.S && !find_input(*program_, "S")) refuse("reads no segments, S");
  Tensors all;
  for (const std::string& name : program_->input_names) {
    const Tensor& given = name == "X" ? in.X : name == "M" ? in.M : in.S;
    all.push_back(given ? given : Tensor::zeros(in.X.shape(), Dtype::i64, in.X.backend()));
  }
  return all;
}

// The model as a whole takes the mask: not every statement of it need.
static Mask padding_of(const ModelInputs& inputs) {
  return {.lengths = inputs.lengths, .of_model = true};
}

Tensor Model::logits(const Forward& forward, const ModelInputs& inputs) const {
  return run(*program_, sizes_, in_order(inputs), ids_, forward, "", padding_of(inputs));
}

// The last position of Y[b, n, v].
static Tensor last_row(const Tensor& Y) {
  const Index n = Y.size(1);
  if (n == 0) bad_input("nothing follows an empty sequence");
  return row_of(Y, 1, n - 1);
}

Tensor Model::last_logits(const Forward& forward, const ModelInputs& inputs) const {
  return last_row(logits(forward, inputs));
}

Tensor Model::next_logits(const Forward& forward, const ModelInputs& inputs,
                          Decoding& decoding) const {
  if (kind_ == ModelKind::encoder)
    bad_input("'", program_->name, "' is an encoder: it predicts no next token");
  Forward next = forward;
  next.decoding = &decoding;
  Decoder& decoder = decoding.at("", [&] { return Decoder(program_, sizes_, Growth::complete); });
  const Tensor Y = decoder.next(in_order(inputs), ids_, next, "", padding_of(inputs), true);
  decoding.length += inputs.X.size(1);
  return last_row(Y);
}

Tensor Model::logits_behind(const Forward& forward, const ModelInputs& in, int value,
                            const Tensor& x) const {
  const std::string path;
  const Tensors inputs = in_order(in);
  const Mask mask = padding_of(in);
  Runner runner(*program_, sizes_, inputs, ids_, forward, path, mask);
  runner.set(value, x);
  return runner.at(program_->result).tensor;
}

Loss Model::loss(const Forward& forward, const ModelInputs& inputs, const Tensor& targets,
                 Tensor* compared) const {
  Tensors terms;
  Forward with_terms = forward;
  with_terms.losses = &terms;
  const Tensor Y = logits(with_terms, inputs);
  if (compared) *compared = Y;
  return with_losses(token_loss(Y, targets), terms);
}

Tensor shifted_right(const Tensor& targets) {
  const Index b = targets.size(0), n = targets.size(1);
  const std::vector<int64_t> wanted = targets.values<int64_t>();
  std::vector<int64_t> input(wanted.size(), end_token);
  for (Index i = 0; i < b * n; ++i)
    if (i % n > 0) input[i] = std::max<int64_t>(0, wanted[i - 1]);
  return Tensor::of<int64_t>({b, n}, input, targets.backend());
}

}  // namespace tete
