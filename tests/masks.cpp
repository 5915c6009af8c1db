// Masks: what a call hides has no influence, and what the catalogue says of a variant - causal or
// not, cross-attention or not - is what it does.
#include "attention/attention.hpp"
#include "tests/layer.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// In these a query sees positions only once it sees the whole block that holds them.
bool sees_blocks(const std::string& name) { return name.starts_with("memory_compressed"); }

// The first `keep` rows of X[b, n, d], then others.
Tensor changed_after(const Tensor& X, Index keep, uint64_t seed) {
  const Index rest = X.size(1) - keep;
  return concat({slice(X, 1, 0, keep), noise({X.size(0), rest, X.size(2)}, seed)}, 1);
}

// X[b, n, d] with another vector at position `at`.
Tensor changed_at(const Tensor& X, Index at) {
  return concat({slice(X, 1, 0, at), noise({X.size(0), 1, X.size(2)}, 70),
                 slice(X, 1, at + 1, X.size(1) - at - 1)},
                1);
}

bool is_zero(const Tensor& x) {
  const std::vector<double> all = x.values();
  return std::all_of(all.begin(), all.end(), [](double v) { return v == 0; });
}

Tensor row(const Tensor& X, Index at) { return slice(X, 1, at, 1); }

}  // namespace

TEST_CASE("under a causal mask no bit of an output depends on what comes later") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const Layer layer(variant.name, sizes_for(variant.name));
    const Tensor X = noise({2, 6, 12}, 1);
    if (!is_causal(*layer.program)) continue;
    const Tensor Y = layer(X, X, {.causal = true});
    for (Index j = 0; j < 6; ++j) {
      const Tensor other = changed_at(X, j), Z = layer(other, other, {.causal = true});
      CHECK(same_bits(slice(Z, 1, 0, j), slice(Y, 1, 0, j)));
      CHECK_FALSE(same_bits(row(Z, 5), row(Y, 5)));
      // The gradient of output j is exactly zero after j, and not before.
      const Tensor x = X.variable(), y = row(layer(x, x, {.causal = true}), j);
      const Tensor g = grad(y, std::vector<Tensor>{x}, {.cotangent = noise(y.shape(), 9)})[0];
      for (Index i = 0; i < 6; ++i)
        if (i > j) CHECK(is_zero(row(g, i)));
        else if (!sees_blocks(variant.name)) CHECK_FALSE(is_zero(row(g, i)));
    }
    CHECK_FALSE(same_bits(layer(X, X), Y));
  }
}

TEST_CASE("what is not causal is refused under a causal mask, and reads the future without one") {
  std::vector<std::string> not_causal;
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const Layer layer(variant.name, sizes_for(variant.name));
    if (is_causal(*layer.program)) continue;
    not_causal.push_back(variant.name);
    const Tensor X = noise({2, 6, 12}, 1);
    CHECK_THROWS_WITH_AS(layer(X, X, {.causal = true}), doctest::Contains("causal mask"), Error);
    // Every output depends on every position, through all of its keys: hiding some hides nothing.
    const Tensor other = changed_at(X, 5), Y = layer(X, X), Z = layer(other, other);
    for (Index i = 0; i < 6; ++i) CHECK_FALSE(same_bits(row(Z, i), row(Y, i)));
  }
  CHECK(not_causal == std::vector<std::string>{"linformer"});
}

TEST_CASE("cross-attention is to any number of others; self-attention says that it has none") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const Layer layer(variant.name, sizes_for(variant.name));
    const Tensor X = noise({2, 4, 12}, 1), M = noise({2, 7, 12}, 2);
    if (!attends_across(*layer.program)) {
      CHECK_THROWS_AS(layer(X, M), Error);
      CHECK_THROWS_AS(layer(X, noise({2, 4, 12}, 3)), Error);
      continue;
    }
    const Tensor Y = layer(X, M);
    REQUIRE(Y.shape() == Shape{2, 4, 12});
    const Index whole = sees_blocks(variant.name) ? 6 : 7;  // two blocks of three
    for (Index j = 0; j < 7; ++j) CHECK(same_bits(layer(X, changed_at(M, j)), Y) == (j >= whole));
    // A query is alone with the memory.
    const Tensor Z = layer(changed_at(X, 2), M);
    for (Index i = 0; i < 4; ++i) CHECK(same_bits(row(Z, i), row(Y, i)) == (i != 2));
  }
}

TEST_CASE("with a longer memory the last query sees all of it") {
  Layer layer("talking_heads", sizes_for("talking_heads"));
  const Tensor X = noise({2, 12}, 1), M = noise({5, 12}, 2);
  // Query i sees j <= i + 3.
  const Tensor seen = Tensor::of<double>({2, 5}, {1, 1, 1, 1, 0, 1, 1, 1, 1, 1});
  CHECK(same_bits(layer(X, M, {.causal = true}), layer(X, M, {.visible = seen})));
  const Tensor past = noise({6, 12}, 3);
  const Tensor whole = layer(past, past, {.causal = true});
  CHECK(difference(layer(slice(past, 0, 4, 2), past, {.causal = true}), slice(whole, 0, 4, 2)) <
        1e-12);
}

