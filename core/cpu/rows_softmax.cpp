// Rows of softmax and cross-entropy. The largest element is subtracted first, so nothing
// overflows; hidden elements are ignored, so a NaN there poisons nothing.
#include "core/cpu/lanes.hpp"

namespace tete::cpu_kernels::TETE_ISA {
namespace {

// exp of each number that is below 43.
TETE_INLINE FloatRegister exps(FloatRegister x) { return exp_below(x); }
TETE_INLINE DoubleRegister exps(DoubleRegister x) {
  for (int l = 0; l < width<double>; ++l) x[l] = exp(x[l]);
  return x;
}

// Numbers from place i on, or another number where they are hidden.
struct Unmasked {
  template <class V, class T>
  TETE_MEMBER V operator()(Index, V v, T) const {
    return v;
  }
  TETE_MEMBER bool ends_before(Index) const { return false; }
};
template <class T>
struct Masked {
  const T* mask;
  TETE_MEMBER T operator()(Index i, T v, T hidden) const { return mask[i] != 0 ? v : hidden; }
  TETE_MEMBER Register<T> operator()(Index i, Register<T> v, T hidden) const {
    return load(mask + i) != 0 ? v : all_lanes(hidden);
  }
  TETE_MEMBER bool ends_before(Index) const { return false; }
};

// The first numbers, or another number in the place of the others, which need not be computed.
template <class T>
class First {
 public:
  TETE_MEMBER explicit First(Index count) : count_(count) {
    for (int l = 0; l < width<T>; ++l) lane_[l] = static_cast<T>(l);
  }
  TETE_MEMBER T operator()(Index i, T v, T hidden) const { return i < count_ ? v : hidden; }
  TETE_MEMBER Register<T> operator()(Index i, Register<T> v, T hidden) const {
    if (i + width<T> <= count_) return v;
    return lane_ < all_lanes(static_cast<T>(count_ - i)) ? v : all_lanes(hidden);
  }
  TETE_MEMBER bool ends_before(Index i) const { return i >= count_; }

