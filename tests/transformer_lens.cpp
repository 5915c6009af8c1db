// TransformerLens's names: which value each means, in which shape, and that it means what it means
// there.
#include "tools/inspect/transformer_lens.hpp"

#include "nn/trace.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tools/inspect/result_by_heads.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

Tensor tokens(Index b, Index n) {
  std::vector<int64_t> ids;
  for (Index i = 0; i < b * n; ++i)
    ids.push_back(static_cast<int64_t>(uniform_below(Key(1), static_cast<uint64_t>(i), 11)));
  return Tensor::of<int64_t>({b, n}, ids);
}

// All values of a call, and what each head adds.
Activations all_seen(const ChosenSites& sites, const Tensors& params, const Call& call) {
  Activations seen = trace({params}, {"**"}, call);
  for (const SitePlace& place : places_of(sites))
    if (const Tensor each = result_by_heads(place, seen)) seen[place.path + "/Y/heads"] = each;
  return seen;
}
Activations names_in(const ChosenSites& sites, const Tensors& params, const Call& call) {
  return as_in_transformer_lens(all_seen(sites, params, call), places_of(sites));
}

// Two layers.
struct Small {
  ChosenSites sites;
  LanguageModel model;

  explicit Small(const std::string& variant, const std::vector<std::string>& with = {})
      : sites{.decoder = Choices(2, {load_attention(variant, with), {.d_model = 12, .heads = 3}})},
        model(config(), attention_of(sites.decoder, true)) {}
  static LanguageModelConfig config() {
    LanguageModelConfig made;
    made.vocabulary = 11, made.context = 40, made.d_model = 12, made.layers = 2;
    made.block.d_ff = 20;
    return made;
  }
  Activations seen() const {
    return all_seen(sites, model.params().initial_values(Key(1)),
                    [&](const Forward& f) { model.logits(f, tokens(2, 5)); });
  }

