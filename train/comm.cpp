#include "train/comm.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "core/threads.hpp"
#include "train/checked_transport.hpp"
#include "train/gathering.hpp"
#include "train/roll_call.hpp"

namespace tete {

namespace {

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

class GatherJob : public Comm::Job {
 public:
  GatherJob(int rank, std::span<const std::byte> mine, const std::vector<size_t>& lengths)
      : gathering(control_channel, rank, mine, lengths) {}
  State advance(Transport& transport) override {
    return gathering.advance(transport) ? State::done : State::waiting;
  }
  int64_t progress() const override { return gathering.progress(); }
  std::vector<int> waiting_for() const override { return gathering.waiting_for(); }
  int64_t bytes() const override { return gathering.bytes(); }

  Gathering gathering;
};

}  // namespace

// ---- The communication thread ------------------------------------------------------------------

struct Comm::Running {
  std::shared_ptr<Job> job;
  int64_t seen = -1;             // its progress,
  double since = 0, called = 0;  // when that last grew, and when the others were called
};

Comm::Comm() = default;

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
    transport_ = std::make_unique<CheckedTransport>(std::move(made), *this);
    roll_call_ = std::make_unique<RollCall>(*transport_);
    rank_ = transport_->rank(), size_ = transport_->size();
    connected_ = true;
  } catch (...) {
    if (!lock) lock.lock();
    error_ = std::current_exception();
  }
  changed_.notify_all();
  while (connected_) {
    changed_.wait(lock, [&] { return !running_.empty() || ending_ || abort_code_ >= 0; });
    if (abort_code_ >= 0) return lock.unlock(), transport_->abort(abort_code_);
    if (running_.empty()) break;
    flush_denormals(flushes_denormals_);
    lock.unlock();
    std::exception_ptr error;
    try {
      drive();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      error_ = error;
      for (std::shared_ptr<Running>& each : running_) use_.bytes += each->job->bytes();
      std::ranges::move(running_, std::back_inserter(abandoned_));
      running_.clear();
    }
    changed_.notify_all();
  }
  lock.unlock();
  transport_.reset();
}

std::vector<std::shared_ptr<Comm::Running>> Comm::running() {
  std::lock_guard lock(mutex_);
  return running_;
}
bool Comm::runs(const Job& job) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const auto& each) { return each->job.get() == &job; });
}

// Polls the jobs until all are done. While this rank computes, polls are as far apart as a fourth
// of the time since something moved, within limits: each takes 12 us of a core on which the
// computation may run, and a wake-up. Once the computation waits for a job, polls follow each other
// at once, and after 50 of them without progress every 50 us.
void Comm::drive() {
  double last = transport_->now(), moved = last;
  bool waited = false;
  int round = 0;  // without progress
  for (auto jobs = running(); !jobs.empty(); jobs = running(), ++round) {
    const double now = transport_->now(), passed = now - last;
    last = now;
    bool waits = false, ended = false;
    for (const std::shared_ptr<Running>& each : jobs) {
      if (passed > 1) each->since = now;  // stopped, this process cannot tell who else was
      const int64_t seen = each->seen;
      const Job::State state = move(*each, now);
      if (state == Job::State::done) end(*each), ended = true;
      waits |= state != Job::State::idle;
      if (state == Job::State::done || each->seen != seen) round = 0, moved = now;
    }
    std::unique_lock lock(mutex_);
    if (std::exchange(waited, waits)) use_.total += passed;
    if (!awaited_ && !ended) {
      const double pause = std::clamp((now - moved) / 4, 200e-6, 1e-3);
      changed_.wait_for(lock, std::chrono::duration<double>(pause),
                        [&] { return awaited_ || abandons_; });
    }
    if (!awaited_) continue;
    if (round == 0) changed_.notify_all();
    lock.unlock();
    if (round < 50 && waits) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void Comm::end(const Running& job) {
  std::lock_guard lock(mutex_);
  use_.bytes += job.job->bytes();
  std::erase_if(running_, [&](const auto& each) { return each.get() == &job; });
}

// After half of the time without a sign it calls the others.
Comm::Job::State Comm::move(Running& running, double now) {
  const Job::State state = running.job->advance(*transport_);
  if (state == Job::State::done) return state;
  if (abandons_) fail(ErrorKind::peer, "this rank failed");
  const double patience = patience_;
  if (state == Job::State::idle || running.job->progress() != running.seen)
    running.since = running.called = now, running.seen = running.job->progress();
  if (now - running.since < patience / 2) running.called = now;
  else roll_call_->advance(*transport_, step_, running.job->waiting_for());
  if (now - running.since > patience && now - running.called > patience / 4) lost();
  return state;
}

void Comm::lost() const {
  const std::vector<int> missing = roll_call_->missing();
  fail(ErrorKind::peer, "no sign for ", patience_.load(), " s of ",
       list_of(
           missing.empty() ? roll_call_->chain() : missing, [&](int peer) { return name_of(peer); },
           " and "),
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
  if (error_) std::rethrow_exception(error_);
  running_.push_back(std::make_shared<Running>(Running{.job = std::move(job)}));
  flushes_denormals_ = denormals_are_flushed();
  changed_.notify_all();
}

void Comm::finish(const Job& job) {
  wait(job, [] { return false; });
}

void Comm::wait(const Job& job, const std::function<bool()>& enough) {
  const double before = seconds_now();
  std::unique_lock lock(mutex_);
  awaited_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return error_ || enough() || !runs(job); });
  awaited_ = false;
  use_.exposed += seconds_now() - before;
  if (error_) std::rethrow_exception(error_);
}

void Comm::abandon() {
  abandons_ = true;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_.empty(); });
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
  const auto job = std::make_shared<Swap>(std::move(out), std::move(in), std::move(memory));
  start(job);
  finish(*job);
}

std::vector<Bytes> Comm::gather(std::span<const std::byte> mine,
                                const std::vector<size_t>& lengths) {
  if (size_ == 1) return {{mine.begin(), mine.end()}};
  const auto job = std::make_shared<GatherJob>(rank_, mine, lengths);
  start(job);
  finish(*job);
  std::vector<Bytes> all;
  for (int r = 0; r < size_; ++r) {
    const std::span<const std::byte> bytes = job->gathering.of(r);
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
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
