// One call of attention: its views, its samples, and the groups of queries of a sample.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "core/cpu/heads.hpp"
#include "core/cpu/mix.hpp"
#include "core/cpu/relaid.hpp"
#include "core/memory_parts.hpp"

namespace tete::cpu_kernels {

inline constexpr Index most_weights = 1 << 15;   // of a group of plain heads
inline constexpr Index most_mixed = 1 << 18;     // of a group of mixed heads, all of them together
inline constexpr Index enough_queries = 36;      // where these are fewer; 24 and 48 are as fast
inline constexpr Index most_logits = 1 << 23;    // but no more than memory should hold
inline constexpr Index most_in_lanes = 1 << 13;  // terms of an outer product summed in lanes

// Queries that are worked on together, in strips of product_rows.
struct Group {
  Index first, count;
  Seen seen;                 // by at least one of them
  std::vector<Seen> strips;  // by at least one of each strip
  Index high;                // rows of a strip

  const Seen& seen_by(Index r) const { return strips[static_cast<size_t>(r / high)]; }
  // Rows of pairs begin at seen.first; those of a strip's at this place.
  Index start(Index r) const { return std::max<Index>(0, seen_by(r).first - seen.first); }
  // The rows of strips that see some of these positions, and those between: from the first one up
  // to the end; 0 and 0 if none does.
  std::pair<Index, Index> rows_that_see(const Seen& some) const {
    const auto sees = [&](const Seen& strip) { return strip.overlaps(some); };
    const auto first = std::find_if(strips.begin(), strips.end(), sees);
    if (first == strips.end()) return {0, 0};
    const auto last = std::find_if(strips.rbegin(), strips.rend(), sees);
    return {(first - strips.begin()) * high, std::min((strips.rend() - last) * high, count)};
  }
};

// One sample of each operand.
template <class T>
struct Operands {
  bool mixes;
  Index in, heads, out;  // heads of q and k, of the weights, of v
  Index queries, keys, c, e, shown;
  Index width;  // positions of a part of the memory; all, if heads are mixed
  Mix<T> before, after;
  Heads<const T> q, k, v, bias, mask, y;  // y: for the gradient, where it takes parts
  Index masks;  // one for each head, or 1 if all share it or there is none
  Heads<T> stats;

  Sight<T> sight(Index h) const { return {keys, shown, mask[h], bias[h]}; }
  Seen seen(Index i, Index count, const Seen& part) const {
    Seen all = sight(0).seen(i, count, part);
    for (Index h = 1; h < masks; ++h) all = united(all, sight(h).seen(i, count, part));
    return all;
  }
  // True if the value found that no head of the query sees anything. Gradients leave such a row
  // out: its weights are 0, but 0 times a NaN is NaN.
  bool sees_nothing(Index query) const {
    for (Index h = 0; h < heads; ++h)
      if (stats[h][query][1] != 0) return false;
    return true;
  }

  // Queries of a group.
  Index together() const {
    const Index high = rows<T>().product_rows, numbers = std::max({in, heads, out}) * width,
                enough = std::min(enough_queries, most_logits / numbers),
                some = mixes ? std::max(enough, most_mixed / numbers) : most_weights / numbers;
    return std::min(std::max(high, some / high * high), queries);
  }
  Index groups() const { return pieces_of(queries, together()); }
  Index parts() const { return pieces_of(keys, width); }
  bool in_parts() const { return width < keys; }
  // A group, and the positions of a part of the memory that it sees.
  Group group(Index number, Index part) const {
    const Index first = number * together(), high = rows<T>().product_rows;
    Group group{first, std::min(together(), queries - first), {}, {}, high};
    const Seen all{part * width, std::min((part + 1) * width, keys)};
    for (Index r = 0; r < group.count; r += high) {
      group.strips.push_back(seen(first + r, std::min(high, group.count - r), all));
      group.seen = united(group.seen, group.strips.back());
    }
    return group;
  }
  // Rows that one thread takes together, as their outer products are summed in lanes, and how many
  // such blocks a group has.
  Index rows_of_block() const { return std::clamp<Index>(most_in_lanes / width, 1, 8); }
  Index blocks() const { return pieces_of(together(), rows_of_block()); }
  // Calls body(block, first row, end) for each block of a group of mixed heads. passes: how often
  // weights are met.
  template <class Body>
  void for_each_block(const Group& group, double passes, const Body& body) const {
    const double work = passes * static_cast<double>(group.count * heads * width * (in + out));
    const Index rows = rows_of_block();
    parallel_for(pieces_of(group.count, rows), work, [&](Index block) {
      body(block, block * rows, std::min(group.count, (block + 1) * rows));
    });
  }
  // Memory for one row of all mixed heads.
  LineSpace<T> row_space() const { return {heads, width}; }
};

// The rows that a softmax takes together: a strip's queries, or all mixed heads of one.
template <class T>
class SoftmaxRows {
 public:
  using Numbers = std::array<T, PartRows<T>::most>;

