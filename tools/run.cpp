// tete run: a text is evaluated on given tensors; every named value and gradient is written, under
// the names of the text.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "attention/against.hpp"
#include "tools/tensors.hpp"
#include "tools/uses.hpp"
#include "train/safetensors.hpp"

namespace tete {

struct RunVerbOptions {
  std::string target, tensors, out, dtype;
  TextOptions text;
  bool random = false, json = false;
  Index batch = 2;
  uint64_t seed = 0;
  int threads = 0;
  DeviceOptions device;
};

static bool is_gradient(const std::string& name) { return name.starts_with("grad:"); }

// ---- What is evaluated ----

// Every tensor of a run and what it is called: arguments, values in the text's order, gradients.
class Evaluated {
 public:
  Evaluated(std::shared_ptr<const Checked> program, const TensorsByName& given,
            const RunOptions& options, const std::string& dtype, Backend& on)
      : program_(std::move(program)), device_(on), cotangent_name_("grad:" + result_name()) {
    dtype_ = dtype == "f64" || (dtype.empty() && has_double(given)) ? Dtype::f64 : Dtype::f32;
    const auto cotangent = given.find(cotangent_name_);
    if (cotangent != given.end()) cotangent_ = converted(cotangent->second);
    take(given);
    Evaluation run(program_, arguments_, options);
    evaluate(run);
    if (cotangent_) differentiate();
  }

  const NamedTensors& tensors() const { return all_; }
  Dtype dtype() const { return dtype_; }
  bool has_gradients() const { return bool(cotangent_); }
  const std::string& cotangent_name() const { return cotangent_name_; }
  // Names of tensors that the text computes itself, and of gradients.
  const std::vector<std::string>& not_read() const { return not_read_; }
  // "L[batch=2, n=5, m=7, h=3]"
  std::string described(size_t i) const {
    std::string axes;
    const Tensor& x = all_[i].value;
    for (int axis = 0; axis < x.rank(); ++axis)
      axes += text(axis > 0 ? ", " : "", axis_name(*program_, values_[i], x.rank(), axis), "=",
                   x.size(axis));
    return all_[i].name + "[" + axes + "]";
  }

 private:
  const std::string& result_name() const { return program_->name_of(program_->result); }
  int count() const { return static_cast<int>(program_->values.size()); }
  const CheckedValue& value(int i) const { return program_->values[i]; }

  bool has_double(const TensorsByName& given) const {
    for (int i = 0; i < count(); ++i)
      if (const auto x = given.find(program_->name_of(i));
          program_->is_argument(i) && x != given.end() && x->second.dtype() == Dtype::f64)
        return true;
    return false;
  }
  Tensor converted(const Tensor& x) const {
    return (is_real(x.dtype()) ? cast(x, dtype_) : x).to(device_);
  }

  bool is_learned(int i) const {
    const CheckedValue& v = value(i);
    return v.element == Element::real &&
           !(v.kind == ValueKind::parameter && program_->parameters[v.index].fixed);
  }

  void take(const TensorsByName& given) {
    for (const auto& [name, x] : given) {
      bool computed = is_gradient(name);
      for (int i = 0; i < count(); ++i)
        computed |= !program_->is_argument(i) && program_->name_of(i) == name;
      for (int i = 0; i < count(); ++i)
        computed &= !(program_->is_argument(i) && program_->name_of(i) == name);
      if (!computed) arguments_[name] = converted(x);
      else if (name != cotangent_name_) not_read_.push_back(name);
    }
    lay_out_parameters();
    if (!cotangent_) return;
    for (int i = 0; i < count(); ++i)
      if (const auto x = arguments_.find(program_->name_of(i));
          program_->is_argument(i) && is_learned(i) && x != arguments_.end())
        if (is_real(x->second.dtype())) x->second = x->second.variable();
  }

  // As a model keeps them in memory: its products are then rounded alike, to the same bits.
  void lay_out_parameters() {
    for (int i = 0; i < count(); ++i) {
      const CheckedValue& v = value(i);
      const auto x = arguments_.find(program_->name_of(i));
      if (v.kind != ValueKind::parameter || x == arguments_.end()) continue;
      if (!v.layout.empty() && x->second.rank() == v.layout.size())
        x->second = with_layout(x->second, v.layout);
    }
  }

