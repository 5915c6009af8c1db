#include "train/roll_call.hpp"

#include <algorithm>

namespace tete {

RollCall::RollCall(const Transport& transport) {
  for (int r = 0; r < transport.size(); ++r)
    if (r != transport.rank()) peers_.push_back({r});
}

// A call that came late may be of an earlier step: ranks are at most one step apart.
void RollCall::advance(Transport& transport, int64_t step, const std::vector<int>& waits_for) {
  if (sent_.empty() || sent_.back().call.step != step) {
    Sent& sent = sent_.emplace_back(Sent{{step, waits_for.empty() ? -1 : waits_for[0]}});
    std::vector<Message> out;
    for (const Peer& peer : peers_) out.push_back({peer.rank, bytes_of(sent.call)});
    sent.exchange = transport.begin(roll_call_channel, out, {});
  }
  sent_.back().exchange->test();
  for (Peer& peer : peers_)
    while (is_missing(peer)) {
      if (!peer.exchange)
        peer.exchange =
            transport.begin(roll_call_channel, {}, {{peer.rank, bytes_of(peer.coming)}});
      if (!peer.exchange->test()) break;
      peer.heard = peer.coming;
      peer.exchange.reset();
    }
}

std::vector<int> RollCall::missing() const {
  std::vector<int> ranks;
  for (const Peer& peer : peers_)
    if (is_missing(peer)) ranks.push_back(peer.rank);
  return ranks;
}

std::vector<int> RollCall::chain() const {
  std::vector<int> ranks;
  auto next = static_cast<int>(sent_.back().call.waits_for);
  while (std::count(ranks.begin(), ranks.end(), next) == 0) {
    const auto is_next = [next](const Peer& peer) { return peer.rank == next; };
    const auto peer = std::find_if(peers_.begin(), peers_.end(), is_next);
    if (peer == peers_.end()) break;  // this rank
    ranks.push_back(next);
    next = static_cast<int>(peer->heard.waits_for);
  }
  return ranks;
}

}  // namespace tete