  // Adds biases and masks to the logits x of these positions of the memory.
  SoftmaxRows(const Operands<T>& of, const Seen& seen, Index query, Index queries,
              const Lines<T>& x)
      : part_{x.data, x.step, shown_.data(), of.mixes ? of.heads : queries,
              seen.end() - seen.first},
        stats_(of.stats[0][query]),
        stats_step_(of.mixes ? of.stats.head : of.stats.step) {
    for (Index r = 0; r < part_.rows; ++r)
      shown_[static_cast<size_t>(r)] = of.mixes ? of.sight(r).complete(query, seen, x[r])
                                                : of.sight(0).complete(query + r, seen, x[r]);
  }
  SoftmaxRows(const SoftmaxRows&) = delete;  // part_ points into it

  // Puts weights in the place of logits. Returns what to multiply those of earlier parts by.
  Numbers weigh() const {
    Numbers factors;
    rows<T>().softmax_of_part(part_, stats_, stats_step_, factors.data());
    return factors;
  }
  // The same weights once more, and the gradient of logits in the place of theirs, whose rows are
  // as far apart. inner: Σ w dw of each row over all parts; null if this is the only one.
  void weigh_again(T* dw, const T* inner) const {
    rows<T>().softmax_of_part_again(part_, stats_, stats_step_);
    PartRows<T> changes = part_;
    changes.x = dw;
    rows<T>().softmax_gradient_of_part(changes, part_.x, inner);
  }

 private:
  std::array<Index, PartRows<T>::most> shown_;
  const PartRows<T> part_;
  T* const stats_;
  const Index stats_step_;
};

// The views of a call, in this order; a gradient has others from of_g on.
enum CallView {
  of_q,
  of_k,
  of_v,
  of_bias,
  of_mask,
  of_stats,
  of_y,
  value_views,
  of_g = of_y,  // in y's place
  of_result,
  to_q,
  to_k,
  to_v,
  to_bias,
  gradient_views
};

// One call: its views in rows of stride 1, each copied once if it is not, and its samples.
template <int N>
class Call {
 public:
  using Offsets = std::array<Index, N>;  // of one sample, in each view

  Call(const std::array<View, N>& given, const View& before, const View& after, Index shown)
      : before_(before), after_(after), shown_(shown) {
    relaid_.reserve(N);
    for (int v = 0; v < N; ++v) {
      const bool stays = v == to_bias && N == gradient_views;  // kernels add to it
      relaid_.push_back(stays ? Relaid(given[v], given[v].strides)
                              : rowwise(given[v], given[v].rank() - 1));
      views_[v] = is_made(v) ? relaid_[v].target() : relaid_[v].source();
    }
    const Seen seen = seen_by_any();
    if (seen.first < seen.last) crop(seen);
    std::array<View, N> units = views_;
    const View& last = views_[N - 1];
    if (N == gradient_views && last.data && last.rank() > own() && last.strides[0] == 0) {
      in_turn_ = last.shape[0];
      for (View& x : units)
        if (x.data) x.shape.erase(0), x.strides.erase(0);
    }
    std::array<const View*, N> pointers;
    for (int v = 0; v < N; ++v) pointers[v] = &units[v];
    loops_ = outer_loops<N>(pointers, own());
  }

  // Calls body(number, offsets) for each sample: samples that add to the same gradient of a bias
  // one after another, others side by side, unless heads are mixed and there are fewer samples than
  // threads: then each sample is shared among them. Strips of one head are too short for that.
  template <class Body>
  void for_each_sample(const Body& body) const {
    const auto run = [&](Index unit) {
      const RowCursor<N> at(loops_, unit);
      for (Index i = 0; i < in_turn_; ++i) {
        Offsets offsets = at.offsets();
        for (int v = 0; v < N; ++v)
          if (views_[v].data) offsets[v] += i * views_[v].strides[0];
        body(unit * in_turn_ + i, offsets);
      }
    };
    const Index enough = mixes() ? threads_here() : 2;
    if (loops_.rows() >= enough) return parallel_for(loops_.rows(), work(), run);
    for (Index unit = 0; unit < loops_.rows(); ++unit) run(unit);
  }
  Index samples() const { return loops_.rows() * in_turn_; }

