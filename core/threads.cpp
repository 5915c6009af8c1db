// Threads of our own, and not OpenMP's: at the end of an OpenMP region the caller waits until every
// thread has come by, also one that got no block and that another process keeps from running. Here
// it waits for blocks that have been started only, and threads that have nothing to do sleep within
// a millisecond. So a core that is taken away costs its share of the time, not all of it.
//
// Blocks are handed out as threads become free: the thread that runs a block changes from run to
// run, the block's result does not.
#include "core/threads.hpp"

#include <omp.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
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

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until `word` is not `old`: awake for less than a millisecond, in which the next loop of a
// training step comes (to wake a thread takes longer than a loop), then asleep. A thread that is
// awake lets others have the core in between.
template <class Word>
Word wait_for_change(const std::atomic<Word>& word, Word old) {
  constexpr int looks = 16000, looks_in_a_row = 64;
  for (int i = 1; i <= looks; ++i) {
    if (const Word now = word.load(std::memory_order_acquire); now != old) return now;
    if (i % looks_in_a_row == 0) std::this_thread::yield();
    else pause_briefly();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

thread_local bool inside_loop = false;

// One loop, shared by the threads that come while it is open.
struct Loop {
  Index count;
  const std::function<void(Index)>& body;
  Mode mode;    // of the caller's arithmetic
  int helpers;  // threads besides the caller that may come
  std::atomic<Index> next{0};
  FirstError error = {};

  void work() {
    const Mode own = mode_of_thread();
    if (own != mode) set_mode(mode);
    inside_loop = true;
    for (Index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
      error.guard([&] { body(i); });
    inside_loop = false;
  }
};

// The threads that help. They live as long as the process.
class Helpers {
 public:
  // Never destroyed: a thread may be looking at it while the process ends.
  static Helpers& global() {
    static Helpers* helpers = new Helpers;
    return *helpers;
  }

  int64_t loops() const { return begun_.load(std::memory_order_relaxed); }

  // False if another thread's loop has the helpers.
  bool run(Loop& loop) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return false;
    start(loop.helpers);
    loop_ = &loop;
    gate_.store(open, std::memory_order_release);
    loops_.fetch_add(1, std::memory_order_release);
    loops_.notify_all();
    begun_.fetch_add(1, std::memory_order_relaxed);
    loop.work();
    // A helper that has not come yet finds the gate shut; one inside has a block to finish.
    uint32_t inside = gate_.fetch_and(~open, std::memory_order_acq_rel) & ~open;
    while (inside != 0) inside = wait_for_change(gate_, inside);
    return true;
  }

 private:
  static constexpr uint32_t open = 1u << 31;

  void start(int count) {
    while (std::ssize(threads_) < count) {
      const int number = static_cast<int>(threads_.size());
      threads_.emplace_back([this, number, seen = loops_.load()] { help(number, seen); });
      threads_.back().detach();
    }
  }

  [[noreturn]] void help(int number, uint32_t seen) {
    omp_set_num_threads(1);  // a helper's matrix products stay on it (core/cpu/blas.cpp)
    for (;;) {
      seen = wait_for_change(loops_, seen);
      if (!enter()) continue;
      if (number < loop_->helpers) loop_->work();
      leave();
    }
  }

  bool enter() {
    uint32_t gate = gate_.load(std::memory_order_acquire);
    while (gate & open)
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  void leave() {
    const uint32_t before = gate_.fetch_sub(1, std::memory_order_acq_rel);
    if (!(before & open)) gate_.notify_all();
  }

  std::mutex busy_;
  std::vector<std::thread> threads_;
  Loop* loop_ = nullptr;
  std::atomic<uint32_t> gate_{0};   // `open`, and how many threads are inside
  std::atomic<uint32_t> loops_{0};  // begun so far, which wraps
  std::atomic<int64_t> begun_{0};
};

}  // namespace

void parallel_for(Index count, double work, const std::function<void(Index)>& body) {
  const bool alone = count <= 1 || threads() == 1 || work < worth_sharing || inside_loop;
  if (!alone) {
    const int helpers = static_cast<int>(std::min<Index>(threads(), count)) - 1;
    Loop loop{count, body, mode_of_thread(), helpers};
    if (Helpers::global().run(loop)) return loop.error.rethrow();
  }
  for (Index i = 0; i < count; ++i) body(i);
}

int64_t shared_loops() { return Helpers::global().loops(); }

void set_threads(int count) {
  if (count < 1) bad_input("the number of threads must be at least 1, got ", count);
  wanted_threads() = count;
}

int threads() { return wanted_threads(); }

// A thread takes over the caller's mode with each loop.
void flush_denormals(bool on) {
  set_mode(on ? mode_of_thread() | flush_bits : mode_of_thread() & ~flush_bits);
}

bool denormals_are_flushed() {
  return flush_bits != 0 && (mode_of_thread() & flush_bits) == flush_bits;
}

}  // namespace tete
