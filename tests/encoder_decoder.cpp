// An encoder with a decoder: padding and the future have no influence, its gradient is right.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "attention/sites.hpp"
#include "core/check/gradcheck.hpp"
#include "core/threads.hpp"
#include "nn/model.hpp"
#include "tests/gpt2_style.hpp"
#include "tests/made_and_kept.hpp"
#include "tools/model_cost.hpp"

using namespace tete;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.values(), y = b.values();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.values(), y = b.values();
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
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

// The same in all of up to three layers.
AttentionFactory attending(const std::shared_ptr<const Checked>& program, bool causal = false) {
  AttentionSizes sizes{.d_model = 8};
  if (program->find_dimension("h") >= 0) sizes.heads = 2;
  return attention_of(std::vector<ChosenAttention>(3, {program, sizes}), causal);
}

LanguageModelConfig small_config() {
  LanguageModelConfig config;
  config.vocabulary = 7;
  config.context = 9;
  config.d_model = 8;
  config.layers = 1;
  config.block.d_ff = 12;
  return config;
}

struct Translator {
  EncoderDecoder model;
  Tensors values;

  Translator(const LanguageModelConfig& config, const StackAttention& attention)
      : model(config, attention), values(model.params().initial_values(Key(1), Dtype::f64)) {}
  explicit Translator(const LanguageModelConfig& config = small_config(),
                      const std::string& self = "multi_head",
                      const std::string& cross = "multi_head")
      : Translator(config,
                   {attending(load_attention(self)), attending(load_attention("multi_head"), true),
                    attending(load_attention(cross))}) {}
  Tensor loss(const Tensor& source, const Tensor& lengths, const Tensor& targets) const {
    return model.loss({.params = values}, source, lengths, targets).sum;
  }
  Tensor logits(const Tensor& source, const Tensor& lengths, const Tensor& input) const {
    const Forward forward{.params = values};
    return model.logits(forward, model.encode(forward, source, lengths), input);
  }
};

Tensor ids(const Shape& shape, const std::vector<int64_t>& numbers) {
  return Tensor::of<int64_t>(shape, numbers);
}

// Two samples, of lengths 3 and 5.
const std::vector<int64_t> source_ids{1, 2, 3, 0, 0, 6, 5, 4, 3, 2};
Tensor source() { return ids({2, 5}, source_ids); }
Tensor lengths() { return ids({2}, {3, 5}); }
Tensor targets() { return ids({2, 4}, {3, 2, 1, -1, 2, 3, 4, 5}); }

}  // namespace

