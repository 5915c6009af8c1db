#include "train/comm.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "core/clock.hpp"
#include "core/threads.hpp"
#include "train/checksum.hpp"

namespace tete {

namespace {

constexpr int control_channel = 0;

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class Swap : public Comm::Job {
 public:
  Swap(std::vector<Message> out, std::vector<Message> in, std::shared_ptr<const void> memory)
      : out_(std::move(out)), in_(std::move(in)), memory_(std::move(memory)) {}

  State advance(Transport& transport) override {
    if (!exchange_) exchange_ = transport.begin(control_channel, out_, in_);
    return exchange_->test() ? State::done : State::waiting;
  }
  int64_t progress() const override { return exchange_ ? exchange_->progress() : 0; }
  std::vector<int> waiting_for() const override {
    return exchange_ ? exchange_->waiting_for() : std::vector<int>();
  }
  int64_t bytes() const override {
    int64_t sum = 0;
    for (const Message& message : out_) sum += static_cast<int64_t>(message.bytes.size());
    return sum;
  }

 private:
  std::vector<Message> out_, in_;
  std::shared_ptr<const void> memory_;
  std::unique_ptr<Exchange> exchange_;
};

// Adds a checksum to every message, which also counts them: one that was damaged, lost or taken for
// another on its way is found, and its sender named.
class Checked : public Transport {
 public:
  Checked(std::unique_ptr<Transport> carrier, const Comm& comm)
      : carrier_(std::move(carrier)), comm_(comm) {}
  int rank() const override { return carrier_->rank(); }
  int size() const override { return carrier_->size(); }
  void abort(int code) override { carrier_->abort(code); }

  std::unique_ptr<Exchange> begin(int channel, const std::vector<Message>& out,
                                  const std::vector<Message>& in) override {
    auto exchange = std::make_unique<Verified>(comm_, in);
    exchange->sent.reserve(out.size());
    std::vector<Message> all_out, all_in;
    for (const Message& message : out) {
      exchange->sent.push_back(checksum(message.bytes.data(), message.bytes.size(),
                                        number_sent_[{message.peer, channel}]++));
      all_out.insert(all_out.end(), {message, {message.peer, bytes_of(exchange->sent.back())}});
    }
    for (size_t i = 0; i < in.size(); ++i) {
      exchange->numbers.push_back(number_received_[{in[i].peer, channel}]++);
      all_in.insert(all_in.end(), {in[i], {in[i].peer, bytes_of(exchange->received[i])}});
    }
    exchange->carried = carrier_->begin(channel, all_out, all_in);
    return exchange;
  }

 private:
  static std::span<std::byte> bytes_of(uint64_t& sum) {
    return std::as_writable_bytes(std::span(&sum, 1));
  }

  struct Verified : Exchange {
    Verified(const Comm& of, const std::vector<Message>& messages)
        : comm(of), in(messages), received(messages.size()) {}
    bool test() override {
      if (verified) return true;
      if (!carried->test()) return false;
      for (size_t i = 0; i < in.size(); ++i)
        if (checksum(in[i].bytes.data(), in[i].bytes.size(), numbers[i]) != received[i])
          fail(ErrorKind::peer, "what came from ", comm.name_of(in[i].peer), " in the step after ",
               comm.step(),
               " was damaged on its way; the run can go on from its last checkpoint "
               "(--resume)");
      return verified = true;
    }
    int64_t progress() const override { return carried->progress(); }
    std::vector<int> waiting_for() const override { return carried->waiting_for(); }

    const Comm& comm;
    std::vector<Message> in;
    std::vector<uint64_t> sent, received, numbers;
    std::unique_ptr<Exchange> carried;
    bool verified = false;
  };

  std::unique_ptr<Transport> carrier_;
  const Comm& comm_;
  std::map<std::pair<int, int>, uint64_t> number_sent_, number_received_;  // by peer and channel
};

}  // namespace

// ---- The communication thread ------------------------------------------------------------------

Comm::Comm(std::function<std::unique_ptr<Transport>()> connect) {
  thread_ = std::thread([this, connect = std::move(connect)] { serve(connect); });
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return connected_ || error_; });
  }
  try {
    if (error_) std::rethrow_exception(error_);
    hosts_ = all_gather(host_name());
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    throw;
  }
}

