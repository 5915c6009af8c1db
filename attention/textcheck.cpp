// The gradient check of a text that is not attention: a model, or what stands in one.
#include <algorithm>

#include "attention/check_parts.hpp"
#include "attention/gradcheck.hpp"

namespace tete {

namespace {

class TextCheck {
 public:
  TextCheck(std::shared_ptr<const Checked> program, const SizesByName& sizes,
            const AttentionCheck& check)
      : program_(std::move(program)),
        sizes_(program_, sizes),
        block_(check.block),
        options_(check.options) {
    mask_.causal = check.causal;
    options_.names.clear(), options_.dims.clear();
    const std::vector<Shape> shapes = input_shapes(check.batch);
    ids_ = declare_parameters(*program_, sizes_, params_);
    require_memory(planned(shapes));
    for (size_t i = 0; i < shapes.size(); ++i) add_input(i, shapes[i]);
    for (const ParamSpec& spec : params_.specs()) add_parameter(spec);
    options_.result_dims = dims_of(*program_, program_->values[program_->result]);
    if (!check.causal) pad(check.batch);
    if (mask_.lengths && !runs()) mask_.lengths = {};  // it takes no padding
  }

  Tensor operator()(const Tensors& in, const Watch& watch) const {
    auto given = in.begin() + std::ssize(program_->inputs);
    const Tensors inputs(in.begin(), given);
    Tensors values = fixed_;
    const auto like = std::find_if(in.begin(), in.end(),
                                   [](const Tensor& each) { return is_real(each.dtype()); });
    for (Tensor& value : values) {
      if (!value) value = *given++;
      else if (like != in.end()) value = cast(value, like->dtype()).to(like->backend());
    }
    return with_terms([&](Tensors& terms) {
      const Forward forward{.params = values,
                            .training = program_->has_losses(),
                            .watch = watch,
                            .losses = &terms,
                            .tiling = {.allowed = block_ > 0, .queries = block_}};
      return run(*program_, sizes_, inputs, ids_, forward, "", mask_);
    });
  }
  const Tensors& inputs() const { return inputs_; }
  GradReport report() const { return report_of(*this, inputs_, *program_, options_); }

 private:
  void add(const std::string& name, std::vector<std::string> dims, Tensor value) {
    options_.names.push_back(name);
    options_.dims.push_back(std::move(dims));
    inputs_.push_back(std::move(value));
  }

  std::vector<Shape> input_shapes(Index batch) {
    std::vector<Shape> shapes;
    for (int input : program_->inputs) {
      shapes.push_back({batch});
      for (int dim : program_->values[input].dims) shapes.back().push_back(sizes_.size(dim));
    }
    return shapes;
  }

  std::vector<Planned> planned(const std::vector<Shape>& inputs) const {
    std::vector<Planned> all = params_.planned(Dtype::f64);
    for (size_t i = 0; i < inputs.size(); ++i)
      all.push_back({program_->input_names[i], inputs[i], Dtype::f64});
    return all;
  }

  void add_input(size_t i, const Shape& shape) {
    const CheckedValue& input = program_->values[program_->inputs[i]];
    const std::string& name = program_->input_names[i];
    if (input.below < 0) return add(name, dims_of(*program_, input), drawn(name, shape));
    const double kinds = static_cast<double>(sizes_.size(input.below));
    const Tensor u = random_uniform(shape, Key(2).fold(name), Dtype::f64);
    add(name, dims_of(*program_, input), cast(floor(u * kinds), Dtype::i64));
  }

  void add_parameter(const ParamSpec& spec) {
    const Tensor start = drawn(spec.name, spec.shape) * 0.7;
    fixed_.push_back(spec.fixed ? start : Tensor());
    if (!spec.fixed) add(spec.name, spec.dims, start);
  }

  bool runs() const {
    try {
      (*this)(inputs_, {});
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // The last sample is shorter by one.
  void pad(Index batch) {
    const auto& names = program_->input_names;
    const bool has_memory = program_->has_memory();
    if ((program_->causal && !has_memory) || !(program_->takes_mask || program_->takes_padding))
      return;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != (has_memory ? "M" : "X")) continue;
      const Index length = inputs_[i].size(1);
      std::vector<int64_t> lengths(static_cast<size_t>(batch), length);
      lengths.back() = std::max<Index>(0, length - 1);
      mask_.lengths = Tensor::of<int64_t>({batch}, std::span<const int64_t>(lengths));
    }
  }

