// The parameters of a program and of its calls: shapes, starts and names.
#include <cmath>
#include <map>

#include "nn/language/sizes.hpp"

namespace tete {

namespace {

// Repetitions of repetitions soon make more than any machine holds.
constexpr size_t most_parameters = 100'000;

void set_start(const CheckedParameter& p, SizeTable& sizes, Initializer& init) {
  init.kind = p.start->kind;
  if (!p.args.empty()) init.a = sizes.quantity(p.args[0]);
  if (p.args.size() > 1) init.b = sizes.quantity(p.args[1]);
  for (size_t i = 0; i < p.args.size(); ++i)
    if (const double number = i == 0 ? init.a : init.b; !std::isfinite(number))
      fail_at({p.args[i].place}, "'", p.name, "' cannot start with ", number);
}

ParameterSpec spec_of(const Checked& program, const CheckedParameter& p, SizeTable& sizes) {
  const CheckedValue& v = program.values[p.value];
  ParamSpec spec{.name = p.name, .dims = {}, .shape = {}, .init = {}, .fixed = p.fixed};
  spec.layout = v.layout;
  for (int i = 0; i < v.dims.size(); ++i) {
    spec.dims.push_back(program.dimensions[v.dims[i]].short_name());
    const int dim = v.bounds[i] >= 0 ? v.bounds[i] : v.dims[i];
    const Index size = sizes.size(dim);
    if (size < 0)
      fail_at({v.axis_places[i]}, "the size of '", program.dimensions[dim].name, "' comes to ",
              size, ", expected at least 0");
    spec.shape.push_back(size);
  }
  set_start(p, sizes, spec.init);
  return {std::move(spec), p.per_stack};
}

// The statement that makes the call, by its name.
const std::string& name_of(const Checked& program, size_t call) {
  const auto at = std::find_if(program.values.begin(), program.values.end(), [&](const auto& v) {
    return v.kind == ValueKind::call && v.index == static_cast<int>(call);
  });
  return at->name;
}

}  // namespace

[[noreturn]] static void too_many(const CheckedCall& call) {
  fail_at({call.place}, "with its repetitions this call comes to more than ", most_parameters,
          " parameters");
}

// True if some parameter starts otherwise in each repetition.
static bool starts_by_layer(const Checked& program) {
  bool found = false;
  for (const CheckedParameter& p : program.parameters)
    for (const Node& arg : p.args) found |= layer_in(arg) != nullptr;
  for (const CheckedCall& all : program.calls)
    visit(all, [&](const CheckedCall& call) { found |= starts_by_layer(*call.program); });
  return found;
}

// Adds those of one call, its repetitions one after the other.
static void add_specs(const CheckedCall& call, const std::string& name, SizeTable& sizes,
                      std::vector<ParameterSpec>& specs) {
  std::map<const CheckedCall*, std::vector<ParameterSpec>> known;
  const auto specs_of = [&](Index set) -> const std::vector<ParameterSpec>& {
    const CheckedCall& each = call.at(set);
    const auto [at, is_new] = known.try_emplace(&each);
    if (!is_new && !starts_by_layer(*each.program)) return at->second;
    SizeTable inside = sizes.inside(each);
    if (call.repeated >= 0) inside.set_layer(set);
    return at->second = parameter_specs(*each.program, inside);
  };
  const bool is_numbered = call.repeated >= 0 && !call.tied;
  std::map<std::string, Shape> shared;
  for (Index set = 0; set < sizes.sets_of(call); ++set)
    for (ParameterSpec made : specs_of(set)) {
      const bool has_number = is_numbered && !made.per_stack;  // R12
      made.spec.name = (has_number ? text(name, "/", set, "/") : name + "/") + made.spec.name;
      const auto known = shared.try_emplace(made.spec.name, made.spec.shape).first;
      if (!(known->second == made.spec.shape))
        fail_at({call.place}, "'", made.spec.name, "' is one for all repetitions; it has the ",
                "shape ", known->second, " in one and ", made.spec.shape, " in another");
      specs.push_back(std::move(made));
    }
}

std::vector<ParameterSpec> parameter_specs(const Checked& program, SizeTable& sizes) {
  sizes.check_known();
  parameter_count(program, sizes);  // fails on too many
  std::vector<ParameterSpec> specs;
  for (const CheckedParameter& p : program.parameters) specs.push_back(spec_of(program, p, sizes));
  for (size_t i = 0; i < program.calls.size(); ++i)
    add_specs(program.calls[i], name_of(program, i), sizes, specs);
  return specs;
}

std::vector<ParamId> declare_parameters(const Checked& program, SizeTable& sizes, ParamList& params,
                                        const InitRule& rule) {
  std::vector<ParamId> ids;
  for (ParameterSpec& made : parameter_specs(program, sizes)) {
    if (rule) made.spec.init = rule(made.spec);
    const int known = made.per_stack ? params.find(made.spec.name) : -1;
    ids.push_back(known >= 0 ? ParamId{known} : params.declare(std::move(made.spec)));
  }
  return ids;
}

size_t parameter_count(const Checked& program, SizeTable& sizes) {
  size_t count = program.parameters.size();
  for (const CheckedCall& call : program.calls) {
    count += parameter_count(call, sizes);
    if (count > most_parameters) too_many(call);
  }
  return count;
}

size_t parameter_count(const CheckedCall& call, SizeTable& sizes) {
  size_t count = 0;
  auto rest = static_cast<size_t>(sizes.sets_of(call));
  for (const CheckedCall& other : call.others) rest -= other.numbers.size();
  visit(call, [&](const CheckedCall& each) {
    SizeTable inside = sizes.inside(each);
    const size_t own = parameter_count(*each.program, inside);
    const size_t sets = &each == &call ? rest : each.numbers.size();
    if (own > 0 && sets > (most_parameters - count) / own) too_many(call);
    count += sets * own;
  });
  return count;
}

}  // namespace tete