  void add(const std::string& name, int value, const Tensor& x) {
    all_.push_back({name, x.detach()});
    values_.push_back(value);
  }

  void evaluate(Evaluation& run) {
    for (int i = 0; i < count(); ++i)
      if (program_->is_argument(i)) use(i, arguments_.at(program_->name_of(i)));
    for (int i = 0; i < count(); ++i) {
      if (program_->is_argument(i)) continue;
      Tensor x = run.value(i);
      // A value that is another's copy has a gradient of its own, that of this name's uses.
      if (x.tracked() && value(i).element == Element::real) run.set(i, x = x * 1.0);
      if (i == program_->result) result_ = x;
      // An input as amended has the input's name, and is the result of its amendment under another.
      if (value(i).watched && !arguments_.contains(program_->name_of(i))) use(i, x);
    }
    if (!result_) result_ = arguments_.at(result_name());
  }

  void use(int i, const Tensor& x) {
    add(program_->name_of(i), i, x);
    if (!x.tracked() || i == program_->result) return;
    differentiated_.push_back(i);
    xs_.push_back(x);
  }

  void differentiate() {
    if (!(cotangent_.shape() == result_.shape()))
      bad_input("the cotangent '", cotangent_name_, "' has shape ", cotangent_.shape(),
                ", expected that of ", result_name(), ", ", result_.shape());
    add(cotangent_name_, program_->result, cotangent_);
    const Tensors found =
        result_.tracked() ? grad(sum(result_ * cotangent_), xs_) : Tensors(xs_.size());
    for (size_t i = 0; i < xs_.size(); ++i)
      add("grad:" + program_->name_of(differentiated_[i]), differentiated_[i],
          found[i] ? found[i] : Tensor::zeros(xs_[i].shape(), dtype_, device_));
  }

