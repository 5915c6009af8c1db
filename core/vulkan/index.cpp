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

void CardBackend::gather(const View& T, const Labels& t, const View& I, const Labels& i,
                         Label label, const View& Y, const Labels& y) {
  if (Y.size() == 0) return;
  if (Y.dtype == Dtype::bf16)
    return on_processor("gather in bf16", {T, I}, {Y}, [&](const Views& in, const Views& out) {
      cpu().gather(in[0], t, in[1], i, label, out[0], y);
    });
  const View table = spread(T, t, Y, y), index = spread(I, i, Y, y);
  const Window from = window_of(T), at = window_of(I), to = window_of(Y);
  const Index size = T.shape[t.find(label)];
  for_each_part(collapse(loops_of<3>({&table, &index, &Y}), 2), 4,
                [&](const Loops<3>& inner, const auto& offsets, Index) {
                  Call call = call_for<3>(Shader::gather, inner, {from, at, to}, offsets);
                  call.constants.push_back(static_cast<uint32_t>(size_of(Y.dtype) / 4));
                  for (Index word : {stride_of(T, t, label), size}) call.words.add(word);
                  call.buffers = {from.read(), at.read(), to.written()};
                  stream_.run(call);
                });
}

// The lists of links.comp, for `count` positions.
Temporary CardBackend::links(const Loops<3>& positions, Index count, Index table_first, Index along,
                             Index size, const View& I) {
  const Shape shape{4, count};
  Temporary lists(*this, Dtype::f32, shape, row_major(shape));
  const Window list = window_of(lists.view()), index = window_of(I);
  const Window number{nullptr, 0, 0}, table{nullptr, 0, table_first};
  for_each_part(positions, 4, [&](const Loops<3>& inner, const auto& offsets, Index before) {
    Call call = call_for<3>(Shader::links, inner, {number, table, index}, offsets);
    call.constants.push_back(0);
    for (Index word : {along, size, before, count}) call.words.add(word);
    call.buffers = {index.read(), list.written()};
    stream_.run(call);
  });
  const Loops<3> flat{{count}, {Strides{0}, Strides{0}, Strides{0}}};
  Call call = call_for<3>(Shader::links, flat, {number, number, number}, {});
  call.constants.push_back(1);
  for (Index word : {Index{0}, Index{0}, Index{0}, count}) call.words.add(word);
  call.buffers = {index.read(), list.written()};
  stream_.run(call);
  return lists;
}

void CardBackend::scatter(const View& G, const Labels& g, const View& I, const Labels& i,
                          Label label, const View& T, const Labels& t) {
  fill(0, T);
  if (G.size() == 0 || T.size() == 0) return;
  if (!has(T.dtype))
    return on_processor(text("scatter in ", name_of(T.dtype)), {G, I}, {T},
                        [&](const Views& in, const Views& out) {
                          cpu().scatter(in[0], g, in[1], i, label, out[0], t);
                        });
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
  const Window list = window_of(lists.view()), table_{to.from, to.bytes, 0};
  const Shader shader = T.dtype == Dtype::f64 ? Shader::scatter_f64 : Shader::scatter_f32;
  for_each_part(collapse(slices, 1), 4, [&](const Loops<2>& inner, const auto& offsets, Index) {
    Call call = call_for<2>(shader, inner, {from, table_}, offsets);
    call.words.add(count);
    call.groups = groups_of(inner.size() * count, 64);
    call.buffers = {from.read(), list.read(), to.written()};
    stream_.run(call);
  });
}

bool CardBackend::top_k(const View& x, int axis, const View& found) {
  if (!has(x.dtype)) return false;
  if (found.size() == 0) return true;
  View rows_x = x, rows_found = found;
  for (View* view : {&rows_x, &rows_found}) view->shape.erase(axis), view->strides.erase(axis);
  const auto loops = collapse(loops_of<2>({&rows_x, &rows_found}), 0);
  const Window from = window_of(x), to = window_of(found);
  const Shader shader = x.dtype == Dtype::f64 ? Shader::top_k_f64 : Shader::top_k_f32;
  for_each_part(loops, 3, [&](Loops<2> inner, const auto& offsets, Index) {
    inner.shape.push_back(x.shape[axis]);
    inner.strides[0].push_back(x.strides[axis]), inner.strides[1].push_back(0);
    Call call = call_for<2>(shader, inner, {from, to}, offsets);
    for (Index word : {found.strides[axis], found.shape[axis]}) call.words.add(word);
    call.buffers = {from.read(), to.written()};
    stream_.run(call);
  });
  return true;
}

}  // namespace tete::vulkan
