// A graphics card as a Backend: each kernel is in the file that is named after it, its shader in
// shaders/; elementwise.comp reads core/elementwise.def, as the processor does. stream.cpp records
// calls of shaders and puts barriers between those that touch the same bytes; calls.hpp tells a
// shader of views.
#pragma once
#include <map>

#include "core/cpu/product.hpp"
#include "core/vulkan/calls.hpp"

namespace tete::vulkan {

// Elementwise calls, in the order of elementwise.comp.
enum class Kind : uint32_t {
  unary,
  slope,
  binary,
  select,
  unary_of_sum,
  slope_of_sum,
  add_onto,
  product,
  minus_product
};

class CardBackend final : public Card {
 public:
  CardBackend(std::string_view which, const Options& options);
  // After every tensor that lives here.
  ~CardBackend() override;

  const char* name() const override { return name_.c_str(); }
  Counts counts() const override { return stream_.counts(); }
  Said said() const override;
  std::vector<Fallback> fallbacks() const override;
  void refuse_fallbacks() override { refuses_ = true; }

  void* allocate(size_t bytes) override;
  void release(void* bytes, size_t count) noexcept override;
  void read(const void* from, void* to, size_t bytes) override;
  void write(const void* from, void* to, size_t bytes) override;
  void finish() override { stream_.finish(); }

  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override;
#define OPERATION(name, ...) void name(__VA_ARGS__) override;
#include "core/operations.def"
#undef OPERATION
  bool softmax(const View& x, const View& mask, int axis, const View& y) override;
  bool softmax_gradient(const View& y, const View& g, int axis, const View& dx) override;
  bool norm(const View& x, const View& scale, const View& bias, bool center, double epsilon,
            const View& y, const View& stats) override;
  bool add_norm(const View& x, const View& r, const View& scale, const View& bias, bool center,
                double epsilon, const View& s, const View& y, const View& stats) override;
  bool norm_gradient(const View& x, const View& scale, const View& g, const View& stats,
                     bool center, const View& dx, const View& dscale, const View& dbias) override;
  bool cross_entropy(const View& logits, const View& targets, const View& loss,
                     const View& lse) override;
  bool cross_entropy_gradient(const View& logits, const View& targets, const View& lse,
                              const View& g, const View& dlogits) override;
  bool unary_of_sum(Unary op, const View& a, const View& b, const View& y) override;
  bool unary_of_sum_gradient(Unary op, const View& a, const View& b, const View& y, const View& g,
                             const View& dsum) override;
  bool dropout(const View& x, double rate, uint64_t key, uint64_t first, const View& y) override;
  bool accumulate(const View& x, const View& y) override;
  bool top_k(const View& x, int axis, const View& found) override;
  bool adam(const View& p, const View& g, const View& m, const View& v, const AdamStep& step,
            const View& p_to, const View& m_to, const View& v_to) override;
  bool sum_of_squares(const View& x, const View& sum) override;
  bool sum_of_squares_of_product(const View& g, const View& a, const View& b,
                                 const View& sum) override;
  bool minus_product(const View& p, const View& g, const View& a, const View& b, const View& rate,
                     const View& p_to, const View& sum) override;

  // The dimensions of a contraction by the operands that have them, merged: of A, B and Y.
  struct Product {
    Loops<3> batch, m, n, k;
  };
  // A tile of the result, and of it what one invocation computes.
  struct Tiling {
    uint32_t invocations, m, n, k, own_m, own_n;
  };
  // How a product is cut: k into parts, each with a result of its own.
  struct Cut {
    Tiling tiling;
    Index parts, part;
  };

 private:
  using Views = std::vector<View>;
  // Runs an operation that is lacking here on copies of its views on the processor, and counts it.
  void on_processor(const std::string& operation, const Views& inputs, const Views& outputs,
                    const std::function<void(const Views& in, const Views& out)>& run);
  // True if shaders have this type's numbers.
  bool has(Dtype dtype) const { return dtype == Dtype::f32 || (dtype == Dtype::f64 && can_.f64); }
  // A call for each element. Inputs are at most four; `op` is a row of elementwise.def.
  void elements(Kind kind, uint32_t op, const std::vector<const View*>& inputs, const View& y,
                const View* rate = nullptr);
  // Sums (of x or of x z, as 2) or maxima, `how` of fold.comp: kept[y, x, z], folded[x, z].
  void fold_loops(uint32_t how, Shader shader, const Loops<3>& kept, const Loops<2>& folded,
                  const Window& x, const Window& z, const View& y);
  Temporary without_own(const View& A, Labels& a, const Labels& b, const Labels& y);
  void sum_products(const cpu_kernels::Groups& groups, const Window& left, const Window& right,
                    const View& Y);
  void multiply(const Product& p, Shader shader, const std::array<Window, 3>& windows,
                const Cut& cut, Index y_part);
  void norm_rows(const View& x, const View* r, const View& scale, const View& bias, bool center,
                 double epsilon, const View* s, const View& y, const View& stats);
  void cross_entropy_rows(const View& logits, const View& targets, const View* g, const View& lse,
                          const View& y);
  uint32_t row_width(Index n) const;
  Temporary links(const Loops<3>& positions, Index count, Index table_first, Index along,
                  Index size, const View& I);
  // x in these dense strides, copied if it has others.
  Temporary laid(const View& x, const Strides& strides);
  void tell_refusals(const std::vector<uint32_t>& slots);

  Opened card_;
  const Abilities& can_ = card_.can;
  std::string name_;
  Memory memory_;
  Stream stream_;

  mutable std::mutex mutex_;  // of what follows
  bool refuses_ = false;
  std::map<std::string, Fallback> fallbacks_;
  uint32_t* slots_ = nullptr;     // on the device: the first position outside, of each check
  std::vector<Refuse> refusals_;  // by slot
};

}  // namespace tete::vulkan
