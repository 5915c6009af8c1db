// Attention whose heads are mixed before and after the softmax, and its gradient, a few queries of
// all heads at a time: what lies between two products is mixed row by row, in the second-level
// cache.
//
//   j = q kᵀ, l = j B + b, w = softmax(l), u = w A, y = u v
//   du = g vᵀ, dw = du Aᵀ, dl = w (dw - Σ w dw), dj = dl Bᵀ
//   dq = dj k, dk = djᵀ q, dv = uᵀ g, dB = jᵀ dl, dA = wᵀ du
//
// B and A (`before` and `after`) mix heads; without one of them, heads stay as they are.
#include <algorithm>
#include <memory>
#include <optional>

#include "core/cpu/heads.hpp"
#include "core/cpu/mix.hpp"
#include "core/cpu/relaid.hpp"
#include "core/cpu/small_matrix.hpp"

namespace tete::cpu_kernels {
namespace {

constexpr Index most_queries = 36;        // in a group: as fast as 24 or 48
constexpr Index most_logits = 1 << 23;    // in a group, or those of product_rows queries if more
constexpr Index most_in_lanes = 1 << 13;  // terms of an outer product that are summed in lanes

// Queries that are worked on together, and the positions that at least one of them sees.
struct Group {
  Index first, count;
  Seen seen;

  Index numbers() const { return seen.last - seen.first; }
};

// One sample of each operand.
template <class T>
struct MixedOperands {
  Index in, heads, out, queries, keys, c, e, shown;
  Mix<T> before, after;
  Heads<const T> q, k, v, bias, mask;
  Index masks;  // one for each head, or 1 if all share it or there is none
  Heads<T> stats;

  Sight<T> sight(Index h) const { return {keys, shown, mask[h], bias[h]}; }
  Seen seen(Index i, Index count) const {
    Seen all = sight(0).seen(i, count);
    for (Index h = 1; h < masks; ++h) {
      const Seen more = sight(h).seen(i, count);
      if (more.first == more.last) continue;
      if (all.first == all.last) all = more;
      all = {std::min(all.first, more.first), std::max(all.last, more.last)};
    }
    return all;
  }
  bool sees_nothing(Index query) const {
    for (Index h = 0; h < heads; ++h)
      if (stats[h][query][1] != 0) return false;
    return true;
  }

