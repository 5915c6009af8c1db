#include "train/checked_transport.hpp"

#include "train/checksum.hpp"

namespace tete {

namespace {

std::span<std::byte> bytes_of(uint64_t& sum) { return std::as_writable_bytes(std::span(&sum, 1)); }

using Sums = std::map<int, uint64_t>;  // by peer

// One checksum of all messages to or from a rank; its seed counts such exchanges.
Sums sums_of(const std::vector<Message>& messages, const Sums& numbers) {
  std::map<int, Checksum> all;
  for (const Message& message : messages)
    all.try_emplace(message.peer, numbers.at(message.peer))
        .first->second.add(message.bytes.data(), message.bytes.size());
  Sums sums;
  for (const auto& [peer, sum] : all) sums[peer] = sum.value();
  return sums;
}

struct Verified : Exchange {
  explicit Verified(const Comm& of) : comm(of) {}
  bool test() override {
    if (verified) return true;
    if (!carried->test()) return false;
    for (const auto& [peer, sum] : sums_of(in, numbers))
      if (sum != received.at(peer))
        fail(ErrorKind::peer, "what came from ", comm.name_of(peer), " in the step after ",
             comm.step(),
             " was damaged on its way; the run can go on from its last checkpoint "
             "(--resume)");
    return verified = true;
  }
  int64_t progress() const override { return carried->progress(); }
  std::vector<int> waiting_for() const override { return carried->waiting_for(); }

  const Comm& comm;
  std::vector<Message> in;
  Sums sent, received, numbers;
  std::unique_ptr<Exchange> carried;
  bool verified = false;
};

}  // namespace

std::unique_ptr<Exchange> CheckedTransport::begin(int channel, const std::vector<Message>& out,
                                                  const std::vector<Message>& in) {
  auto exchange = std::make_unique<Verified>(comm_);
  exchange->in = in;
  std::vector<Message> all_out = out, all_in = in;
  const auto count = [channel](const std::vector<Message>& messages, auto& counts) {
    Sums numbers;
    for (const Message& message : messages) numbers[message.peer] = 0;
    for (auto& [peer, number] : numbers) number = counts[{peer, channel}]++;
    return numbers;
  };
  exchange->sent = sums_of(out, count(out, number_sent_));
  exchange->numbers = count(in, number_received_);
  for (auto& [peer, sum] : exchange->sent) all_out.push_back({peer, bytes_of(sum)});
  for (const auto& [peer, number] : exchange->numbers)
    all_in.push_back({peer, bytes_of(exchange->received[peer])});
  exchange->carried = carrier_->begin(channel, all_out, all_in);
  return exchange;
}

}  // namespace tete
