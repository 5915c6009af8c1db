// Samples of layouts, copies and indices.
#include "core/check/sample_table.hpp"

namespace tete {

namespace {

void add_rearrange(SampleTable& table) {
  table.add("rearrange, split and permute", {{{2, 5, 6}}}, [](In in) {
    return rearrange("b n (h d) -> b h n d", in[0], {{"h", 2}});
  });
  table.add("rearrange, merge", {{{2, 3, 5, 2}}},
            [](In in) { return rearrange("b h n d -> b n (h d)", in[0]); });
  table.add("rearrange, merge of a permuted one", {{{2, 3, 5}}}, [](In in) {
    return rearrange("a b c -> (c a) b", permute(in[0], {2, 0, 1}));
  });
  table.add("rearrange, nothing in it", {{{0, 6}}}, [](In in) {
    return rearrange("n (h d) -> h n d", in[0], {{"h", 2}});
  });
}

void add_views(SampleTable& table) {
  table.add("permute", {{{2, 3, 5}}}, [](In in) { return permute(in[0], {2, 0, 1}); });
  table.add("reshape", {{{2, 3, 5}}}, [](In in) { return reshape(in[0], {5, 1, 6}); });
  table.add("reshape of a permuted one", {{{2, 3, 5}}}, [](In in) {
    return reshape(permute(in[0], {2, 0, 1}), {5, 6});
  });
  table.add("reshape, a copy", {{{2, 3, 5}}}, [](In in) {
    return reshape(permute(in[0], {2, 0, 1}), {2, 15});
  });
  table.add("reshape of a number", {{{}}}, [](In in) { return reshape(in[0], {1, 1}); });
  table.add("reshape of every other", {{{7, 2}}},
            [](In in) { return reshape(slice(in[0], 0, 0, 4, 2), {8}); });
  table.add("broadcast", {{{2, 1, 3, 1}}}, [](In in) { return broadcast(in[0], {2, 5, 3, 2}); });
  table.add("broadcast to nothing", {{{1, 3}}}, [](In in) { return broadcast(in[0], {0, 3}); });
  table.add("expand", {{{2, 3}}}, [](In in) { return expand(in[0], {0, 2}, {5, 2, 2, 3}); });
  table.add("expand of a number", {{{}}}, [](In in) { return expand(in[0], {0, 1}, {2, 3}); });
  table.add("slice", {{{5, 7}}}, [](In in) { return slice(in[0], 1, 2, 3); });
  table.add("slice, every third", {{{2, 11, 3}}}, [](In in) { return slice(in[0], 1, 1, 4, 3); });
  table.add("slice, empty", {{{5, 3}}}, [](In in) { return slice(in[0], 0, 5, 0); });
  table.add("slice of a slice, transposed", {{{7, 5}}}, [](In in) {
    return slice(permute(slice(in[0], 0, 1, 3, 2), {1, 0}), 0, 0, 3, 2);
  });
}

void add_copies(SampleTable& table) {
  table.add("pad", {{{2, 3}}}, [](In in) { return pad(in[0], 1, 2, 1); });
  table.add("pad of nothing", {{{0, 3}}}, [](In in) { return pad(in[0], 0, 1, 1); });
  table.add("place", {{{2, 3}}}, [](In in) { return place(in[0], 1, 1, 3, 11); });
  table.add("concat", {{{2, 3}}, {{2, 1}}, {{2, 5}}}, [](In in) {
    return concat({in[0], in[1], in[2]}, 1);
  });
  table.add("concat, one empty, one transposed", {{{0, 3}}, {{3, 2}}}, [](In in) {
    return concat({in[0], permute(in[1], {1, 0})}, 0);
  });
  table.add("concat of one tensor twice", {{{2, 3}}}, [](In in) {
    return concat({in[0], in[0]}, 0);
  });
  table.add("with_layout", {{{2, 3, 5}}}, [](In in) { return with_layout(in[0], {2, 0, 1}); });
}

void add_windows(SampleTable& table) {
  table.add("windows", {{{2, 7, 3}}}, [](In in) { return windows(in[0], 1, 3); });
  table.add("windows in steps", {{{11}}}, [](In in) { return windows(in[0], 0, 3, 4); });
  table.add("windows, side by side, of every other", {{{13, 2}}},
            [](In in) { return windows(slice(in[0], 0, 0, 7, 2), 0, 2, 2); });
  table.add("windows, none fits", {{{2, 3}}}, [](In in) { return windows(in[0], 0, 3); });
  table.add("windows of nothing", {{{5, 0}}}, [](In in) { return windows(in[0], 0, 3); });
  table.add("windows, transposed, contracted", {{{5, 7}}, {{3, 5}}}, [](In in) {
    return einsum("n w d, w d -> n d", windows(permute(in[0], {1, 0}), 0, 3), in[1]);
  });
  table.add("windows as a matrix", {{{9}}, {{3, 5}}},
            [](In in) { return einsum("n w, w d -> n d", windows(in[0], 0, 3), in[1]); });
  table.add("overlap_add", {{{2, 5, 3}}}, [](In in) { return overlap_add(in[0], 1, 1, 7); });
  table.add("overlap_add with gaps", {{{3, 2, 2}}}, [](In in) {
    return overlap_add(permute(in[0], {2, 0, 1}), 1, 3, 11);
  });
  table.add("overlap_add of nothing", {{{0, 3}}},
            [](In in) { return overlap_add(in[0], 0, 1, 5); });
}

void add_index(SampleTable& table) {
  const auto embed = [](In in) { return gather("[v] d, b n -> b n d", in[0], in[1]); };
  table.add("gather, embedding", {{{7, 3}}, positions({2, 5}, 7)}, 10, embed);
  table.add("gather, nothing", {{{7, 3}}, positions({2, 0}, 7)}, embed);
  table.add("gather, one of each row", {{{5, 7}}, positions({5}, 7)},
            [](In in) { return gather("t [v], t -> t", in[0], in[1]); });
  table.add("gather, in the middle", {{{2, 7, 3}}, positions({2, 5}, 7)}, 5,
            [](In in) { return gather("a [v] c, a n -> c a n", in[0], in[1]); });
  table.add("gather, transposed", {{{3, 7}}, positions({5, 2}, 7)}, 10, [](In in) {
    return gather("[v] d, n b -> b n d", permute(in[0], {1, 0}), in[1]);
  });
  table.add("scatter", {{{2, 5, 3}}, positions({2, 5}, 7)}, 10,
            [](In in) { return scatter("b n d, b n -> [v] d", in[0], in[1], 7); });
  table.add("scatter, one of each row", {{{5}}, positions({5}, 7)},
            [](In in) { return scatter("t, t -> t [v]", in[0], in[1], 7); });
  table.add("scatter, all to one place", {{{5, 3}}, positions({5}, 1)}, 5,
            [](In in) { return scatter("n d, n -> d [v]", in[0], in[1], 2); });
  table.add("gather at the largest", {{{5, 7}}, positions({5, 7}, 9)},
            [](In in) { return gather("[v] d, t d -> t d", in[0], top_k(in[1], 0, 3)); });
  table.add("one_hot", {{{2, 5}}, positions({2}, 5)},
            [](In in) { return in[0] * one_hot(in[1], 5, in[0].dtype()); });
  table.add("arange", {{{5}}},
            [](In in) { return in[0] * arange(5, in[0].dtype(), in[0].backend()); });
  table.add("cast of positions", {{{5}}, positions({5}, 9)},
            [](In in) { return in[0] * cast(in[1], in[0].dtype()); });
  for (const Dtype dtype : {Dtype::f32, Dtype::i64}) {
    table.add(text("cast to ", name_of(dtype), " and back"), {{{5}}},
              [dtype](In in) { return cast(cast(in[0], dtype), in[0].dtype()); });
    table.samples.back().differentiable = false;
  }
}

}  // namespace

void add_layout_samples(SampleTable& table) {
  add_rearrange(table);
  add_views(table);
  add_copies(table);
  add_windows(table);
  add_index(table);
}

}  // namespace tete
