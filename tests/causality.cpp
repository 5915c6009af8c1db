// The rules about what a call hides (R17 to R19), judged by runs. The texts of
// tests/texts/causality say in their first line whether they leak the future, or read padding, or
// only look as if; they were written by someone who had not seen the rules' code, and judged by
// another program.
#include <filesystem>
#include <set>

#include "attention/gradcheck.hpp"
#include "tests/error_of.hpp"
#include "tests/in_pieces.hpp"
#include "tests/layer.hpp"
#include "tests/written.hpp"
#include "train/files.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

struct Text {
  std::string name, label;
  Program program;
  bool amends;
};

std::vector<Text> texts(const std::string& label) {
  std::vector<Text> all;
  const std::filesystem::path folder = std::filesystem::path(TEXTS) / "causality";
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".tete") continue;
    const std::string text = read_file(file.path()), name = file.path().stem().string();
    if (!text.starts_with("# " + label + ":")) continue;
    all.push_back({name, label, Program::parse(text, name), name.starts_with("amend_")});
  }
  std::sort(all.begin(), all.end(), [](const Text& a, const Text& b) { return a.name < b.name; });
  return all;
}

// A text as a layer, or multi-head attention amended by it.
struct TextLayer {
  ParamList list;
  std::shared_ptr<const Checked> program;
  Attention attention;
  Tensors values;

  explicit TextLayer(const Text& text)
      : program(text.amends ? load_attention(*find_variant("multi_head").program, {text.program})
                            : load_attention(text.program)),
        attention({list, ""}, program, sizes(*program)),
        values(list.initial_values(Key(7), Dtype::f64)) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = noise(values[i].shape(), 100 + i) * 0.5;
  }
  static AttentionSizes sizes(const Checked& program) {
    AttentionSizes sizes{.d_model = 4, .dims = {}};
    if (program.find_dimension("h") >= 0) sizes.heads = 2;
    return sizes;
  }
  Tensor operator()(const Tensor& X, const Mask& mask, const Tiling& tiling = {}) const {
    const Forward forward{.params = values, .watch = {}, .tiling = tiling};
    return attention(forward, "", X, X, mask);
  }
  Tensor in_pieces(const Tensor& X, const std::vector<Index>& lengths) const {
    return tests::in_pieces(attention, {.params = values, .watch = {}}, X, X, lengths);
  }
};

Tensor first_rows(const Tensor& X, Index count) { return slice(X, 1, 0, count); }

std::shared_ptr<const Checked> checked(const std::string& text) {
  return std::make_shared<const Checked>(check(Program::parse(text)));
}

// Attention of one head, as wide as its input, with these statements between weights and result.
Text with_statements(const std::string& statements, const std::string& where = "") {
  const std::string text = "def F(X[n, d], M[m, d]):\n" + where +
                           "  L[n, m] = einsum(X[n, d], M[m, d]) * 0.3\n"
                           "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                           "  O[n, d] = einsum(W[n, m], M[m, d])\n" +
                           statements + "  return Y[n, d]\n";
  return {"F", "", Program::parse(text, "F"), false};
}

// The same with a matrix to learn, and logits alone; `where` has more sizes.
Text learned(const std::string& statements, const std::string& where = "") {
  const auto use = [&](const char* name, const char* text) {
    return statements.find(name) == std::string::npos ? "" : text;
  };
  const std::string text = std::string("def F(X[n, d], M[m, d], R[d, e] = normal(1)") +
                           use("P[", ", P[p, d] = normal(1)") + "):\n  where e = d" +
                           use("u)", ", u = 2") + where + "\n" +
                           use("L[n, m]", "  L[n, m] = einsum(X[n, d], R[d, e], M[m, d=(e)])\n") +
                           statements + "  return Y[n, d]\n";
  return {"F", "", Program::parse(text, "F"), false};
}

// Checks that a text is causal: rows do not depend on what follows, on how much follows, on how
// many rows are read at once, nor on blocks.
void check_causal(const TextLayer& layer, Index least = 1) {
  REQUIRE(layer.program->leak == "");
  const Tensor X = noise({2, 9, 4}, 1), Y = layer(X, {.causal = true});
  for (Index n : {least, 2l, 3l, 5l, 8l})
    CHECK(difference(layer(first_rows(X, n), {.causal = true}), first_rows(Y, n)) < 1e-12);
  std::vector<Index> ones(static_cast<size_t>(10 - least), 1);
  ones[0] = least;
  CHECK(difference(layer.in_pieces(X, ones), Y) < 1e-12);
  CHECK(difference(layer.in_pieces(X, {4, 1, 3, 1}), Y) < 1e-12);
  for (Index queries : {1, 2, 4})
    CHECK(difference(layer(X, {.causal = true}, {.queries = queries, .samples = 1}), Y) < 1e-12);
}

// Checks that the rows of a sample do not depend on how far it is padded, nor with what.
void check_padded(const TextLayer& layer, Index least = 1) {
  const Mask padded{.lengths = Tensor::of<int64_t>({2}, {least + 2, 7})};
  const Tensor X = noise({2, 7, 4}, 1), x = slice(X, 0, 0, 1);
  const auto rows = [&](const Tensor& y) { return first_rows(slice(y, 0, 0, 1), least + 2); };
  const Tensor Y = rows(layer(X, padded)), other = slice(noise({2, 7, 4}, 2), 0, 0, 1);
  CHECK(difference(Y, layer(rows(X), {})) < 1e-12);
  const Tensor changed = concat({rows(X), slice(other, 1, least + 2, 5 - least)}, 1);
  CHECK(same_bits(rows(layer(concat({changed, slice(X, 0, 1, 1)}, 0), padded)), Y));
}

// Checks that a step along the gradient of a causal run lowers the loss.
void check_learns(TextLayer& layer, const Tensor& X) {
  const Tensor target = noise(X.shape(), 2);
  const auto loss = [&] { return sum(square(layer(X, {.causal = true}) - target)); };
  const double before = loss().item();
  for (Tensor& value : layer.values) value = value.variable();
  const Tensors gradient = grad(loss(), layer.values);
  for (size_t i = 0; i < gradient.size(); ++i)
    layer.values[i] = (layer.values[i] - 1e-4 * gradient[i]).detach();
  CHECK(loss().item() < before);
}

}  // namespace

