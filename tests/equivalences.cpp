// Where variants of the catalogue are the same function: the papers' equivalences.
#include "tests/layer.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

const AttentionSizes multi_sizes{.d_model = 12, .heads = 3, .dims = {}};

AttentionSizes with(AttentionSizes sizes, const SizesByName& dims) {
  sizes.dims.insert(dims.begin(), dims.end());
  return sizes;
}

const Tensor& X() {
  static const Tensor queries = noise({2, 7, 12}, 1);
  return queries;
}
const Tensor& M() {
  static const Tensor memory = noise({2, 5, 12}, 2);
  return memory;
}
const std::vector<Mask>& masks() {
  static const std::vector<Mask> all{
      {}, {.causal = true}, {.causal = true, .lengths = Tensor::of<int64_t>({2}, {3, 5})}};
  return all;
}

// Both give the same for the same queries, of X itself and, where they can, of another memory.
void check_same(const Layer& a, const Layer& b) {
  for (const Mask& mask : masks()) {
    CAPTURE(a.program->name);
    CAPTURE(b.program->name);
    CAPTURE(mask.causal);
    CHECK(difference(a(X(), X(), mask), b(X(), X(), mask)) < 1e-12);
    if (!a.program->self_only && !b.program->self_only)
      CHECK(difference(a(X(), M(), mask), b(X(), M(), mask)) < 1e-12);
  }
}

Tensor zeros(const Tensor& like) { return Tensor::zeros(like.shape(), Dtype::f64); }
// [a, b] for every one of h heads.
Tensor for_heads(const Tensor& x, Index h) {
  return mul("a b, h -> a b h", x, Tensor::ones({h}, Dtype::f64));
}

}  // namespace

TEST_CASE("a scale of the logits can live in P_q") {
  Layer scaled("multi_head_scaled", multi_sizes), plain("multi_head", multi_sizes);
  plain.take(scaled);
  plain["P_q"] = scaled["P_q"] / 2.0;  // d_k = 4
  check_same(plain, scaled);
}

TEST_CASE("multi-head attention is the sum of its heads, each a layer of its own") {
  Layer multi("multi_head", multi_sizes);
  Layer one("dot_product_projected", {.d_model = 12, .dims = {{"d_k", 4}, {"d_v", 4}}});
  for (const Mask& mask : masks()) {
    Tensor all = Tensor::zeros({2, 7, 12}, Dtype::f64);
    for (Index h = 0; h < 3; ++h) {
      for (const char* name : {"P_q", "P_k", "P_v", "P_o"})
        one[name] = reshape(slice(multi[name], 2, h, 1), {12, 4});
      all = all + one(X(), M(), mask);
    }
    CHECK(difference(all, multi(X(), M(), mask)) < 1e-12);
  }
}

TEST_CASE("dot products without projections are those with identities, and a general form of one") {
  Layer plain("dot_product", {.d_model = 12, .dims = {}});
  Layer projected("dot_product_projected", {.d_model = 12, .dims = {}});
  for (const char* name : {"P_q", "P_k", "P_v", "P_o"}) projected[name] = identity(12);
  Layer general("general", {.d_model = 12, .dims = {}});
  check_same(projected, plain);
  general["W_1"] = general["W_2"] = identity(12);
  check_same(general, plain);
}

TEST_CASE(
    "multi-query is multi-head with tied keys and values; grouped heads lie between; so is "
    "shared_kv") {
  Layer multi("multi_head", multi_sizes), query("multi_query", multi_sizes);
  multi.take(query);
  for (const char* name : {"P_k", "P_v"}) multi[name] = for_heads(query[name], 3);
  check_same(query, multi);
  Layer one("grouped_query", with(multi_sizes, {{"g", 1}}));
  one.take(query);
  for (const char* name : {"P_k", "P_v"}) one[name] = reshape(query[name], {12, 4, 1});
  check_same(one, query);
  Layer shared("shared_kv", multi_sizes);
  Layer own("multi_head", multi_sizes);
  own.take(shared);
  own["P_v"] = own["P_k"];
  check_same(shared, own);
  Layer all("grouped_query", with(multi_sizes, {{"g", 3}}));
  all.take(multi);
  check_same(all, multi);
  // Heads 0 and 1 read group 0, heads 2 and 3 group 1.
  Layer two("grouped_query", {.d_model = 12, .heads = 4, .dims = {{"g", 2}}});
  Layer four("multi_head", {.d_model = 12, .heads = 4, .dims = {}});
  for (const char* name : {"P_q", "P_o"}) four[name] = two[name];
  for (const char* name : {"P_k", "P_v"}) {
    const Tensor a = slice(two[name], 2, 0, 1), b = slice(two[name], 2, 1, 1);
    four[name] = concat({a, a, b, b}, 2);
  }
  check_same(two, four);
}

