// Runs a program: as a layer calls it, or on tensors given by name.
#include <algorithm>

#include "nn/run/pairwise.hpp"
#include "nn/run/runner.hpp"

namespace tete {

Tensor run(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
           std::span<const ParamId> params, const Forward& forward, const std::string& path,
           const Mask& mask) {
  if (const auto written = pairwise(program, sizes, inputs, mask))
    return Runner(*written, sizes.of(written), inputs, params, forward, path, mask).run();
  return Runner(program, sizes, inputs, params, forward, path, mask).run();
}

namespace {

// Spells a tensor with the sizes that are known: "P_l[h_k=3, h]".
std::string with_sizes(const Checked& program, const std::string& name, int value,
                       SizeTable& sizes) {
  const CheckedValue& v = program.values[value];
  std::string axes;
  for (int i = 0; i < v.dims.size(); ++i) {
    const int dim = !v.bounds.empty() && v.bounds[i] >= 0 ? v.bounds[i] : v.dims[i];
    axes += (i > 0 ? ", " : "") + program.dimensions[dim].name;
    if (const auto size = sizes.find(dim)) axes += text("=", *size);
  }
  return name + "[" + axes + "]";
}

// The tensors that by_name found, in the program's order, and the sizes that they set.
struct Bound {
  SizeTable sizes;
  Tensors inputs, params;
  std::vector<ParamId> ids;
};

Bound by_name(const std::shared_ptr<const Checked>& program, const TensorsByName& tensors,
              const RunOptions& options) {
  Bound bound{SizeTable(program, options.sizes), {}, {}, {}};
  bound.sizes.set_causal(options.mask.causal);
  std::vector<std::string> names;
  std::vector<std::pair<std::string, int>> missing;  // names and values; -1 for those of calls
  const auto take = [&](const std::string& name, int value, Tensors& all) {
    const auto found = tensors.find(name);
    names.push_back(name);
    all.push_back(found == tensors.end() ? Tensor() : found->second);
    if (!all.back()) missing.push_back({name, value});
    else if (value >= 0) bound.sizes.bind(value, all.back().shape());
  };
  for (size_t i = 0; i < program->inputs.size(); ++i)
    take(program->input_names[i], program->inputs[i], bound.inputs);
  std::map<std::string, ParamId> known;
  const auto take_parameter = [&](const std::string& name, int value) {
    const ParamId next{static_cast<int>(bound.params.size())};
    const auto [id, is_new] = known.try_emplace(name, next);
    bound.ids.push_back(id->second);
    if (is_new) take(name, value, bound.params);  // else it is per stack
  };
  for (const CheckedParameter& p : program->parameters) take_parameter(p.name, p.value);
  if (missing.empty() && !program->calls.empty()) {
    const std::vector<ParameterSpec> all = parameter_specs(*program, bound.sizes);
    for (size_t i = program->parameters.size(); i < all.size(); ++i)
      take_parameter(all[i].spec.name, -1);
  }
  std::vector<std::string> others;
  for (const auto& [name, tensor] : tensors)
    if (std::find(names.begin(), names.end(), name) == names.end()) others.push_back(name);
  if (!missing.empty()) {
    const auto shown = [&](const std::pair<std::string, int>& one) {
      return one.second < 0 ? one.first : with_sizes(*program, one.first, one.second, bound.sizes);
    };
    bad_input("'", program->name, "' needs ", list_of(missing, shown),
              missing.size() == 1 ? ", which is" : ", which are", " not given",
              suggestion(missing[0].first, others));
  }
  if (!others.empty())
    bad_input("'", program->name, "' has no input or parameter '", others[0], "'",
              suggestion(others[0], names));
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
  const Bound bound = by_name(program, tensors, options);
  return run(*program, bound.sizes, bound.inputs, bound.ids, forward_of(bound.params, options), "",
             options.mask);
}

Tensor run(std::string_view text, const TensorsByName& tensors, const RunOptions& options) {
  const auto program =
      std::make_shared<const Checked>(check(Program::parse(text), {}, options.library));
  return run(program, tensors, options);
}

// ---- Evaluation --------------------------------------------------------------------------------

struct Evaluation::State {
  State(std::shared_ptr<const Checked> text, const TensorsByName& tensors,
        const RunOptions& options)
      : program(std::move(text)),
        bound(by_name(program, tensors, options)),
        forward(forward_of(bound.params, options)),
        mask(options.mask),
        runner(*program, bound.sizes, bound.inputs, bound.ids, forward, path, mask) {
    runner.check_memory();
    forward.watch = {};
  }

  // Computes a value and its sources one by one, the deepest first. Runner::at alone would compute
  // them by recursion, and a chain of thousands would overflow the stack.
  const Value& value(int number) {
    std::vector<int> open{number};
    while (!open.empty()) {
      const int at = open.back();
      const size_t before = open.size();
      if (!runner.has(at))
        for (int used : program->values[at].uses)
          if (!runner.has(used)) open.push_back(used);
      if (open.size() > before) continue;
      open.pop_back();
      runner.at(at);
    }
    return runner.at(number);
  }

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
Evaluation::~Evaluation() = default;

Tensor Evaluation::value(int number) { return state_->value(number).tensor; }
void Evaluation::set(int number, const Tensor& x) { state_->runner.set(number, x); }
const Shape& Evaluation::batch() const { return state_->runner.batch(); }
Tensor Evaluation::visible(const Names& dims) { return state_->runner.visible_over(dims); }
Index Evaluation::size(int dim) const { return state_->runner.size(dim); }

}  // namespace tete
