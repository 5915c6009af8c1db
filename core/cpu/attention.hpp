// Parts of attention's kernels: products of strips of rows with matrices in panels, and weights of
// the positions that a query sees.
#pragma once
#include <algorithm>
#include <limits>

#include "core/cpu/lines.hpp"
#include "core/cpu/multiply.hpp"
#include "core/cpu/relaid.hpp"
#include "core/cpu/rows.hpp"

namespace tete::cpu_kernels {

inline constexpr Index least_queries = 16;  // panels of k and v cost fewer more than they save
// Fewer mixed heads leave products' rows idle: nanoGPT's step of 4 takes 28 ms in steps and 38 so.
inline constexpr Index least_heads = 8;
inline constexpr Index most_heads = 64;  // mixed heads; rows of more are too long for the caches

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

// C[i, j - from] (+)= Σ_p a[i·row + (p - first)·column] B[p, j] for i < m <= product_rows, j in
// [from, to), p in [first, last); `from` is the first column of a panel. 0 if there is no p and
// nothing to add to.
template <class T>
struct Product {
  const T* a;
  Index row, column, first, last;

  void operator()(Index m, const Panels<T>& B, Index from, Index to, T* c, Index step,
                  bool add) const {
    const Index wide = rows<T>().product_columns;
    for (Index i = 0; first == last && !add && i < m; ++i)
      std::fill_n(c + i * step, to - from, T(0));
    for (Index j = from; j < to; j += wide)
      for (Index p = first; p < last; p += block_steps)
        rows<T>().product(m, std::min(block_steps, last - p), a + (p - first) * column, row, column,
                          B.at(j, p), wide, c + (j - from), step, std::min(wide, to - j),
                          add || p > first);
  }
};

// Positions of the memory, from the first column of a panel on.
struct Seen {
  Index first, last;

  // Kernels of rows take whole lanes up to here: lines have room for them.
  Index end() const { return first + (last - first + lanes - 1) / lanes * lanes; }
  static constexpr Index lanes = 64;
};

// to[i·column] += x[i] for i < n.
template <class T>
void add_row(const T* x, T* to, Index column, Index n) {
  rows<T>().binary[static_cast<int>(Binary::add)](to, column, x, 1, to, column, n);
}

// The positions that the queries of one matrix see: the first shown + i for query i, at most all,
// but for those where the mask, if there is one, is 0. A bias, if there is one, is added to their
// logits.
template <class T>
struct Sight {
  Index keys, shown;
  Lines<const T> mask, bias;

  // The number of positions that row i sees before a mask.
  Index shown_to(Index i) const { return std::clamp<Index>(std::min(shown, keys) + i, 0, keys); }

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

  // Weights of row i over these positions in the place of its logits; stats: as of
  // Rows::softmax_of_first.
  void weigh(Index i, const Seen& seen, T* x, T* stats) const {
    complete(i, seen, x);
    rows<T>().softmax_of_first(x, shown_of(i, seen), seen.end() - seen.first, stats);
    if (!mask.data || stats[1] == stats[1] || !sees_nothing(i, seen)) return;
    std::fill(x, x + seen.end() - seen.first, T(0));
    stats[0] = stats[1] = 0;
  }
  // The same weights once more, from the stats of all positions.
  void weigh_again(Index i, const Seen& seen, T* x, const T* stats) const {
    complete(i, seen, x);
    rows<T>().softmax_of_first_again(x, shown_of(i, seen), seen.end() - seen.first, stats);
  }

