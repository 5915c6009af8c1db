// Kernels over rows: softmax, norms and cross-entropy. A workgroup takes a row.
#include <bit>
#include <optional>

#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

// WIDTH, KEPT and WHOLE of rows.glsl. Eight numbers for an invocation are enough reads under way at
// once; sixteen still fit into registers.
Constants cut_of(Index n, const Abilities& can) {
  uint32_t width = can.is_emulated() ? 8 : 32, kept = 1;
  if (!can.is_emulated()) {
    while (width < std::min(256u, can.most_invocations) && n > width * 8) width *= 2;
    kept = n > width * 16 ? 8 : static_cast<uint32_t>(std::max<Index>(1, pieces_of(n, width)));
  }
  return {width, kept, n <= width * kept};
}

// The same where an invocation has all heads of two keys, which share what it reads of a matrix. It
// has more keys if the row is whole then, and fills at most half of a multiprocessor's registers.
Constants cut_of_heads(Index n, Index heads, const Abilities& can) {
  if (can.is_emulated()) return cut_of(n, can);
  uint32_t width = 32;
  const uint32_t most = std::bit_floor(std::min(512u, can.most_invocations));
  while (width < most && n > width * 2) width *= 2;
  const Index kept = pieces_of(n, width);
  if (kept * width * pieces_of(heads, 4) * 4 > 32768) return {std::min(width, 256u), 2, 0};
  return {width, static_cast<uint32_t>(kept), 1};
}

}  // namespace

template <int N>
void CardBackend::run_rows(const std::array<Window, N>& windows,
                           const std::array<const View*, N>& views, int axis, size_t written,
                           Shader shader, const Constants& cut, const Constants& constants,
                           const std::vector<Bound>& others, const Words& words) {
  const Index n = views[0]->shape[axis];
  Loops<N> rows = cpu_kernels::rows_along<N>(views, axis);
  rows.shape.pop_back();
  for (Strides& s : rows.strides) s.pop_back();
  std::vector<Bound> buffers;
  for (size_t v = 0; v < N; ++v)
    buffers.push_back(v + written < N ? windows[v].read() : windows[v].written());
  buffers.insert(buffers.end(), others.begin(), others.end());
  for_each_part(rows, 2, [&](const Loops<N>& inner, const auto& at, Index) {
    Call call{shader, cut, buffers, {}, inner.size()};
    call.constants.insert(call.constants.end(), constants.begin(), constants.end());
    add_padded(call.words, inner.shape, 2, 1);
    call.words.add(n);
    for (size_t v = 0; v < N; ++v) {
      call.words.add(windows[v].first + at[v]);
      add_padded(call.words, inner.strides[v], 2, 0);
      call.words.add(views[v]->strides[axis]);
    }
    call.words.add(words);
    stream_.run(call);
  });
}

template <int N>
void CardBackend::run_rows(const std::array<const View*, N>& views, int axis, size_t written,
                           Shader shader, const Constants& constants,
                           const std::vector<Bound>& others, const Words& words) {
  run_rows<N>(windows_of<N>(views), views, axis, written, shader,
              cut_of(views[0]->shape[axis], can_), constants, others, words);
}

bool CardBackend::softmax(const View& x, const View& mask, int axis, const View& y) {
  if (y.dtype != Dtype::f32) return false;
  const bool is_masked = mask.data != nullptr;
  run_rows<3>({&x, is_masked ? &mask : &x, &y}, axis, 1, Shader::softmax, {is_masked, 0}, {}, {});
  return true;
}

bool CardBackend::softmax_gradient(const View& y, const View& g, int axis, const View& dx) {
  if (y.dtype != Dtype::f32) return false;
  run_rows<3>({&y, &g, &dx}, axis, 1, Shader::softmax, {0, 1}, {}, {});
  return true;
}

void CardBackend::run_mixed(const std::array<const View*, 4>& views, const View& P, const View& R,
                            const Constants& flags, const std::array<Index, 3>& heads) {
  const int axis = views[0]->rank() - 2;
  std::array<View, 4> rows;
  std::array<const View*, 4> at;
  Words words;
  for (size_t v = 0; v < 4; ++v) {
    rows[v] = *views[v], at[v] = &rows[v];
    words.add(rows[v].strides[axis]);
    rows[v].shape.erase(axis), rows[v].strides.erase(axis);
  }
  const Window p = window_of(P), r = window_of(R);
  words.add(p.first, P.strides[0], P.strides[1], r.first, R.strides[0], R.strides[1]);
  Constants constants = flags;
  for (Index count : heads) constants.push_back(static_cast<uint32_t>(count));
  run_rows<4>(windows_of<4>(views), at, axis, 2, Shader::mixed_softmax,
              cut_of_heads(views[0]->shape[axis + 1], heads[1], can_), constants,
              {p.read(), r.read()}, words);
}

// A card runs the steps, each over all of a block.
bool CardBackend::attend(const View&, const View&, const View&, const View&, const View&,
                         const View&, const View&, Index, const View&, const View&) {
  return false;
}
bool CardBackend::attend_gradient(const View&, const View&, const View&, const View&, const View&,
                                  const View&, const View&, Index, const View&, const View&,
                                  const View&, const View&, const View&, const View&, const View&,
                                  const View&, const View&) {
  return false;
}