TEST_CASE("dynamic projections whose generators are zero are talking heads") {
  const AttentionSizes sizes = with(multi_sizes, {{"h_k", 2}, {"h_v", 4}});
  Layer talking("talking_heads", sizes), all("dynamic_projections", sizes);
  for (const std::string which : {"Xl", "Ml", "Xw", "Mw"}) {
    Layer one("dynamic_" + which, sizes);
    one.take(all);
    Layer others("dynamic_projections", sizes);
    others.take(all);
    for (const char* other : {"P_Xl", "P_Ml", "P_Xw", "P_Mw"})
      if (other != "P_" + which) others[other] = zeros(all[other]);
    check_same(others, one);
    talking.take(all);
    CHECK(difference(one(X(), M()), talking(X(), M())) > 1e-3);
    one["P_" + which] = zeros(one["P_" + which]);
    check_same(one, talking);
  }
}

TEST_CASE("factorized random logits are random ones of their product") {
  const SizesByName room{{"max_n", 9}, {"max_m", 9}};
  Layer factors("factorized_random_synthesizer", with(multi_sizes, room));
  Layer random("random_synthesizer", with(multi_sizes, room));
  Layer fixed("fixed_random_synthesizer", with(multi_sizes, room));
  random.take(factors);
  random["R"] = einsum("n r h, m r h -> n m h", factors["R_1"], factors["R_2"]);
  check_same(factors, random);
  fixed.take(random);
  check_same(fixed, random);
}

TEST_CASE("a mixture with all its weight on one part is that part") {
  const SizesByName room{{"max_n", 9}, {"max_m", 9}};
  const auto sized = [&](const std::string& name) {
    AttentionSizes sizes = multi_sizes;
    for (const auto& [dim, size] : room)
      if (load_attention(name)->find_dimension(dim) >= 0) sizes.dims[dim] = size;
    return sizes;
  };
  struct Case {
    const char *mixture, *first, *second;
  };
  for (const Case& c : {
           Case{"random_plus_dense", "random_synthesizer", "dense_synthesizer"},
           Case{"dense_plus_dot", "dense_synthesizer", "multi_head"},
           Case{"random_plus_dot", "random_synthesizer", "multi_head"},
           Case{"factorized_random_plus_dense", "factorized_random_synthesizer",
                "dense_synthesizer"},
           Case{"dense_plus_alpha", "multi_head", "dense_minus"},
           Case{"random_plus_alpha", "multi_head", "random_synthesizer"},
       }) {
    CAPTURE(std::string(c.mixture));
    Layer mixture(c.mixture, sized(c.mixture));
    Layer first(c.first, sized(c.first)), second(c.second, sized(c.second));
    first.take(mixture), second.take(mixture);
    const bool sigmoid = mixture["a"].rank() == 0;  // of the second part's weight
    const auto weights = [&](double a_first, double a_second) {
      return sigmoid ? Tensor::of<double>({}, {a_second - a_first})
                     : Tensor::of<double>({2}, {a_first, a_second});
    };
    mixture["a"] = weights(800, 0);
    check_same(mixture, first);
    mixture["a"] = weights(0, 800);
    check_same(mixture, second);
  }
}

TEST_CASE("the sums of Narang et al. are dot products where the table is zero, and half of each") {
  for (const std::string which : {"dense", "random"}) {
    CAPTURE(which);
    SizesByName room{{"max_m", 9}};
    if (which == "random") room["max_n"] = 9;
    const char* table = which == "dense" ? "pi" : "R";
    Layer sum(which + "_plus", with(multi_sizes, room));
    Layer weighed(which + "_plus_alpha", with(multi_sizes, room));
    Layer multi("multi_head", multi_sizes);
    weighed.take(sum);
    weighed["a"] = Tensor::of<double>({}, {0.0});
    Layer half(which + "_plus", with(multi_sizes, room));
    half.take(sum);
    for (const char* name : {"P_k", table}) half[name] = sum[name] / 2.0;
    check_same(weighed, half);
    sum[table] = zeros(sum[table]);
    multi.take(sum);
    check_same(sum, multi);
  }
}

TEST_CASE("synthesizing functions are each other's special cases") {
  const SizesByName room{{"max_m", 9}};
  Layer dense("dense_synthesizer", with(multi_sizes, room));
  // One position wide.
  Layer conv("conv_synthesizer", with(multi_sizes, {{"w", 1}, {"max_m", 9}}));
  conv.take(dense);
  conv["F"] = reshape(dense["W_1"], {1, 12, 4, 3});
  check_same(conv, dense);
  Layer wide("conv_synthesizer", with(multi_sizes, {{"w", 3}, {"max_m", 9}}));
  Layer twice("conv_relu_conv_synthesizer", with(multi_sizes, {{"u", 1}, {"max_m", 9}}));
  twice.take(wide);
  twice["G"] = reshape(wide["W_2"], {1, 4, 9, 3});
  check_same(twice, wide);
  // Tables that all heads share.
  Layer minus("dense_minus", with(multi_sizes, room));
  dense.take(minus);
  dense["W_1"] = minus["P_q"], dense["W_2"] = for_heads(minus["pi"], 3);
  check_same(minus, dense);
  Layer narrow("bottleneck_synthesizer", with(multi_sizes, {{"e", 4}, {"max_m", 9}}));
  dense.take(narrow);
  check_same(narrow, dense);
  // With one row for all columns, the other's are the columns.
  Layer factors("factorized_dense_synthesizer", with(multi_sizes, {{"a", 9}, {"b", 1}}));
  Layer repeated("factorized_dense_synthesizer", with(multi_sizes, {{"a", 1}, {"b", 9}}));
  repeated.take(factors);
  repeated["W_a"] = factors["W_b"], repeated["W_b"] = factors["W_a"];
  check_same(factors, repeated);
}

