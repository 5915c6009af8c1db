// Which tensors of a text are maps, and how they are made of each other.
#include "tests/inspect.hpp"
#include "tools/inspect/meanings.hpp"
#include "tools/inspect/tables.hpp"

using namespace tete;
using namespace tete::tests;

TEST_SUITE("inspect") {
  TEST_CASE("maps are tied as the text makes them of each other, and mixed by what mixes them") {
    struct Row {
      std::string attention;
      std::vector<std::string> ties;  // "J L softmax P_l R_Xl[n]"
    };
    const TemporaryFolder folder;
    std::ofstream(folder / "minus.tete") << text_of_a_difference;
    std::ofstream(folder / "unnamed.tete") << text_of_unnamed_mixing;
    std::ofstream(folder / "gates.tete") << text_of_gates;
    for (const Row& row :
         {Row{folder / "minus.tete", {"L_1 W_1 softmax", "L_2 W_2 softmax", "W_1 W ", "W_2 W −l"}},
          Row{"talking_heads", {"J L  P_l[]", "L W softmax", "W U  P_w[]"}},
          Row{"dynamic_projections",
              {"J L  P_l[] R_Xl[n] R_Ml[m]", "L W softmax", "W U  P_w[] R_Xw[n] R_Mw[m]"}},
          Row{folder / "unnamed.tete", {"J L mixed by P_a × P_b unknown", "L W softmax"}},
          Row{folder / "gates.tete",
              {"L W softmax, ÷ d_k^0.5", "T U × sigmoid(g)", "W T  P_w[]",
               "W U × (1 − sigmoid(g))"}},
          Row{"dense_plus", {"D L ", "J L ", "L W softmax"}}}) {
      CAPTURE(row.attention);
      const TemporaryFolder run;
      ModelSettings s = settings_of(row.attention);
      if (row.ties[0].ends_with("unknown")) s.dims["r"] = 2, s.dims["h_2"] = 3;
      if (row.attention.ends_with("gates.tete")) s.dims["h_v"] = 3;
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

  TEST_CASE("a map is told in words that follow from its statement") {
    const std::string share =
        " over the key tokens (m): the share that each query token (n) takes of each, ";
    const TemporaryFolder folder;
    std::ofstream(folder / "minus.tete") << text_of_a_difference;
    std::ofstream(folder / "gates.tete") << text_of_gates;
    std::ofstream(folder / "sigmoid.tete") << text_of_sigmoid;
    const std::vector<std::pair<std::string, std::string>> rows{
        {"talking_heads",
         "J is the product of Q and K, summed over d_k: how well Q and K agree. Its heads are "
         "mixed "
         "by P_l into L. L is J, its heads mixed by P_l. It is the logit of W. "
         "W is the softmax of L" +
             share +
             "1 in all. Its heads are mixed by P_w into U, which weighs what is summed into O (of "
             "V). "
             "U is W, its heads mixed by P_w. It weighs what is summed into O (of V). "},
        {folder / "minus.tete",
         "L_1 is the product of X, P_q and K, summed over d_X and d_k. It is the logit of W_1. "
         "L_2 is the product of X, P_2 and K, summed over d_X and d_k. It is the logit of W_2. "
         "W_1 is the softmax of L_1" +
             share + "1 in all. W_2 is the softmax of L_2" + share +
             "1 in all. W is W_1 − l·W_2. It weighs what is summed into O (of V). "},
        {"glu_synthesizer",
         "A is the product of M and W_a, summed over c. B is the product of M and W_b, summed over "
         "c. L is A·sigmoid(B). It is the logit of W. W is the softmax of L" +
             share + "1 in all. It weighs what is summed into O (of V). "},
        {"random_plus_alpha",
         "J is the product of Q and K, summed over d_k: how well Q and K agree. "
         "L is (1 − alpha)·J + alpha·R. It is the logit of W. W is the softmax of L" +
             share + "1 in all. It weighs what is summed into O (of V). "},
        {folder / "gates.tete",
         "L is the product of X, P_q and K, summed over d_X and d_k. It is the logit of W. "
         "W is the softmax of L / d_k^0.5" +
             share +
             "1 in all. Its heads are mixed by P_w into T. T is W, its heads mixed by P_w. "
             "U is sigmoid(g)·T + (1 − sigmoid(g))·W. "
             "It weighs what is summed into O (of V). "},
        {folder / "sigmoid.tete",
         "L is the product of X, P_q and K, summed over d_X and d_k. "
         "S is select(visible(m), sigmoid(L − 2), 0). It weighs what is summed into O (of V). "},
        {"memory_compressed_mean",
         "L is the product of Q and K_c, summed over d_k: how well Q and K_c agree. "
         "It is the logit of W. "
         "W is the softmax of L over the keys (c): the share that each query token (n) takes of "
         "each, less than 1 in all. "
         "It weighs what is summed into O (of V_c). "}};
    for (const auto& row : rows) {
      const std::string& attention = row.first;
      CAPTURE(attention);
      const auto program = load_attention(attention);
      const Roles roles = roles_of(*program);
      std::string all;
      for (size_t i = 0; i < roles.maps.size(); ++i)
        all += meaning_of(*program, roles, static_cast<int>(i)) + " ";
      CHECK(all == row.second);
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
}
