// Experts by capacity (R29): route and unroute against loops, their causality, whole models.
#include <algorithm>

#include "tests/layer.hpp"
#include "tests/marked.hpp"
#include "tests/named_model.hpp"
#include "tests/written.hpp"
#include "tools/uses.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

const std::string routed =
    "  A[e, c, d] = route(X[n, d], G[n, e], dim=n, into=c)\n"
    "  O[e, c, d] = A[e, c, d] * w[e, d]\n"
    "  Y[n, d] = unroute(O[e, c, d], G[n, e], dim=c, into=n)\n";

// Switch as a layer: Fedus et al. 2021, section 2.1, with the balance of its equation 4.
const std::string layer =
    "def Experts(X[n, d], R[d, e] = normal(1), W[e, d, f] = normal(1), V[e, f, d] = normal(1)):\n"
    "  where e = 3, f = 4, c = CAPACITY\n"
    "  L[n, e]    = einsum(X[n, d], R[d, e])\n"
    "  G[n, e]    = softmax(L[n, e], reduced_dim=e)\n"
    "  A[e, c, d] = route(X[n, d], G[n, e], dim=n, into=c)\n"
    "  H[e, c, f] = relu(einsum(A[e, c, d], W[e, d, f]))\n"
    "  O[e, c, d] = einsum(H[e, c, f], V[e, f, d])\n"
    "  Y[n, d]    = unroute(O[e, c, d], G[n, e], dim=c, into=n)\n"
    "  B[n]       = max(G[n, e], reduced_dim=e)\n"
    "  F[n, e]    = select(G[n, e] >= B[n], 1, 0)\n"
    "  P[e]       = mean(G[n, e], reduced_dim=n)\n"
    "  Q[e]       = mean(F[n, e], reduced_dim=n)\n"
    "  loss balance[] = 0.01 * e * einsum(P[e], Q[e])\n"
    "  return Y[n, d]\n"
    "def Model(X[causal n] < v, E[v, d] = normal(1)):\n"
    "  where d = 4, v = 5, l = 2\n"
    "  T[n, d] = gather(E[v, d], X[n], dim=v)\n"
    "  Z[n, d] = Experts(T[n, d]) repeated l\n"
    "  Y[n, v] = einsum(Z[n, d], E[v, d])\n  return Y[n, v]\n";

std::string with_capacity(const std::string& c) {
  std::string text = layer;
  return text.replace(text.find("CAPACITY"), 8, c);
}

// A layer whose text makes B[k, p, d] of A[k, p, d], the rows in places of experts.
std::string with_places(const std::string& made, const std::string& more = "") {
  return "def Layer(X[n, d], R[d, k] = normal(1), w[k, d] = normal(1)):\n  where k = 3, p = 9" +
         more +
         "\n  G[n, k] = softmax(einsum(X[n, d], R[d, k]), reduced_dim=k)\n"
         "  A[k, p, d] = route(X[n, d], G[n, k], dim=n, into=p)\n" +
         made +
         "  O[k, p, d] = tanh(B[k, p, d]) * w[k, d]\n"
         "  Y[n, d] = unroute(O[k, p, d], G[n, k], dim=p, into=n)\n  return Y[n, d]\n";
}
const std::string model_of_layers =
    "def Model(X[causal n] < v, E[v, d] = normal(1)):\n  where d = 4, v = 7, l = 2\n"
    "  T[n, d] = gather(E[v, d], X[n], dim=v)\n  Z[n, d] = Layer(T[n, d]) repeated l\n"
    "  Y[n, v] = einsum(Z[n, d], E[v, d])\n  return Y[n, v]\n";

std::shared_ptr<const Checked> checked(const std::string& text) {
  return std::make_shared<const Checked>(check(Program::parse(text)));
}

