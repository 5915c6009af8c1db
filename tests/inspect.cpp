// `tete inspect` is held against plain recomputation from the tensors that it saves, and these
// against a run of the text alone.
#include "tools/inspect/inspect.hpp"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/run.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/strict_device.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/inspect/findings.hpp"
#include "tools/inspect/heads.hpp"
#include "tools/inspect/matrix.hpp"
#include "tools/inspect/mixing.hpp"
#include "tools/inspect/page.hpp"
#include "tools/inspect/places.hpp"
#include "tools/inspect/tables.hpp"
#include "tools/trained.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// A small model of a text whose slots are filled so.
ModelSettings settings_of_text(const std::string& name, const std::vector<SlotUse>& uses = {},
                               bool has_heads = true) {
  ModelSettings s;
  read_model_text(s, find_model(name), uses);
  s.layers = 2, s.d_model = 12, s.d_ff = 20, s.context = 16;
  if (has_heads) s.heads = 3;
  return s;
}

// With this attention: in a decoder, or between an encoder and a decoder.
ModelSettings settings_of(const std::string& attention, bool crossing = false) {
  const auto program = load_attention(attention);
  const bool has_heads = program->find_dimension("h") >= 0;
  const std::vector<SlotUse> uses{{(crossing ? "Cross=" : "Attention=") + attention}};
  ModelSettings s = settings_of_text(crossing ? "encoder_decoder" : "language_model", uses,
                                     has_heads || crossing);
  for (const auto& [dim, size] : SizesByName{{"w", 3}, {"g", 1}, {"max_m", 16}, {"r", 4}})
    if (program->find_dimension(dim) >= 0) s.dims[dim] = size;
  if (attention == "bigbird") s.dims["b"] = 2, s.dims["i"] = 8;
  return s;
}

const std::string letters = "\n abcdefghijklmnopqrstuvwxyz";

// A checkpoint of a model as it starts; other steps start elsewhere.
std::string write_run(const std::string& folder, const ModelSettings& s,
                      const Tokenizer& tokenizer = Tokenizer::characters(letters), int64_t step = 0,
                      Index masks = 0) {
  const Index v = tokenizer.size() + masks;
  const ParamList params = make_model(s, v).params();
  Tensors values = params.initial_values(Key(static_cast<uint64_t>(step) + 1));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = values[i] + noise(values[i].shape(), 7 + i, Dtype::f32) * 0.1;
  RunState state;
  state.step = step;
  nlohmann::ordered_json config = {{"model", to_json(s)}};
  if (masks > 0) config["task"] = masked_task;
  state.config = config.dump();
  state.tokenizer = tokenizer.describe();
  const auto optimizer = find_optimizer("adam").make(params.specs(), Dtype::f32, cpu());
  return RunFolder(folder).save(state, checkpoint_tensors(params.specs(), values, *optimizer), 9);
}

const Site& site_at(const Report& report, const std::string& path) {
  for (const Site& site : report.runs[0].frames[0].sites)
    if (site.path == path) return site;
  FAIL("no site ", path);
  throw;
}

const AttentionMap& map_of(const Site& site, const std::string& name) {
  for (const AttentionMap& map : site.maps)
    if (map.name == name) return map;
  FAIL("no map ", name);
  throw;
}

Tensor statistic(const Site& site, const std::string& name) {
  for (const HeadStatistic& each : site.heads)
    if (each.name == name && each.map == site.weights) return each.values;
  FAIL("no statistic ", name);
  throw;
}

bool close(double a, double b, double tolerance = 1e-5) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The head of an attention's text; its statements follow.
std::string text_of(const std::string& parameters, const std::string& statements) {
  return "def Tried(X[n, d_X], M[m, d_M], P_k[d_M, d_k, h] = normal(1), P_v[d_M, d_v, h] = "
         "normal(1), " +
         parameters +
         "):\n  where d_k = d_X / h, d_v = d_M / h, d_Y = d_X\n"
         "  K[m, d_k, h] = einsum(M[m, d_M], P_k[d_M, d_k, h])\n"
         "  V[m, d_v, h] = einsum(M[m, d_M], P_v[d_M, d_v, h])\n" +
         statements + "  return Y[n, d_Y]\n";
}
const std::string one_query = "P_q[d_X, d_k, h] = normal(1), P_o[d_Y, d_v, h] = normal(1)";
const std::string summed =
    "  O[n, d_v, h] = einsum(W[n, m, h], V[m, d_v, h])\n"
    "  Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])\n";

const std::string text_of_a_difference =
    text_of(one_query + ", P_2[d_X, d_k, h] = normal(1), l[h] = normal(0.5)",
            "  L_1[n, m, h] = einsum(X[n, d_X], P_q[d_X, d_k, h], K[m, d_k, h])\n"
            "  L_2[n, m, h] = einsum(X[n, d_X], P_2[d_X, d_k, h], K[m, d_k, h])\n"
            "  W_1[n, m, h] = softmax(L_1[n, m, h], reduced_dim=m)\n"
            "  W_2[n, m, h] = softmax(L_2[n, m, h], reduced_dim=m)\n"
            "  W[n, m, h] = W_1[n, m, h] - l[h] * W_2[n, m, h]\n" +
                summed);
const std::string text_of_unnamed_mixing = text_of(
    "P_q[d_X, d_k, h] = normal(1), P_o[d_Y, d_v, h] = normal(1), P_a[h, r] = normal(1), "
    "P_b[r, h_2] = normal(1)",
    "  J[n, m, h] = einsum(X[n, d_X], P_q[d_X, d_k, h], K[m, d_k, h])\n"
    "  L[n, m, h_2] = einsum(J[n, m, h], P_a[h, r], P_b[r, h_2])\n"
    "  W[n, m, h_2] = softmax(L[n, m, h_2], reduced_dim=m)\n"
    "  O[n, d_v, h] = einsum(W[n, m, h_2=(h)], V[m, d_v, h])\n"
    "  Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])\n");
