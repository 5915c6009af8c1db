// Messages by MPI, with its C functions alone. All are called on one thread, none of them blocks
// but the first and the last, and every result is checked.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "train/ranks.hpp"

namespace tete {

namespace {

// A message is sent in pieces, so that their sizes fit into an int and progress shows.
constexpr size_t largest_piece = size_t{1} << 24;

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, words, &length);
  fail(ErrorKind::peer, call, ": ", std::string(words, static_cast<size_t>(length)));
}

class MpiExchange : public Exchange {
 public:
  void send(MPI_Comm comm, int channel, const Message& message) {
    in_pieces(message, [&](std::byte* at, int count, MPI_Request* request) {
      check(MPI_Isend(at, count, MPI_BYTE, message.peer, channel, comm, request), "MPI_Isend");
    });
  }
  void receive(MPI_Comm comm, int channel, const Message& message) {
    in_pieces(message, [&](std::byte* at, int count, MPI_Request* request) {
      check(MPI_Irecv(at, count, MPI_BYTE, message.peer, channel, comm, request), "MPI_Irecv");
    });
  }

  bool test() override {
    if (left() == 0) return true;
    int count = 0;
    std::vector<int> which(requests_.size());
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, which.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Testsome");
    if (count != MPI_UNDEFINED) done_ += count;
    return left() == 0;
  }
  int64_t progress() const override { return done_; }
  std::vector<int> waiting_for() const override {
    std::vector<int> ranks;
    for (size_t i = 0; i < requests_.size(); ++i)
      if (requests_[i] != MPI_REQUEST_NULL) ranks.push_back(peers_[i]);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

 private:
  int64_t left() const { return static_cast<int64_t>(requests_.size()) - done_; }

  template <class Begin>
  void in_pieces(const Message& message, const Begin& begin) {
    for (size_t at = 0; at < message.bytes.size(); at += largest_piece) {
      const size_t count = std::min(largest_piece, message.bytes.size() - at);
      peers_.push_back(message.peer);
      begin(message.bytes.data() + at, static_cast<int>(count),
            &requests_.emplace_back(MPI_REQUEST_NULL));
    }
  }

  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // by request
  int64_t done_ = 0;
};

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(int expected) {
    // By default ("send,put") receivers of long messages over TCP ask for their pieces one by one:
    // two ranks that send to each other over a link of 500 Mbit/s reach 65% of it, so 97%.
    setenv("OMPI_MCA_btl_tcp_flags", "send", /*overwrite=*/0);
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED)
      throw SharedError(ErrorKind::input,
                        "this MPI allows no threads beside the one it is used on");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    if (size_ != expected)
      throw SharedError(
          ErrorKind::input,
          text("a launcher started ", expected, " processes for one run, but MPI knows ", size_,
               ": it is another MPI's launcher than this program was built with"));
  }
  // All that was promised is done, so there is nothing to wait for long; a rank that died meanwhile
  // must not keep this one.
  ~MpiTransport() override {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::seconds(20));
      _exit(static_cast<int>(ErrorKind::peer));
    }).detach();
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Exchange> begin(int channel, const std::vector<Message>& out,
                                  const std::vector<Message>& in) override {
    auto exchange = std::make_unique<MpiExchange>();
    for (const Message& message : in) exchange->receive(comm_, channel, message);
    for (const Message& message : out) exchange->send(comm_, channel, message);
    return exchange;
  }
  // The error is told already; MPICH would add a line of its own.
  void abort(int code) override {
    (void)!std::freopen("/dev/null", "w", stderr);
    MPI_Abort(comm_, code);
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(int size) { return std::make_unique<MpiTransport>(size); }
bool built_with_mpi() { return true; }

std::string mpi_library() {
  char words[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  check(MPI_Get_library_version(words, &length), "MPI_Get_library_version");
  return {words, static_cast<size_t>(length)};
}

}  // namespace tete
