// The notation: every mistake is one sentence with line, column and caret; every text means what
// the same mathematics means in C++.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/check/gradcheck.hpp"
#include "nn/run.hpp"

using namespace tete;

namespace {

// The sentence that is said about a text, or "" if nothing is wrong with it.
std::string complaint_about(std::string_view text) {
  try {
    check(Program::parse(text));
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
}

Tensor real(const Shape& shape, uint64_t seed, Dtype dtype = Dtype::f64) {
  return random_normal(shape, Key(seed), dtype);
}

double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.values(), y = b.values();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

std::string run_complaint(std::string_view text, const TensorsByName& tensors,
                          const RunOptions& options = {}) {
  try {
    run(text, tensors, options);
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an error shows the line, and the other line that disagrees") {
  CHECK(complaint_about("def F(X[n, d]):\n  Y[n, e] = X[n, e]\n  return Y[n, e]\n") ==
        "text:2:18: dimension 2 of 'X' is 'd', not 'e'; another name is given as d=(e)\n"
        "      Y[n, e] = X[n, e]\n"
        "                     ^\n"
        "  text:1:\n"
        "    def F(X[n, d]):\n"
        "          ^^^^^^^");
}

TEST_CASE("hostile texts end in a sentence") {
  const auto nested = [](size_t depth) {
    return "def F(X[n]):\n  Y[n] = " + std::string(depth, '(') + "X[n]" + std::string(depth, ')') +
           "\n  return Y[n]\n";
  };
  CHECK(complaint_about(nested(150)) == "");
  CHECK(has(complaint_about(nested(100000)), "nested more than 200 deep"));
  CHECK(has(complaint_about("def F(X[n]):\n  Y[n] = " + std::string(200000, '-') + "X[n]\n"),
            "nested more than 200 deep"));
  std::string powers = "def F(X[n]):\n  Y[n] = 1", sums = powers, nots = "def F(X[n]):\n Y[n] = ";
  for (int i = 0; i < 50000; ++i) powers += "^1", sums += "+1", nots += "not ";
  CHECK(has(complaint_about(powers + "\n return Y[n]\n"), "nested more than 200 deep"));
  CHECK(has(complaint_about(sums + "\n return Y[n]\n"), "nested more than 200 deep"));
  CHECK(has(complaint_about(nots + "1\n return Y[n]\n"), "nested more than 200 deep"));
  CHECK(has(complaint_about(std::string(2000000, '#')), "at most 1048576 bytes"));
  CHECK(has(complaint_about(std::string("def F\0", 6)), "not a text: byte 6 of 6"));
  CHECK(complaint_about("# \u00e9\n# \u00e9\xff(X[n]):") ==
        "text:2:4: this is not a text: byte 10 of 17 is not UTF-8\n    # \u00e9?(X[n]):\n       ^");
  CHECK(has(complaint_about(std::string(100000, '[')), "never closed"));
  CHECK(has(complaint_about(std::string(100000, 'x')), "a name has at most 100 letters"));
  // A long line is shown in part.
  CHECK(complaint_about("def F(X[n]):\n  Y[n] = " + std::string(90000, ' ') + "$\n").size() < 600);

  std::string doubling = "def F0(X[n]):\n  return X[n]\n";
  for (int i = 1; i <= 40; ++i)
    doubling += text("def F", i, "(X[n]):\n  A[n] = F", i - 1, "(X[n])\n  B[n] = F", i - 1,
                     "(A[n])\n  return B[n]\n");
  CHECK(has(complaint_about(doubling), "more than 10000 statements"));

  std::string chain = "def F(X[n], P[n, a0] = ones()):\n  where a0 = a1";
  for (int i = 1; i < 9000; ++i) chain += text(", a", i, " = a", i + 1);
  chain += ", a9000 = 3\n  Y[n] = sum(P[n, a0], reduced_dim=a0) * X[n]\n  return Y[n]\n";
  const auto program = std::make_shared<const Checked>(check(Program::parse(chain)));
  SizeTable sizes(program, {});
  CHECK_THROWS_AS(parameter_specs(*program, sizes), Error);

  // Every prefix and every change of one character of a text ends in a sentence or in nothing.
  const std::string good =
      "def F(X[n, d], M[m, d] = X[n, d], P[d, k<=c, h=(a b)] = fixed normal(d^-0.5) per stack):\n"
      "  where c = 2 * (1 + causal), h = 4, d = 8 // 2\n"
      "  Y[n, h=(a b)] = softmax(einsum(X[n, d], P[d, 0, h]) + 1.5e-3, reduced_dim=n, mask=not "
      "X[n, d] < 3)\n"
      "  return Y[n, h]\n";
  for (size_t i = 0; i < good.size(); ++i) {
    complaint_about(good.substr(0, i));
    for (char c : {'[', ')', '=', '(', '\n', 'q', '9', '#', ','}) {
      std::string changed = good;
      changed[i] = c;
      complaint_about(changed);
    }
  }
}

TEST_CASE("a line goes on inside brackets and after a comma; comments and indentation are free") {
  const Tensor X = real({3}, 1);
  const Tensor Y =
      run("# before\ndef F( # here\n    X[\n n]):\nwhere a = 2, # two\n b = 3\r\n"
          "\tY[n] = ( X[n]   # parts\n  * a\n  + b )\n\n\n return Y[n]",
          {{"X", X}});
  CHECK(difference(Y, X * 2.0 + 3.0) == 0);
}

TEST_CASE("sizes come from the caller, from tensors, from where") {
  const char* const program =
      "def F(X[n, d], P[d, k, h] = ones(), Q[k, e] = ones()):\n"
      "  where k = d / h, h = g * 2, e = -7 // 2 + 2 ^ 3 % 5\n"
      "  Y[n, e] = einsum(X[n, d], P[d, k, h], P[d, k, h], Q[k, e])\n"
      "  Z[n, e, h=(g s)] = Y[n, e]\n"
      "  R[n, e] = sum(Z[n, e, h], reduced_dim=h)\n"
      "  return R[n, e]\n";
  const auto checked = std::make_shared<const Checked>(check(Program::parse(program)));
  const auto size_of = [&](SizesByName given, const char* name) {
    SizeTable sizes(checked, given);
    return sizes.size(checked->find_dimension(name));
  };
  CHECK(size_of({{"d", 24}, {"g", 3}}, "k") == 4);
  CHECK(size_of({{"d", 24}, {"h", 8}}, "k") == 3);
  CHECK(size_of({{"k", 7}}, "k") == 7);
  CHECK(size_of({}, "e") == -1);  // // and % round down

  const auto complaint = [&](SizesByName given, auto&& use) -> std::string {
    try {
      SizeTable sizes(checked, given);
      use(sizes);
      return "";
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return error.what();
    }
  };
  const auto all = [&](SizeTable& sizes) { parameter_specs(*checked, sizes); };
  CHECK(has(complaint({{"d_k", 3}}, all), "'F' has no size 'd_k'"));
  CHECK(has(complaint({{"n", -1}}, all), "'n' must be at least 0, got -1"));
  CHECK(complaint({{"d", 24}}, all).starts_with("text:4:14: the size of 'g' is open"));
  CHECK(complaint({{"d", 25}, {"h", 8}, {"e", 1}}, all)
            .starts_with("text:2:15: 25 / 8 is not a whole number"));
  CHECK(has(complaint({{"d", 25}, {"h", 0}, {"e", 1}}, all), "25 / 0 divides by 0"));
  CHECK(has(complaint({{"g", Index{1} << 62}, {"d", 2}}, all), " is too large for a size"));
  const auto contradiction =
      complaint({{"h", 8}, {"g", 3}, {"s", 2}}, [](SizeTable& sizes) { sizes.check_known(); });
  CHECK(contradiction.starts_with("text:4:11: 'h' is 8, but g·s is 3·2 = 6"));

  const char* const circle =
      "def F(X[n], P[n, a, b] = ones()):\n  where a = b + 1, b = 2 * a\n"
      "  Y[n] = X[n] * einsum(P[n, a, b])\n  return Y[n]\n";
  CHECK(run_complaint(circle, {{"X", real({3}, 1)}, {"P", real({3, 2, 2}, 2)}}) == "");
  const auto circular = std::make_shared<const Checked>(check(Program::parse(circle)));
  SizeTable sizes(circular, {{"n", 3}});
  CHECK_THROWS_WITH_AS(parameter_specs(*circular, sizes),
                       doctest::Contains("the size of 'a' depends on itself, by way of 'b'"),
                       Error);
}

TEST_CASE("tensors that contradict are shown with both numbers and both lines") {
  const char* const product =
      "def F(\n    X[n, d],\n    P[d, e] = ones()):\n"
      "  Y[n, e] = einsum(X[n, d], P[d, e])\n  return Y[n, e]\n";
  CHECK(run_complaint(product, {{"X", real({2, 3}, 1)}, {"P", real({4, 5}, 2)}}) ==
        "text:3:7: 'd' is 4 in 'P', but 3 in 'X'\n"
        "        P[d, e] = ones()):\n"
        "          ^\n"
        "  text:2:\n"
        "        X[n, d],\n"
        "             ^");
  const std::string by_caller = run_complaint(
      product, {{"X", real({2, 3}, 1)}, {"P", real({3, 5}, 2)}}, {.sizes = {{"d", 7}}});
  CHECK(has(by_caller, "text:2:10: 'd' is 3 in 'X', but 7 was set by the caller"));
  CHECK(has(run_complaint(product, {{"X", real({3}, 1)}, {"P", real({3, 5}, 2)}}),
            "'X' has 2 dimensions, but a tensor of shape [3] is given"));
  CHECK(
      has(run_complaint(product, {{"X", real({2, 3}, 1)}}), "needs P[d=3, e], which is not given"));
  CHECK(has(
      run_complaint(product, {{"X", real({2, 3}, 1)}, {"P", real({3, 5}, 2)}, {"Q", real({1}, 3)}}),
      "no input or parameter 'Q'"));
  CHECK(has(run_complaint(product, {{"X", real({2, 3}, 1)}, {"P", real({3, 5}, 2, Dtype::f32)}}),
            "'P' is f32[3, 5], expected f64"));
  const char* const room = "def F(X[n], R[n<=k] = ones()):\n  Y[n] = X[n] * R[n]\n  return Y[n]\n";
  CHECK(run_complaint(room, {{"X", real({3}, 1)}, {"R", real({5}, 2)}}) == "");
  CHECK(has(run_complaint(room, {{"X", real({6}, 1)}, {"R", real({5}, 2)}}),
            "text:1:15: 'n' is 6, but there is room for 'k' = 5 only"));
  CHECK(has(
      run_complaint("def F(X[n, t]):\n  Y[n] = X[n, 2]\n  return Y[n]\n", {{"X", real({3, 2}, 1)}}),
      "text:2:15: element 2 of 't' is picked, but 't' is 2: its elements are numbered from 0"));
  CHECK(has(
      run_complaint("def F(X[n], Z[m]):\n  Y[n] = X[n] * sum(Z[m], reduced_dim=m)\n  return Y[n]\n",
                    {{"X", real({2, 3, 4}, 1)}, {"Z", real({3, 3, 4}, 2)}}),
      "the batch of 'Z' is [3, 3], but that of 'X' is [2, 3]"));
}

TEST_CASE("texts mean what the same patterns mean") {
  const Tensor X = real({5, 6}, 1), M = real({4, 6}, 2), P = real({6, 3, 2}, 3);
  const Tensor b = real({2}, 4);
  const auto says = [&](std::string_view body, const TensorsByName& tensors, const Tensor& expected,
                        double within = 1e-13) {
    CAPTURE(body);
    CHECK(difference(run(body, tensors), expected) <= within);
  };
  const Tensor Q = einsum("n d, d k h -> n k h", X, P);
  says(
      "def F(X[n, d], P[d, k, h] = ones()):\n Q[n, k, h] = einsum(X[n, d], P[d, k, h])\n"
      " return Q[n, k, h]",
      {{"X", X}, {"P", P}}, Q);
  says(
      "def F(X[n, d], M[m, d], P[d, k, h] = ones()):\n where e = d\n"
      " L[n, m, h] = einsum(X[n, d], M[m, d=(e)], P[d, k, h], P[d=(e), k, h])\n return L[n, m, h]",
      {{"X", X}, {"M", M}, {"P", P}}, einsum("n d, m e, d k h, e k h -> n m h", X, M, P, P), 1e-12);
  says(
      "def F(X[n, d], M[m, d], P[d, k, h] = ones(), b[h] = ones()):\n"
      " Q[n, k, h] = einsum(X[n, d], P[d, k, h])\n K[m, k, h] = einsum(M[m, d], P[d, k, h])\n"
      " W[n, m, h] = softmax(b[h] * einsum(Q[n, k, h], K[m, k, h]) + 1, reduced_dim=m)\n"
      " S[n, m] = sum(W[n, m, h], reduced_dim=h)\n"
      " Y[n, d] = einsum(S[n, m], M[m, d])\n return Y[n, d]",
      {{"X", X}, {"M", M}, {"P", P}, {"b", b}},
      einsum(
          "n m h, m d -> n d",
          softmax("n [m] h",
                  mul("n m h, h",
                      einsum("n k h, m k h -> n m h", Q, einsum("m d, d k h -> m k h", M, P)), b)),
          M));
}

TEST_CASE("renaming, splitting, merging and picking") {
  const Tensor X = real({5, 6}, 1), P = real({6, 3, 2}, 3);
  const Tensor G = rearrange("n (g s) -> n g s", X, {{"g", 2}});
  CHECK(difference(run("def F(X[n, d]):\n where g = 2, s = d / g\n Y[n, g, s] = X[n, d=(g s)]\n"
                       " return Y[n, g, s]",
                       {{"X", X}}),
                   G) == 0);
  CHECK(difference(run("def F(X[n, d], s[g] = ones()):\n where t = d / g\n"
                       " Y[n, d=(t g)] = X[n, d=(t g)] * s[g]\n return Y[n, d]",
                       {{"X", X}, {"s", Tensor::full({3}, 2, Dtype::f64)}}),
                   X * 2.0) == 0);
  CHECK(difference(run("def F(X[n, d]):\n where k = d\n Y[n, k] = X[n, d=(k)]\n return Y[n, k]",
                       {{"X", X}}),
                   X) == 0);
  CHECK(difference(run("def F(X[n, d], P[d, k, h] = ones()):\n"
                       " Y[n, k] = einsum(X[n, d], P[d, k, 1])\n return Y[n, k]",
                       {{"X", X}, {"P", P}}),
                   einsum("n d, d k -> n k", X, reshape(slice(P, 2, 1, 1), {6, 3}))) < 1e-14);
  // Gram of M under another name of its dimension.
  CHECK(difference(run("def F(X[n, d]):\n where e = d\n Z[n, e] = X[n, d=(e)]\n"
                       " C[d, e] = einsum(X[n, d], Z[n, e])\n return C[d, e]",
                       {{"X", X}}),
                   einsum("n d, n e -> d e", X, X)) < 1e-13);
}

TEST_CASE("arithmetic, comparisons and functions broadcast by name") {
  const Tensor X = real({5, 6}, 1), b = real({6}, 2), c = real({5}, 3);
  const TensorsByName all{{"X", X}, {"b", b}, {"c", c}};
  const auto F = [&](const std::string& expression, const char* left = "Y[n, d]") {
    return run(text("def F(X[n, d], b[d], c[n]):\n ", left, " = ", expression, "\n return ", left),
               all);
  };
  const Tensor B = expand(b, {0}, {5, 6}), C = expand(c, {1}, {5, 6});
  CHECK(difference(F("X[n, d] + b[d] * c[n]"), X + B * C) == 0);
  CHECK(difference(F("c[n] - b[d]"), C - B) == 0);
  CHECK(difference(F("-X[n, d]^2 / 2 - 1"), -(X * X) / 2.0 - 1.0) < 1e-15);
  CHECK(difference(F("2 - 3 * X[n, d]"), 2.0 - 3.0 * X) < 1e-15);
  CHECK(difference(F("X[n, d] / sqrt(d) * n"), X / std::sqrt(6.0) * 5.0) < 1e-15);
  CHECK(difference(F("abs(X[n, d]) ^ 0.5"), sqrt(abs(X))) < 1e-15);
  CHECK(difference(F("gelu(X[n, d]) + tanh(b[d])"), gelu(X) + tanh(B)) < 1e-15);
  CHECK(difference(F("select(X[n, d] > b[d], c[n], 0)"), C * less(B, X)) == 0);
  CHECK(difference(F("X[n, d] < 0 or not b[d] <= c[n] and 1 == 1"),
                   max(less(X, X * 0.0), less(C, B))) == 0);
  CHECK(difference(F("(X[n, d] != X[n, d]) + 2 * (b[d] >= b[d])"), X * 0.0 + 2.0) == 0);
  CHECK(difference(F("clip(X[n, d], -0.5, 0.5)"), min(max(X, X * 0.0 - 0.5), X * 0.0 + 0.5)) == 0);
  CHECK(difference(F("softmax(X[n, d] + c[n], reduced_dim=d)"), softmax(X + C, 1)) < 1e-15);
  CHECK(difference(F("log_softmax(X[n, d], reduced_dim=n)"), log_softmax(X, 0)) < 1e-15);
  CHECK(difference(F("layer_norm(X[n, d], dim=d)"),
                   layer_norm(X, Tensor::ones({6}, Dtype::f64), Tensor::zeros({6}, Dtype::f64))) <
        1e-15);
  CHECK(difference(F("rms_norm(X[n, d], dim=n)"),
                   permute(rms_norm(permute(X, {1, 0}), Tensor::ones({5}, Dtype::f64)), {1, 0})) <
        1e-15);
  CHECK(difference(F("sum(X[n, d], reduced_dim=d)", "Y[n]"), sum("n [d]", X)) < 1e-15);
  CHECK(difference(F("mean(X[n, d], reduced_dim=n)", "Y[d]"), mean("[n] d", X)) < 1e-15);
  CHECK(difference(F("max(X[n, d], reduced_dim=d)", "Y[n]"), max("n [d]", X)) == 0);
  CHECK(difference(F("min(X[n, d], reduced_dim=d)", "Y[n]"), -max("n [d]", -X)) == 0);
  CHECK(difference(F("logsumexp(X[n, d], reduced_dim=d)", "Y[n]"), logsumexp("n [d]", X)) < 1e-15);
  CHECK(difference(F("X[n, d] - max(X[n, d], reduced_dim=d)"),
                   X - broadcast(max(X, {1}, true), {5, 6})) == 0);
  CHECK(difference(F("position(n) - 2 * index(d) + 0 * X[n, d]"),
                   expand(arange(5, Dtype::f64), {1}, {5, 6}) -
                       2.0 * expand(arange(6, Dtype::f64), {0}, {5, 6})) == 0);
  CHECK(difference(F("-position(n) // 2 + position(n) % 3", "Y[n]"),
                   Tensor::of<double>({5}, {0, 0, 1, -2, -1})) == 0);
  CHECK(difference(F("b[d]", "Y[n, d]"), B) == 0);
}

TEST_CASE("gather and concat align by name") {
  const Tensor T = real({4, 7, 2}, 1), Z = real({4, 3, 2}, 2);
  const Tensor ids =
      Tensor::of<int64_t>({4, 5}, {0, 6, 3, 3, 1, 2, 2, 0, 5, 6, 1, 1, 1, 1, 1, 0, 4, 3, 2, 6});
  const char* const rows =
      "def F(T[n, r, h], I[n, k] < r):\n"
      " Y[n, k, h] = gather(T[n, r, h], I[n, k], dim=r)\n return Y[n, k, h]";
  CHECK(difference(run(rows, {{"T", T}, {"I", ids}}), gather("n [r] h, n k -> n k h", T, ids)) ==
        0);
  CHECK(has(run_complaint(rows, {{"T", slice(T, 1, 0, 6)}, {"I", ids}}),
            "'I' holds 6, expected whole numbers from 0 to 5"));
  CHECK(has(
      run_complaint("def F(T[n, r]):\n Y[n] = gather(T[n, r], index(n) + 2, dim=r)\n return Y[n]",
                    {{"T", real({4, 5}, 1)}}),
      "position 5"));
  CHECK(difference(run("def F(T[n, a, h], Z[n, b, h]):\n where e = a + b\n"
                       " Y[n, e, h] = concat(T[n, a, h], Z[n, b, h], dim=e)\n return Y[n, e, h]",
                       {{"T", T}, {"Z", Z}}),
                   concat({T, Z}, 1)) == 0);
  CHECK(has(run_complaint("def F(T[n, a, h], Z[n, b, h]):\n where e = a\n"
                          " Y[n, e, h] = concat(T[n, a, h], Z[n, b, h], dim=e)\n return Y[n, e, h]",
                          {{"T", T}, {"Z", Z}}),
            "'e' is 7, but what is joined comes to 10"));
}

TEST_CASE("the batch leads, is never written, and is carried by what depends on it") {
  const char* const program =
      "def F(X[n, d], Z[m, d], R[n<=k, m<=k] = ones(), a[] = ones()):\n"
      " S[n, m] = R[n, m] + a[]\n"
      " L[n, m] = einsum(X[n, d], Z[m, d]) * S[n, m]\n"
      " W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
      " Y[n, d] = einsum(W[n, m], Z[m, d]) - mean(X[n, d], reduced_dim=n)\n"
      " return Y[n, d]\n";
  const Tensor X = real({2, 3, 4, 6}, 1), Z = real({2, 3, 5, 6}, 2), R = real({8, 8}, 3);
  const Tensor a = Tensor::scalar(0.5, Dtype::f64);
  std::map<std::string, Shape> seen;
  const Tensor Y = run(
      program, {{"X", X}, {"Z", Z}, {"R", R}, {"a", a}},
      {.watch = [&](const std::string& name, const Tensor& value) { seen[name] = value.shape(); }});
  CHECK(seen["S"] == Shape{4, 5});
  CHECK(seen["L"] == Shape{2, 3, 4, 5});
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j) {
      const auto one = [&](const Tensor& x) {
        return reshape(slice(slice(x, 0, i, 1), 1, j, 1), {x.size(2), x.size(3)});
      };
      CHECK(difference(run(program, {{"X", one(X)}, {"Z", one(Z)}, {"R", R}, {"a", a}}), one(Y)) <
            1e-14);
    }
  // An input without the batch is shared by it.
  const Tensor shared = real({5, 6}, 4);
  const Tensor both = run(program, {{"X", X}, {"Z", shared}, {"R", R}, {"a", a}});
  const Tensor spread = expand(shared, {0, 1}, {2, 3, 5, 6});
  CHECK(difference(both, run(program, {{"X", X}, {"Z", spread}, {"R", R}, {"a", a}})) < 1e-14);
}

TEST_CASE("a program's gradient is right to second order") {
  const char* const program =
      "def F(X[n, d], M[m, d], P[d, k, h] = ones(), R[d, k, g] = ones(), b[m<=t, r] = zeros()):\n"
      " where g = 2, s = h / g\n"
      " K[m, k, g] = einsum(M[m, d], R[d, k, g])\n"
      " Q[n, k, h] = einsum(X[n, d], P[d, k, h])\n"
      " N[n, h] = sqrt(einsum(Q[n, k, h], Q[n, k, h]) + 1)\n"
      " L[n, m, h=(g s)] = einsum(Q[n, k, h=(g s)], K[m, k, g]) / N[n, h=(g s)] + b[m, 1]\n"
      " W[n, m, h] = softmax(L[n, m, h], reduced_dim=m, mask=position(m) <= position(n))\n"
      " S[n, m] = sum(W[n, m, h], reduced_dim=h)\n"
      " Y[n, d] = einsum(S[n, m], M[m, d]) + select(position(n) > 1, X[n, d], layer_norm(X[n, "
      "d], dim=d))\n"
      " return Y[n, d]\n";
  const auto F = [&](const Tensors& in) {
    return run(program, {{"X", in[0]}, {"M", in[1]}, {"P", in[2]}, {"R", in[3]}, {"b", in[4]}});
  };
  const GradReport report =
      check_gradient(F,
                     {real({2, 3, 4}, 1), real({2, 3, 4}, 2), real({4, 3, 4}, 3),
                      real({4, 3, 2}, 4), real({5, 2}, 5)},
                     {.order = 2, .entries = 6});
  CHECK(report.worst_of_order(1) < 1e-7);
  CHECK(report.worst_of_order(2) < 1e-6);
}

TEST_CASE("dropout depends on the sample, the key and the statement, never on the cut of a batch") {
  const char* const program =
      "def F(X[n, d]):\n A[n, d] = dropout(X[n, d])\n B[n, d] = dropout(X[n, d], shared=n)\n"
      " Y[n, d] = A[n, d] + 100 * B[n, d]\n return Y[n, d]\n";
  const Tensor X = Tensor::ones({4, 3, 50});
  const auto program_of = std::make_shared<const Checked>(check(Program::parse(program)));
  const auto at = [&](const Tensor& x, Index first, bool training) {
    const Tensors none;
    const Forward forward{.params = none,
                          .training = training,
                          .dropout = 0.5,
                          .key = Key(3),
                          .first_sample = first,
                          .watch = {}};
    return run(*program_of, SizeTable(program_of, {}), {x}, {}, forward, "here");
  };
  const Tensor whole = at(X, 0, true);
  CHECK(difference(slice(whole, 0, 1, 2), at(slice(X, 0, 1, 2), 1, true)) == 0);
  CHECK(difference(at(X, 0, false), X * 101.0) == 0);
  std::set<double> seen;
  for (double y : whole.values()) seen.insert(y);
  CHECK(seen == std::set<double>{0, 2, 200, 202});
  const std::vector<double> y = whole.values();
  for (size_t i = 0; i < 50; ++i) CHECK((y[i] >= 200) == (y[i + 50] >= 200));
}

TEST_CASE("calls take arguments by order or by name, and parameters that are not passed are new") {
  const char* const text_of_calls =
      "def Main(X[n, d], S[d, e] = ones()):\n"
      " A[n, k] = Project(X[n, d])\n"
      " B[n, e] = Project(Z=X[n, d], P=S[d, e])\n"
      " Y[n] = einsum(A[n, k], A[n, k]) + sum(B[n, e], reduced_dim=e)\n"
      " return Y[n]\n"
      "def Project(Z[i, c], P[c, f] = normal(c^-0.5)):\n"
      " where f = 2 * c\n"
      " T[i, f] = relu(einsum(Z[i, c], P[c, f]))\n"
      " return T[i, f]\n";
  const Tensor X = real({4, 3}, 1), S = real({3, 5}, 2), P = real({3, 6}, 3);
  const Tensor A = relu(einsum("n d, d k -> n k", X, P));
  const Tensor B = relu(einsum("n d, d e -> n e", X, S));
  const Tensor expected = einsum("n k, n k -> n", A, A) + sum("n [e]", B);
  std::vector<std::string> seen;
  const Tensor Y =
      run(text_of_calls, {{"X", X}, {"S", S}, {"A.P", P}},
          {.watch = [&](const std::string& name, const Tensor&) { seen.push_back(name); }});
  CHECK(difference(Y, expected) < 1e-13);
  CHECK(std::find(seen.begin(), seen.end(), "A.T") != seen.end());
  const auto program = std::make_shared<const Checked>(check(Program::parse(text_of_calls)));
  SizeTable sizes(program, {{"d", 3}, {"e", 5}});
  const std::vector<ParameterSpec> specs = parameter_specs(*program, sizes);
  REQUIRE(specs.size() == 2);
  CHECK(specs[1].spec.name == "A.P");
  CHECK(specs[1].spec.dims == std::vector<std::string>{"c", "f"});
  CHECK(specs[1].spec.shape == Shape{3, 6});
  CHECK(specs[1].spec.init.a == doctest::Approx(std::pow(3.0, -0.5)));
}

TEST_CASE("a call's open sizes are the caller's of the same name") {
  const char* const open =
      "def Main(X[n, d]):\n A[n, d] = Heads(X[n, d])\n return A[n, d]\n"
      "def Heads(X[n, d], P[d, k, h] = ones()):\n where k = d / h\n"
      " Y[n, d] = einsum(X[n, d], P[d, k, h], P[d, k, h])\n return Y[n, d]\n";
  const auto program = std::make_shared<const Checked>(check(Program::parse(open)));
  SizeTable four(program, {{"d", 8}, {"h", 4}});
  CHECK(parameter_specs(*program, four)[0].spec.shape == Shape{8, 2, 4});
  SizeTable inner(program, {{"d", 8}, {"A.h", 2}});
  CHECK(parameter_specs(*program, inner)[0].spec.shape == Shape{8, 4, 2});
  SizeTable unset(program, {{"d", 8}});
  CHECK_THROWS_WITH_AS(parameter_specs(*program, unset),
                       doctest::Contains("the size of 'h' is open"), Error);
}

TEST_CASE("what is joined fills its dimension before anything runs") {
  const auto program = std::make_shared<const Checked>(check(Program::parse(
      "def F(X[n, d], Z[k, d]):\n where e = 9\n J[e, d] = concat(X[n, d], Z[k, d], dim=e)\n"
      " return J[e, d]\n")));
  CHECK_NOTHROW(SizeTable(program, {{"n", 4}, {"k", 5}, {"d", 2}}).check_all());
  CHECK_THROWS_WITH_AS(SizeTable(program, {{"n", 4}, {"k", 6}, {"d", 2}}).check_all(),
                       doctest::Contains("'e' is 9, but what is joined comes to 10"), Error);
}

TEST_CASE("an amending text stays inside the calls of the def that has all that it amends") {
  const std::string attention =
      "def Attend(X[n, d], M[m, d]):\n Q[n, d] = 2 * X[n, d]\n K[m, d] = 3 * M[m, d]\n"
      " L[n, m] = einsum(Q[n, d], K[m, d])\n W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
      " Y[n, d] = einsum(W[n, m], M[m, d])\n return Y[n, d]\n";
  const std::string inside =
      "def Inside(X[n, d], M[m, d]):\n Q[n, d] = 2 * X[n, d]\n Y[n, d] = Weigh(Q[n, d], M[m, d])\n"
      " return Y[n, d]\n"
      "def Weigh(Q[n, d], M[m, d]):\n L[n, m] = einsum(Q[n, d], M[m, d])\n"
      " W[n, m] = softmax(L[n, m], reduced_dim=m)\n O[n, d] = einsum(W[n, m], M[m, d])\n"
      " return O[n, d]\n";
  const auto bias = [](const std::string& name) {
    return text("def ", name, "Bias(", name, "[a, c], b[c] = zeros()):\n Z[a, c] = ", name,
                "[a, c] + b[c]\n return Z[a, c]\n");
  };
  const auto parameters = [](const std::string& block, const std::string& amendment) {
    std::string names;
    for (const auto& p : check(Program::parse(block), {Program::parse(amendment)}).parameters)
      names += (names.empty() ? "" : " ") + p.name;
    return names;
  };
  // The blocks have tensors called Y, X and M of their own.
  const std::string block =
      "def Block(X[n, d], M[m, d]):\n A[n, d] = Attend(X[n, d], M[m, d])\n"
      " B[n, d] = Attend(A[n, d], M[m, d])\n Y[n, d] = X[n, d] + B[n, d]\n return Y[n, d]\n" +
      attention;
  CHECK(parameters(block, bias("Q") + bias("K") + bias("Y")) ==
        "A.QBias.b A.KBias.b A.YBias.b B.QBias.b B.KBias.b B.YBias.b");
  CHECK(parameters(block, bias("J")) == "A.JBias.b B.JBias.b");
  CHECK(parameters(block, bias("X") + bias("M")) == "XBias.b MBias.b");
  const std::string deep =
      "def Block(X[n, d], M[m, d]):\n A[n, d] = Inside(X[n, d], M[m, d])\n"
      " Y[n, d] = X[n, d] + A[n, d]\n return Y[n, d]\n" +
      inside;
  CHECK(parameters(deep, bias("Q") + bias("Y")) == "A.QBias.b A.YBias.b");
  CHECK(parameters(deep, bias("L") + bias("Y")) == "A.Y.LBias.b A.YBias.b");
  CHECK(parameters(deep, bias("Q") + bias("L")) == "A.Y.QBias.b A.Y.LBias.b");
  CHECK_THROWS_WITH_AS(
      parameters(deep, bias("L") + bias("K")),
      doctest::Contains("'KBias' amends 'K', but 'Block' has no tensor of that name"), Error);
}

TEST_CASE("amendments change what later statements see") {
  const Program base = Program::parse(
      "def Base(X[n, d], M[m, d]):\n L[n, m] = einsum(X[n, d], M[m, d])\n"
      " W[n, m] = softmax(L[n, m], reduced_dim=m)\n Y[n, d] = einsum(W[n, m], M[m, d])\n"
      " return Y[n, d]\n",
      "base.tete");
  const Program amendments = Program::parse(
      "def Scale(L[a, b]):\n Y[a, b] = Half(L[a, b])\n return Y[a, b]\n"
      "def Half(Z[p, q]):\n Y[p, q] = Z[p, q] / 2\n return Y[p, q]\n"
      "def Bias(L[n, m], X[n, d], B[d] = zeros() per stack):\n"
      " C[n] = einsum(X[n, d], B[d])\n Y[n, m] = L[n, m] + C[n]\n return Y[n, m]\n"
      "def Sink(W[n, m]):\n Y[n, m] = W[n, m] * (position(m) > 0)\n return Y[n, m]\n",
      "with.tete");
  const auto program = std::make_shared<const Checked>(check(base, {amendments}));
  REQUIRE(program->parameters.size() == 1);
  CHECK(program->parameters[0].name == "Bias.B");
  CHECK(program->parameters[0].per_stack);
  CHECK(program->takes_mask);
  CHECK(program->leak == "");
  const Tensor X = real({3, 4}, 1), M = real({5, 4}, 2), B = real({4}, 3);
  std::map<std::string, Tensor> seen;
  const Tensor Y =
      run(program, {{"X", X}, {"M", M}, {"Bias.B", B}},
          {.watch = [&](const std::string& name, const Tensor& v) { seen[name] = v; }});
  const Tensor raw = einsum("n d, m d -> n m", X, M);
  const Tensor L = add("n m, n -> n m", raw / 2.0, einsum("n d, d -> n", X, B));
  const Tensor W = mul("n m, m -> n m", softmax(L, 1), Tensor::of<double>({5}, {0, 1, 1, 1, 1}));
  CHECK(difference(seen["Scale.L"], raw) < 1e-14);
  CHECK(difference(seen["Bias.L"], raw / 2.0) < 1e-14);
  CHECK(difference(seen["L"], L) < 1e-14);
  CHECK(difference(seen["W"], W) < 1e-14);
  CHECK(difference(Y, einsum("n m, m d -> n d", W, M)) < 1e-13);

  const auto complaint = [&](const char* text_of) -> std::string {
    try {
      check(base, {Program::parse(text_of, "with.tete")});
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(complaint("def F(K[n, m]):\n return K[n, m]\n")
            .starts_with("with.tete:1:7: 'F' amends 'K', but 'Base' has no tensor of that name"));
  // J and L are one letter of the protocol where nothing comes between the two.
  CHECK(complaint("def F(J[n, m]):\n return J[n, m]\n") == "");
  CHECK(has(complaint("def F(L[n, m, h]):\n return L[n, m, h]\n"),
            "'F' does not fit 'Base': it amends 'L' of 3 dimensions, but here it has 2"));
  CHECK(has(complaint("def F(L[n, m]):\n Y[n] = sum(L[n, m], reduced_dim=m)\n return Y[n]\n"),
            "'F' must return 2 dimensions, as 'L' has, but it returns 1"));
  CHECK(has(complaint("def F(P[n] = ones()):\n return P[n]\n"), "'F' amends nothing"));
  CHECK(has(complaint("def F(L[n, m], W[n, m]):\n Y[n, m] = L[n, m] + W[n, m]\n return Y[n, m]\n"),
            "'F' needs 'W', which 'Base' does not have before 'L'"));
}
