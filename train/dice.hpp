// Dice: whole numbers from a key, one after the other.
#pragma once
#include "core/random.hpp"

namespace tete {

class Dice {
 public:
  explicit Dice(Key key) : key_(key) {}
  Index below(Index bound) {
    return static_cast<Index>(uniform_below(key_, next_++, static_cast<uint64_t>(bound)));
  }
  Index between(Index low, Index high) { return low + below(high - low + 1); }

 private:
  Key key_;
  uint64_t next_ = 0;
};

}  // namespace tete
