// The catalogue: the papers' identities, causality, masks, sizes, and bad input.
#include "attention/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "attention/gradcheck.hpp"
#include "nn/run/runner.hpp"
#include "tests/layer.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// The sentence that `use` fails with, or "".
template <class Use>
std::string complaint(const Use& use) {
  try {
    use();
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
}

}  // namespace

TEST_CASE("the catalogue holds the papers' variants, each with its paper") {
  std::vector<std::string> names;
  for (const Variant& variant : variants()) {
    names.push_back(variant.name);
    CHECK(has(variant.paper, "20"));
    CHECK(has(variant.paper, "section"));
  }
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"dot_product",
                           "dot_product_projected",
                           "multi_head",
                           "multi_head_scaled",
                           "multi_head_concise",
                           "multi_head_inefficient",
                           "talking_heads",
                           "talking_heads_concise",
                           "talking_heads_inefficient",
                           "project_logits",
                           "project_weights",
                           "general_bilinear",
                           "multi_query",
                           "shared_kv",
                           "grouped_query",
                           "dynamic_projections",
                           "dynamic_Xl",
                           "dynamic_Ml",
                           "dynamic_Xw",
                           "dynamic_Mw",
                           "dense_synthesizer",
                           "random_synthesizer",
                           "fixed_random_synthesizer",
                           "factorized_dense_synthesizer",
                           "factorized_random_synthesizer",
                           "random_plus_dense",
                           "dense_plus_dot",
                           "random_plus_dot",
                           "factorized_random_plus_dense",
                           "dense_plus",
                           "dense_plus_alpha",
                           "random_plus",
                           "random_plus_alpha",
                           "conv_synthesizer",
                           "bottleneck_synthesizer",
                           "glu_synthesizer",
                           "linformer",
                           "bigbird",
                           "sliding_window",
                           "memory_compressed",
                           "memory_compressed_mean",
                           "cosine",
                           "additive",
                           "general",
                           "concat_score"})
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
}

TEST_CASE("multi-head attention is the sum of its heads, each as one writes it by hand") {
  Layer layer("multi_head_scaled", {.d_model = 12, .memory_width = 8, .heads = 2, .dims = {}});
  const Tensor X = noise({2, 5, 12}, 1), M = noise({2, 7, 8}, 2);
  const Tensor Q = einsum("b n x, x k h -> b n k h", X, layer["P_q"]);
  const Tensor K = einsum("b m y, y k h -> b m k h", M, layer["P_k"]);
  const Tensor V = einsum("b m y, y v h -> b m v h", M, layer["P_v"]);
  const Tensor W =
      softmax("b h n [m]", einsum("b n k h, b m k h -> b h n m", Q, K) / std::sqrt(6.0));
  const Tensor O = einsum("b h n m, b m v h -> b n v h", W, V);
  CHECK(difference(layer(X, M), einsum("b n v h, y v h -> b n y", O, layer["P_o"])) < 1e-12);
}

TEST_CASE("talking heads with identity projections is multi-head, bit for bit") {
  const AttentionSizes sizes{.d_model = 12, .heads = 3, .dims = {}};
  Layer multi("multi_head", sizes);
  const Tensor X = noise({2, 5, 12}, 1), M = noise({2, 7, 12}, 2);
  for (const char* name : {"talking_heads", "project_logits", "project_weights"}) {
    CAPTURE(name);
    Layer talking(name, sizes);
    talking.take(multi);
    if (talking.list.find("P_l") >= 0) talking["P_l"] = identity(3);
    if (talking.list.find("P_w") >= 0) talking["P_w"] = identity(3);
    CHECK(same_bits(talking(X, M), multi(X, M)));
    CHECK(same_bits(talking(X, M, {.causal = true}), multi(X, M, {.causal = true})));
  }
}

