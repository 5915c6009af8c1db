// Models as texts (R17 to R24): slots, calls that run as programs of their own, repetitions.
#include "core/graph.hpp"
#include "nn/cost.hpp"
#include "tests/error_of.hpp"
#include "tests/valued.hpp"
#include "tests/written.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

const std::string slot_texts = "use Attention = multi_head\nuse Norm = Layer\n";
const std::string block_texts =
    "def Layer(X[n, d_X], gamma[d_X] = ones()):\n"
    "  Y[n, d_X] = layer_norm(X[n, d_X], dim=d_X) * gamma[d_X]\n"
    "  return Y[n, d_X]\n"
    "def Block(X[n, d_X], W[d_X, e] = normal(0.3)):\n"
    "  where e = 7\n"
    "  N[n, d_X] = Norm(X[n, d_X])\n"
    "  A[n, d_X] = Attention(N[n, d_X], N[n, d_X])\n"
    "  H[n, e] = relu(einsum(N[n, d_X], W[d_X, e]))\n"
    "  F[n, d_X] = einsum(H[n, e], W[d_X, e])\n"
    "  Y[n, d_X] = X[n, d_X] + A[n, d_X] + F[n, d_X]\n"
    "  return Y[n, d_X]\n";

// A model of tokens, whose blocks are the statements given.
std::string model(const std::string& statements, const std::string& result = "Z") {
  return slot_texts + block_texts +
         "def Model(X[causal n] < v, E[v, d_X] = normal(1)):\n"
         "  where l = 2, d_X = 6, h = 2, v = 5\n"
         "  T[n, d_X] = gather(E[v, d_X], X[n], dim=v)\n" +
         statements + "  return " + result + "[n, d_X]\n";
}

const std::string twice = "  U[n, d_X] = Block(T[n, d_X])\n  Z[n, d_X] = Block(U[n, d_X])\n";

}  // namespace

