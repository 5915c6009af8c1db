// Threads over OpenMP. Blocks are handed out as threads become free: which thread runs a block
// changes from run to run, what the block computes does not.
#include "core/threads.hpp"

#include <omp.h>

#include <atomic>
#include <exception>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tete {
namespace {

// Below this many operations the threads cost more than they bring.
constexpr double worth_sharing = 3e4;

int& wanted_threads() {
  static int count = omp_get_max_threads();
  return count;
}

// How this thread treats denormals: the control word of its floating-point unit.
#if defined(__x86_64__)
using Mode = unsigned;
constexpr Mode flush_bits = 0x8040;  // FTZ and DAZ
Mode mode() { return _mm_getcsr(); }
void set_mode(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
using Mode = uint64_t;
constexpr Mode flush_bits = 1u << 24;  // FZ
Mode mode() {
  Mode word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set_mode(Mode word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
using Mode = unsigned;
constexpr Mode flush_bits = 0;
Mode mode() { return 0; }
void set_mode(Mode) {}
#endif

// What has gone wrong in a parallel region: no exception may leave one.
class FirstError {
 public:
  template <class Body>
  void guard(const Body& body) {
    if (stopped_.load(std::memory_order_relaxed)) return;
    try {
      body();
    } catch (...) {
      if (!stopped_.exchange(true)) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> stopped_{false};
  std::exception_ptr error_;
};

// Runs body() once on every thread.
template <class Body>
void on_every_thread(const Body& body) {
#pragma omp parallel num_threads(threads())
  body();
}

}  // namespace

void parallel_for(Index count, double work, const std::function<void(Index)>& body) {
  if (count <= 1 || threads() == 1 || work < worth_sharing || omp_in_parallel()) {
    for (Index i = 0; i < count; ++i) body(i);
    return;
  }
  FirstError error;
  std::atomic<Index> next{0};
  const Mode caller_mode = mode();
  on_every_thread([&] {
    // Threads may have been started before flush_denormals was called elsewhere.
    if (mode() != caller_mode) set_mode(caller_mode);
    for (Index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
      error.guard([&] { body(i); });
  });
  error.rethrow();
}

void set_threads(int count) {
  if (count < 1) bad_input("the number of threads must be at least 1, got ", count);
  wanted_threads() = count;
}

int threads() { return wanted_threads(); }

void flush_denormals(bool on) {
  const auto apply = [on] { set_mode(on ? mode() | flush_bits : mode() & ~flush_bits); };
  apply();
  if (!omp_in_parallel()) on_every_thread(apply);
}

bool denormals_are_flushed() {
  const auto flushed = [] { return flush_bits != 0 && (mode() & flush_bits) == flush_bits; };
  std::atomic<bool> all{flushed()};
  if (!omp_in_parallel())
    on_every_thread([&] {
      if (!flushed()) all = false;
    });
  return all;
}

}  // namespace tete