 private:
  Index count_;
  Register<T> lane_;
};

// The largest x that is seen. A NaN is passed over; exp brings it back.
template <class T, class Seen>
TETE_INLINE T largest(const T* x, Index n, const Seen& seen) {
  const T none = -__builtin_inf();
  return joined_terms<T>(
      n, none, [](auto most, auto v) { return v > most ? v : most; },
      [=](Index i) { return seen(i, load(x + i), none); },
      [=](Index i) { return seen(i, x[i], none); });
}

// y[i] = term(i) for i < n; `whole(i)` gives the register of terms i, i+1, …
template <class T, class Whole, class Term>
TETE_INLINE void write_row(T* y, Index n, const Whole& whole, const Term& term) {
  Index i = 0;
  for (; i + width<T> <= n; i += width<T>) store<T>(y + i, whole(i));
  for (; i < n; ++i) y[i] = term(i);
}

// y = exp(x - most), or 0 where x is hidden. Returns Σ y, which a loop of its own adds up:
// registers have no room for the lanes of a sum beside the constants of exp.
template <class T, class Seen>
TETE_INLINE T exp_row(const T* x, T most, T* y, Index n, const Seen& seen) {
  write_row(
      y, n,
      [=](Index i) {
        return seen.ends_before(i) ? Register<T>{} : seen(i, exps(load(x + i) - most), T(0));
      },
      [=](Index i) { return seen(i, exp_below(x[i] - most), T(0)); });
  return dense_sum(y, n);
}

template <class T>
bool hidden_everywhere(const T* mask, Index n) {
  int seen = 0;
  for (Index i = 0; i < n; ++i) seen |= mask[i] != 0;
  return !seen;
}

template <class T>
void softmax_row(const T* x, const T* mask, T* y, Index n) {
  const Masked<T> masked{mask};
  const T most = mask ? largest(x, n, masked) : largest(x, n, Unmasked{});
  if (mask && most == -__builtin_inf() && hidden_everywhere(mask, n)) {
    for (Index i = 0; i < n; ++i) y[i] = 0;
    return;
  }
  const T scale =
      T(1) / (mask ? exp_row(x, most, y, n, masked) : exp_row(x, most, y, n, Unmasked{}));
  for (Index i = 0; i < n; ++i) y[i] *= scale;
}

// Calls each loop's body with each row, a few rows at a time: sums and divisions of a row overlap
// with those of the next ones, and numbers are in the first-level cache still when the next loop
// comes.
template <class T, class... Body>
TETE_INLINE void in_batches(const PartRows<T>& part, const Body&... loops) {
  constexpr Index batch_bytes = 16384;
  const Index some = 1 + batch_bytes / (part.n * static_cast<Index>(sizeof(T)) + 1);
  for (Index first = 0; first < part.rows; first += some) {
    const Index end = first + some < part.rows ? first + some : part.rows;
    const auto run = [=](const auto& body) {
      for (Index r = first; r < end; ++r) body(r, part.x + r * part.step, First<T>(part.shown[r]));
    };
    (..., run(loops));
  }
}

// Weights never exceed 1, so that sums with them overflow no sooner than those of a whole row. What
// the next loop needs lies in factors: the largest number before, and then the sum before.
template <class T>
void softmax_of_part(const PartRows<T>& part, T* stats, Index rs, T* factors) {
  const T none = -__builtin_inf();
  in_batches(
      part,
      [=](Index r, const T* x, const First<T>& first) {
        const T before = stats[r * rs], here = largest(x, part.n, first);
        stats[r * rs] = here > before ? here : before;
        factors[r] = before;
      },
      [=](Index r, T* x, const First<T>& first) {
        T* const row_stats = stats + r * rs;
        const T most = row_stats[0] == none ? T(0) : row_stats[0];
        const T earlier = row_stats[1] == 0 ? T(0) : row_stats[1] * exp_below(factors[r] - most);
        row_stats[1] = earlier + exp_row(x, most, x, part.n, first);
        factors[r] = earlier;
      },
      [=](Index r, T* x, const First<T>&) {
        const T sum = stats[r * rs + 1];
        const bool is_nothing = sum == 0;  // true before any number, and of -inf alone: x is 0
        const T scale = is_nothing ? T(1) : T(1) / sum;
        for (Index i = 0; i < part.n; ++i) x[i] *= scale;
        factors[r] = is_nothing ? T(1) : factors[r] * scale;
      });
}
template <class T>
void softmax_of_part_again(const PartRows<T>& part, const T* stats, Index rs) {
  in_batches(part, [=](Index r, T* x, const First<T>& first) {
    const T most = stats[r * rs], scale = stats[r * rs + 1];
    write_row(
        x, part.n,
        [=](Index i) {
          return first.ends_before(i) ? Register<T>{}
                                      : first(i, exps(load(x + i) - most) * scale, T(0));
        },
        [=](Index i) { return first(i, exp_below(x[i] - most) * scale, T(0)); });
  });
}

template <class T>
void softmax_gradient_of_part(const PartRows<T>& part, const T* y, const T* known) {
  T made[PartRows<T>::most];
  const T* const inner = known ? known : made;
  const auto sum = [=, &made](Index r, const T* g, const First<T>& first) {
    const T* const w = y + r * part.step;
    made[r] = lane_sum<T>(
        part.n, [=](Index i) { return load(w + i) * first(i, load(g + i), T(0)); },
        [=](Index i) { return w[i] * first(i, g[i], T(0)); });
  };
  const auto change = [=](Index r, T* g, const First<T>& first) {
    const T* const w = y + r * part.step;
    const T all = inner[r];
    write_row(
        g, part.n, [=](Index i) { return first(i, load(w + i) * (load(g + i) - all), T(0)); },
        [=](Index i) { return first(i, w[i] * (g[i] - all), T(0)); });
  };
  if (known) in_batches(part, change);
  else in_batches(part, sum, change);
}
template <class T>
void softmax_gradient_row(const T* y, const T* g, T* dx, Index n) {
  const T inner = dense_dot(y, g, n);
  for (Index i = 0; i < n; ++i) dx[i] = y[i] * (g[i] - inner);
}

template <class T>
T logsumexp_row(const T* x, Index n) {
  const T most = largest(x, n, Unmasked{});
  const T sum = lane_sum<T>(
      n, [=](Index i) { return exps(load(x + i) - most); },
      [=](Index i) { return exp_below(x[i] - most); });
  return log(sum) + most;
}

template <class T>
void cross_entropy_gradient_row(const T* x, T lse, T g, Index target, T* y, Index n) {
  write_row(
      y, n, [=](Index i) { return g * exps(load(x + i) - lse); },
      [=](Index i) { return g * exp_below(x[i] - lse); });
  y[target] -= g;
}

template <class T>
void fill(Rows<T>& rows) {
  rows.softmax = softmax_row<T>;
  rows.softmax_of_part = softmax_of_part<T>;
  rows.softmax_of_part_again = softmax_of_part_again<T>;
  rows.softmax_gradient = softmax_gradient_row<T>;
  rows.softmax_gradient_of_part = softmax_gradient_of_part<T>;
  rows.logsumexp = logsumexp_row<T>;
  rows.cross_entropy_gradient = cross_entropy_gradient_row<T>;
}

}  // namespace

void fill_softmax(Table& table) { fill(table.floats), fill(table.doubles); }

}  // namespace tete::cpu_kernels::TETE_ISA
