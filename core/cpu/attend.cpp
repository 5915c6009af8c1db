// Attention and its gradient, matrix by matrix, product_rows queries at a time, whose logits and
// weights stay in the caches:
//
//   w = softmax(q kᵀ), y = w v    dv = wᵀ g, d = w (g vᵀ - Σ w g vᵀ), dq = d k, dk = dᵀ q
#include <algorithm>
#include <limits>

#include "core/cpu/lines.hpp"
#include "core/cpu/multiply.hpp"
#include "core/cpu/relaid.hpp"
#include "core/cpu/rows.hpp"
#include "core/cpu/walk.hpp"

namespace tete::cpu_kernels {
namespace {

constexpr Index most_weights = 32768;  // whose rows are added to dk and dv together
constexpr Index least_queries = 16;    // of fewer, laying out k and v takes longer than it saves

// A matrix of k lines in panels, or those of its transpose.
template <class T>
class Panels {
 public:
  Panels(Index k, Index n, const Lines<const T>& x, bool turned = false)
      : k_(k),
        n_(n),
        memory_(static_cast<size_t>(k * (n + rows<T>().product_columns)) * sizeof(T)) {
    const Index row = turned ? 1 : x.step, column = turned ? x.step : 1;
    lay_out<T>(k, n, {x.data, row, column}, memory_.template as<T>());
  }
  void clear_line(Index p) {
    const Index wide = rows<T>().product_columns;
    for (Index j = 0; j < n_; j += wide)
      std::fill_n(memory_.template as<T>() + j * k_ + p * wide, wide, T(0));
  }
  // The panel that begins with this column, from line p on.
  const T* at(Index column, Index p = 0) const {
    return memory_.template as<T>() + column * k_ + p * rows<T>().product_columns;
  }

 private:
  const Index k_, n_;
  const Scratch memory_;
};

// C[i, j] (+)= Σ_p a[i·row + p·column] B[p, j] for i < m <= product_rows, j in [from, to), p in
// [first, last); `from` is the first column of a panel.
template <class T>
struct Product {
  const T* a;
  Index row, column, first, last;

  void operator()(Index m, const Panels<T>& B, Index from, Index to, T* c, Index step,
                  bool add) const {
    const Index wide = rows<T>().product_columns;
    for (Index j = from; j < to; j += wide)
      for (Index p = first; p < last; p += block_steps)
        rows<T>().product(m, std::min(block_steps, last - p), a + (p - first) * column, row, column,
                          B.at(j, p), wide, c + j, step, std::min(wide, to - j), add || p > first);
  }
};

// Positions of the memory, from the first column of a panel on.
struct Seen {
  Index first, last;

  // Kernels of rows take whole lanes up to here: lines have room for them.
  Index end() const { return first + (last - first + lanes - 1) / lanes * lanes; }
  static constexpr Index lanes = 64;
};

// One matrix of each operand.
template <class T>
struct Matrices {
  Index queries, keys, c, e, shown;
  Lines<const T> q, k, v, mask;
  Lines<T> stats;

  // The number of positions that row i sees before a mask.
  Index shown_to(Index i) const { return std::clamp<Index>(std::min(shown, keys) + i, 0, keys); }
  bool hides(Index i, Index key) const { return mask.data && mask[i][key] == 0; }

  // The positions that at least one of these rows sees lie between.
  Seen seen(Index i, Index count) const {
    Seen all{keys, 0};
    for (Index r = i + count; r-- > i;) {
      Index last = shown_to(r), first = 0;
      while (last > all.last && hides(r, last - 1)) --last;
      all.last = std::max(all.last, last);
      while (first < std::min(all.first, last) && hides(r, first)) ++first;
      if (first < last) all.first = std::min(all.first, first);
    }
    return {std::min(all.first, all.last) / Seen::lanes * Seen::lanes, all.last};
  }