// Read in pieces, the tokens have the logits of a run of all of them.
void check_decoding(const Model& model, const Tensors& values, const Tensor& X) {
  Decoding decoding;
  for (Index at = 0, count; at < X.size(1); at += count) {
    count = at == 0 ? 2 : 1;
    const Tensor next =
        model.next_logits({.params = values}, {.X = slice(X, 1, at, count)}, decoding);
    const Tensor all = model.last_logits({.params = values}, {.X = slice(X, 1, 0, at + count)});
    CHECK(difference(next, all) < 1e-12);
  }
}

}  // namespace

TEST_SUITE("route") {
  TEST_CASE("an expert takes its first rows, and gives them back") {
    constexpr Index b = 2, n = 7, d = 3, e = 2, c = 3;
    const Tensor X = noise({b, n, d}, 1), G = noise({b, n, e}, 2), w = noise({e, d}, 3);
    const Tensor Y = run("def F(X[n, d], G[n, e], w[e, d] = ones()):\n  where c = 3\n" + routed +
                             "  return Y[n, d]\n",
                         {{"X", X}, {"G", G}, {"w", w}});
    const std::vector<double> x = X.values(), g = G.values(), weight = w.values(), y = Y.values();
    Index overflows = 0;
    for (Index s = 0; s < b; ++s) {
      Index taken[e] = {};
      for (Index i = 0; i < n; ++i) {
        const size_t row = static_cast<size_t>(s * n + i);
        const size_t expert = g[row * e + 1] > g[row * e] ? 1 : 0;
        const bool fits = taken[expert]++ < c;
        overflows += !fits;
        for (size_t k = 0; k < d; ++k) {
          const double made = x[row * d + k] * weight[expert * d + k] * g[row * e + expert];
          CHECK(y[row * d + k] == doctest::Approx(fits ? made : 0));
        }
      }
    }
    CHECK(overflows > 0);
  }

  TEST_CASE("experts see what came before, and only if they give back what they were given") {
    CHECK(checked(with_capacity("2"))->leak == "");
    CHECK(checked(with_capacity("n"))->leak == "");
    std::string other = with_capacity("2");
    other.replace(other.find("unroute(O[e, c, d], G"), 21, "unroute(O[e, c, d], L");
    CHECK(checked(other)->leak.find("this may read any position of 'c'") != std::string::npos);
    std::string mixed = with_capacity("2");
    mixed.replace(mixed.find("  H[e, c, f]"), 0, "  S[e, d] = sum(A[e, c, d], reduced_dim=c)\n");
    mixed.replace(mixed.find("einsum(H[e, c, f], V[e, f, d])"), 30,
                  "einsum(H[e, c, f], V[e, f, d]) + S[e, d]");
    CHECK(checked(mixed)->leak.find("this combines all positions of 'c'") != std::string::npos);
  }

  TEST_CASE("the same place of two experts is not one row, under no name and in no call") {
    const auto inner = [](const std::string& made) {
      return "def Inner(T[k, p, d]):\n" + made +
             "  Y[k, p, d] = T[k, p, d] + S[k, p, d]\n  return Y[k, p, d]\n";
    };
    const std::string across =
        "  U[p, d] = sum(T[k, p, d], reduced_dim=k)\n  S[k, p, d] = U[p, d] * index(k)\n";
    const std::string call = "  B[k, p, d] = Inner(A[k, p, d])\n";
    const std::string rows[] = {
        with_places("  U[p, d] = sum(A[k, p, d], reduced_dim=k)\n"
                    "  B[k, p, d] = U[p, d] * (1 + index(k))\n"),
        with_places("  B[k, p, d] = softmax(A[k, p, d], reduced_dim=k)\n"),
        with_places("  B[k, p, d] = A[1, p, d] * (1 + index(k))\n"),
        with_places("  U[q, p, d] = A[k=(q), p, d]\n  V[q, k] = 1 + index(q) + index(k)\n"
                    "  B[k, p, d] = einsum(U[q, p, d], V[q, k])\n",
                    ", q = k"),
        with_places("  U[k, j, p, d] = A[k, p, d] * (1 + index(j))\n"
                    "  V[k, j, p, d] = U[k=(j), j=(k), p, d]\n"
                    "  B[k, p, d] = sum(V[k, j, p, d], reduced_dim=j)\n",
                    ", j = k"),
        with_places("  U[k, t, p, d] = windows(A[k, p, d], dim=k, into=(k t), left=1)\n"
                    "  B[k, p, d] = sum(U[k, t, p, d], reduced_dim=t)\n",
                    ", t = 2"),
        inner(across) + with_places(call),
        inner("  U[k, d] = sum(T[k, p, d], reduced_dim=p)\n  S[k, p, d] = U[k, d] * 2\n") +
            with_places("  B[k, p, d] = Inner(A[k, p, d]) repeated r\n", ", r = 2"),
        with_places("  V[q=(k d), p] = A[k, p, d]\n  B[k, p, d] = V[q=(d k), p]\n", ", q = k * d"),
        "def Inner(T[j, k, p, d], S[k, j, p, d] = T[j, k, p, d]):\n"
        "  Y[k, p, d] = sum(S[k, j, p, d], reduced_dim=j)\n  return Y[k, p, d]\n" +
            with_places("  V[j, k, p, d] = A[k, p, d] * (1 + index(j))\n"
                        "  B[k, p, d] = Inner(V[j, k, p, d])\n",
                        ", j = k"),
        with_places("  V[k, q, t, d] = windows(A[k, p, d], dim=p, into=(q t), left=1)\n"
                    "  S[q, t, d] = sum(V[k, q, t, d], reduced_dim=k)\n"
                    "  U[k, q, d] = sum(S[q, t, d], reduced_dim=t) * (1 + index(k))\n"
                    "  B[k, p, d] = U[k, q=(p), d]\n",
                    ", t = 2, q = p"),
        with_places("  V[k, p, t, d] = windows(A[k, p, d], dim=p, into=(p t), right=1)\n"
                    "  B[k, p, d] = sum(V[k, p, t, d], reduced_dim=t)\n",
                    ", t = 2"),
    };
    for (const std::string& text : rows) {
      CAPTURE(text);
      CHECK(checked(text + model_of_layers)
                ->leak.find("this takes places of experts for others of 'p'") != std::string::npos);
      double most = 0;  // by which the last row moves the others
      for (uint64_t seed = 1; seed < 6; ++seed) {
        const Tensor R = noise({4, 3}, seed), w = noise({3, 4}, 9), X = noise({7, 4}, 10 + seed);
        const auto begin = [&](const Tensor& x) {
          return slice(run(text, {{"X", x}, {"R", R}, {"w", w}}), 0, 0, 6);
        };
        const Tensor other = concat({slice(X, 0, 0, 6), noise({1, 4}, 50)}, 0);
        most = std::max(most, difference(begin(other), begin(X)));
      }
      CHECK(most > 1e-3);
    }
    CHECK(checked(inner("  S[k, p, d] = T[k, p, d] * 2\n") + with_places(call) + model_of_layers)
              ->leak == "");
    CHECK(checked(with_places("  V[k, p, t, d] = windows(A[k, p, d], dim=p, into=(p t), left=1)\n"
                              "  B[k, p, d] = sum(V[k, p, t, d], reduced_dim=t)\n",
                              ", t = 2") +
                  model_of_layers)
              ->leak == "");
  }

  // A place holds a row of its own number or a later one.
  TEST_CASE("places are no positions") {
    const auto layer = [](const std::string& where, const std::string& made) {
      return "def Layer(X[n, d], M[m, d] = X[n, d], R[d, e] = normal(1), w[d] = normal(1)):\n  "
             "where " +
             where +
             "\n  G[n, e] = softmax(einsum(X[n, d], R[d, e]), reduced_dim=e)\n"
             "  s[n] = einsum(X[n, d], w[d])\n" +
             made + "  return Y[n, e]\n";
    };
    const std::string routed = "  A[e, p] = route(s[n], G[n, e], dim=n, into=p)\n",
                      read =
                          "  W[n, m] = select(visible(n, m), 1, 0)\n"
                          "  Y[n, e] = einsum(W[n, m], C[e, m])\n";
    const std::string alone = layer("e = d, p = n", routed + "  Y[n, e] = A[e, p=(n)]\n");
    for (const std::string& text :
         {alone, layer("e = d, p = n", routed + "  C[e, m] = A[e, p=(m)]\n" + read),
          layer("e = d", "  C[e, m] = 2 * route(s[n], G[n, e], dim=n, into=m)\n" + read)}) {
      CAPTURE(text);
      const std::string leak = checked(text + model_of_layers)->leak;
      CHECK(leak.find("this takes places of experts for others of") != std::string::npos);
    }
    const Tensor R = noise({4, 4}, 1), w = noise({4}, 9), X = noise({7, 4}, 11);
    const auto begin = [&](const Tensor& x) {
      return slice(run(alone, {{"X", x}, {"R", R}, {"w", w}}), 0, 0, 6);
    };
    CHECK(difference(begin(concat({slice(X, 0, 0, 6), noise({1, 4}, 50)}, 0)), begin(X)) > 1e-3);
  }

  TEST_CASE("no row changes with those after it, and a model learns with it") {
    const Model model(checked(with_capacity("3")), {});
    const Tensors values = model.params().initial_values(Key(2), Dtype::f64);
    const auto logits = [&](std::vector<int64_t> read) {
      return model.logits(
          {.params = values},
          {.X = Tensor::of<int64_t>({1, std::ssize(read)}, std::span<const int64_t>(read))});
    };
    const Tensor whole = logits({1, 4, 0, 2, 2, 3, 1, 1});
    CHECK(difference(slice(logits({1, 4, 0, 2, 3, 0, 4, 4}), 1, 0, 4), slice(whole, 1, 0, 4)) == 0);
    CHECK(difference(logits({1, 4, 0, 2, 2}), slice(whole, 1, 0, 5)) < 1e-12);
    const std::vector<int64_t> next{4, 0, 2, 2};
    const Tensor X = Tensor::of<int64_t>({1, 4}, std::span<const int64_t>(next));
    const Forward training{.params = values, .training = true};
    CHECK(model.loss(training, {.X = X}, X).sum.item() >
          model.loss({.params = values}, {.X = X}, X).sum.item());
  }

  TEST_CASE("a mixture of experts gives each row its two best, as loops do") {
    constexpr Index n = 5, d = 3, e = 4, f = 2;
    const Tensor X = noise({n, d}, 1), R = noise({d, e}, 2), P_1 = noise({e, d, f}, 3),
                 P_2 = noise({e, f, d}, 4);
    const TensorsByName given{{"X", X}, {"R", R}, {"P_1", P_1}, {"P_2", P_2}};
    const Tensor all = run(filled_text("moe"), given, {.sizes = {{"c", n}}});
    const Tensor G = softmax("n [e]", einsum("n d, d e -> n e", X, R));
    const Tensor H = relu(einsum("n d, e d f -> n e f", X, P_1)),
                 O = einsum("n e f, e f d -> n e d", H, P_2);
    const std::vector<double> g = G.values(), o = O.values(), y = all.values();
    for (size_t row = 0; row < n; ++row) {
      std::vector<size_t> by_gate{0, 1, 2, 3};
      std::sort(by_gate.begin(), by_gate.end(),
                [&](size_t a, size_t b) { return g[row * e + a] > g[row * e + b]; });
      const double both = g[row * e + by_gate[0]] + g[row * e + by_gate[1]];
      for (size_t k = 0; k < d; ++k) {
        double made = 0;
        for (size_t t : {0, 1})
          made += g[row * e + by_gate[t]] / both * o[(row * e + by_gate[t]) * d + k];
        CHECK(y[row * d + k] == doctest::Approx(made));
      }
    }
    CHECK(difference(run(filled_text("moe"), given), all) > 1e-3);  // without room for all
  }

  TEST_CASE("experts that all rows choose alike have a balance of 1, one that all choose e") {
    const auto balance = [](const Tensor& G) { return run(filled_text("balance"), {{"G", G}}); };
    const Tensor even = Tensor::of<double>({4, 2}, {0.6, 0.4, 0.4, 0.6, 0.4, 0.6, 0.6, 0.4}),
                 one = Tensor::of<double>({2, 2}, {1, 0, 1, 0});
    CHECK(balance(even).item() == doctest::Approx(1));
    CHECK(balance(one).item() == doctest::Approx(2));
  }

  TEST_CASE("a model with experts that have room reads a beginning as it does within the whole") {
    for (const char* use : {"FeedForward=switch", "FeedForward[1]=moe"}) {
      CAPTURE(use);
      const Model model(load_text("gpt2", {}, {use}),
                        {{"v", 7}, {"l", 2}, {"h", 2}, {"d_X", 8}, {"e", 3}, {"c", 6}});
      const Tensors values = model.params().initial_values(Key(3), Dtype::f64);
      const Tensor X = tokens({1, 4, 0, 2, 5, 3}), whole = model.logits({.params = values}, {X});
      for (Index n = 1; n < 6; ++n) {
        const Tensor begin = model.logits({.params = values}, {slice(X, 1, 0, n)});
        CHECK(difference(begin, slice(whole, 1, 0, n)) < 1e-12);
      }
      const Tensor Y = tokens({4, 0, 2, 5, 3, 1});
      CHECK(model.loss({.params = values, .training = true}, {X}, Y).sum.item() >
            model.loss({.params = values}, {X}, Y).sum.item());
      check_decoding(model, values, X);
    }
  }

  TEST_CASE("experts that a slot amends have as much room as those in its place") {
    const std::string experts =
        "def Routed(X[n, d], G[n, k], w[k, d] = normal(1)):\n"
        "  A[k, p, d] = route(X[n, d], G[n, k], dim=n, into=p)\n"
        "  O[k, p, d] = tanh(A[k, p, d]) * w[k, d]\n"
        "  Y[n, d] = unroute(O[k, p, d], G[n, k], dim=p, into=n)\n  return Y[n, d]\n"
        "def Louder(O[k, p, d]):\n  S[k, p, d] = 2 * O[k, p, d]\n  return S[k, p, d]\n";
    const auto layer = [&](const std::string& call) {
      return model_of_layers +
             "def Layer(X[n, d], R[d, k] = normal(1)):\n  where k = 3, p = n\n"
             "  G[n, k] = softmax(einsum(X[n, d], R[d, k]), reduced_dim=k)\n"
             "  Y[n, d] = " +
             call + "\n  return Y[n, d]\n" + experts;
    };
    const auto model_of = [](const std::string& text) { return Model(checked(text), {}); };
    const Model amended = model_of("use Experts = Routed with Louder\n" +
                                   layer("Experts(X[n, d], G[n, k])")),
                there = model_of(replaced(layer("Routed(X[n, d], G[n, k])"), "tanh(", "2 * tanh("));
    const Tensors values = there.params().initial_values(Key(5), Dtype::f64);
    const Tensor X = tokens({1, 4, 0, 2, 5, 3}), whole = amended.logits({.params = values}, {X});
    CHECK(difference(whole, there.logits({.params = values}, {X})) < 1e-12);
    for (Index n = 1; n < 6; ++n)
      CHECK(difference(amended.logits({.params = values}, {slice(X, 1, 0, n)}),
                       slice(whole, 1, 0, n)) < 1e-12);
    check_decoding(amended, values, X);
    // What reads the number of places changes with the length.
    const auto counted =
        checked("use Experts = Routed with Louder\n" +
                replaced(layer("Experts(X[n, d], G[n, k])"), "2 * O[k, p, d]", "O[k, p, d] / p"));
    CHECK(counted->leak.find("this is the number of positions of 'p'") != std::string::npos);
    // Rows of another sequence lose no place to X's length.
    const auto leak = [&](const std::string& room) {
      return checked(
                 "use Experts = Routed with Louder\n"
                 "def F(X[causal n, d], M[m, d], R[d, k] = normal(1)):\n  where k = 3, p = " +
                 room +
                 "\n  G[m, k] = softmax(einsum(M[m, d], R[d, k]), reduced_dim=k)\n"
                 "  H[m, d] = Experts(M[m, d], G[m, k])\n"
                 "  W[n, m] = softmax(einsum(X[n, d], H[m, d]), reduced_dim=m)\n"
                 "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n" +
                 experts)
          ->leak;
    };
    CHECK(leak("n").find("this is the number of positions of 'p'") != std::string::npos);
    CHECK(leak("m") == "");
  }

  TEST_CASE("a text whose places stand for rows alone is read position by position") {
    const Tensor X = tokens({1, 4, 0, 2, 5, 3, 3, 6, 1});
    const auto read = [&](const std::string& layer, const SizesByName& sizes = {}) {
      const Model model(checked(layer + model_of_layers), sizes);
      const Tensors values = model.params().initial_values(Key(5), Dtype::f64);
      return error_of([&] { check_decoding(model, values, X); });
    };
    const std::string plain = "  B[k, p, d] = A[k, p, d] + index(k)\n";
    CHECK(read(with_places(plain)) == "no error");
    CHECK(read(replaced(with_places(plain), "p = 9", "p = n")) == "no error");
    CHECK(read(with_places(plain), {{"p", 12}}) == "no error");
    CHECK(read(with_places("  U[k, p, d, e] = A[k, p, d] * index(e)\n"
                           "  B[k, p, d] = max(U[k, p, d, e], reduced_dim=e)\n",
                           ", e = 2")) == "no error");
    const char* const again = "'Layer' cannot read a sequence position by position";
    for (const std::string& layer :
         {with_places("  B[k, p, d] = A[k, p, d] * (1 + index(p))\n"),
          with_places("  U[k, p, t, d] = windows(A[k, p, d], dim=p, into=(p t), left=1)\n"
                      "  B[k, p, d] = sum(U[k, p, t, d], reduced_dim=t)\n",
                      ", t = 2"),
          with_places("  B[k, p, d] = A[k, p, d] * p\n"),
          with_places("  U[q, d] = 1 + index(q)\n  B[k, p, d] = A[k, p, d] * U[q=(p), d]\n",
                      ", q = p"),
          with_places("  B[k, p, d] = A[k, p, d] * u\n", ", u = p - 1"),
          replaced(with_places("  B[k, p, d] = A[k, p, d] * S[p]\n"), "w[k, d] = normal(1)",
                   "w[k, d] = normal(1), S[p] = normal(1)")}) {
      CAPTURE(layer);
      CHECK(read(layer).find(again) == 0);
      CHECK(checked(layer + model_of_layers)->leak == "");
    }
  }

  TEST_CASE("what cannot be routed is told") {
    const auto said = [](const std::string& statements) {
      const std::string text = "def F(X[n, d], G[n, e], w[e, d] = ones()):\n  where c = 3\n" +
                               statements + "  return Y[n, d]\n";
      return error_of([&] { check(Program::parse(text)); });
    };
    std::string three = routed;
    three.replace(three.find("G[n, e], dim=n"), 7, "X[n, d]");
    CHECK(said(three).find("'d' is a dimension of 'X' already") != std::string::npos);
    three = routed;
    three.replace(three.find("dim=n, into=c"), 13, "dim=d, into=c");
    CHECK(said(three).find("what rows choose by has two dimensions, 'd' and that of the experts") !=
          std::string::npos);
    three = routed;
    three.replace(three.find("unroute(O[e, c, d]"), 18, "unroute(X[n, d]");
    CHECK(said(three).find("'c' is not a dimension of what goes to experts") != std::string::npos);
    const Tensor X = noise({4, 3}, 1), none = Tensor::zeros({4, 0}, Dtype::f64);
    CHECK(error_of([&] {
            run("def F(X[n, d], G[n, e]):\n  where c = 2\n" + replaced(routed, " * w[e, d]", "") +
                    "  return Y[n, d]\n",
                {{"X", X}, {"G", none}});
          }).find("'e' is 0, but rows choose among one expert at least") != std::string::npos);
  }
}
