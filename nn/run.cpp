#include "nn/run.hpp"

#include <algorithm>

namespace tete {

namespace {

constexpr int most_batch_dims = 4;

// A tensor whose dimensions are the batch's, if `batched`, and then `names`.
struct Value {
  Tensor tensor;
  Names names;
  bool batched = false;
};

// A number as a tensor of any shape.
Tensor spread(double value, const Shape& shape, Dtype dtype) {
  return Tensor::scalar(value, dtype).window(shape, Strides(shape.size(), 0));
}

Tensor number_like(const Tensor& x, double value) { return spread(value, x.shape(), x.dtype()); }

class Runner {
 public:
  Runner(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
         std::span<const ParamId> params, const Forward& forward, const std::string& path,
         const Mask& mask)
      : program_(program),
        sizes_(sizes),
        inputs_(inputs),
        params_(params),
        forward_(forward),
        path_(path),
        mask_(mask),
        values_(program.values.size()) {
    read_batch_and_type();
    for (size_t i = 0; i < inputs.size(); ++i) sizes_.bind(program.inputs[i], inputs[i].shape());
    sizes_.set_causal(mask.causal);
    sizes_.check_all();
    check_mask();
  }

  Tensor run() {
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const CheckedValue& v = program_.values[i];
      at(static_cast<int>(i));
      const bool is_named =
          v.kind == CheckedValue::Kind::statement || v.kind == CheckedValue::Kind::same;
      if (forward_.watch && is_named && v.watched)
        forward_.watch(path_.empty() ? v.name : path_ + "/" + v.name, values_[i].tensor);
      for (int done : v.finished) values_[static_cast<size_t>(done)] = {};
    }
    return values_[static_cast<size_t>(program_.result)].tensor;
  }

  // For Evaluation.
  const Value& at(int number) {
    Value& value = values_[static_cast<size_t>(number)];
    if (!value.tensor) value = evaluate(checked(number));
    return value;
  }
  void set(int number, const Tensor& x) {
    const CheckedValue& v = checked(number);
    const bool batched = x.rank() > v.dims.size();
    if (!(x.shape() == shape_of(v.dims, batched)))
      fail_at({v.place}, text("'", v.name, "' has shape ", shape_of(v.dims, false), " or ",
                              shape_of(v.dims, true), ", got ", x.shape()));
    values_[static_cast<size_t>(number)] = {x, v.dims, batched};
  }
  const Shape& batch() const { return batch_; }
  Index size(int dim) { return sizes_.size(dim); }

 private:
  const CheckedValue& checked(int value) const {
    return program_.values[static_cast<size_t>(value)];
  }
  const Dimension& dimension(int dim) const {
    return program_.dimensions[static_cast<size_t>(dim)];
  }

  // ---- What the call brings ---------------------------------------------------------------------

  void read_batch_and_type() {
    if (inputs_.size() != program_.inputs.size())
      bad_input("'", program_.name, "' has ", program_.inputs.size(), " inputs, got ",
                inputs_.size());
    int from = -1, typed = -1;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const CheckedValue& v = checked(program_.inputs[i]);
      const Tensor& x = inputs_[i];
      if (!x) bad_input("'", program_.name, "' needs a tensor for its input '", v.name, "'");
      if (v.element == Element::real) {
        check_type(v.name, x, typed >= 0 ? x.dtype() == dtype_ : is_real(x.dtype()));
        dtype_ = x.dtype(), typed = static_cast<int>(i);
      }
      const int extra = x.rank() - v.dims.size();
      if (extra <= 0) continue;
      Shape batch;
      for (int k = 0; k < extra; ++k) batch.push_back(x.size(k));
      if (extra > most_batch_dims)
        fail_at({v.place}, text("a tensor of shape ", x.shape(), " has more than ", most_batch_dims,
                                " batch dimensions"));
      if (from >= 0 && !(batch == batch_))
        fail_at({v.place, checked(program_.inputs[static_cast<size_t>(from)]).place},
                text("the batch of '", v.name, "' is ", batch, ", but that of '",
                     program_.input_names[static_cast<size_t>(from)], "' is ", batch_));
      batch_ = batch, from = static_cast<int>(i);
    }
    if (typed < 0) dtype_ = params_.empty() ? Dtype::f32 : forward_[params_[0]].dtype();
  }

  void check_type(const std::string& name, const Tensor& x, bool fits) const {
    if (!fits)
      bad_input("'", name, "' is ", describe(x.dtype(), x.shape()), ", expected ",
                is_real(dtype_) && is_real(x.dtype()) ? name_of(dtype_) : "real numbers");
  }

