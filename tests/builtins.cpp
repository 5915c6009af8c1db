// The functions of the notation: each has a text here that uses it, and this walks the table.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/check/gradcheck.hpp"
#include "nn/run.hpp"

using namespace tete;

namespace {

// A def of X[n, d] and M[m, d]; the last statement is the result.
struct Use {
  std::string statements;
  const char* where = "";
};

// The rest of a def around an example of the table, where the example is not a whole one.
struct Rest {
  const char* function;
  const char* where = "";
  const char* after = nullptr;  // of what is a truth value or a position, real numbers
};
const Rest rests[] = {
    {"any", "", "Y[n, d] = X[n, d] * A[n]"},
    {"scatter", "where r = 2"},
    {"top_k", "where t = 2", "Y[n, t, d] = gather(M[m, d], I[n, t], dim=m)"},
    {"windows", "where w = 3, c = (m - w) // 2 + 1", "Y[c, d] = einsum(A[c, w, d], A[c, w, d])"},
    {"concat", "where q = n + m"},
    {"part", "where k = 2"},
    {"route", "where c = 2, e = d"},
    {"unroute", "where c = 2, e = d"},
};

// Tensors that examples read besides X and M.
const char* const givens[] = {"L[n, m] = einsum(X[n, d], M[m, d])",
                              "C[n, m] = einsum(X[n, d], M[m, d]) > 1", "I[m] = position(m) % r",
                              "G[n, e] = tanh(X[n, d=(e)])",
                              "O[e, c, d] = route(X[n, d], G[n, e], dim=n, into=c)"};

Use use_of_example(const Builtin& function) {
  const std::string example = function.example;
  Use use;
  for (const std::string given : givens)
    if (const size_t at = example.find(given.substr(0, given.find(" = ")));
        at != std::string::npos && at > 0)
      use.statements += given + "\n  ";
  use.statements += example;
  for (const Rest& rest : rests)
    if (rest.function == std::string_view(function.name)) {
      use.where = rest.where;
      if (rest.after) use.statements += text("\n  ", rest.after);
    }
  return use;
}

// The example of each function, and what else functions do.
std::vector<Use> uses() {
  std::vector<Use> all;
  for (const Builtin& function : builtins()) all.push_back(use_of_example(function));
  const Use others[] = {
      {"Y[n, d] = relu(X[n, d])^2"},
      {"Y[n, d] = clip(X[n, d]^2, 0.5, 2)"},
      {"Y[n, d] = X[n, d] * floor(X[n, d])"},
      {"Y[n, d] = softmax(X[n, d], reduced_dim=d, mask=X[n, d] < 1)"},
      {"Y[n, d] = softmax(X[n, d], reduced_dim=d, mask=X[n, d] < 1, extra_logit=0.5)"},
      {"Z[n] = sum(X[n, d], reduced_dim=d)\n"
       "  Y[n, d] = softmax(X[n, d], reduced_dim=d, extra_logit=Z[n])"},
      {"Y[n, d] = log_softmax(X[n, d], reduced_dim=n)"},
      {"Y[n, d] = layer_norm(X[n, d], dim=n)"},
      {"Y[n, d] = rotate(X[n, d], position(n), dim=d, base=100, half=1)"},
      {"I[n] = position(n) // 2\n  Y[r, d] = scatter(X[n, d], I[n], reduced_dim=n, dim=r)",
       "where r = 2"},
      {"I[t, d] = top_k(X[n, d], reduced_dim=n, dim=t)\n  Y[t, d] = gather(X[n, d], I[t, d], "
       "dim=n)",
       "where t = 2"},
      {"A[c, w, d] = windows(M[m, d], dim=m, into=(c w), left=1, stride=2, fill=3)\n"
       "  Y[c, d] = einsum(A[c, w, d], A[c, w, d])",
       "where w = 3, c = (m + 1 - w) // 2 + 1"},
  };
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

// The left of the last statement.
std::string result_of(const Use& use) {
  const size_t line = use.statements.rfind('\n');
  const std::string last = use.statements.substr(line == std::string::npos ? 0 : line + 3);
  return last.substr(0, last.find(" = "));
}

Tensor run_use(const Use& use, const Tensor& X, const Tensor& M) {
  const std::string program = text("def F(X[n, d], M[m, d]):\n  ", use.where, "\n  ",
                                   use.statements, "\n  return ", result_of(use), "\n");
  return run(program, {{"X", X}, {"M", M}});
}

}  // namespace

// That the example is a right one is shown by the cases below, which run it.
TEST_CASE("every function of the notation says how it is called, and has an example") {
  for (const Builtin& function : builtins()) {
    CAPTURE(function.name);
    const std::string call = text(function.name, "(");
    CHECK(std::string_view(function.usage).starts_with(call));
    CHECK(std::string_view(function.meaning) != "");
    CHECK(std::string_view(function.example).find(call) != std::string_view::npos);
  }
}

TEST_CASE("rotate turns pairs of neighbours, or of both halves, by frequencies of its base") {
  const Tensor X = Tensor::of<double>({1, 4}, {1, 2, 3, 4});
  const auto turned = [&](const std::string& keys) {
    return run_use({"Y[n, d] = rotate(X[n, d], position(n) + 3, dim=d" + keys + ")"}, X, X)
        .values();
  };
  const auto pair = [](double x, double y, double angle) {
    return std::pair{x * std::cos(angle) - y * std::sin(angle),
                     x * std::sin(angle) + y * std::cos(angle)};
  };
  const auto [a, b] = pair(1, 2, 3);
  const auto [c, d] = pair(3, 4, 0.3);
  const auto [e, f] = pair(1, 3, 3);
  const auto [g, h] = pair(2, 4, 0.03);
  const std::vector<double> neighbours{a, b, c, d}, halves{e, g, f, h};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(turned(", base=100")[i] == doctest::Approx(neighbours[i]));
    CHECK(turned(", half=1")[i] == doctest::Approx(halves[i]));
  }
}

