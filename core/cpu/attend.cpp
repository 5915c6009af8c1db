// Attention and its gradient, a few queries of all heads at a time, whose logits and weights stay
// in the caches. Heads may be mixed before and after the softmax, row by row:
//
//   j = q kᵀ, l = j B + b, w = softmax(l), u = w A, y = u v
//   du = g vᵀ, dw = du Aᵀ, dl = w (dw - Σ w dw), dj = dl Bᵀ
//   dq = dj k, dk = djᵀ q, dv = uᵀ g, dB = jᵀ dl, dA = wᵀ du
//
// B and A (`before` and `after`) mix heads. With one of them only, heads stay as they are on the
// other side; without both, each head is a sample of its own, l takes j's place and w that of l,
// and a long memory is taken in parts, so that logits and what they are made of stay in the caches:
// y is corrected by each part (Milakov, Gimelshein 2018, "Online normalizer calculation for
// softmax"), and Σ w dw is g·y (Dao et al. 2022, appendix B.2).
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "core/cpu/attend.hpp"
#include "core/cpu/small_matrix.hpp"

namespace tete::cpu_kernels {
namespace {

constexpr Index least_queries = 16;  // panels of k and v cost fewer more than they save
// Fewer mixed heads gain nothing, and lose a quarter where the memory is long.
constexpr Index least_heads = 8;
constexpr Index most_heads = 64;  // mixed heads; rows of more are too long for the caches
static_assert(most_heads <= PartRows<float>::most);
constexpr Index softmax_work = 8;  // multiplications that a weight takes as long as

// Calls body(head, first row, count) for each strip of each head.
template <class Body>
void for_each_strip(Index heads, const Group& group, Index width, const Body& body) {
  const auto strips = static_cast<Index>(group.strips.size());
  const Index numbers = group.seen.last - group.seen.first;
  const double work = static_cast<double>(heads * group.count * width * numbers);
  parallel_for(heads * strips, work, [&](Index unit) {
    const Index r = unit % strips * group.high;
    body(unit / strips, r, std::min(group.high, group.count - r));
  });
}

// Calls body(group, its number, part) for each part of the memory and each group that sees some of
// it; for the first part, where sums begin, for each group.
template <class T, class Body>
void for_each_group(const Operands<T>& of, const Body& body) {
  for (Index part = 0; part < of.parts(); ++part)
    for (Index number = 0; number < of.groups(); ++number) {
      const Group group = of.group(number, part);
      if (part == 0 || group.seen.first < group.seen.last) body(group, number, part);
    }
}

// to[r][m - seen.first] = Σ_c x[first + r, c] panels[c, m] for each head. Registers are stored
// whole: what they put behind a strip's last position counts for nothing.
template <class T>
void multiply_heads(Index heads, const Group& group, const Heads<const T>& x, Index width,
                    const PanelsOfHeads<T>& panels, const GroupSpace<T>& to) {
  for_each_strip(heads, group, width, [&](Index h, Index r, Index count) {
    const Seen& seen = group.seen_by(r);
    const Lines<T> lines = to.head(h).from(group.start(r));
    const Index lanes = rows<T>().product_columns / 2, end = rounded_up(seen.last, lanes);
    Product<T>{x[h][group.first + r], x.step, 1, 0, width}(count, panels[h], seen.first, end,
                                                           lines[r], lines.step, false);
  });
}

// y[first + r, j] (+)= Σ_m x[r][m - seen.first] panels[m, j] for each head.
template <class T>
void sum_keys(Index heads, const Group& group, const GroupSpace<T>& x,
              const PanelsOfHeads<T>& panels, Index width, const Heads<T>& y, bool add) {
  for_each_strip(heads, group, width, [&](Index h, Index r, Index count) {
    const Seen& seen = group.seen_by(r);
    const Lines<T> from = x.head(h).from(group.start(r)), to = y[h].from_row(group.first + r);
    Product<T>{from[r], from.step, 1, seen.first, seen.last}(count, panels[h], 0, width, to.data,
                                                             to.step, add);
  });
}

// stats before the first part.
template <class T>
void begin(T* stats) {
  stats[0] = -std::numeric_limits<T>::infinity(), stats[1] = 0;
}

// Puts u in the place of j in a row of mixed heads; w is memory.
template <class T>
void weigh_mixed_row(const Operands<T>& of, const Seen& seen, Index query, const Lines<T>& j,
                     const Lines<T>& w) {
  const Index numbers = seen.last - seen.first;
  for (Index h = 0; h < of.heads; ++h) begin(of.stats[h][query]);
  mix(of.before, of.in, of.heads, j.read(), numbers, w);
  SoftmaxRows<T>(of, seen, query, 1, w).weigh();
  for (Index h = 0; h < of.heads; ++h)
    of.sight(h).finish(query, w[h], seen.end() - seen.first, of.stats[h][query]);
  mix(of.after, of.heads, of.out, w.read(), numbers, j);
}

// Puts w in the place of j in a strip of queries, from this one on, for a part of the memory,
// without mixes; y: the sums with the weights of earlier parts, of all queries.
template <class T>
void weigh_strip(const Operands<T>& of, const Seen& seen, Index query, Index count,
                 const Lines<T>& j, bool is_first, const Lines<T>& y) {
  for (Index r = 0; is_first && r < count; ++r) begin(of.stats[0][query + r]);
  if (seen.first == seen.last) return;
  const auto factors = SoftmaxRows<T>(of, seen, query, count, j).weigh();
  for (Index r = 0; !is_first && r < count; ++r)
    if (const T factor = factors[static_cast<size_t>(r)]; factor != 1)
      scale_row(factor, y[query + r], of.e);
}

template <class T>
void attend_heads(const Operands<T>& of, const Heads<T>& y) {
  const PanelsOfHeads<T> keys_turned(of.in, of.c, of.keys, of.k, true),
      values(of.out, of.keys, of.e, of.v);
  const GroupSpace<T> pairs(of.together(), std::max(of.in, of.out), of.width);
  for_each_group(of, [&](const Group& group, Index, Index part) {
    multiply_heads(of.in, group, of.q, of.c, keys_turned, pairs);
    if (of.mixes)
      of.for_each_block(group, 1, [&](Index, Index first, Index end) {
        const LineSpace<T> space = of.row_space();
        for (Index r = first; r < end; ++r)
          weigh_mixed_row(of, group.seen_by(r), group.first + r, pairs.row(r).from(group.start(r)),
                          space.lines());
      });
    else
      for_each_strip(1, group, softmax_work, [&](Index, Index r, Index count) {
        weigh_strip(of, group.seen_by(r), group.first + r, count,
                    pairs.head(0).from_row(r).from(group.start(r)), part == 0, y[0]);
      });
    sum_keys(of.out, group, pairs, values, of.e, y, part > 0);
  });
  if (!of.mixes)
    for (Index i = 0; i < of.queries; ++i) of.sight(0).finish(i, y[0][i], of.e, of.stats[0][i]);
}

// Gradients are wanted where there is memory for them.
template <class T>
struct Gradients {
  Heads<T> dq, dk, dv;
  View dbias;  // of one sample
  PairSum<T>*dbefore, *dafter;
};

template <class T>
class AttentionGradient {
 public:
  // `first`: the number of this sample's first sum of dbefore and dafter.
  AttentionGradient(const Operands<T>& of, const Heads<const T>& g, const Gradients<T>& to,
                    Index first)
      : of_(of),
        g_(g),
        to_(to),
        first_(first),
        keys_turned_(of.in, of.c, of.keys, of.k, true),
        values_turned_(of.out, of.e, of.keys, of.v, true),
        keys_(to.dq.data ? of.in : 0, of.keys, of.c, of.k),
        dk_(to.dk.data ? of.in : 0, of.keys, of.c),
        dv_(to.dv.data ? of.out : 0, of.keys, of.e),
        pairs_(of.together(), of.in, of.width),
        changes_(of.together(), of.out, of.width),
        inner_(inner_products()) {}

