// Threads: loops shared among them, and their treatment of denormals.
#pragma once
#include "core/shape.hpp"

namespace tete {

// The same as parallel_for for run(body, i): no closure is copied to the heap.
void run_blocks(Index count, double work, const void* body, void (*run)(const void*, Index));

// Runs body(i) for i in 0 … count-1 on the threads of the process. Callers cut their work into
// blocks i by sizes alone, so that results do not depend on the number of threads. An exception in
// a body reaches the caller (the first one; bodies that have not started are skipped). `work`
// estimates the scalar operations of the whole loop: little work stays on one thread.
template <class Body>
void parallel_for(Index count, double work, const Body& body) {
  run_blocks(count, work, &body,
             [](const void* own, Index i) { (*static_cast<const Body*>(own))(i); });
}

// The number of loops shared among threads since the start; each costs microseconds.
int64_t shared_loops();

// Threads used by parallel_for; set it once, at the start.
void set_threads(int count);
int threads();
// The threads that a loop which begins here is shared among: inside another loop, one.
int threads_here();
// True inside a loop that threads share.
bool in_shared_loop();

// Lets the calling thread run on every core that OpenMP has. Where OMP_PROC_BIND or OMP_PLACES is
// set, OpenMP binds the thread that loads it to one place, and what that one counts or starts would
// see no other core.
void leave_place();

// Numbers below 1e-38 are flushed to zero (a denormal costs a hundred times a normal number) on
// this thread, and, for as long as they last, in the loops that it shares with others.
void flush_denormals(bool on);
bool denormals_are_flushed();

// Honours denormals while it lives; gradient checks do.
class ExactDenormals {
 public:
  ExactDenormals() : flushed_(denormals_are_flushed()) { flush_denormals(false); }
  ~ExactDenormals() { flush_denormals(flushed_); }
  ExactDenormals(const ExactDenormals&) = delete;

 private:
  bool flushed_;
};

}  // namespace tete