  std::shared_ptr<const Checked> program_;
  SizeTable sizes_;
  Index block_;
  GradCheckOptions options_;
  Tensors inputs_;  // the text's, then every parameter that is learned
  ParamList params_;
  std::vector<ParamId> ids_;  // by parameter of the text and its calls
  Tensors fixed_;             // by parameter; empty where it is learned
  Mask mask_;
};

// Sizes that follow from nothing but a number of a `where`, or from nothing at all.
class SmallSizes {
 public:
  SmallSizes(std::shared_ptr<const Checked> program, const SizesByName& given, int order)
      : program_(std::move(program)), given_(given), order_(order) {
    find(*program_, "");
  }

  // The first sizes that fit and are small enough; or else the first that fit, or the first of all.
  SizesByName search() const {
    std::optional<SizesByName> too_large;
    for (Index most : {6, 8, 5, 9})
      for (Index layers : {2, 1, 3, 5})
        for (Index heads : {2, 3, 1})
          for (Index kinds : {7, 29}) {
            const SizesByName sizes = with(most, layers, heads, kinds);
            const std::optional<Work> work = work_at(sizes);
            if (work && work->is_small) return sizes;
            if (work && !too_large) too_large = sizes;
          }
    return too_large.value_or(with(6, 2, 2, 7));
  }

 private:
  struct Free {
    std::string name;
    Index number;  // 0: none is given
    Role role;
  };

  void find(const Checked& program, const std::string& path) {
    for (size_t i = 0; i < program.dimensions.size(); ++i) {
      const Dimension& d = program.dimensions[i];
      const bool is_number = !d.fallback.empty() && d.fallback[0].kind == NodeKind::number;
      const double number = is_number ? d.fallback[0].number : 0;
      const bool is_free = is_number || (path.empty() && is_open(static_cast<int>(i)));
      if (is_free && d.arguments.empty())
        free_.push_back({path + d.name, static_cast<Index>(number), d.role});
    }
    for (const CheckedValue& v : program.values)
      if (v.kind == ValueKind::call) find(*program.calls[v.index].program, path + v.name + ".");
  }

  // True if the text leaves it to inputs or callers.
  bool is_open(int dim) const {
    const Dimension& d = program_->dimensions[dim];
    const auto has = [&](int input) {
      const CheckedValue& v = program_->values[input];
      return v.below == dim || v.dims.contains(dim);
    };
    const bool is_of_input = std::any_of(program_->inputs.begin(), program_->inputs.end(), has);
    const auto makes = [&](const Dimension& inner) {  // a def inside has one of its own
      return inner.outer == dim && !inner.results.empty();
    };
    const bool is_made =
        !d.product.empty() || !d.results.empty() || d.call >= 0 ||
        std::any_of(program_->dimensions.begin(), program_->dimensions.end(), makes);
    return d.fallback.empty() && d.name == d.short_name() && (is_of_input || !is_made);
  }

  SizesByName with(Index most, Index layers, Index heads, Index kinds) const {
    SizesByName sizes = given_;
    for (const Free& free : free_) {
      const std::string name = free.name.substr(free.name.rfind('.') + 1);
      if (given_.contains(name)) continue;
      const Index capped = most - (free.number > 0 && (most - free.number) % 2 != 0);
      const Index size = free.role == Role::query    ? (program_->is_apart() ? 3 : 5)
                         : free.role == Role::memory ? 5
                         : name == "v"               ? kinds
                         : name == "l"               ? layers
                         : name == "h"               ? heads
                         : free.number == 0          ? most - most % 2
                                                     : std::min(free.number, capped);
      sizes.try_emplace(free.name, size);
    }
    return sizes;
  }

  // Nothing if the sizes do not fit.
  std::optional<Work> work_at(const SizesByName& sizes) const {
    try {
      const TextCheck check(program_, sizes, {});
      return work_of(check, check.inputs(), order_);
    } catch (const Error&) {
      return {};
    }
  }

  std::shared_ptr<const Checked> program_;
  const SizesByName& given_;
  int order_;
  std::vector<Free> free_;
};

}  // namespace

SizesByName text_sizes_to_check(const std::shared_ptr<const Checked>& program,
                                const SizesByName& given, int order) {
  return SmallSizes(program, given, order).search();
}

bool is_quick_to_check(const std::shared_ptr<const Checked>& program, const SizesByName& sizes,
                       int order) {
  const TextCheck check(program, sizes, {});
  return work_of(check, check.inputs(), order).is_small;
}

GradReport check_text_gradient(const std::shared_ptr<const Checked>& program,
                               const SizesByName& sizes, const AttentionCheck& check) {
  return TextCheck(program, sizes, check).report();
}

}  // namespace tete
