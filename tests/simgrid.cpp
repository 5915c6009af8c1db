// The exchange of gradients on simulated machines (SimGrid's SMPI, see simgrid.sh): the time that
// `tete bench comm` measures, without its thread. Messages wait in place of polls, and large memory
// is one piece for all, so what is added is nothing, at its price in messages.
#include <mpi.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "train/gradient_exchange.hpp"
#include "train/scaling.hpp"

namespace {

constexpr size_t large = 1 << 18, shared_bytes = size_t{1} << 26, arena_bytes = size_t{1} << 42;

struct Arena {
  int file = memfd_create("numbers", 0);
  char* begin = static_cast<char*>(
      mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  size_t used = 0;
  Arena() { (void)!ftruncate(file, shared_bytes); }
  void* take(size_t bytes) {
    if (bytes > shared_bytes) std::abort();
    void* at = mmap(begin + used, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    used += (bytes + 4095) / 4096 * 4096;
    return at;
  }
  bool has(void* p) const { return p >= begin && p < begin + arena_bytes; }
};
Arena& arena() {
  static Arena one;
  return one;
}

}  // namespace

extern "C" {
void* __real_aligned_alloc(size_t, size_t);
void __real_free(void*);
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return bytes < large ? __real_aligned_alloc(alignment, bytes) : arena().take(bytes);
}
void __wrap_free(void* p) {
  if (!arena().has(p)) __real_free(p);
}
}
void* operator new(size_t bytes) {
  if (bytes >= large) return arena().take(bytes);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { __wrap_free(p); }
void operator delete(void* p, size_t) noexcept { __wrap_free(p); }

namespace tete {
namespace {

class WaitingExchange : public Exchange {
 public:
  std::vector<MPI_Request> requests;
  bool test() override {
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return true;
  }
  int64_t progress() const override { return 0; }
  std::vector<int> waiting_for() const override { return {}; }
};

class SimulatedCluster : public Transport {
 public:
  SimulatedCluster() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_), MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }
  std::unique_ptr<Exchange> begin(int channel, const std::vector<Message>& out,
                                  const std::vector<Message>& in) override {
    auto exchange = std::make_unique<WaitingExchange>();
    for (const Message& m : in)
      MPI_Irecv(m.bytes.data(), static_cast<int>(m.bytes.size()), MPI_BYTE, m.peer, channel,
                MPI_COMM_WORLD, &exchange->requests.emplace_back());
    for (const Message& m : out)
      MPI_Isend(m.bytes.data(), static_cast<int>(m.bytes.size()), MPI_BYTE, m.peer, channel,
                MPI_COMM_WORLD, &exchange->requests.emplace_back());
    return exchange;
  }

 private:
  int rank_ = 0, size_ = 1;
};

void measure(Index parameters, const LinkRates& link) {
  SimulatedCluster cluster;
  const int ranks = cluster.size();
  const Tensors gradient = {Tensor::ones({parameters})};
  const Division division({parameters}, ranks);
  double slowest = 0;
  for (int i = 0; i < 2; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = MPI_Wtime();
    const auto nodes = std::make_shared<std::vector<ShardSum>>();
    nodes->push_back({Tensor::scalar(1, Dtype::f64), 1, gradient});
    GradientExchange exchange(cluster.rank(), tree_order(ranks, ranks), gradient, nodes, division,
                              GradientExchange::Result::whole, SendAs::exact);
    exchange.ready(0);
    exchange.complete();
    exchange.gather();
    while (exchange.advance(cluster) != Comm::Job::State::done) {
    }
    const double took = MPI_Wtime() - before;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  if (cluster.rank() > 0) return;
  const double expected = exchange_seconds(static_cast<double>(parameters), link, ranks);
  std::printf("%5d ranks: %.4f s simulated, %.4f s by the formula: %.2f\n", ranks, slowest,
              expected, slowest / expected);
}

}  // namespace
}  // namespace tete

int main(int count, char** words) {
  MPI_Init(&count, &words);
  tete::measure(2'500'000, {std::atof(words[1]), std::atof(words[2]), 0});
  MPI_Finalize();
}
