// Measures of single heads, and which heads stand out.
#include "tools/inspect/heads.hpp"
#include "tests/inspect.hpp"
#include "tools/inspect/findings.hpp"

using namespace tete;
using namespace tete::tests;

TEST_SUITE("inspect") {
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
    std::map<std::string, std::vector<Index>> most;
    for (const HeadStatistic& each : head_statistics(weights, tokens, true))
      found[each.name] = each.values.values(), most[each.name] = each.rows;
    const auto is = [&](const std::string& name, const std::vector<double>& expected) {
      CAPTURE(name);
      for (size_t i = 0; i < expected.size(); ++i) CHECK(close(found.at(name)[i], expected[i]));
    };
    is("previous token", {1, 1.0 / 5, 1.0 / 5, (1 / 2. + 1 / 3. + 1 / 4. + 1 / 5. + 1 / 6.) / 5});
    is("induction", {0, 1, 0, (1 / 4. + 1 / 5. + 1 / 6.) / 3});
    is("duplicate token", {0, 0, 1, (1 / 4. + 1 / 5. + 1 / 6.) / 3});
    // The first row sees itself alone, whatever the head does: it is not counted.
    is("entropy", {0, 0, 0, std::log(720.) / 5});
    is("distance", {5 / 5., 9 / 5., 12 / 5., (1 / 2. + 1 + 3 / 2. + 2 + 5 / 2.) / 5});
    // A share is shown most by the row that has most more of it than equal weights have.
    CHECK(most.at("previous token")[0] == 5);
    CHECK(most.at("induction")[1] == 5);
    CHECK(most.at("previous token")[3] == 5);  // equal weights have no more anywhere
    CHECK(most.at("entropy")[3] == 5);
    // Nothing repeats: there is no such number.
    for (const HeadStatistic& each : head_statistics(weights, {1, 2, 3, 4, 5, 6}, true))
      if (each.name == "induction") CHECK(std::isnan(each.values.values()[0]));
    CHECK(head_statistics(weights, {}, true).size() == 1);
    // Without a mask the first row chooses, too.
    CHECK(close(head_statistics(weights, {}, false)[0].values.values()[3], std::log(720.) / 6));
  }

  TEST_CASE("weights with negative entries have no entropy, and shares of any weights have") {
    AttentionMap map;
    map.name = "S", map.values = Tensor::of<float>({1, 2, 2}, {0.5F, 0, 0.2F, 0.6F});
    const std::vector<HeadStatistic> found = head_statistics(map, {1, 1}, false);
    REQUIRE(found[0].name == "entropy");
    CHECK(found[0].map == "S");
    CHECK(close(found[0].values.item(), -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)) / 2));
    CHECK(close(found[1].values.item(), 0.25 / 2));  // distance
    map.values = Tensor::of<float>({1, 2, 2}, {0.5F, 0, -0.2F, 0.6F});
    CHECK(head_statistics(map, {1, 1}, false)[0].name == "distance");
    CHECK(close(head_statistics(map, {1, 1}, false)[1].values.item(), -0.25));  // previous token
  }

  TEST_CASE("of two tokens one may take all by chance: a later row shows a pattern better") {
    AttentionMap map;
    map.name = "W", map.weights = true;
    map.values = Tensor::of<float>({1, 4, 4}, {1, 0, 0, 0, 1, 0, 0, 0,  //
                                               0, 0.9F, 0.1F, 0,        //
                                               0, 0, 0.8F, 0.2F});
    const std::vector<HeadStatistic> found = head_statistics(map, {1, 2, 3, 4}, true);
    REQUIRE(found[2].name == "previous token");
    CHECK(close(found[2].values.item(), 2.7 / 3));
    CHECK(found[2].rows[0] == 2);  // 0.9 - 1/3, where row 1 has 1 - 1/2 and row 3 0.8 - 1/4
    // The softmax's first row is 1, and not counted among the weights; nor is what is hidden.
    double counted = 0;
    for (double count : histogram_of(map, true, false).counts.values()) counted += count;
    CHECK(counted == 9);
    CHECK(histogram_of(map, true, false).counts.values().back() == 1);
  }

  TEST_CASE("where no row has a choice, nothing is measured") {
    AttentionMap map;
    map.name = "W", map.weights = true, map.values = Tensor::ones({2, 1, 1});
    for (const HeadStatistic& each : head_statistics(map, {1}, true)) {
      CAPTURE(each.name);
      CHECK(std::isnan(each.values.values()[0]));
      CHECK(each.rows[1] == -1);
    }
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
        for (size_t i = 1; i < 5; ++i) {
          double all = 0;
          for (size_t j = 0; j < 5; ++j) all += std::abs(values[(head * 5 + i) * 5 + j]);
          sum += values[(head * 5 + i) * 5 + i - 1] / all;
        }
        CHECK(close(told[head], sum / 4));
      }
    }
    CHECK(map_of(site, "W_1").unmeasured.empty());
    CHECK(map_of(site, "L_1").unmeasured ==
          "L_1 has no measures, as no values are summed by it; W has them.");
    CHECK(site.contribution == "O");
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
    site.heads = head_statistics(map, tokens, true);
    for (HeadStatistic other : head_statistics(map, tokens, true)) {
      other.map = "U", other.values = other.values + 5.0;  // no weights: no finding
      site.heads.push_back(other);
    }
    site.ablation = Tensor::of<float>({2}, {0.1F, 0.3F}), site.contribution = "O",
    site.contribution_map = "U";
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
      CHECK(each.heads[0].map == "U");
    }
    CHECK(induction);
    CHECK(loss);
  }
}
