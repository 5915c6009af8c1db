// An encoder with a decoder: padding and the future have no influence, its gradient is right.
#include <doctest/doctest.h>

#include <cmath>

#include "core/check/gradcheck.hpp"
#include "core/threads.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/made_and_kept.hpp"
#include "tests/named_model.hpp"
#include "tools/model_cost.hpp"
#include "tools/uses.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

const SizesByName sizes{{"v", 7}, {"max_n", 9}, {"l", 1}, {"d_X", 8}, {"f", 12}, {"h", 2}};

SizesByName with_layers(Index layers) {
  SizesByName all = sizes;
  all["l"] = layers;
  return all;
}

// The text of an encoder and a decoder with its slots filled.
struct Translator : NamedModel {
  explicit Translator(const std::vector<std::string>& uses = {}, const SizesByName& of = sizes)
      : NamedModel("encoder_decoder", of, uses) {}
  static ModelInputs inputs(const Tensor& source, const Tensor& lengths, const Tensor& X) {
    return {.X = X, .M = source, .lengths = lengths};
  }
  Loss loss(const Forward& forward, const Tensor& source, const Tensor& lengths,
            const Tensor& targets) const {
    return model.loss(forward, inputs(source, lengths, shifted_right(targets)), targets);
  }
  Tensor loss(const Tensor& source, const Tensor& lengths, const Tensor& targets) const {
    return loss(forward(), source, lengths, targets).sum;
  }
  Tensor logits(const Tensor& source, const Tensor& lengths, const Tensor& input) const {
    return model.logits(forward(), inputs(source, lengths, input));
  }
};

