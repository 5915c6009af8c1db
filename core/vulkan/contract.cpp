// Contraction: products of matrices in any strides, each of whose rows, columns, sums and batches
// is one or two dimensions, or sums of products where there are no two matrices.
#include "core/cpu/contract.hpp"

#include <algorithm>
#include <tuple>

#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

using cpu_kernels::Dims;
using cpu_kernels::Groups;
using cpu_kernels::in_a;
using cpu_kernels::in_b;
using cpu_kernels::in_y;

constexpr Index longest = 4096;  // products that one invocation sums
constexpr Index busy = 512;      // workgroups of 128 invocations that keep a card at work

Loops<3> merged(const Dims& dims, int lead) {
  Loops<3> loops;
  for (const cpu_kernels::Dim& d : dims) {
    loops.shape.push_back(d.size);
    for (size_t v = 0; v < 3; ++v) loops.strides[v].push_back(d.stride[v]);
  }
  return collapse(loops, lead);
}

// Tiles are as large as registers allow, if there are enough of them. Emulated devices compile a
// small kernel in tolerable time.
CardBackend::Tiling tiling_for(Index m, Index n, Index tiles, const Abilities& can) {
  if (can.is_emulated() || can.most_invocations < 256) return {32, 16, 32, 8, 4, 4};
  if (n <= 32)
    return m <= 32 ? CardBackend::Tiling{64, 32, 32, 16, 4, 4}
                   : CardBackend::Tiling{64, 64, 32, 16, 8, 4};
  if (m <= 32) return {64, 32, 64, 16, 4, 8};
  if (n > 64 && tiles >= busy) return {128, 64, 128, 16, 8, 8};
  return {128, 64, 64, 16, 8, 4};
}

// The same by units: eight subgroups or four, and one where a larger kernel takes long to compile.
CardBackend::Tiling units_tiling_for(Index m, Index n, Index batch, Index tiles, const Units& units,
                                     const Abilities& can) {
  if (can.is_emulated())
    return {units.subgroup, units.m, 2 * units.n, units.k, units.m, 2 * units.n};
  const bool is_large =
      m > 128 && n > 64 && pieces_of(m, 256) * pieces_of(n, 128) * batch >= busy / 2;
  if (is_large && 8 * units.subgroup <= can.most_invocations && can.most_shared >= 40960)
    return {8 * units.subgroup, 256, 128, 32, 64, 64};
  if (n > 64 && tiles >= busy) return {4 * units.subgroup, 64, 128, 32, 32, 64};
  return {4 * units.subgroup, 64, 64, 32, 32, 32};
}

CardBackend::Cut cut_of(const CardBackend::Product& p, Shader shader, const Units* units,
                        const Abilities& can) {
  const Index m = p.m.size(), n = p.n.size(), k = p.k.size();
  CardBackend::Cut cut{shader, units, {}, 1, k};
  CardBackend::Tiling& t = cut.tiling;
  const Index batch = p.batch.size();
  // Counts tiles of 64 x 128, with k in parts of 512.
  const Index wide = pieces_of(m, 64) * pieces_of(n, 128) * batch * pieces_of(k, 512);
  t = units ? units_tiling_for(m, n, batch, wide, *units, can) : tiling_for(m, n, wide, can);
  if (shader == Shader::gemm_f64) t.k /= 2;  // as much shared memory
  const Index tiles = std::max<Index>(1, pieces_of(m, t.m) * pieces_of(n, t.n) * batch);
  const Index wanted =
      std::min(pieces_of(k, t.k * 8), (can.is_emulated() ? 4 : busy * 128 / t.invocations) / tiles);
  const Index parts = std::max({Index{1}, wanted, pieces_of(k, longest)});
  cut.part = rounded_up(pieces_of(k, parts), t.k);
  cut.parts = pieces_of(k, cut.part);
  return cut;
}

void add_steps(Words& words, const Loops<3>& loops, int view) {
  add_padded(words, loops.strides[static_cast<size_t>(view)], 2, 0);
}