  // Queries of a group.
  Index together() const {
    const Index high = rows<T>().product_rows, widest = std::max({in, heads, out}),
                some = std::min(most_queries, most_logits / (widest * keys)) / high * high;
    return std::min(std::max(high, some), queries);
  }
  Index groups() const { return (queries + together() - 1) / together(); }
  Group group(Index number) const {
    const Index first = number * together(), count = std::min(together(), queries - first);
    return {first, count, seen(first, count)};
  }
  // The multiplications of both mixes for one query.
  double mixing() const {
    return static_cast<double>(heads * keys) * static_cast<double>(in + out);
  }
};

// Calls body(head, first row, count) for each head and each product_rows rows of the group.
template <class T, class Body>
void for_each_strip(Index heads, const Group& group, Index width, const Body& body) {
  const Index high = rows<T>().product_rows;
  const double work = static_cast<double>(heads * group.count * width * group.numbers());
  parallel_for(heads, work, [&](Index h) {
    for (Index r = 0; r < group.count; r += high) body(h, r, std::min(high, group.count - r));
  });
}

// to[r][m - seen.first] = Σ_c x[first + r, c] panels[c, m] for each head.
template <class T>
void multiply(Index heads, const Group& group, const Heads<const T>& x, Index width,
              const PanelsOfHeads<T>& panels, const GroupSpace<T>& to) {
  for_each_strip<T>(heads, group, width, [&](Index h, Index r, Index count) {
    Product<T>{x[h][group.first + r], x.step, 1, 0, width}(
        count, panels[h], group.seen.first, group.seen.last, to.head(h)[r], to.head(h).step, false);
  });
}

// y[first + r, j] = Σ_m x[r][m - seen.first] panels[m, j] for each head.
template <class T>
void sum_keys(Index heads, const Group& group, const GroupSpace<T>& x,
              const PanelsOfHeads<T>& panels, Index width, const Heads<T>& y) {
  for_each_strip<T>(heads, group, width, [&](Index h, Index r, Index count) {
    const Lines<T> to = y[h].from_row(group.first + r);
    Product<T>{x.head(h)[r], x.head(h).step, 1, group.seen.first, group.seen.last}(
        count, panels[h], 0, width, to.data, to.step, false);
  });
}

template <class T>
void attend_heads(const MixedOperands<T>& of, const Heads<T>& y) {
  const PanelsOfHeads<T> keys_turned(of.in, of.c, of.keys, of.k, true),
      values(of.out, of.keys, of.e, of.v);
  const GroupSpace<T> pairs(of.together(), std::max(of.in, of.out), of.keys);
  for (Index number = 0; number < of.groups(); ++number) {
    const Group group = of.group(number);
    multiply(of.in, group, of.q, of.c, keys_turned, pairs);
    parallel_for(group.count, static_cast<double>(group.count) * of.mixing(), [&](Index r) {
      const LineSpace<T> space(of.heads, of.keys);
      const Lines<T> w = space.lines();
      mix(of.before, of.in, of.heads, pairs.row(r).read(), group.numbers(), w);
      for (Index h = 0; h < of.heads; ++h)
        of.sight(h).weigh(group.first + r, group.seen, w[h], of.stats[h][group.first + r]);
      mix(of.after, of.heads, of.out, w.read(), group.numbers(), pairs.row(r));
    });
    sum_keys(of.out, group, pairs, values, of.e, y);
  }
}

// Gradients are wanted where there is memory for them.
template <class T>
struct MixedGradients {
  Heads<T> dq, dk, dv;
  View dbias;  // of one sample
  PairSum<T>*dbefore, *dafter;
};

template <class T>
class MixedAttentionGradient {
 public:
  // `first`: the number of this sample's first sum of dbefore and dafter.
  MixedAttentionGradient(const MixedOperands<T>& of, const Heads<const T>& g,
                         const MixedGradients<T>& to, Index first)
      : of_(of),
        g_(g),
        to_(to),
        first_(first),
        keys_turned_(of.in, of.c, of.keys, of.k, true),
        values_turned_(of.out, of.e, of.keys, of.v, true),
        keys_(to.dq.data ? of.in : 0, of.keys, of.c, of.k),
        dk_(to.dk.data ? of.in : 0, of.keys, of.c),
        dv_(to.dv.data ? of.out : 0, of.keys, of.e),
        pairs_(of.together(), of.in, of.keys),
        changes_(of.together(), of.out, of.keys) {}

  // How many sums of dbefore and dafter a sample has.
  static Index sums(const MixedOperands<T>& of) { return of.groups() * blocks(of); }

  void run() const {
    for (Index number = 0; number < of_.groups(); ++number) {
      const Group group = of_.group(number);
      multiply(of_.in, group, of_.q, of_.c, keys_turned_, pairs_);
      multiply(of_.out, group, g_, of_.e, values_turned_, changes_);
      parallel_for(
          blocks(of_), 4 * static_cast<double>(group.count) * of_.mixing(),
          [&](Index block) { mix_block_back(group, block, first_ + number * blocks(of_)); });
      if (to_.dq.data) sum_keys(of_.in, group, pairs_, keys_, of_.c, to_.dq);
      if (to_.dv.data) add(of_.out, group, changes_, g_, of_.e, dv_);
      if (to_.dk.data) add(of_.in, group, pairs_, of_.q, of_.c, dk_);
    }
    if (to_.dk.data) dk_.copy_to(to_.dk);
    if (to_.dv.data) dv_.copy_to(to_.dv);
  }

 private:
  // Rows whose outer products are summed in lanes, and how many such blocks a group has.
  static Index rows_of_block(Index keys) { return std::clamp<Index>(most_in_lanes / keys, 1, 8); }
  static Index blocks(const MixedOperands<T>& of) {
    const Index rows = rows_of_block(of.keys);
    return (of.together() + rows - 1) / rows;
  }

  void mix_block_back(const Group& group, Index block, Index first) const {
    const LineSpace<T> w(of_.heads, of_.keys), dw(of_.heads, of_.keys);
    std::optional<typename PairSum<T>::Block> dbefore, dafter;
    if (to_.dbefore) dbefore.emplace(*to_.dbefore, first + block);
    if (to_.dafter) dafter.emplace(*to_.dafter, first + block);
    const Index rows = rows_of_block(of_.keys), end = std::min(group.count, (block + 1) * rows);
    for (Index r = block * rows; r < end; ++r)
      mix_row_back(group, r, w.lines(), dw.lines(), dbefore ? &*dbefore : nullptr,
                   dafter ? &*dafter : nullptr);
  }

