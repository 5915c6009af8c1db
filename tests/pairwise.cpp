// Einsums of many operands over queries and memory run as statements of two (nn/run/pairwise.cpp):
// with the bits of a text that has these statements, and what hooks see is what the text names.
#include "nn/run/pairwise.hpp"

#include <set>

#include "core/check/gradcheck.hpp"
#include "core/graph.hpp"
#include "nn/run.hpp"
#include "tests/layer.hpp"
#include "tests/written.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

std::shared_ptr<const Checked> checked(const std::string& text) {
  return std::make_shared<const Checked>(check(Program::parse(text)));
}

// Noise for all inputs and parameters, by their names, of these sizes.
TensorsByName tensors_of(const std::shared_ptr<const Checked>& program, const SizesByName& sizes,
                         const Shape& batch) {
  SizeTable table(program, {});
  for (const auto& [name, size] : sizes)
    if (const int dim = program->find_dimension(name); dim >= 0) table.set(dim, size);
  TensorsByName made;
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    Shape shape = batch;
    for (int dim : program->values[program->inputs[i]].dims) shape.push_back(table.size(dim));
    made[program->input_names[i]] = noise(shape, made.size() + 1);
  }
  for (const ParameterSpec& p : parameter_specs(*program, table))
    made[p.spec.name] = noise(p.spec.shape, made.size() + 1);
  return made;
}

// The result and the gradients by all tensors, in the order of their names.
Tensors all_of(const std::shared_ptr<const Checked>& program, const TensorsByName& tensors,
               const RunOptions& options = {}) {
  TensorsByName variables;
  Tensors in;
  for (const auto& [name, x] : tensors) in.push_back(variables[name] = x.variable());
  const Tensor y = run(program, variables, options);
  Tensors all = grad(y, in, {.cotangent = noise(y.shape(), 99)});
  all.push_back(y.detach());
  return all;
}

void check_same_bits(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(a[i], b[i]));
  }
}

// The program that runs, or the given one.
std::shared_ptr<const Checked> chosen(const std::shared_ptr<const Checked>& program,
                                      const TensorsByName& tensors) {
  Tensors inputs;
  SizeTable sizes(program, {});
  for (const std::string& name : program->input_names) inputs.push_back(tensors.at(name));
  for (const CheckedParameter& p : program->parameters)
    sizes.bind(p.value, tensors.at(p.name).shape());
  const auto found = pairwise(*program, sizes, inputs, {});
  return found ? found : program;
}

// 1 but in every third place.
Tensor checkered(Index rows, Index columns) {
  std::vector<double> all;
  for (Index i = 0; i < rows * columns; ++i) all.push_back(i % 3 == 0 ? 0 : 1);
  return Tensor::of<double>({rows, columns}, all);
}

const std::string arguments =
    "X[q, c], M[u, i], A[c, e, a] = normal(1), B[i, e, a] = normal(1), D[i, f, a] = normal(1), "
    "E[y, f, a] = normal(1)";
const std::string concise = "def Near(" + arguments +
                            "):\n"
                            "  S[q, u, a] = einsum(X[q, c], M[u, i], A[c, e, a], B[i, e, a])\n"
                            "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n"
                            "  Y[q, y] = einsum(W[q, u, a], M[u, i], D[i, f, a], E[y, f, a])\n"
                            "  return Y[q, y]\n";
const std::string written_out = "def Near(" + arguments +
                                "):\n"
                                "  G[q, e, a] = einsum(X[q, c], A[c, e, a])\n"
                                "  H[u, e, a] = einsum(M[u, i], B[i, e, a])\n"
                                "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n"
                                "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n"
                                "  F[u, f, a] = einsum(M[u, i], D[i, f, a])\n"
                                "  R[q, f, a] = einsum(W[q, u, a], F[u, f, a])\n"
                                "  Y[q, y] = einsum(R[q, f, a], E[y, f, a])\n"
                                "  return Y[q, y]\n";
const SizesByName sizes = {{"q", 17}, {"u", 33}, {"c", 7}, {"i", 5},
                           {"e", 3},  {"f", 2},  {"a", 2}, {"y", 5}};

}  // namespace

