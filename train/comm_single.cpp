// The only process of a run: what it gathers is its own.
#include "train/comm.hpp"

namespace tete {

namespace {
class SingleProcess : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return {{mine.begin(), mine.end()}};
  }
};
}  // namespace

Comm& single_process() {
  static SingleProcess process;
  return process;
}

}  // namespace tete
