#include "attention/gradcheck.hpp"

#include <cmath>

#include "attention/check_parts.hpp"

namespace tete {

// Each further order differentiates all that. What a value takes beside its numbers is worth some
// thousands.
Work work_of(const WatchedFunction& f, const Tensors& inputs, int order) {
  constexpr double most = 2e8;  // some ten seconds
  constexpr double overhead = 5000;
  Work work;
  f(inputs, [&](const std::string&, const Tensor& x) {
    ++work.values, work.numbers += static_cast<double>(x.size());
  });
  const double each = (work.numbers + overhead * work.values) * std::pow(5, order - 1);
  work.is_small = each * static_cast<double>(inputs.size()) <= most;
  return work;
}

static void require_small(const WatchedFunction& f, const Tensors& inputs, const std::string& name,
                          int order) {
  const Work work = work_of(f, inputs, order);
  if (work.is_small) return;
  bad_input("'", name, "' is too large to be checked", order > 1 ? text(" at order ", order) : "",
            ": each of its ", counted(std::ssize(inputs), "input"),
            " is moved again and again, and ", work.values, " values of ", work.numbers,
            " numbers are computed each time; --dim makes sizes smaller, and a part of the text "
            "can be checked by itself");
}

Tensor drawn(const std::string& name, const Shape& shape) {
  return random_normal(shape, Key(1).fold(name), Dtype::f64);
}

std::vector<std::string> dims_of(const Checked& program, const CheckedValue& value) {
  std::vector<std::string> names{"batch"};
  for (int dim : value.dims) names.push_back(program.dimensions[dim].name);
  return names;
}

Tensor with_terms(const std::function<Tensor(Tensors& terms)>& call) {
  Tensors terms;
  Tensor Y = call(terms);
  for (const Tensor& term : terms) Y = Y + expand(term, all_axes(Y.rank()), Y.shape());
  return Y;
}

GradReport report_of(const WatchedFunction& f, const Tensors& inputs, const Checked& program,
                     const GradCheckOptions& options) {
  require_small(f, inputs, program.name, options.order);
  GradReport report = check_gradient(f, inputs, options);
  if (report.fault)
    if (const int value = program.find_value(report.fault->value); value >= 0)
      report.fault->line = line_of(program.values[value].place);
  return report;
}

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
    const Index memory_width = sizes.memory_width > 0 ? sizes.memory_width : sizes.d_model;
    const bool alone = program_->self_only || (check.causal && memory_width == sizes.d_model);
    add_sequence("X", alone || check.causal ? check.memories : check.queries, sizes.d_model);
    if (!alone) add_sequence("M", check.memories, memory_width);
    sequences_ = inputs_.size();
    for (const ParamSpec& spec : params_.specs()) {
      const Tensor start = drawn(spec.name, spec.shape) * 0.7;
      fixed_.push_back(spec.fixed ? start : Tensor());
      if (!spec.fixed) add(spec.name, spec.dims, start);
    }
    options_.result_dims = dims_of(*program_, program_->values[program_->result]);
  }

  GradReport report() const {
    const WatchedFunction f = [this](const Tensors& in, const Watch& watch) {
      Tensors values = fixed_;
      size_t given = sequences_;
      for (Tensor& value : values)
        value = value ? cast(value, in[0].dtype()).to(in[0].backend()) : in[given++];
      return with_terms([&](Tensors& terms) {
        const Forward forward{.params = values,
                              .training = program_->has_losses(),
                              .watch = watch,
                              .losses = &terms,
                              .tiling = {.allowed = check_.block > 0, .queries = check_.block}};
        return attention_(forward, "", in[0], in[sequences_ - 1], {.causal = check_.causal});
      });
    };
    return report_of(f, inputs_, *program_, options_);
  }

 private:
  void add(const std::string& name, std::vector<std::string> dims, Tensor value) {
    options_.names.push_back(name);
    options_.dims.push_back(std::move(dims));
    inputs_.push_back(std::move(value));
  }

  void add_sequence(const std::string& name, Index length, Index width) {
    for (size_t i = 0; i < program_->inputs.size(); ++i)
      if (program_->input_names[i] == name)
        return add(name, dims_of(*program_, program_->values[program_->inputs[i]]),
                   drawn(name, {check_.batch, length, width}));
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

namespace {

class SizeSearch {
 public:
  SizeSearch(std::shared_ptr<const Checked> program, const SizesByName& given)
      : program_(std::move(program)), given_(given) {
    for (size_t i = 0; i < program_->inputs.size(); ++i) {
      const Names& dims = program_->values[program_->inputs[i]].dims;
      (program_->input_names[i] == "X" ? width_ : memory_width_) = name_of(dims[1]);
    }
    for (size_t i = program_->dimensions.size(); i-- > 0;) {
      const Dimension& d = program_->dimensions[i];
      if (d.name != d.short_name()) continue;
      if (d.role == Role::query) n_ = d.name;
      if (d.role == Role::memory) m_ = d.name;
    }
  }

  // The first sizes that fit, or the first of all.
  AttentionSizes find(AttentionCheck& check) const {
    const AttentionCheck before = check;
    for (const auto& [queries, memories] :
         std::initializer_list<std::pair<Index, Index>>{{check.queries, check.memories},
                                                        {4, 6},
                                                        {4, 8},
                                                        {6, 9},
                                                        {8, 12},
                                                        {8, 16},
                                                        {5, 5},
                                                        {8, 8}})
      for (Index heads : {3, 2, 4, 6, 8, 1})
        for (Index factor : {2, 4, 8, 1, 3, 16}) {
          set_lengths(queries, memories, check);
          const AttentionSizes sizes = with(heads, factor, check);
          if (fits(sizes, check)) return sizes;
        }
    set_lengths(before.queries, before.memories, check);
    return with(3, 2, check);
  }

 private:
  const std::string& name_of(int dim) const { return program_->dimensions[dim].name; }
  Index given(const std::string& name, Index otherwise) const {
    const auto at = given_.find(name);
    return at == given_.end() ? otherwise : at->second;
  }

  void set_lengths(Index queries, Index memories, AttentionCheck& check) const {
    check.queries = given(n_, queries);
    check.memories = given(m_, program_->self_only ? given(n_, memories) : memories);
  }

  AttentionSizes with(Index heads, Index factor, const AttentionCheck& check) const {
    AttentionSizes sizes{.dims = given_};
    for (const std::string* own : {&n_, &m_, &width_, &memory_width_}) sizes.dims.erase(*own);
    const bool has_heads = program_->find_dimension("h") >= 0;
    if (has_heads) sizes.dims.try_emplace("h", heads);
    sizes.d_model = given(width_, factor * (has_heads ? sizes.dims.at("h") : heads));
    if (memory_width_ != width_) sizes.memory_width = given(memory_width_, 0);
    // Tables with a row for each position (m<=max_m) have few: rows that no position reads only
    // take time.
    for (const CheckedParameter& p : program_->parameters)
      for (int bound : program_->values[p.value].bounds)
        if (bound >= 0)
          sizes.dims.try_emplace(name_of(bound),
                                 std::max({Index{8}, check.queries, check.memories}));
    return sizes;
  }

  bool fits(const AttentionSizes& sizes, const AttentionCheck& check) const {
    try {
      ParamList params;
      SizesByName all = Attention(Scope{params}, program_, sizes).sizes();
      const bool alone = program_->self_only;
      if (!n_.empty()) all[n_] = alone ? check.memories : check.queries;
      if (!m_.empty()) all[m_] = check.memories;
      SizeTable table(program_, all);
      table.set_causal(false);
      table.check_all();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  std::shared_ptr<const Checked> program_;
  const SizesByName& given_;
  std::string n_, m_, width_, memory_width_;  // the names of X's and M's dimensions
};

}  // namespace

AttentionSizes sizes_to_check(const std::shared_ptr<const Checked>& program,
                              const SizesByName& given, AttentionCheck& check) {
  return SizeSearch(program, given).find(check);
}

GradReport check_gradient(const std::shared_ptr<const Checked>& program,
                          const AttentionSizes& sizes, const AttentionCheck& check) {
  return VariantCheck(program, sizes, check).report();
}

}  // namespace tete
