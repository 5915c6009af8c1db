// Ranks as threads of this process: a Transport whose messages are copied, and one that loses,
// delays or spoils some of them. Time is theirs, too: it stands still for all of them while one
// that lives waits for a core, so that none is taken for lost on a busy machine.
#pragma once
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "core/random.hpp"
#include "train/comm.hpp"

namespace tete {

enum class Fault { none, delay, drop, kill, corrupt };

// The network between the ranks of one run.
class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(int ranks) : ranks_(ranks), here_(static_cast<size_t>(ranks)) {}
  int ranks() const { return ranks_; }

  // From its `at`th message on (one message, where it is dropped or spoiled), this rank is at
  // fault.
  void plan(int rank, Fault fault, int64_t at, Key key) {
    fault_ = fault, faulty_ = rank, at_ = at, key_ = key;
  }
  bool happened() {
    std::lock_guard lock(mutex_);
    return happened_;
  }

  // Seconds: a thousandth passes once every rank has asked that has not left.
  double now(int rank) {
    std::lock_guard lock(mutex_);
    asked_.insert(rank);
    if (asked_.size() == here_) asked_.clear(), now_ += 1e-3;
    return now_;
  }
  void leave(int rank) {
    std::lock_guard lock(mutex_);
    asked_.erase(rank), --here_;
  }

  void send(int from, int to, int channel, std::span<const std::byte> bytes) {
    Bytes sent(bytes.begin(), bytes.end());
    std::lock_guard lock(mutex_);
    double due = now_;
    if (from == faulty_ && fault_ != Fault::none) {
      const int64_t number = sent_++;
      const bool once = number == at_, from_then = number >= at_;
      happened_ |= once;
      if (once) to_ = to;
      if (fault_ == Fault::drop && once) return;
      if (fault_ == Fault::kill && from_then) return;
      if (fault_ == Fault::delay && from_then)
        due += 1e-3 * static_cast<double>(uniform_below(key_, number, 10));
      if (fault_ == Fault::corrupt && once && !sent.empty())
        sent[uniform_below(key_, 0, sent.size())] ^= std::byte(1 << uniform_below(key_, 1, 8));
    }
    boxes_[{from, to, channel}].push_back({std::move(sent), due});
  }
  // The next message of a channel, or none yet.
  std::optional<Bytes> receive(int from, int to, int channel) {
    std::lock_guard lock(mutex_);
    auto& box = boxes_[{from, to, channel}];
    if (box.empty() && aborted_) fail(ErrorKind::peer, "another rank ended the run");
    if (box.empty() || box.front().due > now_) return {};
    Bytes bytes = std::move(box.front().bytes);
    box.pop_front();
    return bytes;
  }
  // The rank that the faulty message was for.
  int meant_for() {
    std::lock_guard lock(mutex_);
    return to_;
  }
  bool is_killed(int rank) {
    std::lock_guard lock(mutex_);
    return fault_ == Fault::kill && rank == faulty_ && sent_ > at_;
  }
  void abort() {
    std::lock_guard lock(mutex_);
    aborted_ = true;
  }

 private:
  struct Sent {
    Bytes bytes;
    double due;
  };
  const int ranks_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::deque<Sent>> boxes_;
  size_t here_;
  std::set<int> asked_;  // since time last passed
  double now_ = 0;
  bool aborted_ = false, happened_ = false;
  Fault fault_ = Fault::none;
  int faulty_ = -1, to_ = -1;
  int64_t at_ = 0, sent_ = 0;
  Key key_{0};
};

class SimulatedTransport : public Transport {
 public:
  SimulatedTransport(SimulatedNetwork& network, int rank) : network_(network), rank_(rank) {}
  ~SimulatedTransport() override { network_.leave(rank_); }
  int rank() const override { return rank_; }
  int size() const override { return network_.ranks(); }
  std::unique_ptr<Exchange> begin(int channel, const std::vector<Message>& out,
                                  const std::vector<Message>& in) override {
    for (const Message& message : out) network_.send(rank_, message.peer, channel, message.bytes);
    return std::make_unique<Coming>(network_, rank_, channel, in);
  }
  void abort(int) override { network_.abort(); }
  double now() const override { return network_.now(rank_); }

 private:
  class Coming : public Exchange {
   public:
    Coming(SimulatedNetwork& network, int rank, int channel, const std::vector<Message>& in)
        : network_(network), rank_(rank), channel_(channel), in_(in), came_(in.size()) {}
    bool test() override {
      if (network_.is_killed(rank_)) fail(ErrorKind::peer, "killed");
      std::set<int> waits_for;  // the messages of a rank come in their order
      for (size_t i = 0; i < in_.size(); ++i) {
        if (came_[i] || waits_for.contains(in_[i].peer)) continue;
        const std::optional<Bytes> bytes = network_.receive(in_[i].peer, rank_, channel_);
        if (!bytes) {
          waits_for.insert(in_[i].peer);
          continue;
        }
        if (bytes->size() != in_[i].bytes.size())
          fail(ErrorKind::peer, "rank ", in_[i].peer, " sent ", bytes->size(), " bytes, not ",
               in_[i].bytes.size());
        std::copy(bytes->begin(), bytes->end(), in_[i].bytes.begin());
        came_[i] = true, ++count_;
      }
      return count_ == static_cast<int64_t>(in_.size());
    }
    int64_t progress() const override { return count_; }
    std::vector<int> waiting_for() const override {
      std::vector<int> ranks;
      for (size_t i = 0; i < in_.size(); ++i)
        if (!came_[i]) ranks.push_back(in_[i].peer);
      return ranks;
    }

   private:
    SimulatedNetwork& network_;
    int rank_, channel_;
    std::vector<Message> in_;
    std::vector<bool> came_;
    int64_t count_ = 0;
  };

  SimulatedNetwork& network_;
  int rank_;
};

// The Comm of one simulated rank; all ranks of a network make theirs at the same time.
inline std::unique_ptr<Comm> simulated_rank(SimulatedNetwork& network, int rank) {
  return std::make_unique<Comm>(
      [&network, rank] { return std::make_unique<SimulatedTransport>(network, rank); });
}

// Runs body(comm) on every rank, each a thread.
inline void on_simulated_ranks(SimulatedNetwork& network, const std::function<void(Comm&)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < network.ranks(); ++r)
    threads.emplace_back([&, r] { body(*simulated_rank(network, r)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tete
