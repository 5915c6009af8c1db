// Messages about models that cannot be: each row has a cause of its own.
#include "attention/catalog.hpp"
#include "nn/model.hpp"
#include "tests/error_of.hpp"

using namespace tete;

namespace {

// The text up to a model, which begins with these statements and returns Z[n, d].
struct Bad {
  const char* sentence;
  std::string text;
};

const std::string block =
    "def Block(X[n, d]):\n"
    "  A[n, d] = Attention(X[n, d], X[n, d])\n"
    "  Y[n, d] = X[n, d] + A[n, d]\n  return Y[n, d]\n";
const std::string uses = "use Attention = multi_head\n";

// The sizes of heads and repetitions, where there are any.
std::string model(const std::string& statements, const std::string& result = "Z[n, d]") {
  const bool has_heads = statements.find("Attention") != std::string::npos;
  const bool repeats = statements.find("repeated") != std::string::npos;
  return "def Model(X[causal n] < v, E[v, d] = normal(1)):\n"
         "  where d = 4, v = 5" +
         std::string(repeats ? ", l = 2" : "") + (has_heads ? ", h = 2" : "") +
         "\n"
         "  T[n, d] = gather(E[v, d], X[n], dim=v)\n" +
         statements + "  return " + result + "\n";
}
std::string stack(const std::string& uses, const std::string& defs) {
  return uses + defs + model("  # Attention\n  Z[n, d] = Block(T[n, d]) repeated l\n");
}
// A model whose block is a feed-forward layer with this text.
std::string filled(const std::string& filler) {
  return "use F = Filler\n" + filler +
         "def Block(X[n, d]):\n  Y[n, d] = F(X[n, d])\n  return Y[n, d]\n" +
         model("  Z[n, d] = Block(T[n, d]) repeated l\n");
}
std::string of_block(const std::string& body) {
  return "def Block(X[n, d]" + body + "  return Y[n, d]\n" +
         model("  Z[n, d] = Block(T[n, d]) repeated l\n");
}

// All that is said before the model runs.
std::string said(const std::string& text) {
  return error_of([&] {
    const auto program =
        std::make_shared<const Checked>(check(Program::parse(text), {}, catalogue()));
    if (!program->leak.empty()) throw Error(ErrorKind::input, program->leak);
    SizeTable sizes(program, {{"n", 3}});
    if (program->find_dimension("m") >= 0) sizes = SizeTable(program, {{"n", 3}, {"m", 4}});
    sizes.set_causal(true);
    parameter_specs(*program, sizes);
    sizes.check_all();
  });
}

}  // namespace

