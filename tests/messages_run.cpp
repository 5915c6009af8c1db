// Sizes, tensors and masks that do not fit a text are refused, and so are the parts of modules: the
// sentence is checked in full.
#include <functional>
#include <limits>

#include "attention/against.hpp"
#include "nn/decode.hpp"
#include "nn/run.hpp"
#include "tests/marked.hpp"

using namespace tete;

namespace {

Tensor zeros(const Shape& shape, Dtype dtype = Dtype::f64) { return Tensor::zeros(shape, dtype); }

// A marked text, run.
struct Run {
  const char* sentence;
  const char* text;
  TensorsByName tensors = {};
  RunOptions options = {};
};

void check_runs(std::span<const Run> rows) {
  for (const Run& row : rows) {
    const MarkedText marked(row.text);
    const bool is_pointed = std::string_view(row.text).find("«") != std::string_view::npos;
    CHECK(error_of([&] { run(marked.text(), row.tensors, row.options); }) ==
          (is_pointed ? marked.message("text", row.sentence) : row.sentence));
  }
}

// A marked text whose parameters are made at these sizes.
struct Made {
  const char* sentence;
  const char* text;
  SizesByName sizes = {};
};

}  // namespace

TEST_SUITE("messages") {
  TEST_CASE("sizes that cannot be are shown where they are given") {
    const Made rows[] = {
        {"the size of 'd' is open: set it, or give it a default, as in 'where d = 8'",
         "def F(X[n, «d»], P[d] = ones()):\n  Y[n] = einsum(X[n, d], P[d])\n  return Y[n]\n"},
        {"25 / 8 is not a whole number; '//' rounds down",
         "def F(X[n], P[n, d] = ones()):\n  where d = 25 «/» 8\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"25 % 0 divides by 0",
         "def F(X[n], P[n, d] = ones()):\n  where d = 25 «%» 0\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"2 ^ 80 is too large for a size",
         "def F(X[n], P[n, d] = ones()):\n  where d = 2 «^» 80\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"2 ^ -1 is not a whole number: the exponent is negative",
         "def F(X[n], P[n, d] = ones()):\n  where d = 2 «^» -1\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"a size is a whole number, written in digits alone",
         "def F(X[n], P[n, d] = ones()):\n  where d = 2 * «1.5»\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"a size is a whole number, written in digits alone",
         "def F(X[n], P[n, d] = ones()):\n  where d = «1e9»\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"a size is at most 9000000000000000",
         "def F(X[n], P[n, d] = ones()):\n  where d = «10000000000000000»\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"a size is made of + - * / // % ^, numbers and sizes",
         "def F(X[n], P[n, d] = ones()):\n  where d = «sqrt»(4)\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"a size is made of + - * / // % ^, numbers and sizes",
         "def F(X[n], P[n, d] = ones()):\n  where d = 3 «<» 4\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"'causal' is known in a call only, not where parameters are made",
         "def F(X[n], P[n, d] = ones()):\n  where d = 1 + «causal»\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"the size of 'd' comes to -3, expected at least 0",
         "def F(X[n], P[n, «d»] = ones()):\n  where d = 2 - 5\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"the size of 'd' depends on itself, by way of 'e'",
         "def F(X[n], P[n, d, e] = ones()):\n  where «d» = e + 1, ‹e› = 2 * d\n"
         "  Y[n] = X[n] * einsum(P[n, d, e])\n  return Y[n]\n"},
        {"'P' cannot start with inf",
         "def F(X[n], P[n] = normal(1 «/» 0)):\n  Y[n] = X[n] * P[n]\n  return Y[n]\n"},
        {"-9223372036854775808 // -1 is too large for a size",
         "def F(X[n], P[n, d] = ones()):\n  where d = (2 ^ 62 * -2) «//» -1\n"
         "  Y[n] = sum(P[n, d], reduced_dim=d) * X[n]\n  return Y[n]\n"},
        {"'F' has no size 'd_k'; its sizes are n", "def F(X[n]):\n  return X[n]\n", {{"d_k", 3}}},
        {"the size 'n' must be at least 0, got -1", "def F(X[n]):\n  return X[n]\n", {{"n", -1}}},
    };
    for (const Made& row : rows) {
      SizesByName sizes = row.sizes;
      if (sizes.empty()) sizes["n"] = 3;
      const MarkedText marked(row.text);
      const bool is_pointed = std::string_view(row.text).find("«") != std::string_view::npos;
      const auto program = std::make_shared<const Checked>(check(Program::parse(marked.text())));
      CHECK(error_of([&] {
              SizeTable table(program, sizes);
              parameter_specs(*program, table);
            }) == (is_pointed ? marked.message("text", row.sentence) : row.sentence));
    }
  }

  TEST_CASE("tensors that contradict are shown with both numbers and both places") {
    const Tensor X = zeros({2, 3}), P = zeros({3, 5});
    const Index large = Index{1} << 40;
    const char* const product =
        "def F(X[n, d], P[d, e] = ones()):\n  Y[n, e] = einsum(X[n, d], P[d, e])\n"
        "  return Y[n, e]\n";
    const Run rows[] = {
        {"'X' has 2 dimensions, but a tensor of shape [3] is given",
         "def F(«X[n, d]», P[d, e] = ones()):\n  Y[n, e] = einsum(X[n, d], P[d, e])\n"
         "  return Y[n, e]\n",
         {{"X", zeros({3})}, {"P", P}}},
        {"'d' is 4 in 'P', but 3 in 'X'",
         "def F(X[n, ‹d›], P[«d», e] = ones()):\n  Y[n, e] = einsum(X[n, d], P[d, e])\n"
         "  return Y[n, e]\n",
         {{"X", X}, {"P", zeros({4, 5})}}},
        {"'d' is 3 in 'X', but 7 was set by the caller",
         "def F(X[n, «d»], P[d, e] = ones()):\n  Y[n, e] = einsum(X[n, d], P[d, e])\n"
         "  return Y[n, e]\n",
         {{"X", X}, {"P", P}},
         {.sizes = {{"d", 7}}}},
        {"'F' needs X[n, d=3], which is not given", product, {{"P", P}}},
        {"'F' needs X[n, d], P[d, e], which are not given", product, {{"XX", X}}},
        {"'F' has no input or parameter 'Q'", product, {{"X", X}, {"P", P}, {"Q", X}}},
        {"'P' is f32[3, 5], expected f64", product, {{"X", X}, {"P", zeros({3, 5}, Dtype::f32)}}},
        {"'X' is i64[2, 3], expected real numbers",
         product,
         {{"X", zeros({2, 3}, Dtype::i64)}, {"P", P}}},
        {"'n' is 6, but there is room for 'k' = 5 only",
         "def F(X[n], R[«n»<=k] = ones()):\n  Y[n] = X[n] * R[n]\n  return Y[n]\n",
         {{"X", zeros({6})}, {"R", zeros({5})}}},
        {"element 2 of 't' is picked, but 't' is 2: its elements are numbered from 0",
         "def F(X[n, t]):\n  Y[n] = X[n, «2»]\n  return Y[n]\n",
         {{"X", zeros({3, 2})}}},
        {"'h' is 8, but g·s is 3·2 = 6",
         "def F(X[n, ‹h›], G[g, s]):\n  Y[n, g, s] = X[n, «h»=(g s)] * G[g, s]\n"
         "  return Y[n, g, s]\n",
         {{"X", zeros({3, 8})}, {"G", zeros({3, 2})}}},
        {"'h' is 0, but g·s is 1099511627776·1099511627776, which is too large",
         "def F(X[n, ‹h›], G[n, g], H[n, s]):\n  Y[n, g, s] = X[n, «h»=(g s)] * G[n, g] * H[n, s]\n"
         "  return Y[n, g, s]\n",
         {{"X", zeros({0, 0})}, {"G", zeros({0, large})}, {"H", zeros({0, large})}}},
        {"'Y.a' is 3, but 'e' is 4",
         "def F(X[d], Z[‹e›]):\n  Y[d] = G(X[d], «Z[e]»)\n  return Y[d]\n"
         "def G(A[a], B[a]):\n  C[a] = A[a] + B[a]\n  return C[a]\n",
         {{"X", zeros({3})}, {"Z", zeros({4})}}},
        {"the size of 'h' is too large: it is the product of its parts, as 1099511627776 of 's'",
         "def F(X[n], A[n, g], B[n, s]):\n  Y[n, «h»=(g s)] = A[n, g] * B[n, s]\n"
         "  Z[n, h] = Y[n, h] + 1\n  return Z[n, h]\n",
         {{"X", zeros({0})}, {"A", zeros({0, large})}, {"B", zeros({0, large})}}},
        {"the size of 'e' comes to -2, expected at least 0",
         "def F(X[n]):\n  where «e» = n - 5\n  Y[n, e] = X[n] * index(e)\n  return Y[n, e]\n",
         {{"X", zeros({3})}}},
        {"the size of 'r' comes to -2, expected 0 to 1000000 repetitions",
         "def F(X[n]):\n  where «r» = n - 5\n  Y[n] = ‹Twice›(X[n]) repeated r\n  return Y[n]\n"
         "def Twice(X[n]):\n  Y[n] = X[n] * 2\n  return Y[n]\n",
         {{"X", zeros({3})}}},
        {"the batch of 'Z' is [3, 3], but that of 'X' is [2, 3]",
         "def F(‹X[n]›, «Z[m]»):\n  Y[n] = X[n] * sum(Z[m], reduced_dim=m)\n  return Y[n]\n",
         {{"X", zeros({2, 3, 4})}, {"Z", zeros({3, 3, 4})}}},
        {"a tensor of shape [1, 1, 1, 1, 1, 2, 3] has more than 4 batch dimensions",
         "def F(«X[n, d]», P[d, e] = ones()):\n  Y[n, e] = einsum(X[n, d], P[d, e])\n"
         "  return Y[n, e]\n",
         {{"X", zeros({1, 1, 1, 1, 1, 2, 3})}, {"P", P}}},
        {"'I' holds 5, expected whole numbers from 0 to 2",
         "def F(T[k], «I[n]» < k):\n  Y[n] = gather(T[k], I[n], dim=k)\n  return Y[n]\n",
         {{"T", zeros({3})}, {"I", Tensor::of<int64_t>({2}, {0, 5})}}},
    };
    check_runs(rows);
  }

  TEST_CASE("what a function is given at run time") {
    const Run rows[] = {
        {"bucket: expected 4 to 1000000000 buckets, half of which end before 9, got 2",
         "def F(X[n]):\n  «Y[n]» = bucket(position(n), 2, 9, 0) + X[n]\n  return Y[n]\n",
         {{"X", zeros({3})}}},
        {"bucket: expected distances of at most 9000000000000000, got nan",
         "def F(X[n]):\n  «Y[n]» = bucket(1 % position(n), 8, 9, 0) + X[n]\n  return Y[n]\n",
         {{"X", zeros({3})}}},
        {"gather: position -9223372036854775808 (element 0 of the index) is outside a dimension of "
         "size 3, which is 'k'",
         "def F(T[k], Z[n]):\n  Y[n] = «gather»(T[k], 1 % index(n), dim=k) + Z[n]\n"
         "  return Y[n]\n",
         {{"T", zeros({3})}, {"Z", zeros({2})}}},
        {"rotate turns pairs, but 'd' is 3",
         "def F(X[n, d]):\n  Y[n, d] = «rotate»(X[n, d], position(n), dim=d)\n  return Y[n, d]\n",
         {{"X", zeros({2, 3})}}},
        {"base= is 0, expected more than 0",
         "def F(X[n, d]):\n  Y[n, d] = rotate(X[n, d], position(n), dim=d, base=«0»)\n"
         "  return Y[n, d]\n",
         {{"X", zeros({2, 4})}}},
        {"the 5 largest (t) of 3 (s)",
         "def F(X[n, s], T[n, t]):\n  Y[n, t] = «top_k»(X[n, s], reduced_dim=s, dim=t) + T[n, t]\n"
         "  return Y[n, t]\n",
         {{"X", zeros({2, 3})}, {"T", zeros({2, 5})}}},
        {"gather: position 3 (element 1 of the index) is outside a dimension of size 3, which is "
         "'k'",
         "def F(T[k], Z[n]):\n  Y[n] = «gather»(T[k], 3 * index(n), dim=k) + Z[n]\n"
         "  return Y[n]\n",
         {{"T", zeros({3})}, {"Z", zeros({2})}}},
        {"'e' is 9, but what is joined comes to 5",
         "def F(A[n, c], B[n, d], Z[e]):\n"
         "  Y[n, e] = «concat»(A[n, c], B[n, d], dim=e) + Z[e]\n  return Y[n, e]\n",
         {{"A", zeros({1, 2})}, {"B", zeros({1, 3})}, {"Z", zeros({9})}}},
        {"stride= is a whole number of at least 1, not 0",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = windows(X[n], dim=n, into=(o w), stride=«0») + "
         "Z[o, w]\n  return Y[o, w]\n",
         {{"X", zeros({3})}, {"Z", zeros({2, 2})}}},
        {"left= is a whole number of at least 0, not 0.5",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = windows(X[n], dim=n, into=(o w), left=«0.5») + "
         "Z[o, w]\n  return Y[o, w]\n",
         {{"X", zeros({3})}, {"Z", zeros({2, 2})}}},
        {"a window has at least one place, not 0",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = windows(X[n], dim=n, into=«(»o w)) + Z[o, w]\n"
         "  return Y[o, w]\n",
         {{"X", zeros({3})}, {"Z", zeros({2, 0})}}},
        {"'o' is 3, but there are 2 windows of 2 in steps of 1 in 3 positions",
         "def F(X[n], Z[o, w]):\n  Y[o, w] = «windows»(X[n], dim=n, into=(o w)) + Z[o, w]\n"
         "  return Y[o, w]\n",
         {{"X", zeros({3})}, {"Z", zeros({3, 2})}}},
    };
    check_runs(rows);
  }

  TEST_CASE("masks that the text does not take, or of another shape") {
    const char* const scores =
        "def F(X[n, d], M[m, d]):\n"
        "  «W[n, m]» = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
        "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n";
    const std::string unmarked = MarkedText(scores).text();
    const char* const plain = unmarked.c_str();
    const Tensor X = zeros({2, 3}), M = zeros({4, 3}), two = zeros({5, 2, 3});
    const Run rows[] = {
        {"'F' is given a causal mask, but no statement of it takes the mask of the call: none is a "
         "softmax over one of two sequence axes, and none says visible(n, m)",
         "def F(X[n]):\n  Y[n] = exp(X[n])\n  return Y[n]\n",
         {{"X", zeros({2})}},
         {.mask = {.causal = true}}},
        {"'F' is given a mask, but no statement of it takes the mask of the call: none is a "
         "softmax over one of two sequence axes, and none says visible(n, m)",
         "def F(X[n]):\n  Y[n] = exp(X[n])\n  return Y[n]\n",
         {{"X", zeros({2})}},
         {.mask = {.visible = zeros({2, 2})}}},
        {"'F' is given a padded memory, but no statement of it takes the mask of the call: none is "
         "a softmax over one of two sequence axes, and none says visible(m)",
         "def F(X[n]):\n  Y[n] = exp(X[n])\n  return Y[n]\n",
         {{"X", zeros({2})}},
         {.mask = {.lengths = zeros({}, Dtype::i64)}}},
        {"the mask has shape [3, 4], expected [2, 4]",
         scores,
         {{"X", X}, {"M", M}},
         {.mask = {.visible = zeros({3, 4})}}},
        {"the mask has shape [1, 2, 4], expected [2, 4] or [5, 2, 4]",
         scores,
         {{"X", two}, {"M", zeros({5, 4, 3})}},
         {.mask = {.visible = zeros({1, 2, 4})}}},
        {"the lengths of the memory have shape [2], but the batch is [5]",
         plain,
         {{"X", two}, {"M", zeros({5, 4, 3})}},
         {.mask = {.lengths = zeros({2}, Dtype::i64)}}},
        {"a memory of length 5 does not fit into 'm' = 4",
         scores,
         {{"X", X}, {"M", M}},
         {.mask = {.lengths = Tensor::of<int64_t>({}, {5})}}},
        {"the call pads the memory; whether queries are padded is not known",
         "def F(X[n, d], M[m, d]):\n"
         "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
         "  Y[n, d] = select(«visible»(n), einsum(W[n, m], M[m, d]), 0)\n  return Y[n, d]\n",
         {{"X", X}, {"M", M}},
         {.mask = {.lengths = Tensor::of<int64_t>({}, {2})}}},
        {"the windows reach 1 position to the right, so a causal mask does not keep the future "
         "hidden",
         "def F(X[n, d], M[m, d]):\n"
         "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
         "  A[n, d] = einsum(W[n, m], M[m, d])\n"
         "  B[n, w, d] = windows(A[n, d], dim=n, into=(n w), left=1, right=w «-» 2)\n"
         "  Y[n, d] = sum(B[n, w, d], reduced_dim=w)\n  return Y[n, d]\n",
         {{"X", X}, {"M", zeros({2, 3})}},
         {.sizes = {{"w", 3}}, .mask = {.causal = true}}},
    };
    check_runs(rows);
  }

  TEST_CASE("sizes that are given by sizes end somewhere") {
    std::string chain = "def F(X[n], P[n, a0] = ones()):\n  where a0 = a1";
    for (int i = 1; i < 1200; ++i) chain += text(", a", i, " = a", i + 1);
    chain += ", a1200 = 3\n  Y[n] = sum(P[n, a0], reduced_dim=a0) * X[n]\n  return Y[n]\n";
    const auto program = std::make_shared<const Checked>(check(Program::parse(chain)));
    SizeTable sizes(program, {{"n", 3}});
    CHECK(error_of([&] { parameter_specs(*program, sizes); })
              .starts_with("text:2:12807: sizes depend on each other by way of more than 1000 "
                           "sizes and operators\n"));
  }

  TEST_CASE("amendments that do not fit") {
    struct Row {
      const char *sentence, *text;
      const char* beside = "";
    };
    const char* const base =
        "def Base(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
        "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n  Y[n, d] = einsum(W[n, m], M[m, d])\n"
        "  return Y[n, d]\n";
    const Row rows[] = {
        {"'F' amends 'K', but 'Base' has no tensor of that name",
         "def F(«K»[n, m]):\n return K[n, m]\n"},
        {"'F' amends nothing: its first argument must be the tensor that it amends, as in L[n, m, "
         "h]",
         "def «F»(P[n] = ones()):\n return P[n]\n"},
        {"'F' must return 2 dimensions, as 'L' has, but it returns 1",
         "def F(L[n, m]):\n Y[n] = sum(L[n, m], reduced_dim=m)\n return «Y[n]»\n",
         "\n  base:2:\n      L[n, m] = einsum(X[n, d], M[m, d])\n      ^^^^^^^"},
        {"'F' needs 'W', which 'Base' does not have before 'L'",
         "def F(L[n, m], «W[n, m]»):\n Y[n, m] = L[n, m] + W[n, m]\n return Y[n, m]\n",
         "\n  base:2:\n      L[n, m] = einsum(X[n, d], M[m, d])\n      ^^^^^^^"},
    };
    for (const Row& row : rows) {
      const MarkedText marked(row.text);
      CHECK(error_of([&] {
              check(Program::parse(base, "base"), {Program::parse(marked.text(), "with")});
            }) == marked.message("with", row.sentence) + row.beside);
    }
    CHECK(error_of([&] {
            check(Program::parse(base, "base"),
                  {Program::parse("def F(L[n, m, h]):\n return L[n, m, h]\n", "with")});
          }) ==
          "base:2:3: 'F' does not fit 'Base': it amends 'L' of 3 dimensions, but here it has 2\n"
          "      L[n, m] = einsum(X[n, d], M[m, d])\n      ^^^^^^^\n"
          "  with:1:\n    def F(L[n, m, h]):\n          ^^^^^^^^^^");
    const Program half = Program::parse("def F(L[n, m]):\n return L[n, m]\n", "with");
    CHECK(error_of([&] {
            check(Program::parse(base, "base"), {half, half});
          }) ==
          "with:1:5: two amendments are called 'F'; their parameters need names of their own\n"
          "    def F(L[n, m]):\n        ^");
  }

  TEST_CASE("what a checked program is called with") {
    const auto program = std::make_shared<const Checked>(
        check(Program::parse("def F(X[n, d], P[d, e] = ones()):\n"
                             "  Y[n, e] = einsum(X[n, d], P[d, e])\n  return Y[n, e]\n")));
    const SizeTable sizes(program, {{"n", 2}, {"d", 3}, {"e", 5}});
    const auto said = [&](const Tensors& inputs, const Tensors& params) {
      std::vector<ParamId> ids;
      for (size_t i = 0; i < params.size(); ++i) ids.push_back({static_cast<int>(i)});
      const Forward forward{.params = params};
      return error_of([&] { run(*program, sizes, inputs, ids, forward); });
    };
    const Tensor X = zeros({2, 3}), P = zeros({3, 5});
    CHECK(said({}, {P}) == "'F' has 1 input, got 0");
    CHECK(said({Tensor()}, {P}) == "'F' needs a tensor for its input 'X'");
    CHECK(said({X}, {}) == "'F' has 1 parameter, got 0");
    CHECK(said({X}, {zeros({3, 4})}) ==
          "text:1:16: the parameter 'P' has shape [3, 4], expected [3, 5]\n"
          "    def F(X[n, d], P[d, e] = ones()):\n"
          "                   ^^^^^^^");
    Evaluation evaluation(program, {{"X", X}, {"P", P}});
    CHECK(error_of([&] { evaluation.set(program->find_value("Y"), X); }) ==
          "text:2:3: 'Y' has shape [2, 5], got [2, 3]\n"
          "      Y[n, e] = einsum(X[n, d], P[d, e])\n      ^^^^^^^");
  }

  TEST_CASE("what cannot be read position by position") {
    struct Row {
      const char *sentence, *text;
    };
    const Row rows[] = {
        {"this combines all positions of 'm' outside a masked weight, so a causal mask does not "
         "keep the future hidden; it leaves out what is hidden of select(visible(n, m), …, 0), "
         "with n on the left, too",
         "def F(X[n, d], M[m, d]):\n  A[d] = «mean»(M[m, d], reduced_dim=m)\n"
         "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
         "  Y[n, d] = einsum(W[n, m], M[m, d]) + A[d]\n  return Y[n, d]\n"},
        {"this reads one position of 'm' outside a masked weight, so a causal mask does not keep "
         "the future hidden; only position 0 comes before every row, the sum over 'm' of "
         "select(visible(n, m) and position(m) == …, …, 0) is another",
         "def F(X[n, d], M[m, d]):\n  A[d] = «M[1, d]»\n"
         "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
         "  Y[n, d] = einsum(W[n, m], M[m, d]) + A[d]\n  return Y[n, d]\n"},
        {"this cuts up the positions of 'm' outside a masked weight, so a causal mask does "
         "not keep the future hidden; windows(…) with an axis of their own are pieces",
         "def F(X[n, d], M[m, d]):\n  where w = 1\n  A[o, w, d] = 2 * «M[m=(o w), d]»\n"
         "  B[m=(o w), d] = A[o, w, d]\n"
         "  W[n, m] = softmax(einsum(X[n, d], B[m, d]), reduced_dim=m)\n"
         "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"},
        {"windows with gaps between them cannot be read position by position",
         "def F(X[n, d], M[m, d]):\n  where w = 1\n"
         "  X_w[n, w, d] = «windows»(X[n, d], dim=n, into=(n w), stride=2)\n"
         "  A[n, d] = sum(X_w[n, w, d], reduced_dim=w)\n"
         "  W[n, m] = softmax(einsum(A[n, d], M[m, d]), reduced_dim=m)\n"
         "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"},
        {"'F' is given a causal mask, but no statement of it takes the mask of the call: none is a "
         "softmax over one of two sequence axes, and none says visible(n, m)",
         "def F(X[n, d]):\n  Y[n, d] = exp(X[n, d])\n  return Y[n, d]\n"},
        {"a growing memory has a position for each query: got 2 and 3",
         "def F(X[n, d], M[m, d], Z[m]):\n"
         "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
         "  Y[n, d] = einsum(W[n, m], M[m, d], Z[m])\n  return Y[n, d]\n"},
        {"there is room for 'k' = 3 only, but the sequence has 4 positions",
         "def F(X[n, d], M[m, d], «R[n<=k]» = ones()):\n"
         "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
         "  Y[n, d] = R[n] * einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"},
    };
    const Tensors all = {zeros({2, 2}), zeros({2, 2}), zeros({3})};
    for (const Row& row : rows) {
      const MarkedText marked(row.text);
      const auto program = std::make_shared<const Checked>(check(Program::parse(marked.text())));
      const bool is_pointed = std::string_view(row.text).find("«") != std::string_view::npos;
      CHECK(error_of([&] {
              SizesByName sizes;
              if (program->find_dimension("k") >= 0) sizes["k"] = 3;
              Decoder decoder(program, SizeTable(program, sizes), Growth::grows);
              const Tensors inputs(all.begin(), all.begin() + std::ssize(program->inputs));
              const Tensors params = {zeros({3})};
              const std::vector<ParamId> ids(program->parameters.size(), ParamId{0});
              for (int i = 0; i < 2; ++i) decoder.next(inputs, ids, {.params = params});
            }) == (is_pointed ? marked.message("text", row.sentence) : row.sentence));
    }
  }

  TEST_CASE("what theirs must hold to be compared") {
    const auto program = std::make_shared<const Checked>(
        check(Program::parse("def F(X[n, d], I[n] < d, P[d, e] = ones()):\n"
                             "  Y[n, e] = einsum(X[n, d], P[d, e])\n  B[n] = I[n] + 1\n"
                             "  Z[n, e] = Y[n, e] * B[n]\n  return Z[n, e]\n")));
    const auto said = [&](TensorsByName theirs) {
      theirs.insert(
          {{"X", zeros({2, 3})}, {"I", Tensor::of<int64_t>({2}, {0, 1})}, {"P", zeros({3, 5})}});
      return error_of([&] { check_against(program, theirs); });
    };
    CHECK(said({}) ==
          "there is nothing to compare: of what 'F' computes, none was given; expected "
          "any of Y, B, Z");
    CHECK(said({{"grad:X", zeros({2, 3})}}) ==
          "there are gradients, but not the cotangent 'grad:Z' that they come from; after "
          "Z.sum().backward() it is all ones");
    CHECK(said({{"grad:I", zeros({2})}, {"grad:Z", zeros({2, 5})}}) ==
          "'grad:I': whole numbers and truth values have no gradient");
    CHECK(said({{"grad:Z", zeros({2, 4})}}) ==
          "the cotangent 'grad:Z' has shape [2, 4], expected [2, 5] = [n, e]");
  }
}