  // How many sums of dbefore and dafter a sample has.
  static Index sums(const Operands<T>& of) { return of.groups() * of.blocks(); }

  void run() const {
    // rows_back and strip_back leave these there.
    const GroupSpace<T>&dj = of_.mixes ? pairs_ : changes_, &u = of_.mixes ? changes_ : pairs_;
    for_each_group(of_, [&](const Group& group, Index number, Index part) {
      multiply_heads(of_.in, group, of_.q, of_.c, keys_turned_, pairs_);
      multiply_heads(of_.out, group, g_, of_.e, values_turned_, changes_);
      if (of_.mixes) {
        of_.for_each_block(group, 4, [&](Index block, Index first, Index end) {
          rows_back(group, first, end, first_ + number * of_.blocks() + block);
        });
      } else {
        for_each_strip(1, group, 4 * softmax_work,
                       [&](Index, Index r, Index count) { strip_back(group, r, count); });
        add_to_bias(group);
      }
      if (to_.dq.data) sum_keys(of_.in, group, dj, keys_, of_.c, to_.dq, part > 0);
      if (to_.dv.data) add(of_.out, group, u, g_, of_.e, dv_);
      if (to_.dk.data) add(of_.in, group, dj, of_.q, of_.c, dk_);
    });
    if (to_.dk.data) dk_.copy_to(to_.dk);
    if (to_.dv.data) dv_.copy_to(to_.dv);
  }

