// Einsums of many operands over queries and memory run as statements of two (nn/run/in_pairs.cpp):
// with the bits of a text that has these statements, and what hooks see is what the text names.
#include "nn/run/in_pairs.hpp"

#include <set>

#include "core/check/gradcheck.hpp"
#include "core/graph.hpp"
#include "nn/run.hpp"
#include "tests/layer.hpp"

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
  const auto found = in_pairs(*program, sizes, inputs);
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

TEST_SUITE("in pairs") {
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

  TEST_CASE("the order of products is that of the sizes, and may change from call to call") {
    const auto program = checked(concise);
    const auto pairs_for = [&](Index q, Index u) {
      SizesByName now = sizes;
      now["q"] = q, now["u"] = u, now["c"] = 3, now["i"] = 11, now["e"] = 11;
      const TensorsByName tensors = tensors_of(program, now, {});
      const Tensors one = all_of(program, tensors);
      const Tensors other = all_of(checked(written_out), tensors);
      for (size_t i = 0; i < one.size(); ++i) CHECK(difference(one[i], other[i]) < 1e-10);
      return chosen(program, tensors);
    };
    const auto many = pairs_for(37, 41), few = pairs_for(2, 61);
    CHECK(many != program);
    CHECK(few != many);
    CHECK(pairs_for(37, 41) == many);
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