TEST_CASE("a Linformer that projects positions by the identity is multi-head attention") {
  Layer multi("multi_head_scaled", multi_sizes);
  for (Index m : {7, 5}) {
    Layer linformer("linformer", with(multi_sizes, {{"r", m}, {"max_m", m}}));
    linformer.take(multi);
    linformer["E"] = linformer["F"] = identity(m);
    const Tensor memory = m == 7 ? X() : M();
    CHECK(difference(linformer(X(), memory), multi(X(), memory)) < 1e-12);
  }
}

TEST_CASE(
    "BigBird that sees every block is multi-head attention, and so is a window of everything") {
  Layer scaled("multi_head_scaled", multi_sizes), multi("multi_head", multi_sizes);
  const auto bigbird = [&](Index w, Index g, Index r) {
    Layer made("bigbird", with(multi_sizes, {{"b", 2}, {"i", 4}, {"w", w}, {"g", g}, {"r", r}}));
    made.take(scaled);
    made["Draw"] = random_uniform({4, 4}, Key(3), Dtype::f64);
    return made;
  };
  check_same(bigbird(1, 4, 1), scaled);  // global
  check_same(bigbird(7, 0, 1), scaled);  // near
  check_same(bigbird(1, 0, 4), scaled);  // at random
  CHECK(difference(bigbird(1, 0, 1)(X(), X()), scaled(X(), X())) > 1e-3);

  const auto window = [&](Index w) {
    Layer made("sliding_window", with(multi_sizes, {{"w", w}}));
    made.take(multi);
    return made;
  };
  for (Index w : {7, 8, 100}) check_same(window(w), multi);
  for (const Mask& mask : masks())
    CHECK(difference(window(4)(X(), X(), mask), multi(X(), X(), mask)) > 1e-3);
}

TEST_CASE("memory compressed by nothing is multi-head attention with a position of zeros") {
  Layer multi("multi_head", multi_sizes);
  const Tensor nothing = Tensor::zeros({2, 1, 12}, Dtype::f64);
  for (const char* name : {"memory_compressed_mean", "memory_compressed"}) {
    CAPTURE(std::string(name));
    Layer compressed(name, with(multi_sizes, {{"w", 1}}));
    compressed.take(multi);
    if (compressed.list.find("F_k") >= 0)
      compressed["F_k"] = compressed["F_v"] = reshape(for_heads(identity(4), 3), {1, 4, 4, 3});
    CHECK(difference(compressed(X(), M()), multi(X(), concat({M(), nothing}, 1))) < 1e-12);
    // Under a causal mask the zeros are seen from the start.
    std::vector<double> seen;
    for (Index i = 0; i < 7; ++i)
      for (Index j = 0; j < 8; ++j) seen.push_back(j <= i || j == 7 ? 1 : 0);
    CHECK(difference(compressed(X(), X(), {.causal = true}),
                     multi(X(), concat({X(), nothing}, 1),
                           {.visible = Tensor::of<double>({7, 8}, seen)})) < 1e-12);
  }
}

TEST_CASE("a mean is a convolution whose filters are the identity over w") {
  Layer mean("memory_compressed_mean", multi_sizes), conv("memory_compressed", multi_sizes);
  conv.take(mean);
  const Tensor one = reshape(for_heads(identity(4), 3), {1, 4, 4, 3}) / 3.0;
  conv["F_k"] = conv["F_v"] = concat({one, one, one}, 0);
  check_same(conv, mean);
}

TEST_CASE("concat scores are additive ones, their matrix in two parts") {
  Layer additive("additive", {.d_model = 12, .dims = {{"a", 5}}});
  Layer joined("concat_score", {.d_model = 12, .dims = {{"a", 5}}});
  joined.take(additive);
  joined["W_a"] = concat({additive["W_q"], additive["W_k"]}, 0);
  check_same(joined, additive);
}

TEST_CASE("general scores are general bilinear attention of one head") {
  Layer general("general", {.d_model = 12, .dims = {}});
  Layer bilinear("general_bilinear", {.d_model = 12, .heads = 1, .dims = {}});
  bilinear["P"] = reshape(general["W_1"], {12, 12, 1});
  bilinear["Q"] = reshape(general["W_2"], {12, 12, 1});
  check_same(bilinear, general);
}