  // Row i's positions, from seen.first on.
  Index shown_of(Index i, const Seen& seen) const {
    return std::clamp<Index>(shown_to(i) - seen.first, 0, seen.last - seen.first);
  }
  // Weights of row i in the place of its logits.
  void weigh(Index i, const Seen& seen, T* x) const {
    hide(i, seen, x);
    rows<T>().softmax_of_first(x + seen.first, shown_of(i, seen), seen.end() - seen.first,
                               stats[i]);
    if (!mask.data || stats[i][1] == stats[i][1] || !sees_nothing(i, seen)) return;
    std::fill(x + seen.first, x + seen.end(), T(0));
    stats[i][0] = stats[i][1] = 0;
  }
  void weigh_again(Index i, const Seen& seen, T* x) const {
    hide(i, seen, x);
    rows<T>().softmax_of_first_again(x + seen.first, shown_of(i, seen), seen.end() - seen.first,
                                     stats[i]);
  }
  void logits(Index i, Index count, const Panels<T>& keys_turned, const Seen& of,
              const Lines<T>& x) const {
    Product<T>{q[i], q.step, 1, 0, c}(count, keys_turned, of.first, of.last, x.data, x.step, false);
  }

 private:
  // Logits that a mask hides become -inf, and what fills the last lanes 0.
  void hide(Index i, const Seen& seen, T* x) const {
    std::fill(x + seen.last, x + seen.end(), T(0));
    const T* const shows = mask.data ? mask[i] : nullptr;
    for (Index j = seen.first; shows && j < seen.last; ++j)
      x[j] = shows[j] != 0 ? x[j] : -std::numeric_limits<T>::infinity();
  }
  bool sees_nothing(Index i, const Seen& seen) const {
    const T* const shows = mask[i] + seen.first;
    return std::find_if(shows, shows + shown_of(i, seen), [](T x) { return x != 0; }) ==
           shows + shown_of(i, seen);
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
    for (Index r = 0; r < count; ++r) of.weigh(i + r, seen, w[r]);
    if (seen.first == seen.last)
      for (Index r = 0; r < count; ++r) std::fill_n(y[i + r], of.e, T(0));
    Product<T>{w[0] + seen.first, w.step, 1, seen.first, seen.last}(count, values, 0, of.e, y[i],
                                                                    y.step, false);
  }
}

template <class T>
class AttentionGradient {
 public:
  AttentionGradient(const Matrices<T>& of, const Lines<const T>& g, const Lines<T>& dq,
                    const Lines<T>& dk, const Lines<T>& dv)
      : of_(of),
        g_(g),
        dq_(dq),
        dk_(dk),
        dv_(dv),
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
      if (dv_.data) add(count, all, w, Panels<T>(count, of_.e, {g_[i], g_.step}), of_.e, dv_);
      if (dk_.data) add_queries(i, count, all, d);
    }
  }

 private:
  // Weights and the gradients of logits of rows i …, with zeros at what others of `all` see.
  void strip(Index i, Index count, const Seen& all, const Lines<T>& w, const Lines<T>& d) const {
    const Seen seen = of_.seen(i, count);
    of_.logits(i, count, keys_turned_, seen, w);
    Product<T>{g_[i], g_.step, 1, 0, of_.e}(count, values_turned_, seen.first, seen.last, d.data,
                                            d.step, false);
    for (Index r = 0; r < count; ++r) {
      of_.weigh_again(i + r, seen, w[r]);
      std::fill(d[r] + seen.last, d[r] + seen.end(), T(0));
      rows<T>().softmax_gradient(w[r] + seen.first, d[r] + seen.first, d[r] + seen.first,
                                 seen.end() - seen.first);
      for (const Lines<T>& x : {w, d}) {
        std::fill(x[r] + all.first, x[r] + std::clamp(seen.first, all.first, all.last), T(0));
        std::fill(x[r] + std::clamp(seen.last, all.first, all.last), x[r] + all.last, T(0));
      }
    }
    if (!dq_.data) return;
    if (seen.first == seen.last)
      for (Index r = 0; r < count; ++r) std::fill_n(dq_[i + r], of_.c, T(0));
    Product<T>{d[0] + seen.first, d.step, 1, seen.first, seen.last}(count, keys_, 0, of_.c, dq_[i],
                                                                    dq_.step, false);
  }

  // The weights of a row that sees nothing are 0, but 0 times a NaN of the query is none.
  void add_queries(Index i, Index count, const Seen& seen, const Lines<T>& d) const {
    Panels<T> queries(count, of_.c, {of_.q[i], of_.q.step});
    for (Index r = 0; r < count; ++r)
      if (of_.stats[i + r][1] == 0) queries.clear_line(r);
    add(count, seen, d, queries, of_.c, dk_);
  }

