// Costs: the papers' tables come out of the texts; what is counted and what is not; the memory of
// activations is what a run makes.
#include "tools/model_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "attention/attention.hpp"
#include "nn/run/runner.hpp"
#include "tests/made_and_kept.hpp"
#include "tests/named_model.hpp"
#include "tests/paper_costs.hpp"

using namespace tete;

namespace {

using Shared = std::shared_ptr<const Checked>;

Shared program_of(const std::string& text) {
  return std::make_shared<const Checked>(check(Program::parse(text)));
}

Cost cost_at(const Shared& program, const SizesByName& given, const CostOptions& options = {}) {
  SizeTable sizes = paper_sizes(program, given);
  return cost_of(*program, sizes, options);
}

// The cost of one statement of a text with X[n, d], M[m, d] and parameters P[d, e], Q[d, e], c[].
Cost cost_of_statement(const std::string& left, const std::string& right) {
  const std::string text =
      "def T(X[n, d], M[m, d], P[d, e] = zeros(), Q[d, e] = zeros(), c[] = zeros()):\n"
      "  where e = 5\n  A" +
      left + " = " + right + "\n  Y[n] = einsum(X[n, d], P[d, e], Q[d, e]) * c[] + einsum(A" +
      left + ")\n  return Y[n]\n";
  return cost_at(program_of(text), {{"n", 2}, {"m", 3}, {"d", 7}});
}

const StatementCost& statement_of(const Cost& cost, const Checked& program,
                                  const std::string& name) {
  const int value = program.find_value(name);
  for (const StatementCost& statement : cost.statements)
    if (statement.value == value) return statement;
  FAIL("no statement ", name);
  return cost.statements[0];
}

// The sentence that `use` fails with, or "".
template <class Use>
std::string complaint(const Use& use) {
  try {
    use();
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

double four_digits(double x) {
  const double unit = std::pow(10, std::floor(std::log10(x)) - 3);
  return std::round(x / unit) * unit;
}

}  // namespace

// ---- The papers' tables -------------------------------------------------------------------------

TEST_CASE("every row of the talking-heads paper's tables comes out of a text") {
  int printed = 0, otherwise = 0;
  for (const PaperCost& row : paper_costs) {
    CAPTURE(row.table);
    CAPTURE(row.row);
    CAPTURE(row.sizes.h);
    const Shared program = load_attention(row.variant);
    SizesByName sizes;
    for (const auto& [name, size] :
         {std::pair{"h_k", row.sizes.h_k}, std::pair{"h", row.sizes.h},
          std::pair{"h_v", row.sizes.h_v}, std::pair{"d_k", row.sizes.d_k},
          std::pair{"d_v", row.sizes.d_v}})
      if (program->find_dimension(name) >= 0) sizes[name] = size;
    const Cost cost = cost_at(program, sizes);
    CHECK(cost.parameters == row.parameters);
    CHECK(cost.total.multiplies == row.multiplies);
    if (!row.is_printed) continue;
    ++printed;
    otherwise += row.left_out != 0;
    const auto counted = static_cast<double>(row.multiplies - row.left_out);
    CHECK(four_digits(counted) == doctest::Approx(row.printed).epsilon(1e-12));
  }
  CHECK(std::size(paper_costs) == 68);
  CHECK(printed == 36);
  CHECK(otherwise == 8);
}

TEST_CASE("the eight printed values that differ leave out what the README says they do") {
  for (const PaperCost& row : paper_costs) {
    if (!row.is_printed || row.left_out == 0) continue;
    CAPTURE(row.row);
    const std::string variant = row.variant;
    const Index n = 512, m = 512, d = 768, h = row.sizes.h;
    const Index one = n * m * h * h;  // one product of logits or weights with a dynamic matrix
    if (variant == "general_bilinear") CHECK(row.left_out == 2 * n * m * d * (h - 1));
    else if (variant == "dynamic_projections") CHECK(row.left_out == 4 * one);
    else CHECK(row.left_out == one);
  }
}

TEST_CASE("the other variants' texts cost what their formulas come to") {
  for (const FormulaCost& row : formula_costs) {
    CAPTURE(row.variant);
    const Cost cost = cost_at(load_attention(row.variant), {row.sizes.begin(), row.sizes.end()});
    CHECK(cost.parameters == row.parameters + row.weights);
    CHECK(cost.total.multiplies == row.multiplies);
  }
  // A window's formula counts w keys for every query, also where fewer come before it.
  const Index w = 128, absent = w * (w - 1) / 2;
  const Cost cost = cost_at(load_attention("sliding_window"), {{"w", w}}, {.causal = true});
  CHECK(cost.parameters == 2359296);
  CHECK(cost.total.visible + absent * (64 + 64) * 12 == 1308622848);
  CHECK(cost.total.multiplies == 1610612736);
}

TEST_CASE("formulas are written as the paper writes them") {
  const Shared program = load_attention("talking_heads");
  const Cost cost = cost_at(program, {});
  for (const auto& [name, formula] :
       {std::pair{"Q", "n*d_X*d_k*h_k"}, std::pair{"K", "m*d_M*d_k*h_k"},
        std::pair{"J", "n*m*d_k*h_k"}, std::pair{"L", "n*m*h*h_k"}, std::pair{"W", "0"},
        std::pair{"U", "n*m*h*h_v"}, std::pair{"O", "n*m*d_v*h_v"},
        std::pair{"Y", "n*d_Y*d_v*h_v"}})
    CHECK(statement_of(cost, *program, name).count.formula.text() == formula);
  CHECK(cost.parameter_formula.text() ==
        "d_X*d_k*h_k + d_M*d_k*h_k + d_M*d_v*h_v + d_Y*d_v*h_v + h*h_k + h*h_v");
}

// ---- What is counted ----------------------------------------------------------------------------

TEST_CASE("einsums and products of tensors count, everything else is free") {
  struct Case {
    const char *left, *right, *formula;
    Index multiplies;
  };
  const Case cases[] = {
      {"[n, m]", "einsum(X[n, d], M[m, d])", "n*m*d", 2 * 3 * 7},
      {"[n]", "einsum(X[n, d])", "0", 0},
      {"[n, d]", "X[n, d] * X[n, d]", "n*d", 2 * 7},
      {"[n, m, d]", "X[n, d] * M[m, d]", "n*m*d", 2 * 3 * 7},
      {"[n, d]", "X[n, d] * 2 + X[n, d] / X[n, d]", "0", 0},
      {"[n, d]", "c[] * X[n, d]", "0", 0},
      {"[n, d]", "tanh(X[n, d] * X[n, d]) * X[n, d]", "2*n*d", 2 * 2 * 7},
      {"[n, d]", "softmax(X[n, d], reduced_dim=d)", "0", 0},
      {"[n, d]", "X[n, d] * M[0, d]", "n*d", 2 * 7},
      // The cheapest order: first P with Q (7·5), then with X (2·7).
      {"[n, d]", "einsum(X[n, d], P[d, e], Q[d, e])", "d*e + n*d", 7 * 5 + 2 * 7},
  };
  for (const Case& c : cases) {
    CAPTURE(c.right);
    const Cost cost = cost_of_statement(c.left, c.right);
    CHECK(cost.statements[0].count.formula.text() == c.formula);
    CHECK(cost.statements[0].count.multiplies == c.multiplies);
  }
  CHECK(
      cost_of_statement("[n, d]", "einsum(X[n, d], P[d, e], Q[d, e])").statements[0].count.naive ==
      2 * 7 * 5);
}

TEST_CASE("a dimension that a call names anew keeps its name; parameters alone count once") {
  const Shared program = load_attention("talking_heads_inefficient");
  const Cost cost = cost_at(program, {});
  CHECK(statement_of(cost, *program, "Y.L").count.formula.text() == "n*d_M*d_X*h + n*m*d_M*h");
  CHECK(statement_of(cost, *program, "P").once);
  CHECK(!statement_of(cost, *program, "Y.L").once);
  CHECK(cost.once == 2 * (768 * 768 * 64 * 12 + 768 * 768 * 12 * 12));
  CHECK(cost.total.naive > 200 * cost.total.multiplies);
}

TEST_CASE("fixed parameters are not counted among the learned") {
  const Cost cost =
      cost_at(program_of("def T(X[n, d], P[d, e] = zeros(), F[d, e] = fixed zeros()):\n"
                         "  where e = 5\n"
                         "  Y[n, e] = einsum(X[n, d], P[d, e]) + einsum(X[n, d], F[d, e])\n"
                         "  return Y[n, e]\n"),
              {{"d", 7}});
  CHECK(cost.parameters == 35);
  CHECK(cost.fixed_parameters == 35);
}

// ---- Masks --------------------------------------------------------------------------------------

TEST_CASE("what a mask leaves visible is counted beside all pairs") {
  const std::string head = "def T(X[n, d], M[m, d]):\n";
  const std::string tail = ")\n  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n";
  const auto of = [&](const std::string& before, const std::string& softmax) {
    return program_of(
        head + before +
        "  L[n, m] = einsum(X[n, d], M[m, d])\n  W[n, m] = softmax(L[n, m], reduced_dim=m" +
        softmax + tail);
  };
  const Shared plain = of("", "");
  const Shared by_text = of("", ", mask=position(m) <= position(n)");
  const Shared window = of("  Near[n, m] = position(n) - position(m) < 3\n", ", mask=Near[n, m]");
  for (const auto& [queries, memories] : {std::pair<Index, Index>{7, 7}, {5, 9}, {9, 5}}) {
    const Index n = queries, m = memories;  // clang 14 does not capture bindings
    CAPTURE(n);
    const SizesByName sizes{{"n", n}, {"m", m}, {"d", 4}};
    Index causal = 0, near = 0, both = 0, early = 0;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < m; ++j) {
        const Index apart = i + (m - n) - j;  // under a causal mask both end at one position
        causal += apart >= 0, near += i - j < 3, both += apart >= 0 && apart < 3;
        early += j <= i;
      }
    const auto visible = [&](const Shared& program, bool mask) {
      const Cost cost = cost_at(program, sizes, {.causal = mask});
      CHECK(cost.total.multiplies == 2 * n * m * 4);
      return cost.total.visible;
    };
    CHECK(visible(plain, false) == 2 * n * m * 4);
    CHECK(visible(plain, true) == 2 * causal * 4);
    CHECK(visible(by_text, false) == 2 * early * 4);
    CHECK(visible(window, false) == 2 * near * 4);
    CHECK(visible(window, true) == 2 * both * 4);
  }
}

TEST_CASE("a mask that is made of data hides nothing that can be counted") {
  const Cost cost =
      cost_at(program_of("def T(X[n, d], M[m, d]):\n"
                         "  L[n, m] = einsum(X[n, d], M[m, d])\n"
                         "  W[n, m] = softmax(L[n, m], reduced_dim=m, mask=L[n, m] > 0)\n"
                         "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"),
              {{"n", 3}, {"m", 4}, {"d", 5}});
  CHECK(cost.total.visible == cost.total.multiplies);
}

// ---- Memory -------------------------------------------------------------------------------------

TEST_CASE("the bytes of activations are those that a run makes, and more than it keeps") {
  for (const char* name : {"multi_head", "talking_heads", "multi_head_scaled", "project_logits"}) {
    CAPTURE(name);
    const Shared program = load_attention(name);
    const SizesByName given{{"n", 96}, {"m", 80}, {"d_X", 32}, {"d_M", 32}, {"h", 4}};
    SizeTable sizes(program, given);
    const Cost cost = cost_of(*program, sizes);
    ParamList list;
    const Attention attention(Scope{list}, program, {.d_model = 32, .heads = 4});
    Tensors params;
    for (const Tensor& p : list.initial_values(Key(1))) params.push_back(p.variable());
    const Tensor X = random_normal({96, 32}, Key(2)).variable();
    const Tensor M = random_normal({80, 32}, Key(3)).variable();
    // A hook that might replace a value has it made, and all that follows from it.
    const Forward forward{.params = params,
                          .replace = [](const std::string&, const Tensor& x) { return x; },
                          .tiling = {.allowed = false}};
    const MadeAndKept run([&] { return attention(forward, "", X, M); });
    CHECK(run.made == doctest::Approx(static_cast<double>(cost.bytes)).epsilon(0.02));
    CHECK(run.kept < 0.85 * run.made);  // without the logits that softmax took, at least
  }
}

TEST_CASE("in tiles, rows of both sequences are held for one block of queries") {
  const Shared program = load_attention("multi_head");
  const Index linear = 4 * (4 * 768 + 768), rows = 2 * 4 * 12;  // Q K V O Y; L W
  for (const auto& sizes : std::map<Index, Index>{{64, 64}, {512, 128}, {8192, 64}}) {
    const Index n = sizes.first, block = sizes.second;
    const Cost cost = cost_at(program, {{"n", n}, {"m", n}});
    CHECK(cost.tile_queries == block);
    CHECK(cost.bytes == static_cast<size_t>(n * linear + n * n * rows));
    CHECK(cost.tiled_bytes == static_cast<size_t>(n * linear + block * n * rows));
  }
  CHECK(cost_at(program, {{"n", 1}}).tiled_bytes == cost_at(program, {{"n", 1}}).bytes);
}

TEST_CASE("what normalises over the queries of both is held whole, and the place is told") {
  const auto of = [](const char* dim) {
    return program_of(std::string("def T(X[n, d], M[m, d]):\n"
                                  "  L[n, m] = einsum(X[n, d], M[m, d])\n"
                                  "  C[n, m] = softmax(L[n, m], reduced_dim=") +
                      dim + ")\n  Y[n, d] = einsum(C[n, m], M[m, d])\n  return Y[n, d]\n");
  };
  const Shared queries = of("n"), memories = of("m");
  const Cost over_n = cost_at(queries, {}), over_m = cost_at(memories, {});
  REQUIRE(over_n.whole_because.size() == 1);
  CHECK(line_of(over_n.whole_because[0]) == "text:3");
  CHECK(over_n.whole_reason ==
        "'C' is over queries and memory and needs all queries at once: softmax runs along 'n'");
  CHECK(over_n.tiled_bytes == over_n.bytes);
  CHECK(over_m.whole_because.empty());
  CHECK(over_n.tile_queries == 0);
  CHECK(over_m.tile_queries > 0);
}

TEST_CASE("a model's multiplies are its parts', and its bytes those that a forward pass makes") {
  for (const char* activation : {"relu", "swiglu"})
    for (const bool tied : {true, false}) {
      CAPTURE(activation);
      CAPTURE(tied);
      const Index n = 48, d = 32, gated = std::string(activation) == "swiglu";
      std::vector<std::string> uses{
          text("FeedForward=ff", gated ? "_gated" : "", tied ? "_biases" : "")};
      uses.push_back(gated ? "Activation=silu" : "Activation=relu");
      if (!tied) uses.push_back("Output=output_own");
      const Model model(tests::filled_text("language_model", uses),
                        {{"v", 50}, {"max_n", n}, {"d_X", d}, {"l", 3}, {"h", 4}, {"f", 96}});
      const Cost cost = cost_of(model, n);
      const Index attention = 4 * n * d * d + 2 * n * n * d + 2 * n * n * 16;
      const Index norms = (2 * 3 + 1) * n * d, gates = gated * 3 * n * 96;
      CHECK(cost.total.multiplies ==
            3 * (attention + (2 + gated) * n * d * 96) + n * d * 50 + norms + gates);
      CHECK(cost.total.visible == cost.total.multiplies - 3 * (2 * d + 2 * 16) * (n * (n - 1) / 2));
      Tensors params;
      for (const Tensor& p : model.params().initial_values(Key(1))) params.push_back(p.variable());
      const Tensor tokens = Tensor::of<int64_t>({1, n}, std::vector<int64_t>(n, 7));
      const MadeAndKept run([&] {
        return model.logits({.params = params, .tiling = {.allowed = false}}, {.X = tokens});
      });
      // Several statements may be one pass: attention stores neither logits nor weights.
      // 3 layers, 4 heads, 4 values, 4 bytes.
      const double bytes = static_cast<double>(cost.bytes), pairs = 3 * 4 * n * n * 4 * 4;
      CHECK(run.made <= bytes);
      CHECK(run.made > 0.6 * (bytes - pairs));
      CHECK(run.kept < 0.95 * run.made);
    }
}

// ---- Sizes and mistakes -------------------------------------------------------------------------

TEST_CASE("sizes are a T5-base layer's where nothing says others; multi-head stands beside") {
  const Shared program = load_attention("general_bilinear");
  SizeTable sizes = paper_sizes(program, {{"h", 3}, {"d_X", 24}});
  const Cost cost = cost_of(*program, sizes);
  CHECK(cost.parameters == 24 * 768 * 3 + 768 * 24 * 3);
  const std::optional<Cost> multi_head = multi_head_cost(*program, sizes);
  REQUIRE(multi_head);
  CHECK(multi_head->parameters == 24 * 24 + 768 * 24 + 768 * 768 + 24 * 768);
}

TEST_CASE("sizes that make no sense end in a sentence") {
  const Shared heads = load_attention("multi_head");
  CHECK(has(complaint([&] {
              cost_at(heads, {{"h_k", 4}});
            }),
            "'MultiHead' has no size 'h_k'; its sizes are"));
  CHECK(has(complaint([&] { cost_at(heads, {{"h", 7}}); }), "768 / 7 is not a whole number"));
  const Index many = 4000000000;
  CHECK(has(complaint([&] { cost_at(heads, {{"n", many}, {"m", many}}); }), "63 bits"));
  const Shared open = program_of(
      "def T(X[n, d], P[d, e] = zeros()):\n  Y[n, e] = einsum(X[n, d], P[d, e])\n  return Y[n, "
      "e]\n");
  CHECK(has(complaint([&] { cost_at(open, {}); }), "the size of 'e' is open"));
  CHECK(has(complaint([&] {
              cost_at(open, {{"e", 2}}, {.causal = true});
            }),
            "no statement of it takes the mask of the call"));
}