 private:
  // Calls row_back for each of these rows, and puts 0 where others of the group see. sum: the
  // number of these rows' sums of dbefore and dafter.
  void rows_back(const Group& group, Index first, Index end, Index sum) const {
    const LineSpace<T> w = of_.row_space(), dw = of_.row_space();
    std::optional<typename PairSum<T>::Block> dbefore, dafter;
    if (to_.dbefore) dbefore.emplace(*to_.dbefore, sum);
    if (to_.dafter) dafter.emplace(*to_.dafter, sum);
    for (Index r = first; r < end; ++r) {
      const bool sees = !of_.sees_nothing(group.first + r);
      const Seen seen = sees ? group.seen_by(r) : Seen{};
      if (sees)
        row_back(group, r, w.lines(), dw.lines(), dbefore ? &*dbefore : nullptr,
                 dafter ? &*dafter : nullptr);
      clear_others(group, seen, pairs_.row(r), of_.in);
      clear_others(group, seen, changes_.row(r), of_.out);
    }
  }

  // Puts dj in the place of j and u in that of du, in row r of mixed heads.
  void row_back(const Group& group, Index r, const Lines<T>& w, const Lines<T>& dw,
                typename PairSum<T>::Block* dbefore, typename PairSum<T>::Block* dafter) const {
    const Seen& seen = group.seen_by(r);
    const Index numbers = seen.last - seen.first, query = group.first + r;
    const Lines<T> j = pairs_.row(r).from(group.start(r)),
                   du = changes_.row(r).from(group.start(r));
    mix(of_.before, of_.in, of_.heads, j.read(), numbers, w);
    mix(of_.after.transposed(), of_.out, of_.heads, du.read(), numbers, dw);
    softmax_back(seen, query, 1, w, dw);
    if (dafter) dafter->add(w.data, w.step, du.data, du.step, numbers);
    if (to_.dv.data) mix(of_.after, of_.heads, of_.out, w.read(), numbers, du);
    for (Index h = 0; h < of_.heads; ++h) add_to_bias(h, query, seen, dw[h]);
    if (dbefore) dbefore->add(j.data, j.step, dw.data, dw.step, numbers);
    mix(of_.before.transposed(), of_.heads, of_.in, dw.read(), numbers, j);
  }