 private:
  using Choices = std::vector<ChosenAttention>;
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
    const Small small("talking_heads");
    const Activations ours = small.seen(),
                      theirs = as_in_transformer_lens(ours, places_of(small.sites));
    struct Row {
      const char *there, *here;
      Axes order = {};
    };
    const Axes queries{0, 3, 1, 2}, width{0, 1, 3, 2};
    for (const Row& row : {Row{"hook_embed", "embedding"},
                           {"blocks.0.hook_resid_pre", "decoder/0/resid_pre"},
                           {"blocks.1.ln1.hook_normalized", "decoder/1/self_norm"},
                           {"blocks.1.attn.hook_q", "decoder/1/self/Q", width},
                           {"blocks.1.attn.hook_k", "decoder/1/self/K", width},
                           {"blocks.1.attn.hook_v", "decoder/1/self/V", width},
                           {"blocks.1.attn.hook_attn_scores", "decoder/1/self/J", queries},
                           {"blocks.1.attn.hook_scores_talked", "decoder/1/self/L", queries},
                           {"blocks.1.attn.hook_pattern", "decoder/1/self/W", queries},
                           {"blocks.1.attn.hook_pattern_talked", "decoder/1/self/U", queries},
                           {"blocks.1.attn.hook_z", "decoder/1/self/O", width},
                           {"blocks.1.hook_attn_out", "decoder/1/self_out"},
                           {"blocks.1.hook_resid_mid", "decoder/1/resid_mid"},
                           {"blocks.1.ln2.hook_normalized", "decoder/1/ff_norm"},
                           {"blocks.1.mlp.hook_pre", "decoder/1/ff/pre"},
                           {"blocks.1.mlp.hook_post", "decoder/1/ff/hidden"},
                           {"blocks.1.hook_mlp_out", "decoder/1/ff_out"},
                           {"blocks.1.hook_resid_post", "decoder/1/resid"},
                           {"ln_final.hook_normalized", "decoder/norm"}}) {
      CAPTURE(std::string(row.there));
      REQUIRE(theirs.contains(row.there));
      const Tensor& value = ours.at(row.here);
      const Tensor expected = row.order.empty() ? value : permute(value, row.order);
      CHECK(same_bits(theirs.at(row.there), expected));
    }
    CHECK(same_bits(theirs.at("hook_pos_embed"), reshape(ours.at("positions"), {1, 5, 12})));
    // A text that mixes no heads: what enters the softmax.
    const Small plain("multi_head");
    const Activations its = plain.seen(),
                      named = as_in_transformer_lens(its, places_of(plain.sites));
    CHECK(same_bits(named.at("blocks.0.attn.hook_attn_scores"),
                    permute(its.at("decoder/0/self/L"), queries)));
    CHECK(!named.contains("blocks.0.attn.hook_scores_talked"));
  }

  TEST_CASE("TransformerLens's names mean what they mean there") {
    for (const char* variant : {"multi_head", "multi_head_scaled", "talking_heads", "dense_plus"})
      for (const char* norm : {"layer", "rms"}) {
        CAPTURE(std::string(variant));
        CAPTURE(std::string(norm));
        LanguageModelConfig config;
        config.vocabulary = 11, config.context = 40, config.d_model = 12, config.layers = 2;
        config.block.d_ff = 20, config.block.norm = norm;
        config.block.feed_forward.activation = "swiglu";
        const std::vector<Program> biases{*find_amendment("biases").program};
        const bool biased = std::string_view(variant) == "multi_head";
        const auto program = load_attention(*find_variant(variant).program,
                                            biased ? biases : std::vector<Program>{});
        const ChosenAttention chosen{program, {.d_model = 12, .heads = 3}};
        const ChosenSites sites{.decoder = {chosen, chosen}};
        const LanguageModel model(config, attention_of(sites.decoder, true));
        Tensors values;
        for (const ParamSpec& spec : model.params().specs())
          values.push_back(noise(spec.shape, static_cast<uint64_t>(values.size()) + 1) * 0.5);
        const auto parameter = [&](const std::string& name) {
          return values[model.params().find(name)];
        };
        const auto seen =
            names_in(sites, values, [&](const Forward& f) { model.logits(f, tokens(2, 5)); });
        const auto at = [&](const std::string& name) { return seen.at(name); };
        const auto in = [&](const std::string& name) { return at("blocks.1." + name); };
        const auto near = [](const Tensor& a, const Tensor& b) { return difference(a, b) < 1e-9; };

        CHECK(near(add("b n d, n d", at("hook_embed"), reshape(at("hook_pos_embed"), {5, 12})),
                   at("blocks.0.hook_resid_pre")));
        CHECK(near(in("hook_resid_pre") + in("hook_attn_out"), in("hook_resid_mid")));
        CHECK(near(in("hook_resid_mid") + in("hook_mlp_out"), in("hook_resid_post")));
        CHECK(near(silu(in("mlp.hook_pre")) * in("mlp.hook_pre_linear"), in("mlp.hook_post")));
        for (const auto& [from, to, own] :
             {std::tuple{"blocks.1.hook_resid_pre", "blocks.1.ln1", "decoder/1/self_norm"},
              {"blocks.1.hook_resid_mid", "blocks.1.ln2", "decoder/1/ff_norm"},
              {"blocks.1.hook_resid_post", "ln_final", "decoder/norm"}}) {
          const std::string theirs = to, here = own;
          const Tensor x = at(from), scale = at(theirs + ".hook_scale");
          CHECK(scale.shape() == Shape{2, 5, 1});
          const bool rms = std::string_view(norm) == "rms";
          const Tensor centred = rms ? x : x - broadcast(mean(x, {2}, true), x.shape());
          Tensor y =
              mul("b n d, d", centred / broadcast(scale, x.shape()), parameter(here + "/scale"));
          if (!rms) y = add("b n d, d", y, parameter(here + "/bias"));
          CHECK(near(y, at(theirs + ".hook_normalized")));
        }
        // Weights of values, projected, are what each head adds; together they are the output.
        const bool talks = seen.contains("blocks.1.attn.hook_pattern_talked");
        const Tensor pattern = in(talks ? "attn.hook_pattern_talked" : "attn.hook_pattern");
        CHECK(near(einsum("b h n m, b m h d -> b n h d", pattern, in("attn.hook_v")),
                   in("attn.hook_z")));
        CHECK(near(
            einsum("b n h d, y d h -> b n h y", in("attn.hook_z"), parameter("decoder/1/self/P_o")),
            in("attn.hook_result")));
        Tensor out = sum(in("attn.hook_result"), {2});
        if (biased) out = add("b n d, d", out, parameter("decoder/1/self/OutputBias.b"));
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
                            parameter("decoder/1/self/P_l")),
                     scores));
      }
  }

  TEST_CASE("rotary queries have two names, before they turn and after") {
    const Small small("multi_head", {"rotary"});
    const Activations ours = small.seen(),
                      theirs = as_in_transformer_lens(ours, places_of(small.sites));
    const Axes width{0, 1, 3, 2};
    CHECK(same_bits(theirs.at("decoder.0.attn.hook_rot_q"),
                    permute(ours.at("decoder/0/self/Q"), width)));
    CHECK(difference(theirs.at("decoder.0.attn.hook_q"), theirs.at("decoder.0.attn.hook_rot_q")) >
          1e-3);
  }

  TEST_CASE("an encoder and a decoder have names of their own") {
    LanguageModelConfig config;
    config.vocabulary = 11, config.context = 6, config.d_model = 12, config.layers = 1;
    const auto program = load_attention("talking_heads");
    const std::vector<ChosenAttention> each{{program, {.d_model = 12, .heads = 3}}};
    const ChosenSites sites{each, each, each};
    const EncoderDecoder model(config, attention_of(sites));
    const Activations seen =
        names_in(sites, model.params().initial_values(Key(1)), [&](const Forward& f) {
          model.loss(f, tokens(2, 5), Tensor::of<int64_t>({2}, {5, 3}), tokens(2, 6));
        });
    for (const char* name : {"encoder.hook_embed", "decoder.hook_pos_embed",
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
    const Small small("talking_heads");
    const Activations seen = small.seen(),
                      theirs = as_in_transformer_lens(seen, places_of(small.sites));
    const auto names = [&](const std::vector<std::string>& patterns) {
      std::string all;
      for (const auto& named : fitting(patterns, seen, theirs))
        all += (all.empty() ? "" : " ") + named.first;
      return all;
    };
    CHECK(names({"decoder/*/self/W", "blocks.1.attn.hook_pattern"}) ==
          "blocks.1.attn.hook_pattern decoder/0/self/W decoder/1/self/W");
    CHECK(names({"hook_*"}) == "hook_embed hook_pos_embed");
    CHECK(names({"**.hook_result"}) ==
          "blocks.0.attn.hook_result blocks.1.attn.hook_result decoder.0.attn.hook_result "
          "decoder.1.attn.hook_result");
    CHECK(fitting({"**"}, seen, theirs).size() == seen.size());
    CHECK(error_of([&] { names({"decoder/*/self/w"}); }) ==
          "nothing in this model is at 'decoder/*/self/w'; did you mean 'decoder/0/self/W'?");
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
    const Model model(load_program("gpt2"),
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
    is("blocks.0.hook_resid_pre", "T");
    is("blocks.1.hook_resid_pre", "Z/0/Y");
    is("blocks.1.ln1.hook_normalized", "Z/1/N");
    is("blocks.1.hook_attn_out", "Z/1/A");
    is("blocks.1.hook_resid_mid", "Z/1/B");
    is("blocks.1.ln2.hook_normalized", "Z/1/C");
    is("blocks.1.mlp.hook_post", "Z/1/F.H");
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
            check(Program::parse("use Attention = talking_heads\nuse FeedForward = ff_swiglu\n"
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
    const Activations seen = trace({small_values(model)}, {"**"},
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
    is("blocks.1.mlp.hook_pre", "B/1/J.U");
    is("blocks.1.mlp.hook_post", "B/1/J.H");
    is("blocks.1.hook_resid_post", "B/1/K");
    is("ln_final.hook_normalized", "C");
    CHECK(places_of(model).size() == 2);
    CHECK(stream_of(model).points == std::vector<std::string>{"A", "B/0/K", "B/1/K"});
  }
}
