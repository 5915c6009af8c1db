// A device whose memory the host cannot touch. Its addresses are pages that nobody may read or
// write; its kernels are the processor's, on other pages that hold the bytes. So a loop of the host
// over a tensor that lives here dies, and whatever goes through the Backend gives the processor's
// bits.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "core/storage.hpp"

namespace tete::tests {

// The same bytes on two ranges of pages: outside, where the addresses are, and inside.
class StrictMemory {
 public:
  StrictMemory() {
    const int file = memfd_create("strict", MFD_CLOEXEC);
    const auto map = [&](int protection) {
      void* const at = mmap(nullptr, arena, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
      if (at == MAP_FAILED) fail(ErrorKind::resource, "cannot map the strict device's memory");
      return static_cast<char*>(at);
    };
    if (file < 0 || ftruncate(file, arena) != 0)
      fail(ErrorKind::resource, "cannot make the strict device's memory");
    outside_ = map(PROT_NONE), inside_ = map(PROT_READ | PROT_WRITE);
    ::close(file);
  }
  ~StrictMemory() { munmap(outside_, arena), munmap(inside_, arena); }
  StrictMemory(const StrictMemory&) = delete;

  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t rounded = (bytes + 127) / 64 * 64;
    if (used_ + rounded > arena) fail(ErrorKind::resource, "the strict device is full");
    return outside_ + std::exchange(used_, used_ + rounded);
  }
  char* inside(const void* outside) const {
    return inside_ + (static_cast<const char*>(outside) - outside_);
  }

 private:
  static constexpr size_t arena = size_t{2} << 30;  // bytes; a page is there once it is written

  char *outside_, *inside_;
  std::mutex mutex_;
  size_t used_ = 0;
};

class StrictDevice final : public Backend {
 public:
  // Without fused kernels every operation that has a meaning is computed as it.
  explicit StrictDevice(bool fused = true) : fused_(fused) {}
  // After every tensor that lives here.
  ~StrictDevice() override { release_free_memory(*this); }
  StrictDevice(const StrictDevice&) = delete;

  int64_t reads = 0;                  // by the host, since the start
  int norms = 0, sums_with_norm = 0;  // kernels that ran

  const char* name() const override { return "strict"; }
  void* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void release(void*, size_t) noexcept override {}
  // Tells what was found wrong since the last one, as a device does that runs behind the host.
  void read(const void* from, void* to, size_t bytes) override {
    ++reads;
    for (const auto& tell : std::exchange(refusals_, {})) tell();
    cpu().read(memory_.inside(from), to, bytes);
  }
  void write(const void* from, void* to, size_t bytes) override {
    cpu().write(from, memory_.inside(to), bytes);
  }

  void unary(Unary op, const View& x, const View& y) override { cpu().unary(op, in(x), in(y)); }
  void unary_gradient(Unary op, const View& x, const View& y, const View& g,
                      const View& dx) override {
    cpu().unary_gradient(op, in(x), in(y), in(g), in(dx));
  }
  void binary(Binary op, const View& a, const View& b, const View& y) override {
    cpu().binary(op, in(a), in(b), in(y));
  }
  void select(const View& c, const View& a, const View& b, const View& y) override {
    cpu().select(in(c), in(a), in(b), in(y));
  }
  void fill(double value, const View& y) override { cpu().fill(value, in(y)); }
  void copy(const View& x, const View& y) override { cpu().copy(in(x), in(y)); }
  void fold(Fold how, const View& x, const View& y) override { cpu().fold(how, in(x), in(y)); }
  void contract(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                const Labels& y) override {
    cpu().contract(in(A), a, in(B), b, in(Y), y);
  }
  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override {
    return cpu().contracts_bf16(A, a, B, b, Y, y);
  }
  void gather(const View& T, const Labels& t, const View& I, const Labels& i, Label label,
              const View& Y, const Labels& y) override {
    cpu().gather(in(T), t, in(I), i, label, in(Y), y);
  }
  void scatter(const View& G, const Labels& g, const View& I, const Labels& i, Label label,
               const View& T, const Labels& t) override {
    cpu().scatter(in(G), g, in(I), i, label, in(T), t);
  }
  void check_inside(const View& I, Index size, Refuse refuse) override {
    bool first = true;
    cpu().check_inside(in(I), size, [&](Index place) {
      if (std::exchange(first, false)) refusals_.push_back([refuse, place] { refuse(place); });
    });
  }
  void uniform(uint64_t key, uint64_t first, const View& y) override {
    cpu().uniform(key, first, in(y));
  }

