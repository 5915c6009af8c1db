#include "tools/bench/clocked.hpp"

#include <omp.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "core/clock.hpp"
#include "core/storage.hpp"
#include "core/threads.hpp"
#include "tools/einsum/contraction_note.hpp"

namespace tete {

namespace {

constexpr const char *copies = "copies, fills", *memory = "fresh memory";

// The kinds of calls but contractions.
constexpr std::pair<const char*, std::string_view> kinds[] = {
    {"elementwise",
     "unary unary_gradient binary select unary_of_sum unary_of_sum_gradient accumulate turn"},
    {copies, "fill copy"},
    {"sums, maxima", "fold"},
    {"softmax", "softmax softmax_gradient mixed_softmax mixed_softmax_gradient"},
    {"attention", "attend attend_gradient"},
    {"norms", "norm add_norm norm_gradient"},
    {"cross-entropy", "cross_entropy cross_entropy_gradient"},
    {"gather, scatter", "gather scatter check_inside top_k"},
    {"random numbers", "uniform dropout"},
    {"update", "adam sum_of_squares sum_of_squares_of_product minus_product squares_over"}};

const char* kind_of(std::string_view call) {
  for (const auto& [kind, calls] : kinds)
    for (std::string_view left = calls; !left.empty();) {
      const size_t end = std::min(left.find(' '), left.size());
      if (left.substr(0, end) == call) return kind;
      left.remove_prefix(std::min(end + 1, left.size()));
    }
  return "others";
}

}  // namespace

ClockedProcessor::ClockedProcessor()
    : threads_(static_cast<size_t>(std::max(threads(), omp_get_max_threads()))) {}
ClockedProcessor::~ClockedProcessor() { release_free_memory(*this); }

// `before`: when the call of the device began.
template <class Work>
void ClockedProcessor::clock(const std::string& kernel, const Work& work, double before) {
  const bool shared = omp_in_parallel();
  const double part = shared ? 1.0 / threads() : 1;
  Thread& thread = threads_[static_cast<size_t>(shared ? omp_get_thread_num() : 0)];
  const double begin = seconds_now();
  work();
  const double end = seconds_now();
  Use& use = thread.uses[kernel];
  use.seconds += part * (end - begin);
  ++use.calls;
  thread.clocking += part * (begin - before + seconds_now() - end);
}

template <class Work>
void ClockedProcessor::clock(const char* kernel, const Work& work) {
  clock(kernel, work, seconds_now());
}

ClockedProcessor::Uses ClockedProcessor::uses() const {
  Uses all;
  for (const Thread& thread : threads_)
    for (const auto& [kernel, use] : thread.uses)
      all[kernel].seconds += use.seconds, all[kernel].calls += use.calls;
  return all;
}

double ClockedProcessor::clocking() const {
  double all = 0;
  for (const Thread& thread : threads_) all += thread.clocking;
  return all;
}

void ClockedProcessor::forget() { std::fill(threads_.begin(), threads_.end(), Thread{}); }

// ---- The kernels -------------------------------------------------------------------------------

void* ClockedProcessor::allocate(size_t bytes) {
  void* made = nullptr;
  clock(memory, [&] { made = cpu().allocate(bytes); });
  return made;
}
void ClockedProcessor::read(const void* from, void* to, size_t bytes) {
  clock(copies, [&] { cpu().read(from, to, bytes); });
}
void ClockedProcessor::write(const void* from, void* to, size_t bytes) {
  clock(copies, [&] { cpu().write(from, to, bytes); });
}
// The kind of an operation; a contraction's is how it is computed.
struct KindOfCall {
  std::string operator()(const View& A, const Labels& a, const View& B, const Labels& b,
                         const View& Y, const Labels& y) const {
    return "contraction: " + cpu_kernels::describe_contraction(A, a, B, b, Y, y).form;
  }
  template <class... Arguments>
  std::string operator()(const Arguments&...) const {
    return kind;
  }
  const char* kind;
};

#define OPERATION(name, parameters, arguments)                                 \
  void ClockedProcessor::name parameters {                                     \
    const double before = seconds_now();                                       \
    static const char* const kind = kind_of(#name);                            \
    const std::string told = std::apply(KindOfCall{kind}, std::tie arguments); \
    clock(                                                                     \
        told, [&] { cpu().name arguments; }, before);                          \
  }
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments)           \
  bool ClockedProcessor::name parameters {            \
    static const char* const kind = kind_of(#name);   \
    bool has = false;                                 \
    clock(kind, [&] { has = cpu().name arguments; }); \
    return has;                                       \
  }
#include "core/kernels.def"
#undef KERNEL

}  // namespace tete
