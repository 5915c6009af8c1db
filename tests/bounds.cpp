// Bounds of what a text may come to: how deep calls, sizes and values are nested, how much is
// written out, how much memory it needs. Past each bound stands a sentence.
#include <doctest/doctest.h>

#include "nn/run.hpp"
#include "tests/error_of.hpp"

using namespace tete;

namespace {

std::string complaint_about(const std::string& text) {
  return error_of([&] { check(Program::parse(text)); });
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Tensor row(Index size) { return random_normal({size}, Key(1), Dtype::f64); }

// Defs of which each calls the next.
std::string chained(int count) {
  std::string all;
  for (int i = 0; i + 1 < count; ++i)
    all += text("def A", i, "(X[n]):\n  Y[n] = A", i + 1, "(X[n])\n  return Y[n]\n");
  return all + text("def A", count - 1, "(X[n]):\n  Y[n] = exp(X[n])\n  return Y[n]\n");
}

// A0 = X, A1 = A0 + 1, …: statements that are made of each other.
std::string statements(int count) {
  std::string all = "def F(X[n]):\n  A0[n] = X[n]\n";
  for (int i = 1; i < count; ++i) all += text("  A", i, "[n] = A", i - 1, "[n] + 1\n");
  return all + text("  return A", count - 1, "[n]\n");
}

// where k1 = k0 + 1, k2 = k1 + 1, …; or the last first.
std::string chained_sizes(int count, bool last_first, const std::string& more = " + 1") {
  std::string all = "def F(X[n], P[n] = normal(1)):\n  where k0 = 1";
  for (int k = 1; k < count; ++k) {
    const int i = last_first ? count - k : k;
    all += text(",\n    k", i, " = k", i - 1, more);
  }
  return all + text("\n  Y[n] = X[n] * P[n] * k", count - 1, "\n  return Y[n]\n");
}

}  // namespace

TEST_SUITE("bounds") {
  TEST_CASE("calls nest so deep that nothing overflows, and no deeper") {
    CHECK(complaint_about(chained(101)) == "no error");
    for (int count : {102, 1000})
      CHECK(has(complaint_about(chained(count)),
                "text:302:10: calls of defs nest at most 100 deep, this one is one more\n"));
    CHECK(has(complaint_about(chained(3000)), "a text has at most 1000 defs, here is one more"));
    CHECK(has(complaint_about("def A(X[n]):\n  Y[n] = B(X[n])\n  return Y[n]\n"
                              "def B(X[n]):\n  Y[n] = A(X[n])\n  return Y[n]\n"),
              "'A' calls itself"));
  }

  TEST_CASE("what a text comes to is bounded, with the defs that it calls written out") {
    CHECK(complaint_about(statements(9000)) == "no error");
    CHECK(has(complaint_about(statements(30000)),
              "with the defs that it calls written out, this text comes to more than 10000 "
              "statements"));
    for (bool last_first : {false, true})
      CHECK(has(complaint_about(chained_sizes(30000, last_first)), "more than 10000 dimensions"));
    // Few statements, but long ones.
    std::string sum = "X[n]";
    for (int i = 0; i < 12; ++i) sum = "(" + sum + " + " + sum + ")";
    std::string long_ones = "def F(X[n]):\n  A0[n] = X[n]\n";
    for (int i = 1; i < 100; ++i) long_ones += text("  A", i, "[n] = G(A", i - 1, "[n])\n");
    long_ones += "  return A99[n]\ndef G(X[n]):\n  Y[n] = " + sum + "\n  return Y[n]\n";
    CHECK(has(complaint_about(long_ones), "more than 50000 tensors, numbers and operations"));
    std::string args = "def F(X[n]", operands = "def F(X[n]):\n  Y[n] = einsum(X[n]";
    for (int i = 0; i < 50000; ++i) args += text(", P", i, "[n]"), operands += ", X[n]";
    CHECK(has(complaint_about(args + "):\n  return X[n]\n"), "a def has at most 1000 arguments"));
    CHECK(
        has(complaint_about(operands + ")\n  return Y[n]\n"), "with 1 to 16 arguments, got 50001"));
  }

  TEST_CASE("sizes that come from sizes end in a number or a sentence") {
    const auto comes_to = [](const std::string& text) {
      return error_of([&] { run(text, {{"X", row(2)}, {"P", row(2)}}); });
    };
    std::string deep = " + 1";
    for (int i = 0; i < 190; ++i) deep += " + 1";
    for (bool last_first : {false, true}) {
      CHECK(comes_to(chained_sizes(400, last_first)) == "no error");
      CHECK(has(comes_to(chained_sizes(9000, last_first)), "by way of more than 1000 sizes and"));
      CHECK(has(comes_to(chained_sizes(100, last_first, deep)),
                "by way of more than 1000 sizes and"));
    }
  }

  TEST_CASE("a value that thousands of others lead to is made without overflowing the stack") {
    const auto program = std::make_shared<const Checked>(check(Program::parse(statements(9000))));
    Evaluation evaluation(program, {{"X", row(2)}});
    const Tensor off = evaluation.value(program->result) - row(2);
    for (double each : off.values()) CHECK(each == doctest::Approx(8999));
  }

  TEST_CASE("what is quoted is short") {
    const std::string said =
        complaint_about("def F(X[n]):\n  return " + std::string(100'000, '1') + "\n");
    CHECK(has(said, "'" + std::string(80, '1') + "…' stands"));
  }

  TEST_CASE("what cannot be seen is named by its code point") {
    const std::string mark = "\xEF\xBB\xBF", right_to_left = "\xE2\x80\xAE";
    CHECK(complaint_about(mark + "def F(X[n]):\n  return X[n]\n") ==
          "text:1:1: the invisible U+FEFF has no meaning here\n    ?def F(X[n]):\n    ^");
    CHECK(
        complaint_about("def F(X[n]):\n  return " + right_to_left + "X[n]\n") ==
        "text:2:10: the invisible U+202E has no meaning here\n      return ?X[n]\n             ^");
    CHECK(
        has(complaint_about("def F(X[n]):\n  Y[n] = \xD0\xA5[n]\n"), "'\xD0\xA5' (U+0425) has no"));
  }

  TEST_CASE("a value that does not fit into memory is refused before it is made") {
    const std::string outer =
        "def F(X[n], Z[m]):\n  Y[n, m] = X[n] * Z[m]\n  S[n] = sum(Y[n, m], reduced_dim=m)\n"
        "  return S[n]\n";
    const Tensor wide = broadcast(row(1), {int64_t{1} << 25});
    try {
      run(outer, {{"X", wide}, {"Z", wide}});
      FAIL("it was made");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::resource);
      CHECK(has(error.what(),
                "text:2:3: 'Y' of shape [33554432, 33554432] needs 8 PiB of memory, but "));
    }
  }
}
