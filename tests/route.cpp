// Experts by capacity (R29): route and unroute against loops, their causality, whole models.
#include "attention/catalog.hpp"
#include "nn/model.hpp"
#include "tests/layer.hpp"
#include "tests/marked.hpp"

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

std::shared_ptr<const Checked> checked(const std::string& text) {
  return std::make_shared<const Checked>(check(Program::parse(text)));
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
  }
}