Comm::~Comm() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  abandons_ = true;
  changed_.notify_all();
  thread_.join();
}

void Comm::serve(const std::function<std::unique_ptr<Transport>()>& connect) {
  std::unique_lock lock(mutex_);
  try {
    lock.unlock();
    std::unique_ptr<Transport> made = connect();
    lock.lock();
    transport_ = std::make_unique<Checked>(std::move(made), *this);
    rank_ = transport_->rank(), size_ = transport_->size();
    connected_ = true;
  } catch (...) {
    if (!lock) lock.lock();
    error_ = std::current_exception();
  }
  changed_.notify_all();
  while (connected_) {
    changed_.wait(lock, [&] { return job_ || ending_ || abort_code_ >= 0; });
    if (abort_code_ >= 0) return lock.unlock(), transport_->abort(abort_code_);
    if (!job_) break;
    const std::shared_ptr<Job> job = job_;
    flush_denormals(flushes_denormals_);
    lock.unlock();
    std::exception_ptr error;
    try {
      drive(*job);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    use_.bytes += job->bytes();
    if (error) abandoned_.push_back(job);
    job_.reset();
    changed_.notify_all();
  }
  lock.unlock();
  transport_.reset();
}

// Polls the job until it is done. While this rank computes, polls are far apart: each takes 12 us
// of a core on which the computation may run. Once the computation waits for the job, polls follow
// each other at once, and after 50 of them without progress every 50 us.
void Comm::drive(Job& job) {
  double since = seconds_now(), last = since, moving = 0;
  int64_t seen = -1;
  for (int round = 0;; ++round) {
    const Job::State state = job.advance(*transport_);
    const double time = seconds_now();
    if (state != Job::State::idle) moving += time - last;
    if (time - last > 1) since = time;  // this process was stopped: it cannot tell who else was
    last = time;
    if (state == Job::State::done) break;
    if (abandons_) fail(ErrorKind::peer, "this rank failed");
    if (state == Job::State::idle || job.progress() != seen)
      since = time, seen = job.progress(), round = 0;
    else if (time - since > patience_) lost(job.waiting_for());
    if (!awaited_) {
      const std::chrono::microseconds pause(state == Job::State::idle ? 1000 : 200);
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, pause, [&] { return awaited_ || abandons_; });
    } else if (round < 50 && state == Job::State::waiting) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  std::lock_guard lock(mutex_);
  use_.total += moving;
}

void Comm::lost(const std::vector<int>& silent) const {
  fail(ErrorKind::peer, "no sign for ", patience_.load(), " s of ",
       list_of(
           silent, [&](int peer) { return name_of(peer); }, " and "),
       ", whose last step was ", step_.load(),
       "; the run can go on from its last checkpoint (--resume)");
}

std::string Comm::name_of(int rank) const { return text("rank ", rank, " (", host(rank), ")"); }

std::string Comm::host(int rank) const {
  const auto at = static_cast<size_t>(rank);
  return at < hosts_.size() ? hosts_[at] : host_name();
}

void Comm::start(std::shared_ptr<Job> job) {
  std::lock_guard lock(mutex_);
  job_ = std::move(job);
  flushes_denormals_ = denormals_are_flushed();
  changed_.notify_all();
}

void Comm::finish() {
  const double before = seconds_now();
  std::unique_lock lock(mutex_);
  awaited_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !job_; });
  awaited_ = false;
  use_.exposed += seconds_now() - before;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Comm::abandon() {
  abandons_ = true;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_; });
}

CommUse Comm::use() const {
  std::lock_guard lock(mutex_);
  return use_;
}

void Comm::abort(int code) {
  if (!thread_.joinable()) _exit(code);
  abandons_ = true;
  {
    std::lock_guard lock(mutex_);
    abort_code_ = code;
  }
  changed_.notify_all();
  // The other thread may be stuck, and so may be what it calls to end the others.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  _exit(code);
}

// ---- What ranks tell each other ----------------------------------------------------------------

void Comm::exchange(std::vector<Message> out, std::vector<Message> in,
                    std::shared_ptr<const void> memory) {
  start(std::make_shared<Swap>(std::move(out), std::move(in), std::move(memory)));
  finish();
}