TEST_CASE("talking heads and multi-head are general bilinear attention, by their factors") {
  const Tensor X = noise({2, 5, 12}, 1), M = noise({2, 7, 8}, 2);
  Layer multi("multi_head", {.d_model = 12, .memory_width = 8, .heads = 2, .dims = {}});
  Layer bilinear("general_bilinear", {.d_model = 12, .memory_width = 8, .heads = 2, .dims = {}});
  bilinear["P"] = einsum("x k h, y k h -> x y h", multi["P_q"], multi["P_k"]);
  bilinear["Q"] = einsum("y v h, o v h -> y o h", multi["P_v"], multi["P_o"]);
  CHECK(difference(bilinear(X, M), multi(X, M)) < 1e-10);

  Layer talking("talking_heads",
                {.d_model = 12, .memory_width = 8, .heads = 3, .dims = {{"h_k", 2}, {"h_v", 4}}});
  Layer three("general_bilinear", {.d_model = 12, .memory_width = 8, .heads = 3, .dims = {}});
  three["P"] = einsum("x k i, y k i, i h -> x y h", talking["P_q"], talking["P_k"], talking["P_l"]);
  three["Q"] = einsum("y v j, o v j, h j -> y o h", talking["P_v"], talking["P_o"], talking["P_w"]);
  for (bool causal : {false, true})
    CHECK(difference(three(X, M, {.causal = causal}), talking(X, M, {.causal = causal})) < 1e-10);
}

TEST_CASE("the concise and the inefficient twins are the plain ones") {
  const Tensor X = noise({2, 5, 12}, 1), M = noise({2, 7, 24}, 2);
  for (const std::string name : {"multi_head", "talking_heads"}) {
    AttentionSizes sizes = sizes_for(name);
    sizes.memory_width = 24;
    Layer plain(name, sizes);
    for (const char* twin : {"_concise", "_inefficient"}) {
      CAPTURE(name + twin);
      Layer other(name + twin, sizes);
      other.take(plain);
      CHECK(other.list.size() == plain.list.size());
      CHECK(difference(other(X, M), plain(X, M)) < 1e-10);
      const Mask mask{.causal = true, .lengths = Tensor::of<int64_t>({2}, {3, 7})};
      CHECK(difference(other(X, M, mask), plain(X, M, mask)) < 1e-10);
    }
  }
}

TEST_CASE("project logits and project weights are talking heads without the other projection") {
  const Tensor X = noise({5, 12}, 1);
  Layer logits("project_logits", {.d_model = 12, .heads = 3, .dims = {{"h_k", 2}}});
  Layer talking("talking_heads", {.d_model = 12, .heads = 3, .dims = {{"h_k", 2}}});
  talking.take(logits);
  talking["P_w"] = identity(3);
  CHECK(difference(talking(X, X), logits(X, X)) < 1e-12);
  Layer weights("project_weights", {.d_model = 12, .heads = 3, .dims = {{"h_v", 4}}});
  Layer other("talking_heads", {.d_model = 12, .heads = 3, .dims = {{"h_v", 4}}});
  other.take(weights);
  other["P_l"] = identity(3);
  CHECK(difference(other(X, X), weights(X, X)) < 1e-12);
}

