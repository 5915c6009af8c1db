// Ranks tell each other that they are still there. Where messages are passed on, a rank waits for
// others that wait for the one that is lost. So a rank that has waited long tells all others that
// it is there, as they do.
#pragma once
#include <list>

#include "train/comm.hpp"

namespace tete {

class RollCall {
 public:
  explicit RollCall(const Transport& transport);
  // Calls, if it has not yet in this step, and hears. This rank waits for those.
  void advance(Transport& transport, int64_t step, const std::vector<int>& waits_for);
  // Those that were not heard in this step.
  std::vector<int> missing() const;
  // If all were: the rank that this one waits for, that which it waits for, and so on. A message
  // between two of them was lost.
  std::vector<int> chain() const;

 private:
  struct Call {
    int64_t step, waits_for;
  };
  struct Peer {
    int rank;
    Call heard = {-2, 0}, coming = {};
    std::unique_ptr<Exchange> exchange = {};
  };
  struct Sent {
    Call call;
    std::unique_ptr<Exchange> exchange = {};
  };
  static std::span<std::byte> bytes_of(Call& call) {
    return std::as_writable_bytes(std::span(&call, 1));
  }
  bool is_missing(const Peer& peer) const { return peer.heard.step < sent_.back().call.step - 1; }

  std::list<Peer> peers_;  // by rank; neither these nor those move: messages come into them
  std::list<Sent> sent_;
};

}  // namespace tete
