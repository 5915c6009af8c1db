// TransformerLens's names: which value each means, in which shape, and that it means what it means
// there.
#include "tools/inspect/transformer_lens.hpp"

#include "nn/trace.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/named_model.hpp"
#include "tools/inspect/result_by_heads.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// All values of a call, and what each head adds.
Activations all_seen(const Model& model, const Tensors& params, const ModelInputs& in) {
  Activations seen = trace({params}, {"**"}, [&](const Forward& f) { model.logits(f, in); });
  for (const SitePlace& place : places_of(model))
    if (const Tensor each = result_by_heads(place, seen)) seen[place.path + "/Y/heads"] = each;
  return seen;
}

// Two layers.
struct Small : NamedModel {
  Activations ours, theirs;

  explicit Small(const std::vector<std::string>& uses)
      : NamedModel("language_model",
                   {{"v", 11}, {"max_n", 40}, {"d_X", 12}, {"l", 2}, {"f", 20}, {"h", 3}}, uses,
                   Dtype::f32),
        ours(all_seen(model, values, {.X = tokens(2, 5)})),
        theirs(as_in_transformer_lens(ours, model)) {}
};

Tensors small_values(const Model& model) { return model.params().initial_values(Key(1)); }

// Their value of this name is ours at this path.
void check_same(const Activations& theirs, const std::string& name, const Activations& seen,
                const std::string& path) {
  CAPTURE(name);
  REQUIRE(theirs.contains(name));
  REQUIRE(seen.contains(path));
  CHECK(theirs.at(name).same(seen.at(path)));
}

}  // namespace