TEST_CASE("masks per sample, and masks that are wrong") {
  Layer layer("multi_head", sizes_for("multi_head"));
  const Tensor X = noise({2, 3, 12}, 1);
  const Tensor seen =
      Tensor::of<double>({2, 3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  const Tensor Y = layer(X, X, {.visible = seen});
  CHECK(same_bits(slice(Y, 0, 0, 1), slice(layer(X, X, {.causal = true}), 0, 0, 1)));
  CHECK(same_bits(slice(Y, 0, 1, 1), slice(layer(X, X), 0, 1, 1)));
  CHECK(has(complaint([&] {
              layer(X, X, {.visible = Tensor::ones({3, 4})});
            }),
            "the mask has shape [3, 4], expected [3, 3] or [2, 3, 3]"));
  CHECK(has(complaint([&] {
              layer(X, X, {.lengths = Tensor::of<int64_t>({3}, {1, 2, 3})});
            }),
            "the lengths of the memory have shape [3], but the batch is [2]"));
  CHECK(has(complaint([&] {
              layer(X, X, {.lengths = Tensor::of<int64_t>({2}, {1, 9})});
            }),
            "a memory of length 9 does not fit into 'm' = 3"));
}

TEST_CASE(
    "a mask that no statement takes is an error; so is a text that reads what a causal mask "
    "hides") {
  const auto from = [](const char* text) {
    const auto program = load_attention(Program::parse(text, "user.tete"));
    ParamList list;
    const Attention attention({list, ""}, program, {.d_model = 4, .dims = {}});
    const Tensors values = list.initial_values(Key(1), Dtype::f64);
    const Tensor X = noise({3, 4}, 1);
    attention(Forward{.params = values, .watch = {}}, "", X, X);
    return complaint(
        [&] { attention(Forward{.params = values, .watch = {}}, "", X, X, {.causal = true}); });
  };
  CHECK(has(from("def Mean(X[n, d], M[m, d]):\n  A[d] = mean(M[m, d], reduced_dim=m)\n"
                 "  Y[n, d] = X[n, d] + A[d]\n  return Y[n, d]\n"),
            "user.tete:2:10: this combines all positions of 'm' outside a masked weight"));
  CHECK(
      has(from("def Both(X[n, d], M[m, d]):\n  A[d] = mean(M[m, d], reduced_dim=m)\n"
               "  L[n, m] = einsum(X[n, d], M[m, d])\n  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
               "  Y[n, d] = einsum(W[n, m], M[m, d]) + A[d]\n  return Y[n, d]\n"),
          "user.tete:2:10: this combines all positions of 'm' outside a masked weight"));
  CHECK(has(from("def Columns(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
                 "  C[n, m] = log_softmax(L[n, m], reduced_dim=n)\n  W[n, m] = softmax(C[n, m], "
                 "reduced_dim=m)\n"
                 "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"),
            "user.tete:3:13: this combines all positions of 'n'"));
  CHECK(has(from("def First(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
                 "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                 "  Y[n, d] = einsum(W[n, m], M[m, d]) + M[2, d]\n  return Y[n, d]\n"),
            "this reads one position of 'm'"));
  CHECK(from("def Fine(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
             "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n  U[n, m] = 2 * dropout(W[n, m]) - W[n, "
             "m]\n"
             "  Z[n] = sum(U[n, m], reduced_dim=m)\n"
             "  Y[n, d] = einsum(U[n, m], M[m, d]) + Z[n]\n  return Y[n, d]\n") == "");
}

TEST_CASE("self-attention's text cannot be given another memory") {
  const auto program = load_attention(Program::parse(
      "def Self(X[n, d], M[m, d] = X[n, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
      "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n  Y[n, d] = einsum(W[n, m], M[m, d])\n"
      "  return Y[n, d]\n"));
  CHECK(program->self_only);
  ParamList list;
  const Attention attention({list, ""}, program, {.d_model = 12, .dims = {}});
  Layer plain("dot_product", {.d_model = 12, .dims = {}});
  const Tensor X = noise({2, 5, 12}, 1), M = noise({2, 5, 12}, 2);
  const Tensors none;
  const Forward forward{.params = none, .watch = {}};
  CHECK(same_bits(attention(forward, "", X, X, {.causal = true}), plain(X, X, {.causal = true})));
  CHECK(has(complaint([&] { attention(forward, "", X, M); }), "it cannot take another memory"));
}

TEST_CASE("parameters at the base size are the papers'") {
  const auto count = [](const char* name, const AttentionSizes& sizes) {
    ParamList list;
    Attention({list, ""}, load_attention(name), sizes);
    return list.element_total();
  };
  const AttentionSizes base{.d_model = 768, .heads = 12, .dims = {}};
  const SizesByName one_head{{"d_k", 64}, {"d_v", 64}};
  CHECK(count("dot_product", {.d_model = 768, .dims = {}}) == 0);
  CHECK(count("dot_product_projected", {.d_model = 768, .dims = one_head}) == 196608);
  for (const char* name :
       {"multi_head", "multi_head_scaled", "multi_head_concise", "multi_head_inefficient"})
    CHECK(count(name, base) == 2359296);
  for (const char* name : {"talking_heads", "talking_heads_concise", "talking_heads_inefficient"})
    CHECK(count(name, base) == 2359296 + 12 * 12 + 12 * 12);
  CHECK(count("talking_heads", {.d_model = 768,
                                .heads = 24,
                                .dims = {{"h_k", 6}, {"h_v", 12}, {"d_k", 128}, {"d_v", 64}}}) ==
        2 * 768 * 128 * 6 + 2 * 768 * 64 * 12 + 6 * 24 + 24 * 12);
  CHECK(count("project_logits", base) == 2359296 + 144);
  CHECK(count("project_weights", base) == 2359296 + 144);
  CHECK(count("general_bilinear", base) == 14155776);
}

TEST_CASE("parameters start as the paper says") {
  const auto deviation = [](const char* name, const char* parameter) {
    ParamList list;
    Attention({list, ""}, load_attention(name), {.d_model = 768, .heads = 12, .dims = {}});
    return list.specs()[list.find(parameter)].init;
  };
  using Start = InitializerKind;
  const auto is = [](const Initializer& init, Start kind, double deviation) {
    CHECK(init.kind == kind);
    CHECK(init.a == doctest::Approx(deviation));
  };
  is(deviation("multi_head", "P_q"), Start::normal, std::pow(768.0 * 64, -0.5));
  is(deviation("multi_head_scaled", "P_q"), Start::normal, std::pow(768.0, -0.5));
  is(deviation("multi_head", "P_o"), Start::normal, std::pow(768.0, -0.5));
  is(deviation("talking_heads", "P_q"), Start::truncated_normal, std::pow(768.0 * 64, -0.5));
  is(deviation("talking_heads", "P_l"), Start::truncated_normal, std::pow(12.0, -0.5));
  is(deviation("talking_heads", "P_w"), Start::truncated_normal, std::pow(12.0, -0.5));
  is(deviation("general_bilinear", "P"), Start::truncated_normal, 1.0 / 768);
  is(deviation("general_bilinear", "Q"), Start::truncated_normal, std::pow(12.0 * 768, -0.5));
}

TEST_CASE("every variant's gradient is right, to second order") {
  for (const Variant& variant : variants()) {
    const auto program = load_attention(variant.name);
    AttentionSizes sizes{.d_model = 4, .dims = {}};
    if (program->find_dimension("h") >= 0) sizes.heads = 2;
    for (const char* room : {"max_n", "max_m"})
      if (program->find_dimension(room) >= 0) sizes.dims[room] = 8;
    if (variant.name == "bottleneck_synthesizer") sizes.dims["e"] = 2;  // few kinks of relu
    for (bool causal : {false, true}) {
      if (causal && !is_causal(*program)) continue;
      const GradReport report = check_gradient(
          program, sizes, {.causal = causal, .options = {.order = 2, .full = 0, .entries = 4}});
      CAPTURE(variant.name);
      CAPTURE(causal);
      CAPTURE(report);
      CHECK(report.passed());
      for (const InputReport& input : report.inputs) CHECK(input.verdict == Verdict::right);
    }
  }
}

TEST_CASE("a faulty statement in the middle of a variant is named, with its line") {
  // The softmax as the notation knows it, but for its gradient.
  using Soft = Tensor (*)(const Tensor& x, int axis);
  static const Soft wrong = [](const Tensor& x, int axis) {
    return record("softmax", softmax(x.detach(), axis), {x}, [axis](const Backward& at) -> Tensors {
      const Tensor total = sum(at.y * at.g, {axis}, true);
      return {at.y * (at.g + broadcast(total, at.y.shape()))};
    });
  };
  static const Soft severed = [](const Tensor& x, int axis) { return softmax(x.detach(), axis); };
  static const Soft infinite = [](const Tensor& x, int) { return log(x); };
  static Soft soft = nullptr;
  Builtin faulty = *find_builtin("softmax");
  faulty.run = [](Runner& runner, const Node& node) -> Value {
    const Value x = runner.node(node.args[0]);
    return {soft(x.tensor, runner.axis_of(x, node.dim())), x.names, x.batched};
  };
  struct Case {
    Soft soft;
    const char *operation, *value;
    int line;
    Verdict before, after;  // of P_q and of P_o
  };
  const Case cases[] = {
      {wrong, "softmax", "W", 18, Verdict::wrong, Verdict::right},
      {severed, "contract", "L", 17, Verdict::severed, Verdict::right},
      {infinite, "log", "W", 18, Verdict::not_finite, Verdict::not_finite},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.operation));
    auto program = std::make_shared<Checked>(*load_attention("talking_heads"));
    CheckedValue& W = program->values[program->find_value("W")];
    REQUIRE(std::string(W.right.builtin->name) == "softmax");
    W.right.builtin = &faulty;
    for (CheckedValue& v : program->values) v.fusion = v.right.fusion = -1;
    soft = c.soft;
    const GradReport report = check_gradient(program, {.d_model = 4, .heads = 2, .dims = {}});
    CAPTURE(report);
    CHECK_FALSE(report.passed());
    REQUIRE(report.fault);
    CHECK(report.fault->operation == c.operation);
    CHECK(report.fault->value == c.value);
    CHECK(report.fault->line == text("talking_heads.tete:", c.line));
    CHECK(report.fault->sentence().find(text("computed for '", c.value, "' in ")) !=
          std::string::npos);
    for (const InputReport& input : report.inputs) {
      if (input.input == "P_q") CHECK(input.verdict == c.before);
      if (input.input == "P_o") CHECK(input.verdict == c.after);
    }
  }
}

TEST_CASE("looking changes no bit, and sees the paper's letters") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    Layer layer(variant.name, sizes_for(variant.name), Dtype::f32);
    const Tensor X = noise({2, 6, 12}, 1, Dtype::f32);
    if (!is_causal(*layer.program)) continue;
    std::vector<std::string> seen;
    const Forward looking{
        .params = layer.values,
        .watch = [&](const std::string& path, const Tensor&) { seen.push_back(path); }};
    const Tensor Y = layer.attention(looking, "decoder/3/self", X, X, {.causal = true});
    CHECK(same_bits(Y, layer(X, X, {.causal = true})));
    CHECK(std::find(seen.begin(), seen.end(), "decoder/3/self/Y") != seen.end());
    const bool calls = variant.name.ends_with("inefficient");
    const std::string W = calls ? "decoder/3/self/Y.W" : "decoder/3/self/W";
    CHECK(std::find(seen.begin(), seen.end(), W) != seen.end());
  }
}

