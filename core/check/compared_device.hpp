// A device that hands each call on to another, and holds what that makes of it against the
// processor, on the same numbers: so the call that is wrong is told, and not what follows from it.
#pragma once
#include <mutex>
#include <string>

#include "core/backend.hpp"

namespace tete {

class ComparedDevice final : public Backend {
 public:
  explicit ComparedDevice(Backend& device) : device_(device) {}
  ~ComparedDevice() override;  // after every tensor that lives here
  ComparedDevice(const ComparedDevice&) = delete;

  // How far results are from the processor's in f64, by the norm of their difference over that of
  // the result. A result that rounding changes by more than 1e-6 of its norm, since its parts
  // cancel, is measured by that rounding.
  struct Findings {
    int64_t calls = 0;  // that were compared
    int64_t wrong = 0;  // by more than is allowed
    double worst = 0;
    std::string worst_call = {};  // "unary exp, f32[4, 8]"
  };
  static constexpr double allowed = 1e-4;
  const Findings& findings() const { return findings_; }

  const char* name() const override { return device_.name(); }
  Pieces pieces() const override { return device_.pieces(); }
  bool mixes_in_f32() const override { return device_.mixes_in_f32(); }
  bool attends(Index queries, Index mixed_heads) const override {
    return device_.attends(queries, mixed_heads);
  }
  void* allocate(size_t bytes) override { return device_.allocate(bytes); }
  void release(void* bytes, size_t count) noexcept override { device_.release(bytes, count); }
  void read(const void* from, void* to, size_t bytes) override { device_.read(from, to, bytes); }
  void write(const void* from, void* to, size_t bytes) override { device_.write(from, to, bytes); }
  void finish() override { device_.finish(); }
  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override {
    return device_.contracts_bf16(A, a, B, b, Y, y);
  }
#define OPERATION(name, parameters, arguments) void name parameters override;
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments) bool name parameters override;
#include "core/kernels.def"
#undef KERNEL

 private:
  template <class Call, class Arguments>
  bool compare(const char* name, const Call& call, const Arguments& arguments);
  void note(const std::string& call, double difference);

  Backend& device_;
  std::mutex mutex_;
  Findings findings_;
};

}  // namespace tete
