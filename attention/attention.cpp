#include "attention/attention.hpp"

#include <algorithm>

namespace tete {

namespace {

// Fails unless a program is attention: X[n, d] and M[m, d'] in, Y[n, d''] out.
void check_is_attention(const Checked& program) {
  int n = -1;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const CheckedValue& input = program.values[program.inputs[i]];
    const std::string& name = program.input_names[i];
    if (program.causal || input.below >= 0)
      fail_at({input.place}, "'", program.name,
              "' is a whole model, not attention: 'tete train "
              "--model', 'run' and 'cost' take it");
    if (name != "X" && name != "M")
      fail_at({input.place}, "attention has the inputs X and M; '", program.name,
              "' has the input '", name, "'");
    if (input.dims.size() != 2 || input.element != Element::real)
      fail_at({input.place}, "attention's input ", name, " is a sequence of vectors, as in ",
              name == "X" ? "X[n, d_X]" : "M[m, d_M]");
    if (name == "X") n = input.dims[0];
  }
  if (n < 0) bad_input("'", program.name, "' has no input X: it is not attention");
  const CheckedValue& result = program.values[program.result];
  if (result.dims.size() != 2 || result.dims[0] != n)
    fail_at({result.place}, "attention returns a vector for every query, as in Y[",
            program.dimensions[n].name, ", d_Y]");
}

void set(SizesByName& sizes, const std::string& name, Index size, const char* what) {
  const auto [at, fresh] = sizes.try_emplace(name, size);
  if (!fresh && at->second != size)
    bad_input("the size '", name, "' is set to ", at->second, ", but ", what, " is ", size);
}

SizesByName sizes_of(const Checked& program, const AttentionSizes& given) {
  SizesByName sizes = given.dims;
  if (given.d_model < 1) bad_input("attention needs a width of at least 1, got ", given.d_model);
  const Index memory = given.memory_width > 0 ? given.memory_width : given.d_model;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string width = program.dimensions[program.values[program.inputs[i]].dims[1]].name;
    if (program.input_names[i] == "X") set(sizes, width, given.d_model, "the width of X");
    else set(sizes, width, memory, "the width of M");
  }
  if (given.heads && *given.heads < 1) bad_input("expected at least 1 head, got ", *given.heads);
  if (given.heads && program.find_dimension("h") >= 0) {
    set(sizes, "h", *given.heads, "the number of heads");
  } else if (given.heads && *given.heads != 1) {
    bad_input("'", program.name, "' has no dimension 'h': it has one head, but ", *given.heads,
              " are asked for");
  }
  return sizes;
}

// Binds all sizes. The result is as wide as X, because it is added to X.
SizeTable bound_sizes(const std::shared_ptr<const Checked>& program, const AttentionSizes& given) {
  SizesByName sizes = sizes_of(*program, given);
  const int width = program->values[program->result].dims[1];
  SizeTable table(program, sizes);
  if (!table.find(width)) {
    set(sizes, program->dimensions[width].name, given.d_model, "the width of the result");
    table = SizeTable(program, sizes);
  }
  table.check_known();
  if (const Index size = table.size(width); size != given.d_model)
    fail_at({program->values[program->result].place}, "the result's '",
            program->dimensions[width].name, "' is ", size,
            ", but the width of X, to which it is added, is ", given.d_model);
  return table;
}

// "decoder/3/A" without the number.
std::string stack_path(const std::string& path) {
  std::string all;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    const bool is_number = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    if (!part.empty() && !is_number) all += (all.empty() ? "" : "/") + part;
    at = end + 1;
  }
  return all;
}

ParamId declare(const Scope& scope, ParameterSpec made) {
  if (!made.per_stack) return scope.declare(std::move(made.spec));
  const Scope shared{scope.params, stack_path(scope.path)};
  const std::string name =
      shared.path.empty() ? made.spec.name : shared.path + "/" + made.spec.name;
  const int known = scope.params.find(name);
  if (known < 0) return shared.declare(std::move(made.spec));
  const ParamId id{known};
  if (!(scope.params[id].shape == made.spec.shape))
    bad_input("the parameter '", name, "' is shared by all layers of a stack; it has shape ",
              scope.params[id].shape, " in one and ", made.spec.shape, " in another");
  return id;
}

}  // namespace

std::shared_ptr<const Checked> load_attention(const Program& program,
                                              const std::vector<Program>& amendments,
                                              const Library& library,
                                              const std::vector<Program>& uses) {
  auto checked = std::make_shared<const Checked>(check(program, amendments, library, uses));
  check_is_attention(*checked);
  return checked;
}

bool is_causal(const Checked& program) { return program.takes_mask && program.leak.empty(); }

bool attends_across(const Checked& program) { return !program.self_only && program.has_memory(); }

std::string not_attention(const Checked& program) {
  try {
    check_is_attention(program);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::shared_ptr<const Checked> load_attention(const std::string& name_or_path,
                                              const std::vector<std::string>& with) {
  std::vector<Program> amending;
  for (const std::string& name : with) amending.push_back(*find_amendment(name).program);
  return load_attention(*find_variant(name_or_path).program, amending);
}

Attention::Attention(const Scope& scope, std::shared_ptr<const Checked> program,
                     const AttentionSizes& sizes)
    : program_(std::move(program)), sizes_(bound_sizes(program_, sizes)) {
  for (ParameterSpec& made : parameter_specs(*program_, sizes_))
    params_.push_back(declare(scope, std::move(made)));
}

Tensor Attention::operator()(const Forward& forward, const std::string& path, const Tensor& X,
                             const Tensor& M, const Mask& mask) const {
  if (program_->self_only && M && !M.same(X))
    bad_input("'", program_->name, "' attends to X itself; it cannot take another memory");
  Tensors inputs;
  for (const std::string& name : program_->input_names) inputs.push_back(name == "X" ? X : M);
  return run(*program_, sizes_, inputs, params_, forward, path, mask);
}

Tensor Attention::next(Decoder& decoder, const Forward& forward, const std::string& path,
                       const Tensor& X, const Tensor& M, const Mask& mask) const {
  Tensors inputs;
  for (const std::string& name : program_->input_names) inputs.push_back(name == "X" ? X : M);
  return decoder.next(inputs, params_, forward, path, mask);
}

SizesByName Attention::sizes() const {
  SizesByName sizes;
  SizeTable table = sizes_;
  for (size_t i = 0; i < program_->dimensions.size(); ++i)
    if (const auto size = table.find(static_cast<int>(i)))
      sizes[program_->dimensions[i].name] = *size;
  return sizes;
}

}  // namespace tete
