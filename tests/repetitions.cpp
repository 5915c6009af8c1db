// Parts of models: the number of a repetition, terms of the loss, parts of a dimension, amendments
// of calls that are repeated inside, sizes that only some fillers take.
#include "attention/catalog.hpp"
#include "attention/gradcheck.hpp"
#include "core/graph.hpp"
#include "nn/cost.hpp"
#include "nn/model.hpp"
#include "tests/layer.hpp"
#include "tests/marked.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

std::shared_ptr<const Checked> checked(const std::string& text, const std::string& uses = "") {
  std::vector<Program> said;
  if (!uses.empty()) said.push_back(Program::parse_uses(uses, "--use"));
  return std::make_shared<const Checked>(check(Program::parse(text), {}, catalogue(), said));
}

std::vector<ParameterSpec> specs_of(const std::string& text, const std::string& uses = "") {
  SizeTable sizes(checked(text, uses), {});
  return parameter_specs(sizes.program(), sizes);
}

std::vector<std::string> names_of(const std::vector<ParameterSpec>& specs) {
  std::vector<std::string> names;
  for (const ParameterSpec& made : specs) names.push_back(made.spec.name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

double first_of(const Tensor& x) { return x.values()[0]; }

const std::string times_layer =
    "def Inner(X[n, d]):\n  Y[n, d] = X[n, d] * (1 + layer)\n  return Y[n, d]\n"
    "def Block(X[n, d]):\n  A[n, d] = Inner(X[n, d])\n  return A[n, d]\n";

const std::string with_loss =
    "def Block(X[n, d], w[d] = normal(1)):\n"
    "  Y[n, d] = X[n, d] * w[d]\n"
    "  S[n, d] = Y[n, d]^2\n"
    "  B_n[n]  = sum(S[n, d], reduced_dim=d)\n"
    "  loss B[] = 0.1 * mean(B_n[n], reduced_dim=n)\n"
    "  return Y[n, d]\n"
    "def Model(X[causal n] < v, E[v, d] = normal(1)):\n"
    "  where l = 2, d = 3, v = 5\n"
    "  T[n, d] = gather(E[v, d], X[n], dim=v)\n"
    "  Z[n, d] = Block(T[n, d]) repeated l\n"
    "  Y[n, v] = einsum(Z[n, d], E[v, d])\n"
    "  return Y[n, v]\n";

}  // namespace

TEST_SUITE("repetitions") {
  TEST_CASE("layer is the number of the innermost repetition, and 0 outside") {
    const Tensor X = Tensor::of<double>({1, 1}, {2});
    const auto y = [&](const std::string& model) {
      return first_of(
          run(checked(times_layer + "def Model(X[n, d]):\n  where l = 3\n" + model), {{"X", X}}));
    };
    CHECK(y("  Z[n, d] = Block(X[n, d]) repeated l\n  return Z[n, d]\n") == 2 * 1 * 2 * 3);
    CHECK(y("  Z[n, d] = Block(X[n, d]) repeated l tied\n  return Z[n, d]\n") == 2 * 1 * 2 * 3);
    CHECK(y("  Z[n, d] = Block(X[n, d])\n  Y[n, d] = Z[n, d] + layer * l\n  return Y[n, d]\n") ==
          2);
    const std::string twice =
        "def Stack(X[n, d]):\n  where k = 2\n"
        "  S[n, d] = Block(X[n, d]) repeated k\n  Y[n, d] = S[n, d] + layer\n  return Y[n, d]\n";
    // Repetition 0 of Stack gives 2 · 1 · 2 + 0, and repetition 1 of it 4 · 1 · 2 + 1.
    const auto nested = checked(times_layer + twice +
                                "def Model(X[n, d]):\n  where l = 2\n"
                                "  Z[n, d] = Stack(X[n, d]) repeated l\n  return Z[n, d]\n");
    CHECK(first_of(run(nested, {{"X", X}})) == 9);
  }

  TEST_CASE("parameters start by the number of their repetition") {
    const std::string text =
        "def Block(X[n, d], w[d] = constant(layer / 2)):\n"
        "  Y[n, d] = X[n, d] * w[d]\n  return Y[n, d]\n"
        "def Model(X[n, d]):\n  where l = 3, d = 2\n"
        "  Z[n, d] = Block(X[n, d]) repeated l\n  return Z[n, d]\n";
    const std::vector<ParameterSpec> specs = specs_of(text);
    REQUIRE(specs.size() == 3);
    for (size_t i = 0; i < 3; ++i) CHECK(specs[i].spec.init.a == static_cast<double>(i) / 2);
  }

  TEST_CASE("masks that grow with the layer are counted layer by layer") {
    const std::string text =
        "def Block(X[n, d], M[m, d] = X[n, d]):\n"
        "  L[n, m] = einsum(X[n, d], M[m, d])\n"
        "  W[n, m] = softmax(L[n, m], reduced_dim=m, mask=position(n) - position(m) <= layer)\n"
        "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"
        "def Model(X[n, d]):\n  where l = 2, d = 3\n"
        "  Z[n, d] = Block(X[n, d]) repeated l\n  return Z[n, d]\n";
    const auto program = checked(text);
    SizeTable sizes(program, {{"n", 4}});
    // Row i sees all that is later, itself and `layer` before it: 10 and 13 pairs of 16.
    CHECK(cost_of(*program, sizes).total.visible == 2 * 3 * (10 + 13));
  }

  TEST_CASE("a part of a dimension") {
    const auto y = [&](const std::string& keys, const std::string& where) {
      return run("def F(X[n, d]):\n  where " + where + "\n  Y[n, k] = part(X[n, d], dim=d, into=k" +
                     keys + ")\n  return Y[n, k]\n",
                 {{"X", Tensor::of<double>({1, 4}, {1, 2, 3, 4})}})
          .values();
    };
    CHECK(y("", "k = 2") == std::vector<double>{1, 2});
    CHECK(y(", first=1", "k = 2") == std::vector<double>{2, 3});
    CHECK(y(", first=d - k", "k = 3") == std::vector<double>{2, 3, 4});
    CHECK(error_of([&] {
            y(", first=3", "k = 2");
          }).find("a part of 'd' = 4 has 2 elements, 'k', so it cannot begin at 3") !=
          std::string::npos);
    CHECK(error_of([&] { y("", "k = 5"); }).find("so it cannot begin at 0") != std::string::npos);
    const std::string leak =
        checked(
            "def F(X[n, d], M[m, d] = X[n, d]):\n  where k = 2\n"
            "  A[k, d] = part(M[m, d], dim=m, into=k)\n  Y[n, d] = X[n, d] * A[1, d]\n"
            "  return Y[n, d]\n")
            ->leak;
    CHECK(leak.find("part(M[m, d]") != std::string::npos);
  }

  TEST_CASE("terms of the loss add over repetitions, each the mean over samples") {
    const Model model(checked(with_loss), {});
    CHECK(model.program().leak == "");
    Tensors values = model.params().initial_values(Key(3), Dtype::f64);
    for (Tensor& value : values) value = value.variable();
    const std::vector<int64_t> read{1, 4, 0, 2, 2, 3}, wanted{4, 0, 2, 2, 3, 1};
    const Tensor X = Tensor::of<int64_t>({2, 3}, std::span<const int64_t>(read));
    const Tensor T = Tensor::of<int64_t>({2, 3}, std::span<const int64_t>(wanted));
    Tensor terms = Tensor::scalar(0, Dtype::f64);
    std::vector<std::string> seen;
    const auto watch = [&](const std::string& path, const Tensor& x) {
      seen.push_back(path);
      if (path.ends_with("/B_n")) terms = terms + 0.1 * mean(x);
    };
    const Loss plain = model.loss({.params = values, .watch = watch}, {.X = X}, T);
    CHECK(!has(seen, "Z/0/B"));
    CHECK(!has(seen, "Z/0/B_n"));
    const Forward training{.params = values, .training = true};
    Forward watched = training;
    watched.watch = watch;
    const Loss whole = model.loss(watched, {.X = X}, T);
    CHECK(has(seen, "Z/1/B"));
    CHECK(whole.tokens == plain.tokens);
    const Tensor expected = plain.sum + terms * static_cast<double>(plain.tokens);
    CHECK(difference(whole.sum, expected) < 1e-12);
    const Tensors gradients = grad(whole.sum, values), theirs = grad(expected, values);
    Forward again = training;
    again.recompute_blocks = true;
    const Tensors recomputed = grad(model.loss(again, {.X = X}, T).sum, values);
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(difference(gradients[i], theirs[i]) < 1e-12);
      CHECK(difference(gradients[i], recomputed[i]) < 1e-12);
    }
  }

  TEST_CASE("a gradient check has the terms of the loss, of blocks that are called, too") {
    const std::string block =
        "def Block(X[n, d], w[d] = ones()):\n"
        "  S[n] = tanh(einsum(X[n, d], w[d]))\n  loss B[] = mean(S[n], reduced_dim=n)\n"
        "  Y[n, d] = 2 * X[n, d]\n  return Y[n, d]\n";
    const std::string stack =
        block +
        "def Stack(X[n, d]):\n  where l = 2\n  Z[n, d] = Block(X[n, d]) repeated l\n"
        "  return Z[n, d]\n";
    for (const std::string& text : {block, stack}) {
      const auto program = checked(text);
      const AttentionCheck check{.options = {.order = 2}};
      const GradReport report =
          check_text_gradient(program, text_sizes_to_check(program, {}, 2), check);
      CHECK(report.passed());
      int learned = 0;
      for (const InputReport& input : report.inputs) {
        if (!input.input.ends_with("w")) continue;
        ++learned;
        CHECK(std::abs(input.along.numeric) > 1e-6);
      }
      CHECK(learned == (text == block ? 2 : 4));  // at each order
    }
  }

  TEST_CASE("what amends a call amends attention that is repeated inside") {
    const std::string block =
        "def Block(X[n, d]):\n  A[n, d] = Attention(X[n, d], X[n, d])WITH\n"
        "  Y[n, d] = X[n, d] + A[n, d]\n  return Y[n, d]\n"
        "def Stack(X[n, d]):\n  where l = 2\n  Z[n, d] = Block(X[n, d]) repeated l\n"
        "  return Z[n, d]\n";
    const auto model = [&](const std::string& inner, const std::string& outer) {
      std::string text = "use Attention = multi_head\n" + block +
                         "def Model(X[n, d]):\n  where h = 2, d = 6\n  Y[n, d] = Stack(X[n, d])" +
                         outer + "\n  return Y[n, d]\n";
      text.replace(text.find("WITH"), 4, inner);
      return text;
    };
    const std::vector<std::string> names = names_of(specs_of(model("", " with biases, t5_bias")));
    CHECK(has(names, "Y/Z/A/T5Bias.B"));
    CHECK(has(names, "Y/Z/1/A/QueryBias.b"));
    CHECK(names_of(specs_of(model(" with t5_bias", " with biases"))).size() == names.size());
    CHECK(error_of([&] {
            checked(model(" with biases", " with biases"));
          }).find("two amendments are called 'QueryBias'") != std::string::npos);
    std::string text = model("", " with t5_bias");
    CHECK(error_of([&] { checked(text, "Attention=dense_synthesizer"); }) == "no error");
    text =
        "use F = ff\ndef Block(X[n, d_X]):\n  Y[n, d_X] = F(X[n, d_X])\n"
        "  return Y[n, d_X]\n"
        "def Model(X[n, d_X]):\n  where l = 2\n"
        "  Z[n, d_X] = Block(X[n, d_X]) with t5_bias repeated l\n  return Z[n, d_X]\n";
    CHECK(error_of([&] { checked(text); }).find("'T5Bias' amends 'L', but 'Block' has no tensor") !=
          std::string::npos);
  }

  TEST_CASE("a size that this filler does not take may be another's") {
    const std::string llama = find_text("llama").program->source->text;
    CHECK_NOTHROW(checked(llama, "Attention=multi_head_scaled"));
    // Nothing that is called could take it.
    CHECK(error_of([&] {
            checked("def F(X[n, d]):\n  where k = 2\n  Y[n, d] = X[n, d] + 1\n  return Y[n, d]\n");
          }).find("the size 'k' is never used") != std::string::npos);
  }
}
