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
  Pieces pieces() const override;
  bool mixes_in_f32() const override { return can_.folds_subgroups; }
  Counts counts() const override { return stream_.counts(); }
  size_t free_memory() const override { return memory_.free(); }
  Said said() const override;
  std::vector<Fallback> fallbacks() const override;
  void refuse_fallbacks() override { refuses_ = true; }

  void* allocate(size_t bytes) override;
  void release(void* bytes, size_t count) noexcept override;
  void read(const void* from, void* to, size_t bytes) override;
  void write(const void* from, void* to, size_t bytes) override;
  void finish() override { stream_.finish(); }

  std::string why_bf16_is_no_faster() override;
  bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                      const Labels& y) const override;
// Each operation, and whether shaders did it: else it is left to the processor.
#define OPERATION(name, parameters, arguments) \
  void name parameters override;               \
  bool try_##name parameters;
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments) bool name parameters override;
#include "core/kernels.def"
#undef KERNEL

  // The dimensions of a contraction by the operands that have them, merged: of A, B and Y.
  struct Product {
    Loops<3> batch, m, n, k;
  };
  // A tile of the result, and of it what one invocation computes, or a subgroup by units.
  struct Tiling {
    uint32_t invocations, m, n, k, own_m, own_n;
  };
  // How a product is computed: by units, if they are given; k in parts, each with a result of its
  // own.
  struct Cut {
    Shader shader;
    const Units* units;
    Tiling tiling;
    Index parts, part;
  };

 private:
  // Runs an operation that is lacking here on copies of its views on the processor, and counts it.
  template <class Call, class Arguments>
  void on_processor(const char* name, const Call& call, const Arguments& arguments);
  void count_fallback(const std::string& operation, size_t bytes);
  // True if shaders have this type's numbers.
  bool has(Dtype dtype) const { return dtype == Dtype::f32 || (dtype == Dtype::f64 && can_.f64); }
  // A shader that includes view.glsl, for each element of these loops over views in the windows.
  // add_words(words, how many elements come before) adds the words behind those of the views. There
  // are `times` invocations for each element, or one for `each` elements.
  template <int N, class AddWords>
  void run_over(const Loops<N>& loops, const std::array<Window, N>& windows, Shader shader,
                const Constants& constants, const std::vector<Bound>& buffers,
                const AddWords& add_words, Index times = 1, uint32_t each = 1);
  // True if large workgroups and unrolled loops pay.
  bool is_wide() const { return !can_.is_emulated() && can_.most_invocations >= 256; }
  // Invocations of a workgroup that takes elements.
  uint32_t group() const { return is_wide() ? 256 : 64; }
  // How many elements an invocation takes that does little with each: several, if there are more
  // than a card works on at once.
  uint32_t each_of(Index size) const { return is_wide() && size >= Index{1} << 20 ? 4 : 1; }
  // elementwise.comp. Inputs are at most four; `op` is a row of elementwise.def.
  void elements(Kind kind, uint32_t op, const std::vector<const View*>& inputs, const View& y,
                const View* rate = nullptr);
  void random(const View& x, const View& y, bool drops, double rate, uint64_t key, uint64_t first);
  // Sums (of x or of x z, as 2) or maxima, `how` of fold.comp: kept[y, x, z], folded[x, z].
  void fold_loops(uint32_t how, Shader shader, const Loops<3>& kept, const Loops<2>& folded,
                  const Window& x, const Window& z, const View& y);
  void contract_here(const View& A, const Labels& a, const View& B, const Labels& b, const View& Y,
                     const Labels& y);
  Temporary without_own(const View& A, Labels& a, const Labels& b, const Labels& y);
  void sum_products(const cpu_kernels::Groups& groups, const Window& left, const Window& right,
                    const View& Y);
  static Product product_of(const cpu_kernels::Groups& groups);
  // Y = A B, which p is the product of.
  void multiply_matrices(const Product& p, const View& A, const Labels& a, const View& B,
                         const Labels& b, const View& Y, const Labels& y, const Units* units);
  void multiply(const Product& p, const std::array<Window, 3>& windows, const Cut& cut,
                Index y_part);
  // The units for a product of bf16 numbers, or null. They have once made the right numbers here.
  const Units* units_for(const Product& p);
  bool are_right(const Units& units);
  bool is_right(const Units& units, Index m, Index n, Index k, bool turned);
  // The largest |x| of each of an operand's own rows or columns, in each batch: f32[batch, own].
  Temporary largest_of(const Product& p, const Loops<3>& own, size_t operand, const Window& x);
  // A shader that includes rows.glsl, for rows of views along an axis; other buffers and words
  // follow those of the views, of which the last `written` are written.
  template <int N>
  void run_rows(const std::array<const View*, N>& views, int axis, size_t written, Shader shader,
                const Constants& constants, const std::vector<Bound>& others, const Words& words);
  // The same, where a row reaches beyond the views that tell where it begins, and is cut like this.
  template <int N>
  void run_rows(const std::array<Window, N>& windows, const std::array<const View*, N>& views,
                int axis, size_t written, Shader shader, const Constants& cut,
                const Constants& constants, const std::vector<Bound>& others, const Words& words);
  // mixed_softmax.comp; P and R are its matrices.
  void run_mixed(const std::array<const View*, 4>& views, const View& P, const View& R,
                 const Constants& flags, const std::array<Index, 3>& heads);
  void norm_rows(const View& x, const View* r, const View& scale, const View& bias, bool center,
                 double epsilon, const View* s, const View& y, const View& stats);
  void cross_entropy_rows(const View& logits, const View& targets, const View* g, const View& lse,
                          const View& y);
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
  std::once_flag tests_units_;
  std::optional<Units> units_;  // after the test: those that are used

  mutable std::mutex mutex_;  // of what follows
  bool refuses_ = false;
  std::map<std::string, Fallback> fallbacks_;
  uint32_t* slots_ = nullptr;     // on the device: the first position outside, of each check
  std::vector<Refuse> refusals_;  // by slot
};

template <int N, class AddWords>
void CardBackend::run_over(const Loops<N>& loops, const std::array<Window, N>& windows,
                           Shader shader, const Constants& constants,
                           const std::vector<Bound>& buffers, const AddWords& add_words,
                           Index times, uint32_t each) {
  for_each_part(loops, 4, [&](const Loops<N>& inner, const auto& at, Index before) {
    const auto rank = static_cast<uint32_t>(inner.shape.size());
    const Index groups = pieces_of(inner.size() * times, group() * each);
    Call call{shader, {rank, group(), each}, buffers, {}, groups};
    call.constants.insert(call.constants.end(), constants.begin(), constants.end());
    add_padded(call.words, inner.shape, 4, 1);
    for (size_t v = 0; v < N; ++v) {
      call.words.add(windows[v].first + at[v]);
      add_padded(call.words, inner.strides[v], 4, 0);
    }
    add_words(call.words, before);
    stream_.run(call);
  });
}

}  // namespace tete::vulkan
