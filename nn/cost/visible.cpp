// Counts visible pairs: the text's own masks are evaluated, the call's causal mask has a formula.
#include "nn/cost/sizes.hpp"
#include "nn/language/builtins/masked.hpp"
#include "nn/run/runner.hpp"

namespace tete {

namespace {

constexpr Index most_pairs = Index{1} << 24;  // the largest mask that is evaluated

// The number of pairs (i, j) with 0 <= i < n, 0 <= j < m and j <= i + (m - n).
Index causal_pairs(Index n, Index m) {
  const Index rows = std::min(n, m);  // queries that see any memory
  return exact_sum(exact_product(rows, m - rows), exact_product(rows, rows + 1) / 2);
}

// A call of the program in which inputs and learned parameters are 0; it fails as any call would.
class EmptyCall {
 public:
  EmptyCall(const Checked& program, SizeTable& sizes, const CostOptions& options, bool draws)
      : forward_{.params = params_} {
    mask_.causal = options.causal && !program.causal;
    mask_.apart = options.apart, mask_.of_model = options.of_model;
    sizes.set_causal(options.causal && !options.apart);
    sizes.check_all();
    for (int input : program.inputs) {
      Shape shape;
      for (int dim : program.values[input].dims) shape.push_back(sizes.size(dim));
      inputs_.push_back(Tensor::repeated(0, shape, Dtype::f32));
    }
    for (const ParameterSpec& made : parameter_specs(program, sizes)) {
      ids_.push_back({static_cast<int>(params_.size())});
      params_.push_back(made.spec.fixed && draws
                            ? initial_value(made.spec, Key(0), Dtype::f32)
                            : Tensor::repeated(0, made.spec.shape, Dtype::f32));
    }
    runner_ = std::make_unique<Runner>(program, sizes, inputs_, ids_, forward_, path_, mask_);
  }
  Runner& runner() { return *runner_; }

 private:
  Mask mask_;
  Tensors inputs_, params_;
  std::vector<ParamId> ids_;
  Forward forward_;
  std::string path_;
  std::unique_ptr<Runner> runner_;
};

class PairCounter {
 public:
  PairCounter(const Checked& program, SizeTable& sizes, const CostOptions& options)
      : program_(program), sizes_(program, sizes), table_(sizes), options_(options) {}

  Visible count() {
    EmptyCall(program_, table_, options_, false);  // fails where a call would
    std::vector<const Node*> softmaxes;
    for (const CheckedValue& value : program_.values)
      visit(value.right, [&](const Node& node) {
        if (node.builtin && node.builtin->masks) softmaxes.push_back(&node);
      });
    for (const Node* softmax : softmaxes) {
      const Node* mask = own_mask(*softmax);
      if (mask && sources_of(*mask, program_.flow).learned) mask = nullptr;
      count(*softmax, mask);
    }
    return std::move(visible_);
  }

 private:
  void count(const Node& softmax, const Node* mask) {
    VisiblePairs made{-1, softmax.dim(), 0, 0};
    for (int name : softmax.names)
      if (name != softmax.dim() && sizes_.grows_with(name, Role::query)) made.query = name;
    if (made.query < 0) return;
    const bool by_call =
        options_.causal && softmax.takes_call_mask &&
        is_causal_pair({made.query, made.memory}, program_.dimensions, options_.apart);
    if (!mask && !by_call) return;
    const Index n = sizes_.size(made.query), m = sizes_.size(made.memory);
    made.all = exact_product(n, m);
    if (!mask) {
      if (sizes_.dimension(made.memory).role != Role::memory) return;
      made.pairs = causal_pairs(n, m);
    } else if (sizes_.elements(with_pair(mask->names, made)) > most_pairs) {
      visible_.known = false;
      return;
    } else {
      made.pairs = evaluated(softmax, *mask, by_call, made);
    }
    visible_.of_softmax.push_back(made);
  }

  static Names with_pair(const Names& mask, const VisiblePairs& of) {
    Names names{of.query, of.memory};
    for (int name : mask)
      if (!names.contains(name)) names.push_back(name);
    return names;
  }

  Index evaluated(const Node& softmax, const Node& mask, bool by_call, const VisiblePairs& of) {
    EmptyCall call(program_, table_, options_, true);
    Runner& runner = call.runner();
    Value seen = runner.node(mask);
    if (by_call)
      seen = runner.both(seen, runner.mask_along(softmax.names, softmax.dim()), softmax.names);
    const Tensor pairs = runner.aligned(seen, with_pair(seen.names, of), false).tensor;
    double sum = 0;
    for (double one : pairs.values<double>()) sum += one;
    const double masks = static_cast<double>(pairs.size()) / static_cast<double>(of.all);
    return masks > 0 ? static_cast<Index>(sum / masks) : 0;
  }

  const Checked& program_;
  CostSizes sizes_;
  SizeTable& table_;
  const CostOptions& options_;
  Visible visible_;
};

}  // namespace

Visible visible_pairs(const Checked& program, SizeTable& sizes, const CostOptions& options) {
  return PairCounter(program, sizes, options).count();
}

}  // namespace tete