  // Puts w in the place of j and dl in that of du in a strip without mixes, and 0 where others of
  // the group see.
  void strip_back(const Group& group, Index first, Index count) const {
    const Seen& seen = group.seen_by(first);
    const Index start = group.start(first);
    const Lines<T> w = pairs_.head(0).from_row(first), dw = changes_.head(0).from_row(first);
    if (seen.first < seen.last)
      softmax_back(seen, group.first + first, count, w.from(start), dw.from(start));
    for (Index r = 0; r < count; ++r) {
      const bool sees = !of_.sees_nothing(group.first + first + r);
      const Seen done = sees ? Seen{seen.first, seen.end()} : Seen{};
      clear_others(group, done, w.from_row(r), 1);
      clear_others(group, done, dw.from_row(r), 1);
    }
  }

  // Puts weights in the place of logits, and the gradient of these in that of theirs.
  void softmax_back(const Seen& seen, Index query, Index queries, const Lines<T>& w,
                    const Lines<T>& dw) const {
    const T* const inner = of_.in_parts() ? &inner_[static_cast<size_t>(query)] : nullptr;
    SoftmaxRows<T>(of_, seen, query, queries, w).weigh_again(dw.data, inner);
  }

  // g·y of each query, which is Σ w dw over all parts. It is summed as dw is: where a row has one
  // weight, of 1, dl is 0 to the bit.
  std::vector<T> inner_products() const {
    std::vector<T> made(static_cast<size_t>(of_.in_parts() ? of_.queries : 0));
    for (Index i = 0; i < std::ssize(made); ++i)
      for (Index p = 0; p < of_.e; p += block_steps) {
        T sum = 0;
        rows<T>().few_rows(1, 1, std::min(block_steps, of_.e - p), g_[0][i] + p, 0, 1,
                           of_.y[0][i] + p, 1, &sum, 1);
        made[static_cast<size_t>(i)] += sum;
      }
    return made;
  }

  // Puts 0 where others of the group see, but not where these do.
  static void clear_others(const Group& group, const Seen& seen, const Lines<T>& x, Index heads) {
    const Index end = group.seen.last - group.seen.first,
                from = std::clamp<Index>(seen.first - group.seen.first, 0, end),
                to = std::clamp<Index>(seen.last - group.seen.first, 0, end);
    for (Index h = 0; h < heads; ++h)
      std::fill(x[h], x[h] + from, T(0)), std::fill(x[h] + to, x[h] + end, T(0));
  }

  // One row after another, as those of a bias by distance overlap.
  void add_to_bias(const Group& group) const {
    for (Index r = 0; to_.dbias.data && r < group.count; ++r)
      add_to_bias(0, group.first + r, group.seen_by(r), changes_.row(r).data + group.start(r));
  }
  // A head's row that sees nothing adds nothing, as in sees_nothing.
  void add_to_bias(Index h, Index query, const Seen& seen, const T* dl) const {
    const View& to = to_.dbias;
    if (!to.data || of_.stats[h][query][1] == 0) return;
    const int row = to.rank() - 2, column = row + 1;
    const Index head = of_.heads > 1 ? h * to.strides[row - 1] : 0;
    T* const first = to.as<T>() + head + query * to.strides[row];
    add_row(dl, first + seen.first * to.strides[column], to.strides[column],
            seen.last - seen.first);
  }

  // to[m, j] += Σ_r x[r][m - seen.first] B[first + r, j] for each head. Rows that see nothing add
  // nothing.
  void add(Index heads, const Group& group, const GroupSpace<T>& x, const Heads<const T>& B,
           Index width, const SumsOfHeads<T>& to) const {
    PanelsOfHeads<T> panels(heads, group.count, width, B.from_row(group.first));
    for (Index r = 0; r < group.count; ++r)
      if (of_.sees_nothing(group.first + r)) panels.clear_line(r);
    const Index high = group.high, positions = 10 * high,
                numbers = group.seen.last - group.seen.first,
                pieces = pieces_of(numbers, positions);
    // Mixed heads have so long rows that each line of x and of the sums would be waited for.
    const bool fetches =
        of_.mixes && leaves_cache(std::max({of_.in, of_.heads, of_.out}), of_.width);
    const double work = static_cast<double>(heads * group.count * numbers * width);
    parallel_for(heads * pieces, work, [&](Index unit) {
      const Index h = unit / pieces, start = group.seen.first + unit % pieces * positions,
                  end = std::min(start + positions, group.seen.last);
      const Lines<T> from = x.head(h);
      for (Index m = start; m < end; m += high) {
        const Seen some{m, std::min(m + high, end)};
        const auto [first_row, end_row] = group.rows_that_see(some);
        const Index row = first_row / block_steps * block_steps;  // sums are cut at the same rows
        if (fetches) {
          fetch(from.from_row(first_row), end_row - first_row, m - group.seen.first + far_ahead,
                high);
          fetch(to[h].from_row(m + 2 * high), high, 0, width);
        }
        Product<T>{from[row] + m - group.seen.first, 1, from.step, row, end_row}(
            some.last - m, panels[h], 0, width, to[h][m], to[h].step, true);
      }
    });
  }

