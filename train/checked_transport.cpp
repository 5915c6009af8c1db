#include "train/checked_transport.hpp"

#include "train/checksum.hpp"

namespace tete {

namespace {

std::span<std::byte> bytes_of(uint64_t& sum) { return std::as_writable_bytes(std::span(&sum, 1)); }

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

}  // namespace

std::unique_ptr<Exchange> CheckedTransport::begin(int channel, const std::vector<Message>& out,
                                                  const std::vector<Message>& in) {
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

}  // namespace tete
