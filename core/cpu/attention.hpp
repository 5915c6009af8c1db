// Parts of attention's kernels: products of strips of rows with matrices in panels, and weights of
// the positions that a query sees.
#pragma once
#include <algorithm>
#include <limits>

#include "core/cpu/lines.hpp"
#include "core/cpu/multiply.hpp"
#include "core/cpu/rows.hpp"

namespace tete::cpu_kernels {

// A matrix of k lines in panels, or those of its transpose.
template <class T>
class Panels {
 public:
  // The elements that they take: whole lines of a cache.
  static Index size(Index k, Index n) {
    return rounded_up(k * (n + rows<T>().product_columns), 64 / Index{sizeof(T)});
  }
  // They lie in this memory, which must outlive them.
  Panels(Index k, Index n, T* memory) : k_(k), n_(n), memory_(memory) {}
  void lay_out(const Lines<const T>& x, bool turned) {
    const Index row = turned ? 1 : x.step, column = turned ? x.step : 1;
    cpu_kernels::lay_out<T>(k_, n_, {x.data, row, column}, memory_);
  }
  void clear_line(Index p) {
    const Index wide = rows<T>().product_columns;
    for (Index j = 0; j < n_; j += wide) std::fill_n(memory_ + j * k_ + p * wide, wide, T(0));
  }
  // How far panels are apart.
  Index step() const { return k_ * rows<T>().product_columns; }
  // The panel that begins with this column, from line p on.
  const T* at(Index column, Index p = 0) const {
    return memory_ + column * k_ + p * rows<T>().product_columns;
  }

 private:
  Index k_, n_;
  T* memory_;
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
    for (Index p = first; p < last; p += block_steps)
      rows<T>().product(m, std::min(block_steps, last - p), a + (p - first) * column, row, column,
                        B.at(from, p), wide, B.step(), c, step, to - from, add || p > first);
  }
};

// Positions of the memory, from the first column of a panel on; none: 0 and 0.
struct Seen {
  Index first = 0, last = 0;

  // Kernels of rows take whole lanes up to here: lines have room for them.
  Index end() const { return first + rounded_up(last - first, lanes); }
  static constexpr Index lanes = 64;
  bool overlaps(const Seen& other) const { return first < other.last && other.first < last; }
};
// The positions between both, too, which neither sees.
inline Seen united(const Seen& a, const Seen& b) {
  if (a.first == a.last) return b;
  if (b.first == b.last) return a;
  return {std::min(a.first, b.first), std::max(a.last, b.last)};
}

// to[i·column] += x[i] for i < n.
template <class T>
void add_row(const T* x, T* to, Index column, Index n) {
  rows<T>().binary[static_cast<int>(Binary::add)](to, column, x, 1, to, column, n);
}

// x *= factor.
template <class T>
void scale_row(T factor, T* x, Index n) {
  rows<T>().binary[static_cast<int>(Binary::mul)](x, 1, &factor, 0, x, 1, n);
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

  // The positions that at least one of these rows sees of a part of the memory lie between.
  Seen seen(Index i, Index count, const Seen& part) const {
    Seen all{part.last, part.first};
    for (Index r = i + count; r-- > i;) {
      Index last = std::clamp(shown_to(r), part.first, part.last), first = part.first;
      while (last > all.last && hides(r, last - 1)) --last;
      all.last = std::max(all.last, last);
      while (first < std::min(all.first, last) && hides(r, first)) ++first;
      if (first < last) all.first = std::min(all.first, first);
    }
    if (all.first >= all.last) return {};
    return {all.first / Seen::lanes * Seen::lanes, all.last};
  }

  // Adds the bias to row i's logits of these positions; those that the mask hides become -inf.
  // Returns how many of them, from the first one on, the row sees before a mask.
  Index complete(Index i, const Seen& seen, T* x) const {
    const Index n = seen.last - seen.first;
    if (bias.data) add_row(bias[i] + seen.first, x, 1, n);
    const T hidden = -std::numeric_limits<T>::infinity();
    if (mask.data) rows<T>().select(mask[i] + seen.first, 1, x, 1, &hidden, 0, x, 1, n);
    return std::clamp<Index>(shown_to(i) - seen.first, 0, n);
  }
  // Makes of the stats of all parts those of softmax_of_part_again, or zeros for a row that sees
  // nothing; y, its weights or what was summed with them, is then 0. It is NaN if -inf is all that
  // the row sees.
  void finish(Index i, T* y, Index n, T* stats) const {
    const bool is_empty = stats[1] == 0;
    stats[1] = T(1) / stats[1];
    if (!is_empty) return;
    const bool hidden = sees_nothing(i);
    if (hidden) stats[0] = stats[1] = 0;
    std::fill_n(y, n, hidden ? T(0) : std::numeric_limits<T>::quiet_NaN());
  }

 private:
  bool hides(Index i, Index key) const { return mask.data && mask[i][key] == 0; }
  bool sees_nothing(Index i) const {
    Index seen = shown_to(i);
    while (seen > 0 && hides(i, seen - 1)) --seen;
    return seen == 0;
  }
};

}  // namespace tete::cpu_kernels
