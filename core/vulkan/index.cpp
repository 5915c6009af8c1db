// Gather, and scatter, its transpose; the largest of rows. Positions that scatter to one place are
// linked in a list first, so that one invocation adds them, in their order.
#include "core/vulkan/backend.hpp"

namespace tete::vulkan {

namespace {

Index stride_of(const View& v, const Labels& labels, Label label) {
  Index stride = 0;  // a label that stands twice reads the diagonal
  for (int d = 0; d < labels.size(); ++d)
    if (labels[d] == label) stride += v.strides[d];
  return stride;
}

// A view in the shape of y, whose labels it is read by.
View spread(const View& v, const Labels& labels, const View& Y, const Labels& y) {
  View view{v.dtype, Y.shape, {}, v.data};
  for (Label label : y) view.strides.push_back(stride_of(v, labels, label));
  return view;
}

}  // namespace

bool CardBackend::try_gather(const View& T, const Labels& t, const View& I, const Labels& i,
                             Label label, const View& Y, const Labels& y) {
  if (Y.dtype == Dtype::bf16) return false;
  const View table = spread(T, t, Y, y), index = spread(I, i, Y, y);
  const std::array windows{window_of(T), window_of(I), window_of(Y)};
  run_over<3>(
      collapse(loops_of<3>({&table, &index, &Y}), 2), windows, Shader::gather,
      {static_cast<uint32_t>(size_of(Y.dtype) / 4)}, bound(windows),
      [&](Words& words, Index) { words.add(stride_of(T, t, label), T.shape[t.find(label)]); });
  return true;
}

// The lists of links.comp, for `count` positions.
Temporary CardBackend::links(const Loops<3>& positions, Index count, Index table_first, Index along,
                             Index size, const View& I) {
  const Shape shape{4, count};
  Temporary lists(*this, Dtype::f32, shape, row_major(shape));
  const Window list = window_of(lists.view()), index = window_of(I);
  const Window number{nullptr, 0, 0}, table{nullptr, 0, table_first};
  const std::vector<Bound> buffers{index.read(), list.written()};
  run_over<3>(positions, {number, table, index}, Shader::links, {0}, buffers,
              [&](Words& words, Index before) { words.add(along, size, before, count); });
  const Loops<3> flat{{count}, {Strides{0}, Strides{0}, Strides{0}}};
  run_over<3>(flat, {number, number, number}, Shader::links, {1}, buffers,
              [&](Words& words, Index) { words.add(0, 0, 0, count); });
  return lists;
}

bool CardBackend::try_scatter(const View& G, const Labels& g, const View& I, const Labels& i,
                              Label label, const View& T, const Labels& t) {
  if (!has(T.dtype)) return false;
  fill(0, T);
  if (G.size() == 0 || T.size() == 0) return true;
  const View table = spread(T, t, G, g), index = spread(I, i, G, g);
  Loops<3> positions;  // G, T, I
  Loops<2> slices;     // G, T
  for (int d = 0; d < G.rank(); ++d) {
    const bool is_position = i.contains(g[d]);
    (is_position ? positions.shape : slices.shape).push_back(G.shape[d]);
    (is_position ? positions.strides[0] : slices.strides[0]).push_back(G.strides[d]);
    (is_position ? positions.strides[1] : slices.strides[1]).push_back(table.strides[d]);
    if (is_position) positions.strides[2].push_back(index.strides[d]);
  }
  const Index count = element_count(positions.shape);
  const Window from = window_of(G), to = window_of(T);
  const Temporary lists =
      links(merge(positions), count, to.first, stride_of(T, t, label), T.shape[t.find(label)], I);
  run_over<2>(
      collapse(slices, 1), {from, Window{to.from, to.bytes, 0}}, in(T.dtype, Shader::scatter_f32),
      {}, {from.read(), window_of(lists.view()).read(), to.written()},
      [&](Words& words, Index) { words.add(count); }, count);
  return true;
}

bool CardBackend::top_k(const View& x, int axis, const View& found) {
  if (!has(x.dtype)) return false;
  View rows_x = x, rows_found = found;
  for (View* view : {&rows_x, &rows_found}) view->shape.erase(axis), view->strides.erase(axis);
  const auto loops = collapse(loops_of<2>({&rows_x, &rows_found}), 0);
  const Window from = window_of(x), to = window_of(found);
  for_each_part(loops, 3, [&](Loops<2> inner, const auto& offsets, Index) {
    inner.shape.push_back(x.shape[axis]);
    inner.strides[0].push_back(x.strides[axis]), inner.strides[1].push_back(0);
    const std::array windows{from.after(offsets[0]), to.after(offsets[1])};
    run_over<2>(inner, windows, in(x.dtype, Shader::top_k_f32), {}, bound(windows),
                [&](Words& words, Index) { words.add(found.strides[axis], found.shape[axis]); });
  });
  return true;
}

}  // namespace tete::vulkan