TEST_SUITE("causality") {
  TEST_CASE("texts that leak are refused, with a caret") {
    int count = 0;
    for (const Text& text : texts("leaks")) {
      CAPTURE(text.name);
      const TextLayer layer(text);
      CHECK_FALSE(layer.program->leak.empty());
      const Tensor X = noise({1, 6, 4}, 1);
      CHECK(error_of([&] { layer(X, {.causal = true}); }).find("^") != std::string::npos);
      ++count;
    }
    CHECK(count == 54);
  }

  TEST_CASE("what the rule does not follow is refused, not guessed") {
    const std::vector<Text> all = texts("causal, but refused");
    CHECK(all.size() == 3);
    for (const Text& text : all)
      CHECK(TextLayer(text).program->leak.find("^") != std::string::npos);
  }

  // A run that is cut off has neither the later rows nor the length.
  TEST_CASE("texts that are causal run, however long, in blocks and position by position") {
    int count = 0;
    for (const Text& text : texts("causal")) {
      CAPTURE(text.name);
      const TextLayer layer(text);
      // Two positions are the least that have a second.
      check_causal(layer, text.name == "best_two" ? 2 : 1);
      ++count;
    }
    CHECK(count == 55);
  }

  // A hook may show what a mask hides, and the gradient goes to all that it shows.
  TEST_CASE(
      "in blocks noise is the same, and what hooks put in the place of values is read alike") {
    const Tensor X = noise({2, 7, 4}, 1);
    for (const Text& text : texts("causal")) {
      CAPTURE(text.name);
      const TextLayer layer(text);
      const auto outcome = [&](const std::string& path, double scale, const Tiling& tiling) {
        const Tensor x = X.variable();
        Forward forward{.params = layer.values, .training = path.empty(), .dropout = 0.4};
        forward.key = Key(5), forward.tiling = tiling;
        if (!path.empty()) forward.replaced = [&](const std::string& at) { return at == path; };
        if (!path.empty())
          forward.replace = [&](const std::string&, const Tensor& value) {
            return value + scale * noise(value.shape(), 31);
          };
        const Tensor y = layer.attention(forward, "", x, x, {.causal = true});
        const Tensor g = grad(y, Tensors{x}, {.cotangent = noise(y.shape(), 77)})[0];
        return Tensors{y.detach(), g};
      };
      std::set<std::string> paths = {""};
      Forward looking{.params = layer.values, .tiling = {.allowed = false}};
      looking.watch = [&](const std::string& path, const Tensor&) { paths.insert(path); };
      layer.attention(looking, "", X, X, {.causal = true});
      for (const std::string& path : paths)
        for (double scale : {0.1, 0.0}) {
          CAPTURE(path);
          const Tensors whole = outcome(path, scale, {.allowed = false}),
                        blocks = outcome(path, scale, {.queries = 2, .samples = 1});
          for (size_t i = 0; i < whole.size(); ++i) CHECK(difference(whole[i], blocks[i]) < 1e-9);
        }
    }
  }

  TEST_CASE("a call that is repeated takes the mask of its caller's sequences") {
    const std::string once =
        "def F(X[n, d], M[m, d]):\n  where r = 1\n  A[n, d] = H(X[n, d], M[m, d]) repeated r\n"
        "  Z[l, d] = M[m=(l), d]\n  B[l, d] = H(Z[l, d], M[m, d]) repeated r\n"
        "  S[n, l] = einsum(X[n, d], B[l, d])\n  V[n, l] = softmax(S[n, l], reduced_dim=l)\n"
        "  Y[n, d] = A[n, d] + einsum(V[n, l], B[l, d])\n  return Y[n, d]\n"
        "def H(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
        "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n  Y[n, d] = einsum(W[n, m], M[m, d])\n"
        "  return Y[n, d]\n";
    const auto layer_of = [](const std::string& text) {
      return TextLayer({"F", "", Program::parse(text, "F"), false});
    };
    const TextLayer apart = layer_of(once),
                    inlined = layer_of(
                        replaced(replaced(once, " repeated r", ""), "  where r = 1\n", ""));
    CHECK(apart.program->leak == "");
    const Tensor X = noise({2, 4, 4}, 1);
    for (const Mask& mask : {Mask{.causal = true},
                             Mask{.visible = Tensor::of<int64_t>(
                                      {4, 4}, {1, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1})},
                             Mask{.causal = true, .lengths = Tensor::of<int64_t>({2}, {3, 4})}}) {
      CHECK(difference(apart(X, mask), inlined(X, mask)) < 1e-12);
      CHECK(difference(apart(X, mask), apart(X, {})) > 1e-3);
    }
  }

  // The last queries of a sequence whose memory is whole.
  TEST_CASE("a causal call of the last queries alone has the whole call's rows, or is refused") {
    int same = 0;
    const Tensor X = noise({2, 9, 4}, 1), last = slice(X, 1, 7, 2);
    for (const Text& text : texts("causal")) {
      CAPTURE(text.name);
      const TextLayer layer(text);
      if (layer.program->self_only) continue;
      const Forward forward{.params = layer.values, .watch = {}};
      const auto run = [&] { return layer.attention(forward, "", last, X, {.causal = true}); };
      if (const std::string error = error_of(run); error != "no error") {
        CHECK(error.find("^") != std::string::npos);
      } else {
        const Tensor Y = slice(layer(X, {.causal = true}), 1, 7, 2);
        CHECK(difference(run(), Y) < 1e-12);
        ++same;
      }
    }
    CHECK(same >= 25);
    const TextLayer before(
        with_statements("  O_w[n, w, d] = windows(O[n, d], dim=n, into=(n w), left=w - 1)\n"
                        "  Y[n, d] = sum(O_w[n, w, d], reduced_dim=w)\n",
                        "  where w = 2\n"));
    CHECK(error_of([&] {
            before.attention({.params = before.values, .watch = {}}, "", last, X, {.causal = true});
          }).find("this has windows of 'n', but this call begins later") != std::string::npos);
  }

  TEST_CASE("texts that read padding are refused with a caret, others do not change with it") {
    int count = 0;
    const Mask padded{.lengths = Tensor::of<int64_t>({2}, {3, 7})};
    const Tensor X = noise({2, 7, 4}, 1);
    for (const Text& text : texts("reads padding")) {
      CAPTURE(text.name);
      const TextLayer layer(text);
      CHECK(error_of([&] { layer(X, padded); }).find("padding is among them") != std::string::npos);
      ++count;
    }
    for (const Text& text : texts("leaves out padding")) {
      CAPTURE(text.name);
      check_padded(TextLayer(text));
      ++count;
    }
    CHECK(count == 20);
  }

  TEST_CASE("padding of M that is read as X's is refused, unless they are one") {
    const TextLayer layer(
        with_statements("  A[n, d] = M[m=(n), d]\n  B[d] = mean(A[n, d], reduced_dim=n)\n"
                        "  Y[n, d] = O[n, d] + B[d]\n"));
    const Tensor X = noise({1, 6, 4}, 1), M = noise({1, 6, 4}, 2);
    const Mask padded{.lengths = Tensor::of<int64_t>({1}, {4})};
    const Forward forward{.params = layer.values, .watch = {}};
    CHECK(error_of([&] {
            layer.attention(forward, "", X, M, padded);
          }).find("padding is among them") != std::string::npos);
    CHECK(difference(first_rows(layer(X, padded), 4), layer(first_rows(X, 4), {})) < 1e-12);
  }

  TEST_CASE("the first position of a sample that has none is padding") {
    const TextLayer layer(with_statements("  Y[n, d] = O[n, d] + M[0, d]\n"));
    const Tensor X = noise({2, 6, 4}, 1);
    CHECK_NOTHROW(layer(X, {.lengths = Tensor::of<int64_t>({2}, {1, 6})}));
    CHECK(error_of([&] {
            layer(X, {.lengths = Tensor::of<int64_t>({2}, {0, 6})});
          }).find("padding is among them") != std::string::npos);
  }

  TEST_CASE("over a memory of nothing sums, maxima and means are 0") {
    for (const char* name : {"max(M", "min(M", "mean(M", "logsumexp(M", "sum(M", "any(B"}) {
      CAPTURE(name);
      const bool is_any = name[0] == 'a';
      const TextLayer layer(
          with_statements(text(is_any ? "  B[m, d] = M[m, d] < 9\n" : "", "  A[d] = ", name,
                               "[m, d], reduced_dim=m)\n", "  Y[n, d] = O[n, d] + A[d]\n")));
      const Tensor X = noise({2, 3, 4}, 1);
      const Tensor Y =
          layer.attention({.params = layer.values, .watch = {}}, "", X, slice(X, 1, 0, 0), {});
      CHECK(difference(Y, X * 0) == 0);
    }
  }

  TEST_CASE("zeros that are hidden do not stay zeros where they are divided by such") {
    const std::string zeros = "  A[n, m] = select(visible(n, m), L[n, m], 0)\n",
                      sum = "  Y[n, d] = O[n, d] + einsum(B[n, m], M[m, d])\n";
    for (const char* statement :
         {"  B[n, m] = A[n, m] / A[n, m]\n", "  B[n, m] = A[n, m] * (1 / A[n, m])\n"})
      CHECK(TextLayer(with_statements(zeros + statement + sum)).program->leak != "");
    for (const char* statement :
         {"  B[n, m] = A[n, m] / (1 + A[n, m]^2)\n", "  B[n, m] = A[n, m] / (m + 1)\n"})
      CHECK(
          TextLayer(with_statements(zeros + statement + sum)).program->leak.find("this combines") ==
          std::string::npos);
  }

  TEST_CASE("a memory that a def takes as X has as many rows as it, in blocks of queries too") {
    const Text text{
        "F", "",
        Program::parse("def F(X[n, d], M[m, d]):\n  O[n, d] = G(X[n, d], M[m, d])\n"
                       "  B[q, d] = G(M[m, d], M[m, d])\n  C[d] = mean(B[q, d], reduced_dim=q)\n"
                       "  Y[n, d] = O[n, d] + C[d]\n  return Y[n, d]\n"
                       "def G(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
                       "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                       "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"),
        false};
    const TextLayer layer(text);
    const Tensor X = noise({2, 3, 4}, 1), M = noise({2, 6, 4}, 2);
    const auto run = [&](const Tiling& tiling) {
      return layer.attention({.params = layer.values, .watch = {}, .tiling = tiling}, "", X, M, {});
    };
    CHECK(difference(run({.queries = 2, .samples = 1}), run({.allowed = false})) < 1e-12);
  }

  TEST_CASE("a refusal says what to write instead, in the names of the def that it points at") {
    struct Row {
      const char *sentence, *statements, *where;
    };
    const char* const pieces =
        "  K[c, w, d] = windows(M[m, d], dim=m, into=(c w), stride=2)\n"
        "  A[c, d] = sum(K[c, w, d], reduced_dim=w)\n  S[n, c] = einsum(X[n, d], A[c, d])\n"
        "  V[n, c] = softmax(S[n, c], reduced_dim=c)\n"
        "  Y[n, d] = O[n, d] + einsum(V[n, c], A[c, d])\n";
    const Row rows[] = {
        {"mask= must leave it out, as min(B[…], reduced_dim=w), where B[…] has the same "
         "windows of visible(…), with fill=0",
         pieces, "  where w = 2, c = m // 2\n"},
        {"another name, as in Z[l, …] = A[n=(l), …], makes it memory",
         "  S[n, m] = softmax(L[n, m], reduced_dim=n)\n"
         "  Y[n, d] = O[n, d] + einsum(S[n, m], M[m, d])\n",
         ""},
        {"mask=position(l) <= position(m) leaves it out",
         "  Z[l, d] = M[m=(l), d]\n  S[l, m] = einsum(Z[l, d], M[m, d])\n"
         "  A[m] = max(S[l, m], reduced_dim=l)\n"
         "  Y[n, d] = O[n, d] + einsum(W[n, m], A[m], M[m, d])\n",
         ""},
        {"this mixes all positions of 'm' outside a masked weight, so a causal mask does not keep "
         "the future hidden; it can leave none out, but mean(…), of which norms are made, can",
         "  S[n, m] = layer_norm(L[n, m], dim=m)\n  V[n, m] = softmax(S[n, m], reduced_dim=m)\n"
         "  Y[n, d] = O[n, d] + einsum(V[n, m], M[m, d])\n",
         ""},
        {"what is combined must be 0 there, as in select(visible(n, m), …, 0)",
         "  A[q=(m d)] = M[m, d] * 2\n  B[m, d] = A[q=(m d)]\n"
         "  Y[n, d] = O[n, d] + einsum(W[n, m], B[m, d])\n",
         ""}};
    for (const Row& row : rows) {
      CAPTURE(row.statements);
      const std::string leak = TextLayer(with_statements(row.statements, row.where)).program->leak;
      CHECK(leak.find(row.sentence) != std::string::npos);
    }
    // No order of positions lets rows of M choose among those of X; rows of queries do.
    const auto over_both = [](const std::string& best) {
      return checked(
                 "def F(X[causal n, d], M[m, d]):\n  Z[p, d] = X[n=(p), d]\n"
                 "  S[p, m] = einsum(Z[p, d], M[m, d])\n" +
                 best +
                 "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
                 "  Y[n, d] = einsum(W[n, m], A[n, m], M[m, d])\n  return Y[n, d]\n")
          ->leak;
    };
    const std::string seen = "select(visible(n, p), ";
    CHECK(over_both("  B[m] = max(S[p, m], reduced_dim=p)\n  A[n, m] = B[m] + X[n, 0]\n")
              .find("it leaves out what is hidden of " + seen + "…, 0), with n on the left, too") !=
          std::string::npos);
    CHECK(over_both("  T[n, p, m] = " + seen +
                    "S[p, m], 0)\n  A[n, m] = max(T[n, p, m], reduced_dim=p)\n") == "");
    // Where the def has no queries, rows of the memory read those before them.
    const auto amended = [](const std::string& statements) {
      return TextLayer({"amend_K", "",
                        Program::parse("def C(K[m, d, h]):\n" + statements +
                                       "  R[m, d, h] = K[m, d, h] - S[m, d, h]\n"
                                       "  return R[m, d, h]\n"),
                        true});
    };
    CHECK(amended("  B[d, h] = mean(K[m, d, h], reduced_dim=m)\n"
                  "  S[m, d, h] = K[m, d, h] * B[d, h]\n")
              .program->leak.find("after Z[l, …] = A[m=(l), …], position(l) <= position(m) says") !=
          std::string::npos);
    TextLayer before = amended(
        "  Z[l, d, h] = K[m=(l), d, h]\n  T[m, l] = position(l) <= position(m)\n"
        "  S[m, d, h] = einsum(T[m, l], Z[l, d, h]) / (position(m) + 1)\n");
    check_causal(before);
    check_learns(before, noise({2, 9, 4}, 1));
    const Program amendment = Program::parse(
        "def N(L[a, b, h]):\n  S[a, b, h] = tanh(L[a, b, h])\n"
        "  T[a, h] = sum(S[a, b, h], reduced_dim=b)\n"
        "  R[a, b, h] = L[a, b, h] - T[a, h]\n  return R[a, b, h]\n");
    CHECK(TextLayer({"amend_N", "", amendment, true})
              .program->leak.find("select(visible(a, b), …, 0)") != std::string::npos);
    const TextLayer queries(
        with_statements("  S[n, m] = softmax(L[n, m], reduced_dim=n)\n"
                        "  Y[n, d] = O[n, d] + einsum(S[n, m], M[m, d])\n"));
    const Mask padded{.lengths = Tensor::of<int64_t>({1}, {3})};
    CHECK(error_of([&] {
            queries(noise({1, 5, 4}, 1), padded);
          }).find("mask=visible(n) leaves it out") != std::string::npos);
  }

  TEST_CASE("what is hidden over one pair of axes is not hidden over another") {
    const std::string l = "  Z[l, d] = M[m=(l), d]\n", result = "  Y[n, d] = O[n, d] + R[n, d]\n";
    for (const std::string statements :
         {// weights over l say nothing of m
          "  S[n, l] = einsum(X[n, d], Z[l, d])\n  T[n, l] = softmax(S[n, l], reduced_dim=l)\n"
          "  A[n, m, d] = einsum(T[n, l], Z[l, d], M[m, d])\n"
          "  R[n, d] = sum(A[n, m, d], reduced_dim=m)\n",
          // a triangle of l is none of n
          "  T[l, m] = W[n=(l), m]\n  R[n, d] = einsum(X[n, d], Z[l, d], T[l, m], M[m, d])\n",
          // the mask, two positions later
          "  Seen[n, m] = visible(n, m)\n"
          "  T[n, l] = gather(Seen[n, m], clip(position(l) - 2, 0, 1000), dim=m)\n"
          "  R[n, d] = einsum(T[n, l], Z[l, d])\n"}) {
      CAPTURE(statements);
      const std::string all = (statements.find('l') != std::string::npos ? l : "") + statements;
      CHECK(TextLayer(with_statements(all + result)).program->leak.find("^") != std::string::npos);
    }
  }

  TEST_CASE("windows of the mask protect the windows of the same positions") {
    const auto text = [](const std::string& mask_keys) {
      return with_statements(
          "  M_w[c, w, d] = windows(M[m, d], dim=m, into=(c w), stride=2)\n"
          "  Seen[n, m] = visible(n, m)\n"
          "  Seen_w[n, c, w] = windows(Seen[n, m], dim=m, into=(c w)" +
              mask_keys +
              ")\n"
              "  T[n, c] = min(Seen_w[n, c, w], reduced_dim=w)\n"
              "  N[c, d] = sum(M_w[c, w, d], reduced_dim=w)\n"
              "  R[n, d] = einsum(T[n, c], N[c, d])\n  Y[n, d] = O[n, d] + R[n, d]\n",
          "  where w = 2, c = m // 2\n");
    };
    CHECK(TextLayer(text(", stride=2")).program->leak == "");
    for (const char* keys : {", stride=1", ", left=3, fill=1, stride=2", ", stride=2, right=1"})
      CHECK(TextLayer(text(keys)).program->leak != "");
  }

  // M is another sequence: all of it is there from X's first row on, and rows of X are not,
  // whatever they are called.
  TEST_CASE("rows of X under names of another sequence are no memory that is all there") {
    const auto beside_another = [](const std::string& statements, const std::string& size = "") {
      return "def F(X[causal n, d], M[m, d], R[d, e] = normal(1)):\n  where e = 2, d = 4" + size +
             "\n  G[n, e] = einsum(X[n, d], R[d, e])\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
             "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n" +
             statements + "  return Y[n, d]\n";
    };
    const std::string routed = "  A[e, c, d] = route(X[n, d], G[n, e], dim=n, into=c)\n",
                      added = "  Y[n, d] = O[n, d] + S[d] + G[n, 0]\n",
                      all = "  O[n, d] = einsum(W[n, m], M[m, d])\n" + added,
                      read = "  Y[n, d] = einsum(W[n, m], B[m, d]) + G[n, 0]\n";
    const Tensor X = noise({5, 4}, 1), M = noise({5, 4}, 2), R = noise({4, 2}, 3);
    const Tensor changed = concat({slice(X, 0, 0, 3), noise({2, 4}, 4) * 3.0}, 0);
    for (const auto& [statements, size] : std::vector<std::pair<std::string, std::string>>{
             {routed +
                  "  B[e, d] = sum(A[e, c, d], reduced_dim=c)\n"
                  "  S[d] = sum(B[e, d], reduced_dim=e)\n" +
                  all,
              ", c = m"},
             {"  K[n, e] = G[n, e] * -1\n" + routed +
                  "  B[n, d] = unroute(A[e, c, d], K[n, e], dim=c, into=n)\n"
                  "  Y[n, d] = einsum(W[n, m], M[m, d]) + B[n, d]\n",
              ", c = m"},
             {"  A[e, m, d] = route(X[n, d], G[n, e], dim=n, into=m)\n"
              "  B[m, d] = sum(A[e, m, d], reduced_dim=e) + M[m, d]\n" +
                  read,
              ""},
             {"  B[m, d] = X[n=(m), d] + M[m, d]\n  S[d] = sum(B[m, d], reduced_dim=m)\n" + all,
              ""},
             {"  B[m, d] = X[n=(m), d] + M[m, d]\n" + read, ""},
             {"  B[m, d] = gather(X[n, d], position(m), dim=n) + M[m, d]\n" + read, ""},
             {"  Z[l, d] = X[n=(l), d]\n  T[m, l] = position(l) <= position(m)\n"
              "  B[m, d] = einsum(T[m, l], Z[l, d]) + M[m, d]\n" +
                  read,
              ""}}) {
      const std::string text = beside_another(statements, size);
      CAPTURE(text);
      CHECK(checked(text)->leak.find("^") != std::string::npos);
      // It is a leak: without the mask nothing refuses it, and the first rows move.
      const std::string free = replaced(text, "causal ", "");
      const auto first = [&](const Tensor& x) {
        return slice(run(free, {{"X", x}, {"M", M}, {"R", R}}), 0, 0, 3);
      };
      CHECK(difference(first(X), first(changed)) > 1e-3);
    }
    // As much room as X is long is more for M's rows as X grows.
    const std::string roomy =
        "  H[m, e] = einsum(M[m, d], R[d, e])\n"
        "  A[e, c, d] = route(M[m, d], H[m, e], dim=m, into=c)\n"
        "  B[m, d] = unroute(A[e, c, d], H[m, e], dim=c, into=m)\n" +
        read;
    CHECK(checked(beside_another(roomy, ", c = n"))->leak.find("^") != std::string::npos);
    CHECK(checked(beside_another(roomy, ", c = m"))->leak.empty());
    for (const auto& [statements, size] : std::vector<std::pair<std::string, std::string>>{
             {"  S[d] = sum(M[m, d], reduced_dim=m)\n" + all, ""},
             {"  H[m, e] = einsum(M[m, d], R[d, e])\n"
              "  A[e, c, d] = route(M[m, d], H[m, e], dim=m, into=c)\n"
              "  B[e, d] = sum(A[e, c, d], reduced_dim=c)\n"
              "  S[d] = sum(B[e, d], reduced_dim=e)\n" +
                  all,
              ", c = 2"},
             {"  K[l, d] = M[m=(l), d]\n  T[m, l] = position(l) <= position(m)\n"
              "  B[m, d] = einsum(T[m, l], K[l, d])\n" +
                  read,
              ""},
             {"  A[m, t, d] = windows(M[m, d], dim=m, into=(m t), left=1, right=1)\n"
              "  B[m, d] = sum(A[m, t, d], reduced_dim=t)\n" +
                  read,
              ", t = 3"}}) {
      const std::string text = beside_another(statements, size);
      CAPTURE(text);
      CHECK(checked(text)->leak.empty());
      const auto first = [&](const Tensor& x) {
        return slice(run(text, {{"X", x}, {"M", M}, {"R", R}}), 0, 0, 3);
      };
      CHECK(difference(first(X), first(changed)) == 0);
      CHECK(difference(first(X), run(text, {{"X", slice(X, 0, 0, 3)}, {"M", M}, {"R", R}})) <
            1e-12);
    }
  }

  TEST_CASE("another sequence attends to all of itself beside a causal one") {
    const std::string text =
        "def Attend(X[q, d], M[k, d]):\n"
        "  L[q, k] = einsum(X[q, d], M[k, d]) - abs(position(q) - position(k))\n"
        "  W[q, k] = softmax(L[q, k], reduced_dim=k)\n  C[q, d] = einsum(W[q, k], M[k, d])\n"
        "  return C[q, d]\n"
        "def F(X[causal n, d], M[m, d]):\n  U[m, d] = Attend(M[m, d], M[m, d])\n"
        "  Y[n, d] = Attend(X[n, d], U[m, d])\n  return Y[n, d]\n";
    const Tensor X = noise({5, 4}, 1), M = noise({5, 4}, 2);
    const auto attend = [](const Tensor& a, const Tensor& b) {
      const Shape pairs{a.size(0), b.size(0)};
      const Tensor i = expand(arange(pairs[0], Dtype::f64), {1}, pairs),
                   j = expand(arange(pairs[1], Dtype::f64), {0}, pairs);
      const Tensor L = einsum("q d, k d -> q k", a, b) - abs(i - j);
      return einsum("q k, k d -> q d", softmax(L, 1), b);
    };
    const Tensor Y = attend(X, attend(M, M));
    CHECK(difference(run(text, {{"X", X}, {"M", M}}), Y) < 1e-12);
    CHECK(difference(run(text, {{"X", slice(X, 0, 0, 2)}, {"M", M}}), slice(Y, 0, 0, 2)) < 1e-12);
    const Tensor short_M = slice(M, 0, 0, 3);
    CHECK(difference(run(replaced(text, "causal ", ""), {{"X", X}, {"M", short_M}}),
                     attend(X, attend(short_M, short_M))) < 1e-12);
  }

  TEST_CASE("positions under the name of something else are still those of the rows") {
    const std::string block =
        "def Block(X[n, d], T[d]):\n  Y[n, d] = X[n, d] + T[d]\n  return Y[n, d]\n";
    const Tensor X = noise({6, 6}, 1), E = noise({6, 6}, 2);
    const Tensor changed = concat({slice(X, 0, 0, 3), noise({3, 6}, 4) * 30.0}, 0);
    for (const auto& [leaking, why] : std::vector<std::pair<std::string, std::string>>{
             {"def F(X[causal n, d], E[v, d] = normal(1)):\n  Z[v, d] = X[n=(v), d] + E[v, d]\n"
              "  Y[n, v] = einsum(X[n, d], Z[v, d])\n  return Y[n, v]\n",
              "has rows of all positions of 'v'"},
             {"def F(X[causal n, d]):\n  Y[n, d] = X[n=(d), d=(n)]\n  return Y[n, d]\n",
              "has rows of all positions of 'd'"},
             {"def F(X[causal n, d]):\n  Z[l, d] = X[n=(l), d]\n"
              "  Y[n, l] = einsum(X[n, d], Z[l, d])\n  return Y[n, l]\n",
              "has rows of all positions of 'l'"},
             {"def F(X[causal n, d]):\n  where c = n\n  Z[l, d] = X[n=(l), d]\n"
              "  L[n, l] = einsum(X[n, d], Z[l, d])\n"
              "  A[l, c, d] = route(X[n, d], L[n, l], dim=n, into=c)\n"
              "  Y[n, d] = unroute(A[l, c, d], L[n, l], dim=c, into=n)\n"
              "  return Y[n, d]\n",
              "combines all positions of 'l'"},
             {block + "def F(X[causal n, d]):\n  where r = 6\n  T[r, d] = X[n=(r), d]\n"
                      "  Y[n, d] = Block(X[n, d], T[r, d]) repeated r\n  return Y[n, d]\n",
              "combines all positions of 'r'"}}) {
      const std::string text = leaking;
      CAPTURE(text);
      CHECK(checked(text)->leak.find(why) != std::string::npos);
      const std::string free = replaced(text, "causal ", "");
      const auto first = [&](const Tensor& x) {
        TensorsByName tensors{{"X", x}};
        if (free.find("E[v") != std::string::npos) tensors["E"] = E;
        return slice(run(free, tensors), 0, 0, 3);
      };
      CHECK(difference(first(X), first(changed)) > 1e-3);
    }
    CHECK(checked("def Twice(X[n, d]):\n  Y[n, d] = X[n, d] * 2\n  return Y[n, d]\n"
                  "def F(X[causal n, d]):\n  where r = n\n"
                  "  Y[n, d] = Twice(X[n, d]) repeated r\n  return Y[n, d]\n")
              ->leak.find("is the number of positions of 'r', so rows change") !=
          std::string::npos);
  }

  TEST_CASE("rows that a table's numbers make are not the first ones when new rows are read") {
    for (const char* made :
         {"  A[n, d] = part(R[p, d], dim=p, into=n)\n",
          "  V[d, p] = R[p, d] * 1\n  J[p] = clip(index(p), 0, 1)\n"
          "  B[d, n] = scatter(V[d, p], J[p], reduced_dim=p, dim=n)\n  A[n, d] = B[d, n] * 1\n"}) {
      CAPTURE(made);
      const std::string text =
          "def F(X[n, d], M[m, d], R[p, d] = normal(1)):\n  where p = 20\n"
          "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n" +
          std::string(made) + "  Y[n, d] = einsum(W[n, m], M[m, d]) + A[n, d]\n  return Y[n, d]\n";
      check_causal(TextLayer({"F", "", Program::parse(text, "F"), false}), 2);
    }
  }

  TEST_CASE("numbers that f32 rounds otherwise than f64 hide nothing") {
    const auto is_refused = [](const std::string& weights) {
      return !checked("def F(X[causal n, d]):\n  M[m, d] = X[n=(m), d]\n" + weights +
                      "  Y[n, d] = einsum(U[n, m], M[m, d])\n  return Y[n, d]\n")
                  ->leak.empty();
    };
    const std::string masked = "  A[n, m] = select(position(m) <= position(n), X[n, 0] * M[m, 0], ";
    CHECK(is_refused(masked + "0.1)\n  U[n, m] = A[n, m] + 0.6 > 0.7\n"));
    CHECK(is_refused(masked + "0)\n  U[n, m] = floor((A[n, m] + 0.29) * 100) - 28\n"));
    CHECK(is_refused(masked + "d > 3)\n  U[n, m] = A[n, m] * 1\n"));  // 1 where d is 4
    CHECK(!is_refused(masked + "0.5)\n  U[n, m] = A[n, m] + 0.25 > 0.75\n"));
    CHECK(!is_refused(masked + "-1e30)\n  U[n, m] = exp(A[n, m])\n"));
    CHECK(!is_refused(masked + "-1e30)\n  U[n, m] = sigmoid(A[n, m] * 0.3 - 0.1)\n"));
    const std::string end = ") * X[n, 0]\n", begin = "  U[n, m] = (";
    for (const char* comparison :
         {"position(n) + 0.1 - position(m) > -0.9", "position(n) - position(m) + 1.1 - 0.1 > 0",
          "position(m) + 9007199254740992 <= position(n) + 9007199254740993",
          "position(m) + 100000000.5 <= position(n) + 100000000.5"}) {
      CAPTURE(comparison);
      CHECK(is_refused(begin + comparison + end));
    }
    for (const char* comparison :
         {"position(n) + 0.5 > position(m)", "position(m) + 1000 <= position(n) + 1000",
          "10 - position(m) >= 10 - position(n)"}) {
      CAPTURE(comparison);
      CHECK(!is_refused(begin + comparison + end));
    }
  }

  TEST_CASE("a call that runs by itself and how a parameter starts may depend on the length") {
    const std::string two =
        "def Two(X[a, d], M[b, d]):\n  W[a, b] = softmax(einsum(X[a, d], M[b, d]), reduced_dim=b)\n"
        "  Y[a, d] = einsum(W[a, b], M[b, d])\n  return Y[a, d]\n";
    const auto leak_of_call = [&](const std::string& memory) {
      return checked(two +
                     "def F(X[causal n, d], E[e, d] = normal(1), P[n<=max_n, d] = normal(1)):\n"
                     "  where u = 2, e = 3\n  A[e, d] = Two(E[e, d], " +
                     memory +
                     ") repeated u\n  B[d] = sum(A[e, d], reduced_dim=e)\n"
                     "  Y[n, d] = X[n, d] + B[d] * P[n, d]\n  return Y[n, d]\n")
          ->leak;
    };
    CHECK(leak_of_call("P[n, d]").find("this combines all positions of 'n'") != std::string::npos);
    CHECK(leak_of_call("E[e, d]").empty());
    const auto leak_of_start = [](const std::string& start) {
      return checked("def F(X[causal n, d], K[d] = fixed constant(" + start +
                     ")):\n  Y[n, d] = X[n, d] * K[d]\n  return Y[n, d]\n")
          ->leak;
    };
    CHECK(leak_of_start("n").find("^") != std::string::npos);
    CHECK(leak_of_start("d").empty());
  }

  TEST_CASE("an order of positions is one, however it is written") {
    const auto with_mask = [](const std::string& mask) {
      return Text{"amend_K", "",
                  Program::parse("def C(K[m, d_k, h]):\n  Z[l, d_k, h] = K[m=(l), d_k, h]\n"
                                 "  S[l, m, h] = einsum(Z[l, d_k, h], K[m, d_k, h])\n"
                                 "  T[l, m, h] = softmax(S[l, m, h], reduced_dim=m, mask=" +
                                 mask +
                                 ")\n  R[l, d_k, h] = einsum(T[l, m, h], K[m, d_k, h])\n"
                                 "  Y[m, d_k, h] = R[l=(m), d_k, h]\n  return Y[m, d_k, h]\n"),
                  true};
    };
    for (const char* mask :
         {"not (position(m) > position(l))", "not position(l) < position(m)",
          "position(l) >= position(m)", "not (position(m) >= 1 + position(l) or K[m, 0, h] > 1)",
          "not (position(m) > position(l)) and K[m, 0, h] > 0", "not (position(m) != position(l))",
          "not (K[m, 0, h] > 0 or not (position(m) <= position(l)))",
          "not (position(l) // 2 <= position(m) // 2) or position(m) == position(l)"}) {
      CAPTURE(mask);
      TextLayer layer(with_mask(mask));
      check_causal(layer);
      check_padded(layer);
      check_learns(layer, noise({2, 9, 4}, 1));
    }
    for (const char* mask :
         {"not (position(m) > position(l) + 1)", "not (position(m) < position(l))",
          "not (position(m) > position(l)) or K[m, 0, h] > 0",
          "not (position(m) > position(l) and K[m, 0, h] > 0)", "position(m) != position(l)",
          "not (position(m) // 2 > position(l) // 2)", "not (position(m) == position(l))",
          "position(m) // 2 <= position(l) // 2"}) {
      CAPTURE(mask);
      CHECK(TextLayer(with_mask(mask)).program->leak.find("^") != std::string::npos);
    }
  }

  TEST_CASE("what a mask hides is hidden at positions that top_k finds") {
    const std::string found =
                          "  I[n, t] = top_k(L[n, m], reduced_dim=m, dim=t)\n"
                          "  L_t[n, t] = gather(L[n, m], I[n, t], dim=m)\n",
                      read = "  V[n, t, d] = gather(M[m, d], I[n, t], dim=m)\n",
                      seen =
                          "  S[n, m] = visible(n, m)\n"
                          "  S_t[n, t] = gather(S[n, m], I[n, t], dim=m)\n",
                      weights = "  W[n, t] = softmax(L_t[n, t], reduced_dim=t, mask=S_t[n, t])\n",
                      sum = "  Y[n, d] = einsum(W[n, t], V[n, t, d])\n";
    TextLayer layer(learned(found + read + seen + weights + sum, ", t = 2"));
    check_causal(layer, 2);
    check_padded(layer, 2);
    check_learns(layer, noise({2, 9, 4}, 1));
    for (const std::string& statements :
         {found + "  E[n, t] = select(I[n, t] <= position(n), exp(L_t[n, t]), 0)\n"
                  "  V[n, t, d] = E[n, t] * gather(M[m, d], I[n, t], dim=m)\n"
                  "  Y[n, d] = sum(V[n, t, d], reduced_dim=t)\n",
          found + read + replaced(weights, "S_t[n, t]", "not I[n, t] > position(n)") + sum,
          "  T[n, m] = softmax(L[n, m], reduced_dim=m)\n"
          "  I[n, t] = top_k(T[n, m], reduced_dim=m, dim=t)\n"
          "  W[n, t] = gather(T[n, m], I[n, t], dim=m)\n" +
              read + sum})
      check_causal(TextLayer(learned(statements, ", t = 2")), 2);
    const std::string cure =
        "mask=T[…] or select(T[…], …, 0) leaves out first what its row may not see";
    const std::string open = replaced(weights, ", mask=S_t[n, t]", "");
    CHECK(TextLayer(learned(found + read + open + sum, ", t = 2")).program->leak.find(cure) !=
          std::string::npos);
    const std::string all = found + read + seen + weights;
    for (const std::string& statements :
         {found + replaced(read, "I[n, t]", "clip(I[n, t], 0, 99)") + seen + weights + sum,
          found + "  H[n, t] = I[n, t] + 0\n" + replaced(read, "I[n, t]", "H[n, t]") + seen +
              weights + sum,
          found + read + replaced(weights, "S_t[n, t]", "I[n, t] <= position(n) + 1") + sum,
          all + "  Z[l, t] = W[n=(l), t]\n  B[l, d] = X[n=(l), d]\n  C[n, l] = visible(n, l)\n"
                "  Y[n, d] = einsum(C[n, l], Z[l, t], B[l, d], V[n, t, d])\n",
          all + "  A[t, d] = sum(V[n, t, d], reduced_dim=n)\n"
                "  Y[n, d] = einsum(W[n, t], A[t, d])\n",
          all + "  A[n, t, u, d] = windows(V[n, t, d], dim=t, into=(t u), left=1)\n"
                "  B[n, t, d] = sum(A[n, t, u, d], reduced_dim=u)\n"
                "  Y[n, d] = einsum(W[n, t], B[n, t, d])\n",
          all + "  A[n, u, d] = V[n, t=(u), d]\n  B[n, u] = W[n, t=(u)]\n"
                "  Y[n, d] = einsum(B[n, u], A[n, u, d])\n",
          all + "  A[n, u, t] = windows(W[n, t], dim=n, into=(n u), left=1)\n"
                "  B[n, t] = sum(A[n, u, t], reduced_dim=u)\n"
                "  Y[n, d] = einsum(B[n, t], V[n, t, d])\n",
          all + "  Y[n, d] = V[n, 0, d] + W[n, 0]\n"}) {
      CAPTURE(statements);
      CHECK(TextLayer(learned(statements, ", t = 2")).program->leak.find("^") != std::string::npos);
    }
  }

  TEST_CASE("the largest under a mask do not leave out what is low alone") {
    const auto leak_of = [](const std::string& mask) {
      const std::string low = "select(position(m) <= position(l), S[l, m], -1e30)",
                        text =
                            "def F(X[causal n, d]):\n  where t = 2\n  M[m, d] = X[n=(m), d]\n"
                            "  Z[l, d] = X[n=(l), d]\n  S[l, m] = einsum(Z[l, d], M[m, d])\n"
                            "  H[l, m] = " +
                            low +
                            "\n"
                            "  I[l, t] = top_k(H[l, m], reduced_dim=m, dim=t" +
                            mask +
                            ")\n"
                            "  A[l] = sum(I[l, t], reduced_dim=t)\n"
                            "  Y[n, d] = X[n, d] + A[l=(n)]\n  return Y[n, d]\n";
      return checked(text)->leak;
    };
    CHECK(leak_of("") == "");
    CHECK(leak_of(", mask=S[l, m] > 0 and position(m) <= position(l)") == "");
    CHECK(leak_of(", mask=S[l, m] > 0").find("this combines all positions of 'm'") !=
          std::string::npos);
  }

  TEST_CASE("pieces that end at a row are read from there on") {
    const auto spread = [](const std::string& keys,
                           const std::string& number = "position(n) // 2") {
      return learned(
          "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
          "  A[c, w, d] = windows(M[m, d], dim=m, into=(c w), " +
              keys +
              ")\n"
              "  B[c, d] = sum(A[c, w, d], reduced_dim=w)\n"
              "  Y[n, d] = einsum(W[n, m], M[m, d]) + gather(B[c, d], " +
              number + ", dim=c)\n",
          ", w = 3, c = (m - 1) // 2 + 1");
    };
    TextLayer layer(spread("left=w - 1, stride=2"));
    check_causal(layer);
    check_padded(layer);
    check_learns(layer, noise({2, 9, 4}, 1));
    for (const Text& text :
         {spread("stride=2"), spread("left=1, stride=2"), spread("left=w - 1, stride=3"),
          spread("left=w - 1, right=1, stride=2"),
          spread("left=w - 1, stride=2", "(position(n) + 1) // 2"),
          spread("left=w - 1, stride=2", "position(n)")})
      CHECK(TextLayer(text).program->leak.find("may read any position of 'c'") !=
            std::string::npos);
  }

  TEST_CASE("a call on pieces has no mask, so that its rows may not read each other") {
    const std::string two =
        "def Two(X[a, d], M[b, d]):\n"
        "  W[a, b] = softmax(einsum(X[a, d], M[b, d]), reduced_dim=b)\n"
        "  Y[a, d] = einsum(W[a, b], M[b, d])\n  return Y[a, d]\n";
    const auto leak_of_call = [](const std::string& defs, const std::string& call) {
      return checked(defs +
                     "def F(X[causal n, d]):\n  where w = 2, l = 2, c = (n - 1) // w + 1\n"
                     "  A[c, w, d] = windows(X[n, d], dim=n, into=(c w), stride=w, left=w - 1)\n"
                     "  P[c, d] = sum(A[c, w, d], reduced_dim=w)\n  B[c, d] = " +
                     call +
                     " repeated l\n"
                     "  Y[n, d] = X[n, d] + gather(B[c, d], position(n) // w, dim=c)\n"
                     "  return Y[n, d]\n")
          ->leak;
    };
    const std::string block = two +
                              "def Block(X[n, d]):\n  where u = 1\n"
                              "  B[n, d] = Two(X[n, d], X[n, d]) repeated u\n  return B[n, d]\n";
    const std::string beside =
        "def Beside(X[n, d]):\n  where w = 3\n"
        "  B[n, w, d] = windows(X[n, d], dim=n, into=(n w), left=1, right=1)\n"
        "  Y[n, d] = sum(B[n, w, d], reduced_dim=w)\n  return Y[n, d]\n";
    const std::string combines = "this combines all positions of 'c'";
    CHECK(leak_of_call(two, "Two(P[c, d], P[c, d])").find(combines) != std::string::npos);
    CHECK(leak_of_call(block, "Block(P[c, d])").find(combines) != std::string::npos);
    CHECK(leak_of_call(beside, "Beside(P[c, d])").find(combines) != std::string::npos);
    const std::string alone = "def Alone(X[n, d]):\n  Y[n, d] = tanh(X[n, d])\n  return Y[n, d]\n";
    CHECK(leak_of_call(alone, "Alone(P[c, d])") == "");
  }

  TEST_CASE("pieces of a padded sample are those that it has alone, wherever they reach") {
    const std::string two =
        "def Two(X[a, d], M[b, d]):\n"
        "  W[a, b] = softmax(einsum(X[a, d], M[b, d]), reduced_dim=b)\n"
        "  Y[a, d] = einsum(W[a, b], M[b, d])\n  return Y[a, d]\n";
    const auto layer = [&](const std::string& keys, const std::string& sizes,
                           const std::string& statements) {
      const std::string text = two +
                               "def F(X[n, d], M[m, d]):\n  where k = 2, w = 3, c = " + sizes +
                               "\n  A[c, w, d] = windows(M[m, d], dim=m, into=(c w), " + keys +
                               ")\n  P[c, d] = sum(A[c, w, d], reduced_dim=w)\n" + statements +
                               " repeated k\n  return Y[n, d]\n";
      return TextLayer({"F", "", Program::parse(text, "F"), false});
    };
    using Windows = std::pair<std::string, std::string>;  // their keys, and how many there are
    for (const Windows& windows :
         std::vector<Windows>{{"stride=2, left=1, right=1", "(m - 1) // 2 + 1"},
                              {"stride=2, left=w - 1", "(m - 1) // 2 + 1"},
                              {"stride=3, right=w - 1, fill=1", "(m - 1) // 3 + 1"},
                              {"left=1, right=2", "m + 1"},
                              {"stride=2", "(m - w) // 2 + 1"}})
      for (Index least : {1, 2, 3}) {
        const auto& [keys, size] = windows;
        CAPTURE(windows.first);
        CAPTURE(least);
        check_padded(layer(keys, size, "  Y[n, d] = Two(X[n, d], P[c, d])"), least);
        check_padded(layer(keys, size + ", u = 2",
                           "  B[c, u, d] = windows(P[c, d], dim=c, into=(c u), right=1)\n"
                           "  Q[c, d] = max(B[c, u, d], reduced_dim=u)\n"
                           "  Y[n, d] = Two(X[n, d], Q[c, d])"),
                     least);
        check_padded(
            layer(keys, size + ", u = 2, r = (c - 1) // 2 + 1",
                  "  B[r, u, d] = windows(P[c, d], dim=c, into=(r u), right=1, stride=2, fill=2)\n"
                  "  Q[r, d] = max(B[r, u, d], reduced_dim=u)\n"
                  "  Y[n, d] = Two(X[n, d], Q[r, d])"),
            least);
      }
  }

  TEST_CASE("rows that are picked from a padded memory are all there") {
    const Text text{
        "F", "",
        Program::parse("def Two(X[a, d], M[b, d]):\n"
                       "  W[a, b] = softmax(einsum(X[a, d], M[b, d]), reduced_dim=b)\n"
                       "  Y[a, d] = einsum(W[a, b], M[b, d])\n  return Y[a, d]\n"
                       "def F(X[n, d], M[m, d], R[d] = normal(1)):\n  where k = 2, t = 3\n"
                       "  S[m] = einsum(M[m, d], R[d])\n"
                       "  I[t] = top_k(S[m], reduced_dim=m, dim=t)\n"
                       "  V[m] = visible(m)\n  T[t] = gather(V[m], I[t], dim=m)\n"
                       "  Z[t, d] = gather(M[m, d], I[t], dim=m)\n"
                       "  P[t, d] = select(T[t], Z[t, d], 0)\n"
                       "  Y[n, d] = Two(X[n, d], P[t, d]) repeated k\n  return Y[n, d]\n",
                       "F"),
        false};
    for (Index least : {1, 2, 3}) check_padded(TextLayer(text), least);
  }

  // As the selected blocks of native sparse attention (arXiv:2502.11089, section 3.3.2).
  TEST_CASE("pieces that a value picks are read where the mask, picked alike, shows them") {
    const std::string pieces =
        "  A[c, w, d] = windows(M[m, d], dim=m, into=(c w), stride=w, left=w - 1)\n"
        "  V[n, m] = visible(n, m)\n"
        "  B[n, c, w] = windows(V[n, m], dim=m, into=(c w), stride=w, left=w - 1)\n"
        "  C[c, d] = sum(A[c, w, d], reduced_dim=w)\n"
        "  G[n, c] = min(B[n, c, w], reduced_dim=w)\n"
        "  S[n, c] = einsum(X[n, d], R[d, e], C[c, d=(e)])\n"
        "  I[n, t] = top_k(S[n, c], reduced_dim=c, dim=t, mask=G[n, c])\n";
    const std::string summaries = pieces +
                                  "  K[n, t, d] = gather(C[c, d], I[n, t], dim=c)\n"
                                  "  T[n, t] = gather(G[n, c], I[n, t], dim=c)\n"
                                  "  D[n, t] = einsum(X[n, d], R[d, e], K[n, t, d=(e)])\n"
                                  "  W[n, t] = softmax(D[n, t], reduced_dim=t, mask=T[n, t])\n"
                                  "  Y[n, d] = einsum(W[n, t], K[n, t, d])\n";
    const std::string rows = pieces +
                             "  K[n, t, w, d] = gather(A[c, w, d], I[n, t], dim=c)\n"
                             "  T[n, t, w] = gather(B[n, c, w], I[n, t], dim=c)\n"
                             "  D[n, t, w] = tanh(einsum(X[n, d], R[d, e], K[n, t, w, d=(e)]))\n"
                             "  E[n, t, w] = select(T[n, t, w], D[n, t, w], 0)\n"
                             "  Y[n, d] = einsum(E[n, t, w], K[n, t, w, d])\n";
    const std::string sizes = ", w = 3, c = (m - 1) // w + 1, t = ";
    for (const std::string& statements : {summaries, rows}) {
      CAPTURE(statements);
      TextLayer one(learned(statements, sizes + "1")), two(learned(statements, sizes + "2"));
      check_causal(one);
      check_padded(one);
      const Tensor X = noise({2, 9, 4}, 1), Y = two(X, {.causal = true});
      CHECK(two.program->leak == "");
      for (Index n : {4, 5, 8})
        CHECK(difference(two(first_rows(X, n), {.causal = true}), first_rows(Y, n)) < 1e-12);
      CHECK(difference(two.in_pieces(X, {4, 1, 1, 3}), Y) < 1e-12);
      check_padded(two, 4);
      check_learns(two, X);
    }
    // Without what hides them, or hidden as something else is.
    const std::string more = sizes + "1";
    for (const std::string& statements :
         {replaced(summaries, "D[n, t], reduced_dim=t, mask=T[n, t]",
                   "T[n, t] * D[n, t], reduced_dim=t"),
          replaced(rows, "select(T[n, t, w], D[n, t, w], 0)", "D[n, t, w] * T[n, t, w] + 1"),
          replaced(rows, "gather(B[n, c, w], I[n, t], dim=c)", "I[n, t] * w <= position(n)"),
          replaced(summaries, "gather(G[n, c], I[n, t], dim=c)", "gather(V[n, m], I[n, t], dim=m)"),
          replaced(summaries, "gather(G[n, c], I[n, t], dim=c)", "I[n, t] <= position(n)"),
          replaced(summaries, "gather(C[c, d], I[n, t], dim=c)", "gather(M[m, d], I[n, t], dim=m)"),
          replaced(summaries, "gather(C[c, d], I[n, t], dim=c)",
                   "gather(C[c, d], I[n, t] + 1, dim=c)"),
          replaced(rows, "  I[n, t] = top_k(S[n, c], reduced_dim=c, dim=t, mask=G[n, c])",
                   "  H[n, c] = S[n, c] * G[n, c]\n"
                   "  I[n, t] = top_k(H[n, c], reduced_dim=c, dim=t)"),
          replaced(summaries, "min(B", "max(B")}) {
      CAPTURE(statements);
      CHECK(TextLayer(learned(statements, more)).program->leak != "");
    }
  }

  TEST_CASE("what a refusal says to write instead is causal") {
    struct Row {
      const char *sentence, *refused, *instead;
    };
    const Row rows[] = {
        {"it leaves out what is hidden of select(visible(n, m), …, 0), with n on the left, too",
         "  A[d] = mean(M[m, d], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[d]\n",
         "  S[n, m, d] = select(visible(n, m), M[m, d], 0)\n"
         "  A[n, d] = mean(S[n, m, d], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n, d]\n"},
        {"what is combined must be 0 there, as in select(visible(n, m), …, 0), with n on the left",
         "  A[d] = sum(M[m, d], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[d]\n",
         "  S[n, m, d] = select(visible(n, m), M[m, d], 0)\n"
         "  A[n, d] = sum(S[n, m, d], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n, d]\n"},
        {"what is combined must be false there, as in visible(n, m) and …",
         "  S[n, m] = L[n, m] > 0.2\n  A[n] = any(S[n, m], reduced_dim=m)\n"
         "  Y[n, d] = O[n, d] * A[n]\n",
         "  S[n, m] = visible(n, m) and L[n, m] > 0.2\n  A[n] = any(S[n, m], reduced_dim=m)\n"
         "  Y[n, d] = O[n, d] * A[n]\n"},
        {"the sum over 'm' of select(visible(n, m) and position(m) == …, …, 0) is another",
         "  Y[n, d] = O[n, d] + M[2, d]\n",
         "  S[n, m, d] = select(visible(n, m) and position(m) == 2, M[m, d], 0)\n"
         "  Y[n, d] = O[n, d] + sum(S[n, m, d], reduced_dim=m)\n"},
        {"it can leave none out, but mean(…), of which norms are made, can",
         "  S[n, m] = layer_norm(L[n, m], dim=m)\n  V[n, m] = softmax(S[n, m], reduced_dim=m)\n"
         "  Y[n, d] = O[n, d] + einsum(V[n, m], M[m, d])\n",
         "  A[n] = mean(L[n, m], reduced_dim=m)\n  D[n, m] = (L[n, m] - A[n])^2\n"
         "  B[n] = mean(D[n, m], reduced_dim=m)\n"
         "  S[n, m] = (L[n, m] - A[n]) / sqrt(B[n] + 1e-6)\n"
         "  V[n, m] = softmax(S[n, m], reduced_dim=m)\n"
         "  Y[n, d] = O[n, d] + einsum(V[n, m], M[m, d])\n"},
        {"a row sees position(m) + 1 positions",
         "  S[m, d] = M[m, d] * position(m) / m\n  Y[n, d] = einsum(W[n, m], S[m, d]) + O[n, d]\n",
         "  S[m, d] = M[m, d] * position(m) / (position(m) + 1)\n"
         "  Y[n, d] = einsum(W[n, m], S[m, d]) + O[n, d]\n"},
        {"at positions I[n, t] that a statement holds, a fixed number t for each row, visible(…)",
         "  Y[n, d] = O[n, d] + gather(M[m, d], (position(n) + 1) % 4, dim=m)\n",
         "  I[n, t] = clip(position(n) - 1 + index(t), 0, 9)\n  S[n, m] = visible(n, m)\n"
         "  A[n, t, d] = gather(M[m, d], I[n, t], dim=m)\n"
         "  T[n, t] = gather(S[n, m], I[n, t], dim=m)\n"
         "  B[n, t, d] = select(T[n, t], A[n, t, d], 0)\n"
         "  Y[n, d] = O[n, d] + sum(B[n, t, d], reduced_dim=t)\n"}};
    for (const Row& row : rows) {
      CAPTURE(std::string(row.refused));
      CHECK(TextLayer(with_statements(row.refused)).program->leak.find(row.sentence) !=
            std::string::npos);
      const bool picks = std::string(row.instead).find("I[n, t]") != std::string::npos;
      const TextLayer layer(with_statements(row.instead, picks ? "  where t = 2\n" : ""));
      CHECK(layer.program->leak == "");
      const Tensor X = noise({2, 9, 4}, 1), Y = layer(X, {.causal = true});
      for (Index n : {2, 3, 8})
        CHECK(difference(first_rows(layer(concat({first_rows(X, n), noise({2, 9 - n, 4}, 7)}, 1),
                                          {.causal = true}),
                                    n),
                         first_rows(Y, n)) == 0);
      if (!picks) check_causal(layer);
    }
  }

  TEST_CASE("what a refusal of pieces says to write instead is causal") {
    const std::string pieces =
        "  A[c, w, d] = windows(M[m, d], dim=m, into=(c w), stride=w)\n"
        "  V[n, m] = visible(n, m)\n  B[n, c, w] = windows(V[n, m], dim=m, into=(c w), stride=w)\n"
        "  C[c, d] = sum(A[c, w, d], reduced_dim=w)\n"
        "  G[n, c] = min(B[n, c, w], reduced_dim=w)\n";
    const std::string scores = pieces + "  S[n, c] = einsum(X[n, d], R[d, e], C[c, d=(e)])\n";
    const std::string picked = scores +
                               "  I[n, t] = top_k(S[n, c], reduced_dim=c, dim=t, mask=G[n, c])\n"
                               "  K[n, t, d] = gather(C[c, d], I[n, t], dim=c)\n"
                               "  T[n, t] = gather(G[n, c], I[n, t], dim=c)\n";
    const std::string masked = picked + "  E[n, t, d] = select(T[n, t], K[n, t, d], 0)\n";
    const std::string other =
        "  N[n, c] = -S[n, c]\n"
        "  J[n, s] = top_k(N[n, c], reduced_dim=c, dim=s, mask=G[n, c])\n";
    const std::string sum =
        "  E[n, k, d] = select(U[n, k], H[n, k, d], 0)\n"
        "  Y[n, d] = sum(E[n, k, d], reduced_dim=k)\n";
    const std::string shown =
        "leaves out first what its row may not see, where T[…] is visible(…) gathered at";
    struct Row {
      std::string sentence, refused, instead, more, of_refused = {}, of_instead = {};
    };
    const Row rows[] = {
        {shown, picked + "  Y[n, d] = select(T[n, 0], K[n, 0, d], 0)\n",
         masked + "  Y[n, d] = E[n, 0, d]\n", ", t = 1"},
        {shown,
         picked + "  U[n, t] = not T[n, t]\n  E[n, t, d] = select(U[n, t], 0, K[n, t, d])\n"
                  "  H[n, s, d] = part(K[n, t, d], dim=t, into=s, first=0)\n"
                  "  Y[n, d] = sum(H[n, s, d], reduced_dim=s) + E[n, 0, d]\n",
         masked + "  H[n, s, d] = part(E[n, t, d], dim=t, into=s, first=0)\n"
                  "  Y[n, d] = sum(H[n, s, d], reduced_dim=s)\n",
         ", t = 1, s = 1"},
        {"join the positions that they were gathered at, as in I[n, k] = concat(I_1[n, t]",
         picked + other +
             "  Z[n, s, d] = gather(C[c, d], J[n, s], dim=c)\n"
             "  Q[n, s] = gather(G[n, c], J[n, s], dim=c)\n"
             "  H[n, k, d] = concat(K[n, t, d], Z[n, s, d], dim=k)\n"
             "  U[n, k] = concat(T[n, t], Q[n, s], dim=k)\n" +
             sum,
         scores + "  I[n, t] = top_k(S[n, c], reduced_dim=c, dim=t, mask=G[n, c])\n" + other +
             "  L[n, k] = concat(I[n, t], J[n, s], dim=k)\n"
             "  H[n, k, d] = gather(C[c, d], L[n, k], dim=c)\n"
             "  U[n, k] = gather(G[n, c], L[n, k], dim=c)\n" +
             sum,
         ", t = 1, s = 1, k = t + s"},
        {"joins the pieces of 'c' outside a masked weight, so a causal mask does not keep the "
         "future hidden; a softmax over both is one over each",
         pieces + "  Z[k, d] = concat(C[c, d], M[m, d], dim=k)\n"
                  "  H[n, k] = concat(G[n, c], V[n, m], dim=k)\n"
                  "  S[n, k] = einsum(X[n, d], R[d, e], Z[k, d=(e)])\n"
                  "  W[n, k] = softmax(S[n, k], reduced_dim=k, mask=H[n, k])\n"
                  "  Y[n, d] = einsum(W[n, k], Z[k, d])\n",
         scores + "  W[n, c] = softmax(S[n, c], reduced_dim=c, mask=G[n, c])\n"
                  "  U[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                  "  a[n] = select(any(G[n, c], reduced_dim=c), "
                  "sigmoid(logsumexp(S[n, c], reduced_dim=c, mask=G[n, c]) - "
                  "logsumexp(L[n, m], reduced_dim=m)), 0)\n"
                  "  Y[n, d] = a[n] * einsum(W[n, c], C[c, d]) + "
                  "(1 - a[n]) * einsum(U[n, m], M[m, d])\n",
         "", ", k = c + m"},
        {"the sum over 'c' of select(S[…] and index(c) == …, …, 0) is one of them",
         pieces + "  Z[n, d, w] = select(G[n, 0], A[0, w, d], 0)\n"
                  "  S[n, e] = einsum(X[n, d], R[d, e])\n"
                  "  Y[n, d] = S[n, e=(d)] + sum(Z[n, d, w], reduced_dim=w) + 0 * C[0, d]\n",
         replaced(pieces, "  C[c, d] = sum(A[c, w, d], reduced_dim=w)\n", "") +
             "  Z[n, c, w, d] = select(G[n, c] and index(c) == 0, A[c, w, d], 0)\n"
             "  H[n, w, d] = sum(Z[n, c, w, d], reduced_dim=c)\n"
             "  S[n, e] = einsum(X[n, d], R[d, e])\n"
             "  Y[n, d] = S[n, e=(d)] + sum(H[n, w, d], reduced_dim=w)\n",
         ""},
        {"of windows with an axis of their own a mask can leave out those that reach too far",
         pieces + "  Z[c, u, d] = windows(C[c, d], dim=c, into=(c u), right=1)\n"
                  "  Q[c, d] = sum(Z[c, u, d], reduced_dim=u)\n"
                  "  S[n, c] = einsum(X[n, d], R[d, e], Q[c, d=(e)])\n"
                  "  W[n, c] = softmax(S[n, c], reduced_dim=c, mask=G[n, c])\n"
                  "  Y[n, d] = einsum(W[n, c], Q[c, d])\n",
         pieces + "  Z[q, u, d] = windows(C[c, d], dim=c, into=(q u), right=1)\n"
                  "  H[n, q, u] = windows(G[n, c], dim=c, into=(q u), right=1)\n"
                  "  Q[q, d] = sum(Z[q, u, d], reduced_dim=u)\n"
                  "  U[n, q] = min(H[n, q, u], reduced_dim=u)\n"
                  "  S[n, q] = einsum(X[n, d], R[d, e], Q[q, d=(e)])\n"
                  "  W[n, q] = softmax(S[n, q], reduced_dim=q, mask=U[n, q])\n"
                  "  Y[n, d] = einsum(W[n, q], Q[q, d])\n",
         "", "", ", q = c"},
        {"as min(B[…], reduced_dim=w), where B[…] has the same windows of visible(…), with "
         "fill=0",
         replaced(replaced(scores, "stride=w)\n  V", "stride=w, right=1)\n  V"), "stride=w)\n  C",
                  "stride=w, right=1, fill=1)\n  C") +
             "  W[n, c] = softmax(S[n, c], reduced_dim=c, mask=G[n, c])\n"
             "  Y[n, d] = einsum(W[n, c], C[c, d])\n",
         scores + "  W[n, c] = softmax(S[n, c], reduced_dim=c, mask=G[n, c])\n"
                  "  Y[n, d] = einsum(W[n, c], C[c, d])\n",
         ""}};
    for (const Row& row : rows) {
      CAPTURE(row.refused);
      const std::string where = ", w = 2, c = m // w" + row.more;
      CHECK(TextLayer(learned(row.refused, where + row.of_refused))
                .program->leak.find(row.sentence) != std::string::npos);
      TextLayer layer(learned(row.instead, where + row.of_instead));
      CHECK(layer.program->leak == "");
      check_causal(layer, 2);
      check_padded(layer, 2);
    }
  }

  TEST_CASE("learned rows in front of a memory are before all its positions") {
    const std::string front =
                          "  Z[j, d] = concat(P[p, d], M[m, d], dim=j)\n"
                          "  K[n, j] = einsum(X[n, d], R[d, e], Z[j, d=(e)])\n",
                      seen =
                          "  T[n, p] = position(n) + index(p) >= 0\n  S[n, m] = visible(n, m)\n"
                          "  C[n, j] = concat(T[n, p], S[n, m], dim=j)\n",
                      weights = "  W[n, j] = softmax(K[n, j], reduced_dim=j, mask=C[n, j])\n",
                      sum = "  Y[n, d] = einsum(W[n, j], Z[j, d])\n", sizes = ", p = 2, j = m + p";
    TextLayer layer(learned(front + seen + weights + sum, sizes));
    check_causal(layer);
    check_padded(layer);
    check_learns(layer, noise({2, 9, 4}, 1));
    for (const std::string& statements :
         {front + seen + "  W[n, j] = softmax(K[n, j] + index(j), reduced_dim=j, mask=C[n, j])\n" +
              sum,
          "  B[j] = 1 / (1 + index(j))\n" + front + seen + weights +
              "  Y[n, d] = einsum(W[n, j], B[j], Z[j, d])\n"})
      check_causal(TextLayer(learned(statements, sizes)));
    CHECK(TextLayer(learned(front + "  W[n, j] = softmax(K[n, j], reduced_dim=j)\n" + sum, sizes))
              .program->leak.find(
                  "mask= must leave it out, as concat(…) of what each part may see says") !=
          std::string::npos);
    // Another sequence is there before X's first row.
    const std::string beside =
        "def F(X[causal n, d], M[m, d]):\n  where j = m + l\n  Z[l, d] = X[n=(l), d]\n"
        "  K[j, d] = concat(M[m, d], Z[l, d], dim=j)\n"
        "  T[n, m] = position(n) + position(m) >= 0\n  S[n, l] = visible(n, l)\n"
        "  C[n, j] = concat(T[n, m], S[n, l], dim=j)\n"
        "  W[n, j] = softmax(einsum(X[n, d], K[j, d]), reduced_dim=j, mask=C[n, j])\n"
        "  Y[n, d] = einsum(W[n, j], K[j, d])\n  return Y[n, d]\n";
    const Tensor X = noise({5, 4}, 1), M = noise({6, 4}, 2);
    const auto rows = [&](const Tensor& x) {
      return slice(run(beside, {{"X", x}, {"M", M}}), 0, 0, 3);
    };
    const Tensor changed = concat({slice(X, 0, 0, 3), noise({2, 4}, 4) * 3.0}, 0);
    CHECK(difference(rows(X), rows(changed)) == 0);
    CHECK(difference(rows(X), rows(slice(X, 0, 0, 3))) < 1e-12);
    for (const char* turned :
         {"concat(Z[l, d], M[m, d], dim=j)", "concat(Z[l, d], Z[l, d], dim=j)"})
      CHECK(checked(replaced(beside, "concat(M[m, d], Z[l, d], dim=j)", turned))
                ->leak.find(
                    "joins the positions of 'l' outside a masked weight, so a causal mask does "
                    "not keep the future hidden; rows that are joined stand in front") !=
            std::string::npos);
    const std::string behind = replaced(front, "P[p, d], M[m, d]", "M[m, d], P[p, d]"),
                      seen_first = replaced(seen, "T[n, p], S[n, m]", "S[n, m], T[n, p]");
    const std::string all = front + seen + weights;
    for (const std::string& statements :
         {behind + seen + weights + sum, behind + seen_first + weights + sum,
          front + seen_first + weights + sum,
          all + "  A[j, u, d] = windows(Z[j, d], dim=j, into=(j u), right=1)\n"
                "  B[j, d] = sum(A[j, u, d], reduced_dim=u)\n"
                "  Y[n, d] = einsum(W[n, j], B[j, d])\n",
          all + "  A[n, j, u] = windows(C[n, j], dim=j, into=(j u), left=1)\n"
                "  B[n, j] = any(A[n, j, u], reduced_dim=u)\n"
                "  Y[n, d] = einsum(B[n, j], Z[j, d]) + W[n, 0]\n",
          all + "  A[m, d] = Z[j=(m), d]\n  B[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                "  Y[n, d] = einsum(W[n, j], Z[j, d]) + einsum(B[n, m], A[m, d])\n",
          all + "  A[m, d] = M[m, d] * 1\n  B[j, d] = A[m=(j), d]\n"
                "  Y[n, d] = einsum(W[n, j], B[j, d])\n",
          all + "  Y[n, d] = einsum(W[n, j], Z[j, d]) + Z[3, d]\n"}) {
      CAPTURE(statements);
      CHECK(TextLayer(learned(statements, sizes)).program->leak.find("^") != std::string::npos);
    }
  }

  TEST_CASE("a remainder of what is below 0 is a later position") {
    const auto leak_of_rows = [](const std::string& at) {
      return checked(
                 "def F(X[causal n, d]):\n  Z[l, d] = X[n=(l), d]\n"
                 "  Y[n, d] = gather(Z[l, d], " +
                 at + ", dim=l)\n  return Y[n, d]\n")
          ->leak;
    };
    CHECK(leak_of_rows("(position(n) - 1) % 4").find("^") != std::string::npos);
    CHECK(leak_of_rows("position(n) % 4").empty());
    CHECK(leak_of_rows("clip(position(n) - 2, 0, 100) // 2 % 3").empty());
    CHECK(leak_of_rows("clip((position(n) - 3) // 2, 0, 100)").empty());
  }

  TEST_CASE("rows that depend on how long the sequence is are refused under a causal mask") {
    for (const char* statement :
         {"  Y[n, d] = O[n, d] / m\n", "  Y[n, d] = O[n, d] * log(n)\n",
          "  A[n] = sum(L[n, m], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n]\n",
          "  S[m] = position(m) * 2\n  A[] = sum(S[m], reduced_dim=m)\n"
          "  Y[n, d] = O[n, d] * A[]\n"}) {
      CAPTURE(statement);
      const TextLayer layer(with_statements(statement));
      CHECK(layer.program->leak.find("^") != std::string::npos);
      const Tensor X = noise({1, 5, 4}, 1);
      CHECK_NOTHROW(layer(X, {}));
    }
    CHECK(TextLayer(with_statements("  Y[n, d] = O[n, d] / m\n"))
              .program->leak.find("a row sees position(n) + 1 positions") != std::string::npos);
    check_causal(TextLayer(with_statements("  Y[n, d] = O[n, d] / (position(n) + 1)\n")));
  }

  TEST_CASE("causal texts are accepted, however odd") {
    for (const char* statements :
         {// maxima, means, logsumexp and the k-th largest take the mask
          "  A[n] = max(L[n, m], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n]\n",
          "  A[n] = min(L[n, m], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n]\n",
          "  A[n] = mean(L[n, m], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n]\n",
          "  A[n] = logsumexp(L[n, m], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n]\n",
          "  A[n] = max(L[n, m], reduced_dim=m, mask=L[n, m] > 0)\n  Y[n, d] = O[n, d] * A[n]\n",
          // so they do where the text hides the future itself
          "  S[n, m] = select(visible(n, m), L[n, m], -1e30)\n"
          "  A[n] = max(S[n, m], reduced_dim=m)\n  Y[n, d] = O[n, d] * A[n]\n",
          "  S[n, m] = select(visible(n, m), L[n, m], -1e30)\n"
          "  I[n, t] = top_k(S[n, m], reduced_dim=m, dim=t)\n"
          "  B[n, t] = gather(S[n, m], I[n, t], dim=m)\n"
          "  A[n] = max(B[n, t], reduced_dim=t)\n  Y[n, d] = O[n, d] * A[n]\n",
          // hidden weights, chosen
          "  C[n, m] = select(L[n, m] > 0, W[n, m], 0)\n"
          "  Y[n, d] = einsum(C[n, m], M[m, d]) + O[n, d]\n",
          // earlier queries
          "  S[n, m] = select(visible(n, m), L[n, m], 0)\n"
          "  T[n, w, m] = windows(S[n, m], dim=n, into=(n w), left=w-1)\n"
          "  A[n, m] = sum(T[n, w, m], reduced_dim=w)\n"
          "  B[n, m] = softmax(A[n, m], reduced_dim=m)\n"
          "  Y[n, d] = einsum(B[n, m], M[m, d]) + O[n, d]\n",
          // the first position
          "  Y[n, d] = O[n, d] + M[0, d]\n", "  Y[n, d] = O[n, d] + X[0, d]\n",
          // a product of two triangles of one sequence
          "  Z[l, d] = M[m=(l), d]\n  S[l, m] = einsum(Z[l, d], M[m, d])\n"
          "  T[l, m] = softmax(S[l, m], reduced_dim=m, mask=position(m) <= position(l))\n"
          "  A[n, l] = W[n, m=(l)]\n  Y[n, d] = einsum(A[n, l], T[l, m], M[m, d]) + O[n, d]\n",
          // what attention gave, as a memory
          "  P[m, d] = O[n=(m), d]\n  A[n, m] = einsum(X[n, d], P[m, d])\n"
          "  B[n, m] = softmax(A[n, m], reduced_dim=m)\n"
          "  Y[n, d] = einsum(B[n, m], P[m, d]) + O[n, d]\n"}) {
      CAPTURE(statements);
      const bool widens = std::string(statements).find("[n, w") != std::string::npos;
      const bool finds = std::string(statements).find("[n, t") != std::string::npos;
      check_causal(TextLayer(with_statements(statements, widens  ? "  where w = 2\n"
                                                         : finds ? "  where t = 1\n"
                                                                 : "")));
    }
    check_causal(TextLayer(
        with_statements("  O_t[n, t, d] = windows(O[n, d], dim=n, into=(n t), left=t - 1)\n"
                        "  Y[n, d] = sum(O_t[n, t, d], reduced_dim=t)\n",
                        "  where t = n\n")));
  }

  TEST_CASE("gradients of texts with two memory axes are right, to second order, and in blocks") {
    int count = 0;
    for (const Text& text : texts("causal")) {
      if (text.name != "contextual_positions" && text.name != "masked_by_others" &&
          text.name != "simplicial")
        continue;
      CAPTURE(text.name);
      const TextLayer layer(text);
      for (const auto& [causal, block] : {std::pair{false, 0}, {true, 0}, {true, 2}}) {
        const AttentionCheck check{
            .causal = causal, .block = block, .options = {.order = 2, .full = 0, .entries = 4}};
        const GradReport report =
            check_gradient(layer.program, TextLayer::sizes(*layer.program), check);
        CAPTURE(report);
        CHECK(report.passed());
      }
      ++count;
    }
    CHECK(count == 3);
  }

  // Rows of a causal run do not depend on what follows, so a short run knows the first of a long
  // one.
  TEST_CASE("a text with two memory axes learns at context 64 and runs at 2048, in blocks") {
    // Products over two keys and a query grow with the third power of the length.
    const std::map<std::string, Index> lengths{
        {"contextual_positions", 2048}, {"masked_by_others", 2048}, {"simplicial", 256}};
    int count = 0;
    for (const Text& text : texts("causal")) {
      const auto length = lengths.find(text.name);
      if (length == lengths.end()) continue;
      CAPTURE(text.name);
      TextLayer layer(text);
      const Tensor X = noise({1, length->second, 4}, 1), first = first_rows(X, 64);
      check_learns(layer, first);
      const Tensor Y = layer(X, {.causal = true});
      CHECK(difference(first_rows(Y, 64), layer(first, {.causal = true})) < 1e-12);
      ++count;
    }
    CHECK(count == 3);
  }

  TEST_CASE("a softmax leaves out padding whatever its queries are") {
    const Text text{
        "F", "",
        Program::parse("def F(X[n, d], M[m, d], Z[k, d] = normal(1)):\n  where k = 3\n"
                       "  B[k, d] = G(Z[k, d], M[m, d])\n"
                       "  Y[n, d] = G(X[n, d], B[k, d])\n  return Y[n, d]\n"
                       "def G(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
                       "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                       "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"),
        false};
    const TextLayer layer(text);
    const Tensor X = noise({1, 7, 4}, 1), Y = layer(X, {.lengths = Tensor::of<int64_t>({1}, {3})});
    CHECK(difference(first_rows(Y, 3), layer(first_rows(X, 3), {})) < 1e-12);
    CHECK(layer.program->leak != "");
  }
}
