// The ranks (processes) of a run, and the one thread of each that talks to the others.
//
// A Transport carries bytes: MPI, or threads of a test. All that ranks agree on is built from its
// messages here, with a deadline for every wait. A run of one process has no such thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"

namespace tete {

using Bytes = std::vector<std::byte>;

// Channels below are those of agreements and of roll calls.
inline constexpr int control_channel = 0, roll_call_channel = 1, first_free_channel = 2;

// Bytes to another rank, or from it.
struct Message {
  int peer;
  std::span<std::byte> bytes;
};

// Messages on their way.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Moves them along; true once all have gone and come. An Error (peer) where a rank is lost.
  virtual bool test() = 0;
  // Grows while messages move.
  virtual int64_t progress() const = 0;
  // The ranks to which or from which something is on its way.
  virtual std::vector<int> waiting_for() const = 0;
};

// How bytes come from rank to rank. It is made, used and ended on one thread.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Begins to send and to receive. Messages of one channel from one rank to another arrive in the
  // order in which they began; their bytes stay in place until the Exchange is done.
  virtual std::unique_ptr<Exchange> begin(int channel, const std::vector<Message>& out,
                                          const std::vector<Message>& in) = 0;
  // Ends every rank with this exit code.
  virtual void abort(int code) = 0;
  // Seconds, by which it is told how long a rank gave no sign.
  virtual double now() const { return seconds_now(); }
};

// An error that all ranks have found, or were told of: one of them tells the user.
class SharedError : public Error {
 public:
  using Error::Error;
};

// Seconds and bytes since the start.
struct CommUse {
  double total = 0;    // messages were on their way
  double exposed = 0;  // and the thread that computes waited for them
  int64_t bytes = 0;   // sent
};

class RollCall;

class Comm {
 public:
  // Work of the communication thread: it is asked again and again until it is done.
  class Job {
   public:
    virtual ~Job() = default;
    enum class State { idle, waiting, done };  // idle: for what this rank is to compute
    virtual State advance(Transport& transport) = 0;
    virtual int64_t progress() const = 0;
    virtual std::vector<int> waiting_for() const = 0;
    virtual int64_t bytes() const = 0;  // sent
  };

  Comm();  // the only process of a run
  // `connect` is called on the communication thread. All ranks do this together.
  explicit Comm(std::function<std::unique_ptr<Transport>()> connect);
  ~Comm();
  Comm(const Comm&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // "rank 2 (node07)"
  std::string name_of(int rank) const;
  std::string host(int rank) const;

  // How long it waits without a sign of the others, and the number of steps done, which the error
  // tells.
  void set_patience(double seconds) { patience_ = seconds; }
  void set_step(int64_t step) { step_ = step; }
  int64_t step() const { return step_; }

  // Begins a job beside those that run. `finish` waits for its end, `wait` only until `enough`,
  // which is asked whenever something has moved. After an error of any job all of these pass it on.
  void start(std::shared_ptr<Job> job);
  void finish(const Job& job);
  void wait(const Job& job, const std::function<bool()>& enough);
  // The running jobs will not be finished: this rank failed.
  void abandon();

  // Sends and receives messages, in which two ranks agree. `memory` holds their bytes, whatever
  // becomes of this rank.
  void exchange(std::vector<Message> out, std::vector<Message> in,
                std::shared_ptr<const void> memory);
  // Every rank's bytes, in the order of ranks. Called by all ranks together; lengths may differ.
  std::vector<Bytes> all_gather(std::span<const std::byte> mine);
  std::vector<std::string> all_gather(const std::string& mine);
  // The same of plain numbers or structs of them.
  template <class T>
  std::vector<T> all_gather(const T& mine) {
    std::vector<T> all;
    const auto bytes_of_mine = std::as_bytes(std::span(&mine, 1));
    for (const Bytes& bytes : gather(bytes_of_mine, std::vector(ranks(), sizeof(T))))
      std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
    return all;
  }

  CommUse use() const;
  // Ends all ranks, this one last; does not return. A run of one process ends with the code.
  [[noreturn]] void abort(int code);

 private:
  void serve(const std::function<std::unique_ptr<Transport>()>& connect);
  struct Running;
  void drive();
  Job::State move(Running& running, double now);
  void end(const Running& running);
  std::vector<std::shared_ptr<Running>> running();
  bool runs(const Job& job) const;
  size_t ranks() const { return static_cast<size_t>(size_); }
  std::vector<Bytes> gather(std::span<const std::byte> mine, const std::vector<size_t>& lengths);
  [[noreturn]] void lost() const;

  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;
  std::atomic<double> patience_{60};
  std::atomic<int64_t> step_{0};
  std::thread thread_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::unique_ptr<Transport> transport_;  // that thread's
  std::unique_ptr<RollCall> roll_call_;
  std::vector<std::shared_ptr<Running>> running_, abandoned_;  // messages may still come for these
  std::exception_ptr error_;
  bool connected_ = false, ending_ = false, flushes_denormals_ = false;
  std::atomic<bool> abandons_{false};  // true if no job is to be finished
  std::atomic<bool> awaited_{false};   // true while the thread that computes waits for a job
  int abort_code_ = -1;
  CommUse use_;
};

// The only process of a run.
Comm& single_process();

// The largest of every rank's numbers.
int64_t all_max(Comm& comm, int64_t mine);

// Runs what finds the same on all ranks: its Error is a SharedError.
template <class Work>
void on_all_ranks(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    throw SharedError(error.kind(), error.what());
  }
}

// Runs `work` on every rank. Where it fails on some, it fails on all with a SharedError, which
// names those that failed, unless all did alike.
void together(Comm& comm, const std::function<void()>& work);

// Fails (input) with a table where ranks differ in any of these facts, each a name and a text.
using Facts = std::vector<std::pair<std::string, std::string>>;
void check_same_on_ranks(Comm& comm, const Facts& facts);

}  // namespace tete
