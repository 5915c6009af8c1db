// Chooses the instruction set that the rows use on this machine.
#include "core/cpu/rows.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/error.hpp"

namespace tete::cpu_kernels {
namespace {

struct InstructionSet {
  const char* name;
  bool (*present)();
  void (*fill)(Rows<float>&, Rows<double>&, PairRows&);
};

#define TETE_FILL(set)                                  \
  [](Rows<float>& f, Rows<double>& d, PairRows& p) {    \
    set::fill_elementwise(f), set::fill_elementwise(d); \
    set::fill_sums(f), set::fill_sums(d);               \
    set::fill_small(f), set::fill_small(d);             \
    set::fill_softmax(f), set::fill_softmax(d);         \
    set::fill_norm(f), set::fill_norm(d);               \
    set::fill_peak(f), set::fill_peak(d);               \
    set::fill_update(f), set::fill_update(d);           \
    set::fill_product(f), set::fill_product(d);         \
    set::fill_product(p);                               \
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
bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
bool has_v4_bf16() { return has_v4() && __builtin_cpu_supports("avx512bf16"); }
constexpr InstructionSet sets[] = {
    {"v4_bf16", has_v4_bf16,
     [](Rows<float>& f, Rows<double>& d, PairRows& p) {
       TETE_FILL(v4)(f, d, p);
       v4_bf16::fill_product(p);
     }},
    {"v4", has_v4, TETE_FILL(v4)},
    {"v3", has_v3, TETE_FILL(v3)},
    {"v2", has_v2, TETE_FILL(v2)},
};
#else
constexpr InstructionSet sets[] = {{"generic", [] { return true; }, TETE_FILL(generic)}};
#endif

struct Chosen {
  const char* name;
  Rows<float> floats;
  Rows<double> doubles;
  PairRows pairs;

  void take(const InstructionSet& set) { name = set.name, set.fill(floats, doubles, pairs); }
  Chosen() {
    const InstructionSet* const set =
        std::find_if(std::begin(sets), std::end(sets), [](const auto& s) { return s.present(); });
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
  return chosen().floats;
}
template <>
const Rows<double>& rows<double>() {
  return chosen().doubles;
}

const PairRows& pair_rows() { return chosen().pairs; }

bool has_bf16() { return !std::strcmp(instruction_set(), "v4_bf16"); }

bool use_instruction_set(const char* name) {
  for (const InstructionSet& set : sets)
    if (!std::strcmp(set.name, name) && set.present()) return chosen().take(set), true;
  return false;
}

const char* instruction_set() { return chosen().name; }

}  // namespace tete::cpu_kernels
