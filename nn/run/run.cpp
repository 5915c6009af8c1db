// Running a program: as a layer calls it, and on tensors given by name.
#include <algorithm>

#include "nn/run/runner.hpp"

namespace tete {

Tensor run(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
           std::span<const ParamId> params, const Forward& forward, const std::string& path,
           const Mask& mask) {
  return Runner(program, sizes, inputs, params, forward, path, mask).run();
}

namespace {

// Takes `name` out of `tensors`.
const Tensor& taken(const Checked& program, const TensorsByName& tensors, const std::string& name,
                    const char* what) {
  const auto at = tensors.find(name);
  if (at != tensors.end() && at->second) return at->second;
  std::vector<std::string> given;
  for (const auto& [other, tensor] : tensors) given.push_back(other);
  bad_input("'", program.name, "' needs a tensor for its ", what, " '", name, "'",
            suggestion(name, given));
}

// Tensors by name, in the program's order.
struct Bound {
  SizeTable sizes;
  Tensors inputs, params;
  std::vector<ParamId> ids;
};

Bound by_name(const std::shared_ptr<const Checked>& program, const TensorsByName& tensors,
              const SizesByName& given) {
  Bound bound{SizeTable(program, given), {}, {}, {}};
  std::vector<std::string> names;
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    names.push_back(program->input_names[i]);
    bound.inputs.push_back(taken(*program, tensors, names.back(), "input"));
    bound.sizes.bind(program->inputs[i], bound.inputs.back().shape());
  }
  for (const CheckedParameter& p : program->parameters) {
    names.push_back(p.name);
    bound.ids.push_back({static_cast<int>(bound.params.size())});
    bound.params.push_back(taken(*program, tensors, p.name, "parameter"));
    bound.sizes.bind(p.value, bound.params.back().shape());
  }
  for (const auto& [name, tensor] : tensors)
    if (std::find(names.begin(), names.end(), name) == names.end())
      bad_input("'", program->name, "' has no input or parameter '", name, "'",
                suggestion(name, names));
  return bound;
}

Forward forward_of(const Tensors& params, const RunOptions& options) {
  return {.params = params,
          .training = options.training,
          .dropout = options.dropout,
          .key = options.key,
          .watch = options.watch};
}

}  // namespace

Tensor run(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
           const RunOptions& options) {
  const Bound bound = by_name(program, tensors, options.sizes);
  return run(*program, bound.sizes, bound.inputs, bound.ids, forward_of(bound.params, options), "",
             options.mask);
}

Tensor run(std::string_view text, const TensorsByName& tensors, const RunOptions& options) {
  const auto program =
      std::make_shared<const Checked>(check(Program::parse(text), {}, options.library));
  return run(program, tensors, options);
}

// ---- A run that is looked into -----------------------------------------------------------------

struct Evaluation::State {
  State(std::shared_ptr<const Checked> text, const TensorsByName& tensors,
        const RunOptions& options)
      : program(std::move(text)),
        bound(by_name(program, tensors, options.sizes)),
        forward(forward_of(bound.params, options)),
        mask(options.mask),
        runner(*program, bound.sizes, bound.inputs, bound.ids, forward, path, mask) {}

  std::shared_ptr<const Checked> program;
  Bound bound;
  Forward forward;
  std::string path;
  Mask mask;
  Runner runner;
};

Evaluation::Evaluation(std::shared_ptr<const Checked> program, const TensorsByName& tensors,
                       const RunOptions& options)
    : state_(std::make_unique<State>(std::move(program), tensors, options)) {}
Evaluation::Evaluation(Evaluation&&) noexcept = default;
Evaluation::~Evaluation() = default;

Tensor Evaluation::value(int number) { return state_->runner.at(number).tensor; }
void Evaluation::set(int number, const Tensor& x) { state_->runner.set(number, x); }
const Shape& Evaluation::batch() const { return state_->runner.batch(); }
Index Evaluation::size(int dim) const { return state_->runner.size(dim); }

}  // namespace tete
