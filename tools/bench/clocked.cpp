#include "tools/bench/clocked.hpp"

#include <omp.h>

#include <algorithm>

#include "core/clock.hpp"
#include "core/storage.hpp"
#include "core/threads.hpp"
#include "tools/einsum/contraction_note.hpp"

namespace tete {

namespace {

// The kinds of kernels. A contraction is told by how it is computed.
constexpr const char *elementwise = "elementwise", *copies = "copies, fills",
                     *sums = "sums, maxima", *softmaxes = "softmax", *norms = "norms",
                     *losses = "cross-entropy", *indexing = "gather, scatter",
                     *chance = "random numbers", *updates = "update", *memory = "fresh memory";

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
void ClockedProcessor::contract(const View& A, const Labels& a, const View& B, const Labels& b,
                                const View& Y, const Labels& y) {
  const double before = seconds_now();
  const std::string form = cpu_kernels::describe_contraction(A, a, B, b, Y, y).form;
  clock(
      "contraction: " + form, [&] { cpu().contract(A, a, B, b, Y, y); }, before);
}

// A function of the device that does what the processor's does.
#define CLOCKED(kind, name, parameters, ...)       \
  void ClockedProcessor::name parameters {         \
    clock(kind, [&] { cpu().name(__VA_ARGS__); }); \
  }
// A kernel that a device may lack.
#define CLOCKED_KERNEL(kind, name, parameters, ...)      \
  bool ClockedProcessor::name parameters {               \
    bool has = false;                                    \
    clock(kind, [&] { has = cpu().name(__VA_ARGS__); }); \
    return has;                                          \
  }
using V = const View&;
using L = const Labels&;
CLOCKED(copies, read, (const void* from, void* to, size_t bytes), from, to, bytes)
CLOCKED(copies, write, (const void* from, void* to, size_t bytes), from, to, bytes)
CLOCKED(copies, fill, (double value, V y), value, y)
CLOCKED(copies, copy, (V x, V y), x, y)
CLOCKED(elementwise, unary, (Unary op, V x, V y), op, x, y)
CLOCKED(elementwise, unary_gradient, (Unary op, V x, V y, V g, V dx), op, x, y, g, dx)
CLOCKED(elementwise, binary, (Binary op, V a, V b, V y), op, a, b, y)
CLOCKED(elementwise, select, (V c, V a, V b, V y), c, a, b, y)
CLOCKED(sums, fold, (Fold how, V x, V y), how, x, y)
CLOCKED(indexing, gather, (V T, L t, V I, L i, Label label, V Y, L y), T, t, I, i, label, Y, y)
CLOCKED(indexing, scatter, (V G, L g, V I, L i, Label label, V T, L t), G, g, I, i, label, T, t)
CLOCKED(indexing, check_inside, (V I, Index size, Refuse refuse), I, size, refuse)
CLOCKED(chance, uniform, (uint64_t key, uint64_t first, V y), key, first, y)

CLOCKED_KERNEL(softmaxes, softmax, (V x, V mask, int axis, V y), x, mask, axis, y)
CLOCKED_KERNEL(softmaxes, softmax_gradient, (V y, V g, int axis, V dx), y, g, axis, dx)
CLOCKED_KERNEL(norms, norm, (V x, V scale, V bias, bool center, double epsilon, V y, V stats), x,
               scale, bias, center, epsilon, y, stats)
CLOCKED_KERNEL(norms, add_norm,
               (V x, V r, V scale, V bias, bool center, double epsilon, V s, V y, V stats), x, r,
               scale, bias, center, epsilon, s, y, stats)
CLOCKED_KERNEL(norms, norm_gradient,
               (V x, V scale, V g, V stats, bool center, V dx, V dscale, V dbias), x, scale, g,
               stats, center, dx, dscale, dbias)
CLOCKED_KERNEL(losses, cross_entropy, (V logits, V targets, V loss, V lse), logits, targets, loss,
               lse)
CLOCKED_KERNEL(losses, cross_entropy_gradient, (V logits, V targets, V lse, V g, V dlogits), logits,
               targets, lse, g, dlogits)
CLOCKED_KERNEL(elementwise, unary_of_sum, (Unary op, V a, V b, V y), op, a, b, y)
CLOCKED_KERNEL(elementwise, unary_of_sum_gradient, (Unary op, V a, V b, V y, V g, V dsum), op, a, b,
               y, g, dsum)
CLOCKED_KERNEL(chance, dropout, (V x, double rate, uint64_t key, uint64_t first, V y), x, rate, key,
               first, y)
CLOCKED_KERNEL(elementwise, accumulate, (V x, V y), x, y)
CLOCKED_KERNEL(indexing, top_k, (V x, int axis, V found), x, axis, found)
CLOCKED_KERNEL(updates, adam, (V p, V g, V m, V v, const AdamStep& step, V p_to, V m_to, V v_to), p,
               g, m, v, step, p_to, m_to, v_to)
CLOCKED_KERNEL(updates, sum_of_squares, (V x, V sum), x, sum)
CLOCKED_KERNEL(updates, sum_of_squares_of_product, (V g, V a, V b, V sum), g, a, b, sum)
CLOCKED_KERNEL(updates, minus_product, (V p, V g, V a, V b, V rate, V p_to, V sum), p, g, a, b,
               rate, p_to, sum)
CLOCKED_KERNEL(updates, squares_over, (V g, int d0, int d1, V over_d0, V over_d1), g, d0, d1,
               over_d0, over_d1)
#undef CLOCKED
#undef CLOCKED_KERNEL

}  // namespace tete