const std::string text_of_groups =
    text_of("P_q[d_X, d_k, s, h] = normal(1), P_o[d_Y, d_v, s, h] = normal(1)",
            "  Q[n, d_k, s, h] = einsum(X[n, d_X], P_q[d_X, d_k, s, h])\n"
            "  Z[n, m, d_X, d_k, s] = einsum(X[n, d_X], K[m, d_k, h], P_q[d_X, d_k, s, h])\n"
            "  G[n, m, s] = einsum(Z[n, m, d_X, d_k, s])\n"
            "  L[n, m, s, h] = einsum(Q[n, d_k, s, h], K[m, d_k, h]) + G[n, m, s]\n"
            "  A[n, m, s, h] = softmax(L[n, m, s, h], reduced_dim=m)\n"
            "  O[n, d_v, s, h] = einsum(A[n, m, s, h], V[m, d_v, h])\n"
            "  Y[n, d_Y] = einsum(O[n, d_v, s, h], P_o[d_Y, d_v, s, h])\n");
const std::string text_of_sigmoid =
    text_of(one_query,
            "  L[n, m, h] = einsum(X[n, d_X], P_q[d_X, d_k, h], K[m, d_k, h])\n"
            "  S[n, m, h] = select(visible(m), sigmoid(L[n, m, h] - 2), 0)\n"
            "  O[n, d_v, h] = einsum(S[n, m, h], V[m, d_v, h])\n"
            "  Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])\n");

}  // namespace

