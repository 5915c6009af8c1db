// OpenMP's threads. Between loops they wait awake, as to wake a thread takes longer than a small
// loop; but not long, or a core that another process takes is missed by all of them (core/README.md
// has the figures). For how long, OpenMP reads from the environment when the program begins:
// tools/main.cpp sets it.
//
// Each thread begins with a portion of its own, the same in every loop: the rows that it made in
// one loop lie in its cache in the next. A thread that is done takes blocks of the others'
// portions. So the thread that runs a block changes from run to run, the block's result does not.
#include "core/threads.hpp"

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <exception>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tete {
namespace {

// Below this many operations threads cost more time than they save.
constexpr double worth_sharing = 3e4;

int& wanted_threads() {
  static int count = omp_get_max_threads();
  return count;
}

// The control word of this thread's floating-point unit; it decides how denormals are treated.
#if defined(__x86_64__)
using Mode = unsigned;
constexpr Mode flush_bits = 0x8040;  // FTZ and DAZ
Mode mode_of_thread() { return _mm_getcsr(); }
void set_mode(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
using Mode = uint64_t;
constexpr Mode flush_bits = 1u << 24;  // FZ
Mode mode_of_thread() {
  Mode word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set_mode(Mode word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
using Mode = unsigned;
constexpr Mode flush_bits = 0;
Mode mode_of_thread() { return 0; }
void set_mode(Mode) {}
#endif

// The first error in a parallel region, which no exception may leave.
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

// The blocks of a loop, a portion for each thread.
class Portions {
 public:
  Portions(Index blocks, int threads) : portions_(static_cast<size_t>(threads)) {
    for (int t = 0; t < threads; ++t)
      portions_[t].next = blocks * t / threads, portions_[t].end = blocks * (t + 1) / threads;
  }
  // Runs body(i) for the blocks of the portion `own`, then for what is left of those behind it.
  template <class Body>
  void run(int own, const Body& body) {
    const int count = static_cast<int>(portions_.size());
    for (int t = own; t < own + count; ++t) {
      Portion& portion = portions_[t % count];
      while (portion.next.load(relaxed) < portion.end)
        if (const Index i = portion.next.fetch_add(1, relaxed); i < portion.end) body(i);
    }
  }

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  struct alignas(64) Portion {
    std::atomic<Index> next;
    Index end;
  };
  std::vector<Portion> portions_;
};

std::atomic<int64_t> loops_begun{0};

}  // namespace

void run_blocks(Index count, double work, const void* body, void (*run)(const void*, Index)) {
  if (count <= 1 || threads_here() == 1 || work < worth_sharing) {
    for (Index i = 0; i < count; ++i) run(body, i);
    return;
  }
  loops_begun.fetch_add(1, std::memory_order_relaxed);
  FirstError error;
  const Mode mode = mode_of_thread();
  Portions portions(count, threads());
  // Always of one size: libgomp ends the threads that a smaller team does not need.
#pragma omp parallel num_threads(threads())
  {
    const Mode own = mode_of_thread();
    set_mode(mode);
    portions.run(omp_get_thread_num(), [&](Index i) { error.guard([&] { run(body, i); }); });
    set_mode(own);
  }
  error.rethrow();
}

int64_t shared_loops() { return loops_begun.load(std::memory_order_relaxed); }

void set_threads(int count) {
  if (count < 1) bad_input("the number of threads must be at least 1, got ", count);
  wanted_threads() = count;
}

int threads() { return wanted_threads(); }
int threads_here() { return in_shared_loop() ? 1 : threads(); }
bool in_shared_loop() { return omp_in_parallel() != 0; }

void leave_place() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> cores(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, cores.data());
    for (int core : cores) CPU_SET(static_cast<size_t>(core), &all);
  }
  if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof all, &all);
}

// Changes the mode of the calling thread alone; the threads of a loop take over that of its caller.
void flush_denormals(bool on) {
  set_mode(on ? mode_of_thread() | flush_bits : mode_of_thread() & ~flush_bits);
}

bool denormals_are_flushed() {
  return flush_bits != 0 && (mode_of_thread() & flush_bits) == flush_bits;
}

}  // namespace tete