  bool softmax(const View& x, const View& mask, int axis, const View& y) override {
    return fused_ && cpu().softmax(in(x), in(mask), axis, in(y));
  }
  bool softmax_gradient(const View& y, const View& g, int axis, const View& dx) override {
    return fused_ && cpu().softmax_gradient(in(y), in(g), axis, in(dx));
  }
  bool norm(const View& x, const View& scale, const View& bias, bool center, double epsilon,
            const View& y, const View& stats) override {
    ++norms;
    return fused_ && cpu().norm(in(x), in(scale), in(bias), center, epsilon, in(y), in(stats));
  }
  bool add_norm(const View& x, const View& r, const View& scale, const View& bias, bool center,
                double epsilon, const View& s, const View& y, const View& stats) override {
    ++sums_with_norm;
    return fused_ && cpu().add_norm(in(x), in(r), in(scale), in(bias), center, epsilon, in(s),
                                    in(y), in(stats));
  }
  bool norm_gradient(const View& x, const View& scale, const View& g, const View& stats,
                     bool center, const View& dx, const View& dscale, const View& dbias) override {
    return fused_ && cpu().norm_gradient(in(x), in(scale), in(g), in(stats), center, in(dx),
                                         in(dscale), in(dbias));
  }
  bool cross_entropy(const View& logits, const View& targets, const View& loss,
                     const View& lse) override {
    return fused_ && cpu().cross_entropy(in(logits), in(targets), in(loss), in(lse));
  }
  bool cross_entropy_gradient(const View& logits, const View& targets, const View& lse,
                              const View& g, const View& dlogits) override {
    return fused_ &&
           cpu().cross_entropy_gradient(in(logits), in(targets), in(lse), in(g), in(dlogits));
  }
  bool unary_of_sum(Unary op, const View& a, const View& b, const View& y) override {
    return fused_ && cpu().unary_of_sum(op, in(a), in(b), in(y));
  }
  bool unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y, const View& g,
                             const View& dsum) override {
    return fused_ && cpu().unary_of_sum_gradient(op, in(a), in(b), in(y), in(g), in(dsum));
  }
  bool dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y) override {
    return fused_ && cpu().dropout(in(x), rate, key, first, in(y));
  }
  bool accumulate(const View& x, const View& y) override {
    return fused_ && cpu().accumulate(in(x), in(y));
  }
  bool top_k(const View& x, int axis, const View& found) override {
    return fused_ && cpu().top_k(in(x), axis, in(found));
  }
  bool adam(const View& p, const View& g, const View& m, const View& v, const AdamStep& step,
            const View& p_to, const View& m_to, const View& v_to) override {
    return fused_ && cpu().adam(in(p), in(g), in(m), in(v), step, in(p_to), in(m_to), in(v_to));
  }
  bool sum_of_squares(const View& x, const View& sum) override {
    return fused_ && cpu().sum_of_squares(in(x), in(sum));
  }
  bool sum_of_squares_of_product(const View& g, const View& a, const View& b,
                                 const View& sum) override {
    return fused_ && cpu().sum_of_squares_of_product(in(g), in(a), in(b), in(sum));
  }
  bool minus_product(const View& p, const View& g, const View& a, const View& b, const View& rate,
                     const View& p_to, const View& sum) override {
    return fused_ && cpu().minus_product(in(p), in(g), in(a), in(b), in(rate), in(p_to), in(sum));
  }
  bool squares_over(const View& g, int d0, int d1, const View& over_d0,
                    const View& over_d1) override {
    return fused_ && cpu().squares_over(in(g), d0, d1, in(over_d0), in(over_d1));
  }

 private:
  View in(View view) const {
    if (view.data) view.data = memory_.inside(view.data);
    return view;
  }

  bool fused_;
  StrictMemory memory_;
  std::vector<std::function<void()>> refusals_;
};

}  // namespace tete::tests
