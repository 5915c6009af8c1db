// Parts of a text that run in one pass (nn/run/fusion.cpp): they are found whatever the letters,
// have the bits of the steps that a hook sees, and gradients to second order.
#include <set>

#include "core/check/gradcheck.hpp"
#include "core/graph.hpp"
#include "nn/run.hpp"
#include "tests/layer.hpp"
#include "tests/strict_device.hpp"
#include "tests/written.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

struct Ran {
  Tensor y;
  Tensors gradients;
  std::string operations;  // as they were recorded, but for views
};

struct Text {
  std::shared_ptr<const Checked> program;
  std::vector<Tensor> values;  // the inputs, then the parameters

  // Noise for each, of the sizes that the def has among these.
  Text(const std::string& text, const SizesByName& sizes, const Shape& batch)
      : program(std::make_shared<const Checked>(check(Program::parse(text)))) {
    SizeTable table(program, {});
    for (const auto& [name, size] : sizes)
      if (const int dim = program->find_dimension(name); dim >= 0) table.set(dim, size);
    for (int input : program->inputs) {
      Shape shape = batch;
      for (int dim : program->values[input].dims) shape.push_back(table.size(dim));
      values.push_back(noise(shape, values.size() + 1));
    }
    for (const ParameterSpec& made : parameter_specs(*program, table))
      values.push_back(noise(made.spec.shape, values.size() + 1));
  }

  Tensor operator()(const Tensors& in, const Forward& hooks) const {
    const auto end = in.begin() + std::ssize(program->inputs);
    const Tensors inputs(in.begin(), end), params(end, in.end());
    std::vector<ParamId> ids;
    for (int i = 0; i < std::ssize(params); ++i) ids.push_back({i});
    Forward forward = hooks.with(params);
    return run(*program, SizeTable(program, {}), inputs, ids, forward);
  }

  Ran ran(const Forward& hooks = none()) const {
    Tensors variables;
    for (const Tensor& value : values) variables.push_back(value.variable());
    Ran ran;
    {
      const RecordWatch watch([&](const Tensor& made) {
        const std::string op = made.made_by()->op;
        if (op != "expand" && op != "permute" && op != "alias") ran.operations += op + " ";
        return made;
      });
      ran.y = (*this)(variables, hooks);
    }
    ran.gradients = grad(ran.y, variables, {.cotangent = noise(ran.y.shape(), 99)});
    return ran;
  }

  static const Forward& none() {
    static const Tensors nothing;
    static const Forward forward{.params = nothing};
    return forward;
  }
};

// A hook that looks at the values of these names, and counts what it sees.
struct Look {
  int seen = 0;
  Forward forward;
  explicit Look(std::set<std::string> names)
      : forward{.params = Text::none().params,
                .watch = [this](const std::string&, const Tensor&) { ++seen; },
                .watched = [names](const std::string& name) { return names.contains(name); }} {}
  Look(const Look&) = delete;
};

// A hook that multiplies the value of this name.
Forward replacing(const char* which, double factor) {
  Forward forward = Text::none();
  forward.replace = [factor](const std::string&, const Tensor& x) { return x * factor; };
  forward.replaced = [which](const std::string& path) { return path == which; };
  return forward;
}

void check_same_bits(const Ran& a, const Ran& b) {
  CHECK(same_bits(a.y, b.y));
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(a.gradients[i], b.gradients[i]));
  }
}

void check_close(const Ran& a, const Ran& b) {
  CHECK(difference(a.y, b.y) < 1e-12);
  for (size_t i = 0; i < a.gradients.size(); ++i)  // a truth has none
    if (a.gradients[i] || b.gradients[i]) CHECK(difference(a.gradients[i], b.gradients[i]) < 1e-12);
}

// A run's norms by themselves, and those that came with a sum.
void check_kernels(const Text& text, const std::pair<int, int>& norms) {
  StrictDevice device;
  Tensors there;
  for (const Tensor& value : text.values) there.push_back(value.to(device));
  text(there, Text::none());
  CHECK(std::pair<int, int>(device.norms, device.sums_with_norm) == norms);
}

void check_second_order(const Text& text) {
  const GradReport report =
      check_gradient([&](const Tensors& in) { return text(in, Text::none()); }, text.values,
                     {.order = 2, .full = 0, .entries = 3});
  CAPTURE(report);
  CHECK(report.passed());
}

std::string def(const std::string& arguments, const std::string& statements,
                const std::string& result) {
  return "def T(" + arguments + "):\n" + statements + "  return " + result + "\n";
}

const SizesByName odd = {{"q", 3}, {"u", 5}, {"e", 7}};

}  // namespace