TEST_CASE("batches are independent, of any number of dimensions, and f32 is f64, rounded") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    Layer layer(variant.name, sizes_for(variant.name));
    const Tensor X = noise({2, 3, 5, 12}, 1);
    const Tensor M = layer.program->self_only ? X : noise({2, 3, 7, 12}, 2);
    const Tensor Y = layer(X, M);
    const auto alone = [](Layer& of, const Tensor& x, const Tensor& m) {
      return of(x, memory(of, x, m));
    };
    const auto one = [](const Tensor& x, Index i, Index j) {
      return reshape(slice(slice(x, 0, i, 1), 1, j, 1), {x.size(2), x.size(3)});
    };
    for (Index i = 0; i < 2; ++i)
      for (Index j = 0; j < 3; ++j)
        CHECK(difference(alone(layer, one(X, i, j), one(M, i, j)), one(Y, i, j)) < 1e-12);

    Layer rounded(variant.name, sizes_for(variant.name), Dtype::f32);
    for (size_t i = 0; i < layer.values.size(); ++i)
      rounded.values[i] = cast(layer.values[i], Dtype::f32);
    const Tensor y = alone(rounded, cast(X, Dtype::f32), cast(M, Dtype::f32));
    CHECK(y.dtype() == Dtype::f32);
    double largest = 0;
    for (double v : Y.values()) largest = std::max(largest, std::abs(v));
    CHECK(difference(cast(y, Dtype::f64), Y) < 10 * tolerance(Dtype::f32, largest));
  }
}