// True if lines of a view along `dense` begin at a multiple of `count` numbers, and are a whole
// number of vectors of so many.
bool has_whole_lines(const CardBackend::Product& p, const Loops<3>& dense, size_t view, Index first,
                     Index count) {
  if (dense.inner_stride(view) != 1 || dense.inner() % count != 0 || first % count != 0)
    return false;
  for (const Loops<3>* loops : {&p.batch, &p.m, &p.n, &p.k})
    for (int d = 0; d < loops->shape.size(); ++d) {
      const bool is_line = loops == &dense && d + 1 == loops->shape.size();
      if (!is_line && loops->shape[d] > 1 && loops->strides[view][d] % count != 0) return false;
    }
  return true;
}

// The form of a product, in the bits of product.glsl.
uint32_t form_of(const CardBackend::Product& p, const std::array<Window, 3>& windows,
                 const CardBackend::Cut& cut) {
  const auto is_denser = [&](const Loops<3>& own, int v) {
    return std::abs(own.inner_stride(v)) < std::abs(p.k.inner_stride(v));
  };
  const bool rows_a = is_denser(p.m, in_a), rows_b = !is_denser(p.n, in_b);
  const Index numbers = cut.units ? 8 : 4;
  const bool scales = cut.shader == Shader::gemm_units_f16;
  const auto is_whole = [&](const Loops<3>& dense, int v, Index count) {
    return !scales && has_whole_lines(p, dense, static_cast<size_t>(v),
                                      windows[static_cast<size_t>(v)].first, count);
  };
  // Units write whole matrices, whose rows are one step apart.
  const Index rows = cut.units ? cut.units->m : 1, columns = cut.units ? cut.units->n : 4;
  const bool bits[] = {rows_a,
                       rows_b,
                       is_whole(rows_a ? p.m : p.k, in_a, numbers),
                       is_whole(rows_b ? p.k : p.n, in_b, numbers),
                       is_whole(p.n, in_y, 4) && p.n.inner() % columns == 0 &&
                           (p.m.shape.size() == 1 || p.m.inner() % rows == 0),
                       p.m.shape.size() > 1,
                       p.n.shape.size() > 1,
                       p.k.shape.size() > 1};
  uint32_t form = 0;
  for (size_t i = 0; i < std::size(bits); ++i) form |= uint32_t{bits[i]} << i;
  return form;
}

// The words of gemm.comp, for at most two dimensions of each kind.
Words words_of(const CardBackend::Product& p, const std::array<Index, 3>& first,
               const CardBackend::Cut& cut, Index y_part) {
  Words words;
  for (const Loops<3>* loops : {&p.m, &p.n, &p.k}) words.add(loops->size());
  for (const Loops<3>* loops : {&p.m, &p.n, &p.k, &p.batch}) words.add(loops->inner());
  for (Index each : first) words.add(each);
  for (const auto& [loops, view] : {std::pair(&p.m, in_a),
                                    {&p.m, in_y},
                                    {&p.n, in_b},
                                    {&p.n, in_y},
                                    {&p.k, in_a},
                                    {&p.k, in_b},
                                    {&p.batch, in_a},
                                    {&p.batch, in_b},
                                    {&p.batch, in_y}})
    add_steps(words, *loops, view);
  for (Index each : {cut.parts, cut.part, y_part, p.batch.size()}) words.add(each);
  return words;
}

// body(part of the product, first elements): all but k cut to two dimensions each.
template <class Body>
void for_each_cut(const CardBackend::Product& p, const Body& body) {
  for_each_part(p.batch, 2, [&](const Loops<3>& batch, const auto& at, Index) {
    for_each_part(p.m, 2, [&](const Loops<3>& m, const auto& at_m, Index) {
      for_each_part(p.n, 2, [&](const Loops<3>& n, const auto& at_n, Index) {
        std::array<Index, 3> first;
        for (size_t v = 0; v < 3; ++v) first[v] = at[v] + at_m[v] + at_n[v];
        body(CardBackend::Product{batch, m, n, p.k}, first);
      });
    });
  });
}