  void check_mask() const {
    const bool pairs = mask_.causal || mask_.visible;
    if ((pairs && !program_.takes_mask) ||
        (mask_.lengths && !program_.takes_mask && !program_.takes_padding))
      bad_input("'", program_.name, "' is given a ",
                mask_.causal    ? "causal mask"
                : mask_.visible ? "mask"
                                : "padded memory",
                ", but no statement of it takes the mask of the call: none is a softmax over one ",
                "of two sequence axes");
    if (mask_.causal && !program_.leak.empty()) throw Error(Kind::input, program_.leak);
    if (mask_.lengths && !(mask_.lengths.shape() == batch_))
      bad_input("the lengths of the memory have shape ", mask_.lengths.shape(),
                ", but the batch is ", batch_);
  }

  // ---- Values -----------------------------------------------------------------------------------

  Value evaluate(const CheckedValue& v) {
    switch (v.kind) {
      case CheckedValue::Kind::input:
        return input(v);
      case CheckedValue::Kind::parameter:
        return parameter(v);
      case CheckedValue::Kind::same: {
        const Value& other = at(v.index);
        return {other.tensor, v.dims, other.batched};
      }
      case CheckedValue::Kind::statement:
        break;
    }
    try {
      return statement(v);
    } catch (const Error& error) {
      if (error.kind() != Kind::input || is_pointed(error.what())) throw;
      fail_at({v.place}, error.what());
    }
  }

  // Whether an error says already where in the text it is.
  bool is_pointed(std::string_view sentence) const {
    return std::any_of(program_.sources.begin(), program_.sources.end(), [&](const auto& source) {
      return sentence.starts_with(source->name + ":");
    });
  }

  Value input(const CheckedValue& v) {
    const Tensor& x = inputs_[static_cast<size_t>(v.index)];
    const bool batched = x.rank() > v.dims.size();
    if (v.element == Element::real) return {x, v.dims, batched};
    return {whole_numbers(v, x), v.dims, batched};
  }

  // An integer input, as numbers of the run's type.
  Tensor whole_numbers(const CheckedValue& v, const Tensor& x) {
    const Index below = size(v.below);
    for (double number : x.values<double>())
      if (!(number >= 0 && number < static_cast<double>(below)) ||
          number != static_cast<double>(static_cast<Index>(number)))
        fail_at({v.place}, text("'", v.name, "' holds ", number, ", expected whole numbers from 0 ",
                                "to ", below - 1));
    return cast(x.detach(), dtype_);
  }

  Value parameter(const CheckedValue& v) {
    if (static_cast<size_t>(v.index) >= params_.size())
      bad_input("'", program_.name, "' has ", program_.parameters.size(), " parameters, got ",
                params_.size());
    Tensor p = forward_[params_[static_cast<size_t>(v.index)]];
    Shape expected;
    for (int i = 0; i < v.dims.size(); ++i)
      expected.push_back(size(v.bounds[i] >= 0 ? v.bounds[i] : v.dims[i]));
    if (!(p.shape() == expected))
      fail_at({v.place},
              text("the parameter '", v.name, "' has shape ", p.shape(), ", expected ", expected));
    check_type(v.name, p, p.dtype() == dtype_);
    // R9: row t of a table is read for position t.
    for (int i = 0; i < v.dims.size(); ++i)
      if (v.bounds[i] >= 0) p = slice(p, i, 0, size(v.dims[i]));
    if (program_.parameters[static_cast<size_t>(v.index)].fixed) p = p.detach();
    return {p, v.dims, false};
  }

  Value statement(const CheckedValue& v) {
    // Values that it needs may be made on the way.
    const auto* outer = std::exchange(current_, &v);
    const int outer_dropouts = std::exchange(dropouts_, 0);
    Value made = v.right.constant
                     ? Value{spread(sizes_.quantity(v.right), shape_of(v.names, false), dtype_),
                             v.names, false}
                     : node(v.right);
    current_ = outer, dropouts_ = outer_dropouts;
    made = aligned(made, v.names, made.batched);
    if (v.element != Element::real) made.tensor = made.tensor.detach();
    if (v.names == v.dims) return made;
    return {reshape(made.tensor, shape_of(v.dims, made.batched)), v.dims, made.batched};
  }

  // ---- Sizes and names --------------------------------------------------------------------------

  Shape shape_of(const Names& names, bool batched) {
    Shape shape;
    if (batched) shape = batch_;
    for (int name : names) shape.push_back(size(name));
    return shape;
  }