TEST_CASE("heads and widths are never ignored") {
  const auto make = [](const char* name, const AttentionSizes& sizes) {
    return complaint([&] {
      ParamList list;
      Attention({list, ""}, load_attention(name), sizes);
    });
  };
  CHECK(make("dot_product", {.d_model = 8, .heads = 1, .dims = {}}) == "");
  CHECK(has(make("dot_product", {.d_model = 8, .heads = 4, .dims = {}}),
            "'DotProduct' has no dimension 'h': it has one head, but 4 are asked for"));
  CHECK(has(make("multi_head", {.d_model = 8, .heads = 0, .dims = {}}), "at least 1 head, got 0"));
  CHECK(has(make("multi_head", {.d_model = 8, .dims = {}}), "the size of 'h' is open"));
  CHECK(has(make("multi_head", {.d_model = 8, .heads = 3, .dims = {}}),
            "8 / 3 is not a whole number"));
  CHECK(has(make("multi_head", {.d_model = 8, .heads = 2, .dims = {{"h", 4}}}),
            "the size 'h' is set to 4, but the number of heads is 2"));
  CHECK(has(make("multi_head", {.d_model = 8, .heads = 2, .dims = {{"d_X", 4}}}),
            "the size 'd_X' is set to 4, but the width of X is 8"));
  CHECK(has(make("multi_head", {.d_model = 8, .heads = 2, .dims = {{"d_Y", 4}}}),
            "the result's 'd_Y' is 4, but the width of X, to which it is added, is 8"));
  CHECK(has(make("talking_heads", {.d_model = 8, .heads = 2, .dims = {{"h_q", 4}}}),
            "'TalkingHeads' has no size 'h_q'"));
  CHECK(has(make("dot_product", {.d_model = 8, .memory_width = 4, .dims = {}}),
            "the size 'd' is set to 8, but the width of M is 4"));
  Layer layer("multi_head", {.d_model = 8, .heads = 2, .dims = {}});
  CHECK(has(complaint([&] {
              layer(noise({3, 8}, 1), noise({3, 6}, 2));
            }),
            "'d_M' is 6 in 'M', but 8"));
}