  template <class T>
  Operands<T> operands(const Offsets& at) const {
    const auto heads = [&](int v) { return mixes() ? views_[v].shape[views_[v].rank() - 3] : 1; };
    const auto size = [&](int v, int from_last) {
      return views_[v].shape[views_[v].rank() - from_last];
    };
    const View& mask = views_[of_mask];
    const bool masks_differ = mixes() && mask.data && mask.strides[mask.rank() - 3] != 0;
    return {.mixes = mixes(),
            .in = heads(of_q),
            .heads = heads(of_stats),
            .out = heads(of_v),
            .queries = size(of_q, 2),
            .keys = size(of_k, 2),
            .c = size(of_q, 1),
            .e = size(of_v, 1),
            .shown = shown_,
            .width = width(),
            .before = Mix<T>(before_),
            .after = Mix<T>(after_),
            .q = matrices<const T>(of_q, at),
            .k = matrices<const T>(of_k, at),
            .v = matrices<const T>(of_v, at),
            .bias = matrices<const T>(of_bias, at),
            .mask = matrices<const T>(of_mask, at),
            .y = matrices<const T>(N == value_views ? of_y : of_result, at),
            .masks = masks_differ ? heads(of_stats) : 1,
            .stats = matrices<T>(of_stats, at)};
  }
  // The matrices of a sample's heads in view v.
  template <class T>
  Heads<T> matrices(int v, const Offsets& at) const {
    return heads_at<T>(views_[v], at[v]);
  }
  // A view that begins with this sample.
  template <class T>
  View from(int v, const Offsets& at) const {
    View view = views_[v];
    if (view.data) view.data = view.as<T>() + at[v];
    return view;
  }
  // Copies what was computed to where it belongs.
  void finish() const {
    for (int v = 0; v < N; ++v)
      if (is_made(v) && views_[v].data) relaid_[v].finish();
  }

 private:
  static bool is_made(int v) {
    return N == value_views ? v == of_y || v == of_stats : v > of_result;
  }
  bool mixes() const { return before_.data || after_.data; }
  // The positions of a part, in whole lanes: all with mixes, or for a gradient without y.
  Index width() const {
    const View& k = views_[of_k];
    const Index keys = k.shape[k.rank() - 2], parts = memory_parts(keys);
    const bool whole = parts == 1 || mixes() || (N == gradient_views && !views_[of_result].data);
    return whole ? keys : Seen{0, pieces_of(keys, parts)}.end();
  }
  // The positions that a query of one of the samples sees, and those between.
  Seen seen_by_any() const {
    const View& k = views_[of_k];
    View mask = views_[of_mask];
    const Index keys = k.shape[k.rank() - 2], queries = views_[of_q].shape[k.rank() - 2];
    Seen all;
    visit(k.dtype, [&]<class T>() {
      const auto see = [&](const Lines<const T>& lines) {
        const Sight<T> sight{keys, shown_, lines, {}};
        all = united(all, sight.seen(0, queries, {0, keys}));
      };
      if (!mask.data) return see({});
      for (int d = 0; d + 2 < mask.rank(); ++d)
        if (mask.strides[d] == 0) mask.shape[d] = std::min<Index>(1, mask.shape[d]);
      const Loops<1> loops = outer_loops<1>({&mask});
      for (Index i = 0; i < loops.rows(); ++i)
        see(lines_at<const T>(mask, RowCursor<1>(loops, i).offsets()[0]));
    });
    return all;
  }
  // Leaves the rest of the memory out; the gradients of what nobody sees are 0.
  void crop(const Seen& seen) {
    const Index keys = views_[of_k].shape[views_[of_k].rank() - 2];
    const auto part = [](View x, int axis, Index first, Index last) {
      const Index offset = first * x.strides[axis] * static_cast<Index>(size_of(x.dtype));
      x.data = static_cast<char*>(x.data) + offset;
      x.shape[axis] = last - first;
      return x;
    };
    for (int v = 0; v < N; ++v) {
      View& x = views_[v];
      const bool is_gradient = N == gradient_views && v > of_result,
                 adds = is_gradient && v == to_bias,
                 has_rows = v == of_k || v == of_v || (is_gradient && (v == to_k || v == to_v)),
                 has_columns = v == of_bias || v == of_mask || adds;
      if (!x.data || !(has_rows || has_columns)) continue;
      const int axis = x.rank() - (has_rows ? 2 : 1);
      if (is_gradient && !adds) {
        cpu().fill(0, part(x, axis, 0, seen.first));
        cpu().fill(0, part(x, axis, seen.last, keys));
      }
      x = part(x, axis, seen.first, seen.last);
    }
    shown_ -= seen.first;
  }
  int own() const { return mixes() ? 3 : 2; }  // dimensions of one sample
  double work() const {
    const View &q = views_[of_q], &k = views_[of_k];
    return 2 * static_cast<double>(k.shape[k.rank() - 2]) * static_cast<double>(q.size());
  }

  const View &before_, &after_;
  Index shown_;
  std::vector<Relaid> relaid_;
  std::array<View, N> views_;
  Loops<N> loops_;
  Index in_turn_ = 1;  // samples that share the gradient of a bias
};

}  // namespace tete::cpu_kernels