  // Puts dj in the place of j and, if dv is wanted, u in the place of du, in row r.
  void mix_row_back(const Group& group, Index r, const Lines<T>& w, const Lines<T>& dw,
                    typename PairSum<T>::Block* dbefore, typename PairSum<T>::Block* dafter) const {
    const Index numbers = group.numbers(), query = group.first + r;
    const Lines<T> j = pairs_.row(r), du = changes_.row(r);
    if (of_.sees_nothing(query)) {  // 0 times a NaN of its logits is NaN
      for (Index h = 0; h < of_.in; ++h) std::fill_n(j[h], numbers, T(0));
      for (Index h = 0; h < of_.out; ++h) std::fill_n(du[h], numbers, T(0));
      return;
    }
    mix(of_.before, of_.in, of_.heads, j.read(), numbers, w);
    for (Index h = 0; h < of_.heads; ++h)
      of_.sight(h).weigh_again(query, group.seen, w[h], of_.stats[h][query]);
    mix(of_.after.transposed(), of_.out, of_.heads, du.read(), numbers, dw);
    if (dafter) dafter->add(w.data, w.step, du.data, du.step, numbers);
    if (to_.dv.data) mix(of_.after, of_.heads, of_.out, w.read(), numbers, du);
    for (Index h = 0; h < of_.heads; ++h) {
      rows<T>().softmax_gradient(w[h], dw[h], dw[h], numbers);
      add_to_bias(h, query, group.seen, dw[h]);
    }
    if (dbefore) dbefore->add(j.data, j.step, dw.data, dw.step, numbers);
    mix(of_.before.transposed(), of_.heads, of_.in, dw.read(), numbers, j);
  }

  // A head's row that sees nothing adds nothing: its weights are 0, but 0 times NaN is NaN.
  void add_to_bias(Index h, Index query, const Seen& seen, const T* dl) const {
    const View& to = to_.dbias;
    if (!to.data || of_.stats[h][query][1] == 0) return;
    BiasGradient<T>(to, h * to.strides[to.rank() - 3]).add(query, seen, dl);
  }

  // to[m, j] += Σ_r x[r][m - seen.first] B[first + r, j] for each head. Rows that see nothing add
  // nothing: x is 0 there, but 0 times NaN is NaN.
  void add(Index heads, const Group& group, const GroupSpace<T>& x, const Heads<const T>& B,
           Index width, const SumsOfHeads<T>& to) const {
    const double work = static_cast<double>(heads * group.count * group.numbers() * width);
    parallel_for(heads, work, [&](Index h) {
      Panels<T> panels(group.count, width, B[h].from_row(group.first));
      for (Index r = 0; r < group.count; ++r)
        if (of_.sees_nothing(group.first + r)) panels.clear_line(r);
      add_turned(group.count, group.seen, x.head(h), panels, width, to[h]);
    });
  }

  const MixedOperands<T>& of_;
  const Heads<const T> g_;
  const MixedGradients<T> to_;
  const Index first_;
  const PanelsOfHeads<T> keys_turned_, values_turned_, keys_;
  const SumsOfHeads<T> dk_, dv_;
  const GroupSpace<T> pairs_, changes_;
};

// The views of one call, the first ones in the order of AttentionView.
template <int N>
class MixedCall {
 public:
  MixedCall(const std::array<const View*, N>& views, const View& before, const View& after,
            Index shown)
      : views_(views),
        before_(before),
        after_(after),
        shown_(shown),
        loops_(outer_loops<N>(views, 3)) {}