TEST_CASE("amendments compose with every variant") {
  const std::vector<Program> amendments{
      Program::parse("# ALiBi, and a bias that all layers share\n"
                     "def Linear(L[n, m, h], B[h] = normal(1) per stack):\n"
                     "  Y[n, m, h] = L[n, m, h] + B[h] * (position(m) - position(n))\n"
                     "  return Y[n, m, h]\n",
                     "linear.tete")};
  const Tensor X = noise({2, 5, 12}, 1);
  for (const char* name : {"multi_head", "talking_heads", "talking_heads_concise",
                           "general_bilinear", "talking_heads_inefficient"}) {
    CAPTURE(name);
    Layer layer(name, sizes_for(name), Dtype::f64, amendments), plain(name, sizes_for(name));
    const std::string bias = has(name, "inefficient") ? "Y.Linear.B" : "Linear.B";
    plain.take(layer);
    CHECK(difference(layer(X, X), plain(X, X)) > 1e-3);
    layer[bias] = Tensor::zeros({3}, Dtype::f64);
    CHECK(difference(layer(X, X), plain(X, X)) < 1e-12);
  }
  const auto program = load_attention(*find_variant("multi_head").program, amendments);
  ParamList list;
  const Attention first({list, "decoder/0/self"}, program, {.d_model = 8, .heads = 2, .dims = {}});
  const Attention second({list, "decoder/1/self"}, program, {.d_model = 8, .heads = 2, .dims = {}});
  CHECK(list.size() == 9);
  CHECK(list.find("decoder/self/Linear.B") >= 0);
  CHECK(list.find("decoder/1/self/P_q") >= 0);
  CHECK(
      has(complaint([&] { load_attention(*find_variant("dot_product").program, amendments); }),
          "'Linear' does not fit 'DotProduct': it amends 'L' of 3 dimensions, but here it has 2"));
}

TEST_CASE("a parameter per stack is one tensor of all layers, and keeps its name in the program") {
  const Program text = Program::parse(
      "def Scaled(X[n, d], B[d] = ones() per stack):\n"
      "  Y[n, d] = Shifted(X[n, d])\n  Z[n, d] = Y[n, d] * B[d]\n  return Z[n, d]\n"
      "def Shifted(X[n, d], B[d] = ones() per stack, C[d] = ones()):\n"
      "  Y[n, d] = X[n, d] + B[d] + C[d]\n  return Y[n, d]\n");
  const Program amendment = Program::parse(
      "def Bias(Z[n, d], B[d] = ones() per stack):\n"
      "  A[n, d] = Z[n, d] + B[d]\n  return A[n, d]\n");
  const auto program = load_attention(text, {amendment});
  ParamList list;
  for (const char* path : {"decoder/0/self", "decoder/1/self", "decoder/1/cross"})
    Attention({list, path}, program, {.d_model = 8, .dims = {}});
  std::vector<std::string> names;
  for (const ParamSpec& spec : list.specs()) names.push_back(spec.name);
  CHECK(names == std::vector<std::string>{
                     "decoder/self/B", "decoder/self/Y.B", "decoder/0/self/Y.C",
                     "decoder/self/Bias.B", "decoder/1/self/Y.C", "decoder/cross/B",
                     "decoder/cross/Y.B", "decoder/1/cross/Y.C", "decoder/cross/Bias.B"});
  CHECK(list.element_total() == 9 * 8);
  CHECK(complaint([&] {
          Attention({list, "decoder/2/self"}, program, {.d_model = 6, .dims = {}});
        }) ==
        "the parameter 'decoder/self/B' is shared by all layers of a stack; it has shape [8] "
        "in one and [6] in another");
}

