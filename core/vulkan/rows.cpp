// Kernels over rows: softmax, norms and cross-entropy. A workgroup takes a row.
#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

// The views without a dimension, and their strides along it.
template <int N>
struct Along {
  Along(const std::array<const View*, N>& views, int axis)
      : rows(cpu_kernels::rows_along<N>(views, axis)), windows(windows_of<N>(views)) {
    rows.shape.pop_back();
    for (size_t v = 0; v < N; ++v) {
      rows.strides[v].pop_back();
      steps[v] = views[v]->strides[axis];
    }
  }

  // The sizes and views of a shader that includes rows.glsl, for rows of n.
  Call call(Shader shader, uint32_t width, const Loops<N>& inner,
            const std::array<Index, N>& offsets, Index n) const {
    Call call{shader, {width}, {}, {}, inner.size()};
    add_padded(call.words, inner.shape, 2, 1);
    call.words.add(n);
    for (size_t v = 0; v < N; ++v) {
      call.words.add(windows[v].first + offsets[v]);
      add_padded(call.words, inner.strides[v], 2, 0);
      call.words.add(steps[v]);
    }
    return call;
  }

  Loops<N> rows;
  std::array<Window, N> windows;
  std::array<Index, N> steps;
};

// The words of a vector.
void add_vector(Words& words, const Window& window, const View& v) {
  words.add(window.first);
  words.add(v.strides[0]);
}

}  // namespace

uint32_t CardBackend::row_width(Index n) const {
  return can_.is_emulated() ? 8 : n <= 512 || can_.most_invocations < 256 ? 64 : 256;
}

bool CardBackend::softmax(const View& x, const View& mask, int axis, const View& y) {
  if (y.dtype != Dtype::f32) return false;
  if (y.size() == 0) return true;
  const bool is_masked = mask.data != nullptr;
  const Along<3> along({&x, is_masked ? &mask : &x, &y}, axis);
  const Index n = x.shape[axis];
  for_each_part(along.rows, 2, [&](const Loops<3>& inner, const auto& at, Index) {
    Call call = along.call(Shader::softmax, row_width(n), inner, at, n);
    call.constants.push_back(is_masked);
    call.constants.push_back(0);
    call.buffers = {along.windows[0].read(), along.windows[1].read(), along.windows[2].written()};
    stream_.run(call);
  });
  return true;
}

bool CardBackend::softmax_gradient(const View& y, const View& g, int axis, const View& dx) {
  if (y.dtype != Dtype::f32) return false;
  if (y.size() == 0) return true;
  const Along<3> along({&y, &g, &dx}, axis);
  const Index n = y.shape[axis];
  for_each_part(along.rows, 2, [&](const Loops<3>& inner, const auto& at, Index) {
    Call call = along.call(Shader::softmax, row_width(n), inner, at, n);
    call.constants.push_back(0);
    call.constants.push_back(1);
    call.buffers = {along.windows[0].read(), along.windows[1].read(), along.windows[2].written()};
    stream_.run(call);
  });
  return true;
}

void CardBackend::norm_rows(const View& x, const View* r, const View& scale, const View& bias,
                            bool center, double epsilon, const View* s, const View& y,
                            const View& stats) {
  const Index n = x.shape.back();
  const Along<5> along({&x, r ? r : &x, s ? s : &y, &y, &stats}, x.rank() - 1);
  const View& shift = bias.data ? bias : scale;
  const Window scales = window_of(scale), biases = window_of(shift);
  for_each_part(along.rows, 2, [&](const Loops<5>& inner, const auto& at, Index) {
    Call call = along.call(y.dtype == Dtype::f64 ? Shader::norm_f64 : Shader::norm_f32,
                           row_width(n), inner, at, n);
    call.constants.push_back(center);
    call.constants.push_back(r != nullptr);
    add_vector(call.words, scales, scale);
    add_vector(call.words, biases, shift);
    call.words.add(static_cast<float>(epsilon));
    call.buffers = {along.windows[0].read(),
                    along.windows[1].read(),
                    scales.read(),
                    biases.read(),
                    along.windows[2].written(),
                    along.windows[3].written(),
                    along.windows[4].written()};
    stream_.run(call);
  });
}

bool CardBackend::norm(const View& x, const View& scale, const View& bias, bool center,
                       double epsilon, const View& y, const View& stats) {
  if (!has(x.dtype)) return false;
  if (stats.size() > 0) norm_rows(x, nullptr, scale, bias, center, epsilon, nullptr, y, stats);
  return true;
}

bool CardBackend::add_norm(const View& x, const View& r, const View& scale, const View& bias,
                           bool center, double epsilon, const View& s, const View& y,
                           const View& stats) {
  if (!has(x.dtype)) return false;
  if (stats.size() > 0) norm_rows(x, &r, scale, bias, center, epsilon, &s, y, stats);
  return true;
}

bool CardBackend::norm_gradient(const View& x, const View& scale, const View& g, const View& stats,
                                bool center, const View& dx, const View& dscale,
                                const View& dbias) {
  if (!has(x.dtype)) return false;
  const Index n = x.shape.back();
  const Temporary gh(*this, x.dtype, x.shape, row_major(x.shape));
  if (x.size() > 0) {
    const Along<5> along({&x, &g, &stats, &dx, &gh.view()}, x.rank() - 1);
    const Window scales = window_of(scale);
    for_each_part(along.rows, 2, [&](const Loops<5>& inner, const auto& at, Index) {
      Call call =
          along.call(x.dtype == Dtype::f64 ? Shader::norm_gradient_f64 : Shader::norm_gradient_f32,
                     row_width(n), inner, at, n);
      call.constants.push_back(center);
      add_vector(call.words, scales, scale);
      call.buffers = {along.windows[0].read(),    scales.read(),
                      along.windows[1].read(),    along.windows[2].read(),
                      along.windows[3].written(), along.windows[4].written()};
      stream_.run(call);
    });
  }
  // The vectors' gradients are sums over all rows.
  for (const auto& [from, to] : {std::pair(&gh.view(), &dscale), {&g, &dbias}}) {
    if (!to->data) continue;
    View sum{to->dtype, Shape(x.rank(), Index{1}), Strides(x.rank(), Index{0}), to->data};
    sum.shape.back() = n, sum.strides.back() = to->strides[0];
    fold(Fold::sum, *from, sum);
  }
  return true;
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

// y is the loss, or with its gradient g that of the logits.
void CardBackend::cross_entropy_rows(const View& logits, const View& targets, const View* g,
                                     const View& lse, const View& y) {
  const Index tokens = logits.shape[0], n = logits.shape[1];
  if (y.size() == 0) return;
  // Numbers of a row are a dimension of its own in every view.
  const auto row = [&](const View& v) {
    View wide = v;
    if (v.rank() == 1) wide.shape.push_back(1), wide.strides.push_back(0);
    return wide;
  };
  const std::array<View, 5> wide{logits, row(targets), row(g ? *g : lse), row(lse), row(y)};
  const Along<5> along({&wide[0], &wide[1], &wide[2], &wide[3], &wide[4]}, 1);
  const Loops<5> rows = along.rows;
  Call call = along.call(Shader::cross_entropy, row_width(n), rows, {}, n);
  call.groups = tokens;
  call.constants.push_back(g != nullptr);
  const auto& w = along.windows;
  call.buffers = {w[0].read(), w[1].read(), w[2].read(), g ? w[3].read() : w[3].written(),
                  w[4].written()};
  stream_.run(call);
}

}  // namespace tete::vulkan