TEST_SUITE("fusion") {
  TEST_CASE("a function of a sum with a parameter stores no sum") {
    const char* const arguments = "G[q, u, e], c[u] = zeros()";
    for (const char* f : {"relu", "gelu", "gelu_erf", "silu", "tanh", "softplus"}) {
      CAPTURE(f);
      const auto text = [&](const std::string& statements) {
        return Text(def(arguments, replaced(statements, "f(", std::string(f) + "("), "R[q, u, e]"),
                    odd, {2});
      };
      const Text at_once = text("  R[q, u, e] = f(G[q, u, e] + c[u])\n"),
                 turned = text("  R[q, u, e] = f(c[u] + G[q, u, e])\n"),
                 in_steps =
                     text("  K[q, u, e] = G[q, u, e] + c[u]\n  R[q, u, e] = f(K[q, u, e])\n"),
                 crossed = text("  K[e, q, u] = c[u] + G[q, u, e]\n  R[q, u, e] = f(K[e, q, u])\n");
      const Ran ran = at_once.ran();
      CHECK(ran.operations == "unary_of_sum ");
      for (const Text* other : {&turned, &in_steps, &crossed}) {
        CHECK(other->ran().operations.starts_with("unary_of_sum "));
        check_same_bits(other->ran(), ran);
        check_second_order(*other);
      }
      Look look({"K"});
      const Ran seen = in_steps.ran(look.forward);
      CHECK(look.seen == 1);
      CHECK(seen.operations == "add " + std::string(f) + " ");
      check_same_bits(seen, ran);
    }
  }

  TEST_CASE("a def's function of its caller's sum stores no sum, either") {
    const std::string text =
        "def Bent(X[n, d]):\n  Y[n, d] = tanh(X[n, d])\n  return Y[n, d]\n"
        "def T(G[q, e], c[e] = zeros()):\n"
        "  K[q, e] = G[q, e] + c[e]\n"
        "  R[q, e] = Bent(K[q, e])\n"
        "  S[q, e] = R[q, e] * G[q, e]\n"
        "  return S[q, e]\n";
    const Text called(text, odd, {});
    CHECK(called.ran().operations == "unary_of_sum mul ");
    for (const char* name : {"K", "R.X"}) {
      Look look({name});
      const Ran seen = called.ran(look.forward);
      CHECK(look.seen == 1);
      CHECK(seen.operations == "add tanh mul ");
      check_same_bits(seen, called.ran());
    }
    check_second_order(called);
  }

  TEST_CASE("a sum that something else reads, or without a parameter, is stored") {
    const auto operations = [](const std::string& arguments, const std::string& statements) {
      return Text(def(arguments, statements, "R[q, e]"), odd, {2}).ran().operations;
    };
    const std::string sum = "  K[q, e] = G[q, e] + c[e]\n";
    CHECK(operations("G[q, e], c[e] = zeros()", sum + "  H[q, e] = tanh(K[q, e])\n"
                                                      "  R[q, e] = H[q, e] * K[q, e]\n") ==
          "add tanh mul ");
    CHECK(operations("G[q, e], c[e]", "  R[q, e] = tanh(G[q, e] + c[e])\n") == "add tanh ");
    CHECK(operations("G[q, e], c[e] = zeros()", "  R[q, e] = tanh(G[q, e] - c[e])\n") ==
          "sub tanh ");
  }

  TEST_CASE("a norm takes its scale and bias along, over any dimension") {
    const char* const arguments = "G[q, u, e], p[u] = ones(), c[u] = zeros()";
    const auto text = [&](const std::string& statements) {
      return Text(def(arguments, statements, "R[q, u, e]"), odd, {2});
    };
    const Text steps = text(
        "  K[q, u, e] = layer_norm(G[q, u, e], dim=u, eps=0.01)\n"
        "  J[q, u, e] = K[q, u, e] * p[u]\n"
        "  R[q, u, e] = J[q, u, e] + c[u]\n");
    CHECK(steps.ran().operations.find("mul ") != std::string::npos);
    for (const char* right : {"layer_norm(G[q, u, e], dim=u, eps=0.01) * p[u] + c[u]",
                              "c[u] + p[u] * layer_norm(G[q, u, e], dim=u, eps=0.01)"}) {
      const Text at_once = text(std::string("  R[q, u, e] = ") + right + "\n");
      CHECK(at_once.ran().operations.find("mul ") == std::string::npos);
      check_close(at_once.ran(), steps.ran());
      check_second_order(at_once);
    }
  }

  TEST_CASE("RMS norm takes its scale along, and no bias") {
    const auto text = [&](const std::string& statements) {
      return Text(def("G[q, e], p[e] = ones(), c[e] = zeros()", statements, "R[q, e]"), odd, {2});
    };
    const Text at_once = text("  R[q, e] = rms_norm(G[q, e], dim=e) * p[e] + c[e]\n"),
               steps = text(
                   "  K[q, e] = rms_norm(G[q, e], dim=e)\n"
                   "  J[q, e] = K[q, e] * p[e]\n"
                   "  R[q, e] = J[q, e] + c[e]\n");
    CHECK(at_once.ran().operations == "rms_norm add ");
    check_close(at_once.ran(), steps.ran());
    check_second_order(at_once);
  }

  TEST_CASE("a norm's scale that differs by sample is no parameter of the kernel") {
    const Text text(
        def("G[q, e], p[e]", "  R[q, e] = layer_norm(G[q, e], dim=e) * p[e]\n", "R[q, e]"), odd,
        {2});
    CHECK(text.ran().operations == "layer_norm mul ");
    check_second_order(text);
  }

  TEST_CASE("a sum is computed with its norm, and is what a hook makes of it") {
    for (const std::string norm : {"layer_norm(S[q, e], dim=e, eps=0.3) * p[e] + c[e]",
                                   "rms_norm(S[q, e], dim=e, eps=0.3) * p[e]"}) {
      CAPTURE(norm);
      const auto text = [&](const std::string& sum) {
        return Text(def("G[q, e], H[q, e], p[e] = ones(), c[e] = zeros()",
                        "  S[q, e] = " + sum + "\n  A[q, e] = tanh(S[q, e]) * c[e]\n  N[q, e] = " +
                            norm + "\n  R[q, e] = A[q, e] + S[q, e] * N[q, e]\n",
                        "R[q, e]"),
                    odd, {2});
      };
      const Text both = text("G[q, e] + H[q, e]"), apart = text("(G[q, e] + H[q, e]) * 1");
      check_kernels(both, {0, 1});
      check_kernels(apart, {1, 0});
      check_same_bits(both.ran(), apart.ran());
      check_second_order(both);
      Look look({"S"});
      check_same_bits(both.ran(look.forward), both.ran());
      CHECK(look.seen == 1);
      Forward doubled = Text::none();
      for (const char* which : {"S", "p"}) {
        doubled.replace = [](const std::string&, const Tensor& x) { return x * 2.0; };
        doubled.replaced = [which](const std::string& path) { return path == which; };
        check_same_bits(both.ran(doubled), apart.ran(doubled));
        CHECK(difference(both.ran(doubled).y, both.ran().y) > 1e-3);
      }
    }
  }

  TEST_CASE("heads that are mixed around a softmax are mixed in one pass, whatever the letters") {
    const SizesByName sizes = {{"q", 3}, {"u", 129}, {"e", 5}, {"a", 7}, {"i", 2}};
    const auto text = [&](const std::string& statements, const char* result) {
      return Text(def("G[q, e, u], c[e, a], k[a, i]", statements, result), sizes, {});
    };
    const std::string logits = "  S[q, a, u] = einsum(c[e, a], G[q, e, u])\n",
                      weights = "  W[q, a, u] = softmax(S[q, a, u], reduced_dim=u)\n",
                      turned_logits = "  S[u, a, q] = einsum(G[q, e, u], c[e, a])\n",
                      turned_weights = "  W[u, q, a] = softmax(S[u, a, q], reduced_dim=u)\n";
    const Text both = text(logits + weights + "  R[q, i, u] = einsum(W[q, a, u], k[a, i])\n",
                           "R[q, i, u]"),
               first =
                   text(logits + weights + "  R[q, a, u] = W[q, a, u] * k[a, 0]\n", "R[q, a, u]"),
               turned = text(
                   turned_logits + turned_weights + "  R[i, q, u] = einsum(k[a, i], W[u, q, a])\n",
                   "R[i, q, u]");
    for (const Text* each : {&both, &first, &turned}) {
      const Ran steps = each->ran(replacing("S", 1)), at_once = each->ran();
      CHECK(steps.operations.starts_with("contract mul softmax "));
      CHECK(at_once.operations ==
            (each == &first ? "mixed_softmax slice reshape mul " : std::string("mixed_softmax ")));
      check_close(steps, at_once);
      check_second_order(*each);
      for (const char* which : {"S", "W"}) {
        if (which == std::string("W") && each == &first) continue;  // it is read itself
        Look look({which});
        const Ran seen = each->ran(look.forward);
        CHECK(look.seen == 1);
        CHECK(seen.operations.find("mixed_softmax ") != std::string::npos);
        check_same_bits(seen, at_once);
      }
      if (each == &turned) continue;  // its steps are other kernels
      CHECK(same_bits(steps.y, at_once.y));
      CHECK(same_bits(steps.gradients[0], at_once.gradients[0]));
    }
    // No heads, or no keys.
    for (const auto& [in, heads, out, keys] :
         {std::array<Index, 4>{0, 2, 3, 130}, {2, 0, 3, 130}, {2, 3, 0, 130}, {2, 3, 4, 0}}) {
      const bool without_logits = in == 0;
      const Tensor x = noise({5, in, keys}, 1).variable(), P = noise({in, heads}, 2).variable(),
                   R = noise({heads, out}, 3).variable();
      const Tensor y = mixed_softmax(x, P, {}, R);
      CHECK(y.shape() == Shape{5, out, keys});
      const Tensor all[] = {x, P, R};
      for (const Tensor& found : grad(y, all))
        for (double each : found.values())  // without logits, each head's weights add up to 1
          CHECK((each == 0 || (without_logits && std::abs(each - 5) < 1e-9)));
    }
    CHECK(difference(both.ran(replacing("S", 0.5)).y, both.ran().y) > 1e-3);
  }

  TEST_CASE("a softmax of logits that something else reads, or are no mix, stays by itself") {
    const SizesByName sizes = {{"q", 3}, {"u", 129}, {"e", 5}, {"a", 7}};
    const auto operations = [&](const std::string& statements) {
      std::string arguments = "G[q, u, e]";
      for (const char* one : {"c[e, a]", "b[u, a]", "f[e, a, u]"})
        if (statements.find(one) != std::string::npos) arguments += std::string(", ") + one;
      return Text(def(arguments, statements, "R[q, a, u]"), sizes, {}).ran().operations;
    };
    const std::string mix = "  S[q, a, u] = einsum(G[q, u, e], c[e, a])\n",
                      soft = "  W[q, a, u] = softmax(S[q, a, u], reduced_dim=u)\n",
                      end = "  R[q, a, u] = W[q, a, u] * b[u, a]\n";
    CHECK(operations(mix + soft + end) == "mixed_softmax mul ");
    for (const std::string& other :
         {mix + soft + "  R[q, a, u] = W[q, a, u] * S[q, a, u]\n",
          mix + "  W[q, a, u] = softmax(S[q, a, u], reduced_dim=a)\n" + end,
          mix + "  W[q, a, u] = softmax(S[q, a, u], reduced_dim=u, extra_logit=0)\n" + end,
          "  S[q, a, u] = einsum(G[q, u, e], f[e, a, u])\n" + soft + end}) {
      CAPTURE(other);
      CHECK(operations(other).find("mixed_softmax") == std::string::npos);
    }
  }

  TEST_CASE("attention is computed in one pass, whatever the letters") {
    const SizesByName sizes = {{"q", 17}, {"u", 33}, {"e", 3}, {"a", 2}, {"i", 5}};
    const auto text = [&](const std::string& arguments, const std::string& statements,
                          const char* result) {
      return Text(def(arguments, statements, result), sizes, {2});
    };
    const std::string soft = "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n";
    const Text heads = text("G[q, e, a], H[u, e, a], F[u, i, a]",
                            "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n" + soft +
                                "  R[q, i, a] = einsum(W[q, u, a], F[u, i, a])\n",
                            "R[q, i, a]"),
               turned = text("G[a, e, q], H[u, a, e], F[i, u, a]",
                             "  S[u, a, q] = einsum(H[u, a, e], G[a, e, q])\n"
                             "  W[u, q, a] = softmax(S[u, a, q], reduced_dim=u)\n"
                             "  R[i, a, q] = einsum(F[i, u, a], W[u, q, a])\n",
                             "R[i, a, q]"),
               one = text("G[q, e], H[u, e], F[u, i]",
                          "  S[q, u] = einsum(G[q, e], H[u, e])\n"
                          "  W[q, u] = softmax(S[q, u], reduced_dim=u)\n"
                          "  R[q, i] = einsum(W[q, u], F[u, i])\n",
                          "R[q, i]"),
               masked = text("G[q, e, a], H[u, e, a], F[u, i, a], Z[q, u]",
                             "  B[q, u] = Z[q, u] > 0\n"
                             "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n"
                             "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u, mask=B[q, u])\n"
                             "  R[q, i, a] = einsum(W[q, u, a], F[u, i, a])\n",
                             "R[q, i, a]");
    for (const Text* each : {&heads, &turned, &one, &masked}) {
      const Ran steps = each->ran(replacing("S", 1)), at_once = each->ran();
      CHECK(steps.operations.ends_with("contract mul softmax contract "));
      CHECK(at_once.operations.ends_with("attend "));
      CHECK(at_once.operations.find("contract") == std::string::npos);
      check_close(steps, at_once);
      check_second_order(*each);
      for (const char* which : {"S", "W"}) {
        CHECK(difference(each->ran(replacing(which, 0.5)).y, at_once.y) > 1e-3);
        Look look({which});
        const Ran seen = each->ran(look.forward);
        CHECK(look.seen == 1);
        CHECK(seen.operations.ends_with("attend "));
        CHECK(seen.operations.find("contract ") != std::string::npos);
        CHECK(same_bits(seen.y, at_once.y));
        for (size_t i = 0; i < 3; ++i) CHECK(same_bits(seen.gradients[i], at_once.gradients[i]));
      }
    }
  }

  TEST_CASE("attention whose heads are mixed is computed in one pass, whatever the letters") {
    const SizesByName sizes = {{"q", 17}, {"u", 33}, {"e", 3}, {"a", 2},
                               {"i", 5},  {"r", 4},  {"s", 8}};
    const auto text = [&](const std::string& arguments, const std::string& statements) {
      return Text(def("G[q, e, a], H[u, e, a], " + arguments, statements, "R[q, i, s]"), sizes, {});
    };
    const std::string products = "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n",
                      last = "  R[q, i, s] = einsum(Z[q, u, s], F[u, i, s])\n";
    const Text both = text("F[u, i, s], c[a, r], k[r, s]",
                           products +
                               "  L[q, u, r] = einsum(S[q, u, a], c[a, r])\n"
                               "  W[q, u, r] = softmax(L[q, u, r], reduced_dim=u)\n"
                               "  Z[q, u, s] = einsum(W[q, u, r], k[r, s])\n" +
                               last),
               turned = text("F[s, u, i], c[r, a], k[s, r]",
                             "  S[a, u, q] = einsum(H[u, e, a], G[q, e, a])\n"
                             "  L[u, r, q] = einsum(c[r, a], S[a, u, q])\n"
                             "  W[r, q, u] = softmax(L[u, r, q], reduced_dim=u)\n"
                             "  Z[u, s, q] = einsum(k[s, r], W[r, q, u])\n"
                             "  R[q, i, s] = einsum(F[s, u, i], Z[u, s, q])\n"),
               before = text("F[u, i, s], c[a, s]",
                             products +
                                 "  L[q, u, s] = einsum(S[q, u, a], c[a, s])\n"
                                 "  Z[q, u, s] = softmax(L[q, u, s], reduced_dim=u)\n" +
                                 last),
               after = text("F[u, i, s], k[a, s]",
                            products +
                                "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n"
                                "  Z[q, u, s] = einsum(W[q, u, a], k[a, s])\n" +
                                last);
    for (const Text* each : {&both, &turned, &before, &after}) {
      Forward steps = Text::none();
      steps.replace = [](const std::string&, const Tensor& x) { return x; };
      steps.replaced = [](const std::string& path) { return path == "S"; };
      const Ran at_once = each->ran(), in_steps = each->ran(steps);
      CHECK(at_once.operations == "attend ");
      CHECK(in_steps.operations.find("attend") == std::string::npos);
      check_close(in_steps, at_once);
      check_second_order(*each);
      for (const char* which : {"S", "L", "W", "Z"}) {
        Look look({which});
        const Ran seen = each->ran(look.forward);
        CHECK(same_bits(seen.y, at_once.y));
        for (size_t i = 0; i < 3; ++i) CHECK(same_bits(seen.gradients[i], at_once.gradients[i]));
        Forward halved = steps;
        halved.replace = [](const std::string&, const Tensor& x) { return x * 0.5; };
        halved.replaced = [which](const std::string& path) { return path == which; };
        const Ran changed = each->ran(halved);
        CHECK((changed.operations.find("attend") == std::string::npos) == (look.seen == 1));
        if (look.seen == 1) CHECK(difference(changed.y, at_once.y) > 1e-4);
      }
    }
    Text samples = both;
    samples.values[0] = noise({4, 17, 3, 2}, 5);
    CHECK(samples.ran().operations == "attend ");
    check_second_order(samples);
    // A matrix for each sample runs in steps.
    for (const size_t matrix : {3, 4}) {
      Text each_its_own = both;
      each_its_own.values[matrix] = noise({4, matrix == 3 ? 2 : 4, matrix == 3 ? 4 : 8}, 6);
      CHECK(each_its_own.ran().operations.find("attend") == std::string::npos);
      check_second_order(each_its_own);
    }
    // Run in steps: mixes by a matrix for each query, and logits that are read twice.
    for (const Text& other :
         {text("F[u, i, s], c[q, a, s]", products +
                                             "  L[q, u, s] = einsum(S[q, u, a], c[q, a, s])\n"
                                             "  Z[q, u, s] = softmax(L[q, u, s], reduced_dim=u)\n" +
                                             last),
          text("F[u, i, s], c[a, s]", products +
                                          "  L[q, u, s] = einsum(S[q, u, a], c[a, s])\n"
                                          "  Y[q, u, s] = softmax(L[q, u, s], reduced_dim=u)\n"
                                          "  Z[q, u, s] = Y[q, u, s] * L[q, u, s]\n" +
                                          last)}) {
      CHECK(other.ran().operations.find("attend") == std::string::npos);
      check_second_order(other);
    }
  }

  TEST_CASE("factors, biases and heads of one memory belong to attention, whatever the letters") {
    const SizesByName sizes = {{"q", 17}, {"u", 33}, {"e", 3}, {"a", 6},
                               {"i", 5},  {"g", 2},  {"s", 3}, {"r", 8}};
    const auto text = [&](const std::string& arguments, const std::string& statements,
                          const char* result) {
      return Text(def(arguments, statements, result), sizes, {2});
    };
    const std::string given = "G[q, e, a], H[u, e, a], F[u, i, a]",
                      products = "  J[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n",
                      soft = "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n",
                      last = "  R[q, i, a] = einsum(W[q, u, a], F[u, i, a])\n", softs = soft + last;
    const std::string mixing_text =
        def("G[q, e, a], H[u, e, a], F[u, i, r], k[a, r], b[q, u, r], c[a]",
            products +
                "  L[q, u, a] = J[q, u, a] * c[a]\n"
                "  S[q, u, r] = einsum(L[q, u, a], k[a, r]) / 2 + b[q, u, r]\n"
                "  W[q, u, r] = softmax(S[q, u, r], reduced_dim=u)\n"
                "  R[q, i, r] = einsum(W[q, u, r], F[u, i, r])\n",
            "R[q, i, r]");
    Text mixing(mixing_text, sizes, {2}), rows(mixing_text, sizes, {2, 3});
    mixing.values[3] = noise({6, 8}, 7);  // one matrix of all samples
    rows.values[3] = noise({6, 8}, 7);
    const Text alone(mixing_text, sizes, {});
    for (const Text& each :
         {mixing, rows, alone,
          text(given, products + "  S[q, u, a] = J[q, u, a] / sqrt(e)\n" + softs, "R[q, i, a]"),
          text(given + ", b[a], c[q, a], d[u, a]",
               products +
                   "  S[q, u, a] = b[a] * J[q, u, a] / ((3 + c[q, a]) * exp(d[u, a]) / (4 + "
                   "b[a]))\n" +
                   softs,
               "R[q, i, a]"),
          text(given + ", b[q, u, a], c[u]",
               products + "  S[q, u, a] = b[q, u, a] + 0.5 * J[q, u, a] - c[u]\n" + softs,
               "R[q, i, a]"),
          text("G[q, e, a], H[u, e], F[u, i]",
               "  J[q, u, a] = einsum(G[q, e, a], H[u, e])\n"
               "  S[q, u, a] = 3 * J[q, u, a]\n" +
                   soft + "  R[q, i, a] = einsum(W[q, u, a], F[u, i])\n",
               "R[q, i, a]"),
          text("G[q, e, a], H[u, e, g], F[u, i, g], b[u, a], c[a]",
               "  where s = a / g\n"
               "  J[q, u, a=(g s)] = einsum(G[q, e, a=(g s)], H[u, e, g])\n"
               "  S[q, u, a]       = c[a] * J[q, u, a] + b[u, a]\n" +
                   soft + "  R[q, i, a=(g s)] = einsum(W[q, u, a=(g s)], F[u, i, g])\n",
               "R[q, i, a]")}) {
      Forward steps = Text::none();
      steps.replace = [](const std::string&, const Tensor& x) { return x; };
      steps.replaced = [](const std::string& path) { return path == "J" || path == "W"; };
      const Ran at_once = each.ran(), in_steps = each.ran(steps);
      CAPTURE(at_once.operations);
      CHECK(at_once.operations.find("attend ") != std::string::npos);
      CHECK(at_once.operations.find("contract") == std::string::npos);
      CHECK(in_steps.operations.find("attend") == std::string::npos);
      check_close(in_steps, at_once);
      check_second_order(each);
      for (const char* which : {"J", "S", "W"}) {
        Look look({which});
        CHECK(same_bits(each.ran(look.forward).y, at_once.y));
        CHECK(look.seen == 1);
      }
    }
    Text one_bias =
        text(given + ", b[q, u, a]", products + "  S[q, u, a] = J[q, u, a] + b[q, u, a]\n" + softs,
             "R[q, i, a]");
    one_bias.values[3] = noise({17, 33, 6}, 7);
    CHECK(one_bias.ran().operations.find("attend ") != std::string::npos);
    check_second_order(one_bias);
  }

  TEST_CASE("dropped weights of attention have the noise of their statement") {
    const Text text(def("G[q, e, a], H[u, e, a], F[u, i, a]",
                        "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n"
                        "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n"
                        "  D[q, u, a] = dropout(W[q, u, a], shared=q)\n"
                        "  R[q, i, a] = einsum(D[q, u, a], F[u, i, a])\n",
                        "R[q, i, a]"),
                    {{"q", 17}, {"u", 33}, {"e", 3}, {"a", 2}, {"i", 5}}, {2});
    Forward forward = Text::none();
    CHECK(text.ran(forward).operations == "attend ");
    forward.training = true, forward.dropout = 0.4, forward.key = Key(3), forward.first_sample = 5;
    Forward steps = forward;
    steps.replace = [](const std::string&, const Tensor& x) { return x; };
    steps.replaced = [](const std::string& path) { return path == "W"; };
    const Ran at_once = text.ran(forward), in_steps = text.ran(steps);
    CHECK(at_once.operations.ends_with("mul attend "));
    CHECK(in_steps.operations.find("attend") == std::string::npos);
    check_close(in_steps, at_once);
    CHECK(difference(at_once.y, text.ran().y) > 1e-3);
    Text samples = text;  // of queries: the memory is one, the noise is not
    samples.values[1] = noise({33, 3, 2}, 5), samples.values[2] = noise({33, 5, 2}, 6);
    check_close(samples.ran(steps), samples.ran(forward));
  }

  TEST_CASE("what is no attention of one memory, or has few queries, runs in steps") {
    const auto operations = [&](const std::string& arguments, const std::string& statements,
                                const char* result, Index queries = 17) {
      const SizesByName sizes = {{"q", queries}, {"u", 33}, {"e", 3}, {"a", 2}, {"i", 5}};
      return Text(def(arguments, statements, result), sizes, {}).ran().operations;
    };
    const std::string given = "G[q, e, a], H[u, e, a], F[u, i, a]",
                      logits = "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n",
                      soft = "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n",
                      last = "  R[q, i, a] = einsum(W[q, u, a], F[u, i, a])\n";
    CHECK(operations(given, logits + soft + last, "R[q, i, a]") == "attend ");
    CHECK(operations(given, logits + soft + last, "R[q, i, a]", 15) ==
          "contract softmax contract ");
    struct Other {
      std::string arguments, statements;
      const char* result;
    };
    for (const Other& other :
         {// a softmax over what is not summed afterwards
          Other{given, logits + "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=q)\n" + last,
                "R[q, i, a]"},
          {given,
           logits + "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u, extra_logit=0)\n" + last,
           "R[q, i, a]"},
          // heads that are added up
          {given, logits + soft + "  R[q, i] = einsum(W[q, u, a], F[u, i, a])\n", "R[q, i]"},
          // weights or logits that something else reads
          {given,
           logits + soft + last + "  Y[q, i, a] = R[q, i, a] * mean(W[q, u, a], reduced_dim=u)\n",
           "Y[q, i, a]"},
          {given,
           logits + soft + last + "  Y[q, i, a] = R[q, i, a] * mean(S[q, u, a], reduced_dim=u)\n",
           "Y[q, i, a]"},
          // numbers between the steps
          {given,
           logits + soft +
               "  D[q, u, a] = 0.5 * W[q, u, a]\n"
               "  R[q, i, a] = einsum(D[q, u, a], F[u, i, a])\n",
           "R[q, i, a]"},
          // factors of rows and memory, of a sum, and logits that are subtracted
          {given + ", c[q, u]",
           "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a]) * c[q, u]\n" + soft + last, "R[q, i, a]"},
          {given + ", c[u, a]",
           "  S[q, u, a] = 2 * (einsum(G[q, e, a], H[u, e, a]) + c[u, a])\n" + soft + last,
           "R[q, i, a]"},
          {given + ", c[u, a]",
           "  S[q, u, a] = c[u, a] - einsum(G[q, e, a], H[u, e, a])\n" + soft + last, "R[q, i, a]"},
          {given, "  S[q, u, a] = 2 / einsum(G[q, e, a], H[u, e, a])\n" + soft + last,
           "R[q, i, a]"},
          // noise of each pair
          {given,
           logits + soft +
               "  D[q, u, a] = dropout(W[q, u, a])\n"
               "  R[q, i, a] = einsum(D[q, u, a], F[u, i, a])\n",
           "R[q, i, a]"}}) {
      CAPTURE(other.statements);
      CHECK(operations(other.arguments, other.statements, other.result).find("attend") ==
            std::string::npos);
    }
  }

  TEST_CASE("a causal mask over other rows than those of the attention hides what it hides") {
    const std::string text =
        "def T(X[n, d], M[m, d], P[d, r, c] = normal(1)):\n"
        "  Q[n, r, c] = einsum(X[n, d], P[d, r, c])\n"
        "  K[n, m, c] = einsum(X[n, d], M[m, d], P[d, 0, c])\n"
        "  L[n, r, m] = einsum(Q[n, r, c], K[n, m, c])\n"
        "  W[n, r, m] = softmax(L[n, r, m], reduced_dim=m)\n"
        "  O[n, r, c] = einsum(W[n, r, m], K[n, m, c])\n  return O[n, r, c]\n";
    const auto program = std::make_shared<const Checked>(check(Program::parse(text)));
    SizeTable sizes(program, {});
    for (const auto& [name, size] : SizesByName{{"r", 16}, {"c", 2}})
      sizes.set(program->find_dimension(name), size);
    const Tensor X = noise({3, 2}, 1), M = noise({3, 2}, 2);
    const Tensors params{noise({2, 16, 2}, 3)};
    const ParamId ids[] = {{0}};
    const auto ran = [&](const Mask& mask, bool in_steps) {
      Forward forward{.params = params};
      if (in_steps) {
        forward.replace = [](const std::string&, const Tensor& x) { return x; };
        forward.replaced = [](const std::string& path) { return path == "W"; };
      }
      return run(*program, sizes, {X, M}, ids, forward, "", mask);
    };
    for (const bool causal : {false, true})
      CHECK(difference(ran({.causal = causal}, false), ran({.causal = causal}, true)) < 1e-14);
    CHECK(difference(ran({.causal = true}, false), ran({}, false)) > 1e-3);
  }

  TEST_CASE("a bias and a mask by distance are computed once for each, whatever the letters") {
    // The sizes of what gather makes of a table.
    const auto gathered = [](const Text& text) {
      std::set<Index> sizes;
      const RecordWatch watch([&](const Tensor& made) {
        if (std::string(made.made_by()->op) == "gather") sizes.insert(made.size());
        return made;
      });
      Tensors variables;
      for (const Tensor& value : text.values) variables.push_back(value.variable());
      text(variables, Text::none());
      return sizes;
    };
    constexpr Index q = 17, u = 33, a = 3, distances = q + u - 1, pairs = q * u, none = 0;
    const SizesByName sizes = {{"q", q}, {"u", u}, {"e", 2}, {"a", a}, {"i", 5}};
    const auto text = [&](const std::string& before, const std::string& added,
                          const std::string& mask) {
      const std::string all = before + added + mask;
      std::string arguments = "X[q, e, a], M[u, e, a], F[u, i, a]";
      for (const char* parameter : {"K[a, r]", "k[r]", "c[a]"})
        if (all.find(parameter) != std::string::npos)
          arguments += std::string(", ") + parameter + " = zeros()";
      return Text(def(arguments,
                      (all.find("dim=r") != std::string::npos ? "  where r = 70\n" : "") + before +
                          "  S[q, u, a] = einsum(X[q, e, a], M[u, e, a])\n"
                          "  L[q, u, a] = S[q, u, a] " +
                          added + "\n  W[q, u, a] = softmax(L[q, u, a], reduced_dim=u" + mask +
                          ")\n  R[q, i, a] = einsum(W[q, u, a], F[u, i, a])\n",
                      "R[q, i, a]"),
                  sizes, {});
    };
    const std::string place = "  I[u, q] = clip(position(q) - position(u), -30, 20) + 30\n",
                      other = "  N[u, q] = clip(position(q) - 2*position(u), -30, 20) + 30\n",
                      read = "gather(K[a, r], I[u, q], dim=r)", near = ", mask=Near[q, u]",
                      window =
                          "  Near[q, u] = abs(position(u) - position(q)) < 5 or position(u) > 40\n";
    const struct {
      std::string before, added, mask;
      Index gathered;
    } rows[] = {
        {place, "+ " + read, "", a * distances},
        {place, "- c[a] * abs(" + read + ")", "", a * distances},
        {"  V[a] = exp(c[a]) / a\n" + place, "- V[a] * " + read, "", a * distances},
        {"", "+ gather(K[a, r], abs(position(u) - position(q)), dim=r)", "", a * distances},
        {"", "- c[a] * abs(position(u) - position(q))", "", none},
        {"", "- abs(position(u) - position(q)) / 7", "", none},  // the same for all heads
        {place, "+ gather(k[r], I[u, q], dim=r)", "", distances},
        {"  Near[q, u] = abs(position(u) - position(q)) < 5\n" + place, "+ " + read, near,
         a * distances},
        {"  Near[q, u] = position(q) - position(u) < 9 and position(u) - position(q) <= 2\n", "/ 2",
         near, none},
        {window + place, "+ " + read, near, a * distances},
        {other, "+ gather(K[a, r], N[u, q], dim=r)", "", a * pairs},
        {place, "+ position(q) * " + read, "", a * pairs},
        {place, "+ " + read + " / u", "", a * pairs},
        {place, "+ gather(K[a, r], I[u, q] + index(u), dim=r)", "", a * pairs},
        {place, "+ " + read + " * gather(K[a, r], I[u, q] + 1, dim=r)", "",
         a * pairs},  // read twice
        {"  one[u] = 1 + 0 * index(u)\n" + place, "+ one[u] * " + read, "", a * pairs},
        {place, "+ " + read + " + c[a] * position(u)", "", a * pairs},  // one of two
    };
    for (const auto& row : rows) {
      CAPTURE(row.added);
      CAPTURE(row.mask);
      const Text each = text(row.before, row.added, row.mask);
      const Index expected = row.gathered;
      Forward steps = Text::none();
      steps.replace = [](const std::string&, const Tensor& x) { return x; };
      steps.replaced = [](const std::string& path) { return path == "S"; };
      const Ran at_once = each.ran();
      CHECK(at_once.operations.find("attend ") != std::string::npos);
      check_close(at_once, each.ran(steps));
      CHECK(gathered(each) == (expected == none ? std::set<Index>{} : std::set<Index>{expected}));
      if (expected < pairs) check_second_order(each);
      for (const char* which : {"I", "Near", "L", "K"}) {
        Look look({which});
        check_same_bits(each.ran(look.forward), at_once);
        if (each.program->find_value(which) < 0) continue;
        const bool is_truth = std::string(which) == "Near";
        const Ran changed = each.ran(replacing(which, is_truth ? 0 : 0.5));
        CHECK(difference(changed.y, at_once.y) > 1e-4);
      }
    }
  }

  TEST_CASE("attention of one memory for all samples stores no pairs either") {
    const Text text(def("G[q, e, a], H[u, e, a], F[u, i, a]",
                        "  S[q, u, a] = einsum(G[q, e, a], H[u, e, a])\n"
                        "  W[q, u, a] = softmax(S[q, u, a], reduced_dim=u)\n"
                        "  R[q, i, a] = einsum(W[q, u, a], F[u, i, a])\n",
                        "R[q, i, a]"),
                    {{"q", 17}, {"u", 33}, {"e", 3}, {"a", 2}, {"i", 5}}, {});
    Text some = text;
    some.values[0] = noise({4, 17, 3, 2}, 5);
    CHECK(some.ran().operations == "attend ");
    Forward steps = Text::none();
    steps.replace = [](const std::string&, const Tensor& x) { return x; };
    steps.replaced = [](const std::string& path) { return path == "W"; };
    check_close(some.ran(), some.ran(steps));
  }

  TEST_CASE("attention to what an infinite mask shows ends where its rows end, to second order") {
    const Tensor q = noise({3, 2}, 1).variable(), k = noise({5, 2}, 2), v = noise({5, 2}, 3),
                 mask = Tensor::full({3, 5}, std::numeric_limits<double>::infinity(), Dtype::f64);
    const Tensor y = attend(q, k, v, {.mask = mask, .shown = 1}), wanted[] = {q};
    const Tensor once = grad(y, wanted, {.cotangent = noise({3, 2}, 4)})[0],
                 again = grad(y, wanted,
                              {.cotangent = noise({3, 2}, 4).variable(), .keep_graph = true})[0];
    CHECK(difference(once, again) < 1e-14);
  }
}
