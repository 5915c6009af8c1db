// Samples of softmax, attention, norms and losses.
#include "core/check/sample_table.hpp"

namespace tete {

namespace {

// mask[3, 5] on the device of `like`, whose second row hides everything.
Tensor mask_with_hidden_row(const Tensor& like) {
  return Tensor::of<int64_t>({3, 5}, {1, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 0, /**/ 1, 1, 0, 1, 1},
                             like.backend());
}

void add_attend(SampleTable& table) {
  const std::vector<Draw> few = {{{2, 3, 2}}, {{2, 5, 2}}, {{2, 5, 4}}};
  table.add("attend", few, 7, [](In in) { return attend(in[0], in[1], in[2]); });
  table.add("attend, one more for each row", few, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.shown = 2}); });
  table.add("attend, nothing for the first rows", few, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.shown = -1}); });
  // Each position is seen by a row: the gradients of what nobody sees are products with 0.
  table.add("attend, masked", {{{3, 2}}, {{5, 2}}, {{5, 4}}}, 7, [](In in) {
    const Tensor mask = Tensor::of<int64_t>(
        {3, 5}, {1, 0, 1, 0, 0, /**/ 0, 0, 0, 0, 0, /**/ 1, 1, 0, 1, 1}, in[0].backend());
    return attend(in[0], in[1], in[2], {.mask = mask});
  });
  table.add("attend, masked differently for each, and one more for each row",
            {few[0], few[1], few[2], positions({2, 3, 5}, 9)}, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.mask = in[3], .shown = 3}); });
  table.add("attend, turned", {{{2, 2, 3}}, {{5, 2, 2}}, {{4, 5, 2}}}, 7, [](In in) {
    return attend(permute(in[0], {1, 2, 0}), permute(in[1], {1, 0, 2}), permute(in[2], {2, 1, 0}));
  });
  table.add("attend, of heads side by side", {{{5, 3, 2}}, {{7, 3, 2}}, {{7, 3, 2}}}, 9, [](In in) {
    const auto heads_first = [](const Tensor& x) { return permute(x, {1, 0, 2}); };
    return attend(heads_first(in[0]), heads_first(in[1]), heads_first(in[2]));
  });
  table.add("attend, wide", {{{17, 3}}, {{131, 3}}, {{131, 35}}}, 131,
            [](In in) { return attend(in[0], in[1], in[2], {.shown = 110}); });
  table.add("attend, to a long memory", {{{3, 2}}, {{800, 2}}, {{800, 1}}}, 800,
            [](In in) { return attend(in[0], in[1], in[2], {.shown = 700}); });
  // Four heads of queries, three of weights, two of values.
  const std::vector<Draw> mixing = {{{4, 3, 2}}, {{4, 5, 2}}, {{2, 5, 3}}, {{4, 3}}, {{3, 2}}};
  table.add("attend, heads mixed", mixing, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.before = in[3], .after = in[4]}); });
  table.add("attend, heads mixed before", {mixing[0], mixing[1], {{3, 5, 3}}, mixing[3]}, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.shown = 2, .before = in[3]}); });
  table.add("attend, heads mixed after", {{{3, 3, 2}}, {{3, 5, 2}}, mixing[2], mixing[4]}, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.shown = 1, .after = in[3]}); });
  table.add("attend, heads mixed and masked", mixing, 7, [](In in) {
    const Tensor mask = Tensor::of<int64_t>(
        {1, 3, 5}, {1, 0, 1, 0, 0, /**/ 0, 0, 0, 0, 0, /**/ 1, 1, 0, 1, 1}, in[0].backend());
    return attend(in[0], in[1], in[2], {.mask = mask, .before = in[3], .after = in[4]});
  });
  table.add("attend, heads mixed, each masked differently",
            {mixing[0], mixing[1], mixing[2], mixing[3], mixing[4], positions({3, 3, 5}, 9)}, 7,
            [](In in) {
              return attend(in[0], in[1], in[2],
                            {.mask = in[5], .shown = 3, .before = in[3], .after = in[4]});
            });
  table.add("attend, heads mixed, of samples",
            {{{2, 2, 17, 3}}, {{2, 2, 33, 3}}, {{2, 3, 33, 2}}, {{2, 2}}, {{2, 3}}}, 33, [](In in) {
              return attend(in[0], in[1], in[2], {.shown = 17, .before = in[3], .after = in[4]});
            });
  table.add("attend, with a bias", {{{3, 2}}, {{5, 2}}, {{5, 4}}, {{3, 5}}}, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.shown = 3, .bias = in[3]}); });
  table.add(
      "attend, one bias of all samples and masks of each",
      {{{2, 9, 3, 2}}, {{2, 9, 5, 2}}, {{2, 9, 5, 4}}, {{1, 9, 3, 5}}, positions({2, 1, 3, 5}, 9)},
      9, [](In in) { return attend(in[0], in[1], in[2], {.mask = in[4], .bias = in[3]}); });
  table.add("attend, a bias of all samples, heads and rows",
            {{{2, 3, 3, 2}}, {{2, 3, 5, 2}}, {{2, 3, 5, 4}}, {{1, 1, 1, 5}}}, 7,
            [](In in) { return attend(in[0], in[1], in[2], {.bias = in[3]}); });
  table.add("attend, heads mixed, one bias of all samples",
            {{{2, 2, 3, 2}}, {{2, 2, 5, 2}}, {{2, 4, 5, 3}}, {{2, 3}}, {{3, 4}}, {{1, 3, 3, 5}}}, 9,
            [](In in) {
              return attend(in[0], in[1], in[2],
                            {.shown = 2, .before = in[3], .after = in[4], .bias = in[5]});
            });
  table.add("attend, heads mixed to more of them, with a bias of each, columns first",
            {{{2, 3, 2}}, {{2, 5, 2}}, {{4, 5, 3}}, {{2, 3}}, {{3, 4}}, {{5, 3, 3}}}, 9, [](In in) {
              return attend(in[0], in[1], in[2],
                            {.before = in[3], .after = in[4], .bias = permute(in[5], {1, 2, 0})});
            });
  const auto by_distance = [](In in) {
    return attend(in[0], in[1], in[2], {.shown = 3, .bias = in[3], .bias_by_distance = true});
  };
  table.add("attend, with a bias by distance", {{{3, 2}}, {{5, 2}}, {{5, 4}}, {{7}}}, 7,
            by_distance);
  table.add("attend, one bias by distance of all samples",
            {{{2, 9, 17, 2}}, {{2, 9, 5, 2}}, {{2, 9, 5, 3}}, {{1, 9, 21}}}, 21, by_distance);
  table.add("attend, one bias by distance of all heads, turned",
            {{{2, 3, 2}}, {{2, 1, 2}}, {{2, 1, 3}}, {{3, 1}}}, 7, [](In in) {
              return attend(in[0], in[1], in[2],
                            {.bias = permute(in[3], {1, 0}), .bias_by_distance = true});
            });
  table.add("attend to a long memory, with a bias by distance",
            {{{3, 2}}, {{800, 2}}, {{800, 1}}, {{802}}}, 802, [](In in) {
              return attend(in[0], in[1], in[2], {.bias = in[3], .bias_by_distance = true});
            });
  table.add(
      "attend, heads mixed, with a bias by distance of all samples",
      {{{2, 2, 3, 2}}, {{2, 2, 5, 2}}, {{2, 4, 5, 3}}, {{2, 3}}, {{3, 4}}, {{1, 3, 7}}}, 9,
      [](In in) {
        return attend(
            in[0], in[1], in[2],
            {.shown = 2, .before = in[3], .after = in[4], .bias = in[5], .bias_by_distance = true});
      });
  table.add(
      "attend, with a mask and a bias by distance",
      {{{2, 3, 2}}, {{2, 5, 2}}, {{2, 5, 4}}, {{2, 7}}, positions({1, 7}, 3)}, 7, [](In in) {
        return attend(
            in[0], in[1], in[2],
            {.mask = in[4], .bias = in[3], .mask_by_distance = true, .bias_by_distance = true});
      });
  table.add("attend to nothing, with a bias by distance", {{{3, 2}}, {{0, 2}}, {{0, 4}}, {{2}}},
            by_distance);
  table.add("attend to nothing", {{{3, 2}}, {{0, 2}}, {{0, 4}}},
            [](In in) { return attend(in[0], in[1], in[2]); });
  table.add("attend over no name", {{{3, 0}}, {{5, 0}}, {{5, 4}}}, 5,
            [](In in) { return attend(in[0], in[1], in[2]); });
}

