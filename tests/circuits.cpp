// QK and OV circuits are what their parameters' products say, token by token.
#include "tools/inspect/circuits.hpp"

#include "tests/inspect.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

struct Told {
  TemporaryFolder folder;
  Frame frame;
  Trained trained;

  Told(const ModelSettings& s, const std::vector<std::string>& circuits,
       const std::string& text = "abcab",
       const Tokenizer& tokenizer = Tokenizer::characters(letters))
      : frame(look(s, circuits, text, tokenizer)), trained(read_trained(folder / "run")) {}

  Frame look(const ModelSettings& s, const std::vector<std::string>& circuits,
             const std::string& text, const Tokenizer& tokenizer) const {
    write_run(folder / "run", s, tokenizer);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = text, options.ablation = false;
    options.circuits = circuits;
    return inspect(options).runs[0].frames[0];
  }
  Tensor parameter(const std::string& name) const {
    return cast(trained.params[trained.declared().find(name)], Dtype::f64);
  }
  const Circuit& at(const std::string& kind, const std::string& path, Index head) const {
    for (const Circuit& c : frame.circuits)
      if (c.kind == kind && c.path == path && c.head == head) return c;
    FAIL("no circuit ", kind, " of ", path);
    throw;
  }
};

Tensor head_of(const Tensor& x, Index head) {
  return reshape(slice(x, x.rank() - 1, head, 1), {x.size(0), x.size(1)});
}

// The embedding [v, d], normed by the block.
Tensor normed(const Told& told, const std::string& norm) {
  const Tensor E = told.parameter("E");
  return layer_norm(E, told.parameter(norm + ".gamma"), told.parameter(norm + ".beta"), 1e-5);
}

}  // namespace