  std::shared_ptr<const Checked> program_;
  Backend& device_;
  std::string cotangent_name_;
  Dtype dtype_;
  TensorsByName arguments_;
  Tensor cotangent_, result_;
  std::vector<std::string> not_read_;
  NamedTensors all_;
  std::vector<int> values_;          // of all_
  std::vector<int> differentiated_;  // arguments and values with a gradient
  Tensors xs_;                       // they
};

// ---- Random tensors ----

// Sizes that neither the caller nor the text gives: small, and unlike one another where that finds
// mistakes.
static Index usual_size(const Dimension& d) {
  if (d.role == Role::query) return 5;
  if (d.role == Role::memory) return 7;
  return d.head || d.name == "h" ? 3 : 12;
}

static SizeTable sizes_of(const std::shared_ptr<const Checked>& program, const RunOptions& o) {
  SizeTable table(program, o.sizes);
  table.set_causal(o.mask.causal);
  for (size_t i = 0; i < program->dimensions.size(); ++i) {
    const Dimension& d = program->dimensions[i];
    const int dim = static_cast<int>(i);
    const bool derived =
        !d.fallback.empty() || !d.arguments.empty() || !d.product.empty() || d.outer >= 0;
    if (!derived && !table.find(dim)) table.set(dim, usual_size(d));
  }
  table.check_known();
  return table;
}

static Shape input_shape(const CheckedValue& v, SizeTable& sizes, Index batch) {
  Shape shape;
  if (batch > 0) shape.push_back(batch);
  for (int dim : v.dims) shape.push_back(sizes.size(dim));
  return shape;
}

// An input's entries: standard normal, or whole numbers below the size that bounds them.
static Tensor random_input(const CheckedValue& v, SizeTable& sizes, Index batch, Key key) {
  const Shape shape = input_shape(v, sizes, batch);
  if (v.element == Element::real) return random_normal(shape, key);
  const Index below = v.below >= 0 ? sizes.size(v.below) : 2;
  std::vector<int64_t> numbers;
  for (Index i = 0; i < element_count(shape); ++i)
    numbers.push_back(static_cast<int64_t>(
        uniform_below(key, static_cast<uint64_t>(i), static_cast<uint64_t>(below))));
  return Tensor::of<int64_t>(shape, std::span<const int64_t>(numbers));
}

// A learned parameter is normal, whatever it starts as: after zeros or an identity many mistakes do
// not show. Its largest dimension stands for what is summed over.
static Tensor random_parameter(const ParamSpec& spec, Key key) {
  if (spec.fixed) return initial_value(spec, key, Dtype::f32);
  Index largest = 1;
  for (Index size : spec.shape) largest = std::max(largest, size);
  return random_normal(spec.shape, key) * (1 / std::sqrt(static_cast<double>(largest)));
}

static std::vector<Planned> planned(const Checked& program, SizeTable& sizes,
                                    const std::vector<ParameterSpec>& parameters,
                                    const RunVerbOptions& o) {
  const Dtype type = o.dtype == "f64" ? Dtype::f64 : Dtype::f32;
  std::vector<Planned> all;
  for (int input : program.inputs) {
    const CheckedValue& v = program.values[input];
    all.push_back(
        {v.name, input_shape(v, sizes, o.batch), v.element == Element::real ? type : Dtype::i64});
  }
  for (const ParameterSpec& made : parameters)
    all.push_back({made.spec.name, made.spec.shape, type});
  return all;
}

static TensorsByName random_tensors(const std::shared_ptr<const Checked>& program,
                                    const RunVerbOptions& o, const RunOptions& options) {
  if (o.batch < 0 || o.batch > 65536) bad_input("--batch ", o.batch, ": expected 0 to 65536");
  SizeTable sizes = sizes_of(program, options);
  const std::vector<ParameterSpec> parameters = parameter_specs(*program, sizes);
  require_memory(planned(*program, sizes, parameters, o));
  const Key key(o.seed);
  TensorsByName tensors;
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    const std::string& name = program->input_names[i];
    const CheckedValue& v = program->values[program->inputs[i]];
    tensors[name] = random_input(v, sizes, o.batch, key.fold(name));
  }
  for (const ParameterSpec& made : parameters)
    tensors[made.spec.name] = random_parameter(made.spec, key.fold(made.spec.name));
  // A run also shows whether sizes and mask fit.
  const Shape result = Evaluation(program, tensors, options).value(program->result).shape();
  const std::string cotangent = "grad:" + program->name_of(program->result);
  tensors[cotangent] = random_normal(result, key.fold(cotangent));
  if (o.dtype == "f64")
    for (auto& [name, x] : tensors)
      if (is_real(x.dtype())) x = cast(x, Dtype::f64);
  return tensors;
}

// ---- What is told ----

struct Entries {
  double largest = 0;
  Index not_finite = 0;
};
static Entries entries_of(const Tensor& x) {
  Entries entries;
  for (double e : x.values()) {
    if (std::isfinite(e)) entries.largest = std::max(entries.largest, std::abs(e));
    else ++entries.not_finite;
  }
  return entries;
}

static void print(const std::string& described, const Tensor& x) {
  const Entries entries = entries_of(x);
  std::printf("  %-48s largest %.4g", described.c_str(), entries.largest);
  if (entries.not_finite > 0)
    std::printf(", %lld of %lld not finite", static_cast<long long>(entries.not_finite),
                static_cast<long long>(x.size()));
  std::printf("\n");
}

static nlohmann::ordered_json to_json(const std::string& name, const Tensor& x) {
  const Entries entries = entries_of(x);
  return {{"name", name},
          {"dtype", name_of(x.dtype())},
          {"shape", std::vector<Index>(x.shape().begin(), x.shape().end())},
          {"largest", entries.largest},
          {"not_finite", entries.not_finite}};
}

