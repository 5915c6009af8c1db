// `tete inspect` writes maps in few bits, tables, and a page that no text can break out of.
#include "tools/inspect/page.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/ops.hpp"
#include "core/random.hpp"
#include "core/utf8.hpp"
#include "tests/error_of.hpp"
#include "tools/inspect/levels.hpp"
#include "tools/inspect/tables.hpp"

using namespace tete;

namespace {

AttentionMap map_of(const Tensor& values, bool weights = false) {
  AttentionMap map;
  map.name = "W", map.path = "decoder/0/A/W";
  map.heads = "h", map.rows = "n", map.columns = "m";
  map.values = values, map.weights = weights;
  return map;
}

// The number that a level stands for.
double value_of(const Levels& levels, size_t i) {
  return levels.origin + levels.levels[i] * levels.step;
}

std::string fixed(double value, int decimals) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.*f", decimals, value);
  return digits;
}

// A report of one site with one map of ones, whose tokens are `tokens`.
Report report_of(const std::vector<std::string>& tokens) {
  const auto n = static_cast<Index>(tokens.size());
  RunReport run;
  run.name = tokens.front(), run.description = tokens.back();
  run.vocabulary = tokens;
  run.sequences = {{"text", {}}};
  for (Index i = 0; i < n; ++i) run.sequences[0].tokens.push_back(i);
  Site site;
  site.path = "decoder/0/A", site.stack = "decoder", site.kind = "self";
  site.maps = {map_of(Tensor::ones({1, n, n}), true)};
  site.heads = {{"W", "entropy", "how wide it \"looks\"", "nats", Tensor::of<float>({1}, {0.1F})}};
  Frame frame;
  frame.sites = {site};
  run.frames = {frame};
  Report report;
  report.title = report.text = tokens.front();
  report.runs = {run};
  return report;
}

// The text between the tags of the page's data.
std::string data_of(const std::string& page) {
  const std::string begin = "<script id=\"report\" type=\"application/json\">", end = "</script>";
  const size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find(end, from) - from);
}

}  // namespace

TEST_SUITE_BEGIN("page");

TEST_CASE("in 16 bits a map's cell has the digits of the tensor") {
  for (double scale : {1e-6, 0.3, 1.0, 27.0, 900.0}) {
    CAPTURE(scale);
    const Tensor x = random_normal({2, 9, 9}, Key(3)) * scale;
    const Levels levels = levels_of(map_of(x), false, 16);
    REQUIRE(levels.decimals);
    const auto values = x.values();
    for (size_t i = 0; i < values.size(); ++i)
      CHECK(fixed(value_of(levels, i), *levels.decimals) == fixed(values[i], *levels.decimals));
    // Levels tell at least three digits of the largest.
    CHECK(levels.step <= std::max(-levels.low, levels.high) / 999);
  }
}

TEST_CASE("in 8 bits a map's cell is the tensor's to half a step") {
  const Tensor x = random_normal({2, 9, 9}, Key(4));
  const Levels levels = levels_of(map_of(x), false, 8);
  const auto values = x.values();
  for (size_t i = 0; i < values.size(); ++i)
    CHECK(std::abs(value_of(levels, i) - values[i]) <= 0.500001 * levels.step);
  CHECK(levels.step < (levels.high - levels.low) / 200);
}

TEST_CASE("of a causal map half is left out, and what is hidden does not set the scale") {
  const AttentionMap map = map_of(Tensor::of<float>({1, 2, 2}, {0.25F, 9.0F, 0.5F, 1.0F}), true);
  for (int bits : {8, 16}) {
    const Levels levels = levels_of(map, true, bits);
    CHECK(levels.half);
    CHECK(levels.levels.size() == 3);
    CHECK(level_count(map, true) == 3);
    CHECK(levels.low == 0);
    CHECK(levels.high == 1);
    CHECK(bytes_of(levels).size() == static_cast<size_t>(3 * bits / 8));
  }
  CHECK(level_count(map, false) == 4);
}