TEST_CASE("every initialiser has an example that starts a parameter with it") {
  for (const InitializerRow& row : initializers()) {
    CAPTURE(row.name);
    CHECK(std::string_view(row.usage).starts_with(text(row.name, "(")));
    CHECK(std::string_view(row.meaning) != "");
    const Checked program =
        check(Program::parse(text("def F(X[n, d], ", row.example, "):\n  where k = d\n",
                                  "  Y[n, k] = einsum(X[n, d], P[d, k])\n  return Y[n, k]\n")));
    REQUIRE(program.parameters.size() == 1);
    CHECK(program.parameters[0].start == &row);
  }
}

TEST_CASE("the gradient of every function of the notation is right to second order") {
  const Tensor X = random_normal({3, 4}, Key(1), Dtype::f64);
  const Tensor M = random_normal({5, 4}, Key(2), Dtype::f64);
  for (const Use& use : uses()) {
    CAPTURE(use.statements);
    const bool reads_both = std::string_view(use.statements).find("M[") != std::string_view::npos;
    const auto F = [&](const Tensors& in) { return run_use(use, in[0], reads_both ? in[1] : M); };
    Tensors inputs{X};
    if (reads_both) inputs.push_back(M);
    const GradReport report = check_gradient(F, inputs, {.order = 2, .entries = 6});
    CHECK(report.worst_of_order(1) < 1e-7);
    CHECK(report.worst_of_order(2) < 1e-6);
  }
}

TEST_CASE("every function of the notation gives a batch what it gives each sample") {
  const Tensor X = random_normal({2, 3, 4}, Key(3), Dtype::f64);
  const Tensor M = random_normal({2, 5, 4}, Key(4), Dtype::f64);
  const auto sample = [](const Tensor& x, Index i) {
    Shape shape = x.shape();
    shape.erase(0);
    return reshape(slice(x, 0, i, 1), shape);
  };
  for (const Use& use : uses()) {
    CAPTURE(use.statements);
    const Tensor Y = run_use(use, X, M);
    for (Index i = 0; i < 2; ++i) {
      const Tensor alone = run_use(use, sample(X, i), sample(M, i));
      REQUIRE(alone.shape() == sample(Y, i).shape());
      const std::vector<double> a = alone.values(), b = sample(Y, i).values();
      for (size_t k = 0; k < a.size(); ++k) CHECK(std::abs(a[k] - b[k]) < 1e-14);
    }
  }
}
