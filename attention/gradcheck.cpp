#include "attention/gradcheck.hpp"

#include <cmath>

namespace tete {

namespace {

class VariantCheck {
 public:
  VariantCheck(std::shared_ptr<const Checked> program, const AttentionSizes& sizes,
               const AttentionCheck& check)
      : program_(std::move(program)),
        sizes_(sizes),
        check_(check),
        options_(check.options),
        attention_(Scope{params_}, program_, sizes) {
    require_memory(params_.planned(Dtype::f64));
    options_.names.clear(), options_.dims.clear();
    const bool alone = program_->self_only || check.causal;
    add_sequence("X", alone ? check.memories : check.queries, sizes.d_model);
    if (!alone)
      add_sequence("M", check.memories,
                   sizes.memory_width > 0 ? sizes.memory_width : sizes.d_model);
    sequences_ = inputs_.size();
    for (const ParamSpec& spec : params_.specs()) {
      const Tensor start = drawn(spec.name, spec.shape) * 0.7;
      fixed_.push_back(spec.fixed ? start : Tensor());
      if (!spec.fixed) add(spec.name, spec.dims, start);
    }
    options_.result_dims = dims_of(program_->values[program_->result]);
  }

  GradReport report() const {
    const WatchedFunction f = [this](const Tensors& in, const Watch& watch) {
      Tensors values = fixed_;
      size_t given = sequences_;
      for (Tensor& value : values)
        if (!value) value = in[given++];
      const Forward forward{.params = values,
                            .watch = watch,
                            .tiling = {.allowed = check_.block > 0, .queries = check_.block}};
      return attention_(forward, "", in[0], in[sequences_ - 1], {.causal = check_.causal});
    };
    require_small(f);
    GradReport report = check_gradient(f, inputs_, options_);
    if (report.fault) find_line(*report.fault);
    return report;
  }

 private:
  // Each input is moved again and again, every value computed anew each time, and each further
  // order differentiates all that. What a value takes beside its numbers is worth some thousands.
  void require_small(const WatchedFunction& f) const {
    constexpr double most = 2e8;  // some ten seconds
    constexpr double overhead = 5000;
    double values = 0, numbers = 0;
    f(inputs_, [&](const std::string&, const Tensor& x) {
      ++values, numbers += static_cast<double>(x.size());
    });
    const int order = check_.options.order;
    const double each = (numbers + overhead * values) * std::pow(5, order - 1);
    if (each * static_cast<double>(inputs_.size()) <= most) return;
    bad_input("'", program_->name, "' is too large to be checked",
              order > 1 ? text(" at order ", order) : "", ": each of its ",
              counted(std::ssize(inputs_), "input"), " is moved again and again, and ", values,
              " values of ", numbers,
              " numbers are computed each time; --dim makes sizes smaller, and a part of the text "
              "can be checked by itself");
  }

  static Tensor drawn(const std::string& name, const Shape& shape) {
    return random_normal(shape, Key(1).fold(name), Dtype::f64);
  }

  void add(const std::string& name, std::vector<std::string> dims, Tensor value) {
    options_.names.push_back(name);
    options_.dims.push_back(std::move(dims));
    inputs_.push_back(std::move(value));
  }

  void add_sequence(const std::string& name, Index length, Index width) {
    for (size_t i = 0; i < program_->inputs.size(); ++i)
      if (program_->input_names[i] == name)
        return add(name, dims_of(program_->values[program_->inputs[i]]),
                   drawn(name, {check_.batch, length, width}));
  }

  std::vector<std::string> dims_of(const CheckedValue& value) const {
    std::vector<std::string> names{"batch"};
    for (int dim : value.dims) names.push_back(program_->dimensions[dim].name);
    return names;
  }

  void find_line(Fault& fault) const {
    if (const int value = program_->find_value(fault.value); value >= 0)
      fault.line = line_of(program_->values[value].place);
  }

  std::shared_ptr<const Checked> program_;
  AttentionSizes sizes_;
  const AttentionCheck& check_;
  GradCheckOptions options_;
  ParamList params_;
  Attention attention_;
  Tensors inputs_;  // X, M if there is one, and every parameter that is learned
  size_t sequences_ = 0;
  Tensors fixed_;  // by parameter; empty where it is learned
};

}  // namespace

GradReport check_gradient(const std::shared_ptr<const Checked>& program,
                          const AttentionSizes& sizes, const AttentionCheck& check) {
  return VariantCheck(program, sizes, check).report();
}

}  // namespace tete
