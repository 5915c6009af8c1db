// Which tensors of a text are maps, and how they are made of each other.
#include "tests/inspect.hpp"
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
}
