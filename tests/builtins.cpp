// The functions of the notation: each has a text here that uses it, and this walks the table.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/check/gradcheck.hpp"
#include "nn/run.hpp"

using namespace tete;

namespace {

// The statements of a def of X[n, d] and M[m, d]; the last defines the result.
struct Use {
  const char* function;
  const char* statements;
  const char* result;
  const char* where = "";
};

const Use uses[] = {
    {"einsum", "Y[n, m] = einsum(X[n, d], M[m, d])", "Y[n, m]"},
    {"exp", "Y[n, d] = exp(X[n, d])", "Y[n, d]"},
    {"log", "Y[n, d] = log(X[n, d]^2 + 0.5)", "Y[n, d]"},
    {"sqrt", "Y[n, d] = sqrt(X[n, d]^2 + 0.5)", "Y[n, d]"},
    {"sin", "Y[n, d] = sin(X[n, d])", "Y[n, d]"},
    {"cos", "Y[n, d] = cos(X[n, d])", "Y[n, d]"},
    {"tanh", "Y[n, d] = tanh(X[n, d])", "Y[n, d]"},
    {"erf", "Y[n, d] = erf(X[n, d])", "Y[n, d]"},
    {"sigmoid", "Y[n, d] = sigmoid(X[n, d])", "Y[n, d]"},
    {"softplus", "Y[n, d] = softplus(X[n, d])", "Y[n, d]"},
    {"relu", "Y[n, d] = relu(X[n, d])^2", "Y[n, d]"},
    {"elu", "Y[n, d] = elu(X[n, d])", "Y[n, d]"},
    {"silu", "Y[n, d] = silu(X[n, d])", "Y[n, d]"},
    {"gelu", "Y[n, d] = gelu(X[n, d])", "Y[n, d]"},
    {"gelu_erf", "Y[n, d] = gelu_erf(X[n, d])", "Y[n, d]"},
    {"abs", "Y[n, d] = abs(X[n, d])", "Y[n, d]"},
    {"floor", "Y[n, d] = X[n, d] * floor(X[n, d])", "Y[n, d]"},
    {"clip", "Y[n, d] = clip(X[n, d]^2, 0.5, 2)", "Y[n, d]"},
    {"select", "Y[n, d] = select(X[n, d] > 0, X[n, d]^2, 3)", "Y[n, d]"},
    {"softmax", "Y[n, d] = softmax(X[n, d], reduced_dim=d, mask=X[n, d] < 1)", "Y[n, d]"},
    {"log_softmax", "Y[n, d] = log_softmax(X[n, d], reduced_dim=n)", "Y[n, d]"},
    {"layer_norm", "Y[n, d] = layer_norm(X[n, d], dim=n)", "Y[n, d]"},
    {"rms_norm", "Y[n, d] = rms_norm(X[n, d], dim=d)", "Y[n, d]"},
    {"dropout", "Y[n, d] = dropout(X[n, d], shared=n)", "Y[n, d]"},
    {"sum", "Y[d] = sum(X[n, d], reduced_dim=n)", "Y[d]"},
    {"mean", "Y[n] = mean(X[n, d], reduced_dim=d)", "Y[n]"},
    {"max", "Y[n] = max(X[n, d], reduced_dim=d)", "Y[n]"},
    {"min", "Y[n] = min(X[n, d], reduced_dim=d)", "Y[n]"},
    {"any", "A[n, d] = X[n, d] > 1\n  Y[n, d] = X[n, d] * any(A[n, d], reduced_dim=d)", "Y[n, d]"},
    {"logsumexp", "Y[n] = logsumexp(X[n, d], reduced_dim=d)", "Y[n]"},
    {"position", "Y[n, d] = X[n, d] * position(n)", "Y[n, d]"},
    {"index", "Y[n, d] = X[n, d] * index(d)", "Y[n, d]"},
    {"visible", "Y[n, m, d] = select(visible(n, m), X[n, d] * M[m, d], 0)", "Y[n, m, d]"},
    {"gather", "Y[m, d] = gather(X[n, d], position(m) % n, dim=n)", "Y[m, d]"},
    {"scatter", "I[n] = position(n) // 2\n  Y[r, d] = scatter(X[n, d], I[n], reduced_dim=n, dim=r)",
     "Y[r, d]", "where r = 2"},
    {"top_k",
     "I[t, d] = top_k(X[n, d], reduced_dim=n, dim=t)\n  Y[t, d] = gather(X[n, d], I[t, d], dim=n)",
     "Y[t, d]", "where t = 2"},
    {"bucket", "Y[n, d] = X[n, d] * bucket(index(d) - position(n), 8, 20, 0)", "Y[n, d]"},
    {"windows",
     "A[c, w, d] = windows(M[m, d], dim=m, into=(c w), left=1, stride=2, fill=3)\n"
     "  Y[c, d] = einsum(A[c, w, d], A[c, w, d])",
     "Y[c, d]", "where w = 3, c = (m + 1 - w) // 2 + 1"},
    {"rotate", "Y[n, d] = rotate(X[n, d], position(n), dim=d)", "Y[n, d]"},
    {"softmax", "Y[n, d] = softmax(X[n, d], reduced_dim=d, mask=X[n, d] < 1, extra_logit=0.5)",
     "Y[n, d]"},
    {"softmax",
     "Z[n] = sum(X[n, d], reduced_dim=d)\n"
     "  Y[n, d] = softmax(X[n, d], reduced_dim=d, extra_logit=Z[n])",
     "Y[n, d]"},
    {"concat", "Y[q, d] = concat(X[n, d], M[m, d], dim=q)", "Y[q, d]", "where q = n + m"},
};

Tensor run_use(const Use& use, const Tensor& X, const Tensor& M) {
  const std::string program = text("def F(X[n, d], M[m, d]):\n  ", use.where, "\n  ",
                                   use.statements, "\n  return ", use.result, "\n");
  return run(program, {{"X", X}, {"M", M}});
}

}  // namespace

TEST_CASE("every function of the notation has a text that uses it") {
  for (const Builtin& function : builtins()) {
    CAPTURE(function.name);
    CHECK(std::string_view(function.usage).starts_with(text(function.name, "(")));
    CHECK(std::any_of(std::begin(uses), std::end(uses), [&](const Use& use) {
      return std::string_view(use.function) == function.name &&
             std::string_view(use.statements).find(text(function.name, "(")) !=
                 std::string_view::npos;
    }));
  }
}

TEST_CASE("the gradient of every function of the notation is right to second order") {
  const Tensor X = random_normal({3, 4}, Key(1), Dtype::f64);
  const Tensor M = random_normal({5, 4}, Key(2), Dtype::f64);
  for (const Use& use : uses) {
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
  for (const Use& use : uses) {
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
