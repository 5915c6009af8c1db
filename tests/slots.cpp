// Slots by place (R22): statements and repetitions with fillings of their own, as the text or its
// caller says.
#include "core/graph.hpp"
#include "nn/cost.hpp"
#include "nn/model.hpp"
#include "tests/marked.hpp"
#include "tests/valued.hpp"
#include "tests/written.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

const std::string defs =
    "def Small(X[n, d], w[d] = ones()):\n"
    "  Y[n, d] = X[n, d] * w[d]\n  return Y[n, d]\n"
    "def Wide(X[n, d], W[d, e] = normal(0.3)):\n  where e = 3\n"
    "  H[n, e] = tanh(einsum(X[n, d], W[d, e]))\n"
    "  Y[n, d] = einsum(H[n, e], W[d, e])\n  return Y[n, d]\n"
    "def Block(X[n, d]):\n"
    "  A[n, d] = Attention(X[n, d], X[n, d])\n"
    "  B[n, d] = A[n, d] + X[n, d]\n"
    "  F[n, d] = FF(B[n, d])\n"
    "  Y[n, d] = X[n, d] + F[n, d]\n  return Y[n, d]\n";
const std::string plain = "use Attention = multi_head\nuse FF = Small\n";
const std::string stack =
    "def Model(X[n, d]):\n  where l = 3, h = 2, d = 6\n"
    "  Z[n, d] = Block(X[n, d]) repeated l\n  return Z[n, d]\n";
const std::string flat =
    "def Model(X[n, d]):\n  where h = 2, d = 6\n"
    "  P[n, d] = Block(X[n, d])\n  Q[n, d] = Block(P[n, d])\n  Z[n, d] = Block(Q[n, d])\n"
    "  return Z[n, d]\n";

std::shared_ptr<const Checked> checked(const std::string& text,
                                       const std::vector<std::string>& uses = {}) {
  std::vector<Program> said;
  for (const std::string& use : uses) said.push_back(Program::parse_uses(use, "--use"));
  return std::make_shared<const Checked>(check(Program::parse(text), {}, catalogue(), said));
}

// The name of a repetition's parameter in the text that is written out.
std::string flat_name(std::string name) {
  for (const auto& [from, to] : {std::pair{"Z/0/", "P."}, {"Z/1/", "Q."}, {"Z/2/", "Z."}})
    if (name.starts_with(from)) name = to + name.substr(4);
  return name;
}

// The def that fills a slot, by the statement and what is called there.
std::string filler_at(const Checked& program, const std::string& path, Index repetition,
                      const std::string& statement) {
  for (const CheckedValue& v : program.values)
    if (v.kind == ValueKind::call && v.name == path) {
      const Checked& body = *program.calls[v.index].at(repetition).program;
      for (const CheckedValue& inner : body.values)
        if (inner.kind == ValueKind::call && inner.name == statement)
          return body.calls[inner.index].program->name;
    }
  return "";
}

Index parameters_of(const Cost& cost) { return cost.parameters + cost.fixed_parameters; }

}  // namespace