  // The same value with the dimensions `names`, in that order: what it lacks is repeated.
  Value aligned(const Value& v, const Names& names, bool batched) {
    if (v.names == names && v.batched == batched) return v;
    const int b = batch_.size(), from = v.batched ? b : 0, to = batched ? b : 0;
    Axes order, missing;
    for (int i = 0; i < to; ++i) (v.batched ? order : missing).push_back(i);
    for (int i = 0; i < names.size(); ++i) {
      if (const int at = v.names.find(names[i]); at >= 0) order.push_back(from + at);
      else missing.push_back(to + i);
    }
    return {expand(permute(v.tensor, order), missing, shape_of(names, batched)), names, batched};
  }

  // ---- Expressions ------------------------------------------------------------------------------

  Value node(const Node& n) {
    switch (n.kind) {
      case Node::Kind::value:
        return reference(n);
      case Node::Kind::operation:
        return operation(n);
      case Node::Kind::call:
        return call(n);
      default:
        return {Tensor::scalar(sizes_.quantity(n), dtype_), {}, false};
    }
  }

  // A use of a tensor: as it is, or with elements picked and dimensions split or renamed.
  Value reference(const Node& n) {
    const Value& v = at(n.index);
    if (n.plain) return v;
    Tensor x = v.tensor;
    const int b = v.batched ? batch_.size() : 0;
    for (int i = 0; i < v.names.size(); ++i)
      if (const Index pick = n.axes[static_cast<size_t>(i)].pick; pick >= 0)
        x = slice(x, b + i, pick, 1);
    return {reshape(x, shape_of(n.names, v.batched)), n.names, v.batched};
  }

  Value operation(const Node& n) {
    if (n.constant) return {Tensor::scalar(sizes_.quantity(n), dtype_), {}, false};
    if (n.args.size() == 1) {
      Value x = node(n.args[0]);
      x.tensor = n.op == Operator::minus ? -x.tensor : 1.0 - x.tensor.detach();
      return x;
    }
    const Node &a = n.args[0], &b = n.args[1];
    if (a.constant) {
      Value x = node(b);
      x.tensor = binary(n, number_like(x.tensor, sizes_.quantity(a)), x.tensor);
      return x;
    }
    if (b.constant) {
      Value x = node(a);
      const double number = sizes_.quantity(b);
      if (n.op == Operator::power && number == 2) x.tensor = square(x.tensor);
      else x.tensor = binary(n, x.tensor, number_like(x.tensor, number));
      return x;
    }
    Value x = node(a), y = node(b);
    const bool batched = x.batched || y.batched;
    x = aligned(x, n.names, batched), y = aligned(y, n.names, batched);
    return {binary(n, x.tensor, y.tensor), n.names, batched};
  }

  // Comparisons carry no gradient; truth is 0 or 1.
  static Tensor binary(const Node& n, const Tensor& a, const Tensor& b) {
    const auto below = [](const Tensor& p, const Tensor& q) {
      return less(p.detach(), q.detach());
    };
    switch (n.op) {
      case Operator::either:
        return max(a, b);
      case Operator::both:
        return a * b;
      case Operator::less:
        return below(a, b);
      case Operator::less_equal:
        return 1.0 - below(b, a);
      case Operator::greater:
        return below(b, a);
      case Operator::greater_equal:
        return 1.0 - below(a, b);
      case Operator::equal:
        return equal(a.detach(), b.detach());
      case Operator::unequal:
        return 1.0 - equal(a.detach(), b.detach());
      case Operator::add:
        return a + b;
      case Operator::subtract:
        return a - b;
      case Operator::multiply:
        return a * b;
      case Operator::divide:
        return a / b;
      case Operator::floor_divide:
        return floor(a / b);
      case Operator::modulo:
        return a - floor(a / b) * b;
      case Operator::power:
        return pow(a, b);
      default:
        return {};
    }
  }

  // ---- Functions --------------------------------------------------------------------------------

  Value call(const Node& n) {
    switch (n.builtin->form) {
      case Form::einsum:
        return einsum_of(n);
      case Form::each:
        return each(n);
      case Form::along:
        return along(n);
      case Form::reduction:
        return reduction(n);
      case Form::positions:
        return {arange(size(n.names[0]), dtype_), n.names, false};
      case Form::visible:
        return visible(n);
      case Form::gather:
        return gathered(n);
      case Form::concat:
        return joined(n);
    }
    return {};
  }