void add_softmax(SampleTable& table) {
  for (const Layout& layout : layouts)
    if (layout.stored.size() > 0)
      table.add(text("softmax ", layout.name), {{layout.stored}}, 7, [view = layout.view](In in) {
        const Tensor x = view(in[0]);
        return softmax(x, x.rank() - 1);
      });
  table.add("softmax, middle", {{{2, 5, 3}}}, 5, [](In in) { return softmax("b [m] h", in[0]); });
  table.add("softmax, first", {{{5, 3}}}, 5, [](In in) { return softmax(in[0], 0); });
  table.add("softmax, wide", {{{3, 257}}}, 257, [](In in) { return softmax(in[0], 1); });
  table.add("softmax of large numbers", {{{3, 5}, 700, 720}}, 5,
            [](In in) { return softmax(in[0], 1); });
  table.add("softmax, masked by name", {{{2, 3, 5, 2}}}, 5,
            [](In in) { return softmax("b n [m] h, n m", in[0], mask_with_hidden_row(in[0])); });
  table.add("softmax, masked", {{{3, 5}}}, 5,
            [](In in) { return softmax(in[0], 1, mask_with_hidden_row(in[0])); });
  table.add("softmax, masked differently for each", {{{2, 3, 5}}, positions({2, 3, 5}, 2)}, 5,
            [](In in) { return softmax(in[0], 2, in[1]); });
  table.add("softmax, all hidden", {{{3, 5}}}, [](In in) {
    return softmax(in[0], 1, Tensor::zeros({3, 5}, in[0].dtype(), in[0].backend()));
  });
  table.add("softmax of nothing", {{{3, 0}}}, [](In in) { return softmax(in[0], 1); });
  table.add("log_softmax of nothing", {{{3, 0}}}, [](In in) { return log_softmax(in[0], 1); });
  table.add("log_softmax", {{{2, 5, 3}}}, 3, [](In in) { return log_softmax(in[0], 2); });
  table.add("log_softmax, transposed", {{{5, 3}}}, 5, [](In in) {
    return log_softmax(permute(in[0], {1, 0}), 1);
  });
  table.add("log_softmax, first", {{{5, 3}}}, 5, [](In in) { return log_softmax(in[0], 0); });
  table.add("log_softmax, masked", {{{3, 5}}}, 5,
            [](In in) { return log_softmax(in[0], 1, mask_with_hidden_row(in[0])); });
}

