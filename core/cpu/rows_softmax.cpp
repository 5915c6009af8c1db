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
};
template <class T>
struct Masked {
  const T* mask;
  TETE_MEMBER T operator()(Index i, T v, T hidden) const { return mask[i] != 0 ? v : hidden; }
  TETE_MEMBER Register<T> operator()(Index i, Register<T> v, T hidden) const {
    return load(mask + i) != 0 ? v : all_lanes(hidden);
  }
};

// The first numbers, or another number in the place of the others.
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

// y = exp(x - most), or 0 where x is hidden. Returns Σ y.
template <class T, class Seen>
TETE_INLINE T exp_row(const T* x, T most, T* y, Index n, const Seen& seen) {
  return lane_sum<T>(
      n,
      [=](Index i) {
        const Register<T> e = seen(i, exps(load(x + i) - most), T(0));
        store<T>(y + i, e);
        return e;
      },
      [=](Index i) { return y[i] = seen(i, exp_below(x[i] - most), T(0)); });
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

// Weights never exceed 1, so that sums with them overflow no sooner than those of a whole row.
template <class T>
T softmax_of_part(T* x, Index shown, Index n, T* stats) {
  const First<T> first(shown);
  const T none = -__builtin_inf(), before = stats[0], here = largest(x, n, first);
  stats[0] = here > before ? here : before;
  const T most = stats[0] == none ? T(0) : stats[0], earlier = stats[1] * exp_below(before - most);
  stats[1] = earlier + exp_row(x, most, x, n, first);
  if (stats[1] == 0) return T(1);  // nothing yet, or -inf alone: x is 0
  const T scale = T(1) / stats[1];
  for (Index i = 0; i < n; ++i) x[i] *= scale;
  return earlier * scale;
}
template <class T>
void softmax_of_part_again(T* x, Index shown, Index n, const T* stats) {
  const First<T> first(shown);
  const T most = stats[0], scale = stats[1];
  Index i = 0;
  for (; i + width<T> <= n; i += width<T>)
    store<T>(x + i, first(i, exps(load(x + i) - most) * scale, T(0)));
  for (; i < n; ++i) x[i] = first(i, exp_below(x[i] - most) * scale, T(0));
}

template <class T>
void softmax_gradient_of_part(const T* y, const T* g, T inner, T* dx, Index n) {
  for (Index i = 0; i < n; ++i) dx[i] = y[i] * (g[i] - inner);
}
template <class T>
void softmax_gradient_row(const T* y, const T* g, T* dx, Index n) {
  softmax_gradient_of_part(y, g, dense_dot(y, g, n), dx, n);
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
  for (Index i = 0; i < n; ++i) y[i] = g * exp(x[i] - lse);
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