TEST_SUITE("inspect") {
  TEST_CASE("determinants, singular values and eigenvalues are NumPy's") {
    struct Row {
      Index rows, columns;
      std::vector<double> values;
      double determinant;
      std::vector<double> singular, eigenvalue_sizes;  // the largest first
    };
    for (const Row& row :
         {Row{1,
              1,
              {0.34599999999999997},
              0.34599999999999997,
              {0.34599999999999997},
              {0.34599999999999997}},
          Row{2,
              2,
              {0.82199999999999995, 0.33000000000000002, -1.3029999999999999, 0.90500000000000003},
              1.1739000000000002,
              {1.6766710148733681, 0.70013734929905724},
              {1.0834666584625479, 1.0834666584625479}},
          Row{3,
              3,
              {0.44600000000000001, -0.53700000000000003, 0.58099999999999996, 0.36499999999999999,
               0.29399999999999998, 0.028000000000000001, 0.54700000000000004, -0.73599999999999999,
               -0.16300000000000001},
              -0.30187064899999994,
              {1.1794356223851004, 0.55784148571215841, 0.4588131313154874},
              {0.73592755721897007, 0.73592755721897007, 0.55737919910249589}},
          Row{5,
              5,
              {-0.48199999999999998,
               0.59899999999999998,
               0.040000000000000001,
               -0.29199999999999998,
               -0.78200000000000003,
               -0.25700000000000001,
               0.0080000000000000002,
               -0.27600000000000002,
               1.294,
               1.0069999999999999,
               -2.7109999999999999,
               -1.889,
               -0.17499999999999999,
               -0.42199999999999999,
               0.214,
               0.217,
               2.1179999999999999,
               -1.1120000000000001,
               -0.378,
               2.0430000000000001,
               0.64700000000000002,
               0.66300000000000003,
               -0.51400000000000001,
               -1.6479999999999999,
               0.16700000000000001},
              3.8341331757525334,
              {3.9537216481693749, 2.7243881329525492, 2.2507416572503987, 1.0499327126951137,
               0.15062775625551422},
              {1.7827576960796923, 1.6889580354830134, 1.6889580354830134, 1.6153354243039046,
               0.46673937292135587}},
          Row{8,
              8,
              {0.109,
               -1.2270000000000001,
               -0.68300000000000005,
               -0.071999999999999995,
               -0.94499999999999995,
               -0.098000000000000004,
               0.095000000000000001,
               0.035999999999999997,
               -0.50600000000000001,
               0.59399999999999997,
               0.89100000000000001,
               0.32100000000000001,
               -0.81799999999999995,
               0.73199999999999998,
               -0.501,
               0.879,
               -1.0720000000000001,
               0.91400000000000003,
               -0.02,
               -1.2490000000000001,
               -0.314,
               0.053999999999999999,
               0.27300000000000002,
               -0.98199999999999998,
               -1.107,
               0.20000000000000001,
               -0.46700000000000003,
               0.23599999999999999,
               0.76000000000000001,
               -1.649,
               0.254,
               1.2250000000000001,
               -0.29799999999999999,
               -0.81100000000000005,
               0.752,
               0.253,
               0.89600000000000002,
               -0.34499999999999997,
               -1.482,
               -0.11,
               -0.44600000000000001,
               0.77500000000000002,
               0.19400000000000001,
               -1.631,
               -1.1950000000000001,
               0.88400000000000001,
               0.68000000000000005,
               -0.64000000000000001,
               -0.001,
               0.44600000000000001,
               0.46800000000000003,
               0.876,
               0.25600000000000001,
               -0.095000000000000001,
               -0.25900000000000001,
               1.056,
               -2.2509999999999999,
               -0.13900000000000001,
               0.033000000000000002,
               -1.425,
               0.33300000000000002,
               -0.65100000000000002,
               0.86199999999999999,
               -0.126},
              -0.97700231227799217,
              {3.9887867886883863, 3.3172144247677706, 2.3462618244071409, 2.0064235065229119,
               1.5980366889301616, 0.70886261640115023, 0.39922450149725741, 0.034682958436609179},
              {2.8713278405966904, 1.9708651521381655, 1.9708651521381655, 1.926240809568373,
               1.926240809568373, 0.62586959199569903, 0.19422135903620588, 0.19422135903620588}},
          Row{2, 2, {0, -1, 1, 0}, 1, {1, 1}, {1, 1}},
          Row{4,
              4,
              {0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0},
              -1,
              {1, 1, 1, 1},
              {1.0000000000000004, 0.99999999999999989, 0.99999999999999956, 0.99999999999999956}},
          Row{3, 3, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, {3, 0, 0}, {2.9999999999999991, 0, 0}},
          Row{2, 2, {1, 1, 0, 1}, 1, {1.6180339887498949, 0.61803398874989479}, {1, 1}},
          Row{2,
              3,
              {0.66900000000000004, 1.2190000000000001, 0.38300000000000001, -0.876, -1.514,
               1.7529999999999999},
              0,
              {2.6058356979125934, 1.1926492843599867},
              {}},
          Row{4,
              2,
              {-0.111, -0.68899999999999995, 0.14399999999999999, -0.191, 0.85199999999999998,
               0.034000000000000002, 0.014, -0.71499999999999997},
              0,
              {1.0198109830060988, 0.86181526961416388},
              {}},
          Row{3,
              3,
              {0.0001, 0, 0, 0, 1, 0, 0, 0, 2},
              0.0002000000000000002,
              {2, 1, 0.0001},
              {2, 1, 0.0001}}}) {
      Matrix a(row.rows, row.columns);
      a.values = row.values;
      const std::vector<double> s = singular_values(a);
      REQUIRE(s.size() == row.singular.size());
      for (size_t i = 0; i < s.size(); ++i) CHECK(close(s[i], row.singular[i], 1e-12));
      if (row.rows != row.columns) continue;
      CHECK(close(determinant(a), row.determinant, 1e-12));
      std::vector<double> sizes;
      for (const auto& z : eigenvalues(a)) sizes.push_back(std::abs(z));
      std::sort(sizes.rbegin(), sizes.rend());
      REQUIRE(sizes.size() == row.eigenvalue_sizes.size());
      for (size_t i = 0; i < sizes.size(); ++i)
        CHECK(close(sizes[i], row.eigenvalue_sizes[i], 1e-9));
    }
  }

  TEST_CASE("heads that look back, that copy and that look everywhere are told from each other") {
    const std::vector<int64_t> tokens{1, 2, 3, 1, 2, 3};
    const Index n = std::ssize(tokens);
    std::vector<float> W(static_cast<size_t>(4 * n * n));
    const auto at = [&](Index head, Index i, Index j) -> float& {
      return W[(head * n + i) * n + j];
    };
    for (Index i = 0; i < n; ++i) {
      at(0, i, std::max<Index>(0, i - 1)) = 1;  // the token before
      at(1, i, i < 3 ? 0 : i - 2) = 1;          // what followed the same token
      at(2, i, i < 3 ? 0 : i - 3) = 1;          // the same token
      for (Index j = 0; j <= i; ++j) at(3, i, j) = 1 / static_cast<float>(i + 1);
    }
    AttentionMap weights;
    weights.values = Tensor::of<float>({4, n, n}, W);
    std::map<std::string, std::vector<double>> found;
    for (const HeadStatistic& each : head_statistics(weights, tokens))
      found[each.name] = each.values.values();
    const auto is = [&](const std::string& name, const std::vector<double>& expected) {
      CAPTURE(name);
      for (size_t i = 0; i < expected.size(); ++i) CHECK(close(found.at(name)[i], expected[i]));
    };
    is("previous token", {1, 1.0 / 5, 1.0 / 5, (1 / 2. + 1 / 3. + 1 / 4. + 1 / 5. + 1 / 6.) / 5});
    is("induction", {0, 1, 0, (1 / 4. + 1 / 5. + 1 / 6.) / 3});
    is("duplicate token", {0, 0, 1, (1 / 4. + 1 / 5. + 1 / 6.) / 3});
    is("entropy", {0, 0, 0, std::log(720.) / 6});
    is("distance", {5 / 6., 9 / 6., 12 / 6., (0 + 1 / 2. + 1 + 3 / 2. + 2 + 5 / 2.) / 6});
    // Nothing repeats: there is no such number.
    for (const HeadStatistic& each : head_statistics(weights, {1, 2, 3, 4, 5, 6}))
      if (each.name == "induction") CHECK(std::isnan(each.values.values()[0]));
    CHECK(head_statistics(weights, {}).size() == 1);
  }

  TEST_CASE("weights with negative entries have no entropy, and shares of any weights have") {
    AttentionMap map;
    map.name = "S", map.values = Tensor::of<float>({1, 2, 2}, {0.5F, 0, 0.2F, 0.6F});
    const std::vector<HeadStatistic> found = head_statistics(map, {1, 1});
    REQUIRE(found[0].name == "entropy");
    CHECK(found[0].map == "S");
    CHECK(close(found[0].values.item(), -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)) / 2));
    CHECK(close(found[1].values.item(), 0.25 / 2));  // distance
    map.values = Tensor::of<float>({1, 2, 2}, {0.5F, 0, -0.2F, 0.6F});
    CHECK(head_statistics(map, {1, 1})[0].name == "distance");
    CHECK(close(head_statistics(map, {1, 1})[1].values.item(), -0.2));  // previous token
  }

  TEST_CASE("measures are of the tensor that they name: the difference of two softmaxes") {
    const TemporaryFolder folder;
    std::ofstream(folder / "minus.tete") << text_of_a_difference;
    write_run(folder / "run", settings_of(folder / "minus.tete"));
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abcab";
    const Report report = inspect(options);
    const Site& site = site_at(report, "decoder/1/A");
    CHECK(site.weights == "W");
    std::map<std::string, std::vector<double>> previous;
    for (const HeadStatistic& each : site.heads)
      if (each.name == "previous token") previous[each.map] = each.values.values();
    REQUIRE(previous.size() == 3);
    for (const auto& [name, told] : previous) {
      const std::vector<double> values = map_of(site, name).values.values();
      for (size_t head = 0; head < 3; ++head) {
        double sum = 0;
        for (size_t i = 1; i < 5; ++i) sum += values[(head * 5 + i) * 5 + i - 1];
        CHECK(close(told[head], sum / 4));
      }
    }
    CHECK(map_of(site, "W_1").unmeasured.empty());
    CHECK(map_of(site, "L_1").unmeasured ==
          "L_1 has no measures, as no values are summed by it; W has them.");
    CHECK(site.ablated == "O");
  }

  TEST_CASE("findings are the strongest heads of the weights, with the query that shows it most") {
    const std::vector<int64_t> tokens{1, 2, 1, 2};
    AttentionMap map;
    map.name = "W";
    map.values = Tensor::of<float>({2, 4, 4}, {1, 0, 0, 0, 1,    0,    0,    0,  // head 0
                                               0, 1, 0, 0, 0.5F, 0.5F, 0,    0,  //
                                               1, 0, 0, 0, 0,    1,    0,    0,  // head 1
                                               0, 0, 1, 0, 0.2F, 0,    0.8F, 0});
    Frame frame;
    frame.sites.resize(1);
    Site& site = frame.sites[0];
    site.path = "decoder/0/A", site.weights = "W";
    site.heads = head_statistics(map, tokens);
    for (HeadStatistic other : head_statistics(map, tokens)) {
      other.map = "U", other.values = other.values + 5.0;  // no weights: no finding
      site.heads.push_back(other);
    }
    site.ablation = Tensor::of<float>({2}, {0.1F, 0.3F}), site.ablated = "O";
    bool induction = false, loss = false;
    for (const Findings& each : findings_of(frame)) {
      if (each.measure == "induction") {
        induction = true;
        CHECK(each.heads[0].picture == 0);
        CHECK(close(each.heads[0].value, 0.5));  // 1 on token 1 from row 2, 0 on 2 from row 3
        CHECK(each.heads[0].row == 2);
        CHECK(each.heads[1].value < each.heads[0].value);
      }
      if (each.measure != "loss without it") continue;
      loss = true;
      CHECK(each.heads[0].picture == 1);
      CHECK(each.heads[0].tensor == "O");
    }
    CHECK(induction);
    CHECK(loss);
  }

  TEST_CASE("maps are tied as the text makes them of each other, and mixed by what mixes them") {
    struct Row {
      std::string attention;
      std::vector<std::string> ties;  // "J L softmax P_l R_Xl[n]"
    };
    const TemporaryFolder folder;
    std::ofstream(folder / "minus.tete") << text_of_a_difference;
    std::ofstream(folder / "unnamed.tete") << text_of_unnamed_mixing;
    for (const Row& row :
         {Row{folder / "minus.tete", {"L_1 W_1 softmax", "L_2 W_2 softmax", "W_1 W ", "W_2 W −l"}},
          Row{"talking_heads", {"J L  P_l[]", "L W softmax", "W U  P_w[]"}},
          Row{"dynamic_projections",
              {"J L  P_l[] R_Xl[n] R_Ml[m]", "L W softmax", "W U  P_w[] R_Xw[n] R_Mw[m]"}},
          Row{folder / "unnamed.tete", {"J L mixed by P_a × P_b unknown", "L W softmax"}},
          Row{"dense_plus", {"D L ", "J L ", "L W softmax"}}}) {
      CAPTURE(row.attention);
      const TemporaryFolder run;
      ModelSettings s = settings_of(row.attention);
      if (row.ties[0].ends_with("unknown")) s.dims["r"] = 2, s.dims["h_2"] = 3;
      write_run(run / "run", s);
      InspectOptions options;
      options.checkpoints = {run / "run"};
      options.text = "abcab", options.ablation = false;
      const Report report = inspect(options);
      std::vector<std::string> told;
      for (const MapTie& tie : site_at(report, "decoder/0/A").ties) {
        std::string line = tie.from + " " + tie.to + " " + tie.by;
        for (const AttentionMap& mixer : tie.mixers) {
          line += " " + mixer.name + "[" + mixer.heads + "]";
          CHECK(mixer.values.size(0) == (mixer.heads.empty() ? 1 : 5));
        }
        told.push_back(line + (tie.is_unknown ? " unknown" : ""));
      }
      std::sort(told.begin(), told.end());
      CHECK(told == row.ties);
    }
  }

  TEST_CASE("a tensor of two sequences and two more axes is a picture for each pair of places") {
    const TemporaryFolder folder;
    std::ofstream(folder / "groups.tete") << text_of_groups;
    ModelSettings s = settings_of(folder / "groups.tete");
    s.dims["s"] = 2;
    write_run(folder / "run", s);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abca", options.save = folder / "acts.safetensors";
    const Report report = inspect(options);
    const Site& site = site_at(report, "decoder/0/A");
    CHECK(site.weights == "A");
    const AttentionMap& A = map_of(site, "A");
    CHECK(A.outer == std::vector<std::pair<std::string, Index>>{{"s", 2}});
    CHECK(A.heads == "h");
    const Tensor saved = Safetensors(options.save).read("decoder/0/A/A");
    CHECK(same_bits(A.values, reshape(rearrange("b n m s h -> b s h n m", saved), {6, 4, 4})));
    const auto named = [](const DataTable& table) { return table.name == "heads"; };
    const std::vector<DataTable> tables = shown_tables(report.runs[0], report.runs[0].frames[0]);
    const auto& rows = std::find_if(tables.begin(), tables.end(), named)->rows;
    CHECK(std::get<std::string>(rows[3][1]) == "A[s=1]");
    CHECK(std::get<int64_t>(rows[3][2]) == 0);
    CHECK(std::get<double>(rows[3][3]) == statistic(site, "entropy").values()[3]);
    // What would be too many pictures is told.
    CHECK(site.unshown ==
          std::vector<std::string>{"Z would be 96 pictures; more than 64 are not drawn, and --save "
                                   "has it."});
  }

  TEST_CASE("weights without a softmax: what values are multiplied with and summed by") {
    const TemporaryFolder folder;
    std::ofstream(folder / "sigmoid.tete") << text_of_sigmoid;
    write_run(folder / "run", settings_of(folder / "sigmoid.tete", true));
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abca", options.answer = "ab";
    const Report report = inspect(options);
    const Site& site = site_at(report, "decoder/0/D");
    CHECK(site.weights == "S");
    CHECK(!map_of(site, "S").weights);
    CHECK(map_of(site, "S").unmeasured.empty());
    CHECK(!map_of(site, "L").unmeasured.empty());
    CHECK(statistic(site, "entropy").size() == 3);
    CHECK(bool(site.ablation));
  }

  TEST_CASE(
      "what is saved is what the text makes of the same inputs; what is told follows from it") {
    const TemporaryFolder folder;
    const std::string checkpoint = write_run(folder / "run", settings_of("talking_heads"));
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abcabc abc";
    options.save = folder / "acts.safetensors";
    const Report report = inspect(options);
    REQUIRE(report.runs.size() == 1);
    REQUIRE(report.runs[0].frames.size() == 1);
    const Frame& frame = report.runs[0].frames[0];
    REQUIRE(frame.sites.size() == 2);
    const Safetensors saved(options.save);
    const Trained trained = read_trained(checkpoint);
    const auto parameter = [&](const std::string& name) {
      return trained.params[trained.declared().find(name)];
    };
    const Index n = 10;

    for (const std::string path : {"decoder/0/A", "decoder/1/A"}) {
      CAPTURE(path);
      const Site& site = site_at(report, path);
      TensorsByName inputs;
      const std::string block = path.substr(0, path.rfind('/'));
      inputs["X"] = inputs["M"] = saved.read(block + "/N");
      for (const char* name : {"P_q", "P_k", "P_v", "P_o", "P_l", "P_w"})
        inputs[name] = parameter(path + "/" + name);
      std::map<std::string, Tensor> made;
      RunOptions run_options;
      run_options.mask.causal = true;
      run_options.watch = [&](const std::string& name, const Tensor& x) { made[name] = x; };
      run(load_attention("talking_heads"), inputs, run_options);
      for (const char* name : {"Q", "K", "V", "J", "L", "W", "U", "O", "Y"})
        CHECK(same_bits(saved.read(path + "/" + name), made.at(name)));

      // Maps, head by head.
      for (const std::string name : {"J", "L", "W", "U"}) {
        const AttentionMap& map = map_of(site, name);
        CHECK(map.path == path + "/" + name);
        CHECK(same_bits(map.values,
                        reshape(rearrange("b n m h -> b h n m", saved.read(map.path)), {3, n, n})));
        CHECK(map.weights == (name == "W"));
      }
      const std::vector<double> W = map_of(site, "W").values.values();
      const std::vector<double> entropy = statistic(site, "entropy").values();
      const std::vector<double> previous = statistic(site, "previous token").values();
      for (Index h = 0; h < 3; ++h) {
        double sum = 0, before = 0;
        for (Index i = 0; i < n; ++i)
          for (Index j = 0; j < n; ++j) {
            const double w = W[(h * n + i) * n + j];
            if (w > 0) sum -= w * std::log(w);
            if (j + 1 == i) before += w;
          }
        CHECK(close(entropy[h], sum / static_cast<double>(n)));
        CHECK(close(previous[h], before / static_cast<double>(n - 1)));
      }
      REQUIRE(site.histograms.size() == 2);  // of W and of U
      for (const Histogram& histogram : site.histograms) {
        const std::vector<double> counts = histogram.counts.values();
        for (size_t h = 0; h < 3; ++h) {
          double all = 0;
          for (size_t i = 0; i < counts.size() / 3; ++i) all += counts[h * counts.size() / 3 + i];
          CHECK(all == 55);  // what a causal mask leaves of 10 × 10
        }
      }

      // Mixing.
      REQUIRE(site.mixing.size() == 3);
      CHECK(site.mixing[0].name == "P_l");
      CHECK(site.mixing[0].path == path + "/P_l");
      CHECK(same_bits(site.mixing[0].values, parameter(path + "/P_l")));
      CHECK(site.mixing[2].name == "P_l×P_w");
      CHECK(difference(site.mixing[2].values, einsum("a b, b c -> a c", parameter(path + "/P_l"),
                                                     parameter(path + "/P_w"))) == 0);
      CHECK(close(site.mixing[2].determinant,
                  site.mixing[0].determinant * site.mixing[1].determinant, 1e-5));

      // Without a head: its part of P_o is zero.
      Tensors values = trained.params;
      const auto at = static_cast<size_t>(trained.declared().find(path + "/P_o"));
      const Model& model = trained.model;
      const Tensor tokens = Tensor::of<int64_t>({1, n}, report.runs[0].sequences[0].tokens);
      std::vector<int64_t> next(report.runs[0].sequences[0].tokens.begin() + 1,
                                report.runs[0].sequences[0].tokens.end());
      next.push_back(-1);
      const Tensor targets = Tensor::of<int64_t>({1, n}, next);
      const auto loss = [&] { return model.loss({values}, {.X = tokens}, targets).sum.item() / 9; };
      const double whole = loss();
      CHECK(close(frame.predictions[0].loss, whole, 1e-6));
      const std::vector<double> ablation = site.ablation.values();
      REQUIRE(ablation.size() == 3);
      for (Index h = 0; h < 3; ++h) {
        const Tensor keep = one_hot(Tensor::of<int64_t>({1}, {h}), 3, Dtype::f32);
        values[at] = trained.params[at] *
                     (1.0 - broadcast(reshape(keep, {1, 1, 3}), trained.params[at].shape()));
        CHECK(std::abs(ablation[h] - (loss() - whole)) < 1e-5);
      }
    }

    // The predictions of the next token.
    const Predictions& p = frame.predictions[0];
    const Tensor chances = softmax(reshape(saved.read("Y"), {n, 28}), 1);
    CHECK(p.tokens.shape() == Shape{n, 5});
    CHECK(same_bits(p.tokens, top_k(chances, 1, 5)));
    const std::vector<double> all = chances.values(), told = p.probabilities.values();
    const std::vector<int64_t> likeliest = p.tokens.values<int64_t>();
    for (size_t i = 0; i < told.size(); ++i)
      CHECK(close(told[i], all[i / 5 * 28 + static_cast<size_t>(likeliest[i])], 1e-6));
    CHECK(std::isnan(p.next_probability.values().back()));
    // The lens at the end is the model itself.
    const LogitLens& lens = frame.lens[0];
    CHECK(lens.points == std::vector<std::string>{"B", "decoder/0/B", "decoder/0/Y", "decoder/1/B",
                                                  "decoder/1/Y"});
    CHECK(same_bits(slice(lens.tokens, 0, 4, 1), reshape(slice(p.tokens, 1, 0, 1), {1, n})));
    CHECK(difference(slice(lens.probabilities, 0, 4, 1),
                     reshape(slice(p.probabilities, 1, 0, 1), {1, n})) == 0);
    CHECK(difference(slice(lens.probabilities, 0, 0, 1), slice(lens.probabilities, 0, 4, 1)) >
          1e-4);

    // Its text, with its tensors.
    REQUIRE(report.runs[0].texts.size() == 1);
    bool found = false;
    for (const TextLine& line : report.runs[0].texts[0].lines)
      if (line.values == std::vector<std::string>{"J"}) {
        found = true;
        CHECK(line.formula == "n*m*d_k*h_k");
        CHECK(line.number == 10 * 10 * 4 * 3);
      }
    CHECK(found);
    CHECK(site_at(report, "decoder/0/A").values.front().name == "X");
  }

  TEST_CASE("only what globs ask for is saved, TransformerLens's names too") {
    const TemporaryFolder folder;
    write_run(folder / "run", settings_of("multi_head"));
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abc";
    options.save = folder / "acts.safetensors";
    options.paths = {"decoder/*/A/W", "blocks.1.attn.hook_pattern"};
    options.ablation = false;
    inspect(options);
    std::vector<std::string> names;
    const Safetensors saved(options.save);
    for (const auto& entry : saved.entries()) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    CHECK(names ==
          std::vector<std::string>{"blocks.1.attn.hook_pattern", "decoder/0/A/W", "decoder/1/A/W"});
    options.paths = {"decoder/*/A/w"};
    CHECK(error_of([&] { inspect(options); }) ==
          "nothing in this model is at 'decoder/*/A/w'; did you mean 'decoder/0/A/W'?");
  }

  TEST_CASE("every variant can be looked into, as a decoder and between an encoder and a decoder") {
    int decoders = 0, crossing = 0;
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const auto program = load_attention(variant.name);
      for (const bool encoder : {false, true}) {
        if (!encoder && !is_causal(*program)) continue;
        if (encoder && (!attends_across(*program) || !program->takes_mask)) continue;
        const ModelSettings s = settings_of(variant.name, encoder);
        (encoder ? crossing : decoders)++;
        const TemporaryFolder folder;
        write_run(folder / "run", s);
        InspectOptions options;
        options.checkpoints = {folder / "run"};
        for (const char* text : {"a", "abcabcabcabcabca"}) {
          options.text = text;
          const Report report = inspect(options);
          const Frame& frame = report.runs[0].frames[0];
          CHECK(frame.sites.size() == (encoder ? 6 : 2));
          for (const Site& site : frame.sites) {
            REQUIRE(!site.maps.empty());
            int weights = 0;
            for (const AttentionMap& map : site.maps) weights += map.weights;
            CHECK(weights == 1);
            CHECK(!site.heads.empty());
            CHECK(!site.histograms.empty());
            CHECK(bool(site.ablation) == !std::isnan(frame.predictions[0].loss));
          }
        }
      }
    }
    CHECK(decoders > 40);
    CHECK(crossing > 15);
  }

  TEST_CASE("a whole model's text: what is told follows from what its calls compute") {
    for (const std::string name : {"gpt2", "llama", "neox"}) {
      CAPTURE(name);
      const ModelSettings s = settings_of_text(name);
      const TemporaryFolder folder;
      const std::string checkpoint = write_run(folder / "run", s);
      InspectOptions options;
      options.checkpoints = {folder / "run"};
      options.text = "abcabc abc";
      const Report report = inspect(options);
      const Frame& frame = report.runs[0].frames[0];
      REQUIRE(frame.sites.size() == 2);
      const Trained trained = read_trained(checkpoint);
      const Model& model = trained.model;
      const Site& site = frame.sites[1];
      CHECK(site.path == "Z/1/A");
      CHECK(site.stack == "Z");
      CHECK(site.causal);
      CHECK(site.heads.size() == 5);
      CHECK(site.weights == "W");

      // The values of one call are what its own program makes of its inputs.
      options.layer = site.path, options.save = folder / "layer.safetensors";
      inspect(options);
      const Safetensors saved(options.save);
      TensorsByName inputs;
      const auto program = places_of(model)[1].program;
      for (const std::string& input : program->input_names) inputs[input] = saved.read(input);
      for (const CheckedParameter& p : program->parameters) inputs[p.name] = saved.read(p.name);
      RunOptions run_options;
      run_options.mask.causal = true;
      run_options.watch = [&](const std::string& value, const Tensor& x) {
        if (value == "W") CHECK(difference(x, saved.read("W")) < 1e-6);
      };
      CHECK(difference(run(program, inputs, run_options), saved.read("Y")) < 1e-5);

      // The lens at the end is the model itself.
      const LogitLens& lens = frame.lens[0];
      const Index last = std::ssize(lens.points) - 1, n = 10;
      CHECK(lens.points[0] == "T");
      CHECK(lens.points[last] == "Z/1/Y");
      CHECK(difference(slice(lens.probabilities, 0, last, 1),
                       reshape(slice(frame.predictions[0].probabilities, 1, 0, 1), {1, n})) < 1e-6);

      // Without a head: its part of P_o is zero.
      Tensors values = trained.params;
      const auto at = static_cast<size_t>(trained.declared().find(site.path + "/P_o"));
      const std::vector<int64_t>& read = report.runs[0].sequences[0].tokens;
      std::vector<int64_t> next(read.begin() + 1, read.end());
      next.push_back(-1);
      const Tensor keep = one_hot(Tensor::of<int64_t>({1}, {2}), 3, Dtype::f32);
      values[at] = values[at] * (1.0 - broadcast(reshape(keep, {1, 1, 3}), values[at].shape()));
      const double loss = model
                              .loss({values}, {.X = Tensor::of<int64_t>({1, n}, read)},
                                    Tensor::of<int64_t>({1, n}, next))
                              .sum.item() /
                          9;
      CHECK(close(site.ablation.values()[2], loss - frame.predictions[0].loss));
    }
  }

  TEST_CASE("texts with an encoder: its maps, the decoder's, and those between them") {
    const ModelSettings s = settings_of_text("t5");
    const TemporaryFolder folder;
    write_run(folder / "run", s);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abcd", options.answer = "dcba";
    options.paths = {"encoder.0.attn.hook_pattern", "decoder.1.cross_attn.hook_pattern",
                     "decoder.1.hook_resid_mid_cross", "encoder_final_ln.hook_normalized"};
    options.save = folder / "acts.safetensors";
    const Report report = inspect(options);
    const RunReport& run = report.runs[0];
    REQUIRE(run.sequences.size() == 2);
    CHECK(run.sequences[1].tokens == std::vector<int64_t>{0, 5, 4, 3, 2});
    REQUIRE(run.frames[0].sites.size() == 6);
    const Site &own = site_at(report, "encoder/0/A"), &self = site_at(report, "decoder/1/A"),
               &cross = site_at(report, "decoder/1/D");
    CHECK((!own.causal && own.kind == "self" && own.row_sequence == 0 && own.column_sequence == 0));
    CHECK((self.causal && self.kind == "self" && self.row_sequence == 1));
    CHECK((!cross.causal && cross.kind == "cross" && cross.row_sequence == 1));
    CHECK(cross.column_sequence == 0);
    CHECK(map_of(cross, "W").values.shape() == Shape{3, 5, 4});
    CHECK(map_of(own, "W").values.shape() == Shape{3, 4, 4});
    CHECK(bool(cross.ablation));
    const Safetensors saved(options.save);
    CHECK(saved.read("encoder.0.attn.hook_pattern").shape() == Shape{1, 3, 4, 4});
    CHECK(saved.read("decoder.1.cross_attn.hook_pattern").shape() == Shape{1, 3, 5, 4});
    const LogitLens& lens = run.frames[0].lens[0];
    const Index last = std::ssize(lens.points) - 1;
    CHECK(lens.points.size() == 7);
    CHECK(difference(slice(lens.probabilities, 0, last, 1),
                     reshape(slice(run.frames[0].predictions[0].probabilities, 1, 0, 1), {1, 5})) <
          1e-6);
    options.answer.reset();
    const RunReport alone = inspect(options).runs[0];
    const Predictions& p = alone.frames[0].predictions[0];
    CHECK(same_bits(p.next, reshape(slice(p.tokens, 1, 0, 1), {p.next.size()})));
  }

  TEST_CASE("an encoder's text: rows are about their own tokens, and blanks are asked for") {
    const ModelSettings s = settings_of_text("bert");
    const TemporaryFolder folder;
    const Tokenizer tokenizer = Tokenizer::characters(letters);
    write_run(folder / "run", s, tokenizer, 0, 1);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "ab_d";
    const RunReport run = inspect(options).runs[0];
    CHECK(run.sequences[0].tokens == std::vector<int64_t>{2, 3, 28, 5});
    CHECK(run.vocabulary.back() == "_");
    CHECK(run.frames[0].predictions[0].next.values<int64_t>() == std::vector<int64_t>{2, 3, -1, 5});
    REQUIRE(run.frames[0].sites.size() == 2);
    CHECK(!run.frames[0].sites[1].causal);
  }

  TEST_CASE("an encoder's source and what the decoder answers, its own or a given one") {
    const TemporaryFolder folder;
    const ModelSettings s = settings_of_text("encoder_decoder", {{"Attention=talking_heads"}});
    write_run(folder / "run", s);
    InspectOptions options;
    options.checkpoints = {folder / "run"};
    options.text = "abcd";
    const Report own = inspect(options);
    const RunReport& run = own.runs[0];
    REQUIRE(run.sequences.size() == 2);
    CHECK(run.sequences[0].tokens.size() == 4);
    CHECK(run.sequences[1].tokens[0] == end_token);
    // It answers what it finds likeliest.
    const Predictions& p = run.frames[0].predictions[0];
    CHECK(p.sequence == 1);
    CHECK(same_bits(p.next, reshape(slice(p.tokens, 1, 0, 1), {p.next.size()})));
    const Site& cross = site_at(own, "decoder/1/D");
    CHECK(cross.row_sequence == 1);
    CHECK(cross.column_sequence == 0);
    CHECK(map_of(cross, "W").values.shape() == Shape{3, std::ssize(run.sequences[1].tokens), 4});
    CHECK(cross.heads.size() == 1);  // entropy: no column is a row's own token
    CHECK(!cross.causal);
    CHECK(site_at(own, "decoder/1/A").causal);
    CHECK(run.frames[0].lens[0].points.size() == 7);

    options.answer = "dcba";
    const Report given = inspect(options);
    CHECK(given.runs[0].sequences[1].tokens == std::vector<int64_t>{0, 5, 4, 3, 2});
    CHECK(given.runs[0].frames[0].predictions[0].next.values<int64_t>() ==
          std::vector<int64_t>{5, 4, 3, 2, 0});
    options.answer = "0123";
    CHECK(error_of([&] { inspect(options); }).starts_with("--answer: "));
    options.answer = "abcdefghijklmnopq";
    CHECK(error_of([&] { inspect(options); }) ==
          "--answer has 17 tokens, but the model writes at most 16");
  }

  TEST_CASE("on a device whose memory the host cannot touch the page is the same") {
    StrictDevice device;
    for (const char* name : {"talking_heads", "multi_head", "dynamic_projections"})
      for (const bool encoder : {false, true}) {
        CAPTURE(name);
        const TemporaryFolder folder;
        const ModelSettings s = settings_of(name, encoder);
        write_run(folder / "run", s);
        InspectOptions options;
        options.checkpoints = {folder / "run"};
        options.text = "abca";
        write_page(inspect(options), folder / "here.html");
        options.device = &device;
        write_page(inspect(options), folder / "there.html");
        CHECK(contents(folder / "there.html") == contents(folder / "here.html"));
        CHECK(device.reads > 0);
      }
  }

  TEST_CASE("checkpoints of a run in their order, and two runs") {
    const TemporaryFolder folder;
    for (int64_t step : {0, 10, 20})
      write_run(folder / "run", settings_of("talking_heads"), Tokenizer::characters(letters), step);
    write_run(folder / "other", settings_of("multi_head"));
    std::ofstream(folder / "run/metrics.jsonl")
        << R"({"step":1,"split":"train","loss":3.5,"lr":0.01,"grad_norm":2.0})"
        << "\n"
        << R"({"step":10,"split":"validation","loss":3.25})"
        << "\n"
        << R"({"step":10,"split":"train","loss":3.0,"lr":0.02,"grad_norm":1.0})"
        << "\n"
        << R"({"step":20,"spl)";
    InspectOptions options;
    options.checkpoints = {folder / "run", folder / "other"};
    options.all_steps = true;
    options.text = "abc abc";
    options.save = folder / "acts.safetensors";
    const Report report = inspect(options);
    REQUIRE(report.runs.size() == 2);
    REQUIRE(report.runs[0].frames.size() == 3);
    CHECK(report.runs[0].frames[0].step == 0);
    CHECK(report.runs[0].frames[2].step == 20);
    CHECK(report.runs[1].frames.size() == 1);
    CHECK(Safetensors(options.save).find("run-1/step-20/decoder/0/A/W"));
    CHECK(Safetensors(options.save).find("run-2/decoder/0/A/W"));
    const std::vector<Curve>& curves = report.runs[0].curves;
    REQUIRE(curves.size() == 4);
    CHECK(curves[0].name == "loss");
    CHECK(curves[0].steps == std::vector<double>{1, 10});
    CHECK(curves[0].values == std::vector<double>{3.5, 3});
    CHECK(curves[1].name == "validation loss");
    CHECK(curves[1].group == "loss");
    CHECK(report.runs[1].curves.empty());
  }

  TEST_CASE("any text: bytes of other scripts, markup, one token, as many as there is room for") {
    const TemporaryFolder folder;
    ModelSettings s = settings_of("talking_heads");
    s.context = 64;
    write_run(folder / "bytes", s, Tokenizer::bytes());
    InspectOptions options;
    options.checkpoints = {folder / "bytes"};
    for (const std::string text : {"</script><b>\"'&", "😀 שלום", "x", "\n"}) {
      options.text = text;
      const Report report = inspect(options);
      CHECK(report.text == text);
      std::string back;
      for (int64_t token : report.runs[0].sequences[0].tokens)
        back += report.runs[0].vocabulary[token];
      CHECK(back == text);
    }
    CHECK(std::isnan(inspect(options).runs[0].frames[0].predictions[0].loss));
    options.text = std::string(64, 'a');
    CHECK(inspect(options).runs[0].frames[0].sites[0].maps[0].values.shape() == Shape{3, 64, 64});
    options.text += "a";
    CHECK(error_of([&] { inspect(options); }) ==
          "--text has 65 tokens, but the model reads at most 64");
    options.text = "";
    CHECK(error_of([&] { inspect(options); }) == "--text is empty: there is nothing to look at");
    options.answer = "x", options.text = "x";
    CHECK(error_of([&] { inspect(options); }) ==
          "--answer is for models with an encoder; this one reads --text alone");

    write_run(folder / "letters", settings_of("talking_heads"));
    options = {};
    options.checkpoints = {folder / "letters"};
    options.text = "A";
    CHECK(error_of([&] { inspect(options); }).starts_with("--text: "));
    options.checkpoints = {folder / "nowhere"};
    CHECK(error_of([&] { inspect(options); }) != "no error");
  }

  TEST_CASE("matrices that are not square have a condition, and nothing else") {
    const Mixing mixing = mixing_of("P_l", "", "h_k", "h", noise({2, 5}, 1, Dtype::f32));
    CHECK(mixing.condition >= 1);
    CHECK(std::isnan(mixing.determinant));
    CHECK(std::isnan(mixing.smallest_eigenvalue));
  }
}