TEST_SUITE("pairwise") {
  TEST_CASE("einsums of many operands have the bits of a text that names each product") {
    const auto program = checked(concise), meaning = checked(written_out);
    for (const Shape& batch : {Shape{}, Shape{3}, Shape{2, 3}}) {
      CAPTURE(batch);
      const TensorsByName tensors = tensors_of(program, sizes, batch);
      CHECK(chosen(program, tensors)->values.size() == meaning->values.size());
      check_same_bits(all_of(program, tensors), all_of(meaning, tensors));
      const RunOptions masked{.mask = {.visible = checkered(17, 33)}};
      check_same_bits(all_of(program, tensors, masked), all_of(meaning, tensors, masked));
    }
  }

  TEST_CASE("attention is found in what is written") {
    const auto program = checked(concise);
    const auto written = chosen(program, tensors_of(program, sizes, {}));
    const auto attends = [](const Checked& text) {
      return std::any_of(text.fusions.begin(), text.fusions.end(),
                         [](const Fusion& fusion) { return fusion.attention != nullptr; });
    };
    CHECK_FALSE(attends(*program));
    CHECK(attends(*written));
  }

  TEST_CASE("the order of products is that of the sizes, and may change from call to call") {
    const auto program = checked(concise);
    const auto written_for = [&](Index q, Index u) {
      SizesByName now = sizes;
      now["q"] = q, now["u"] = u, now["c"] = 12, now["i"] = 7, now["e"] = 11;
      const TensorsByName tensors = tensors_of(program, now, {});
      const Tensors one = all_of(program, tensors), other = all_of(checked(written_out), tensors);
      for (size_t i = 0; i < one.size(); ++i) CHECK(difference(one[i], other[i]) < 1e-9);
      return chosen(program, tensors);
    };
    const auto many = written_for(37, 41), few = written_for(2, 61);
    CHECK(many != program);
    CHECK(few != program);
    CHECK(few != many);
    CHECK(written_for(37, 41) == many);
  }

  TEST_CASE("statements of all kinds around are what they were") {
    struct Row {
      const char *arguments, *many, *two;
    };
    const Row rows[] = {
        // two such einsums in one statement, and a number
        {"A[c, e] = normal(1), B[x, e] = normal(1), C[c, e] = normal(1), D[x, e] = normal(1)",
         "  S[q, u] = einsum(X[q, c], A[c, e], B[x, e], M[u, x]) / sqrt(c) + "
         "einsum(X[q, c], C[c, e], D[x, e], M[u, x])\n",
         "  G[q, e] = einsum(X[q, c], A[c, e])\n"
         "  H[u, e] = einsum(B[x, e], M[u, x])\n"
         "  I[q, e] = einsum(X[q, c], C[c, e])\n"
         "  J[u, e] = einsum(D[x, e], M[u, x])\n"
         "  S[q, u] = einsum(G[q, e], H[u, e]) / sqrt(c) + einsum(I[q, e], J[u, e])\n"},
        // an element that is picked, and a dimension that is split
        {"A[r, s, e] = normal(1), B[x, e, t] = normal(1)",
         "  where r = 2, s = 3\n"
         "  S[q, u] = einsum(X[q, c=(r s)], A[r, s, e], B[x, e, 1], M[u, x])\n",
         "  where r = 2, s = 3\n"
         "  G[q, e] = einsum(X[q, c=(r s)], A[r, s, e])\n"
         "  H[u, e] = einsum(B[x, e, 1], M[u, x])\n"
         "  S[q, u] = einsum(G[q, e], H[u, e])\n"},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.many));
      const auto text = [&](const std::string& made) {
        return checked("def Near(X[q, c], M[u, x], " + std::string(row.arguments) + "):\n" + made +
                       "  W[q, u] = softmax(S[q, u], reduced_dim=u)\n"
                       "  D_w[q, u] = dropout(W[q, u])\n"
                       "  Y[q, x] = einsum(D_w[q, u], M[u, x])\n"
                       "  E[q] = mean(Y[q, x], reduced_dim=x)\n"
                       "  loss N[] = mean(E[q], reduced_dim=q)\n"
                       "  return Y[q, x]\n");
      };
      const auto many = text(row.many), two = text(row.two);
      const TensorsByName tensors = tensors_of(
          many, {{"q", 17}, {"u", 33}, {"c", 6}, {"x", 5}, {"e", 3}, {"r", 2}, {"s", 3}, {"t", 2}},
          {2});
      const RunOptions drops{.training = true, .dropout = 0.3, .key = Key(5)};
      CHECK(chosen(many, tensors) != many);
      check_same_bits(all_of(many, tensors, drops), all_of(two, tensors, drops));
    }
  }

  TEST_CASE("calls and parameters behind a statement keep their places") {
    const std::string called =
        "def Other(Z[q, c], M[u, i], C[c, e] = normal(1), D[i, e] = normal(1)):\n"
        "  S[q, u] = einsum(Z[q, c], M[u, i], C[c, e], D[i, e])\n"
        "  W[q, u] = softmax(S[q, u], reduced_dim=u)\n"
        "  Y[q, i] = einsum(W[q, u], M[u, i])\n"
        "  return Y[q, i]\n";
    const std::string caller =
        "def Near(X[q, c], M[u, i], A[c, e] = normal(1), B[i, e] = normal(1)):\n"
        "  S[q, u] = einsum(X[q, c], M[u, i], A[c, e], B[i, e])\n"
        "  W[q, u] = softmax(S[q, u], reduced_dim=u)\n"
        "  R[q, i] = einsum(W[q, u], M[u, i])\n"
        "  Z[q, i] = Other(R[q, i], M[u, i])\n"
        "  return Z[q, i]\n";
    const auto twos = [](std::string text) {
      text = replaced(text, "  S[q, u] = einsum(Z[q, c], M[u, i], C[c, e], D[i, e])\n",
                      "  G[q, e] = einsum(Z[q, c], C[c, e])\n  H[u, e] = einsum(M[u, i], D[i, e])\n"
                      "  S[q, u] = einsum(G[q, e], H[u, e])\n");
      return replaced(text, "  S[q, u] = einsum(X[q, c], M[u, i], A[c, e], B[i, e])\n",
                      "  G[q, e] = einsum(X[q, c], A[c, e])\n  H[u, e] = einsum(M[u, i], B[i, e])\n"
                      "  S[q, u] = einsum(G[q, e], H[u, e])\n");
    };
    const auto many = checked(caller + called), two = checked(twos(caller + called));
    TensorsByName tensors = tensors_of(many,
                                       {{"q", 17},
                                        {"u", 33},
                                        {"c", 6},
                                        {"i", 5},
                                        {"e", 3},
                                        {"Z.c", 5},
                                        {"Z.e", 2},
                                        {"Z.q", 17},
                                        {"Z.u", 33},
                                        {"Z.i", 5}},
                                       {2});
    CHECK(chosen(many, tensors) != many);
    check_same_bits(all_of(many, tensors), all_of(two, tensors));
    tensors["Z.C"] = noise({4, 2}, 1);
    const auto sentence = [&](const std::shared_ptr<const Checked>& program) {
      try {
        run(program, tensors);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    CHECK(sentence(many).find("'Z.c'") != std::string::npos);
  }

  TEST_CASE("more names than a tensor has, and sizes that the call's mask decides") {
    const auto agrees = [](const std::string& many, const std::string& two, bool is_causal) {
      const std::string rest =
          "  W[q, u, h] = softmax(S[q, u, h], reduced_dim=u)\n"
          "  Y[q, h, i] = einsum(W[q, u, h], N[u, i])\n  return Y[q, h, i]\n";
      SizesByName small = {{"q", 4}, {"u", 4}, {"i", 3}, {"k", 3}, {"h", 2}};
      for (const char* name :
           {"a", "b", "c", "d", "e", "f", "g", "j", "l", "m", "o", "p", "r", "s"})
        small[name] = 2;
      const auto one = checked(many + rest), other = checked(two + rest);
      const TensorsByName tensors = tensors_of(one, small, {});
      const RunOptions options{.mask = {.causal = is_causal}};
      CHECK(difference(run(one, tensors, options), run(other, tensors, options)) < 1e-10);
    };
    const std::string wide =
        "def Near(X[q, a, b, c, d, e, f], M[u, g, j, l, m, o, p], N[u, i], "
        "A[a, b, c, d, e, f, k, h] = normal(1), B[g, j, l, m, o, p, k, r, h] = normal(1), "
        "C[r, s] = normal(1)):\n";
    agrees(wide +
               "  S[q, u, h] = einsum(X[q, a, b, c, d, e, f], M[u, g, j, l, m, o, p], "
               "A[a, b, c, d, e, f, k, h], B[g, j, l, m, o, p, k, r, h], C[r, s], C[r, s])\n",
           wide +
               "  G[q, k, h] = einsum(X[q, a, b, c, d, e, f], A[a, b, c, d, e, f, k, h])\n"
               "  T[r] = einsum(C[r, s], C[r, s])\n"
               "  H[u, k, r, h] = einsum(M[u, g, j, l, m, o, p], B[g, j, l, m, o, p, k, r, h])\n"
               "  I[u, k, h] = einsum(H[u, k, r, h], T[r])\n"
               "  S[q, u, h] = einsum(G[q, k, h], I[u, k, h])\n",
           false);
    const std::string windows =
        "def Near(X[q, d], M[u, c], N[u, i], P[d, k, h] = normal(1), Q[c, k, h] = normal(1)):\n"
        "  where t = 2 + causal\n"
        "  A[u, t, c] = windows(M[u, c], dim=u, into=(u t), left=t-1)\n"
        "  F[t] = 1 + index(t)\n";
    for (bool is_causal : {false, true})
      agrees(windows + "  S[q, u, h] = einsum(X[q, d], A[u, t, c], F[t], P[d, k, h], Q[c, k, h])\n",
             windows +
                 "  G[q, k, h] = einsum(X[q, d], P[d, k, h])\n"
                 "  B[u, c] = einsum(A[u, t, c], F[t])\n"
                 "  H[u, k, h] = einsum(B[u, c], Q[c, k, h])\n"
                 "  S[q, u, h] = einsum(G[q, k, h], H[u, k, h])\n",
             is_causal);
  }

  TEST_CASE("a gradient outlives what was written for its value") {
    const auto program = checked(concise);
    const TensorsByName tensors = tensors_of(program, sizes, {2});
    TensorsByName variables;
    Tensors in;
    for (const auto& [name, x] : tensors) in.push_back(variables[name] = x.variable());
    const Tensor y = run(program, variables);
    for (int i = 0; i < 20; ++i)  // more than are kept
      program->pairwise->written.get(std::to_string(i), [] { return Checked(); });
    Tensors late = grad(y, in, {.cotangent = noise(y.shape(), 99)});
    late.push_back(y.detach());
    check_same_bits(late, all_of(program, tensors));
  }

  TEST_CASE("hooks see what the text names, and change no bit") {
    const auto program = checked(concise);
    const TensorsByName tensors = tensors_of(program, sizes, {2});
    std::multiset<std::string> seen;
    RunOptions options;
    options.watch = [&](const std::string& name, const Tensor&) { seen.insert(name); };
    const Tensor y = run(program, tensors, options);
    CHECK(seen == std::multiset<std::string>{"A", "B", "D", "E", "S", "W", "Y"});
    CHECK(same_bits(y, run(program, tensors)));
  }

  TEST_CASE("gradients to second order") {
    const auto program = checked(concise);
    const TensorsByName tensors = tensors_of(program, sizes, {2});
    Tensors values;
    for (const auto& [name, x] : tensors) values.push_back(x);
    const auto call = [&](const Tensors& in) {
      TensorsByName now = tensors;
      auto x = in.begin();
      for (auto& [name, tensor] : now) tensor = *x++;
      return run(program, now);
    };
    const GradReport report = check_gradient(call, values, {.order = 2, .full = 0, .entries = 3});
    CAPTURE(report);
    CHECK(report.passed());
  }

  TEST_CASE("a text stays as it is where pairs would store more, or there are none") {
    const auto stays = [](const std::string& text, const SizesByName& given) {
      const auto program = checked(text);
      return chosen(program, tensors_of(program, given, {})) == program;
    };
    const std::string bilinear =
        "def Near(X[q, c], M[u, i], P[c, i, a] = normal(1)):\n"
        "  S[q, u, a] = einsum(X[q, c], M[u, i], P[c, i, a])\n"
        "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n"
        "  Y[q, a, i] = einsum(W[q, u, a], M[u, i])\n"
        "  return Y[q, a, i]\n";
    SizesByName few_heads = {{"q", 17}, {"u", 33}, {"c", 7}, {"i", 7}, {"a", 2}},
                many_heads = few_heads;
    many_heads["a"] = 5;
    CHECK_FALSE(stays(bilinear, few_heads));
    CHECK(stays(bilinear, many_heads));
    CHECK(stays(written_out, sizes));
    CHECK(
        stays("def Far(X[q, c], A[c, e] = normal(1), B[e, y] = normal(1)):\n"
              "  Y[q, y] = einsum(X[q, c], A[c, e], B[e, y])\n"
              "  return Y[q, y]\n",
              sizes));
  }

  TEST_CASE("sizes that contradict are refused as ever") {
    const auto program = checked(concise);
    TensorsByName tensors = tensors_of(program, sizes, {});
    tensors["M"] = noise({33, 6}, 1);
    CHECK_THROWS_WITH_AS(run(program, tensors), doctest::Contains("'i'"), Error);
  }
}