TEST_SUITE("slots") {
  TEST_CASE("repetitions with fillings of their own are the text written out") {
    Valued repeated(
        checked(plain + "use Attention[1] = talking_heads\nuse FF[0, 2] = Wide\n" + stack + defs));
    Valued out(checked(plain + "use Q.Attention = talking_heads\nuse P.FF = Wide\n" +
                       "use Z.FF = Wide\n" + flat + defs));
    CHECK(repeated.tensors.contains("Z/1/A/P_l"));
    CHECK(!repeated.tensors.contains("Z/0/A/P_l"));
    CHECK(repeated.tensors.contains("Z/0/F.W"));
    CHECK(repeated.tensors.contains("Z/1/F.w"));
    REQUIRE(repeated.tensors.size() == out.tensors.size());
    for (const auto& [name, tensor] : repeated.tensors) out.tensors.at(flat_name(name)) = tensor;
    const Tensor X = noise({2, 5, 6}, 9);
    CHECK(difference(repeated(X), out(X)) < 1e-12);
    CHECK(repeated.program->calls[0].others.size() == 2);

    SizeTable sizes(repeated.program, {{"n", 5}}), flat_sizes(out.program, {{"n", 5}});
    const Cost cost = cost_of(*repeated.program, sizes), other = cost_of(*out.program, flat_sizes);
    CHECK(cost.total.multiplies == other.total.multiplies);
    CHECK(cost.total.visible == other.total.visible);
    CHECK(cost.bytes == other.bytes);
    CHECK(parameters_of(cost) == parameters_of(other));
  }

  TEST_CASE("their gradients are those of the text written out, recomputed or kept") {
    const Valued repeated(
        checked(plain + "use Attention[1] = talking_heads\nuse FF[2] = Wide\n" + stack + defs));
    SizeTable sizes(repeated.program, {});
    Tensors values;
    std::vector<ParamId> ids;
    for (const ParameterSpec& made : parameter_specs(*repeated.program, sizes)) {
      ids.push_back({static_cast<int>(values.size())});
      values.push_back(repeated.tensors.at(made.spec.name).variable());
    }
    const Tensor X = noise({2, 5, 6}, 9);
    const auto gradients = [&](bool recompute) {
      const Forward forward{.params = values, .recompute_blocks = recompute};
      return grad(sum(square(run(*repeated.program, sizes, {X}, ids, forward))), values);
    };
    const Tensors kept = gradients(false), again = gradients(true);
    for (size_t i = 0; i < kept.size(); ++i) {
      CHECK(difference(kept[i], again[i]) == 0);
      CHECK(difference(kept[i], kept[i] * 0) > 0);
    }
  }

  TEST_CASE("a def of the text amends a call, as a text of the catalogue does") {
    const std::string own =
        "def Root(J[n, m, h], r[]):\n  Y[n, m, h] = J[n, m, h] * r[]\n  return Y[n, m, h]\n"
        "def Own(J[n, m, h], Q[n, d_k, h]):\n  r[] = d_k^-0.5\n"
        "  Y[n, m, h] = Root(J[n, m, h], r[])\n  return Y[n, m, h]\n";
    const std::string fills = "use Attention = multi_head";
    const auto with = [&](const std::string& name) {
      std::string text = defs;
      const std::string call = "Attention(X[n, d], X[n, d])";
      return text.replace(text.find(call), call.size(), call + " with " + name);
    };
    Valued theirs(checked(fills + " with scaled\nuse FF = Small\n" + stack + defs));
    const Tensor X = noise({2, 5, 6}, 9);
    for (const auto& program :
         {checked(fills + " with Own\nuse FF = Small\n" + own + stack + defs),
          checked(plain + own + stack + with("Own")),
          checked(plain + "use Relative = Own\n" + own + stack + with("Relative")),
          checked(plain + stack + defs + own, {"Attention with Own"}),
          checked(plain + stack + defs + own, {"Attention = multi_head with Own"})}) {
      Valued ours(program);
      CHECK(ours.program->name == "Model");
      ours.tensors = theirs.tensors;
      CHECK(difference(ours(X), theirs(X)) < 1e-9);
    }
    Valued without(checked(plain + stack + defs));
    without.tensors = theirs.tensors;
    CHECK(difference(without(X), theirs(X)) > 1e-3);
  }

  TEST_CASE("a body is checked once for each filling") {
    const auto program = checked(
        plain + "use FF[0, 2] = Wide\nuse Attention[0, 2, 1] = talking_heads\n" + stack + defs);
    REQUIRE(program->calls[0].others.size() == 2);
    CHECK(program->calls[0].others[0].numbers.size() == 2);
    CHECK(&program->calls[0].at(0) == &program->calls[0].at(2));
    CHECK(&program->calls[0].at(1) != &program->calls[0].at(0));
  }

  TEST_CASE("more precise places win, and the caller's before the text's") {
    const std::string text = plain + "use Attention[1] = talking_heads\n" + stack + defs;
    struct Row {
      std::vector<std::string> uses;
      const char* at[3];
    };
    const Row rows[] = {
        {{}, {"MultiHead", "TalkingHeads", "MultiHead"}},
        {{"Attention=multi_query"}, {"MultiQuery", "MultiQuery", "MultiQuery"}},
        {{"Attention[0]=multi_query"}, {"MultiQuery", "TalkingHeads", "MultiHead"}},
        {{"Z.Attention=multi_query"}, {"MultiQuery", "MultiQuery", "MultiQuery"}},
        {{"Attention=multi_query", "Z.Attention=shared_kv"}, {"SharedKV", "SharedKV", "SharedKV"}},
        {{"Z.Attention=multi_query", "Attention[2]=shared_kv"},
         {"MultiQuery", "MultiQuery", "SharedKV"}},
        {{"Attention[2, 1]=multi_query", "Z.Attention[2]=shared_kv"},
         {"MultiHead", "MultiQuery", "SharedKV"}},
        {{"Z.Attention=multi_query", "Z.A.Attention=shared_kv"},
         {"SharedKV", "SharedKV", "SharedKV"}},
    };
    for (const Row& row : rows) {
      const auto program = checked(text, row.uses);
      CAPTURE(row.uses.size());
      for (Index i = 0; i < 3; ++i) CHECK(filler_at(*program, "Z", i, "A") == row.at[i]);
    }
  }

  TEST_CASE("a slot that another is filled with is filled by its place, too") {
    const std::string text =
        "use Attention = multi_head\nuse Other = Attention\nuse FF = Small\n" + stack + defs;
    std::string other = text;
    other.replace(other.find("A[n, d] = Attention"), 19, "A[n, d] = Other");
    const auto program = checked(other, {"Attention[1]=talking_heads"});
    CHECK(filler_at(*program, "Z", 1, "A") == "TalkingHeads");
    CHECK(filler_at(*program, "Z", 2, "A") == "MultiHead");
  }

  TEST_CASE("a use without a filler amends what fills the slot, after all else") {
    const std::string text = plain + stack + defs;
    const Valued amended(checked(text, {"Attention[1] with biases", "Attention with t5_bias"}));
    CHECK(amended.tensors.contains("Z/1/A/QueryBias.b"));
    CHECK(!amended.tensors.contains("Z/0/A/QueryBias.b"));
    CHECK(amended.tensors.contains("Z/A/T5Bias.B"));
  }

  TEST_CASE("one repetition that leaks is told") {
    const std::string text = plain +
                             "def Model(X[causal n] < v, E[v, d] = normal(1)):\n"
                             "  where l = 3, h = 2, d = 6, v = 5\n"
                             "  T[n, d] = gather(E[v, d], X[n], dim=v)\n"
                             "  Z[n, d] = Block(T[n, d]) repeated l\n  return Z[n, d]\n" +
                             defs;
    CHECK(checked(text)->leak == "");
    const std::string leak = checked(text, {"Attention[2]=linformer"})->leak;
    CHECK(leak.find("linformer.tete") != std::string::npos);
    CHECK(leak.find("it is called here") != std::string::npos);
  }

  TEST_CASE("a model whose layers differ reads each token once") {
    const auto program = std::make_shared<const Checked>(
        check(*find_text("gpt2").program, {}, catalogue(),
              {Program::parse_uses("Attention[1]=grouped_query with scaled\nBlock[0]=parallel\n",
                                   "--use")}));
    const Model model(program, {{"v", 7}, {"l", 3}, {"h", 2}, {"d_X", 16}, {"g", 1}});
    CHECK(model.params().find("Z/0/C.gamma") >= 0);
    const Tensors values = model.params().initial_values(Key(3), Dtype::f64);
    const std::vector<int64_t> all{1, 4, 0, 2, 2, 3, 6};
    const Tensor X = Tensor::of<int64_t>({1, 7}, std::span<const int64_t>(all));
    Decoding decoding;
    for (Index at = 0; at < 7; ++at) {
      const Tensor next =
          model.next_logits({.params = values}, {.X = slice(X, 1, at, 1)}, decoding);
      const Tensor whole = model.last_logits({.params = values}, {.X = slice(X, 1, 0, at + 1)});
      CHECK(difference(next, whole) < 1e-12);
    }
  }

  TEST_CASE("a table per stack is one for repetitions that differ, and counted once") {
    const std::string text =
        "use Attention = multi_head with t5_bias\nuse FF = Small\nuse FF[1] = Wide\n" + defs +
        stack;
    const Valued model(checked(text));
    CHECK(model.tensors.contains("Z/A/T5Bias.B"));
    SizeTable sizes(model.program, {{"n", 4}});
    Index numbers = 0;
    for (const auto& [name, tensor] : model.tensors) numbers += tensor.size();
    CHECK(parameters_of(cost_of(*model.program, sizes)) == numbers);
  }

  TEST_CASE(
      "what fills a slot may leave the caller's parameters, and one that none takes is none") {
    const std::string text =
        "use Shift = Added\n"
        "def Model(X[n, d], M[m, d], T[n<=room, d] = normal(0.3), w[d] = ones()):\n"
        "  where room = 9, d = 4\n"
        "  A[n, d] = Shift(X[n, d], T[n, d])\n"
        "  B[m, d] = Shift(M[m, d], w[d])\n"
        "  S[d] = sum(B[m, d], reduced_dim=m)\n"
        "  Z[n, d] = A[n, d] * w[d] + S[d]\n  return Z[n, d]\n"
        "def Added(X[n, d], T[n<=room, d] = normal(1)):\n  where room = 7\n"
        "  Y[n, d] = X[n, d] + T[n, d]\n  return Y[n, d]\n"
        "def Kept(X[n, d]):\n  Y[n, d] = 1 * X[n, d]\n  return Y[n, d]\n";
    const auto parameters = [&](const std::vector<std::string>& uses) {
      const auto program = checked(text, uses);
      std::string names;
      for (const CheckedParameter& p : program->parameters) names += p.name + " ";
      return names;
    };
    const std::string one = "B.Shift=Kept";
    CHECK(parameters({one}) == "T w ");
    CHECK(parameters({"Shift=Kept"}) == "w ");
    Valued added(checked(text, {one})), kept(checked(text, {"Shift=Kept"}));
    CHECK(added.tensors.at("T").shape() == Shape{9, 4});
    added.tensors["M"] = kept.tensors["M"] = noise({2, 4}, 6);
    kept.tensors["w"] = added.tensors["w"];
    const Tensor X = noise({3, 4}, 7);
    CHECK(difference(added(X), kept(X)) > 0.1);
    added.tensors["T"] = Tensor::zeros({9, 4}, Dtype::f64);
    CHECK(difference(added(X), kept(X)) == 0);
    // Nor is one that only some repetitions take, or that goes on under another name.
    const std::string repeated =
        replaced(text, "Shift(X[n, d], T[n, d])\n", "Shift(X[n, d], T[n, d]) repeated l\n");
    const std::string deep = replaced(repeated, "room = 9,", "room = 9, l = 2,");
    CHECK(checked(deep, {"Shift=Kept"})->parameters.size() == 1);
    CHECK(checked(deep, {one, "A.Shift[0]=Kept"})->parameters.size() == 2);
    const std::string renamed =
        replaced(replaced(text, "w[d] = ones()):", "w[d] = ones(), Q[q, d] = T[n, d]):"),
                 "+ S[d]\n", "+ S[d] + Q[0, d]\n");
    CHECK(checked(renamed, {"Shift=Kept"})->parameters.size() == 2);
    // An input is not left, nor is a parameter where no slot is called; what is taken must fit.
    const auto said = [](const std::string& of, const std::vector<std::string>& use) {
      return error_of([&] { checked(of, use); });
    };
    const char* const many = "'Kept' takes 1 argument, got 2";
    CHECK(said(replaced(text, "w[d])\n", "X[n, d])\n"), {one}).find(many) != std::string::npos);
    CHECK(said(replaced(text, "= Shift(X", "= Kept(X"), {one}).find(many) != std::string::npos);
    const std::string handed = replaced(text, "= Shift(X", "= Inner(X") +
                               "def Inner(X[n, d], T[n<=room, d] = normal(1)):\n  where room = 7\n"
                               "  Y[n, d] = Shift(X[n, d], T[n, d])\n  return Y[n, d]\n";
    CHECK(checked(handed, {one})->parameters.size() == 2);
    CHECK(said(handed, {"Shift=Kept"}).find("'T' is never used: what fills a slot leaves it") !=
          std::string::npos);
    CHECK(said(text, {}).find("'T' has 2 dimensions, but 1 are passed") != std::string::npos);
  }

  // A sentence about a text and, if a row has them, its caller's uses.
  struct Refused {
    const char* said;
    std::string text;
    const char* uses = "";
  };

  TEST_CASE("places that are none are refused in a sentence") {
    const std::string text = plain + stack + defs;
    const std::string block = find_text("pre_norm").program->source->text;
    const auto with = [&](const std::string& use) { return use + "\n" + text; };
    const Refused rows[] = {
        {"'Model' has no slot 'Atention'; did you mean 'Attention'?; its slots are Attention, FF",
         text, "Atention=multi_query"},
        {"'P.Attention' is nowhere in 'Model': 'Attention' stands in 'Z.A'", text,
         "P.Attention=multi_query"},
        {"'A.Z.Attention' is nowhere in 'Model'", text, "A.Z.Attention=multi_query"},
        {"'P.Attention[1]' is nowhere in 'Model': 'Attention' stands in 'Z.A'", text,
         "P.Attention[1]=multi_query"},
        {"the slot 'Relative' stands after 'with', so one amending text fills it", block,
         "Relative with rotary"},
        {"without a 'with' or 'start' of its own", block, "Relative=rotary with dropout"},
        {"without a 'with' or 'start' of its own", block, "Relative=t5_bias start normal(1)"},
        {"there is no repetition 3: 'l' is 3, so they are 0 to 2", text,
         "Attention[3]=multi_query"},
        {"is in no call that is repeated, so it has no number", plain + flat + defs,
         "Attention[0]=multi_query"},
        {"the slot 'FF' of 'Z.F' is filled twice, by 'Z.FF = Wide' and 'F.FF = Wide'", text,
         "Z.FF=Wide\nF.FF=Wide"},
        {"the slot 'FF[1]' is filled twice", text, "FF[0, 1]=Wide\nFF[1]=Small"},
        {"1 stands twice", text, "FF[1, 1]=Wide"},
        {"expected the number of a repetition, a whole one from 0", text, "FF[x]=Wide"},
        {"expected the number of a repetition, a whole one from 0", text, "FF[1.5]=Wide"},
        {"expected ',' or ']' after the number of a repetition, but here '2' stands", text,
         "FF[1 2]=Wide"},
        {"expected '=' or 'with' after 'Z.FF', but here the line ends", text, "Z.FF\n"},
        {"expected a statement or a slot after 'Z.', but here '=' stands", text, "Z.=Wide"},
        {"there is no text and no def 'Wider' to fill 'FF'", text, "FF=Wider"},
        {"the slot 'FF' is filled with none; only one that stands after 'with' may be", text,
         "FF[1]=none"},
        {"there is no amending text 'biasses'", text, "Attention with biasses"},
        {"unknown initialiser 'nix'", text, "Attention=multi_head start nix(2)"},
        {"no 'with' or 'start' counts here, as 'Attention' is a slot itself",
         "use Other = Attention with biases\n" + replaced(text, "= Attention(", "= Other("), ""},
        {"nothing fills the slot 'FF' of 'Z.F'; a use without a place would",
         "use Attention = multi_head\nuse Q.FF = Small\n" + stack + defs},
        {"repetitions that are tied are one, so none of them has a filling of its own",
         plain +
             "def Model(X[n, d]):\n  where l = 3, h = 2, d = 6\n"
             "  Z[n, d] = Block(X[n, d]) repeated l tied\n  return Z[n, d]\n" +
             defs,
         "FF[1]=Wide"},
        {"'Model' has no slot 'Norm'; its slots are Attention, FF", with("use Norm = Small")},
        {"'GPT2' marks its input as causal, as only whole models do", text, "FF=gpt2"},
    };
    for (const Refused& row : rows) {
      CAPTURE(row.uses);
      CAPTURE(row.said);
      const std::string said = error_of([&] {
        std::vector<std::string> uses;
        if (*row.uses) uses.push_back(row.uses);
        Valued(checked(row.text, uses));
      });
      CHECK_MESSAGE(said.find(row.said) != std::string::npos, said);
      CHECK(said.find('^') != std::string::npos);
    }
  }
}