bool is_product_of_matrices(const Groups& groups) {
  return !groups.m.empty() && !groups.n.empty() && !groups.k.empty();
}

// A's dimensions in another order, by their labels.
View reordered(const View& A, const Labels& a, const Labels& order) {
  View view{A.dtype, {}, {}, A.data};
  for (Label label : order) {
    view.shape.push_back(A.shape[a.find(label)]);
    view.strides.push_back(A.strides[a.find(label)]);
  }
  return view;
}

// The labels of `x` that `y` has, then the others in the order of `sums`.
Labels sums_last(const Labels& x, const Labels& y, const Labels& sums) {
  Labels order;
  for (Label label : x)
    if (y.contains(label)) order.push_back(label);
  for (Label label : sums)
    if (x.contains(label) && !y.contains(label)) order.push_back(label);
  return order;
}

}  // namespace

bool CardBackend::contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b,
                                 const View& Y, const Labels& y) const {
  const auto dims = cpu_kernels::dimensions(A, a, B, b, Y, y);
  return can_.stores_16_bits && is_product_of_matrices(cpu_kernels::grouped(dims)) &&
         std::none_of(dims.begin(), dims.end(), cpu_kernels::only_a) &&
         std::none_of(dims.begin(), dims.end(), cpu_kernels::only_b);
}

// Sums A over what it alone has; `a` loses those labels.
Temporary CardBackend::without_own(const View& A, Labels& a, const Labels& b, const Labels& y) {
  Shape kept, left;
  Labels labels;
  for (int d = 0; d < a.size(); ++d) {
    const bool sums = !b.contains(a[d]) && !y.contains(a[d]);
    kept.push_back(sums ? 1 : A.shape[d]);
    if (!sums) left.push_back(A.shape[d]), labels.push_back(a[d]);
  }
  Temporary sum(*this, A.dtype, left, row_major(left));
  fold(Fold::sum, A, {A.dtype, kept, row_major(kept), sum.view().data});
  a = labels;
  return sum;
}

// Without two matrices: kept dimensions are those of Y.
void CardBackend::sum_products(const Groups& groups, const Window& left, const Window& right,
                               const View& Y) {
  Loops<3> kept;  // Y, A, B
  for (const Dims* dims : {&groups.batch, &groups.m, &groups.n})
    for (const cpu_kernels::Dim& d : *dims) {
      kept.shape.push_back(d.size);
      for (size_t v : {0, 1, 2}) kept.strides[v].push_back(d.stride[(v + 2) % 3]);
    }
  const Loops<3> k = merged(groups.k, in_a);
  fold_loops(2, in(Y.dtype, Shader::fold_f32), collapse(kept, 1),
             {k.shape, {k.strides[0], k.strides[1]}}, left, right, Y);
}

// Each part of k has a result of its own, y_part behind that of the part before.
void CardBackend::multiply(const Product& p, const std::array<Window, 3>& windows, const Cut& cut,
                           Index y_part) {
  const Tiling& t = cut.tiling;
  Constants constants{t.invocations, t.m, t.n, t.k, t.own_m, t.own_n, form_of(p, windows, cut)};
  if (const Units* const u = cut.units) constants.insert(constants.begin(), {u->m, u->n, u->k});
  for_each_cut(p, [&](const Product& part, std::array<Index, 3> first) {
    Call call{cut.shader, constants, {}, {}, part.batch.size() * cut.parts};
    for (size_t v = 0; v < 3; ++v) {
      first[v] += windows[v].first;
      call.buffers.push_back(v == in_y ? windows[v].written() : windows[v].read());
    }
    std::vector<Temporary> largest;  // alive until the call is in the stream
    if (cut.shader == Shader::gemm_units_f16)
      for (const auto& [own, v] : {std::pair(&part.m, in_a), {&part.n, in_b}}) {
        const Window x{windows[v].from, windows[v].bytes, first[v]};
        largest.push_back(largest_of(part, *own, v, x));
        call.buffers.push_back(window_of(largest.back().view()).read());
      }
    call.groups *= pieces_of(part.m.size(), t.m) * pieces_of(part.n.size(), t.n);
    call.words = words_of(part, first, cut, y_part);
    stream_.run(call);
  });
}

