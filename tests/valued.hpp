// A text with values for its parameters, which tests change and run.
#pragma once
#include "attention/catalog.hpp"
#include "nn/run.hpp"
#include "tests/layer.hpp"

namespace tete::tests {

struct Valued {
  std::shared_ptr<const Checked> program;
  TensorsByName tensors;

  explicit Valued(std::shared_ptr<const Checked> checked) : program(std::move(checked)) {
    SizeTable sizes(program, {});
    for (const ParameterSpec& made : parameter_specs(*program, sizes))
      tensors[made.spec.name] = noise(made.spec.shape, tensors.size() + 1);
  }
  explicit Valued(const std::string& text)
      : Valued(std::make_shared<const Checked>(check(Program::parse(text), {}, catalogue()))) {}
  Tensor operator()(const Tensor& X, const RunOptions& options = {}) {
    tensors["X"] = X;
    return run(program, tensors, options);
  }
};

}  // namespace tete::tests