TEST_SUITE("circuits") {
  TEST_CASE("gpt2's are the products of its matrices, of the embedding without positions") {
    const Told told(settings_of_text("gpt2"), {"Z/*/A"});
    REQUIRE(told.frame.circuits.size() == 2 * 2 * 3);
    for (const std::string layer : {"Z/0", "Z/1"}) {
      const std::string A = layer + "/A/";
      const Tensor X = normed(told, layer + "/N");
      for (Index head = 0; head < 3; ++head) {
        CAPTURE(layer);
        CAPTURE(head);
        const auto biased = [&](const std::string& P, const std::string& b) {
          const Tensor made = einsum("v d, d k -> v k", X, head_of(told.parameter(A + P), head));
          return add("v k, k", made,
                     reshape(slice(told.parameter(A + b), 1, head, 1), {made.size(1)}));
        };
        const Tensor q = biased("P_q", "QueryBias.b"), k = biased("P_k", "KeyBias.b"),
                     v = biased("P_v", "ValueBias.b");
        const Circuit& QK = told.at("QK", layer + "/A", head);
        CHECK(QK.tensor == "L");
        CHECK(QK.tokens.size() == 28);
        CHECK(difference(QK.values, einsum("a k, b k -> a b", q, k) / 2.0) < 1e-4);
        // Up to the one number by which the last norm divides.
        const Tensor added = einsum("v k, d k -> v d", v, head_of(told.parameter(A + "P_o"), head));
        const Tensor centred = added - broadcast(mean(added, {1}, true), added.shape());
        const std::vector<double> made =
            einsum("a d, b d -> a b", mul("a d, d", centred, told.parameter("N.gamma")),
                   told.parameter("E"))
                .values();
        const std::vector<double> OV = told.at("OV", layer + "/A", head).values.values();
        const double ratio = OV[0] / made[0];
        CHECK(ratio > 0);
        for (size_t i = 0; i < OV.size(); ++i) CHECK(close(OV[i], made[i] * ratio, 1e-4));
      }
    }
  }

  TEST_CASE("an OV circuit is in the units of the logits: what attribution tells of a lone token") {
    // The first token sees itself alone, so that each head of the first layer adds its OV circuit.
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of_text("language_model", {{"Absolute=positions_none"},
                                                                  {"Attention=multi_head"}}));
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "cab", options.ablation = false;
    options.asked = {.token = "h", .position = 0};
    options.circuits = {"decoder/0/A"};
    const Frame frame = inspect(options).runs[0].frames[0];
    int compared = 0;
    for (const Contribution& each : frame.attribution.rows)
      for (const Circuit& c : frame.circuits)
        if (c.kind == "OV" && each.path == "decoder/0/A" && each.head == c.head) {
          ++compared;
          // From 'c' to 'h', of "\n abc…"
          CHECK(close(c.values.values()[4 * 28 + 9], each.logit.mean, 1e-5));
        }
    CHECK(compared == 3);
  }

  TEST_CASE("talking heads: logits and results after mixing, with heads of their own kinds") {
    ModelSettings s = settings_of("talking_heads");
    s.dims["h_k"] = 2, s.dims["h_v"] = 4;
    const Told told(s, {"decoder/0/A"});
    REQUIRE(told.frame.circuits.size() == 3 + 4);
    const Tensor X = normed(told, "decoder/0/N");
    const std::string A = "decoder/0/A/";
    const Tensor Q = einsum("a d, d k h -> a k h", X, told.parameter(A + "P_q")),
                 K = einsum("a d, d k h -> a k h", X, told.parameter(A + "P_k"));
    const Tensor L = einsum("a k g, b k g, g h -> a b h", Q, K, told.parameter(A + "P_l"));
    for (Index head = 0; head < 3; ++head)
      CHECK(difference(told.at("QK", "decoder/0/A", head).values, head_of(L, head)) < 1e-3);
    // All attention on one token: each softmax is 1, so a head has its column of P_w.
    const Tensor V = einsum("a d, d k h -> a k h", X, told.parameter(A + "P_v"));
    const Tensor U = sum(told.parameter(A + "P_w"), {0});
    const std::vector<double> shares = U.values();
    const Tensor one =
        einsum("a k, d k -> a d", head_of(V, 3) * shares[3], head_of(told.parameter(A + "P_o"), 3));
    const Tensor centred = one - broadcast(mean(one, {1}, true), one.shape());
    const std::vector<double> made =
        einsum("a d, b d -> a b", mul("a d, d", centred, told.parameter("N.gamma")),
               told.parameter("E"))
            .values();
    const std::vector<double> OV = told.at("OV", "decoder/0/A", 3).values.values();
    const double ratio = OV[0] / made[0];
    for (size_t i = 0; i < OV.size(); ++i) CHECK(close(OV[i], made[i] * ratio, 1e-4));
  }

  TEST_CASE("of a large vocabulary the text's tokens, each once") {
    const Told told(settings_of("multi_head"), {"decoder/1/A[2]"}, "abcab", Tokenizer::bytes());
    REQUIRE(told.frame.circuits.size() == 2);
    CHECK(told.frame.circuits[0].tokens == std::vector<int64_t>{'a', 'b', 'c'});
    CHECK(told.frame.circuits[0].values.shape() == Shape{3, 3});
  }

  TEST_CASE("what has no circuit says why, and what is not there is an error") {
    const Told told(settings_of("dense_synthesizer"), {"decoder/0/A"});
    CHECK(told.frame.without_circuit ==
          std::vector<std::string>{"decoder/0/A has no QK circuit: its text reads one sequence, so "
                                   "its query and its key are one "
                                   "token."});
    CHECK(!told.frame.circuits.empty());
    const TemporaryFolder folder;
    write_run(folder / "t5", settings_of_text("t5"));
    InspectOptions options;
    options.checkpoints = {folder / "t5"};
    options.text = "abc", options.answer = "cba", options.ablation = false;
    options.circuits = {"*/0/*"};
    const Frame frame = inspect(options).runs[0].frames[0];
    CHECK(frame.circuits.size() == 6);
    REQUIRE(frame.without_circuit.size() == 2);
    CHECK(
        frame.without_circuit[0].starts_with("encoder/0/A has no circuits over tokens: it is in"));
    CHECK(frame.without_circuit[1].starts_with("decoder/0/D has no circuits over tokens: its two"));
    options.circuits = {"decoder/0/B"};
    CHECK(error_of([&] {
            inspect(options);
          }).starts_with("--circuits decoder/0/B: expected the path of an attention"));
    options.circuits = {"decoder/0/A[3]"};
    CHECK(error_of([&] { inspect(options); }) ==
          "--circuits decoder/0/A[3]: decoder/0/A has 3 heads, so the last is 2");
    options.circuits = {"decoder/0/A[n=1]"};
    CHECK(error_of([&] { inspect(options); }) ==
          "--circuits decoder/0/A[n=1]: in brackets stand heads' numbers, as in [2], not 'n=1'");
  }

  TEST_CASE("every variant that a decoder takes has circuits, or a sentence") {
    for (const Variant& variant : variants()) {
      if (!is_causal(*load_attention(variant.name))) continue;
      CAPTURE(variant.name);
      const Told told(settings_of(variant.name), {"decoder/1/A"});
      CHECK(told.frame.circuits.size() + told.frame.without_circuit.size() > 0);
      for (const Circuit& c : told.frame.circuits) {
        CHECK(c.values.shape() == Shape{28, 28});
        CHECK(std::isfinite(c.values.values()[5]));
      }
    }
  }
}