CardBackend::Product CardBackend::product_of(const Groups& groups) {
  return {merged(groups.batch, in_y), merged(groups.m, in_y), merged(groups.n, in_y),
          merged(groups.k, in_a)};
}

bool CardBackend::try_contract(const View& A, const Labels& a, const View& B, const Labels& b,
                               const View& Y, const Labels& y) {
  if (!has(Y.dtype)) return false;
  contract_here(A, a, B, b, Y, y);
  return true;
}

void CardBackend::contract_here(const View& A, const Labels& a, const View& B, const Labels& b,
                                const View& Y, const Labels& y) {
  if (A.size() == 0 || B.size() == 0) return fill(0, Y);
  const auto has_own = [&](const Labels& x, const Labels& other) {
    return std::any_of(x.begin(), x.end(),
                       [&](Label each) { return !other.contains(each) && !y.contains(each); });
  };
  for (const bool is_a : {true, false}) {
    if (!has_own(is_a ? a : b, is_a ? b : a)) continue;
    Labels labels = is_a ? a : b;
    const Temporary sum = without_own(is_a ? A : B, labels, is_a ? b : a, y);
    return is_a ? contract_here(sum.view(), labels, B, b, Y, y)
                : contract_here(A, a, sum.view(), labels, Y, y);
  }
  const Groups groups = cpu_kernels::grouped(cpu_kernels::dimensions(A, a, B, b, Y, y));
  const Product p = product_of(groups);
  if (p.k.shape.size() > 2) {
    // Summed dimensions become one.
    const Labels left = sums_last(a, y, a), right = sums_last(b, y, a);
    const View in_order_a = reordered(A, a, left), in_order_b = reordered(B, b, right);
    const Temporary dense_a = laid(in_order_a, row_major(in_order_a.shape)),
                    dense_b = laid(in_order_b, row_major(in_order_b.shape));
    return contract_here(dense_a.view(), left, dense_b.view(), right, Y, y);
  }
  if (A.dtype != Dtype::bf16 && !is_product_of_matrices(groups))
    return sum_products(groups, window_of(A), window_of(B), Y);
  multiply_matrices(p, A, a, B, b, Y, y, A.dtype == Dtype::bf16 ? units_for(p) : nullptr);
}

void CardBackend::multiply_matrices(const Product& p, const View& A, const Labels& a, const View& B,
                                    const Labels& b, const View& Y, const Labels& y,
                                    const Units* units) {
  const Shader shader = units                    ? gemm_units(units->type)
                        : A.dtype == Dtype::bf16 ? Shader::gemm_bf16
                                                 : in(Y.dtype, Shader::gemm_f32);
  const Window left = window_of(A), right = window_of(B);
  const Cut cut = cut_of(p, shader, units, can_);
  if (cut.parts == 1) return multiply(p, {left, right, window_of(Y)}, cut, 0);
  View all = Y, sum = Y;
  all.shape.insert(0, cut.parts), sum.shape.insert(0, 1), sum.strides.insert(0, 0);
  all.strides = dense_strides(Y.shape, memory_order(Y.shape, Y.strides));
  all.strides.insert(0, Y.size());
  const Temporary parts(*this, Y.dtype, all.shape, all.strides);
  View first{Y.dtype, Y.shape, all.strides, parts.view().data};
  first.strides.erase(0);
  const Groups apart = cpu_kernels::grouped(cpu_kernels::dimensions(A, a, B, b, first, y));
  multiply(product_of(apart), {left, right, window_of(parts.view())}, cut, Y.size());
  fold(Fold::sum, parts.view(), sum);
}

}  // namespace tete::vulkan