  const Operands<T>& of_;
  const Heads<const T> g_;
  const Gradients<T> to_;
  const Index first_;
  const PanelsOfHeads<T> keys_turned_, values_turned_, keys_;
  const SumsOfHeads<T> dk_, dv_;
  const GroupSpace<T> pairs_, changes_;
  const std::vector<T> inner_;  // for parts
};

}  // namespace

bool CpuBackend::attends(Index queries, Index mixed_heads) const {
  const bool fit = mixed_heads == 0 || (mixed_heads >= least_heads && mixed_heads <= most_heads);
  return rows<float>().product_is_fast && queries >= least_queries && fit;
}

bool CpuBackend::attend(const View& q, const View& k, const View& v, const View& before,
                        const View& after, const View& bias, const View& mask, Index shown,
                        const View& y, const View& stats) {
  const auto heads = [&](const View& x) { return x.shape[x.rank() - 3]; };
  const bool mixes = before.data || after.data,
             fit = !mixes || std::max({heads(q), heads(stats), heads(v)}) <= most_heads;
  if (!rows<float>().product_is_fast || !fit || q.size() == 0 || k.size() == 0 || v.size() == 0 ||
      stats.size() == 0)
    return false;
  const Call<value_views> call({q, k, v, bias, mask, stats, y}, before, after, shown);
  visit(y.dtype, [&]<class T>() {
    call.for_each_sample([&](Index, const auto& at) {
      attend_heads(call.template operands<T>(at), call.template matrices<T>(of_y, at));
    });
  });
  call.finish();
  return true;
}

bool CpuBackend::attend_gradient(const View& q, const View& k, const View& v, const View& before,
                                 const View& after, const View& bias, const View& mask, Index shown,
                                 const View& y, const View& stats, const View& g, const View& dq,
                                 const View& dk, const View& dv, const View& dbias,
                                 const View& dbefore, const View& dafter) {
  const Call<gradient_views> call({q, k, v, bias, mask, stats, g, y, dq, dk, dv, dbias}, before,
                                  after, shown);
  visit(g.dtype, [&]<class T>() {
    const Index sums = AttentionGradient<T>::sums(call.template operands<T>({}));
    const auto sum = [&](const View& matrix) {
      return matrix.data ? std::make_unique<PairSum<T>>(matrix.shape[0], matrix.shape[1],
                                                        call.samples() * sums)
                         : nullptr;
    };
    const auto first = sum(dbefore), second = sum(dafter);
    call.for_each_sample([&](Index number, const auto& at) {
      const Operands<T> of = call.template operands<T>(at);
      const auto matrices = [&](int view) { return call.template matrices<T>(view, at); };
      const Gradients<T> wanted{matrices(to_q), matrices(to_k),
                                matrices(to_v), call.template from<T>(to_bias, at),
                                first.get(),    second.get()};
      AttentionGradient<T>(of, matrices(of_g).read(), wanted, number * sums).run();
    });
    if (first) first->finish(dbefore.as<T>(), dbefore.strides[0], dbefore.strides[1]);
    if (second) second->finish(dafter.as<T>(), dafter.strides[0], dafter.strides[1]);
  });
  call.finish();
  return true;
}

}  // namespace tete::cpu_kernels