TEST_SUITE("models") {
  TEST_CASE("what is repeated is what stands there as often") {
    Valued repeated(model("  Z[n, d_X] = Block(T[n, d_X]) repeated l\n"));
    Valued flat(replaced(model(twice), "l = 2, ", ""));
    CHECK(repeated.program->leak == "");
    CHECK(repeated.tensors.contains("Z/1/A/P_q"));
    CHECK(repeated.tensors.size() == flat.tensors.size());
    for (auto& [name, tensor] : flat.tensors) {
      const std::string path = replaced(replaced(name, "U.", "Z/0/"), "Z.", "Z/1/");
      CAPTURE(path);
      tensor = repeated.tensors.at(path);
    }
    const Tensor X = tokens({1, 4, 0, 2, 2, 3});
    CHECK(difference(repeated(X), flat(X)) < 1e-12);
    // Written out, attention takes the mask of the call.
    Valued out(replaced(
        replaced(replaced(replaced(model(twice), "l = 2, ", ""), "Attention(", "MultiHead("),
                 "causal n", "n"),
        "use Attention = multi_head\n", ""));
    for (auto& [name, tensor] : out.tensors) tensor = flat.tensors.at(replaced(name, ".A.", ".A/"));
    CHECK(difference(out(X, {.mask = {.causal = true}}), flat(X)) < 1e-12);
  }

  TEST_CASE("gradients go through repetitions, with and without recomputing them, bit by bit") {
    const std::string repeated = "  Z[n, d_X] = Block(T[n, d_X]) repeated l\n";
    const std::pair<std::string, std::string> rows[] = {
        {repeated, "Z"},
        // Others read what the first one reads, or what each gives, or it reads one tensor twice.
        {repeated + "  U[n, d_X] = Z[n, d_X] * tanh(T[n, d_X])\n", "U"},
        {"  Z[l, n, d_X] = Block(T[n, d_X]) repeated l\n"
         "  U[n, d_X] = Z[1, n, d_X] * tanh(Z[0, n, d_X])\n",
         "U"},
        {"  B[n, d_X] = Block(T[n, d_X])\n"
         "  C[n, d_X] = 0.1 * B[n, d_X]\n"
         "  Z[n, d_X] = Attention(C[n, d_X], C[n, d_X]) repeated l\n",
         "Z"}};
    for (const auto& row : rows) {
      Valued model(::model(row.first, row.second));
      SizeTable sizes(model.program, {});
      Tensors values;
      std::vector<ParamId> ids;
      for (const ParameterSpec& made : parameter_specs(*model.program, sizes)) {
        ids.push_back({static_cast<int>(values.size())});
        values.push_back(model.tensors.at(made.spec.name).variable());
      }
      const auto gradients = [&](bool recompute) {
        Forward forward{.params = values, .recompute_blocks = recompute};
        return grad(sum(square(run(*model.program, sizes, {tokens({1, 4, 0, 2})}, ids, forward))),
                    values);
      };
      const Tensors kept = gradients(false), again = gradients(true);
      for (size_t i = 0; i < kept.size(); ++i) {
        CHECK(difference(kept[i], again[i]) == 0);
        CHECK(difference(kept[i], kept[i] * 0) > 0);
      }
    }
  }

  TEST_CASE("tied repetitions share their parameters, and each gets its row of what has l") {
    const std::string step =
        "def Step(X[n, d_X], t[d_X]):\n"
        "  U[n, d_X] = X[n, d_X] + t[d_X]\n"
        "  Y[n, d_X] = Block(U[n, d_X])\n"
        "  return Y[n, d_X]\n";
    const std::string with_step =
        replaced(replaced(::model("  Z[n, d_X] = Step(T[n, d_X], S[l, d_X]) repeated l tied\n"),
                          "def Model(", step + "def Model("),
                 "E[v, d_X] = normal(1)", "E[v, d_X] = normal(1), S[l, d_X] = normal(1)");
    Valued tied(with_step);
    CHECK(tied.tensors.contains("Z/Y.A/P_q"));
    Valued untied(replaced(with_step, " tied", ""));
    for (auto& [name, tensor] : untied.tensors)
      tensor = tied.tensors.at(replaced(replaced(name, "Z/0/", "Z/"), "Z/1/", "Z/"));
    const Tensor X = tokens({1, 4, 0, 2, 2, 3});
    CHECK(difference(tied(X), untied(X)) == 0);
    Tensor& S = tied.tensors.at("S");
    const Tensor before = tied(X);
    S = noise(S.shape(), 77);
    CHECK(difference(tied(X), before) > 1e-3);
  }

  TEST_CASE("the states of all repetitions can be kept") {
    Valued last(::model("  Z[n, d_X] = Block(T[n, d_X]) repeated l\n"));
    Valued all(
        ::model("  Z[l, n, d_X] = Block(T[n, d_X]) repeated l\n"
                "  U[n, d_X] = Z[1, n, d_X] + 0 * Z[0, n, d_X]\n",
                "U"));
    all.tensors = last.tensors;
    const Tensor X = tokens({1, 4, 0, 2, 2, 3});
    CHECK(difference(last(X), all(X)) == 0);
  }

  TEST_CASE("a decoder sees its past, and all of the source but its padding") {
    const std::string text =
        "use Attention = multi_head\nuse Cross = Attention\nuse Norm = Layer\n" + block_texts +
        "def Decode(X[n, d_X], M[m, d_X]):\n"
        "  A[n, d_X] = Block(X[n, d_X])\n"
        "  C[n, d_X] = Cross(A[n, d_X], M[m, d_X])\n"
        "  Y[n, d_X] = A[n, d_X] + C[n, d_X]\n"
        "  return Y[n, d_X]\n"
        "def Model(X[causal n] < v, M[m] < v, E[v, d_X] = normal(1)):\n"
        "  where l = 2, d_X = 6, h = 2, v = 5\n"
        "  S[m, d_X] = gather(E[v, d_X], M[m], dim=v)\n"
        "  T[n, d_X] = gather(E[v, d_X], X[n], dim=v)\n"
        "  encoder[m, d_X] = Block(S[m, d_X]) repeated l\n"
        "  Z[n, d_X] = Decode(T[n, d_X], encoder[m, d_X]) repeated l\n"
        "  return Z[n, d_X]\n";
    Valued model(text);
    CHECK(model.program->leak == "");
    const auto decode = [&](const Tensor& X, const Tensor& M, Index length) {
      model.tensors["M"] = M;
      return model(X, {.mask = {.lengths = Tensor::of<int64_t>({1}, {length})}});
    };
    const Tensor M = tokens({3, 1, 4, 0}), X = tokens({1, 4, 0, 2, 2, 3});
    const Tensor Y = decode(X, M, 3);
    CHECK(difference(slice(decode(tokens({1, 4, 0, 1, 1, 1}), M, 3), 1, 0, 3), slice(Y, 1, 0, 3)) <
          1e-12);
    CHECK(difference(decode(tokens({1, 4, 0}), M, 3), slice(Y, 1, 0, 3)) < 1e-12);
    CHECK(difference(decode(X, tokens({3, 1, 4, 2}), 3), Y) < 1e-12);
    CHECK(difference(decode(X, tokens({3, 1, 4}), 3), Y) < 1e-12);
    CHECK(difference(slice(decode(X, tokens({3, 1, 2, 0}), 3), 1, 0, 1), slice(Y, 1, 0, 1)) > 1e-3);
    // A source that is longer than what is read is seen whole, too.
    const Tensor one = tokens({1});
    CHECK(difference(decode(one, tokens({3, 1, 4, 0}), 4), decode(one, M, 3)) > 1e-3);
    CHECK(difference(decode(one, M, 3), slice(Y, 1, 0, 1)) < 1e-12);
  }

  TEST_CASE("a call's own name of its sequence is none of its caller's") {
    // `l` is a name of M's sequence in Attend, whatever it is in Model.
    const auto text = [](const std::string& l, const std::string& repeated) {
      return replaced(
          "def Attend(X[n, d], M[m, d]):\n"
          "  Z[l, d] = M[m=(l), d]\n"
          "  L[n, l] = einsum(X[n, d], Z[l, d])\n"
          "  W[n, l] = softmax(L[n, l], reduced_dim=l)\n"
          "  Y[n, d] = einsum(W[n, l], Z[l, d])\n"
          "  return Y[n, d]\n"
          "def Block(X[n, d], M[m, d]):\n"
          "  Y[n, d] = Attend(X[n, d], M[m, d])\n"
          "  return Y[n, d]\n"
          "def Model(X[causal n] < v, M[m] < v, E[v, d] = normal(1)):\n"
          "  where d = 6, v = 5\n"
          "  T[n, d] = gather(E[v, d], X[n], dim=v)\n"
          "  S[m, d] = gather(E[v, d], M[m], dim=v)\n"
          "  Z[Q, d] = T[n=(Q), d]\n"
          "  L[n, Q] = einsum(T[n, d], Z[Q, d])\n"
          "  W[n, Q] = softmax(L[n, Q], reduced_dim=Q)\n"
          "  O[n, d] = einsum(W[n, Q], Z[Q, d])\n"
          "  Y[n, d] = Block(O[n, d], S[m, d])" +
              repeated + "\n  return Y[n, d]\n",
          "Q", l);
    };
    for (const char* repeated : {"", " repeated r"}) {
      const auto with_sizes = [&](const std::string& l) {
        return Valued(replaced(text(l, repeated), "v = 5", *repeated ? "v = 5, r = 2" : "v = 5"));
      };
      Valued with_k = with_sizes("k"), with_l = with_sizes("l");
      with_k.tensors["M"] = with_l.tensors["M"] = tokens({3, 1, 4});
      const Tensor X = tokens({1, 4, 0, 2, 2, 3});
      CHECK(with_l.program->leak == "");
      CHECK(difference(with_l(X), with_k(X)) == 0);
    }
  }

  TEST_CASE("each repetition leaves out the padding of what it is given and of its memory") {
    Valued model(
        "def Block(X[n, d], M[m, d]):\n"
        "  Z[l, d] = X[n=(l), d]\n"
        "  A[d] = mean(Z[l, d], reduced_dim=l)\n"
        "  L[n, m] = einsum(X[n, d], M[m, d])\n"
        "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
        "  Y[n, d] = einsum(W[n, m], M[m, d]) + A[d]\n"
        "  return Y[n, d]\n"
        "def Model(X[n] < v, E[v, d] = normal(1)):\n"
        "  where r = 2, d = 6, v = 5\n"
        "  T[n, d] = gather(E[v, d], X[n], dim=v)\n"
        "  Y[n, d] = Block(T[n, d], T[n, d]) repeated r\n"
        "  return Y[n, d]\n");
    const Mask padded{.lengths = Tensor::of<int64_t>({1}, {3})};
    const Tensor Y = model(tokens({1, 4, 0, 2, 2}), {.mask = padded});
    CHECK(difference(slice(Y, 1, 0, 3), model(tokens({1, 4, 0}))) < 1e-12);
  }

  TEST_CASE("a parameter per stack is one tensor for all repetitions") {
    const auto biased = [](const std::string& statements) {
      return replaced(
          replaced(::model(statements), "N[n, d_X])\n  H", "N[n, d_X]) with t5_bias\n  H"),
          "l = 2, ", statements.find("repeated") == std::string::npos ? "" : "l = 2, ");
    };
    Valued repeated(biased("  Z[n, d_X] = Block(T[n, d_X]) repeated l\n"));
    CHECK(repeated.tensors.contains("Z/A/T5Bias.B"));
    CHECK(!repeated.tensors.contains("Z/0/A/T5Bias.B"));
    Valued flat(biased("  U[n, d_X] = Block(T[n, d_X])\n  Z[n, d_X] = Block(U[n, d_X])\n"));
    for (auto& [name, tensor] : flat.tensors) {
      const bool is_table = name.ends_with("T5Bias.B");
      tensor = is_table ? repeated.tensors.at("Z/A/T5Bias.B")
                        : repeated.tensors.at(replaced(replaced(name, "U.", "Z/0/"), "Z.", "Z/1/"));
    }
    const Tensor X = tokens({1, 4, 0, 2, 2, 3});
    CHECK(difference(repeated(X), flat(X)) < 1e-12);
    Tensor& B = repeated.tensors.at("Z/A/T5Bias.B");
    B = noise(B.shape(), 99);
    CHECK(difference(repeated(X), flat(X)) > 1e-3);
  }

  TEST_CASE("a text's sizes go before those of what fills its slots") {
    const std::string text = model("  Z[n, d_X] = Block(T[n, d_X]) repeated l\n");
    Valued smaller(replaced(text, "l = 2, ", "l = 2, d_k = 5, d_v = 4, "));
    CHECK(Valued(text).tensors.at("Z/0/A/P_q").shape() == Shape{6, 3, 2});
    CHECK(smaller.tensors.at("Z/0/A/P_q").shape() == Shape{6, 5, 2});
    CHECK(smaller.tensors.at("Z/1/A/P_o").shape() == Shape{6, 4, 2});
    // A def that is written in the place of the slot is not told so.
    Valued written(replaced(
        replaced(replaced(text, "l = 2, ", "l = 2, d_k = 5, "), "Attention(", "MultiHead("),
        "use Attention = multi_head\n", ""));
    CHECK(written.tensors.at("Z/0/A.P_q").shape() == Shape{6, 3, 2});
  }

  TEST_CASE("a model that leaks is refused where it leaks, and says by what") {
    const auto leak = [](const std::string& text) { return Valued(text).program->leak; };
    const std::string whole = model("  Z[n, d_X] = Block(T[n, d_X]) repeated l\n");
    const std::string linformer = leak(replaced(whole, "= multi_head", "= linformer"));
    CHECK(linformer.find("it is called here") != std::string::npos);
    const std::string mean =
        leak(replaced(whole, "  Y[n, d_X] = X[n, d_X]",
                      "  G[d_X] = mean(X[n, d_X], reduced_dim=n)\n  Y[n, d_X] = G[d_X]"));
    CHECK(mean.find("mean(X[n, d_X]") != std::string::npos);
    CHECK(error_of([&] {
            Valued{whole}(tokens({1, 2}), {.mask = {.causal = true}});
          }) == "'Model' marks X as causal itself; its call takes no causal mask");
  }

  TEST_CASE("repetitions of repetitions are refused before they fill the memory") {
    std::string text =
        "def Last(X[n, d], p[d] = ones()):\n"
        "  Y[n, d] = X[n, d] * p[d]\n  return Y[n, d]\n";
    std::string inner = "Last";
    for (int i = 0; i < 40; ++i) {
      const std::string name = "D" + std::to_string(i);
      text += "def " + name + "(X[n, d]):\n  where l = 2\n  Y[n, d] = " + inner +
              "(X[n, d]) repeated l\n  return Y[n, d]\n";
      inner = name;
    }
    const auto program = std::make_shared<const Checked>(check(Program::parse(text)));
    SizeTable sizes(program, {{"d", 3}});
    CHECK(error_of([&] { parameter_specs(*program, sizes); }).find("more than 100000 parameters") !=
          std::string::npos);
  }

  TEST_CASE("a repetition costs what it costs written out, in names, too") {
    const Valued repeated(model("  Z[n, d_X] = Block(T[n, d_X]) repeated l\n"));
    const Valued flat(replaced(model(twice), "l = 2, ", ""));
    SizeTable sizes(repeated.program, {{"n", 9}}), flat_sizes(flat.program, {{"n", 9}});
    const Cost cost = cost_of(*repeated.program, sizes), other = cost_of(*flat.program, flat_sizes);
    CHECK(cost.total.multiplies == other.total.multiplies);
    CHECK(cost.total.visible == other.total.visible);
    CHECK(cost.total.visible < cost.total.multiplies);
    CHECK(cost.bytes == other.bytes);
    Index numbers = 0;
    for (const auto& [name, tensor] : repeated.tensors) numbers += tensor.size();
    CHECK(cost.parameters == numbers);
    CHECK(other.parameters == numbers);
    CHECK(cost.total.formula.text().find("l*n*n*Z.A.d_k*h") != std::string::npos);
  }
}