void add_norms(SampleTable& table) {
  const auto layer = [](In in) { return layer_norm(in[0], in[1], in[2]); };
  const auto rms = [](In in) { return rms_norm(in[0], in[1]); };
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{7}, Shape{0, 3}, Shape{3, 131}, Shape{67, 3}}) {
    const Shape width{shape.back()};
    const double terms = static_cast<double>(width[0]);
    table.add(text("layer_norm ", shape), {{shape}, {width}, {width}}, terms, layer);
    table.add(text("rms_norm ", shape), {{shape}, {width}}, terms, rms);
  }
  // Both results count.
  const auto both = [](const SumWithNorm& made) { return made.sum * made.norm(); };
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{7}, Shape{0, 3}, Shape{3, 131}}) {
    const Shape width{shape.back()};
    const double terms = static_cast<double>(width[0]);
    table.add(text("add_layer_norm ", shape), {{shape}, {shape}, {width}, {width}}, terms,
              [both](In in) {
                return both(sum_with_norm(in[0], in[1], {in[2], in[3]}));
              });
    table.add(text("add_rms_norm ", shape), {{shape}, {shape}, {width}}, terms,
              [both](In in) { return both(sum_with_norm(in[0], in[1], {in[2]})); });
  }
  table.add("add_layer_norm, one transposed, one repeated", {{{5, 3}}, {{1, 5}}, {{5}}, {{5}}}, 5,
            [both](In in) {
              return both(
                  sum_with_norm(permute(in[0], {1, 0}), broadcast(in[1], {3, 5}), {in[2], in[3]}));
            });
  table.add("layer_norm of one channel", {{{3, 1}}, {{1}}, {{1}}}, layer);
  table.add("rms_norm of one channel", {{{3, 1}, 0.5, 2}, {{1}}}, rms);
  table.add("layer_norm, transposed", {{{5, 3}}, {{5}}, {{5}}}, 5, [](In in) {
    return layer_norm(permute(in[0], {1, 0}), in[1], in[2]);
  });
  table.add("rms_norm, every other column", {{{3, 10}}, {{5}}}, 5,
            [](In in) { return rms_norm(slice(in[0], 1, 0, 5, 2), in[1]); });
  table.add("layer_norm, repeated", {{{1, 5}}, {{5}}, {{5}}}, 5, [](In in) {
    return layer_norm(broadcast(in[0], {3, 5}), in[1], in[2]);
  });
}