  // to[m, j] += Σ_i x[i, m] B[i, j].
  static void add(Index count, const Seen& seen, const Lines<T>& x, const Panels<T>& B, Index n,
                  const Lines<T>& to) {
    const Index high = rows<T>().product_rows;
    for (Index m = seen.first; m < seen.last; m += high)
      Product<T>{x.data + m, 1, x.step, 0, count}(std::min(high, seen.last - m), B, 0, n, to[m],
                                                  to.step, true);
  }

  const Matrices<T>& of_;
  const Lines<const T>& g_;
  const Lines<T>&dq_, &dk_, &dv_;
  const Panels<T> keys_turned_, values_turned_, keys_;
};

// body(Matrices, offsets) for each matrix of q and its fellows; offsets are those of the views.
// `passes`: how often each pair of a query and a key is met, compared with the value's two
// products.
template <class T, int N, class Body>
void for_each_matrix(const std::array<const View*, N>& views, Index shown, double passes,
                     const Body& body) {
  const View &q = *views[0], &k = *views[1], &v = *views[2];
  const Loops<N> loops = matrices_of<N>(views);
  const Index queries = q.shape[q.rank() - 2], keys = k.shape[k.rank() - 2], c = q.shape.back(),
              e = v.shape.back();
  const double pairs = static_cast<double>(loops.rows()) * static_cast<double>(queries * keys);
  parallel_for(loops.rows(), passes * pairs * static_cast<double>(c + e), [&](Index i) {
    const RowCursor<N> at(loops, i);
    const auto lines = [&](int view) { return lines_at<const T>(*views[view], at[view]); };
    body(Matrices<T>{queries, keys, c, e, shown, lines(0), lines(1), lines(2), lines(3),
                     lines_at<T>(*views[4], at[4])},
         at);
  });
}

}  // namespace

bool CpuBackend::attends(Index queries) const {
  return rows<float>().product_is_fast && queries >= least_queries;
}

bool CpuBackend::attend(const View& q, const View& k, const View& v, const View& mask, Index shown,
                        const View& y, const View& stats) {
  const int last = q.rank() - 1;
  if (!rows<float>().product_is_fast || q.size() == 0 || k.size() == 0 || v.size() == 0)
    return false;
  Relaid queries = rowwise(q, last), keys = rowwise(k, last), values = rowwise(v, last),
         seen = rowwise(mask, last), to = rowwise(y, last);
  visit(y.dtype, [&]<class T>() {
    for_each_matrix<T, 6>(
        {&queries.source(), &keys.source(), &values.source(), &seen.source(), &stats, &to.target()},
        shown, 1, [&](const Matrices<T>& of, const RowCursor<6>& at) {
          value(of, lines_at<T>(to.target(), at[5]));
        });
  });
  to.finish();
  return true;
}

bool CpuBackend::attend_gradient(const View& q, const View& k, const View& v, const View& mask,
                                 Index shown, const View& stats, const View& g, const View& dq,
                                 const View& dk, const View& dv) {
  const int last = q.rank() - 1;
  Relaid queries = rowwise(q, last), keys = rowwise(k, last), values = rowwise(v, last),
         seen = rowwise(mask, last), upstream = rowwise(g, last), to_q = rowwise(dq, last),
         to_k = rowwise(dk, last), to_v = rowwise(dv, last);
  visit(g.dtype, [&]<class T>() {
    for_each_matrix<T, 9>(
        {&queries.source(), &keys.source(), &values.source(), &seen.source(), &stats,
         &upstream.source(), &to_q.target(), &to_k.target(), &to_v.target()},
        shown, 2.5, [&](const Matrices<T>& of, const RowCursor<9>& at) {
          const Lines<T> dq_at = lines_at<T>(to_q.target(), at[6]),
                         dk_at = lines_at<T>(to_k.target(), at[7]),
                         dv_at = lines_at<T>(to_v.target(), at[8]);
          const Lines<const T> g_at = lines_at<const T>(upstream.source(), at[5]);
          AttentionGradient<T>(of, g_at, dq_at, dk_at, dv_at).run();
        });
  });
  for (Relaid* made : {&to_q, &to_k, &to_v})
    if (made->target().data) made->finish();
  return true;
}

}  // namespace tete::cpu_kernels