TEST_CASE("a user's file works wherever a name does, and bad files are one sentence") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / text("tete-attention-", getpid());
  fs::create_directories(folder);
  const auto write = [&](const char* name, std::string_view content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    return (folder / name).string();
  };
  const std::string mine =
      write("mine.tete",
            "# Mine. Nobody 2020, section 1.\n"
            "def Mine(X[n, d], M[m, e]):\n  where a = d\n  Z[n, a] = X[n, d=(a)]\n"
            "  Y[n, d] = MultiHead(X[n, d], M[m, e])\n  R[n, d] = Y[n, d] + Z[n, a=(d)]\n  return "
            "R[n, d]\n");
  CHECK(find_variant(mine).name == "mine");
  CHECK(find_variant(mine).paper == "Mine. Nobody 2020, section 1.");
  const auto program = load_attention(mine);
  ParamList list;
  const Attention attention({list, "a"}, program, {.d_model = 12, .heads = 3, .dims = {}});
  CHECK(list.find("a/Y.P_q") >= 0);
  CHECK(attention.sizes().at("Y.d_k") == 4);
  Layer plain("multi_head", {.d_model = 12, .heads = 3, .dims = {}});
  const Tensor X = noise({2, 5, 12}, 1);
  CHECK(difference(
            attention(Forward{.params = plain.values, .watch = {}}, "", X, X, {.causal = true}),
            plain(X, X, {.causal = true}) + X) < 1e-12);

  const auto said = [](const std::string& name) {
    return complaint([&] { load_attention(name); });
  };
  CHECK(has(said("talking_head"),
            "there is no attention variant 'talking_head'; did you mean 'talking_heads'?"));
  CHECK(has(said((folder / "none.tete").string()), "there is no file"));
  CHECK(has(said(folder.string() + "/"), "is a folder"));
  CHECK(has(said(write("binary.tete", std::string("\x7f"
                                                  "ELF\0\x01",
                                                  6))),
            "this is not a text: byte 5 of 6"));
  CHECK(has(said(write("empty.tete", "")), "the text holds no program"));
  CHECK(has(said(write("large.tete", std::string(3 << 20, '#'))),
            "a program has at most 1048576 bytes"));
  CHECK(has(said(write("wrong.tete", "def F(X[n, d]):\n  Y[n, d] = X[n, e]\n  return Y[n, d]\n")),
            "wrong.tete:2:18: dimension 2 of 'X' is 'd', not 'e'"));
  CHECK(has(said(write("other.tete",
                       "def F(X[n, d], E[v, d]):\n  Y[n, d] = X[n, d] + sum(E[v, d], "
                       "reduced_dim=v)\n  return Y[n, d]\n")),
            "attention has the inputs X and M; 'F' has the input 'E'"));
  CHECK(has(said(write("scores.tete",
                       "def F(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n  Y[m] = "
                       "sum(L[n, m], reduced_dim=n)\n  return Y[m]\n")),
            "attention returns a vector for every query"));
  CHECK(has(said(write("no_x.tete", "def F(M[m, d]):\n  return M[m, d]\n")), "has no input X"));
  CHECK(has(said(write("wide.tete", "def F(X[n, d, e]):\n  return X[n, d, e]\n")),
            "is a sequence of vectors, as in X[n, d_X]"));
  if (geteuid() != 0) {
    const std::string locked = write("locked.tete", "def");
    fs::permissions(locked, fs::perms::none);
    CHECK(has(said(locked), "cannot open"));
  }
  fs::remove_all(folder);
}

TEST_CASE("a gradient check that would take hours is refused, with its size") {
  const auto said = [](const std::shared_ptr<const Checked>& program, SizesByName dims, int order) {
    return complaint([&] {
      check_gradient(program, {.d_model = 6, .dims = std::move(dims)},
                     {.options = {.order = order}});
    });
  };
  const auto wide = load_attention("multi_head");
  CHECK(has(said(wide, {{"h", 3}, {"d_k", 400'000}}, 1),
            "'MultiHead' is too large to be checked: each of its 6 inputs is moved"));
  std::string text = "def F(X[n, d]", statements = "  A0[n, d] = X[n, d]\n";
  for (int i = 1; i < 250; ++i) {
    text += tete::text(", P", i, "[d] = normal(1)");
    statements += tete::text("  A", i, "[n, d] = A", i - 1, "[n, d] + P", i, "[d]\n");
  }
  const auto deep =
      load_attention(Program::parse(text + "):\n" + statements + "  return A249[n, d]\n"));
  CHECK(has(said(deep, {}, 1), "each of its 250 inputs is moved"));
  CHECK(has(said(deep, {}, 2), "is too large to be checked at order 2: "));
}