TEST_SUITE("transformer lens") {
  TEST_CASE("TransformerLens's names have the shapes that values have there") {
    const Small small({"Attention=talking_heads"});
    const Activations &ours = small.ours, &theirs = small.theirs;
    struct Row {
      const char *there, *here;
      Axes order = {};
    };
    const Axes queries{0, 3, 1, 2}, width{0, 1, 3, 2};
    for (const Row& row : {Row{"hook_embed", "T"},
                           {"blocks.0.hook_resid_pre", "B"},
                           {"blocks.1.ln1.hook_normalized", "decoder/1/N"},
                           {"blocks.1.attn.hook_q", "decoder/1/A/Q", width},
                           {"blocks.1.attn.hook_k", "decoder/1/A/K", width},
                           {"blocks.1.attn.hook_v", "decoder/1/A/V", width},
                           {"blocks.1.attn.hook_attn_scores", "decoder/1/A/J", queries},
                           {"blocks.1.attn.hook_scores_talked", "decoder/1/A/L", queries},
                           {"blocks.1.attn.hook_pattern", "decoder/1/A/W", queries},
                           {"blocks.1.attn.hook_pattern_talked", "decoder/1/A/U", queries},
                           {"blocks.1.attn.hook_z", "decoder/1/A/O", width},
                           {"blocks.1.hook_attn_out", "decoder/1/A"},
                           {"blocks.1.hook_resid_mid", "decoder/1/B"},
                           {"blocks.1.ln2.hook_normalized", "decoder/1/C"},
                           {"blocks.1.mlp.hook_pre", "decoder/1/F.U"},
                           {"blocks.1.mlp.hook_post", "decoder/1/F.H"},
                           {"blocks.1.hook_mlp_out", "decoder/1/F"},
                           {"blocks.1.hook_resid_post", "decoder/1/Y"},
                           {"ln_final.hook_normalized", "N"}}) {
      CAPTURE(std::string(row.there));
      REQUIRE(theirs.contains(row.there));
      const Tensor& value = ours.at(row.here);
      const Tensor expected = row.order.empty() ? value : permute(value, row.order);
      CHECK(same_bits(theirs.at(row.there), expected));
    }
    // A text that mixes no heads: what enters the softmax.
    const Small plain({"Attention=multi_head"});
    const Activations &its = plain.ours, &named = plain.theirs;
    CHECK(same_bits(named.at("blocks.0.attn.hook_attn_scores"),
                    permute(its.at("decoder/0/A/L"), queries)));
    CHECK(!named.contains("blocks.0.attn.hook_scores_talked"));
  }

  TEST_CASE("TransformerLens's names mean what they mean there") {
    for (const char* variant : {"multi_head", "multi_head_scaled", "talking_heads", "dense_plus"})
      for (const char* norm : {"norm_layer", "norm_rms"}) {
        CAPTURE(std::string(variant));
        CAPTURE(std::string(norm));
        std::vector<std::string> uses{std::string("Attention=") + variant,
                                      std::string("Norm=") + norm, "FeedForward=ff_gated",
                                      "Activation=silu"};
        const bool biased = std::string_view(variant) == "multi_head";
        if (biased) uses.push_back("Attention with biases");
        const Model model(filled_text("language_model", uses),
                          {{"v", 11}, {"max_n", 40}, {"d_X", 12}, {"l", 2}, {"f", 20}, {"h", 3}});
        Tensors values;
        for (const ParamSpec& spec : model.params().specs())
          values.push_back(noise(spec.shape, static_cast<uint64_t>(values.size()) + 1) * 0.5);
        const auto parameter = [&](const std::string& name) {
          return values[model.params().find(name)];
        };
        const Activations ours = all_seen(model, values, {.X = tokens(2, 5)}),
                          seen = as_in_transformer_lens(ours, model);
        const auto at = [&](const std::string& name) { return seen.at(name); };
        const auto in = [&](const std::string& name) { return at("blocks.1." + name); };
        const auto near = [](const Tensor& a, const Tensor& b) { return difference(a, b) < 1e-9; };

        CHECK(near(in("hook_resid_pre") + in("hook_attn_out"), in("hook_resid_mid")));
        CHECK(near(in("hook_resid_mid") + in("hook_mlp_out"), in("hook_resid_post")));
        CHECK(near(silu(in("mlp.hook_pre")) * in("mlp.hook_pre_linear"), in("mlp.hook_post")));
        for (const auto& [from, to, own] :
             {std::tuple{"blocks.1.hook_resid_pre", "blocks.1.ln1", "decoder/1/N"},
              {"blocks.1.hook_resid_mid", "blocks.1.ln2", "decoder/1/C"},
              {"blocks.1.hook_resid_post", "ln_final", "N"}}) {
          const std::string theirs = to, here = own;
          const Tensor x = at(from);
          const bool rms = std::string_view(norm) == "norm_rms";
          const Tensor centred = rms ? x : x - broadcast(mean(x, {2}, true), x.shape());
          const Tensor scale = sqrt(mean(square(centred), {2}, true) + (rms ? 1e-6 : 1e-5));
          Tensor y =
              mul("b n d, d", centred / broadcast(scale, x.shape()), parameter(here + ".gamma"));
          if (!rms) y = add("b n d, d", y, parameter(here + ".beta"));
          CHECK(near(y, at(theirs + ".hook_normalized")));
        }
        // Weights of values, projected, are what each head adds; together they are the output.
        const bool talks = seen.contains("blocks.1.attn.hook_pattern_talked");
        const Tensor pattern = in(talks ? "attn.hook_pattern_talked" : "attn.hook_pattern");
        CHECK(near(einsum("b h n m, b m h d -> b n h d", pattern, in("attn.hook_v")),
                   in("attn.hook_z")));
        CHECK(near(
            einsum("b n h d, y d h -> b n h y", in("attn.hook_z"), parameter("decoder/1/A/P_o")),
            in("attn.hook_result")));
        Tensor out = sum(in("attn.hook_result"), {2});
        if (biased) out = add("b n d, d", out, parameter("decoder/1/A/OutputBias.b"));
        CHECK(near(out, in("hook_attn_out")));
        // Scores are what enters the softmax, or what enters the mixing before it.
        CHECK(seen.contains("blocks.1.attn.hook_scores_talked") == talks);
        const Tensor scores = in(talks ? "attn.hook_scores_talked" : "attn.hook_attn_scores");
        const Tensor hidden = Tensor::of<double>(
            {5, 5}, {0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
        const Tensor masked = add("b h n m, n m", scores, hidden * -1e9);
        CHECK(near(softmax("b h n [m]", masked), in("attn.hook_pattern")));
        if (talks)
          CHECK(near(einsum("b k n m, k h -> b h n m", in("attn.hook_attn_scores"),
                            parameter("decoder/1/A/P_l")),
                     scores));
      }
  }

  TEST_CASE("rotary queries have two names, before they turn and after") {
    const Small small({"Attention=multi_head", "Attention with rotary"});
    const Activations &ours = small.ours, &theirs = small.theirs;
    const Axes width{0, 1, 3, 2};
    CHECK(
        same_bits(theirs.at("blocks.0.attn.hook_rot_q"), permute(ours.at("decoder/0/A/Q"), width)));
    CHECK(difference(theirs.at("blocks.0.attn.hook_q"), theirs.at("blocks.0.attn.hook_rot_q")) >
          1e-3);
  }

  TEST_CASE("an encoder and a decoder have names of their own") {
    const NamedModel named("encoder_decoder",
                           {{"v", 11}, {"max_n", 6}, {"d_X", 12}, {"l", 1}, {"h", 3}},
                           {"Attention=talking_heads"}, Dtype::f32);
    const ModelInputs in{
        .X = tokens(2, 6), .M = tokens(2, 5), .lengths = Tensor::of<int64_t>({2}, {5, 3})};
    const Activations seen =
        as_in_transformer_lens(all_seen(named.model, named.values, in), named.model);
    for (const char* name : {"encoder.hook_embed", "decoder.hook_embed",
                             "decoder_final_ln.hook_normalized", "encoder.0.attn.hook_pattern",
                             "decoder.0.attn.hook_pattern", "decoder.0.cross_attn.hook_pattern",
                             "decoder.0.cross_attn.hook_result", "decoder.0.hook_cross_attn_out",
                             "decoder.0.hook_resid_mid_cross", "decoder.0.ln2.hook_normalized",
                             "decoder.0.ln3.hook_normalized", "encoder.0.ln2.hook_normalized"}) {
      CAPTURE(name);
      CHECK(seen.contains(name));
    }
    for (const char* name : {"blocks.0.attn.hook_pattern", "ln_final.hook_normalized", "hook_embed",
                             "encoder.0.ln3.hook_normalized"}) {
      CAPTURE(name);
      CHECK(!seen.contains(name));
    }
    CHECK(seen.at("decoder.0.cross_attn.hook_pattern").shape() == Shape{2, 3, 6, 5});
  }

  TEST_CASE("patterns choose paths and names; what fits nothing is told with the nearest") {
    const Small small({"Attention=talking_heads"});
    const Activations &seen = small.ours, &theirs = small.theirs;
    const auto names = [&](const std::vector<std::string>& patterns) {
      std::string all;
      for (const auto& named : fitting(patterns, seen, theirs))
        all += (all.empty() ? "" : " ") + named.first;
      return all;
    };
    CHECK(names({"decoder/*/A/W", "blocks.1.attn.hook_pattern"}) ==
          "blocks.1.attn.hook_pattern decoder/0/A/W decoder/1/A/W");
    CHECK(names({"hook_*"}) == "hook_embed");
    CHECK(names({"**.hook_result"}) == "blocks.0.attn.hook_result blocks.1.attn.hook_result");
    CHECK(fitting({"**"}, seen, theirs).size() == seen.size());
    CHECK(error_of([&] { names({"decoder/*/A/w"}); }) ==
          "nothing in this model is at 'decoder/*/A/w'; did you mean 'decoder/0/A/W'?");
    CHECK(error_of([&] { names({"blocks.0.attn.hook_patern"}); }) ==
          "nothing in this model is at 'blocks.0.attn.hook_patern'; did you mean "
          "'blocks.0.attn.hook_pattern'?");
    CHECK(error_of([&] { names({"blocks.*.mlp.zzzzzzzzzzzzzzzz"}); }) ==
          "nothing in this model is at 'blocks.*.mlp.zzzzzzzzzzzzzzzz'; under 'blocks.*.mlp.' "
          "there are hook_post, hook_pre");
  }

  TEST_CASE("every variant: what heads add is the result together") {
    int told = 0;
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      Layer layer(variant.name, sizes_for(variant.name), Dtype::f32);
      const Tensor X = noise({3, 11, 12}, 1, Dtype::f32);
      Tensor Y;
      Activations seen = trace({layer.values}, {"**"}, [&](const Forward& forward) {
        Y = layer.attention(forward, "at", X, X);
      });
      seen["X"] = X;
      const SitePlace place{"at", "decoder", 0, false, false, layer.program, {}, "X", "X", 0, 0};
      const Tensor each = result_by_heads(place, seen);
      if (!each) continue;
      ++told;
      CHECK(each.shape() == Shape{3, 11, 12, each.size(3)});
      CHECK(difference(sum(each, {3}), Y) < 2e-5);
    }
    CHECK(told > 40);
  }

  TEST_CASE("a text's values have TransformerLens's names by its slots") {
    const Model model(filled_text("gpt2"),
                      {{"v", 11}, {"l", 2}, {"h", 3}, {"d_X", 12}, {"f", 20}, {"max_n", 8}});
    const Tensors values = small_values(model);
    Activations seen =
        trace({values}, {"**"}, [&](const Forward& f) { model.logits(f, {.X = tokens(2, 5)}); });
    for (const SitePlace& place : places_of(model))
      if (const Tensor each = result_by_heads(place, seen)) seen[place.path + "/Y/heads"] = each;
    const Activations theirs = as_in_transformer_lens(seen, model);
    const auto is = [&](const std::string& name, const std::string& path) {
      check_same(theirs, name, seen, path);
    };
    is("blocks.0.hook_resid_pre", "B");
    is("blocks.1.hook_resid_pre", "Z/0/Y");
    is("blocks.1.ln1.hook_normalized", "Z/1/N");
    is("blocks.1.hook_attn_out", "Z/1/A");
    is("blocks.1.hook_resid_mid", "Z/1/B");
    is("blocks.1.ln2.hook_normalized", "Z/1/C");
    is("blocks.1.mlp.hook_post", "Z/1/F.H.Y");
    is("blocks.1.hook_mlp_out", "Z/1/F");
    is("blocks.1.hook_resid_post", "Z/1/Y");
    is("ln_final.hook_normalized", "N");
    CHECK(theirs.at("blocks.0.attn.hook_pattern").shape() == Shape{2, 3, 5, 5});
    CHECK(theirs.at("blocks.0.attn.hook_result").shape() == Shape{2, 5, 3, 12});
    CHECK(theirs.at("blocks.0.attn.hook_z").shape() == Shape{2, 5, 3, 4});
    const Tensor bias = values[model.params().find("Z/1/A/OutputBias.b")];
    CHECK(difference(sum(theirs.at("blocks.1.attn.hook_result"), {2}) +
                         broadcast(reshape(bias, {1, 1, 12}), {2, 5, 12}),
                     theirs.at("blocks.1.hook_attn_out")) < 2e-5);
  }

  TEST_CASE("slots are found whatever a text calls its values") {
    const Model model(
        std::make_shared<const Checked>(
            check(Program::parse("use Attention = talking_heads\nuse FeedForward = ff_gated\n"
                                 "use Norm = norm_rms\n"
                                 "def Layer(X[i, w]):\n"
                                 "  G[i, w] = Norm(X[i, w])\n"
                                 "  H[i, w] = Attention(G[i, w], G[i, w])\n"
                                 "  J[i, w] = FeedForward(G[i, w])\n"
                                 "  K[i, w] = X[i, w] + H[i, w] + J[i, w]\n"
                                 "  return K[i, w]\n"
                                 "def Mine(X[causal i] < t, L[t, w] = normal(1)):\n"
                                 "  where c = 2\n"
                                 "  A[i, w] = gather(L[t, w], X[i], dim=t)\n"
                                 "  B[i, w] = Layer(A[i, w]) repeated c\n"
                                 "  C[i, w] = Norm(B[i, w])\n"
                                 "  D[i, t] = einsum(C[i, w], L[t, w])\n"
                                 "  return D[i, t]\n"),
                  {}, catalogue())),
        {{"t", 11}, {"c", 2}, {"w", 12}, {"h", 3}, {"f", 20}});
    const Tensors values = small_values(model);
    const Activations seen = trace({values}, {"**"},
                                   [&](const Forward&f) { model.logits(f, {.X = tokens(2, 5)}); }),
                      theirs = as_in_transformer_lens(seen, model);
    const auto is = [&](const std::string& name, const std::string& path) {
      check_same(theirs, name, seen, path);
    };
    is("hook_embed", "A");
    is("blocks.0.hook_resid_pre", "A");
    is("blocks.1.ln1.hook_normalized", "B/1/G");
    is("blocks.1.hook_attn_out", "B/1/H");
    is("blocks.1.hook_mlp_out", "B/1/J");
    is("blocks.1.mlp.hook_pre", "B/1/J.A");
    is("blocks.1.mlp.hook_pre_linear", "B/1/J.U");
    is("blocks.1.mlp.hook_post", "B/1/J.H");
    is("blocks.1.hook_resid_post", "B/1/K");
    is("ln_final.hook_normalized", "C");
    CHECK(places_of(model).size() == 2);
    CHECK(stream_of(model).points == std::vector<std::string>{"A", "B/0/K", "B/1/K"});
  }
}
