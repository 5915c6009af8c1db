// tete bench comm: how fast the ranks that it is started on tell each other something, how evenly
// they compute, and what that lets one expect of training on more.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/clock.hpp"
#include "core/ops.hpp"
#include "core/threads.hpp"
#include "tools/as_rank.hpp"
#include "tools/bench/nouns.hpp"
#include "tools/bench/rates.hpp"
#include "tools/bench/report.hpp"
#include "train/machine.hpp"
#include "train/rank_cores.hpp"
#include "train/ranks.hpp"
#include "train/scaling.hpp"
#include "train/tree.hpp"

namespace tete {

namespace {

struct CommOptions {
  Index parameters = 25'000'000, tokens = 8192;
  double gflops = 0;
  int rounds = 20, threads = 0;
};

// A message of so many bytes to the peer and back, again and again.
class PingPong : public Comm::Job {
 public:
  PingPong(bool begins, int peer, size_t bytes, int rounds)
      : begins_(begins), peer_(peer), rounds_(rounds), bytes_(bytes) {}

  State advance(Transport& transport) override {
    if (!exchange_) begin(transport);
    while (exchange_->test()) {
      if (++half_ == 2 * rounds_) return State::done;
      begin(transport);
    }
    return State::waiting;
  }
  int64_t progress() const override { return half_; }
  std::vector<int> waiting_for() const override { return {peer_}; }
  int64_t bytes() const override { return static_cast<int64_t>(bytes_.size()) * rounds_; }

  Timing one_way;  // of the rank that begins

 private:
  void begin(Transport& transport) {
    const bool sends = begins_ == (half_ % 2 == 0);
    const std::vector<Message> message = {{peer_, bytes_}};
    // The round before is over: that of the rank which begins has come back.
    if (half_ > 0 && half_ % 2 == 0 && begins_) one_way.add((seconds_now() - last_) / 2);
    if (half_ % 2 == 0) last_ = seconds_now();
    exchange_ = transport.begin(first_free_channel, sends ? message : std::vector<Message>(),
                                sends ? std::vector<Message>() : message);
  }