bool CardBackend::mixed_softmax(const View& x, const View& before, const View& mask,
                                const View& after, const View& weights, const View& y) {
  const int axis = x.rank() - 2;
  const Index in = x.shape[axis], heads = before.shape[1], out = y.shape[axis];
  if (y.dtype != Dtype::f32 || std::max({in, heads, out}) > small_side) return false;
  if (y.size() == 0 || before.size() == 0 || !can_.folds_subgroups) return false;
  const bool keeps = weights.data != nullptr, mixes = after.data != nullptr,
             is_masked = mask.data != nullptr;
  run_mixed({&x, is_masked ? &mask : &x, keeps ? &weights : &y, &y}, before, mixes ? after : before,
            {is_masked, 0, keeps, mixes}, {in, heads, out});
  return true;
}

bool CardBackend::mixed_softmax_gradient(const View& x, const View& before, const View& weights,
                                         const View& after, const View& g, const View& dx,
                                         const View& dbefore, const View& dafter) {
  const int keys = x.rank() - 1, heads = keys - 1;
  const bool mixes = after.data != nullptr;
  const Temporary dlogits(*this, x.dtype, weights.shape, row_major(weights.shape));
  std::optional<Temporary> unwanted;
  if (!dx.data) unwanted.emplace(*this, x.dtype, x.shape, row_major(x.shape));
  run_mixed({&weights, &g, &dlogits.view(), unwanted ? &unwanted->view() : &dx}, before,
            mixes ? after : before, {0, 1, 0, mixes},
            {x.shape[heads], weights.shape[heads], g.shape[heads]});
  // The matrices' gradients are sums over all rows and keys.
  Labels of_first;
  for (int d = 0; d <= keys; ++d) of_first.push_back(static_cast<Label>(d));
  Labels of_second = of_first;
  of_second[heads] = static_cast<Label>(keys + 1);
  const Labels pair{of_first[heads], of_second[heads]};
  if (dbefore.data) contract(x, of_first, dlogits.view(), of_second, dbefore, pair);
  if (dafter.data) contract(weights, of_first, g, of_second, dafter, pair);
  return true;
}

void CardBackend::norm_rows(const View& x, const View* r, const View& scale, const View& bias,
                            bool center, double epsilon, const View* s, const View& y,
                            const View& stats) {
  const View& shift = bias.data ? bias : scale;
  const Window scales = window_of(scale), biases = window_of(shift);
  Words words;
  const auto bits = bits_of(epsilon, y.dtype);
  words.add(scales.first, scale.strides[0], biases.first, shift.strides[0], bits[0], bits[1]);
  run_rows<5>({&x, r ? r : &x, s ? s : &y, &y, &stats}, x.rank() - 1, 3,
              in(y.dtype, Shader::norm_f32), {center, r != nullptr}, {scales.read(), biases.read()},
              words);
}

bool CardBackend::norm(const View& x, const View& scale, const View& bias, bool center,
                       double epsilon, const View& y, const View& stats) {
  if (has(x.dtype)) norm_rows(x, nullptr, scale, bias, center, epsilon, nullptr, y, stats);
  return has(x.dtype);
}

bool CardBackend::add_norm(const View& x, const View& r, const View& scale, const View& bias,
                           bool center, double epsilon, const View& s, const View& y,
                           const View& stats) {
  if (has(x.dtype)) norm_rows(x, &r, scale, bias, center, epsilon, &s, y, stats);
  return has(x.dtype);
}

bool CardBackend::norm_gradient(const View& x, const View& scale, const View& g, const View& stats,
                                bool center, const View& dx, const View& dscale,
                                const View& dbias) {
  if (!has(x.dtype)) return false;
  const Temporary gh(*this, x.dtype, x.shape, row_major(x.shape));
  const Window scales = window_of(scale);
  Words words;
  words.add(scales.first, scale.strides[0]);
  run_rows<5>({&x, &g, &stats, &dx, &gh.view()}, x.rank() - 1, 2,
              in(x.dtype, Shader::norm_gradient_f32), {center}, {scales.read()}, words);
  // The vectors' gradients are sums over all rows.
  for (const auto& [from, to] : {std::pair(&gh.view(), &dscale), {&g, &dbias}}) {
    if (!to->data) continue;
    View sum{to->dtype, Shape(x.rank(), Index{1}), Strides(x.rank(), Index{0}), to->data};
    sum.shape.back() = x.shape.back(), sum.strides.back() = to->strides[0];
    fold(Fold::sum, *from, sum);
  }
  return true;
}

// y is the loss, or with its gradient g that of the logits.
void CardBackend::cross_entropy_rows(const View& logits, const View& targets, const View* g,
                                     const View& lse, const View& y) {
  // Numbers of a row are a dimension of its own in every view.
  const auto row = [&](const View& v) {
    View wide = v;
    if (v.rank() == 1) wide.shape.push_back(1), wide.strides.push_back(0);
    return wide;
  };
  const std::array<View, 5> wide{logits, row(targets), row(g ? *g : lse), row(lse), row(y)};
  run_rows<5>({&wide[0], &wide[1], &wide[2], &wide[3], &wide[4]}, 1, g ? 1 : 2,
              Shader::cross_entropy, {g != nullptr}, {}, {});
}

bool CardBackend::cross_entropy(const View& logits, const View& targets, const View& loss,
                                const View& lse) {
  if (loss.dtype != Dtype::f32) return false;
  cross_entropy_rows(logits, targets, nullptr, lse, loss);
  return true;
}

bool CardBackend::cross_entropy_gradient(const View& logits, const View& targets, const View& lse,
                                         const View& g, const View& dlogits) {
  if (dlogits.dtype != Dtype::f32) return false;
  cross_entropy_rows(logits, targets, &g, lse, dlogits);
  return true;
}

}  // namespace tete::vulkan
