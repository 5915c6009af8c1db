#include "core/check/samples.hpp"

#include "core/check/sample_table.hpp"

namespace tete {

namespace {

// ---- Elementwise -----------------------------------------------------------------------------

void add_unary(SampleTable& table, const char* name, Unary op, double low, double high) {
  for (const Layout& layout : layouts)
    table.add(text(name, " ", layout.name), {{layout.stored, low, high}},
              [op, view = layout.view](In in) { return unary(op, view(in[0])); });
}

void add_binary(SampleTable& table, const char* name, Binary op, double low, double high) {
  for (const Layout& layout : layouts)
    table.add(text(name, " ", layout.name),
              {{layout.stored, low, high}, {layout.stored, low, high}},
              [op, view = layout.view](In in) { return binary(op, view(in[0]), view(in[1])); });
  table.add(text(name, " of one transposed"), {{{3, 5}, low, high}, {{5, 3}, low, high}},
            [op](In in) {
              return binary(op, permute(in[0], {1, 0}), in[1]);
            });
}

void add_unary_of_sum(SampleTable& table, const char* name, Unary op, double low, double high) {
  table.add(text("unary_of_sum, ", name),
            {{{2, 3, 5}, low / 2, high / 2}, {{5}, low / 2, high / 2}},
            [op](In in) { return unary_of_sum(op, "b n d, d", in[0], in[1]); });
}

void add_sums(SampleTable& table) {
#define UNARY(name, value, gradient, low, high) \
  add_unary_of_sum(table, #name, Unary::name, low, high);
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  for (const Layout& layout : layouts) {
    if (layout.stored.size() != 2) continue;
    const Index width = layout.view(Tensor::zeros(layout.stored)).size(1);
    table.add(text("unary_of_sum, gelu of ", layout.name), {{layout.stored}, {{width}}},
              [view = layout.view](In in) {
                return unary_of_sum(Unary::gelu, "n d, d", view(in[0]), in[1]);
              });
  }
  table.add("unary_of_sum, both broadcast", {{{5}}, {{3}}},
            [](In in) { return unary_of_sum(Unary::silu, "n, d -> d n", in[0], in[1]); });
  table.add("unary_of_sum, of one tensor twice", {{{3, 3}}},
            [](In in) { return unary_of_sum(Unary::tanh, "n d, d n", in[0], in[0]); });
}

void add_elementwise(SampleTable& table) {
#define UNARY(name, value, gradient, low, high) add_unary(table, #name, Unary::name, low, high);
#define BINARY(name, value, gradient_a, gradient_b, low, high)                          \
  add_binary(table, #name, Binary::name, low, high);                                    \
  table.add(#name ", broadcast by name", {{{2, 3, 5}, low, high}, {{5, 2}, low, high}}, \
            [](In in) { return name("b n d, d b", in[0], in[1]); });                    \
  table.add(#name ", result named", {{{3}, low, high}, {{5}, low, high}},               \
            [](In in) { return name("n, d -> d n", in[0], in[1]); });
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  table.add("-x", {{{2, 3}}}, [](In in) { return -in[0]; });
  table.add("a + b * a - b / a", {{{2, 3}, 0.5, 2}, {{2, 3}}},
            [](In in) { return in[0] + in[1] * in[0] - in[1] / in[0]; });
  table.add("numbers on the right", {{{2, 3}}}, [](In in) { return ((in[0] + 2) * 3 - 0.5) / 4; });
  table.add("numbers on the left", {{{2, 3}, 0.5, 2}},
            [](In in) { return 3 / (2 * (0.5 - (2 + in[0]))); });
  for (const Layout& layout : layouts)
    table.add(text("select ", layout.name),
              {positions(layout.stored, 2), {layout.stored}, {layout.stored}},
              [view = layout.view](In in) {
                return select(view(cast(in[0], in[1].dtype())), view(in[1]), view(in[2]));
              });
}

// ---- Contraction -----------------------------------------------------------------------------

// A pattern, of operands as they are.
struct Einsum {
  const char *name, *pattern;
  std::vector<Shape> operands;
  double terms = 1;
};

std::vector<Einsum> einsums() {
  return {
      {"projection", "b n d_X, d_X d_k h -> b n d_k h", {{2, 5, 3}, {3, 2, 7}}, 3},
      {"dot products of heads", "b n d_k h, b m d_k h -> b n m h", {{2, 5, 3, 4}, {2, 7, 3, 4}}, 3},
      {"heads mixed", "n m h_k, h_k h -> n m h", {{3, 5, 2}, {2, 7}}, 2},
      {"two dimensions summed", "n d_v h_v, d_Y d_v h_v -> n d_Y", {{5, 3, 2}, {7, 3, 2}}, 6},
      {"matrices", "ij,jk->ik", {{5, 3}, {3, 7}}, 3},
      {"larger matrices", "ij,jk->ik", {{67, 37}, {37, 131}}, 37},
      {"result transposed", "ij,jk->ki", {{5, 3}, {3, 7}}, 3},
      {"matrix and vector", "ij,j->i", {{5, 3}, {3}}, 3},
      {"batched matrices", "b i j, j k b -> i b k", {{3, 5, 2}, {2, 7, 3}}, 2},
      {"outer", "i,j->ij", {{5}, {3}}},
      {"inner", "i,i->", {{5}, {5}}, 5},
      {"number and vector", ",i->i", {{}, {5}}},
      {"elementwise", "i j, j i -> i j", {{2, 3}, {3, 2}}},
      {"rows scaled", "i j k, j i -> k i j", {{2, 3, 5}, {3, 2}}},
      {"transpose", "i j k -> k i j", {{2, 3, 5}}},
      {"sum", "i j k -> k", {{2, 3, 5}}, 6},
      {"sums of each operand", "i j, k l -> k i", {{2, 3}, {5, 7}}, 21},
      {"three operands", "b i j, b j k, k l -> b i l", {{3, 2, 5}, {3, 5, 4}, {4, 7}}, 20},
      {"four operands",
       "n d, d k h, m k h, h g -> n m g",
       {{5, 3}, {3, 2, 4}, {7, 2, 4}, {4, 3}},
       24},
      {"nothing to sum", "i j, j k -> i k", {{5, 0}, {0, 3}}},
      {"no rows", "i j, j k -> i k", {{0, 5}, {5, 3}}},
      {"no batch", "b i j, b j k -> b i k", {{0, 2, 5}, {0, 5, 3}}},
      {"sizes of one", "b i j, b j k -> b i k", {{1, 5, 1}, {1, 1, 3}}},
      // The forms beyond a product: diagonals, '...', groups, an implied result.
      {"trace", "ii", {{5, 5}}, 5},
      {"diagonal", "i j i -> j i", {{3, 2, 3}}},
      {"diagonal of three", "iii->i", {{3, 3, 3}}},
      {"two diagonals times a matrix", "i i j j, j i -> i", {{3, 3, 2, 2}, {2, 3}}, 2},
      {"diagonal of nothing", "i i j -> j i", {{0, 0, 2}}},
      {"'...'", "... i j, i j k -> k ...", {{2, 3, 5}, {3, 5, 2}}, 15},
      {"'...' of different widths", "...i,...j->ij...", {{2, 3, 5}, {3, 7}}},
      {"'...' summed", "... i, ... -> i", {{2, 3, 5}, {3}}, 6},
      {"implied result", "cb,ba", {{5, 3}, {3, 2}}, 3},
      {"split and merged", "n (h d), h d e -> (e n) h", {{4, 6}, {2, 3, 5}}, 3},
      {"numbers alone", ",,", {{}, {}, {}}},
  };
}

void add_einsum(SampleTable& table) {
  for (const Einsum& e : einsums()) {
    std::vector<Draw> draws;
    for (const Shape& shape : e.operands) draws.push_back({shape});
    table.add(text("einsum, ", e.name), draws, e.terms,
              [pattern = e.pattern](In in) { return einsum(Pattern::parse(pattern), in); });
  }
  table.add("einsum, a long sum", {{{3, 1031}, -1, 1}, {{1031, 2}, -1, 1}}, 1031,
            [](In in) { return einsum("ij,jk->ik", in[0], in[1]); });
  table.add("einsum, one tensor twice", {{{5, 3}}}, 5,
            [](In in) { return einsum("i j, i k -> j k", in[0], in[0]); });
}

// Operands and results with other strides than row-major ones.
void add_strided_einsum(SampleTable& table) {
  table.add("einsum, transposed operands", {{{3, 5}}, {{7, 3}}}, 3, [](In in) {
    return einsum("i j, j k -> i k", permute(in[0], {1, 0}), permute(in[1], {1, 0}));
  });
  table.add("einsum, every other row and column", {{{9, 3}}, {{3, 13}}}, 3, [](In in) {
    return einsum("i j, j k -> i k", slice(in[0], 0, 1, 4, 2), slice(in[1], 1, 0, 7, 2));
  });
  table.add("einsum, every other summed", {{{5, 7}}, {{7, 3}}}, 4, [](In in) {
    return einsum("i j, j k -> i k", slice(in[0], 1, 0, 4, 2), slice(in[1], 0, 0, 4, 2));
  });
  table.add("einsum, a repeated operand", {{{1, 5, 3}}, {{4, 3, 2}}}, 3, [](In in) {
    return einsum("b i j, b j k -> b i k", broadcast(in[0], {4, 5, 3}), in[1]);
  });
  table.add("einsum, repeated rows", {{{1, 3}}, {{3, 2}}}, 3, [](In in) {
    return einsum("i j, j k -> i k", broadcast(in[0], {5, 3}), in[1]);
  });
}

void add_contract(SampleTable& table) {
  table.add("contract, result lying transposed", {{{5, 3}}, {{3, 7}}}, 3, [](In in) {
    return contract(in[0], {0, 1}, in[1], {1, 2}, {0, 2}, {2, 0});
  });
  table.add("contract, heads outermost", {{{2, 5, 3, 4}}, {{2, 7, 3, 4}}}, 3, [](In in) {
    return contract(in[0], {0, 1, 2, 3}, in[1], {0, 4, 2, 3}, {0, 1, 4, 3}, {0, 3, 1, 4});
  });
  table.add("contract_all", {{{5, 3}}, {{3, 2}}, {{2, 7}}}, 6, [](In in) {
    return contract_all({{in[0], {0, 1}}, {in[1], {1, 2}}, {in[2], {2, 3}}}, {0, 3}, {3, 0});
  });
}

// recomputed() passes the checks of any other operation.
void add_recomputed(SampleTable& table) {
  const auto again = [](In in) {
    return recomputed(
        [](const Tensors& x) {
          return mul("i k, k", tanh(einsum("i j, j k -> i k", x[0], x[1])), x[2]);
        },
        in);
  };
  table.add("recomputed", {{{5, 3}}, {{3, 2}}, {{2}}}, again);
  table.add("recomputed of nothing", {{{0, 3}}, {{3, 2}}, {{2}}}, again);
}

void add_diagonals(SampleTable& table) {
  table.add("einsum, diagonal of a transposed one", {{{2, 3, 3}}, {{3}}}, 1, [](In in) {
    return einsum("i i b, i -> b i", permute(in[0], {2, 1, 0}), in[1]);
  });
  table.add("einsum, one tensor three times", {{{3, 3}}}, 9,
            [](In in) { return einsum("ij,jk,ki->i", in[0], in[0], in[0]); });
  table.add("diagonal", {{{3, 2, 3}}}, [](In in) { return diagonal(in[0], {0, 2}); });
  table.add("diagonal of every other row", {{{5, 3}}}, [](In in) {
    return diagonal(slice(in[0], 0, 0, 3, 2), {0, 1});
  });
  table.add("on_diagonal", {{{3, 2}}}, [](In in) { return on_diagonal(in[0], {0, 2}); });
  table.add("on_diagonal, three times, transposed", {{{2, 3}}}, [](In in) {
    return on_diagonal(permute(in[0], {1, 0}), {0, 1, 3});
  });
}

// ---- Reductions ------------------------------------------------------------------------------

struct Reduction {
  const char* name;
  Tensor (*last)(const Tensor& x);
  Tensor (*outer)(const Tensor& x);
  Tensor (*by_axes)(const Tensor& x, const Axes& axes, bool keep);
};

const Reduction reductions[] = {
    {"sum", [](const Tensor& x) { return sum("a b [c]", x); },
     [](const Tensor& x) { return sum("[a] b [c]", x); }, sum},
    {"mean", [](const Tensor& x) { return mean("a b [c]", x); },
     [](const Tensor& x) { return mean("[a] b [c]", x); }, mean},
    {"max", [](const Tensor& x) { return max("a b [c]", x); },
     [](const Tensor& x) { return max("[a] b [c]", x); }, max},
    {"logsumexp", [](const Tensor& x) { return logsumexp("a b [c]", x); },
     [](const Tensor& x) { return logsumexp("[a] b [c]", x); }, logsumexp},
};

void add_reductions(SampleTable& table) {
  for (const Reduction& reduction : reductions) {
    const std::string name = reduction.name;
    const auto over = [by_axes = reduction.by_axes](const Axes& axes, bool keep) {
      return [by_axes, axes, keep](In in) { return by_axes(in[0], axes, keep); };
    };
    table.add(name + ", last", {{{2, 3, 5}}}, 5, [f = reduction.last](In in) { return f(in[0]); });
    table.add(name + ", first and last", {{{2, 3, 5}}}, 10,
              [f = reduction.outer](In in) { return f(in[0]); });
    table.add(name + ", middle", {{{2, 3, 5}}}, 3, over({1}, false));
    table.add(name + ", kept", {{{2, 3, 5}}}, 10, over({2, 0}, true));
    table.add(name + ", of one", {{{3, 1}}}, over({1}, false));
    table.add(name + ", no rows", {{{0, 5}}}, 5, over({1}, false));
    table.add(name + ", long rows", {{{3, 1031}}}, 1031, over({1}, false));
    table.add(name + ", long columns", {{{1031, 3}}}, 1031, over({0}, false));
    for (const Layout& layout : layouts)
      if (layout.stored.size() == 2 && layout.stored[0] > 0)
        table.add(text(name, ", last of ", layout.name), {{layout.stored}}, 7,
                  [by_axes = reduction.by_axes, view = layout.view](In in) {
                    return by_axes(view(in[0]), {1}, false);
                  });
  }
  table.add("sum of nothing", {{{3, 0}}}, [](In in) { return sum(in[0], {1}); });
  table.add("logsumexp of nothing", {{{3, 0}}}, [](In in) { return exp(logsumexp(in[0], {1})); });
  table.add("logsumexp of large numbers", {{{3, 5}, 700, 720}},
            [](In in) { return logsumexp(in[0], {1}); });
  table.add("sum of all", {{{2, 3, 5}}}, 30, [](In in) { return sum(in[0]); });
  table.add("mean of all", {{{2, 3, 5}}}, 30, [](In in) { return mean(in[0]); });
  table.add("sum of one number", {{{}}}, [](In in) { return sum(in[0]); });
}

// Empty tensors, for operations whose other samples have none.

void add_nothing(SampleTable& table) {
  table.add("-x of nothing", {{{0, 3}}}, [](In in) { return -in[0]; });
  table.add("a + b * a of nothing", {{{0, 3}}, {{0, 3}}},
            [](In in) { return in[0] + in[1] * in[0]; });
  table.add("numbers and nothing", {{{3, 0}}}, [](In in) { return 2 - in[0] * 3; });
  table.add("contract of nothing", {{{5, 0}}, {{0, 3}}}, [](In in) {
    return contract(in[0], {0, 1}, in[1], {1, 2}, {2, 0});
  });
  table.add("contract_all of nothing", {{{5, 0}}, {{0, 3}}, {{3, 2}}}, [](In in) {
    return contract_all({{in[0], {0, 1}}, {in[1], {1, 2}}, {in[2], {2, 3}}}, {0, 3});
  });
  table.add("diagonal of nothing", {{{0, 2, 0}}}, [](In in) { return diagonal(in[0], {0, 2}); });
  table.add("on_diagonal of nothing", {{{0, 2}}}, [](In in) { return on_diagonal(in[0], {0, 2}); });
  table.add("dropout of nothing", {{{0, 3}}}, [](In in) { return dropout(in[0], 0.5, Key(7)); });
  table.add("permute of nothing", {{{0, 3}}}, [](In in) { return permute(in[0], {1, 0}); });
  table.add("reshape of nothing", {{{0, 3}}}, [](In in) { return reshape(in[0], {5, 0, 2}); });
  table.add("broadcast of nothing", {{{0, 1}}}, [](In in) { return broadcast(in[0], {0, 3}); });
  table.add("expand of nothing", {{{0}}}, [](In in) { return expand(in[0], {0}, {3, 0}); });
  table.add("slice of nothing", {{{0, 5}}}, [](In in) { return slice(in[0], 1, 0, 3, 2); });
  table.add("place of nothing", {{{2, 0}}}, [](In in) { return place(in[0], 1, 0, 1, 3); });
  table.add("with_layout of nothing", {{{0, 3}}}, [](In in) { return with_layout(in[0], {1, 0}); });
  table.add("scatter of nothing", {{{0, 3}}, positions({0}, 7)},
            [](In in) { return scatter("n d, n -> [v] d", in[0], in[1], 7); });
  table.add("one_hot of nothing", {{{0, 5}}, positions({0}, 5)},
            [](In in) { return in[0] * one_hot(in[1], 5, in[0].dtype()); });
  table.add("arange of nothing", {{{0}}},
            [](In in) { return in[0] * arange(0, in[0].dtype(), in[0].backend()); });
  table.add("cast of no positions", {{{0}}, positions({0}, 9)},
            [](In in) { return in[0] * cast(in[1], in[0].dtype()); });
}

std::vector<Sample> all_samples() {
  SampleTable table;
  add_elementwise(table);
  add_sums(table);
  add_einsum(table);
  add_strided_einsum(table);
  add_contract(table);
  add_recomputed(table);
  add_diagonals(table);
  add_reductions(table);
  add_softmax_samples(table);
  add_layout_samples(table);
  add_nothing(table);
  return std::move(table.samples);
}

}  // namespace

const std::vector<Sample>& op_samples() {
  static const std::vector<Sample> samples = all_samples();
  return samples;
}

}  // namespace tete