  template <class T>
  MixedOperands<T> operands(const RowCursor<N>& at) const {
    const View &q = *views_[of_q], &k = *views_[of_k], &v = *views_[of_v], &mask = *views_[of_mask],
               &stats = *views_[of_stats];
    const auto heads = [](const View& x) { return x.shape[x.rank() - 3]; };
    return {.in = heads(q),
            .heads = heads(stats),
            .out = heads(v),
            .queries = q.shape[q.rank() - 2],
            .keys = k.shape[k.rank() - 2],
            .c = q.shape.back(),
            .e = v.shape.back(),
            .shown = shown_,
            .before = Mix<T>(before_),
            .after = Mix<T>(after_),
            .q = heads_at<const T>(q, at[of_q]),
            .k = heads_at<const T>(k, at[of_k]),
            .v = heads_at<const T>(v, at[of_v]),
            .bias = heads_at<const T>(*views_[of_bias], at[of_bias]),
            .mask = heads_at<const T>(mask, at[of_mask]),
            .masks = mask.data && mask.strides[mask.rank() - 3] != 0 ? heads(stats) : 1,
            .stats = heads_at<T>(stats, at[of_stats])};
  }
  // Calls body(number, at) for each sample: side by side if they may be and there are enough for
  // all threads, otherwise each is shared among them.
  template <class Body>
  void for_each_sample(const Body& body, bool side_by_side = true) const {
    const View &q = *views_[of_q], &k = *views_[of_k];
    const double keys = static_cast<double>(k.shape[k.rank() - 2]);
    const auto run = [&](Index i) { body(i, RowCursor<N>(loops_, i)); };
    if (side_by_side && samples() >= threads_here())
      parallel_for(samples(), 2 * keys * static_cast<double>(q.size()), run);
    else
      for (Index i = 0; i < samples(); ++i) run(i);
  }
  Index samples() const { return loops_.rows(); }
  RowCursor<N> first() const { return {loops_, 0}; }

 private:
  const std::array<const View*, N> views_;
  const View &before_, &after_;
  const Index shown_;
  const Loops<N> loops_;
};

}  // namespace

bool CpuBackend::attend_mixed(const View& q, const View& k, const View& v, const View& before,
                              const View& after, const View& bias, const View& mask, Index shown,
                              const View& y, const View& stats) {
  const int heads = q.rank() - 3;
  const Index most = std::max({q.shape[heads], stats.shape[heads], v.shape[heads]});
  if (!rows<float>().product_is_fast || most > most_heads || q.size() == 0 || k.size() == 0 ||
      v.size() == 0 || stats.size() == 0)
    return false;
  const ValueViews views(q, k, v, bias, mask, stats, y);
  const MixedCall<value_views> call(views.all(), before, after, shown);
  visit(y.dtype, [&]<class T>() {
    call.for_each_sample([&](Index, const RowCursor<value_views>& at) {
      attend_heads(call.template operands<T>(at), heads_at<T>(*views.all()[of_y], at[of_y]));
    });
  });
  views.finish();
  return true;
}

bool CpuBackend::attend_mixed_gradient(const View& q, const View& k, const View& v,
                                       const View& before, const View& after, const View& bias,
                                       const View& mask, Index shown, const View& stats,
                                       const View& g, const View& dq, const View& dk,
                                       const View& dv, const View& dbias, const View& dbefore,
                                       const View& dafter) {
  const GradientViews views(q, k, v, bias, mask, stats, g, dq, dk, dv, dbias);
  const MixedCall<gradient_views> call(views.all(), before, after, shown);
  visit(g.dtype, [&]<class T>() {
    const Index sums = MixedAttentionGradient<T>::sums(call.template operands<T>(call.first()));
    const auto sum = [&](const View& matrix) {
      return matrix.data ? std::make_unique<PairSum<T>>(matrix.shape[0], matrix.shape[1],
                                                        call.samples() * sums)
                         : nullptr;
    };
    const auto first = sum(dbefore), second = sum(dafter);
    const auto run = [&](Index number, const RowCursor<gradient_views>& at) {
      const MixedOperands<T> of = call.template operands<T>(at);
      const auto heads = [&](int view) { return heads_at<T>(*views.all()[view], at[view]); };
      View to_one = dbias;
      if (dbias.data) to_one.data = dbias.as<T>() + at[to_bias];
      const MixedGradients<T> wanted{heads(to_q), heads(to_k), heads(to_v),
                                     to_one,      first.get(), second.get()};
      MixedAttentionGradient<T>(of, heads(of_g).read(), wanted, number * sums).run();
    };
    // Samples of one bias add to its gradient one after another.
    call.for_each_sample(run, !views.share_bias(3));
    if (first) first->finish(dbefore.as<T>(), dbefore.strides[0], dbefore.strides[1]);
    if (second) second->finish(dafter.as<T>(), dafter.strides[0], dafter.strides[1]);
  });
  views.finish();
  return true;
}

}  // namespace tete::cpu_kernels
