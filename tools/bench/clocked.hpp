// A device that computes as the processor does, and clocks each call: nothing is clocked elsewhere.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace tete {

class ClockedProcessor final : public Backend {
 public:
  struct Use {
    double seconds = 0;
    int64_t calls = 0;
  };
  // By what it did. A call that a thread makes inside a loop that all share counts by its part of
  // the threads; one outside counts whole, as the other threads help or wait.
  using Uses = std::map<std::string, Use, std::less<>>;

  ClockedProcessor();
  ~ClockedProcessor() override;  // after every tensor that lives here
  ClockedProcessor(const ClockedProcessor&) = delete;

  Uses uses() const;        // since the last forget()
  double clocking() const;  // seconds that the clocks took, counted alike
  void forget();

  const char* name() const override { return "clocked"; }
  void* allocate(size_t bytes) override;
  void release(void* bytes, size_t count) noexcept override { cpu().release(bytes, count); }
  void read(const void* from, void* to, size_t bytes) override;
  void write(const void* from, void* to, size_t bytes) override;
  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override {
    return cpu().contracts_bf16(A, a, B, b, Y, y);
  }
  bool attends(Index queries, Index mixed_heads) const override {
    return cpu().attends(queries, mixed_heads);
  }
#define OPERATION(name, parameters, arguments) void name parameters override;
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments) bool name parameters override;
#include "core/kernels.def"
#undef KERNEL

 private:
  struct alignas(64) Thread {
    Uses uses;
    double clocking = 0;
  };
  template <class Work>
  void clock(const std::string& kernel, const Work& work, double before);
  template <class Work>
  void clock(const char* kernel, const Work& work);

  std::vector<Thread> threads_;
};

}  // namespace tete