TEST_CASE("positions are counted from where a causal mask counts") {
  const Tensor past = noise({2, 6, 12}, 3), few = slice(past, 1, 4, 2);
  for (const Variant& amendment : amendments()) {
    CAPTURE(amendment.name);
    const Layer layer("multi_head", {.d_model = 12, .heads = 3, .dims = {}}, Dtype::f64,
                      {*amendment.program});
    const Tensor whole = layer(past, past, {.causal = true});
    // The two last queries, and all of the memory.
    CHECK(difference(layer(few, past, {.causal = true}), slice(whole, 1, 4, 2)) < 1e-12);
    // All queries, and the two last of the memory: the others are hidden.
    std::vector<double> hidden;
    for (Index i = 0; i < 6; ++i)
      for (Index j = 0; j < 6; ++j) hidden.push_back(j >= 4);
    const Mask last{.causal = true, .visible = Tensor::of<double>({6, 6}, hidden)};
    CHECK(difference(layer(past, few, {.causal = true}), layer(past, past, last)) < 1e-12);
  }
}

TEST_CASE("what is padded is as if it were not there") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    Layer layer(variant.name, sizes_for(variant.name));
    const bool self = layer.program->self_only;
    const Tensor X = noise({2, self ? 7 : 4, 12}, 1), M = noise({2, 7, 12}, 2);
    const Tensor Y = layer(X, memory(layer, X, M), {.lengths = Tensor::of<int64_t>({2}, {3, 7})});
    // The first sample, cut to its length; queries that are padding themselves do not count.
    const Index n = self ? 3 : 4;
    const Tensor x = slice(slice(X, 0, 0, 1), 1, 0, n), m = slice(slice(M, 0, 0, 1), 1, 0, 3);
    CHECK(difference(slice(slice(Y, 0, 0, 1), 1, 0, n), layer(x, memory(layer, x, m))) < 1e-12);
    const Tensor x1 = slice(X, 0, 1, 1), m1 = slice(M, 0, 1, 1);
    CHECK(difference(slice(Y, 0, 1, 1), layer(x1, memory(layer, x1, m1))) < 1e-12);
  }
}

TEST_CASE("what stands in padding has no influence, and no gradient reaches it, bit for bit") {
  const Mask mask{.lengths = Tensor::of<int64_t>({1}, {3})};
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const Layer layer(variant.name, sizes_for(variant.name));
    const bool self = layer.program->self_only;
    const Tensor X = noise({1, 7, 12}, 1), M = noise({1, 7, 12}, 2);
    const Index n = self ? 3 : 7;  // queries that are no padding themselves
    const auto result = [&](const Tensor& x, const Tensor& m) {
      return slice(layer(x, memory(layer, x, m), mask), 1, 0, n);
    };
    const Tensor others = changed_after(self ? X : M, 3, 60);
    CHECK(same_bits(result(self ? others : X, others), result(X, M)));
    const Tensor x = X.variable(), m = self ? x : M.variable(), y = result(x, m);
    const Tensor g = grad(y, std::vector<Tensor>{m}, {.cotangent = noise(y.shape(), 9)})[0];
    CHECK(is_zero(slice(g, 1, 3, 4)));
    CHECK_FALSE(is_zero(slice(g, 1, 0, 3)));
  }
}

TEST_CASE("a query that sees nothing gives zeros and finite gradients") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    Layer layer(variant.name, sizes_for(variant.name));
    if (!is_causal(*layer.program)) continue;
    const Tensor X = noise({4, 12}, 1).variable(), M = noise({4, 12}, 2).variable();
    const Tensor& memory_of_X = memory(layer, X, M);
    const Tensor seen =
        Tensor::of<double>({4, 4}, {1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0});
    const Tensor Y = layer(X, memory_of_X, {.visible = seen});
    for (double y : slice(Y, 0, 1, 1).values()) CHECK(y == 0);
    CHECK(difference(slice(Y, 0, 0, 1), Tensor::zeros({1, 12}, Dtype::f64)) > 0);
    const Tensors inputs{X, memory_of_X};
    for (const Tensor& g : grad(Y, inputs, {.cotangent = noise({4, 12}, 5)}))
      for (double v : g.values()) CHECK(std::isfinite(v));
    // Nothing at all: a memory of no positions, and a batch whose memory is all padding.
    const Tensor few = slice(X, 0, 0, 0), none = slice(M, 0, 0, 0);
    if (layer.program->self_only) CHECK(layer(few, few).size() == 0);
    else
      for (double y : layer(X, none).values()) CHECK(y == 0);
    const Tensor pair = noise({2, 4, 12}, 1), other = noise({2, 4, 12}, 2);
    const Tensor padded =
        layer(pair, memory(layer, pair, other), {.lengths = Tensor::of<int64_t>({2}, {0, 0})});
    for (double y : padded.values()) CHECK(y == 0);
  }
}
