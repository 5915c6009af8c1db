// One call of a checked program: binds its inputs and parameters and computes its values.
#include "nn/run/runner.hpp"

#include <algorithm>

namespace tete {

namespace {

constexpr int most_batch_dims = 4;

// Fails unless x has real numbers, of the type `wanted` if there is one.
void check_type(const std::string& name, const Tensor& x, std::optional<Dtype> wanted) {
  if (wanted ? x.dtype() != *wanted : !is_real(x.dtype()))
    bad_input("'", name, "' is ", describe(x.dtype(), x.shape()), ", expected ",
              wanted && is_real(x.dtype()) ? name_of(*wanted) : "real numbers");
}

// True if an error's sentence already begins with a place in the text.
bool is_pointed(const Checked& program, std::string_view sentence) {
  return std::any_of(program.sources.begin(), program.sources.end(),
                     [&](const auto& source) { return sentence.starts_with(source->name + ":"); });
}

// True if X and M are one sequence, so that the memory's padding is that of the queries, too.
bool is_one_sequence(const Checked& program, const Tensors& inputs, const Mask& mask) {
  const auto find = [&](const char* name) -> const Tensor* {
    const auto at = std::find(program.input_names.begin(), program.input_names.end(), name);
    return at == program.input_names.end() ? nullptr : &inputs[at - program.input_names.begin()];
  };
  const Tensor *x = find("X"), *m = find("M");
  return !mask.apart && (mask.causal || mask.of_model || !x || !m || x->same(*m));
}

// The sequences of a causal call end at the same position, and the longer one begins at 0.
FirstRows ending_together(const Checked& program, SizeTable& sizes) {
  Index n = -1, m = -1;
  for (int input : program.inputs)
    for (int dim : program.values[input].dims) {
      if (program.dimensions[dim].role == Role::query) n = sizes.size(dim);
      if (program.dimensions[dim].role == Role::memory) m = sizes.size(dim);
    }
  for (int dim = 0; dim < std::ssize(program.dimensions); ++dim) {
    const Dimension& d = program.dimensions[dim];
    if (d.role == Role::memory && m >= 0 && sizes.size(dim) != m)
      fail_at({d.place}, "'", d.name, "' has ", sizes.size(dim), " positions of the ",
              "sequence whose memory has ", m, " in this call");
  }
  FirstRows first;
  if (n >= 0 && m > n) first.query = m - n;
  if (m >= 0 && n > m) first.memory = n - m;
  return first;
}

}  // namespace

Mask with_own_part(Mask mask, const Checked& program) {
  if (!program.causal) return mask;
  if (mask.causal)
    bad_input("'", program.name, "' marks X as causal itself; its call takes no causal mask");
  mask.causal = mask.of_model = true;
  mask.apart = program.is_apart();
  return mask;
}

void bind_call(SizeTable& sizes, const Tensors& inputs, const Mask& mask) {
  for (size_t i = 0; i < inputs.size(); ++i)
    sizes.bind(sizes.program().inputs[i], inputs[i].shape());
  sizes.set_causal(mask.causal && !mask.apart);
}

std::vector<bool> batched_values(const Checked& program, const Tensors& inputs) {
  std::vector<bool> batched(program.values.size());
  for (size_t i = 0; i < batched.size(); ++i) {
    const CheckedValue& v = program.values[i];
    if (v.kind == ValueKind::input) batched[i] = inputs[v.index].rank() > v.dims.size();
    for (int used : v.uses)
      if (batched[used]) batched[i] = true;
  }
  return batched;
}

Runner::Runner(const Checked& program, const SizeTable& sizes, const Tensors& inputs,
               std::span<const ParamId> params, const Forward& forward, const std::string& path,
               const Mask& mask)
    : program_(program),
      sizes_(sizes),
      inputs_(&inputs),
      params_(params),
      forward_(forward),
      path_(path),
      mask_(with_own_part(mask, program)),
      values_(program.values.size()) {
  read_batch_and_type();
  bind_call(sizes_, inputs, mask_);
  sizes_.check_all();
  one_sequence_ = is_one_sequence(program, inputs, mask_);
  check_mask();
  if (mask_.causal && !mask_.apart) first_ = ending_together(program_, sizes_);
  for (const Combination& c : program.flow.combinations)
    if (mask_.causal && c.reads == Combination::Reads::first && first(c.dim) > 0)
      throw Error(ErrorKind::input, sentence(program, c));
}

Runner::Runner(const SizeTable& sizes, const CallPart& part, const Forward& forward,
               const std::string& path, const Mask& mask)
    : program_(sizes.program()),
      sizes_(sizes),
      forward_(forward),
      path_(path),
      mask_(mask),
      values_(program_.values.size()),
      batch_(part.batch),
      dtype_(part.dtype),
      device_(part.device),
      first_(part.first),
      block_(part.block),
      strip_(part.strip),
      one_sequence_(part.one_sequence) {}

// Checks one value at a time, and only those that are computed whole. How many are held at once
// depends on the gradients and values that the caller asks for.
void Runner::check_memory() {
  if (inputs_->empty() || &(*inputs_)[0].backend() != &cpu()) return;
  std::vector<bool> in_blocks(program_.values.size());
  const std::vector<bool> batched = batched_values(program_, *inputs_);
  if (tiles())
    for (size_t i = 0; i < in_blocks.size(); ++i) in_blocks[i] = program_.values[i].strips >= 0;
  if (tiles())
    for (int i : program_.tile.inside) in_blocks[i] = true;
  for (int i = 0; i < std::ssize(program_.values); ++i) {
    const CheckedValue& v = checked(i);
    const bool is_view = v.kind != ValueKind::statement || v.right.constant ||
                         v.right.kind == NodeKind::value ||
                         (v.right.builtin && v.right.builtin->is_view);
    if (is_view || in_blocks[i] || (stored_instead(i) && !is_watched(i))) continue;
    const Planned made{v.name, shape_of(v.names, batched[i]), dtype_};
    if (const std::string why = memory_refusal({&made, 1}); !why.empty())
      throw Error(ErrorKind::resource, point_out(why, {v.place}));
  }
}

Tensor Runner::run() {
  check_memory();
  const Tile none, &tile = tiles() ? program_.tile : none;
  auto inside = tile.inside.begin();
  const bool makes_losses = forward_.training && forward_.losses;
  for (size_t i = 0; i < program_.values.size(); ++i) {
    const CheckedValue& v = program_.values[i];
    const bool tiled = inside != tile.inside.end() && *inside == static_cast<int>(i);
    if (tiled && inside++ == tile.inside.begin()) run_tile();
    const bool is_looked_at = is_watched(static_cast<int>(i));
    if (v.fusion >= 0 && !is_looked_at && runs(program_.fusions[v.fusion])) continue;
    const bool in_block = &tile != &none && v.strips >= 0 && !is_looked_at;
    const bool is_left_out = in_block || (v.for_loss && !makes_losses);  // R25
    if (!tiled && !is_left_out) at(static_cast<int>(i));
    else if (tiled && is_looked_at) forward_.watch(path_of(v), values_[i].tensor);
    if (makes_losses && program_.is_loss(static_cast<int>(i)))
      forward_.losses->push_back(mean(at(static_cast<int>(i)).tensor));
    for (int done : v.finished) values_[done] = {};
  }
  return values_[program_.result].tensor;
}

const Value& Runner::at(int number) {
  Value& value = values_[number];
  if (value.tensor) return value;
  const CheckedValue& v = checked(number);
  value = evaluate(v);
  if (!forward_.is_looked_into() || !is_offered(v)) return value;
  const Tensor made = value.tensor;
  value.tensor = forward_.offer(path_of(v), made);
  const std::vector<Hidden>& hidden = program_.flow.values[number].hidden;
  if (is_replaced(number) &&
      std::any_of(hidden.begin(), hidden.end(), [](const Hidden& pair) { return pair.query >= 0; }))
    replaced_hidden_ = true, changed_hidden_ |= !same_numbers(made, value.tensor);
  return value;
}

void Runner::show_skipped() {
  for (int i = 0; i < std::ssize(program_.values); ++i)
    if (checked(i).fusion >= 0 && !checked(i).for_loss && is_watched(i)) at(i);
}

bool Runner::is_offered(const CheckedValue& v) const {
  return v.watched && v.kind != ValueKind::input;  // the caller has offered its inputs
}

bool Runner::is_watched(int number) const {
  const CheckedValue& v = checked(number);
  return forward_.watch && is_offered(v) && forward_.watches(path_of(v));
}

bool Runner::is_replaced(int number) const {
  const CheckedValue& v = checked(number);
  return forward_.replace && is_offered(v) && forward_.replaces(path_of(v));
}

std::string Runner::path_of(const CheckedValue& v) const {
  return path_.empty() ? v.name : path_ + "/" + v.name;
}

void Runner::set(int number, const Tensor& x) {
  const CheckedValue& v = checked(number);
  const bool batched = x.rank() > v.dims.size();
  if (!(x.shape() == shape_of(v.dims, batched)))
    fail_at({v.place}, "'", v.name, "' has shape ", shapes_of(v.dims), ", got ", x.shape());
  values_[number] = {x, v.dims, batched};
}

Index Runner::whole_size(int dim) {
  const Role role = dimension(dim).role;
  if (role == Role::query && block_.queries >= 0) return block_.queries;
  if (role == Role::memory && block_.memories >= 0) return block_.memories;
  return size(dim);
}

Index Runner::rows_of_block(int dim) {
  const Tiling& chosen = forward_.tiling;
  const bool is_cut = chosen.allowed && chosen.queries > 0 && dimension(dim).role == Role::query;
  return is_cut ? std::min(chosen.queries, size(dim)) : size(dim);
}

Index Runner::block_start(int dim) const {
  if (dim == strip_.dim) return strip_.from;
  return dimension(dim).role == Role::query ? block_.query : 0;
}

// All rows of queries end together, as do those of a memory that a called def takes as X, unless it
// is another sequence, of which all is there.
Index Runner::first(int dim) {
  const Role role = dimension(dim).role;
  if (!one_sequence_ && dimension(dim).sequence == Role::memory) return block_start(dim);
  if (role == Role::query) return first_.query + length(role) - size(dim);
  return (role == Role::memory ? first_.memory : 0) + (dim == strip_.dim ? strip_.from : 0);
}

Tensor* Runner::tail(const Node& node, int dim) const {
  const Role role = dimension(dim).role;
  const bool fresh = role == tails_.fresh || (role != Role::none && tails_.fresh == Role::memory);
  if (!tails_.rows || !fresh) return nullptr;
  return &(*tails_.rows)[&node];
}

// ---- Batch and type -----------------------------------------------------------------------------

void Runner::read_batch_and_type() {
  if (inputs_->size() != program_.inputs.size())
    bad_input("'", program_.name, "' has ", counted(std::ssize(program_.inputs), "input"), ", got ",
              inputs_->size());
  int from = -1, typed = -1;
  Tensors reals;
  for (size_t i = 0; i < inputs_->size(); ++i) {
    const CheckedValue& v = checked(program_.inputs[i]);
    const Tensor& x = (*inputs_)[i];
    if (!x) bad_input("'", program_.name, "' needs a tensor for its input '", v.name, "'");
    if (v.element == Element::real) {
      check_type(v.name, x, typed >= 0 ? std::optional(dtype_) : std::nullopt);
      dtype_ = x.dtype(), typed = static_cast<int>(i);
      reals.push_back(x);
    }
    device_ = &(typed >= 0 ? (*inputs_)[typed] : x).backend();
    const int extra = x.rank() - v.dims.size();
    if (extra <= 0) continue;
    Shape batch;
    for (int k = 0; k < extra; ++k) batch.push_back(x.size(k));
    if (extra > most_batch_dims)
      fail_at({v.place}, "a tensor of shape ", x.shape(), " has more than ", most_batch_dims,
              " batch dimensions");
    if (from >= 0 && !(batch == batch_))
      fail_at({v.place, checked(program_.inputs[from]).place}, "the batch of '", v.name, "' is ",
              batch, ", but that of '", program_.input_names[from], "' is ", batch_);
    batch_ = batch, from = static_cast<int>(i);
  }
  check_one_device(program_.name.c_str(), reals);
  if (typed >= 0) return;
  if (params_.empty()) return void(dtype_ = Dtype::f32);
  const Tensor& first = forward_.params.get()[params_[0].index];  // not by [], which may wait
  dtype_ = first.dtype(), device_ = &first.backend();
}

// ---- Values -------------------------------------------------------------------------------------

Value Runner::evaluate(const CheckedValue& v) {
  switch (v.kind) {
    case ValueKind::input:
      return input(v);
    case ValueKind::parameter:
      return parameter(v);
    case ValueKind::same: {
      const Value& other = at(v.index);
      return {other.tensor, v.dims, other.batched};
    }
    case ValueKind::call:
      return call(v);
    case ValueKind::statement:
      break;
  }
  return statement(v);
}

Value Runner::input(const CheckedValue& v) {
  const Tensor& x = (*inputs_)[v.index];
  const bool batched = x.rank() > v.dims.size();
  if (v.element == Element::real) return {x, v.dims, batched};
  // Tokens that are on the host are checked there, so that no step reads them from a device.
  const Index below = size(v.below);
  for (double number : x.values<double>())
    if (!(number >= 0 && number < static_cast<double>(below)) ||
        number != static_cast<double>(static_cast<Index>(number)))
      fail_at({v.place}, "'", v.name, "' holds ", number, ", expected whole numbers from 0 ", "to ",
              below - 1);
  return {cast(x.detach(), dtype_).to(device()), v.dims, batched};
}

Value Runner::parameter(const CheckedValue& v) {
  if (static_cast<size_t>(v.index) >= params_.size())
    bad_input("'", program_.name, "' has ", counted(std::ssize(program_.parameters), "parameter"),
              ", got ", params_.size());
  Tensor p = forward_[params_[v.index]];
  Shape expected;
  for (int i = 0; i < v.dims.size(); ++i)
    expected.push_back(size(v.bounds[i] >= 0 ? v.bounds[i] : v.dims[i]));
  if (!(p.shape() == expected))
    fail_at({v.place}, "the parameter '", v.name, "' has shape ", p.shape(), ", expected ",
            expected);
  check_type(v.name, p, dtype_);
  // R9: row t of a table is read for position t.
  for (int i = 0; i < v.dims.size(); ++i) {
    if (v.bounds[i] < 0) continue;
    const Index from = first(v.dims[i]), count = size(v.dims[i]);
    if (from + count > p.size(i))
      fail_at({v.place}, "there is room for '", dimension(v.bounds[i]).name, "' = ", p.size(i),
              " only, but the sequence has ", from + count, " positions");
    p = slice(p, i, from, count);
  }
  if (program_.parameters[v.index].fixed) p = p.detach();
  return {p, v.dims, false};
}

Value Runner::statement(const CheckedValue& v) {
  // The right side may compute other statements first, so the current one is restored afterwards.
  const auto* outer = std::exchange(current_, &v);
  const int outer_dropouts = std::exchange(dropouts_, 0);
  Value made;
  try {
    made = v.right.constant ? Value{Tensor::repeated(sizes_.quantity(v.right),
                                                     shape_of(v.names, false), dtype_, device()),
                                    v.names, false}
           : v.norm >= 0    ? normed_sum(v)
                            : node(v.right);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input || is_pointed(program_, error.what())) throw;
    fail_at({v.place}, error.what());
  }
  current_ = outer, dropouts_ = outer_dropouts;
  made = aligned(made, v.names, made.batched);
  if (v.element != Element::real) made.tensor = made.tensor.detach();
  if (v.names == v.dims) return made;
  return {reshape(made.tensor, shape_of(v.dims, made.batched)), v.dims, made.batched};
}

// ---- Names --------------------------------------------------------------------------------------

Shape Runner::shape_of(const Names& names, bool batched) {
  Shape shape;
  if (batched) shape = batch_;
  for (int name : names) shape.push_back(size(name));
  return shape;
}

std::string Runner::shapes_of(const Names& names) {
  const std::string plain = text(shape_of(names, false));
  return batch_.empty() ? plain : text(plain, " or ", shape_of(names, true));
}

Value Runner::aligned(const Value& v, const Names& names, bool batched) {
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

Value Runner::both(const Value& a, const Value& b, const Names& among) {
  Names names;
  for (int name : among)
    if (a.names.contains(name) || b.names.contains(name)) names.push_back(name);
  const auto [truths, batched] = operands({a, b}, names);
  return {truths[0] * truths[1], names, batched};
}

}  // namespace tete
