// Attention and its gradient, matrix by matrix, product_rows queries at a time, whose logits and
// weights stay in the caches:
//
//   w = softmax(q kᵀ + b), y = w v    dv = wᵀ g, d = w (g vᵀ - Σ w g vᵀ), dq = d k, dk = dᵀ q
#include <algorithm>

#include "core/cpu/attention.hpp"
#include "core/cpu/relaid.hpp"

namespace tete::cpu_kernels {
namespace {

constexpr Index most_weights = 32768;  // whose rows are added to dk and dv together

// One matrix of each operand.
template <class T>
struct Matrices {
  Index queries, keys, c, e;
  Lines<const T> q, k, v;
  Lines<T> stats;
  Sight<T> sight;

  Seen seen(Index i, Index count) const { return sight.seen(i, count); }
  void logits(Index i, Index count, const Panels<T>& keys_turned, const Seen& of,
              const Lines<T>& x) const {
    Product<T>{q[i], q.step, 1, 0, c}(count, keys_turned, of.first, of.last, x.data + of.first,
                                      x.step, false);
  }
};

template <class T>
void value(const Matrices<T>& of, const Lines<T>& y) {
  const Index high = rows<T>().product_rows;
  const Panels<T> keys_turned(of.c, of.keys, of.k, true), values(of.keys, of.e, of.v);
  const LineSpace<T> space(high, of.keys);
  const Lines<T> w = space.lines();
  for (Index i = 0; i < of.queries; i += high) {
    const Index count = std::min(high, of.queries - i);
    const Seen seen = of.seen(i, count);
    of.logits(i, count, keys_turned, seen, w);
    for (Index r = 0; r < count; ++r)
      of.sight.weigh(i + r, seen, w[r] + seen.first, of.stats[i + r]);
    Product<T>{w[0] + seen.first, w.step, 1, seen.first, seen.last}(count, values, 0, of.e, y[i],
                                                                    y.step, false);
  }
}

template <class T>
class AttentionGradient {
 public:
  // The views, and their offsets.
  AttentionGradient(const Matrices<T>& of, const std::array<const View*, gradient_views>& views,
                    const RowCursor<gradient_views>& at)
      : of_(of),
        g_(lines_at<const T>(*views[of_g], at[of_g])),
        dq_(lines_at<T>(*views[to_q], at[to_q])),
        dk_(lines_at<T>(*views[to_k], at[to_k])),
        dv_(lines_at<T>(*views[to_v], at[to_v])),
        dbias_(*views[to_bias], at[to_bias]),
        keys_turned_(of.c, of.keys, of.k, true),
        values_turned_(of.e, of.keys, of.v, true),
        keys_(of.keys, of.c, of.k) {}

  void run() const {
    const Index high = rows<T>().product_rows,
                group = std::max(high, most_weights / std::max<Index>(1, of_.keys) / high * high),
                most = std::min(group, of_.queries);
    const LineSpace<T> weights(most, of_.keys), changes(most, of_.keys);
    const Lines<T> w = weights.lines(), d = changes.lines();
    for (Index j = 0; j < of_.keys; ++j) {
      if (dk_.data) std::fill_n(dk_[j], of_.c, T(0));
      if (dv_.data) std::fill_n(dv_[j], of_.e, T(0));
    }
    for (Index i = 0; i < of_.queries; i += group) {
      const Index count = std::min(group, of_.queries - i);
      const Seen all = of_.seen(i, count);
      for (Index r = 0; r < count; r += high)
        strip(i + r, std::min(high, count - r), all, {w[r], w.step}, {d[r], d.step});
      if (dv_.data) add(i, count, all, w, g_, of_.e, dv_);
      if (dk_.data) add(i, count, all, d, of_.q, of_.c, dk_);
    }
  }

 private:
  // Weights and the gradients of logits of rows i …, with zeros at what others of `all` see.
  void strip(Index i, Index count, const Seen& all, const Lines<T>& w, const Lines<T>& d) const {
    const Seen seen = of_.seen(i, count);
    of_.logits(i, count, keys_turned_, seen, w);
    Product<T>{g_[i], g_.step, 1, 0, of_.e}(count, values_turned_, seen.first, seen.last,
                                            d.data + seen.first, d.step, false);
    for (Index r = 0; r < count; ++r) {
      of_.sight.weigh_again(i + r, seen, w[r] + seen.first, of_.stats[i + r]);
      std::fill(d[r] + seen.last, d[r] + seen.end(), T(0));
      rows<T>().softmax_gradient(w[r] + seen.first, d[r] + seen.first, d[r] + seen.first,
                                 seen.end() - seen.first);
      if (of_.stats[i + r][1] != 0) dbias_.add(i + r, seen, d[r] + seen.first);
      for (const Lines<T>& x : {w, d}) {
        std::fill(x[r] + all.first, x[r] + std::clamp(seen.first, all.first, all.last), T(0));
        std::fill(x[r] + std::clamp(seen.last, all.first, all.last), x[r] + all.last, T(0));
      }
    }
    if (!dq_.data) return;
    Product<T>{d[0] + seen.first, d.step, 1, seen.first, seen.last}(count, keys_, 0, of_.c, dq_[i],
                                                                    dq_.step, false);
  }