std::vector<Bytes> Comm::gather(std::span<const std::byte> mine,
                                const std::vector<size_t>& lengths) {
  if (size_ == 1) return {{mine.begin(), mine.end()}};
  const auto all = std::make_shared<std::vector<Bytes>>(lengths.begin(), lengths.end());
  Bytes& sent = (*all)[static_cast<size_t>(rank_)] = {mine.begin(), mine.end()};
  std::vector<Message> out, in;
  for (int k = 1; k < size_; ++k) {
    const int from = (rank_ + size_ - k) % size_;
    out.push_back({(rank_ + k) % size_, sent});
    in.push_back({from, (*all)[static_cast<size_t>(from)]});
  }
  exchange(std::move(out), std::move(in), all);
  return std::move(*all);
}

std::vector<Bytes> Comm::all_gather(std::span<const std::byte> mine) {
  std::vector<size_t> lengths;
  for (int64_t length : all_gather(static_cast<int64_t>(mine.size())))
    lengths.push_back(static_cast<size_t>(length));
  return gather(mine, lengths);
}

std::vector<std::string> Comm::all_gather(const std::string& mine) {
  std::vector<std::string> all;
  for (const Bytes& bytes : all_gather(std::as_bytes(std::span(mine))))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

Comm& single_process() {
  static Comm process;
  return process;
}

int64_t all_max(Comm& comm, int64_t mine) {
  const std::vector<int64_t> all = comm.all_gather(mine);
  return *std::max_element(all.begin(), all.end());
}

void together(Comm& comm, const std::function<void()>& work) {
  if (comm.size() == 1) return work();
  int kind = 0;
  std::string sentence;
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::peer) throw;
    kind = static_cast<int>(error.kind()), sentence = error.what();
  } catch (const std::bad_alloc&) {
    kind = static_cast<int>(ErrorKind::resource), sentence = "there is not enough memory";
  }
  const std::vector<int> kinds = comm.all_gather(kind);
  const auto failed = std::find_if(kinds.begin(), kinds.end(), [](int each) { return each != 0; });
  if (failed == kinds.end()) return;
  const std::vector<std::string> sentences = comm.all_gather(sentence);
  std::vector<std::string> told;
  for (int r = 0; r < comm.size(); ++r)
    if (kinds[static_cast<size_t>(r)] != 0)
      told.push_back(comm.name_of(r) + ": " + sentences[static_cast<size_t>(r)]);
  const bool alike = std::adjacent_find(sentences.begin(), sentences.end(),
                                        std::not_equal_to<>()) == sentences.end();
  throw SharedError(static_cast<ErrorKind>(*failed),
                    alike ? sentence : list_of(told, std::identity(), "; "));
}

// The beginning of the first part between commas in which the texts differ.
static size_t first_difference(const std::vector<std::string>& all) {
  size_t at = all[0].size();
  for (const std::string& each : all) {
    const auto end = std::mismatch(all[0].begin(), all[0].end(), each.begin(), each.end()).first;
    at = std::min(at, static_cast<size_t>(end - all[0].begin()));
  }
  const size_t comma = all[0].rfind(',', at);
  return at == 0 || comma == std::string::npos ? 0 : comma + 1;
}

static std::string excerpt(const std::string& value, size_t from) {
  constexpr size_t longest = 80;
  return text(from > 0 ? "… " : "", value.substr(from, longest),
              value.size() > from + longest ? " …" : "");
}

void check_same_on_ranks(Comm& comm, const Facts& facts) {
  if (comm.size() == 1) return;
  std::string table;
  for (const auto& [name, mine] : facts) {
    const std::vector<std::string> all = comm.all_gather(mine);
    std::map<std::string, std::vector<int>> ranks;
    for (int r = 0; r < comm.size(); ++r) ranks[all[static_cast<size_t>(r)]].push_back(r);
    if (ranks.size() == 1) continue;
    const size_t from = first_difference(all);
    for (const auto& [value, of] : ranks)
      table += text("\n  ", name, "  ", list_of(of, [&](int r) { return comm.name_of(r); }), ": ",
                    excerpt(value, from));
  }
  if (!table.empty()) throw SharedError(ErrorKind::input, "the ranks of this run differ:" + table);
}

}  // namespace tete