  // Labels of one contraction: the batch first, then names as they are met.
  class Numbering {
   public:
    explicit Numbering(int batch) : batch_(batch) {}
    Labels labels(const Names& names, bool batched) {
      Labels all;
      for (int i = 0; batched && i < batch_; ++i) all.push_back(static_cast<Label>(i));
      for (int name : names) all.push_back(label(name));
      return all;
    }

   private:
    Label label(int name) {
      auto at = std::find(names_.begin(), names_.end(), name);
      if (at == names_.end()) at = names_.insert(at, name);
      return static_cast<Label>(batch_ + (at - names_.begin()));
    }
    int batch_;
    std::vector<int> names_;
  };

  Value einsum_of(const Node& n) {
    Numbering numbering(batch_.size());
    std::vector<Operand> operands;
    bool batched = false;
    for (const Node& arg : n.args) {
      const Value v = reference(arg);
      batched |= v.batched;
      operands.push_back({v.tensor, numbering.labels(v.names, v.batched)});
    }
    const Labels result = numbering.labels(n.names, batched);
    Names in_memory;
    for (int i : layout_of(n.names, program_.dimensions)) in_memory.push_back(n.names[i]);
    return {contract_all(operands, result, numbering.labels(in_memory, batched)), n.names, batched};
  }

  Value each(const Node& n) {
    if (n.constant) return {Tensor::scalar(sizes_.quantity(n), dtype_), {}, false};
    std::vector<Value> args;
    bool batched = false;
    for (const Node& arg : n.args) {
      args.push_back(node(arg));
      batched |= args.back().batched;
    }
    Application with;
    const Names names = args.size() == 1 ? args[0].names : n.names;
    for (const Value& arg : args) with.args.push_back(aligned(arg, names, batched).tensor);
    return {n.builtin->apply(with), names, batched};
  }

  Value along(const Node& n) {
    Value x = node(n.args[0]);
    Value mask;
    if (n.takes_call_mask && !mask_.hides_nothing()) mask = call_mask(n.names);
    if (!n.mask.empty()) {
      const Value own = node(n.mask[0]);
      mask = mask.tensor ? both(mask, own, x.names) : own;
    }
    if (mask.tensor && mask.batched) x = aligned(x, x.names, true);
    Application with;
    with.args = {x.tensor};
    if (mask.tensor) with.mask = aligned(mask, x.names, x.batched).tensor;
    if (n.dim >= 0) with.axis = x.names.find(n.dim) + (x.batched ? batch_.size() : 0);
    const bool is_noise = std::string_view(n.builtin->name) == "dropout";
    if (is_noise) add_noise(with, x.batched);
    return {n.builtin->apply(with), x.names, x.batched};
  }

  // The noise of each dropout of each statement is its own.
  void add_noise(Application& with, bool batched) {
    with.rate = forward_.training ? forward_.dropout : 0;
    with.key =
        forward_.key.fold(path_).fold(current_->name).fold(static_cast<uint64_t>(dropouts_++));
    with.first = static_cast<uint64_t>(forward_.first_sample);
    with.by_sample = batched;
  }

  Value both(const Value& a, const Value& b, const Names& among) {
    Names names;
    for (int name : among)
      if (a.names.contains(name) || b.names.contains(name)) names.push_back(name);
    const bool batched = a.batched || b.batched;
    return {aligned(a, names, batched).tensor * aligned(b, names, batched).tensor, names, batched};
  }

  Value reduction(const Node& n) {
    const Value x = reference(n.args[0]);
    Application with;
    with.args = {x.tensor};
    with.axis = x.names.find(n.dim) + (x.batched ? batch_.size() : 0);
    Names left = x.names;
    left.erase(left.find(n.dim));
    return {n.builtin->apply(with), left, x.batched};
  }

  // ---- The call's mask --------------------------------------------------------------------------

  Value visible(const Node& n) {
    if (n.names.size() == 2) {
      if (mask_.hides_nothing())
        return {spread(1, shape_of(n.names, false), dtype_), n.names, false};
      const Value mask = call_mask(n.names);
      return aligned(mask, n.names, mask.batched);
    }
    const bool is_memory = dimension(n.names[0]).role == Role::memory || program_.self_only;
    if (mask_.lengths && !is_memory)
      fail_at({n.place}, "the call pads the memory; whether queries are padded is not known");
    if (!mask_.lengths) return {spread(1, shape_of(n.names, false), dtype_), n.names, false};
    return padding(n.names[0]);
  }