static void tell(const RunVerbOptions& o, const Checked& program, const Evaluated& evaluated) {
  const NamedTensors& tensors = evaluated.tensors();
  if (o.json) {
    nlohmann::ordered_json json = {{"program", program.name},
                                   {"dtype", name_of(evaluated.dtype())},
                                   {"mask", o.text.mask},
                                   {"out", o.out},
                                   {"not_read", evaluated.not_read()}};
    for (const NamedTensor& t : tensors) json["tensors"].push_back(to_json(t.name, t.value));
    std::cout << json.dump(2) << "\n";
    return;
  }
  std::printf("%s on %s, in %s, mask: %s\n", program.name.c_str(),
              o.random ? "random tensors" : o.tensors.c_str(), name_of(evaluated.dtype()),
              o.text.mask.c_str());
  for (size_t i = 0; i < tensors.size(); ++i) print(evaluated.described(i), tensors[i].value);
  std::printf("%zu tensors written to %s\n", tensors.size(), o.out.c_str());
  if (!evaluated.not_read().empty())
    std::printf("Not read, as the text computes them: %s.\n",
                list_of(evaluated.not_read()).c_str());
  if (!evaluated.has_gradients())
    std::printf("No gradients: there is no cotangent '%s' among the tensors.\n",
                evaluated.cotangent_name().c_str());
}

static void tell_random(const RunVerbOptions& o, const Checked& program,
                        const TensorsByName& tensors) {
  if (o.json) {
    nlohmann::ordered_json json = {{"program", program.name}, {"out", o.out}};
    for (const auto& [name, x] : tensors) json["tensors"].push_back(to_json(name, x));
    std::cout << json.dump(2) << "\n";
    return;
  }
  std::printf("Random inputs, parameters and cotangent of %s, written to %s:\n",
              program.name.c_str(), o.out.c_str());
  for (const auto& [name, x] : tensors) print(text(name, " ", x.shape()), x);
}

// ---- The verb ----

static int run(const RunVerbOptions& o) {
  if (o.random == !o.tensors.empty())
    bad_input("expected either --tensors FILE, to evaluate the text on, or --random, to write ",
              "random tensors that fit it");
  if (!o.dtype.empty() && o.dtype != "f32" && o.dtype != "f64")
    bad_input("--dtype ", o.dtype, ": expected f32 or f64");
  use_threads(o.threads);
  const DeviceInUse in_use(o.device);
  const auto program = load_text(o.target, o.text.with, o.text.use);
  const RunOptions options{.sizes = o.text.sizes(), .mask = read_mask(o.text.mask)};
  const Metadata metadata = {{"program", program->name}, {"mask", o.text.mask}};
  if (o.random) {
    const TensorsByName tensors = random_tensors(program, o, options);
    NamedTensors all;
    for (const auto& [name, x] : tensors) all.push_back({name, x});
    write_safetensors(o.out, metadata, all);
    speak_beside(o.out);
    tell_random(o, *program, tensors);
    return 0;
  }
  const Evaluated evaluated(program, read_tensors(o.tensors), options, o.dtype, *in_use);
  write_safetensors(o.out, metadata, evaluated.tensors());
  speak_beside(o.out);
  tell(o, *program, evaluated);
  return 0;
}

Run run_verb(CLI::App& app) {
  auto o = std::make_shared<RunVerbOptions>();
  app.add_option("VARIANT", o->target, "a variant, or the path of a text")->required();
  app.add_option("--tensors", o->tensors,
                 "safetensors: every input and parameter under its name in the text; with the "
                 "result's cotangent (grad:Y) gradients are computed too")
      ->type_name("FILE");
  app.add_option("--out", o->out,
                 "write the tensors here, with every value and gradient of the text")
      ->type_name("FILE")
      ->required();
  add_text_options(app, o->text);
  app.add_option("--dtype", o->dtype, "f32 or f64; otherwise that of the tensors")
      ->type_name("TYPE");
  app.add_flag("--random", o->random,
               "evaluate nothing: write random inputs, parameters and a cotangent of the right "
               "shapes; sizes not set are small");
  app.add_option("--batch", o->batch, "batch size of random inputs; 0: no batch dimension")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--seed", o->seed, "random seed")->type_name("N")->capture_default_str();
  add_threads(app, o->threads);
  add_device(app, o->device);
  app.add_flag("--json", o->json, "what was written, as JSON");
  app.footer(
      "The result's gradients are of sum(Y * grad:Y): of every input, learned parameter\n"
      "and named value.\n\n"
      "Examples:\n"
      "  tete run talking_heads --random --dim d_X=16 --dim h=4 --out in.safetensors\n"
      "  tete run talking_heads --tensors in.safetensors --out out.safetensors --mask causal");
  return [o] { return run(*o); };
}

}  // namespace tete
