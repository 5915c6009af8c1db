// Sums and maxima over dimensions of one view, or of the product of two.
//
// Invocations that are neighbours read what is near in memory: several fold one y where the folded
// dimension is dense, each its own y elsewhere. How a fold is cut follows from sizes and strides.
#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

constexpr Index longest = 4096;  // numbers that one invocation folds

struct FoldCut {
  uint32_t width = 1, rows = 64;  // invocations for one y, and y's, of a workgroup
  uint32_t each = 8;              // numbers that an invocation reads at once
  Index parts = 1, part = 0;      // of one fold, and the numbers of each
};

FoldCut cut_of(Index kept, Index folded, bool is_dense, const Abilities& can) {
  FoldCut cut;
  // A barrier costs an emulated device more than what is read together saves.
  if (can.is_emulated()) cut.rows = 8, cut.each = 1;
  else if (is_dense && folded >= 16) cut.width = folded < 256 ? 16 : 64, cut.rows = 64 / cut.width;
  const Index busy = can.is_emulated() ? 16 : 1 << 18;  // invocations that keep a device at work
  const Index most = pieces_of(folded, cut.width * 64);
  const Index wanted = std::min(most, busy / std::max<Index>(1, kept * cut.width));
  const Index least = pieces_of(folded, cut.width * longest);
  cut.parts = std::max({Index{1}, wanted, least});
  cut.part = pieces_of(std::max<Index>(1, folded), cut.parts);
  return cut;
}

Call fold_call(Shader shader, uint32_t how, const FoldCut& cut, const Loops<3>& kept,
               const Loops<2>& folded, const std::array<Index, 3>& first, Index y_part) {
  const Index outputs = element_count(kept.shape) * cut.parts;
  const Constants constants{cut.width, cut.rows, how, cut.each, folded.shape.size() <= 1};
  Call call{shader, constants, {}, {}, pieces_of(outputs, cut.rows)};
  add_padded(call.words, kept.shape, 3, 1);
  add_padded(call.words, folded.shape, 3, 1);
  call.words.add(first[0], first[1], first[2]);
  for (const Strides& s : kept.strides) add_padded(call.words, s, 3, 0);
  for (const Strides& s : folded.strides) add_padded(call.words, s, 3, 0);
  call.words.add(cut.parts, cut.part, y_part);
  return call;
}

}  // namespace

void CardBackend::fold_loops(uint32_t how, Shader shader, const Loops<3>& kept,
                             const Loops<2>& folded, const Window& x, const Window& z,
                             const View& y) {
  const Index size = element_count(folded.shape), outputs = element_count(kept.shape);
  const bool is_dense =
      std::abs(folded.inner_stride(0)) <= std::abs(kept.inner_stride(1)) || outputs == 1;
  const FoldCut cut = cut_of(outputs, size, is_dense, can_);
  // Parts go to memory of their own, from which they are folded in turn.
  const Shape apart{outputs, cut.parts};
  std::optional<Temporary> partial;
  Loops<3> to = kept;
  if (cut.parts > 1) {
    partial.emplace(*this, y.dtype, apart, row_major(apart));
    to.strides[0] = row_major(kept.shape);
    for (Index& stride : to.strides[0]) stride *= cut.parts;
  }
  const Window target = window_of(partial ? partial->view() : y);
  for_each_part(to, 3, [&](const Loops<3>& inner, const auto& at, Index) {
    Call call = fold_call(shader, how, cut, inner, folded,
                          {target.first + at[0], x.first + at[1], z.first + at[2]}, 1);
    call.buffers = {x.read(), z.read(), target.written()};
    stream_.run(call);
  });
  if (!partial) return;
  Loops<3> left = kept;
  left.strides[1] = left.strides[2] = to.strides[0];
  const Window from = window_of(partial->view());
  fold_loops(how == 1 ? 1 : 0, in(y.dtype, Shader::fold_f32), left,
             {{cut.parts}, {Strides{1}, Strides{1}}}, from, from, y);
}

bool CardBackend::try_fold(Fold how, const View& x, const View& y) {
  if (!has(y.dtype)) return false;
  View from = x;
  Loops<3> kept;
  Loops<2> folded;
  const auto is_kept = [&](int d) { return x.shape[d] == y.shape[d]; };
  const auto sort = [&] {
    kept = {}, folded = {};
    for (int d = 0; d < x.rank(); ++d) {
      (is_kept(d) ? kept.shape : folded.shape).push_back(x.shape[d]);
      if (is_kept(d)) kept.strides[0].push_back(y.strides[d]);
      for (size_t v : {1, 2})
        (is_kept(d) ? kept.strides[v] : folded.strides[v - 1]).push_back(from.strides[d]);
    }
    kept = collapse(kept, 1), folded = collapse(folded, 0);
  };
  sort();
  std::optional<Temporary> dense;
  if (folded.shape.size() > 3) {
    // Folded dimensions become one.
    Short<int> order;
    for (const bool keeps : {true, false})
      for (int d = 0; d < x.rank(); ++d)
        if (is_kept(d) == keeps) order.push_back(d);
    from = dense.emplace(laid(x, dense_strides(x.shape, order))).view();
    sort();
  }
  const Window window = window_of(from);
  fold_loops(how == Fold::max ? 1 : 0, in(y.dtype, Shader::fold_f32), kept, folded, window, window,
             y);
  return true;
}

}  // namespace tete::vulkan
