// A Transport that adds a checksum to the messages for each rank, which also counts them: one that
// was damaged, lost or taken for another on its way is found, and its sender named.
#pragma once
#include <map>

#include "train/comm.hpp"

namespace tete {

class CheckedTransport : public Transport {
 public:
  CheckedTransport(std::unique_ptr<Transport> carrier, const Comm& comm)
      : carrier_(std::move(carrier)), comm_(comm) {}
  int rank() const override { return carrier_->rank(); }
  int size() const override { return carrier_->size(); }
  void abort(int code) override { carrier_->abort(code); }
  double now() const override { return carrier_->now(); }
  std::unique_ptr<Exchange> begin(int channel, const std::vector<Message>& out,
                                  const std::vector<Message>& in) override;

 private:
  std::unique_ptr<Transport> carrier_;
  const Comm& comm_;
  std::map<std::pair<int, int>, uint64_t> number_sent_, number_received_;  // by peer and channel
};

}  // namespace tete