// Pairs along `axis` turned by angles of which those of the first dimension are the same.
Tensor turned(const Tensor& x, int axis) {
  Shape angles = x.shape();
  angles.erase(axis), angles.erase(0);
  const Tensor angle = random_normal(angles, Key(8), x.dtype(), x.backend());
  Shape all = x.shape();
  all.erase(axis);
  return turn(x, axis, expand(cos(angle), {0}, all), expand(sin(angle), {0}, all));
}

void add_turns(SampleTable& table) {
  for (const auto& [name, shape, axis] : {std::tuple("turn", Shape{2, 3, 5, 2}, 3),
                                          {"turn, halves", {3, 2, 5}, 1},
                                          {"turn, pairs outermost", {2, 3, 1}, 0},
                                          {"turn of nothing", {3, 0, 2}, 2}})
    table.add(name, {{shape}}, [axis = axis](In in) { return turned(in[0], axis); });
  table.add("turn, transposed", {{{2, 7, 3}}}, [](In in) {
    return turned(permute(in[0], {2, 1, 0}), 2);
  });
}

void add_loss(SampleTable& table) {
  const auto loss = [](In in) { return cross_entropy(in[0], in[1]); };
  table.add("cross_entropy", {{{5, 7}}, positions({5}, 7)}, 7, loss);
  table.add("cross_entropy, wide", {{{3, 257}}, positions({3}, 257)}, 257, loss);
  table.add("cross_entropy, one class", {{{3, 1}}, positions({3}, 1)}, loss);
  table.add("cross_entropy, no rows", {{{0, 3}}, positions({0}, 3)}, loss);
  table.add("cross_entropy of large numbers", {{{3, 5}, 700, 720}, positions({3}, 5)}, 5, loss);
  table.add("cross_entropy, transposed", {{{7, 5}}, positions({5}, 7)}, 7, [](In in) {
    return cross_entropy(permute(in[0], {1, 0}), in[1]);
  });
  table.add("dropout", {{{2, 3, 5}}}, [](In in) { return dropout(in[0], 0.3, Key(7), 5); });
  table.add("dropout, transposed", {{{5, 3}}}, [](In in) {
    return dropout(permute(in[0], {1, 0}), 0.5, Key(7));
  });
  table.add("dropout, rate 0", {{{5, 3}}}, [](In in) { return dropout(in[0], 0, Key(7)) * 2; });
}

}  // namespace

void add_softmax_samples(SampleTable& table) {
  add_softmax(table);
  add_attend(table);
  add_norms(table);
  add_turns(table);
  add_loss(table);
}

}  // namespace tete