  // visible[batch, m] = m < length.
  Value padding(int memory) {
    const Index m = size(memory);
    const std::vector<double> lengths = mask_.lengths.values<double>();
    Shape shape = batch_;
    shape.push_back(m);
    std::vector<double> seen;
    for (double length : lengths) {
      if (!(length >= 0 && length <= static_cast<double>(m)))
        bad_input("a memory of length ", length, " does not fit into '", dimension(memory).name,
                  "' = ", m);
      for (Index j = 0; j < m; ++j) seen.push_back(static_cast<double>(j) < length);
    }
    return {cast(Tensor::of<double>(shape, std::span<const double>(seen)), dtype_), {memory}, true};
  }

  // The mask over the two sequence axes among `names`, made once a call for each pair of them.
  const Value& call_mask(const Names& names) {
    int query = -1, memory = -1;
    for (int name : names) {
      if (dimension(name).role == Role::query) query = name;
      if (dimension(name).role == Role::memory) memory = name;
    }
    for (const Value& made : masks_)
      if (made.names == Names{query, memory}) return made;
    const Names pair{query, memory};
    Value mask;
    const auto add = [&](const Value& v) { mask = mask.tensor ? both(mask, v, pair) : v; };
    if (mask_.causal) add(causal(pair));
    if (mask_.visible) add(given(pair));
    if (mask_.lengths) add(padding(memory));
    masks_.push_back(aligned(mask, pair, mask.batched));
    return masks_.back();
  }

  Value causal(const Names& pair) {
    const Index n = size(pair[0]), m = size(pair[1]);
    std::vector<double> seen;
    seen.reserve(static_cast<size_t>(n * m));
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < m; ++j) seen.push_back(j <= i + (m - n));
    return {cast(Tensor::of<double>({n, m}, std::span<const double>(seen)), dtype_), pair, false};
  }

  Value given(const Names& pair) {
    const Tensor& v = mask_.visible;
    const bool batched = v.rank() > 2;
    if (!(v.shape() == shape_of(pair, batched)))
      bad_input("the mask has shape ", v.shape(), ", expected ", shape_of(pair, false), " or ",
                shape_of(pair, true));
    return {cast(v.detach(), dtype_), pair, batched};
  }

  // ---- By names ---------------------------------------------------------------------------------

  // A pattern's spelling of a value: b0 b1 … for the batch, x7 for dimension 7, [x7] if marked.
  std::string spelled(const Names& names, bool batched, int marked = -1) const {
    std::string all;
    for (int i = 0; batched && i < batch_.size(); ++i) all += text("b", i, " ");
    for (int name : names) all += name == marked ? text("[x", name, "] ") : text("x", name, " ");
    return all;
  }

  Value gathered(const Node& n) {
    const Value table = reference(n.args[0]);
    const Value at = node(n.args[1]);
    const bool batched = table.batched || at.batched;
    // Without batch names to share, a pattern of one name could be read letter by letter.
    const std::string pattern =
        text(spelled(table.names, table.batched, n.dim), ", ", spelled(at.names, at.batched), "-> ",
             spelled(n.names, batched));
    return {gather(Pattern::parse(pattern), table.tensor, cast(at.tensor.detach(), Dtype::i64)),
            n.names, batched};
  }

  Value joined(const Node& n) {
    std::vector<Value> parts;
    bool batched = false;
    for (const Node& arg : n.args) {
      parts.push_back(reference(arg));
      batched |= parts.back().batched;
    }
    Tensors tensors;
    Index total = 0;
    for (const Value& part : parts) {
      Names names = n.names;
      for (int name : part.names)
        if (!names.contains(name)) names[names.find(n.dim)] = name;
      tensors.push_back(aligned(part, names, batched).tensor);
      total += size(names[n.names.find(n.dim)]);
    }
    if (total != size(n.dim))
      fail_at({n.place}, text("'", dimension(n.dim).name, "' is ", size(n.dim),
                              ", but what is joined comes to ", total));
    const int axis = n.names.find(n.dim) + (batched ? batch_.size() : 0);
    return {concat(tensors, axis), n.names, batched};
  }

  const Checked& program_;
  SizeTable sizes_;
  const Tensors& inputs_;
  std::span<const ParamId> params_;
  const Forward& forward_;
  const std::string& path_;
  const Mask& mask_;
  std::vector<Value> values_;
  std::vector<Value> masks_;
  Shape batch_;
  Dtype dtype_ = Dtype::f32;
  const CheckedValue* current_ = nullptr;
  int dropouts_ = 0;  // of the current statement
};

}  // namespace

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