  // Rows that see nothing add nothing: their weights are 0, but 0 times NaN is NaN.
  void add(Index i, Index count, const Seen& seen, const Lines<T>& x, const Lines<const T>& B,
           Index n, const Lines<T>& to) const {
    Panels<T> panels(count, n, B.from_row(i));
    for (Index r = 0; r < count; ++r)
      if (of_.stats[i + r][1] == 0) panels.clear_line(r);
    add_turned(count, seen, x.from(seen.first), panels, n, to);
  }

  const Matrices<T>& of_;
  const Lines<const T> g_;
  const Lines<T> dq_, dk_, dv_;
  const BiasGradient<T> dbias_;
  const Panels<T> keys_turned_, values_turned_, keys_;
};

// body(Matrices, offsets) for each matrix of q and its fellows; offsets are those of the views.
// `passes`: how often each pair of a query and a key is met, compared with the value's two
// products.
template <class T, int N, class Body>
void for_each_matrix(const std::array<const View*, N>& views, Index shown, double passes,
                     const Body& body) {
  const View &q = *views[of_q], &k = *views[of_k], &v = *views[of_v];
  const Loops<N> loops = outer_loops<N>(views);
  const Index queries = q.shape[q.rank() - 2], keys = k.shape[k.rank() - 2], c = q.shape.back(),
              e = v.shape.back();
  const double pairs = static_cast<double>(loops.rows()) * static_cast<double>(queries * keys);
  parallel_for(loops.rows(), passes * pairs * static_cast<double>(c + e), [&](Index i) {
    const RowCursor<N> at(loops, i);
    const auto lines = [&](int view) { return lines_at<const T>(*views[view], at[view]); };
    const Sight<T> sight{keys, shown, lines(of_mask), lines(of_bias)};
    body(Matrices<T>{queries, keys, c, e, lines(of_q), lines(of_k), lines(of_v),
                     lines_at<T>(*views[of_stats], at[of_stats]), sight},
         at);
  });
}

// The views of one sample, with a first dimension of 1: samples that share a bias add to its
// gradient one after another.
template <int N>
class OneSample {
 public:
  OneSample(const std::array<const View*, N>& all, Index sample) {
    for (int v = 0; v < N; ++v) {
      View& one = one_[v] = *all[v];
      views_[v] = &one;
      if (!one.data) continue;
      const Index start = sample * one.strides[0] * static_cast<Index>(size_of(one.dtype));
      one.data = static_cast<char*>(one.data) + start, one.shape[0] = 1;
    }
  }
  OneSample(const OneSample&) = delete;
  const std::array<const View*, N>& views() const { return views_; }

 private:
  std::array<View, N> one_;
  std::array<const View*, N> views_;
};

}  // namespace

bool CpuBackend::attends(Index queries, Index mixed_heads) const {
  const bool fit = mixed_heads == 0 || (mixed_heads >= least_heads && mixed_heads <= most_heads);
  return rows<float>().product_is_fast && queries >= least_queries && fit;
}

bool CpuBackend::attend(const View& q, const View& k, const View& v, const View& bias,
                        const View& mask, Index shown, const View& y, const View& stats) {
  if (!rows<float>().product_is_fast || q.size() == 0 || k.size() == 0 || v.size() == 0)
    return false;
  const ValueViews views(q, k, v, bias, mask, stats, y);
  visit(y.dtype, [&]<class T>() {
    for_each_matrix<T, value_views>(views.all(), shown, 1,
                                    [&](const Matrices<T>& of, const RowCursor<value_views>& at) {
                                      value(of, lines_at<T>(*views.all()[of_y], at[of_y]));
                                    });
  });
  views.finish();
  return true;
}

bool CpuBackend::attend_gradient(const View& q, const View& k, const View& v, const View& bias,
                                 const View& mask, Index shown, const View& stats, const View& g,
                                 const View& dq, const View& dk, const View& dv,
                                 const View& dbias) {
  const GradientViews views(q, k, v, bias, mask, stats, g, dq, dk, dv, dbias);
  const auto run = [&](const std::array<const View*, gradient_views>& some) {
    visit(g.dtype, [&]<class T>() {
      for_each_matrix<T, gradient_views>(
          some, shown, 2.5, [&](const Matrices<T>& of, const RowCursor<gradient_views>& at) {
            AttentionGradient<T>(of, some, at).run();
          });
    });
  };
  if (views.share_bias(2))
    for (Index i = 0; i < q.shape[0]; ++i) run(OneSample<gradient_views>(views.all(), i).views());
  else run(views.all());
  views.finish();
  return true;
}

}  // namespace tete::cpu_kernels