// Encoder and, where it can, cross-attention are this variant.
std::vector<std::string> around(const Variant& variant) {
  const bool across = attends_across(*load_attention(*variant.program));
  return {"Attention=multi_head", "encoder.Attention=" + variant.name,
          "Cross=" + (across ? variant.name : "multi_head")};
}

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
  TEST_CASE("blocks that are computed again give the same bits, of what all blocks read, too") {
    // B is one for the stack, and each block reads it twice.
    const std::string twice =
        "def Twice(L[n, m, h], B[h] = normal(1) per stack):\n"
        "  W[n, m, h] = L[n, m, h] * B[h]\n"
        "  Y[n, m, h] = W[n, m, h] + B[h] * B[h] * W[n, m, h] * W[n, m, h]\n"
        "  return Y[n, m, h]\n";
    const auto program =
        filled(*find_text("encoder_decoder").program, {"Attention with twice", "Cross with twice"},
               library_of({{"twice", "twice.tete", twice}}));
    const int before = threads();
    for (Index layers : {1, 2, 3}) {
      const Model model(program, with_layers(layers));
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
        const ModelInputs in = Translator::inputs(source(), lengths(), shifted_right(targets()));
        const Tensor loss = model.loss(forward, in, targets()).sum;
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
    const Translator model({"Attention with t5_bias", "Cross with t5_bias"}, with_layers(3));
    int tables = 0;
    for (const ParamSpec& spec : model.model.params().specs())
      tables += spec.name.find("T5Bias") != std::string::npos;
    CHECK(tables == 3);
    for (const char* name : {"encoder/A/T5Bias.B", "decoder/A/T5Bias.B", "decoder/D/T5Bias.B"})
      CHECK(model.model.params().find(name) >= 0);
  }

  TEST_CASE("what stands in the padding changes no bit, whatever attends") {
    std::vector<int64_t> other_ids = source_ids;
    other_ids[3] = 6, other_ids[4] = 2;
    const Tensor other = ids({2, 5}, other_ids);
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Translator model(around(variant));
      const Tensors params = model.variables();
      const auto loss = [&](const Tensor& tokens) {
        return model.loss({.params = params}, tokens, lengths(), targets()).sum;
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
      const Translator model(around(variant));
      const Tensor longer = ids({2, 8}, {1, 2, 3, 5, 5, 5, 5, 5, 6, 5, 4, 3, 2, 1, 1, 1});
      const Tensor more = ids({2, 6}, {3, 2, 1, -1, -1, -1, 2, 3, 4, 5, -1, -1});
      CHECK(difference(model.loss(source(), lengths(), targets()),
                       model.loss(longer, lengths(), more)) < 1e-11);
    }
  }

  TEST_CASE("targets that are padding are not counted, whatever their number") {
    const Translator model;
    const auto loss = [&](int64_t padding) {
      return model.loss(model.forward(), source(), lengths(),
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
      if (!is_causal(*load_attention(*variant.program))) continue;
      const Translator model(
          {"Attention=multi_head", "decoder.Attention=" + variant.name, "Cross=multi_head"});
      const Tensor a = model.logits(source(), lengths(), ids({2, 4}, {0, 1, 2, 3, 0, 4, 5, 6}));
      const Tensor b = model.logits(source(), lengths(), ids({2, 4}, {0, 1, 6, 3, 0, 4, 1, 6}));
      CHECK(same_bits(slice(a, 1, 0, 2), slice(b, 1, 0, 2)));
      CHECK(difference(slice(a, 1, 2, 1), slice(b, 1, 2, 1)) > 1e-6);
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
    CHECK(difference(slice(a, 0, 1, 1), slice(b, 0, 1, 1)) > 1e-6);
    const auto encoded = [&](const Tensor& tokens) {
      Tensor encoder;
      const Forward forward{.params = model.values,
                            .watch = [&](const std::string& path, const Tensor& x) {
                              if (path == "encoder") encoder = x;
                            }};
      model.model.logits(forward, Translator::inputs(tokens, lengths(), input));
      return slice(slice(encoder, 0, 1, 1), 1, 0, 1);
    };
    CHECK(difference(encoded(source()), encoded(ids({2, 5}, other))) > 1e-6);
  }

  TEST_CASE(
      "token by token it is what it is at once, cross-attention to a padded source included") {
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      if (!attends_across(*load_attention(*variant.program))) continue;
      const Translator model({"Attention=multi_head", "Cross=" + variant.name});
      const Forward forward = model.forward();
      ModelInputs in =
          Translator::inputs(source(), lengths(), ids({2, 4}, {0, 1, 2, 3, 0, 4, 5, 6}));
      const Tensor X = in.X, whole = model.model.logits(forward, in);
      CHECK(difference(model.model.last_logits(forward, in), sum(slice(whole, 1, 3, 1), {1})) <
            1e-12);
      Decoding past;
      for (Index n = 0; n < 4; ++n) {
        in.X = slice(X, 1, n, 1);
        const Tensor next = model.model.next_logits(forward, in, past);
        CHECK(difference(next, sum(slice(whole, 1, n, 1), {1})) < 1e-12);
      }
    }
  }

  TEST_CASE("its multiplies are its parts', and its activations those that a forward pass makes") {
    const Index n = 40, d = 32, f = 96, v = 7, both = n * n * d;
    const Translator named(
        {"Attention=multi_head", "encoder.Attention=talking_heads", "Cross=multi_query"},
        {{"v", v}, {"max_n", n}, {"l", 2}, {"d_X", d}, {"f", f}, {"h", 4}});
    const Cost cost = cost_of(named.model, n);
    const Index talking = 4 * n * d * d + 2 * both + 2 * n * n * 4 * 4;
    const Index multi = 4 * n * d * d + 2 * both;
    const Index query = 2 * n * d * d + 2 * n * d * (d / 4) + 2 * both;
    const Index norms = (2 * 2 + 1 + 3 * 2 + 1) * n * d;
    CHECK(cost.total.multiplies ==
          2 * (talking + multi + query) + 4 * 2 * n * d * f + n * d * v + norms);
    CHECK(cost.total.visible == cost.total.multiplies - 2 * 2 * d * (n * (n - 1) / 2));
    Tensors params;
    for (const Tensor& p : named.values) params.push_back(cast(p, Dtype::f32).variable());
    const Forward forward{.params = params,
                          .replace = [](const std::string&, const Tensor& x) { return x; },
                          .replaced = [](const std::string& path) { return path.ends_with("/W"); },
                          .tiling = {.allowed = false}};
    const Tensor tokens = ids({1, n}, std::vector<int64_t>(n, 3));
    const ModelInputs in = Translator::inputs(tokens, ids({1}, {30}), tokens);
    const MadeAndKept run([&] { return named.model.logits(forward, in); });
    CHECK(run.made <= static_cast<double>(cost.bytes));  // several statements may be one pass
    CHECK(run.made > 0.75 * static_cast<double>(cost.bytes));
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
    // Smooth: relu has no derivative at its kink.
    const std::vector<std::string> styles[] = {
        {"Activation=silu"},
        {"Activation=silu", "Output=output_own", "Norm=norm_rms", "Absolute=positions_sinusoidal"},
        {"Activation=silu", "EncoderBlock=admin", "DecoderBlock=admin_cross"},
        gpt2_style};
    for (const std::vector<std::string>& style : styles) {
      std::vector<std::string> uses{"Attention=talking_heads", "Attention with t5_bias",
                                    "Cross=dynamic_projections"};
      uses.insert(uses.end(), style.begin(), style.end());
      SizesByName own = sizes;
      if (style.size() == 4) own.erase("max_n");
      const Translator model(uses, own);
      const auto loss = [&](const Tensors& params) {
        const Forward forward{.params = params, .training = true, .dropout = 0.2, .key = Key(4)};
        return model.loss(forward, source(), lengths(), targets()).sum;
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
      const Forward forward{.params = model.values,
                            .training = true,
                            .dropout = 0.3,
                            .key = Key(2),
                            .first_sample = 10 + first};
      return model
          .loss(forward, slice(source(), 0, first, count), slice(lengths(), 0, first, count),
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

  TEST_CASE("lengths and sources that do not fit are told in a sentence") {
    const Translator model;
    const auto with = [&](const Tensor& lengths) {
      return error_of([&] { model.loss(source(), lengths, targets()); });
    };
    CHECK(with(ids({2}, {3, 6})).find("length 6 does not fit into 'm' = 5") != std::string::npos);
    CHECK(with(ids({2}, {-1, 5})).find("length -1 does not fit into 'm' = 5") != std::string::npos);
    CHECK(with(ids({3}, {1, 1, 1})) ==
          "the lengths of the memory have shape [3], but the batch is [2]");
    const Tensor longer = ids({1, 10}, std::vector<int64_t>(10, 1));
    CHECK(error_of([&] {
            model.logits(longer, ids({1}, {2}), ids({1, 1}, {0}));
          }).find("10") != std::string::npos);
  }
}