TEST_CASE("what is not finite has a level of its own, and what is equal everywhere has none") {
  const float infinite = std::numeric_limits<float>::infinity();
  for (int bits : {8, 16}) {
    const Levels odd =
        levels_of(map_of(Tensor::of<float>({1, 1, 3}, {infinite, 2, NAN})), false, bits);
    CHECK(odd.levels[0] == odd.top());
    CHECK(odd.levels[2] == odd.top());
    CHECK(value_of(odd, 1) == 2);
    const Levels zeros = levels_of(map_of(Tensor::zeros({1, 2, 2}), true), false, bits);
    CHECK(value_of(zeros, 3) == 0);
  }
}

TEST_CASE("base64 is that of RFC 4648") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foob") == "Zm9vYg==");
  CHECK(base64("\xFB\xFF\xBF") == "+/+/");
}

TEST_CASE("no text of a report can become markup, and none is changed") {
  const std::vector<std::string> tokens = {"</script><script>alert(1)</script>",
                                           "<!-- <script>",
                                           "]]>",
                                           "\"'`\\",
                                           "&lt;",
                                           "{{script}}",
                                           "{{style}}",
                                           "\xE2\x80\xA8",
                                           "\xF0\x9F\x98\x80",
                                           "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D",
                                           "\xE2\x80\xAE",
                                           std::string("\0", 1),
                                           "\n"};
  const std::string page = page_of(report_of(tokens)), plain = page_of(report_of({"a"}));
  const std::string data = data_of(page);
  CHECK(data.find_first_of("<>&") == std::string::npos);
  CHECK(std::all_of(data.begin(), data.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  // Around the data the page is that of any other text.
  CHECK(page.size() - data.size() == plain.size() - data_of(plain).size());
  const auto json = nlohmann::json::parse(data);
  CHECK(json["title"] == tokens.front());
  CHECK(json["runs"][0]["sequences"][0]["tokens"] == tokens);
}

TEST_CASE("the page asks for nothing from elsewhere") {
  const std::string page = page_of(report_of({"a"}));
  for (const char* outside : {"http:", "https:", "src=", "@import", "url(", "fetch(", "innerHTML",
                              "insertAdjacentHTML", "document.write", "eval("}) {
    CAPTURE(outside);
    std::string rest = page;
    const std::string svg = "http://www.w3.org/2000/svg";
    for (size_t at; (at = rest.find(svg)) != std::string::npos;) rest.erase(at, svg.size());
    CHECK(rest.find(outside) == std::string::npos);
  }
  CHECK(page.find("default-src 'none'") != std::string::npos);
}

TEST_CASE("a byte that is no character is told by its number") {
  RunReport run;
  run.vocabulary = {"a", "\xC3", "\xC3\xA4"};
  CHECK(token_text(run, 0) == "a");
  CHECK(token_text(run, 1) == "<0xC3>");
  CHECK(token_text(run, 2) == "\xC3\xA4");
}

TEST_CASE("numbers of a table are those of the tensors, in every digit") {
  const Report report = report_of({"a", "b"});
  for (const DataTable& table : shown_tables(report.runs[0], report.runs[0].frames[0])) {
    if (table.name != "heads") continue;
    REQUIRE(table.columns.size() == 4);
    CHECK(table.columns[3].name == "entropy");
    CHECK(std::get<std::string>(table.rows.at(0).at(0)) == "decoder/0/A");
    CHECK(std::get<std::string>(table.rows[0][1]) == "W");
    CHECK(std::get<int64_t>(table.rows[0][2]) == 0);
    CHECK(std::get<double>(table.rows[0][3]) == static_cast<double>(0.1F));
  }
  const auto json = nlohmann::json::parse(data_of(page_of(report)));
  const auto& rows = json["runs"][0]["frames"][0]["tables"]["heads"]["rows"];
  CHECK(rows[0][3].get<double>() == static_cast<double>(0.1F));
}

TEST_SUITE_END();
