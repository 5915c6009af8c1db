// Model, a text as a function of tokens: what it reads, and that it reads each token once.
#include "nn/model.hpp"

#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/named_model.hpp"
#include "tests/written.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// Reads seven tokens in pieces of these lengths.
void check_pieces(const NamedModel& named, ModelInputs in, const std::vector<Index>& lengths) {
  const Tensor X = tokens({1, 4, 0, 2, 2, 3, 6});
  Decoding decoding;
  Index at = 0;
  for (Index count : lengths) {
    in.X = slice(X, 1, at, count);
    const Tensor next = named.model.next_logits(named.forward(), in, decoding);
    at += count;
    in.X = slice(X, 1, 0, at);
    CHECK(difference(next, named.model.last_logits(named.forward(), in)) < 1e-12);
  }
  CHECK(at == 7);
  CHECK(decoding.length == 7);
}

}  // namespace

TEST_SUITE("model") {
  TEST_CASE("a block that is given a row of its own is read position by position") {
    const NamedModel named(
        Program::parse("use Attention = multi_head\n"
                       "def Step(X[n, d_X], r[d_X]):\n"
                       "  B[n, d_X] = X[n, d_X] + r[d_X]\n"
                       "  A[n, d_X] = Attention(B[n, d_X], B[n, d_X])\n"
                       "  Y[n, d_X] = A[n, d_X] + r[d_X] * B[n, d_X]\n"
                       "  return Y[n, d_X]\n"
                       "def Steps(X[causal n] < v, E[v, d_X] = normal(1), R[l, d_X] = normal(1)):\n"
                       "  where l = 2, h = 2, d_X = 16, v = 7\n"
                       "  Z[n, d_X] = gather(E[v, d_X], X[n], dim=v)\n"
                       "  D[n, d_X] = Step(Z[n, d_X], R[l, d_X]) repeated l tied\n"
                       "  Y[n, v] = einsum(D[n, d_X], E[v, d_X])\n"
                       "  return Y[n, v]\n"),
        {});
    check_pieces(named, {}, {3, 1, 2, 1});
  }

  TEST_CASE("a block of a decoder that is given a row of its own is read position by position") {
    const NamedModel named(
        Program::parse("use Attention = multi_head\n"
                       "def Block(X[n, d_X], M[m, d_X], r[d_X]):\n"
                       "  A[n, d_X] = Attention(X[n, d_X], M[m, d_X])\n"
                       "  Y[n, d_X] = A[n, d_X] + r[d_X]\n"
                       "  return Y[n, d_X]\n"
                       "def Rows(X[causal n] < v, M[m] < v, E[v, d_X] = normal(1),\n"
                       "    R[l, d_X] = normal(1)):\n"
                       "  where l = 2, h = 2, d_X = 16, v = 7\n"
                       "  S[m, d_X] = gather(E[v, d_X], M[m], dim=v)\n"
                       "  Z[n, d_X] = gather(E[v, d_X], X[n], dim=v)\n"
                       "  D[n, d_X] = Block(Z[n, d_X], S[m, d_X], R[l, d_X]) repeated l\n"
                       "  Y[n, v] = einsum(D[n, d_X], E[v, d_X])\n"
                       "  return Y[n, v]\n"),
        {});
    check_pieces(named, {.M = tokens({3, 1, 4})}, {3, 1, 2, 1});
  }

  TEST_CASE("a model reads each token once, as a run of all of them") {
    for (const char* name : {"gpt2", "llama", "neox", "t5", "t5_1_1", "transformer"}) {
      const NamedModel named(name);
      const bool has_source = named.model.kind() == ModelKind::encoder_decoder;
      for (const bool is_padded : {false, true}) {
        if (is_padded && !has_source) continue;
        CAPTURE(name);
        CAPTURE(is_padded);
        ModelInputs in;
        if (has_source) in.M = tokens({3, 1, 4, 5, 2, 0});
        if (is_padded) in.lengths = Tensor::of<int64_t>({1}, {4});
        check_pieces(named, in, {3, 1, 2, 1});
      }
    }
  }

  TEST_CASE("whatever gives it positions, it reads each token once") {
    for (const char* positions : {"learned", "sinusoidal", "none"}) {
      CAPTURE(positions);
      const NamedModel named("language_model", {{"v", 7}, {"l", 2}, {"h", 2}, {"d_X", 16}},
                             {std::string("Absolute=positions_") + positions});
      check_pieces(named, {}, {3, 1, 2, 1});
    }
  }

  TEST_CASE("behind the last call, only the last row of a prompt is computed") {
    const NamedModel named("language_model", {{"v", 20000}, {"l", 1}, {"h", 2}, {"d_X", 8}});
    const Tensor X = tokens(1, 300);
    const auto logits = 300 * 20000 * sizeof(double);
    const size_t before = memory_use().live;
    const auto peak_of = [&](const std::function<Tensor()>& read) {
      reset_peak_memory();
      const Tensor Y = read();
      return std::pair{Tensor::of<double>(Y.shape(), Y.values()), memory_use().peak - before};
    };
    Decoding decoding;
    const auto [last, of_one_row] =
        peak_of([&] { return named.model.next_logits(named.forward(), {.X = X}, decoding); });
    const auto [all, of_each_row] =
        peak_of([&] { return named.model.last_logits(named.forward(), {.X = X}); });
    CHECK(of_one_row < logits / 4);
    CHECK(of_each_row > logits);
    CHECK(difference(last, all) < 1e-12);
  }

  TEST_CASE("what is behind the last call may read places and what has no rows") {
    const NamedModel named(
        Program::parse("use Attention = multi_head\n"
                       "def Ends(X[causal n] < v, E[v, d_X] = normal(1), P[p, d_X] = normal(1)):\n"
                       "  where p = 9, h = 2, d_X = 16, v = 7, c = d_X\n"
                       "  Z[n, d_X] = gather(E[v, d_X], X[n], dim=v)\n"
                       "  A[n, d_X] = Attention(Z[n, d_X], Z[n, d_X])\n"
                       "  B[n, d_X] = A[n, d_X] * gather(P[p, d_X], position(n), dim=p)\n"
                       "  F[d_X] = mean(P[p, d_X], reduced_dim=p)\n"
                       "  C[n, d_X] = tanh(B[n, d_X] + F[d_X]) / (1 + position(n))\n"
                       "  D[n, c] = C[n, d_X=(c)]\n"
                       "  Y[n, v] = einsum(D[n, c], E[v, d_X=(c)])\n"
                       "  return Y[n, v]\n"),
        {});
    check_pieces(named, {}, {7});
  }

  TEST_CASE("an encoder runs once, at the first call, and what follows from it alone does, too") {
    const NamedModel named("transformer");
    std::map<std::string, int> seen;
    const Forward forward{.params = named.values,
                          .watch = [&](const std::string& path, const Tensor&) { ++seen[path]; }};
    Decoding decoding;
    const ModelInputs in{.X = tokens({1, 4}), .M = tokens({3, 1, 4})};
    named.model.next_logits(forward, in, decoding);
    CHECK(seen.at("encoder/0/F.H") == 1);
    CHECK(seen.at("decoder/1/D/K") == 1);
    CHECK(seen.at("decoder/1/D/Q") == 1);
    seen.clear();
    named.model.next_logits(forward, {.X = tokens({2}), .M = in.M}, decoding);
    CHECK(seen.at("decoder/1/D/Q") == 1);
    for (const char* once : {"encoder", "A", "encoder/0/A/K", "encoder/0/F.H", "decoder/1/D/K"}) {
      CAPTURE(once);
      CHECK(!seen.contains(once));
    }
    CHECK(decoding.length == 3);
  }

  TEST_CASE("windows and sinks of a decoder's block have their past, too") {
    const std::string text =
        "use Attention = multi_head\nuse Cross = Attention\n"
        "def Block(X[n, d_X], M[m, d_X], C[w, d_X] = normal(1)):\n"
        "  where w = 3\n"
        "  A[n, d_X] = Attention(X[n, d_X], X[n, d_X])\n"
        "  B[n, d_X] = X[n, d_X] + A[n, d_X]\n"
        "  N[n, w, d_X] = windows(B[n, d_X], dim=n, into=(n w), left=2)\n"
        "  H[n, d_X] = relu(einsum(N[n, w, d_X], C[w, d_X]))\n"
        "  D[n, d_X] = Cross(H[n, d_X], M[m, d_X])\n"
        "  Y[n, d_X] = B[n, d_X] + H[n, d_X] + D[n, d_X]\n"
        "  return Y[n, d_X]\n"
        "def Model(X[causal n] < v, M[m] < v, S[n] < s, E[v, d_X] = normal(1), G[s, d_X] = "
        "ones()):\n"
        "  where l = 2, d_X = 6, h = 2, v = 7, s = 2\n"
        "  R[m, d_X] = gather(E[v, d_X], M[m], dim=v)\n"
        "  T[n, d_X] = gather(E[v, d_X], X[n], dim=v) + gather(G[s, d_X], S[n], dim=s)\n"
        "  Z[n, d_X] = Block(T[n, d_X], R[m, d_X]) repeated l\n"
        "  Y[n, v] = einsum(Z[n, d_X], E[v, d_X])\n"
        "  return Y[n, v]\n";
    const NamedModel named(Program::parse(text), {});
    check_pieces(named, {.M = tokens({3, 1, 4})}, {1, 1, 3, 1, 1});
    check_pieces(named, {.M = tokens({3, 1, 4})}, {4, 3});
  }

  TEST_CASE("windows of what has read the source have their past, and need no mask") {
    const NamedModel named(
        Program::parse("use Attention = Taps\nuse Cross = multi_head\n"
                       "def Taps(X[n, d], M[m, d] = X[n, d], C[t, d] = normal(1)):\n"
                       "  where t = 3\n"
                       "  B[n, t, d] = windows(X[n, d], dim=n, into=(n t), left=(t-1) * causal)\n"
                       "  Y[n, d] = einsum(B[n, t, d], C[t, d])\n  return Y[n, d]\n"
                       "def Block(X[n, d_X], M[m, d_X], F[w, d_X] = normal(1)):\n"
                       "  where w = 2\n"
                       "  I[n, d_X] = Attention(X[n, d_X], X[n, d_X])\n"
                       "  A[n, d_X] = X[n, d_X] + I[n, d_X]\n"
                       "  D[n, d_X] = Cross(A[n, d_X], M[m, d_X])\n"
                       "  N[n, w, d_X] = windows(D[n, d_X], dim=n, into=(n w), left=1)\n"
                       "  H[n, d_X] = tanh(einsum(N[n, w, d_X], F[w, d_X]))\n"
                       "  Y[n, d_X] = A[n, d_X] + H[n, d_X]\n  return Y[n, d_X]\n"
                       "def Taken(X[causal n] < v, M[m] < v, E[v, d_X] = normal(1)):\n"
                       "  where l = 2, d_X = 6, h = 2, v = 7\n"
                       "  R[m, d_X] = gather(E[v, d_X], M[m], dim=v)\n"
                       "  T[n, d_X] = gather(E[v, d_X], X[n], dim=v)\n"
                       "  Z[n, d_X] = Block(T[n, d_X], R[m, d_X]) repeated l\n"
                       "  Y[n, v] = einsum(Z[n, d_X], E[v, d_X])\n  return Y[n, v]\n"),
        {});
    check_pieces(named, {.M = tokens({3, 1, 4})}, {1, 1, 3, 1, 1});
    check_pieces(named, {.M = tokens({3, 1, 4})}, {4, 3});
  }

  TEST_CASE("no new rows of a model follow from all of its earlier ones") {
    const std::string whole =
        "use Attention = multi_head\n"
        "def Block(X[n, d_X]):\n"
        "  A[n, d_X] = Attention(X[n, d_X], X[n, d_X])\n"
        "  Y[n, d_X] = X[n, d_X] + A[n, d_X]\n"
        "  return Y[n, d_X]\n"
        "def Model(X[causal n] < v, E[v, d_X] = normal(1)):\n"
        "  where l = 2, d_X = 6, h = 2, v = 5\n"
        "  T[n, d_X] = gather(E[v, d_X], X[n], dim=v)\n"
        "  Z[n, d_X] = Block(T[n, d_X]) repeated l\n"
        "  L[n, v] = einsum(Z[n, d_X], E[v, d_X])\n"
        "  return L[n, v]\n";
    const auto refusal = [](const std::string& text) {
      const NamedModel named(Program::parse(text), {});
      Decoding decoding;
      const std::string said =
          error_of([&] { named.model.next_logits(named.forward(), {.X = tokens({1})}, decoding); });
      CHECK(decoding.decoders.empty() == (said != "no error"));
      return said;
    };
    CHECK(refusal(whole) == "no error");
    CHECK(refusal(replaced(whole, "  Y[n, d_X] = X[n, d_X] + A",
                           "  G[d_X] = X[0, d_X]\n  Y[n, d_X] = G[d_X] + A"))
              .find("'Block' cannot read a sequence position by position") == 0);
    const std::string inside = replaced(replaced(whole, "= Attention(", "= MultiHead("),
                                        "use Attention = multi_head\n", "");
    CHECK(refusal(inside).find("it combines the queries") != std::string::npos);
  }

  TEST_CASE("an encoder sees all of its text but padding, and segments are 0 unless given") {
    for (const char* name : {"bert", "albert"}) {
      CAPTURE(name);
      const NamedModel named(name);
      CHECK(named.model.kind() == ModelKind::encoder);
      const auto logits = [&](const ModelInputs& in) {
        return named.model.logits(named.forward(), in);
      };
      const Tensor X = tokens({3, 1, 4, 0, 5}), three = Tensor::of<int64_t>({1}, {3});
      const auto begin = [](const Tensor& Y) { return slice(Y, 1, 0, 3); };
      const Tensor Y = logits({.X = X, .lengths = three});
      CHECK(difference(begin(Y), logits({.X = slice(X, 1, 0, 3)})) < 1e-12);
      CHECK(difference(begin(Y), begin(logits({.X = X}))) > 1e-6);
      CHECK(difference(logits({.X = X, .S = tokens({0, 0, 0, 0, 0})}), logits({.X = X})) == 0);
      CHECK(difference(logits({.X = X, .S = tokens({0, 0, 1, 1, 1})}), logits({.X = X})) > 1e-6);
      Decoding decoding;
      CHECK(error_of([&] {
              named.model.next_logits(named.forward(), {.X = X}, decoding);
            }).find("is an encoder: it predicts no next token") != std::string::npos);
    }
  }

  TEST_CASE("what a model reads is said where it is not that") {
    const auto refusal = [](const std::string& inputs, const std::string& end = "") {
      return error_of([&] {
        NamedModel(Program::parse("def F(" + inputs + ", E[w, v] = normal(1)):\n  where w = v\n" +
                                  "  Y[n, v] = gather(E[w, v], X[n], dim=w)\n" +
                                  (end.empty() ? "  return Y[n, v]\n" : end)),
                   {{"v", 3}});
      });
    };
    const auto says = [](const std::string& said, const char* words) {
      CAPTURE(said);
      CHECK(said.find(words) != std::string::npos);
    };
    CHECK(refusal("X[n] < v") == "no error");
    CHECK(refusal("X[causal n] < v") == "no error");
    CHECK(refusal("X[causal n] < v, M[m] < v") == "no error");
    says(refusal("X[n] < v", "  Z[v, n] = Y[n, v]\n  return Z[v, n]\n"),
         "returns a logit for each position and token, as in Y[n, v]");
    says(refusal("X[n] < v, M[m] < v"),
         "X is what a decoder reads, and so causal, as in X[causal n]");
    says(refusal("X[n] < v, Q[n] < v"), "a source M and segments S; 'Q' is none of these");
    says(refusal("X[causal n] < v, M[m, d]"), "reads tokens, as in M[m] < v");
    says(refusal("X[n] < v, S[k] < v"), "each token of X has a segment, as in X[n] < v, S[n] < s");
    says(error_of([] {
           NamedModel(Program::parse("def F(A[n] < v):\n  Y[n] = A[n] + 1\n  return Y[n]\n"), {});
         }),
         "'F' is no model: it reads no tokens, X[n] < v");
  }

  TEST_CASE("a model takes what its text reads, and no more") {
    const auto refusal = [](const char* name, const ModelInputs& in) {
      const NamedModel named(name);
      return error_of([&] { named.model.logits(named.forward(), in); });
    };
    const Tensor X = tokens({1, 2}), one = Tensor::of<int64_t>({1}, {1});
    CHECK(refusal("t5", {.X = X}) == "'T5' needs a source, M");
    CHECK(refusal("t5", {.M = X}) == "'T5' needs tokens, X");
    CHECK(refusal("t5", {.X = X, .M = X, .S = X}) == "'T5' reads no segments, S");
    CHECK(refusal("gpt2", {.X = X, .M = X}) == "'GPT2' reads no source, M");
    CHECK(refusal("gpt2", {.X = X, .lengths = one}) ==
          "'GPT2' takes no lengths: what comes later changes no row");
    CHECK(refusal("t5", {.X = X, .M = X, .lengths = Tensor::of<int64_t>({1}, {3})})
              .find("a memory of length 3 does not fit into 'm' = 2") != std::string::npos);
    CHECK(refusal("bert", {.X = X, .S = tokens({0, 2})}).find("'S' holds 2") != std::string::npos);
    CHECK(refusal("bert", {.X = X, .S = tokens({0})}).find("'n' is") != std::string::npos);
  }
}
