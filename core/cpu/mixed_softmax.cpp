// Softmax between two mixes of heads, row by row: what lies between reading x and writing y stays
// in the second-level cache.
#include <algorithm>
#include <optional>

#include "core/cpu/mix.hpp"
#include "core/cpu/relaid.hpp"
#include "core/cpu/small_matrix.hpp"

namespace tete::cpu_kernels {
namespace {

constexpr Index key_piece = 512;  // keys that are copied and mixed at a time
constexpr Index row_group = 8;    // rows whose outer products are summed in lanes

Index heads_of(const View& x) { return x.shape[x.rank() - 2]; }
Index keys_of(const View& x) { return x.shape.back(); }

// True if the kernels are faster than the operations that they stand for.
bool fits(const View& x, const View& before, const View& y) {
  if (x.size() == 0 || before.size() == 0 || y.size() == 0) return false;
  const Index most = std::max({heads_of(x), before.shape[1], heads_of(y)});
  return most <= small_side && keys_of(x) >= long_row;
}

template <class T>
void value(const View& x, const View& before, const View& mask, const View& after,
           const View& weights, const View& y, bool keeps) {
  const Index in = heads_of(x), heads = before.shape[1], out = heads_of(y), keys = keys_of(x);
  const Mix<T> first(before), second(after);
  const View& seen = mask.data ? mask : x;
  const auto loops = outer_loops<4>({&y, &x, &weights, &seen});
  const double cost = 10 + 2 * static_cast<double>(in + out);
  for_each_row_along(loops, heads * keys, cost, [&](const RowCursor<4>& at) {
    const LineSpace<T> piece(in, std::min(keys, key_piece)), soft(heads, keys);
    const Lines<T> w = soft.lines();
    for (Index j = 0; j < keys; j += key_piece) {
      const Index some = std::min(key_piece, keys - j);
      copy_lines(lines_at<const T>(x, at[1]).from(j), in, some, piece.lines());
      mix(first, in, heads, piece.read(), some, w.from(j));
    }
    const auto m = lines_at<const T>(seen, at[3]);
    for (Index h = 0; h < heads; ++h)
      rows<T>().softmax(w.data + h * w.step, mask.data ? m.data + h * m.step : nullptr,
                        w.data + h * w.step, keys);
    if (keeps) copy_lines(soft.read(), heads, keys, lines_at<T>(weights, at[2]));
    mix(second, heads, out, soft.read(), keys, lines_at<T>(y, at[0]));
  });
}

template <class T>
struct Gradient {
  const View &x, &before, &weights, &after, &g, &dx;
  const Index in = heads_of(x), heads = heads_of(weights), out = heads_of(g), keys = keys_of(x);
  using Sum = typename PairSum<T>::Block;

  // One row, and what it adds to the matrices' gradients where these are wanted.
  void row(const RowCursor<4>& at, Sum* dbefore, Sum* dafter) const {
    const LineSpace<T> w(heads, keys), d(heads, keys),
        piece(std::max(in, out), std::min(keys, key_piece));
    copy_lines(lines_at<const T>(weights, at[2]), heads, keys, w.lines());
    each_piece([&](Index j, Index some) {
      copy_lines(lines_at<const T>(g, at[3]).from(j), out, some, piece.lines());
      mix(Mix<T>(after).transposed(), out, heads, piece.read(), some, d.lines().from(j));
      if (dafter) add(*dafter, w.read().from(j), piece.read(), some);
    });
    for (Index h = 0; h < heads; ++h) {
      T* const changes = d.lines().data + h * d.lines().step;
      rows<T>().softmax_gradient(w.read().data + h * w.read().step, changes, changes, keys);
    }
    each_piece([&](Index j, Index some) {
      if (dbefore) copy_lines(lines_at<const T>(x, at[1]).from(j), in, some, piece.lines());
      if (dbefore) add(*dbefore, piece.read(), d.read().from(j), some);
      if (dx.data)
        mix(Mix<T>(before).transposed(), heads, in, d.read().from(j), some,
            lines_at<T>(dx, at[0]).from(j));
    });
  }

 private:
  template <class Body>
  void each_piece(const Body& body) const {
    for (Index j = 0; j < keys; j += key_piece) body(j, std::min(key_piece, keys - j));
  }
  static void add(Sum& sum, const Lines<const T>& a, const Lines<const T>& b, Index keys) {
    sum.add(a.data, a.step, b.data, b.step, keys);
  }
};

template <class T>
void gradient(const Gradient<T>& of, const View& dbefore, const View& dafter) {
  const auto loops = outer_loops<4>({of.dx.data ? &of.dx : &of.x, &of.x, &of.weights, &of.g});
  const Index count = loops.rows(), blocks = pieces_of(count, row_group);
  PairSum<T> first(of.in, of.heads, dbefore.data ? blocks : 0),
      second(of.heads, of.out, dafter.data ? blocks : 0);
  const double work = 4 * static_cast<double>(count * of.keys * of.heads * (of.in + of.out));
  parallel_for(blocks, work, [&](Index block) {
    std::optional<typename PairSum<T>::Block> to_first, to_second;
    if (dbefore.data) to_first.emplace(first, block);
    if (dafter.data) to_second.emplace(second, block);
    RowCursor<4> at(loops, block * row_group);
    for (Index r = block * row_group; r < std::min(count, (block + 1) * row_group); ++r, at.next())
      of.row(at, to_first ? &*to_first : nullptr, to_second ? &*to_second : nullptr);
  });
  if (dbefore.data) first.finish(dbefore.as<T>(), dbefore.strides[0], dbefore.strides[1]);
  if (dafter.data) second.finish(dafter.as<T>(), dafter.strides[0], dafter.strides[1]);
}

}  // namespace

bool CpuBackend::mixed_softmax(const View& x, const View& before, const View& mask,
                               const View& after, const View& weights, const View& y) {
  const View& w = weights.data ? weights : y;
  if (!fits(x, before, y)) return false;
  const int keys = x.rank() - 1;
  Relaid from = rowwise(x, keys), seen = rowwise(mask, keys), kept = rowwise(w, keys),
         to = rowwise(y, keys);
  visit(y.dtype, [&]<class T>() {
    value<T>(from.source(), before, seen.source(), after, kept.target(), to.target(),
             weights.data != nullptr);
  });
  if (weights.data) kept.finish();
  to.finish();
  return true;
}

bool CpuBackend::mixed_softmax_gradient(const View& x, const View& before, const View& weights,
                                        const View& after, const View& g, const View& dx,
                                        const View& dbefore, const View& dafter) {
  const int keys = x.rank() - 1;
  Relaid from = rowwise(x, keys), kept = rowwise(weights, keys), upstream = rowwise(g, keys),
         to = rowwise(dx, keys);
  visit(g.dtype, [&]<class T>() {
    gradient(
        Gradient<T>{from.source(), before, kept.source(), after, upstream.source(), to.target()},
        dbefore, dafter);
  });
  if (dx.data) to.finish();
  return true;
}

}  // namespace tete::cpu_kernels