 private:
  bool hides(Index i, Index key) const { return mask.data && mask[i][key] == 0; }
  // Row i's positions, from seen.first on.
  Index shown_of(Index i, const Seen& seen) const {
    return std::clamp<Index>(shown_to(i) - seen.first, 0, seen.last - seen.first);
  }
  // Adds the bias to row i's logits. Those that the mask hides become -inf, and what fills the last
  // lanes 0.
  void complete(Index i, const Seen& seen, T* x) const {
    const Index n = seen.last - seen.first;
    std::fill(x + n, x + seen.end() - seen.first, T(0));
    if (bias.data) add_row(bias[i] + seen.first, x, 1, n);
    if (!mask.data) return;
    const T hidden = -std::numeric_limits<T>::infinity();
    rows<T>().select(mask[i] + seen.first, 1, x, 1, &hidden, 0, x, 1, n);
  }
  bool sees_nothing(Index i, const Seen& seen) const {
    const T* const shows = mask[i] + seen.first;
    return std::find_if(shows, shows + shown_of(i, seen), [](T x) { return x != 0; }) ==
           shows + shown_of(i, seen);
  }
};

// to[m, j] += Σ_i x[i][m - seen.first] B[i, j], i < count, for the positions seen.
template <class T>
void add_turned(Index count, const Seen& seen, const Lines<T>& x, const Panels<T>& B, Index n,
                const Lines<T>& to) {
  const Index high = rows<T>().product_rows;
  for (Index m = seen.first; m < seen.last; m += high)
    Product<T>{x.data + (m - seen.first), 1, x.step, 0, count}(std::min(high, seen.last - m), B, 0,
                                                               n, to[m], to.step, true);
}

// The gradient of a bias, rows in any strides; no data if it is not wanted.
template <class T>
struct BiasGradient {
  T* data;
  Index row, column;

  BiasGradient(const View& x, Index offset)
      : data(x.data ? x.as<T>() + offset : nullptr),
        row(x.data ? x.strides[x.rank() - 2] : 0),
        column(x.data ? x.strides[x.rank() - 1] : 0) {}
  // Adds row i's changes of the logits at these positions.
  void add(Index i, const Seen& seen, const T* d) const {
    if (data) add_row(d, data + i * row + seen.first * column, column, seen.last - seen.first);
  }
};

// The views of a call of attention, in this order; a gradient has others from of_g on.
enum AttentionView {
  of_q,
  of_k,
  of_v,
  of_bias,
  of_mask,
  of_stats,
  of_y,
  value_views,
  of_g = of_y,  // in y's place
  to_q,
  to_k,
  to_v,
  to_bias,
  gradient_views
};

inline Relaid rowwise(const View& x) { return rowwise(x, x.rank() - 1); }

// The views of attention's value in rows of stride 1, each copied once if it is not.
class ValueViews {
 public:
  ValueViews(const View& q, const View& k, const View& v, const View& bias, const View& mask,
             const View& stats, const View& y)
      : read_{rowwise(q), rowwise(k), rowwise(v), rowwise(bias), rowwise(mask)},
        made_(rowwise(y)),
        all_{&read_[0].source(), &read_[1].source(), &read_[2].source(),
             &read_[3].source(), &read_[4].source(), &stats,
             &made_.target()} {}
  ValueViews(const ValueViews&) = delete;
  // In the order of AttentionView.
  const std::array<const View*, value_views>& all() const { return all_; }
  // Copies y to where it belongs.
  void finish() const { made_.finish(); }

 private:
  std::array<Relaid, 5> read_;
  const Relaid made_;
  std::array<const View*, value_views> all_;
};

// The views of attention's gradient in rows of stride 1, each copied once if it is not.
class GradientViews {
 public:
  GradientViews(const View& q, const View& k, const View& v, const View& bias, const View& mask,
                const View& stats, const View& g, const View& dq, const View& dk, const View& dv,
                const View& dbias)
      : read_{rowwise(q), rowwise(k), rowwise(v), rowwise(bias), rowwise(mask), rowwise(g)},
        made_{rowwise(dq), rowwise(dk), rowwise(dv)},
        all_{&read_[0].source(),
             &read_[1].source(),
             &read_[2].source(),
             &read_[3].source(),
             &read_[4].source(),
             &stats,
             &read_[5].source(),
             &made_[0].target(),
             &made_[1].target(),
             &made_[2].target(),
             &dbias} {}
  GradientViews(const GradientViews&) = delete;
  // In the order of AttentionView.
  const std::array<const View*, gradient_views>& all() const { return all_; }
  // True if samples, all before the last so many dimensions, have one gradient of a bias.
  bool share_bias(int own) const {
    const View& x = *all_[to_bias];
    return x.data && x.rank() > own && x.strides[0] == 0;
  }
  // Copies the gradients that are wanted to where they belong.
  void finish() const {
    for (const Relaid& made : made_)
      if (made.target().data) made.finish();
  }

 private:
  std::array<Relaid, 6> read_;
  std::array<Relaid, 3> made_;
  std::array<const View*, gradient_views> all_;
};

}  // namespace tete::cpu_kernels