TEST_SUITE("encoder and decoder") {
  TEST_CASE("parameters are named by stack, layer and site") {
    LanguageModelConfig config = small_config();
    config.layers = 2;
    const Translator model(config);
    for (const char* name :
         {"embedding/table", "encoder/positions/table", "decoder/positions/table",
          "encoder/0/self/P_q", "encoder/1/ff/in/W", "encoder/norm/scale", "decoder/0/self/P_k",
          "decoder/1/cross/P_v", "decoder/1/cross_norm/scale", "decoder/norm/scale"}) {
      CAPTURE(name);
      CHECK(model.model.params().find(name) >= 0);
    }
    CHECK(model.model.params().find("encoder/0/cross/P_q") < 0);
  }

  TEST_CASE("blocks that are computed again give the same bits, of what all blocks read, too") {
    // B is one for the stack, and each block reads it twice.
    const Program twice = Program::parse(
        "def Twice(L[n, m, h], B[h] = normal(1) per stack):\n"
        "  W[n, m, h] = L[n, m, h] * B[h]\n"
        "  Y[n, m, h] = W[n, m, h] + B[h] * B[h] * W[n, m, h] * W[n, m, h]\n"
        "  return Y[n, m, h]\n");
    const auto attention = load_attention(*find_variant("multi_head").program, {twice});
    const int before = threads();
    for (int layers : {1, 2, 3}) {
      LanguageModelConfig config = small_config();
      config.layers = layers;
      const EncoderDecoder model(
          config, {attending(attention), attending(attention, true), attending(attention)});
      const auto gradients = [&](bool recompute, Products products, bool tiles) {
        Tensors params;
        for (const Tensor& value : model.params().initial_values(Key(1)))
          params.push_back(value.variable());
        const Forward forward{.params = params,
                              .training = true,
                              .dropout = 0.2,
                              .key = Key(4),
                              .tiling = {.allowed = tiles},
                              .products = products,
                              .recompute_blocks = recompute};
        const Tensor loss = model.loss(forward, source(), lengths(), targets()).sum;
        Tensors found = grad(loss, params);
        found.push_back(loss.detach());
        return found;
      };
      for (const auto& [products, tiles] : {std::pair(Products::full, true),
                                            {Products::full, false},
                                            {Products::bf16, true},
                                            {Products::bf16, false}}) {
        const bool tiled = tiles;
        set_threads(1);
        const Tensors whole = gradients(false, products, tiled);
        for (int count : {1, 2, 3}) {
          set_threads(count);
          for (const Tensors& other :
               {gradients(true, products, tiled), gradients(false, products, tiled)})
            for (size_t i = 0; i < whole.size(); ++i) {
              CAPTURE(layers);
              CAPTURE(count);
              CAPTURE(tiled);
              CAPTURE(i);
              REQUIRE(static_cast<bool>(whole[i]) == static_cast<bool>(other[i]));
              if (whole[i]) CHECK(same_bits(whole[i], other[i]));
            }
        }
      }
    }
    set_threads(before);
  }

  TEST_CASE("a parameter per stack is one for each kind of site") {
    const auto biased = load_attention("multi_head", {"t5_bias"});
    LanguageModelConfig config = small_config();
    config.layers = 3;
    const Translator model(config, {attending(biased), attending(biased, true), attending(biased)});
    int tables = 0;
    for (const ParamSpec& spec : model.model.params().specs())
      tables += spec.name.find("T5Bias") != std::string::npos;
    CHECK(tables == 3);
    for (const char* name :
         {"encoder/self/T5Bias.B", "decoder/self/T5Bias.B", "decoder/cross/T5Bias.B"})
      CHECK(model.model.params().find(name) >= 0);
  }

  TEST_CASE("what stands in the padding changes no bit, whatever attends") {
    std::vector<int64_t> other_ids = source_ids;
    other_ids[3] = 6, other_ids[4] = 2;
    const Tensor other = ids({2, 5}, other_ids);
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const bool across = attends_across(*load_attention(*variant.program));
      const Translator model(small_config(), variant.name, across ? variant.name : "multi_head");
      Tensors params;
      for (const Tensor& value : model.values) params.push_back(value.variable());
      const auto loss = [&](const Tensor& tokens) {
        return model.model.loss({.params = params}, tokens, lengths(), targets()).sum;
      };
      const Tensor a = loss(source()), b = loss(other);
      CHECK(std::isfinite(a.item()));
      CHECK(same_bits(a, b));
      const Tensors of_a = grad(a, params), of_b = grad(b, params);
      for (size_t i = 0; i < params.size(); ++i) {
        CAPTURE(model.model.params().specs()[i].name);
        REQUIRE(bool(of_a[i]) == bool(of_b[i]));
        if (of_a[i]) CHECK(same_bits(of_a[i], of_b[i]));
      }
      // A token that is no padding does matter.
      other_ids[0] = 5;
      CHECK_FALSE(same_bits(a, loss(ids({2, 5}, other_ids))));
      other_ids[0] = source_ids[0];
    }
  }

  TEST_CASE("more padding changes no more than rounding does") {
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const bool across = attends_across(*load_attention(*variant.program));
      const Translator model(small_config(), variant.name, across ? variant.name : "multi_head");
      const Tensor longer = ids({2, 8}, {1, 2, 3, 5, 5, 5, 5, 5, 6, 5, 4, 3, 2, 1, 1, 1});
      const Tensor more = ids({2, 6}, {3, 2, 1, -1, -1, -1, 2, 3, 4, 5, -1, -1});
      CHECK(largest_difference(model.loss(source(), lengths(), targets()),
                               model.loss(longer, lengths(), more)) < 1e-11);
    }
  }

  TEST_CASE("a text that mixes neighbours reads zeros in the padding, as beyond the end") {
    const auto neighbours = load_attention(
        Program::parse("def Neighbours(X[n, d], M[m, d] = X[n, d], F[w, d, e] = glorot()):\n"
                       "  where w = 3, e = d\n"
                       "  X_w[n, w, d] = windows(X[n, d], dim=n, into=(n w), left=1, right=1)\n"
                       "  K[n, e] = einsum(X_w[n, w, d], F[w, d, e])\n"
                       "  L[n, m] = einsum(K[n, e=(d)], M[m, d])\n"
                       "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                       "  Y[n, d] = einsum(W[n, m], M[m, d])\n"
                       "  return Y[n, d]\n"));
    const auto plain = load_attention("multi_head");
    const Translator model(small_config(),
                           {attending(neighbours), attending(plain, true), attending(plain)});
    std::vector<int64_t> other = source_ids;
    other[3] = 6;
    CHECK(same_bits(model.loss(source(), lengths(), targets()),
                    model.loss(ids({2, 5}, other), lengths(), targets())));
    const Tensor alone = model.logits(ids({1, 3}, {1, 2, 3}), ids({1}, {3}), ids({1, 2}, {0, 4}));
    const Tensor padded =
        model.logits(ids({1, 5}, {1, 2, 3, 4, 4}), ids({1}, {3}), ids({1, 2}, {0, 4}));
    CHECK(largest_difference(alone, padded) < 1e-12);
  }

  TEST_CASE("targets that are padding are not counted, whatever their number") {
    const Translator model;
    const auto loss = [&](int64_t padding) {
      return model.model.loss({.params = model.values}, source(), lengths(),
                              ids({2, 4}, {3, 2, padding, padding, 2, 3, 4, padding}));
    };
    CHECK(loss(-1).tokens == 5);
    CHECK(same_bits(loss(-1).sum, loss(-9).sum));
    const Tensor logits =
        log_softmax(model.logits(source(), lengths(), ids({2, 4}, {0, 3, 2, 0, 0, 2, 3, 4})), 2);
    const std::vector<double> p = logits.values();
    double expected = 0;
    for (const auto& [row, target] :
         std::vector<std::pair<int, int>>{{0, 3}, {1, 2}, {4, 2}, {5, 3}, {6, 4}})
      expected -= p[row * 7 + target];
    CHECK(loss(-1).sum.item() == doctest::Approx(expected));
  }

  TEST_CASE("the decoder reads what precedes each target, and no more") {
    CHECK(shifted_right(targets()).values<int64_t>() ==
          std::vector<int64_t>{0, 3, 2, 1, 0, 2, 3, 4});
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const auto program = load_attention(*variant.program);
      if (!is_causal(*program)) continue;
      const auto plain = load_attention("multi_head");
      const Translator model(small_config(),
                             {attending(plain), attending(program, true), attending(plain)});
      const Tensor a = model.logits(source(), lengths(), ids({2, 4}, {0, 1, 2, 3, 0, 4, 5, 6}));
      const Tensor b = model.logits(source(), lengths(), ids({2, 4}, {0, 1, 6, 3, 0, 4, 1, 6}));
      CHECK(same_bits(slice(a, 1, 0, 2), slice(b, 1, 0, 2)));
      CHECK(largest_difference(slice(a, 1, 2, 1), slice(b, 1, 2, 1)) > 1e-6);
    }
  }

  TEST_CASE("the decoder sees the source, and the encoder is not causal") {
    const Translator model;
    std::vector<int64_t> other = source_ids;
    other[9] = 5;  // the last of the second sample
    const Tensor input = ids({2, 1}, {0, 0});
    const Tensor a = model.logits(source(), lengths(), input);
    const Tensor b = model.logits(ids({2, 5}, other), lengths(), input);
    CHECK(same_bits(slice(a, 0, 0, 1), slice(b, 0, 0, 1)));
    CHECK(largest_difference(slice(a, 0, 1, 1), slice(b, 0, 1, 1)) > 1e-6);
    std::map<std::string, Tensor> first, second;
    const auto watching = [&](std::map<std::string, Tensor>& seen) {
      return Forward{.params = model.values,
                     .watch = [&](const std::string& path, const Tensor& x) {
                       CHECK(seen.emplace(path, x).second);
                     }};
    };
    model.model.encode(watching(first), source(), lengths());
    model.model.encode(watching(second), ids({2, 5}, other), lengths());
    const auto row = [](const Tensor& x) { return slice(slice(x, 0, 1, 1), 1, 0, 1); };
    CHECK(largest_difference(row(first["encoder/norm"]), row(second["encoder/norm"])) > 1e-6);
    const Tensor padding = slice(slice(first["encoder/norm"], 0, 0, 1), 1, 3, 2);
    for (double x : padding.values()) CHECK(x == 0);
  }

  TEST_CASE(
      "token by token it is what it is at once, cross-attention to a padded source included") {
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const auto program = load_attention(*variant.program);
      const auto plain = load_attention("multi_head");
      const bool across = attends_across(*program);
      const Translator model(small_config(), {attending(plain), attending(plain, true),
                                              attending(across ? program : plain)});
      const Forward forward{.params = model.values};
      const Sequences memory = model.model.encode(forward, source(), lengths());
      const Tensor input = ids({2, 4}, {0, 1, 2, 3, 0, 4, 5, 6});
      const Tensor whole = model.model.logits(forward, memory, input);
      Decoding past;
      for (Index n = 0; n < 4; ++n) {
        const Tensor next = model.model.next_logits(forward, memory, slice(input, 1, n, 1), past);
        CHECK(largest_difference(next, sum(slice(whole, 1, n, 1), {1})) < 1e-12);
      }
      CHECK(largest_difference(model.model.last_logits(forward, memory, input),
                               sum(slice(whole, 1, 3, 1), {1})) < 1e-12);
    }
  }

  TEST_CASE("a text with its parameters gives the same logits and counts the same answers right") {
    const Program text = Program::parse(
        "use EncoderBlock = pre_norm\nuse DecoderBlock = pre_norm_cross\n"
        "use Attention = multi_head\nuse Cross = Attention\nuse FeedForward = ff_relu\n"
        "use Norm = Layer\n"
        "def Layer(X[n, d_X], scale[d_X] = ones(), bias[d_X] = zeros()):\n"
        "  Y[n, d_X] = layer_norm(X[n, d_X], dim=d_X) * scale[d_X] + bias[d_X]\n"
        "  return Y[n, d_X]\n"
        "def Both(X[causal n] < v, M[m] < v, E[v, d_X] = normal(1), P[m<=max_m, d_X] = normal(1),\n"
        "         Q[n<=max_n, d_X] = normal(1)):\n"
        "  where max_n = max_m, l = 2\n"
        "  S[m, d_X] = gather(E[v, d_X], M[m], dim=v) + P[m, d_X]\n"
        "  encoder[m, d_X] = EncoderBlock(S[m, d_X]) repeated l\n"
        "  A[m, d_X] = Norm(encoder[m, d_X])\n"
        "  T[n, d_X] = gather(E[v, d_X], X[n], dim=v) + Q[n, d_X]\n"
        "  decoder[n, d_X] = DecoderBlock(T[n, d_X], A[m, d_X]) repeated l\n"
        "  N[n, d_X] = Norm(decoder[n, d_X])\n"
        "  Y[n, v] = einsum(N[n, d_X], E[v, d_X]) * d_X^-0.5\n"
        "  return Y[n, v]\n");
    LanguageModelConfig config = small_config();
    config.layers = 2;
    Translator skeleton(config);
    const Model model(
        std::make_shared<const Checked>(check(text, {}, catalogue())),
        {{"v", 7}, {"l", 2}, {"d_X", 8}, {"h", 2}, {"f", 12}, {"max_m", config.context}});
    const std::pair<const char*, const char*> names[] = {{"encoder/positions/table", "P"},
                                                         {"decoder/positions/table", "Q"},
                                                         {"embedding/table", "E"},
                                                         {"encoder/norm/", "A."},
                                                         {"decoder/norm/", "N."},
                                                         {"/self_norm/", "/N."},
                                                         {"/cross_norm/", "/C."},
                                                         {"/self/", "/A/"},
                                                         {"/cross/", "/D/"},
                                                         {"/ff/in/W", "/F.P_1"},
                                                         {"/ff/out/W", "/F.P_2"}};
    Tensors values(static_cast<size_t>(model.params().size()));
    const auto& specs = skeleton.model.params().specs();
    for (size_t i = 0; i < specs.size(); ++i) {
      std::string name = specs[i].name;
      const std::string own = name.starts_with("encoder") ? "/C." : "/G.";
      for (const auto& [from, to] : names)
        if (const size_t at = name.find(from); at != std::string::npos)
          name.replace(at, std::string(from).size(), to);
      if (const size_t at = name.find("/ff_norm/"); at != std::string::npos)
        name.replace(at, 9, own);
      CAPTURE(name);
      const int found = model.params().find(name);
      REQUIRE(found >= 0);
      // A norm that starts at 1 and 0 would hide whose it is.
      values[static_cast<size_t>(found)] = skeleton.values[i] =
          random_normal(skeleton.values[i].shape(), Key(i), Dtype::f64) * 0.5;
    }
    const Tensor X = shifted_right(targets());
    const Tensor Y =
        model.logits({.params = values}, {.X = X, .M = source(), .lengths = lengths()});
    CHECK(largest_difference(Y, skeleton.logits(source(), lengths(), X)) < 1e-12);
    const Matches right = exact_matches(Y, targets()),
                  same = exact_matches(skeleton.logits(source(), lengths(), X), targets());
    CHECK(right.tokens == same.tokens);
    CHECK(right.samples == same.samples);
    CHECK(model.loss({.params = values}, {.X = X, .M = source(), .lengths = lengths()}, targets())
              .sum.item() ==
          doctest::Approx(skeleton.loss(source(), lengths(), targets()).item()).epsilon(1e-12));
  }

  TEST_CASE("its multiplies are its parts', and its activations those that a forward pass makes") {
    LanguageModelConfig config = small_config();
    config.layers = 2, config.context = 40, config.d_model = 32, config.block.d_ff = 96;
    const auto stack = [](const char* name, Index layers) {
      const ChosenAttention chosen{load_attention(name), {.d_model = 32, .heads = 4}};
      return std::vector<ChosenAttention>(static_cast<size_t>(layers), chosen);
    };
    const ChosenSites sites{stack("talking_heads", 2), stack("multi_head", 2),
                            stack("multi_query", 2)};
    const ModelCost cost = model_cost(config, sites);
    const Index n = 40, d = 32, f = 96, v = 7, both = n * n * d;
    const Index talking = 4 * n * d * d + 2 * both + 2 * n * n * 4 * 4;
    const Index multi = 4 * n * d * d + 2 * both;
    const Index query = 2 * n * d * d + 2 * n * d * (d / 4) + 2 * both;
    CHECK(cost.multiplies == 2 * (talking + multi + query) + 4 * 2 * n * d * f + n * d * v);
    CHECK(cost.visible == cost.multiplies - 2 * 2 * d * (n * (n - 1) / 2));
    const EncoderDecoder model(config, attention_of(sites));
    Tensors params;
    for (const Tensor& p : model.params().initial_values(Key(1))) params.push_back(p.variable());
    const Forward forward{.params = params, .tiling = {.allowed = false}};
    const Tensor tokens = ids({1, 40}, std::vector<int64_t>(40, 3)), length = ids({1}, {30});
    const MadeAndKept run(
        [&] { return model.logits(forward, model.encode(forward, tokens, length), tokens); });
    CHECK(run.made == doctest::Approx(static_cast<double>(cost.bytes)).epsilon(0.1));
    CHECK(run.kept < 0.85 * run.made);
  }

  TEST_CASE("sources of no length, and batches of none, are as good as any") {
    const Translator model;
    const Tensor logits = model.logits(source(), ids({2}, {0, 0}), ids({2, 2}, {0, 1, 0, 1}));
    for (double x : logits.values()) CHECK(std::isfinite(x));
    CHECK(same_bits(slice(logits, 0, 0, 1), slice(logits, 0, 1, 1)));
    CHECK(model.logits(ids({0, 5}, {}), ids({0}, {}), ids({0, 2}, {})).shape() == Shape{0, 2, 7});
  }

  TEST_CASE("the gradient of the loss agrees with central differences") {
    LanguageModelConfig t5 = small_config();
    t5.block.feed_forward.activation = "silu";  // smooth: relu has no derivative at its kink
    LanguageModelConfig untied = t5;
    untied.tied = false;
    untied.block.norm = "rms";
    untied.positions = "sinusoidal";
    for (const LanguageModelConfig& config : {t5, untied, gpt2_style(t5)}) {
      const auto biased = load_attention("talking_heads", {"t5_bias"});
      const Translator model(config, {attending(biased), attending(biased, true),
                                      attending(load_attention("dynamic_projections"))});
      const auto loss = [&](const Tensors& params) {
        return model.model
            .loss({.params = params, .training = true, .dropout = 0.2, .key = Key(4)}, source(),
                  lengths(), targets())
            .sum;
      };
      GradCheckOptions options{.order = 2, .entries = 4};
      for (const ParamSpec& spec : model.model.params().specs()) options.names.push_back(spec.name);
      const GradReport report = check_gradient(loss, model.values, options);
      CHECK(report.worst_of_order(1) <= 1e-6);
      CHECK(report.worst_of_order(2) <= 1e-5);
      for (const InputReport& input : report.inputs) {
        CAPTURE(input.input);
        CHECK_FALSE(input.severed);
      }
    }
  }

  TEST_CASE("a batch that is cut in two draws the same noise") {
    const Translator model;
    const auto loss = [&](Index first, Index count) {
      return model.model
          .loss({.params = model.values,
                 .training = true,
                 .dropout = 0.3,
                 .key = Key(2),
                 .first_sample = 10 + first},
                slice(source(), 0, first, count), slice(lengths(), 0, first, count),
                slice(targets(), 0, first, count))
          .sum.item();
    };
    CHECK(loss(0, 2) == doctest::Approx(loss(0, 1) + loss(1, 1)).epsilon(1e-12));
  }

  TEST_CASE("an exact match is right at every counted target") {
    const Tensor logits = one_hot(ids({3, 2}, {1, 2, 1, 2, 0, 0}), 3, Dtype::f32);
    CHECK(exact_matches(logits, ids({3, 2}, {1, 2, 1, 1, 0, -1})).samples == 2);
    CHECK(exact_matches(logits, ids({3, 2}, {-1, -1, 2, 2, 1, -1})).samples == 1);
    CHECK(exact_matches(logits, ids({3, 2}, {1, 2, 1, 1, 0, -1})).tokens == 4);
    CHECK(exact_matches(logits, ids({3, 2}, {-1, -1, 2, 2, 1, -1})).tokens == 1);
    CHECK(exact_matches(Tensor::zeros({1, 1, 3}), ids({1, 1}, {0})).samples == 1);  // a tie
    CHECK(exact_matches(Tensor::zeros({1, 1, 3}), ids({1, 1}, {1})).samples == 0);
  }

  TEST_CASE("nonsense is one sentence") {
    const Translator model;
    const auto with = [&](const Tensor& lengths) {
      return complaint([&] { model.loss(source(), lengths, targets()); });
    };
    CHECK(with(ids({2}, {3, 6})) == "a sequence of length 6 does not fit into 5 positions");
    CHECK(with(ids({2}, {-1, 5})) == "a sequence of length -1 does not fit into 5 positions");
    CHECK(with(ids({3}, {1, 1, 1})) == "lengths of 2 sequences are i64[2], got i64[3]");
    const Tensor longer = ids({1, 10}, std::vector<int64_t>(10, 1));
    CHECK(complaint([&] {
            model.logits(longer, ids({1}, {2}), ids({1, 1}, {0}));
          }) == "the sequence has 10 positions, but the model learned only 9");
  }
}