TEST_SUITE("messages") {
  TEST_CASE("models that cannot be are told where and why") {
    const std::string same = "):\n  Y[n, d] = X[n, d] + 1\n";
    const Bad rows[] = {
        // How slots are written.
        {"expected '=' or 'with' after 'Attention', but here 'multi_head' stands",
         stack("use Attention multi_head\n", block)},
        {"expected the name of a slot, as in 'use Attention = multi_head', but here '=' stands",
         stack("use = multi_head\n", block)},
        {"expected what fills 'Attention': a text or a def, by its name, but here the line ends",
         stack("use Attention =\n", block)},
        {"expected how parameters start, as in normal(0.02)",
         stack("use Attention = multi_head start 2\n", block)},
        {"the slot 'Attention' is filled twice", stack(uses + uses, block)},
        {"expected the number of a repetition, a whole one from 0",
         stack(uses + "use Attention[l] = talking_heads\n", block)},
        {"expected 'def'", block + uses + model("  Z[n, d] = Block(T[n, d]) repeated l\n")},
        {"expected the dimension that counts the repetitions, as in 'repeated l', but here the "
         "line ends",
         uses + block + model("  Z[n, d] = Block(T[n, d]) repeated\n")},
        // Texts that fill them.
        {"unknown function 'Attention'", stack("", block)},
        {"there is no text and no def 'multi_hed' to fill 'Attention'; did you mean 'multi_head'",
         stack("use Attention = multi_hed\n", block)},
        {"the slot 'Attention' is filled with itself",
         stack("use Attention = Other\nuse Other = Attention\n", block)},
        {"the slot 'Attention' is filled with none; only one that stands after 'with' may be",
         stack("use Attention = none\n", block)},
        {"'Model' has no slot 'Norm'; its slots are Attention",
         stack(uses + "use Norm = norm_rms\n", block)},
        {"'encoder.Attention' is nowhere in 'Model': 'Attention' stands in 'Z.A'",
         stack(uses + "use encoder.Attention = talking_heads\n", block)},
        {"there is no repetition 2: 'l' is 2, so they are 0 to 1",
         stack(uses + "use Attention[2] = talking_heads\n", block)},
        {"'Attention' of 'A' is in no call that is repeated, so it has no number",
         uses + "use Attention[0] = talking_heads\n" +
             model("  A[n, d] = Attention(T[n, d], T[n, d])\n  Z[n, d] = 2 * A[n, d]\n")},
        {"there is no amending text 'baises'",
         stack("use Attention = multi_head with baises\n", block)},
        {"two amendments are called 'QueryBias'",
         stack("use Attention = multi_head with biases, biases\n", block)},
        {"'Block' calls itself",
         stack("use F = Block\n",
               "def Block(X[n, d]):\n  Y[n, d] = F(X[n, d])\n  return Y[n, d]\n")},
        // Fillers that do not fit.
        {"'Filler' returns 1 dimension, but the left has 2",
         filled("def Filler(X[n, d]):\n  Y[n] = sum(X[n, d], reduced_dim=d)\n  return Y[n]\n")},
        {"'Filler' needs its input 'S'",
         filled("def Filler(X[n, d], S[n]):\n  Y[n, d] = X[n, d] * S[n]\n  return Y[n, d]\n")},
        {"'Filler' takes 1 argument, got 2",
         stack("use Attention = Filler\n",
               "def Filler(X[n, d]):\n  Y[n, d] = 2 * X[n, d]\n  return Y[n, d]\n" + block)},
        {"'X' has 3 dimensions, but 2 are passed",
         filled("def Filler(X[n, h, d]):\n  Y[n, h, d] = X[n, h, d] + 1\n  return Y[n, h, d]\n")},
        {"'X' holds whole numbers, but real numbers are passed",
         filled("def Filler(X[n, d] < v):\n  Y[n, d] = X[n, d] + 1\n  return Y[n, d]\n")},
        {"'d' is 4, but 'Y.e' is 8",
         filled("def Filler(X[n, d], W[d, e] = ones()):\n  where e = 2 * d\n"
                "  Y[n, e] = einsum(X[n, d], W[d, e])\n  return Y[n, e]\n")},
        {"'DenseSynthesizer' reads its own sequence only: its 'M' is 'X', and another tensor "
         "cannot be "
         "passed; fill 'Cross' with a text that takes one",
         "use Cross = dense_synthesizer\n"
         "def Model(X[causal n] < v, M[m] < v, E[v, d] = normal(1)):\n"
         "  where d = 4, h = 2, v = 5\n"
         "  T[n, d] = gather(E[v, d], X[n], dim=v)\n  S[m, d] = gather(E[v, d], M[m], dim=v)\n"
         "  Z[n, d] = Cross(T[n, d], S[m, d])\n  return Z[n, d]\n"},
        // Repetitions.
        {"what 'Block' returns goes in again as its first argument, so it has the dimensions of "
         "that",
         "def Block(X[n, d]):\n  Y[n] = sum(X[n, d], reduced_dim=d)\n  return Y[n]\n" +
             model("  Y[n] = Block(T[n, d]) repeated l\n  Z[n, d] = T[n, d] * Y[n]\n")},
        {"'d' is 4, but what the call returns has 3",
         "def Block(X[n, d], W[d, e] = ones()):\n  where e = 3\n"
         "  Y[n, e] = einsum(X[n, d], W[d, e])\n  return Y[n, e]\n" +
             model("  Z[n, d] = Block(T[n, d]) repeated l\n")},
        {"'l' counts the repetitions; it is the first dimension of what keeps them",
         uses + block +
             model("  S[n, l, d] = Block(T[n, d]) repeated l\n"
                   "  Z[n, d] = sum(S[n, l, d], reduced_dim=l)\n")},
        {"'k' is not a dimension of 'Model'",
         uses + block + model("  Z[n, d] = Block(T[n, d]) repeated k\n")},
        {"'with' and 'repeated' stand after the call of a def or a slot",
         model("  Z[n, d] = relu(T[n, d]) repeated l\n")},
        {"expected an operator or the end of the line",
         uses + block + model("  Z[n, d] = 2 * Block(T[n, d]) repeated l\n")},
        {"the result of a def takes plain names; merge them in a statement of its own",
         uses + block +
             model("  S[n, d=(g s)] = Block(T[n, d]) repeated l\n  Z[n, d] = S[n, d]\n")},
        {"repetitions that are tied are one, so none of them has a filling of its own",
         uses + "use Attention[1] = talking_heads\n" + block +
             model("  Z[n, d] = Block(T[n, d]) repeated l tied\n")},
        {"'T5Bias' amends 'L', but 'Block' has no tensor of that name",
         "def Block(X[n, d]):\n  Y[n, d] = X[n, d] + 1\n  return Y[n, d]\n" +
             model("  Z[n, d] = Block(T[n, d]) with t5_bias repeated l\n")},
        {"is a sequence, and 'Block', which is repeated, amended or fills a slot, takes sequences "
         "as X and M; 'S' has an axis of neither",
         "def Block(X[n, d], S[k, d]):\n  P[d] = sum(S[k, d], reduced_dim=k)\n"
         "  Y[n, d] = X[n, d] + P[d]\n  return Y[n, d]\n"
         "def Model(X[causal n] < v, M[m] < v, E[v, d] = normal(1)):\n"
         "  where l = 2, d = 4, v = 5\n"
         "  T[n, d] = gather(E[v, d], X[n], dim=v)\n  S[m, d] = gather(E[v, d], M[m], dim=v)\n"
         "  Z[n, d] = Block(T[n, d], S[m, d]) repeated l\n  return Z[n, d]\n"},
        // Sequences.
        {"'causal' stands before the first dimension of the input X",
         "def Model(X[n, causal d]):\n  Y[n, d] = X[n, d] + 1\n  return Y[n, d]\n"},
        {"'causal' stands before the first dimension of the input X",
         "def Model(X[n] < v, M[causal m] < v, E[v, d] = ones()):\n"
         "  Y[m, d] = gather(E[v, d], M[m], dim=v)\n  return Y[m, d]\n"},
        {"'Block' marks its input as causal, as only whole models do: it cannot be called, nor "
         "fill a "
         "slot",
         "def Block(X[causal n, d]" + same + "  return Y[n, d]\n" +
             model("  Z[n, d] = Block(T[n, d]) repeated l\n")},
        {"this combines all positions of 'n' outside a masked weight",
         of_block("):\n  G[d] = mean(X[n, d], reduced_dim=n)\n  Y[n, d] = X[n, d] + G[d]\n")},
        {"it is called here", stack("use Attention = linformer\n", block)},
        {"this returns what a program of its own makes of the positions of 'n' outside a masked "
         "weight, so a causal mask does not keep the future hidden; a call without 'with' of a "
         "def without M is part of the text",
         uses +
             "def Pool(X[n, d]):\n  where w = 2, c = n - 1\n"
             "  A[n, d] = Attention(X[n, d], X[n, d])\n"
             "  W[c, w, d] = windows(A[n, d], dim=n, into=(c w))\n"
             "  P[c, d] = mean(W[c, w, d], reduced_dim=w)\n  return P[c, d]\n" +
             model("  P[c, d] = Pool(T[n, d]) with scaled\n"
                   "  Z[n, d] = Attention(T[n, d], P[c, d])\n")},
        {"this mixes all positions of 'n'", model("  Z[n, d] = layer_norm(T[n, d], dim=n)\n")},
        {"there is no tensor 'M'", uses + model("  Z[n, d] = Attention(T[n, d], M[m, d])\n")},
        {"this combines all positions of 'n' outside a masked weight",
         uses +
             "def Model(X[causal n] < v, M[m] < v, E[v, d] = normal(1)):\n"
             "  where d = 4, h = 2, v = 5\n"
             "  T[n, d] = gather(E[v, d], X[n], dim=v)\n  S[m, d] = gather(E[v, d], M[m], dim=v)\n"
             "  R[m, d] = Attention(S[m, d], T[n, d])\n  G[d] = mean(R[m, d], reduced_dim=m)\n"
             "  Z[n, d] = T[n, d] + G[d]\n  return Z[n, d]\n"},
        // The number of a repetition, terms of the loss, parts.
        {"a size is the same in all repetitions; 'layer' stands in values and in how parameters "
         "start",
         of_block(", W[d, e] = ones()):\n  where e = layer + 1\n"
                  "  H[n, e] = einsum(X[n, d], W[d, e])\n  Y[n, d] = einsum(H[n, e], W[d, e])\n")},
        {"all repetitions share this parameter, so that it starts alike in each",
         of_block(", w[d] = constant(layer) per stack):\n  Y[n, d] = X[n, d] * w[d]\n")},
        {"all repetitions share this parameter, so that it starts alike in each",
         "def Block(X[n, d], w[d] = constant(layer)):\n  Y[n, d] = X[n, d] * w[d]\n"
         "  return Y[n, d]\n" +
             model("  Z[n, d] = Block(T[n, d]) repeated l tied\n")},
        {"'layer' is a word of the notation; expected", of_block(", layer[d] = ones()" + same)},
        {"a term of the loss is one number: write B[]",
         of_block("):\n  Y[n, d] = X[n, d] + 1\n  loss B[n] = sum(Y[n, d], reduced_dim=d)\n")},
        {"'B' is a term of the loss, which no statement reads",
         of_block("):\n  S[n] = sum(X[n, d], reduced_dim=d)\n"
                  "  loss B[] = mean(S[n], reduced_dim=n)\n  Y[n, d] = X[n, d] * B[]\n")},
        {"a term of the loss is an expression; give what the call returns a name first",
         uses + block +
             model("  loss B[] = Block(T[n, d])\n  Z[n, d] = Block(T[n, d]) repeated l\n")},
        {"'n' is a dimension of 'X' but not of the left",
         of_block("):\n  loss B[] = X[n, d]^2\n  Y[n, d] = X[n, d] + 1\n")},
        {"'e' is not a dimension of what a part is of",
         of_block("):\n  where e = 2\n  Y[n, d] = part(X[n, d], dim=e, into=d)\n")},
        {"'n' is a dimension of 'X' already",
         of_block("):\n  Y[n, d] = part(X[n, d], dim=d, into=n)\n")},
        {"'part' needs into=", of_block("):\n  Y[n, d] = part(X[n, d], dim=d)\n")},
    };
    CHECK(std::size(rows) >= 40);
    for (const Bad& row : rows) {
      const std::string message = said(row.text);
      CAPTURE(row.sentence);
      CHECK_MESSAGE(message.find(row.sentence) != std::string::npos, message);
      CHECK(message.find('^') != std::string::npos);
    }
  }
}
