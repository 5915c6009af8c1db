// The tables of functions and of initialisers.
#include "nn/language/builtins.hpp"

namespace tete {

const char* describe(Element element) {
  static constexpr const char* names[] = {"real numbers", "whole numbers", "truth values"};
  return names[static_cast<size_t>(element)];
}

// Each file of nn/language/builtins/ defines one of these.
std::span<const Builtin> einsum_functions();
std::span<const Builtin> elementwise_functions();
std::span<const Builtin> softmax_functions();
std::span<const Builtin> norm_functions();
std::span<const Builtin> dropout_functions();
std::span<const Builtin> reduction_functions();
std::span<const Builtin> position_functions();
std::span<const Builtin> visible_functions();
std::span<const Builtin> gather_functions();
std::span<const Builtin> top_k_functions();
std::span<const Builtin> windows_functions();
std::span<const Builtin> rotate_functions();
std::span<const Builtin> concat_functions();
std::span<const Builtin> part_functions();
std::span<const Builtin> route_functions();

std::span<const Builtin> builtins() {
  static const std::vector<Builtin> table = [] {
    std::vector<Builtin> rows;
    for (const std::span<const Builtin> kind :
         {einsum_functions(), elementwise_functions(), softmax_functions(), norm_functions(),
          dropout_functions(), reduction_functions(), position_functions(), visible_functions(),
          gather_functions(), top_k_functions(), windows_functions(), rotate_functions(),
          concat_functions(), part_functions(), route_functions()})
      rows.insert(rows.end(), kind.begin(), kind.end());
    return rows;
  }();
  return table;
}

const Builtin* find_builtin(std::string_view name) { return find_named(name, builtins()); }

namespace {

constexpr InitializerRow starts[] = {
    {"normal(deviation)", "normally distributed about 0", "P[d, k] = normal(d^-0.5)",
     InitializerKind::normal, 1},
    {"truncated_normal(deviation)", "the same, cut at two deviations",
     "P[d, k] = truncated_normal(d^-0.5)", InitializerKind::truncated_normal, 1},
    {"uniform(low, high)", "uniformly distributed", "P[d, k] = uniform(-0.5, 0.5)",
     InitializerKind::uniform, 2},
    {"glorot()", "uniform up to ±√(6 / (fan in + fan out))", "P[d, k] = glorot()",
     InitializerKind::glorot, 0},
    {"constant(value)", "that value everywhere", "P[d, k] = constant(0.5)",
     InitializerKind::constant, 1},
    {"zeros()", "0 everywhere", "P[d, k] = zeros()", InitializerKind::zeros, 0},
    {"ones()", "1 everywhere", "P[d, k] = ones()", InitializerKind::ones, 0},
    {"identity()", "a matrix: 1 on the diagonal, else 0", "P[d, k] = identity()",
     InitializerKind::identity, 0},
};

}  // namespace

std::span<const InitializerRow> initializers() { return starts; }

}  // namespace tete
