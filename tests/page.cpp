// What `tete inspect` writes: maps in few bits, tables, and a page that no text can break out of.
#include "tools/inspect/page.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/ops.hpp"
#include "core/random.hpp"
#include "core/utf8.hpp"
#include "tests/error_of.hpp"
#include "tools/inspect/head_pictures.hpp"
#include "tools/inspect/levels.hpp"
#include "tools/inspect/svg.hpp"
#include "tools/inspect/tables.hpp"

using namespace tete;

namespace {

AttentionMap map_of(const Tensor& values, bool weights = false) {
  AttentionMap map;
  map.name = "W", map.path = "decoder/0/self/W";
  map.heads = "h", map.rows = "n", map.columns = "m";
  map.values = values, map.weights = weights;
  return map;
}

// What a level stands for.
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
  site.path = "decoder/0/self", site.stack = "decoder", site.kind = "self";
  site.maps = {map_of(Tensor::ones({1, n, n}), true)};
  site.heads = {{"entropy", "how wide it \"looks\"", "nats", Tensor::of<float>({1}, {0.1F})}};
  Frame frame;
  frame.sites = {site};
  run.frames = {frame};
  Report report;
  report.title = report.text = tokens.front();
  report.runs = {run};
  return report;
}

// What stands between the tags of the page's data.
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
    // Of the largest it tells at least three.
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
    REQUIRE(table.columns.size() == 3);
    CHECK(table.columns[2].name == "entropy");
    CHECK(std::get<std::string>(table.rows.at(0).at(0)) == "decoder/0/self");
    CHECK(std::get<int64_t>(table.rows[0][1]) == 0);
    CHECK(std::get<double>(table.rows[0][2]) == static_cast<double>(0.1F));
  }
  const auto json = nlohmann::json::parse(data_of(page_of(report)));
  const auto& rows = json["runs"][0]["frames"][0]["tables"]["heads"]["rows"];
  CHECK(rows[0][2].get<double>() == static_cast<double>(0.1F));
}

TEST_CASE("a PNG has its signature, its chunks and their checksums") {
  const std::string image = png(2, 1, {0, 1}, {{1, 2, 3}, {4, 5, 6}});
  CHECK(image.starts_with("\x89PNG\r\n\x1a\n"));
  CHECK(image.find(std::string("PLTE\1\2\3\4\5\6")) != std::string::npos);
  // Zlib's empty-compression form of the row "0 0 1": stored block, its length and Adler's sum.
  CHECK(image.find(std::string("\x78\x01\1\3\0\xFC\xFF\0\0\1\0\4\0\2", 14)) != std::string::npos);
  CHECK(image.ends_with(std::string("IEND\xAE\x42\x60\x82")));
}

// How often a word stands in a text.
int times(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++found;
  return found;
}

TEST_CASE("a picture of tokens has a line from each to what it attends to") {
  Report report = report_of({"<b>", "y", "z"});
  Site& site = report.runs[0].frames[0].sites[0];
  site.maps = {map_of(Tensor::of<float>({2, 3, 3}, {1, 0, 0, 1, 0, 0, 0, 0.99F, 0.01F,  //
                                                    0, 0, 0, 0, 1, 0, 0.5F, 0.5F, 0}),
                      true)};
  const std::string picture = tokens_picture(report.runs[0], site);
  CHECK(times(picture, "<path ") == 3 + 3);                         // a hundredth is not drawn
  CHECK(times(picture, "stroke=\"" + head_colour(0) + "\"") == 2);  // in full
  CHECK(times(picture, "stroke=\"" + head_colour(1) + "\"") == 1);
  CHECK(times(picture, "&lt;b&gt;") == 2 * 2);
  site.maps[0].column_tokens = false;
  CHECK(tokens_picture(report.runs[0], site).empty());
}

TEST_CASE("a picture of talking heads has a wire for each entry of the matrix between two maps") {
  AttentionMap J = map_of(random_normal({2, 3, 3}, Key(1))),
               L = map_of(random_normal({3, 3, 3}, Key(2)));
  J.name = "J", J.heads = "h_k", L.name = "L";
  Mixing P{"P_l", "decoder/0/self/P_l", "h_k", "h", random_normal({2, 3}, Key(3))};
  Site site;
  site.maps = {J, L};
  CHECK(times(talk_picture(site), "<path ") == 0);
  site.mixing = {P};
  CHECK(times(talk_picture(site), "<path ") == 6);
  CHECK(times(talk_picture(site), ">P_l<") == 1);
  const std::string forward = talk_picture(site);
  site.mixing[0].values = permute(P.values, {1, 0});
  std::swap(site.mixing[0].rows, site.mixing[0].columns);
  CHECK(talk_picture(site) == forward);  // the same mix, written the other way round
  site.mixing[0].path = "";
  CHECK(times(talk_picture(site), "<path ") == 0);  // a product is no step
}

TEST_CASE("what a token is can be seen") {
  CHECK(visible(" ") == "␣");
  CHECK(visible("a\nb\t") == "a⏎b⇥");
  CHECK(visible("\u202e") == "U+202E");
  CHECK(visible("\u0301") == "◌\u0301");
  CHECK(visible("\xff") == "\\xff");
  CHECK(visible("") == "∎");
  CHECK(visible("é") == "é");
}

TEST_CASE("words in a picture are not markup") {
  CHECK(markup_safe("<b a=\"1\">&") == "&lt;b a=&quot;1&quot;&gt;&amp;");
}

TEST_SUITE_END();
