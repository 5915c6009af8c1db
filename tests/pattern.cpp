// Patterns: both forms are read, every mistake gets a caret, and sizes are bound by name.
// Patterns that must not compile are in tests/patterns.sh.
#include "core/pattern.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "tests/error_of.hpp"

using namespace tete;

static std::vector<std::string> names_of(const Pattern& pattern, const Term& term) {
  std::vector<std::string> names;
  for (const Axis& axis : term) names.emplace_back(pattern.name(axis.label));
  return names;
}

using Names = std::vector<std::string>;

TEST_SUITE("pattern") {
  TEST_CASE("a character that looks like another, or like nothing, is named") {
    CHECK(error_of([] { Pattern::parse("\xEF\xBB\xBFij -> i"); }) ==
          "pattern: expected a name, ',' or '->', got the invisible U+FEFF\n    ?ij -> i\n    ^");
    CHECK(error_of([] { Pattern::parse("b \xD0\xB0 -> b"); }) ==
          "pattern: expected a name, ',' or '->', got '\xD0\xB0' (U+0430)\n    b \xD0\xB0 -> b\n   "
          "   ^");
  }

  TEST_CASE("names are words when there is white space, an underscore or a digit") {
    const Pattern p = Pattern::parse("b n d_X, d_X d_k h -> b n d_k h");
    CHECK(p.operand_count() == 2);
    CHECK(names_of(p, p.operand(0)) == Names{"b", "n", "d_X"});
    CHECK(names_of(p, p.operand(1)) == Names{"d_X", "d_k", "h"});
    CHECK(p.has_result());
    CHECK(names_of(p, p.result()) == Names{"b", "n", "d_k", "h"});
    CHECK(Pattern::parse("heads1").operand(0).size() == 1);
    CHECK(names_of(Pattern::parse("left right"), Pattern::parse("left right").operand(0)) ==
          Names{"left", "right"});
  }

  TEST_CASE("names are letters in the NumPy form") {
    const Pattern p = Pattern::parse("ij,jk->ik");
    CHECK(p.operand_count() == 2);
    CHECK(names_of(p, p.operand(0)) == Names{"i", "j"});
    CHECK(names_of(p, p.operand(1)) == Names{"j", "k"});
    CHECK(names_of(p, p.result()) == Names{"i", "k"});
    CHECK(Pattern::parse("ij->").result().empty());     // the sum of everything
    CHECK(Pattern::parse(",->").operand_count() == 2);  // two scalars
    CHECK(Pattern::parse("Ii->iI").name_count() == 2);  // case matters
  }

  TEST_CASE("a word and a letter name the same dimension of every operand that has it") {
    constexpr Pattern p("b n d, d d_ff -> b n d_ff");
    CHECK(p.operand(0)[2].label == p.operand(1)[0].label);
    CHECK(p.label_of("d_ff") == p.result()[2].label);
    CHECK(p.label_of("nobody") == -1);
    CHECK(Pattern::labels(p.result()).size() == 3);
  }

  TEST_CASE("without an arrow the result is every name, in the order of first appearance") {
    constexpr Pattern p("n m h, m d");
    CHECK(!p.has_result());
    CHECK(p.result_or_union() == Labels{0, 1, 2, 3});
    CHECK(p.name(3) == "d");
  }

  TEST_CASE("brackets mark dimensions and parentheses group them") {
    constexpr Pattern p("b [n m] (g s) -> b (s g)");
    CHECK(Pattern::marked(p.operand(0)) == Labels{1, 2});
    const Term& term = p.operand(0);
    CHECK(term[0].group == -1);
    CHECK(term[3].group == 0);
    CHECK(term[4].group == 0);
    CHECK(p.result()[1].label == term[4].label);
    // A marked name of the result may be new: scatter makes a dimension.
    constexpr Pattern scattering("b n d, b n -> [v] d");
    CHECK(scattering.result()[0].marked);
  }

  TEST_CASE("every mistake of a pattern is one sentence with a caret under it") {
    struct Mistake {
      const char* text;
      const char* sentence;
      size_t at;
    };
    const Mistake mistakes[] = {
        {"b n d_X, d_X d_k h -> b n d_kk h", "a name of the result is in no operand", 26},
        {"ij,jk->iz", "a name of the result is in no operand", 8},
        {"b n -> n n", "a name stands twice in the result", 9},
        {"i->ii", "a name stands twice in the result", 4},
        {"b . n", "expected '...'", 2},
        {"... b ...", "'...' stands twice in one operand", 6},
        {"b [...]", "expected a name, ',' or '->'", 3},
        {"b n = b", "expected a name, ',' or '->'", 4},
        {"b 2 -> b", "expected a name, ',' or '->'", 2},
        {"b] n", "expected a name, ',' or '->'", 1},
        {"[b [n]]", "expected a name, ',' or '->'", 3},
        {"b) n", "expected a name, ',' or '->'", 1},
        {"((b) n)", "expected a name, ',' or '->'", 1},
        {"b n > n", "expected a name, ',' or '->'", 4},
        {"b \xC3\xA9", "expected a name, ',' or '->', got '\xC3\xA9' (U+00E9)", 2},
        {"[b n -> b", "a '[' is not closed", 5},
        {"b [n", "a '[' is not closed", 4},
        {"(b n -> b n", "a '(' is not closed", 5},
        {"b () n", "nothing stands in ( )", 3},
        {"(b) n ( ) -> b n", "nothing stands in ( )", 8},
        {"b n []", "nothing stands in [ ]", 5},
        {"[b] ([ ] n)", "nothing stands in [ ]", 7},
        {"[b (n] d)", "expected a name, ',' or '->'", 5},
        {"(b [n) d]", "expected a name, ',' or '->'", 5},
        {"b n - b", "expected '->'", 4},
        {"b n -", "expected '->'", 4},
        {"b n -> b, n", "expected the end after the result", 8},
        {"b n -> b -> n", "expected the end after the result", 9},
    };
    for (const Mistake& mistake : mistakes) {
      CAPTURE(mistake.text);
      CHECK(error_of([&] { Pattern::parse(mistake.text); }) ==
            text("pattern: ", mistake.sentence, "\n    ", mistake.text, "\n    ",
                 std::string(mistake.at, ' '), "^"));
    }
  }

  TEST_CASE("patterns that are too long, wide or many are refused") {
    std::string operands = "a";
    for (int i = 1; i < max_operands; ++i) operands += ",a";
    CHECK(Pattern::parse(operands).operand_count() == max_operands);
    operands += ",a";
    CHECK(error_of([&] { Pattern::parse(operands); }) ==
          text("pattern: more than 16 operands\n    ", operands, "\n    ", std::string(32, ' '),
               "^"));

    std::string wide = "a0";
    for (int i = 1; i < max_rank; ++i) wide += text(" a", i);
    CHECK(Pattern::parse(wide).operand(0).size() == max_rank);
    const std::string wider = wide + " z";
    CHECK(error_of([&] { Pattern::parse(wider); }) ==
          text("pattern: more than 16 dimensions in one operand\n    ", wider, "\n    ",
               std::string(wider.size() - 1, ' '), "^"));

    std::string many;
    for (int i = 0; i < max_names; ++i) many += text("a", i, i % 4 == 3 ? ", " : " ");
    CHECK(Pattern::parse(many).name_count() == max_names);
    many += "z";
    CHECK(error_of([&] { Pattern::parse(many); }) ==
          text("pattern: more than 32 names in one pattern\n    ", many, "\n    ",
               std::string(many.size() - 1, ' '), "^"));

    const std::string endless(4097, ' ');
    CHECK(error_of([&] {
            Pattern::parse(endless);
          }).starts_with("pattern: a pattern is longer than 4096 characters"));
  }

  TEST_CASE("bind gives every name its size") {
    constexpr Pattern p("b n d_X, d_X d_k h -> b n d_k h");
    const Shape shapes[] = {{8, 128, 512}, {512, 64, 0}};
    const Dtype dtypes[] = {Dtype::f32, Dtype::f32};
    const Sizes sizes = bind_sizes("einsum", p, shapes, dtypes);
    CHECK(sizes[p.label_of("d_X")] == 512);
    CHECK(sizes[p.label_of("h")] == 0);
  }

  TEST_CASE("bind shows sizes that disagree: the name, both numbers, carets and both operands") {
    constexpr Pattern p("b n d_X, d_X d_k h -> b n d_k h");
    const Shape shapes[] = {{8, 128, 512}, {640, 64, 8}};
    const Dtype dtypes[] = {Dtype::f32, Dtype::f64};
    CHECK(error_of([&] { bind_sizes("einsum", p, shapes, dtypes); }) ==
          "einsum: 'd_X' is 512 in operand 1 but 640 in operand 2.\n"
          "    b n d_X, d_X d_k h -> b n d_k h\n"
          "        ^^^  ^^^\n"
          "    operand 1: f32[8, 128, 512]\n"
          "    operand 2: f64[640, 64, 8]");
  }

  TEST_CASE("bind says which operand has another rank, or is missing") {
    constexpr Pattern p("b n d, d k -> b n k");
    const Shape shapes[] = {{8, 128}, {64, 32}};
    const Dtype dtypes[] = {Dtype::f32, Dtype::f32};
    CHECK(error_of([&] { bind_sizes("einsum", p, shapes, dtypes); }) ==
          "einsum: operand 1 has 3 names, but the tensor has 2 dimensions.\n"
          "    b n d, d k -> b n k\n"
          "    ^^^^^\n"
          "    operand 1: f32[8, 128]\n"
          "    operand 2: f32[64, 32]");
    CHECK(error_of([&] {
            bind_sizes("einsum", p, {shapes, 1}, {dtypes, 1});
          }) ==
          "einsum: the pattern names 2 operands, got 1.\n"
          "    b n d, d k -> b n k\n"
          "           ^^^\n"
          "    operand 1: f32[8, 128]");
  }

  TEST_CASE("the nearest word is found, and only if it is near") {
    const std::string words[] = {"multi_head", "talking_heads", "weights_projection_only"};
    CHECK(nearest("talking_head", words) == "talking_heads");
    CHECK(nearest("multihead", words) == "multi_head");
    CHECK(nearest("convolution", words) == "");
    CHECK(suggestion("talkin_heads", words) == "; did you mean 'talking_heads'?");
    CHECK(suggestion("x", words) == "");
  }
}