  bool begins_;
  int peer_, rounds_, half_ = 0;
  Bytes bytes_;
  double last_ = 0;
  std::unique_ptr<Exchange> exchange_;
};

// Rank 0 with each other; the median one's seconds for a message one way.
double one_way(Comm& comm, size_t bytes, int rounds) {
  Timing medians;
  for (int r = 1; r < comm.size(); ++r) {
    if (comm.rank() == 0 || comm.rank() == r) {
      const auto job =
          std::make_shared<PingPong>(comm.rank() == 0, comm.rank() == 0 ? r : 0, bytes, rounds + 1);
      comm.start(job);
      comm.finish(*job);
      if (comm.rank() == 0) medians.add(job->one_way.median());
    }
    all_max(comm, 0);
  }
  return comm.all_gather(comm.rank() == 0 ? medians.median() : 0.0)[0];
}

// Standard deviation by mean of the time of the same work, over all ranks.
double jitter(Comm& comm, int rounds) {
  const Tensor X = random_normal({384, 384}, Key(1));
  double sum = 0, squares = 0;
  for (int i = -1; i < rounds; ++i) {
    const double before = seconds_now();
    for (int k = 0; k < 8; ++k) einsum("a b, b c -> a c", X, X);
    const double seconds = seconds_now() - before;
    if (i >= 0) sum += seconds, squares += seconds * seconds;
  }
  const double mean = sum / rounds, variance = squares / rounds - mean * mean;
  double all = 0;
  for (double each : comm.all_gather(std::sqrt(std::max(0.0, variance)) / mean)) all += each;
  return all / comm.size();
}

// The median time of adding gradients, one of each rank; of the slowest rank.
double measured_exchange(Comm& comm, Index parameters) {
  const Tensors gradient = {Tensor::ones({parameters})};
  Timing timing;
  for (int i = 0; i < 4; ++i) {
    all_max(comm, 0);
    const double before = seconds_now();
    tree_sum(comm, comm.size(), gradient, [&](int, const OnReady&) {
      return ShardSum{Tensor::scalar(1, Dtype::f64), 1, gradient};
    });
    if (i > 0) timing.add(seconds_now() - before);
  }
  const std::vector<double> all = comm.all_gather(timing.median());
  return *std::max_element(all.begin(), all.end());
}

void print_link(const LinkRates& link, int ranks) {
  std::printf(
      "%d ranks: a message of 8 bytes takes %s us, large ones %s GB/s; the same work takes "
      "%s%% more or less time\n",
      ranks, digits(1e6 * link.latency).c_str(), digits(1e-9 * link.bandwidth).c_str(),
      digits(100 * link.jitter).c_str());
}

void print_scaling(const ScalingModel& m) {
  std::printf(
      "\nexpected of %s parameters, %s tokens a rank and step at %s GFLOP/s a rank (strong: "
      "%s tokens a step):\n",
      count_text(m.parameters).c_str(), count_text(m.tokens).c_str(), digits(1e-9 * m.rate).c_str(),
      count_text(128 * m.tokens).c_str());
  std::printf("%6s %12s %13s %12s %6s %13s\n", "ranks", "computing s", "exchanging s",
              "not hidden s", "weak", "strong");
  for (int ranks = 2; ranks <= 1024; ranks *= 2) {
    const StepForecast s = predict(m, ranks);
    std::printf("%6d %12s %13s %12s %5.0f%% %12.1fx\n", ranks, digits(s.compute).c_str(),
                digits(s.exchange).c_str(), digits(s.exposed).c_str(), 100 * s.weak_efficiency,
                s.strong_speedup);
  }
}

int bench(const CommOptions& o, Comm& comm) {
  if (comm.size() == 1) bad_input("expected at least 2 ranks, as in mpirun -n 2 tete bench comm");
  use_share_of_cores(comm, o.threads);
  LinkRates link;
  link.latency = one_way(comm, 8, o.rounds);
  constexpr size_t large = 4 << 20;
  link.bandwidth = large / one_way(comm, large, std::max(3, o.rounds / 4));
  link.jitter = jitter(comm, o.rounds);
  const double measured = measured_exchange(comm, o.parameters);
  double rate = 1e9 * o.gflops;
  if (rate == 0) {
    const Probe gemm = gemm_probe(Dtype::f32, threads());
    rate = 2 * gemm.rate(in_turns({gemm.turn}, 3)[0]);
  }
  if (comm.rank() > 0) return 0;
  const auto parameters = static_cast<double>(o.parameters);
  const double expected = exchange_seconds(parameters, link, comm.size());
  print_link(link, comm.size());
  std::printf("gradients of %s parameters: %s s measured, %s s by the model (%s)\n",
              count_text(parameters).c_str(), digits(measured).c_str(), digits(expected).c_str(),
              digits(measured / expected).c_str());
  print_scaling({parameters, static_cast<double>(o.tokens), rate, link});
  return 0;
}

}  // namespace

Run bench_comm(CLI::App& app) {
  auto o = std::make_shared<CommOptions>();
  add_whole(app, "--parameters", o->parameters, 1, Index{1} << 36, "of the model");
  add_whole(app, "--tokens", o->tokens, 1, Index{1} << 36, "of a rank, in a step");
  app.add_option("--gflops", o->gflops,
                 "what a rank computes (default: what large products reach here)")
      ->type_name("X")
      ->check(within(0.001, 1e9));
  add_whole(app, "--rounds", o->rounds, 2, 1'000'000, "messages to and fro");
  add_threads(app, o->threads);
  app.footer("Example:\n  mpirun -n 2 tete bench comm --parameters 25000000");
  return [o] {
    const std::unique_ptr<Comm> comm = join_ranks();
    return as_rank(*comm, "tete bench", [&] { return bench(*o, *comm); });
  };
}

}  // namespace tete
