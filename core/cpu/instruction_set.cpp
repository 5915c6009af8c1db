// Chooses the instruction set that the rows use on this machine.
#include "core/cpu/rows.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/cpu/blas_kernel.hpp"
#include "core/cpu/tiles.hpp"
#include "core/error.hpp"

namespace tete::cpu_kernels {
namespace {

struct InstructionSet {
  const char* name;
  bool (*present)();
  void (*fill)(Table&);
  bool (*pays)() = [] { return true; };
};

#define TETE_FILL(set)                                                                     \
  [](Table& t) {                                                                           \
    set::fill_elementwise(t), set::fill_sums(t), set::fill_small(t), set::fill_softmax(t); \
    set::fill_norm(t), set::fill_update(t), set::fill_product(t), set::fill_random(t);     \
  }

// Best first.
#if defined(__x86_64__)
bool has_v2() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
bool has_v4() { return has_v3() && vectors_of_processor() == Vectors::avx512; }
bool has_v4_bf16() { return has_v4() && __builtin_cpu_supports("avx512bf16"); }
bool has_v4_amx() { return has_v4_bf16() && tiles_are_granted(); }
// Vectors of bfloat16 are multiplied at half the rate of f32 by Intel's processors: by Sapphire
// Rapids at 115 of 230 GFLOP/s on a core.
bool makes_bf16_at_full_rate() { return !__builtin_cpu_is("intel"); }
constexpr InstructionSet sets[] = {
    {"v4_amx", has_v4_amx,
     [](Table& t) {
       TETE_FILL(v4)
       (t), v4_bf16::fill_product(t), v4_amx::fill_product(t);
     }},
    {"v4_bf16", has_v4_bf16,
     [](Table& t) {
       TETE_FILL(v4)
       (t), v4_bf16::fill_product(t);
     },
     makes_bf16_at_full_rate},
    {"v4", has_v4, TETE_FILL(v4)},
    {"v3", has_v3, TETE_FILL(v3)},
    {"v2", has_v2, TETE_FILL(v2)},
};
#else
constexpr InstructionSet sets[] = {{"generic", [] { return true; }, TETE_FILL(generic)}};
#endif

struct Chosen {
  const char* name;
  Table table;

  void take(const InstructionSet& set) { name = set.name, set.fill(table); }
  Chosen() {
    const InstructionSet* const set = std::find_if(
        std::begin(sets), std::end(sets), [](const auto& s) { return s.present() && s.pays(); });
    if (set == std::end(sets))
      fail(ErrorKind::resource,
           "this processor lacks instructions of x86-64-v2 (SSE4.2, POPCNT), which processors have "
           "since 2009");
    take(*set);
  }
};

Chosen& chosen() {
  static Chosen chosen;
  return chosen;
}

}  // namespace

template <>
const Rows<float>& rows<float>() {
  return chosen().table.floats;
}
template <>
const Rows<double>& rows<double>() {
  return chosen().table.doubles;
}

const PairRows& pair_rows() { return chosen().table.pairs; }

bool bf16_is_faster() { return pair_rows().product; }

bool use_instruction_set(const char* name) {
  for (const InstructionSet& set : sets)
    if (!std::strcmp(set.name, name) && set.present()) return chosen().take(set), true;
  return false;
}

const char* instruction_set() { return chosen().name; }

}  // namespace tete::cpu_kernels
