// The flow of small texts: what a value depends on, which pairs a mask hides in it, and what a
// dimension's size is made of.
#include <doctest/doctest.h>

#include "attention/catalog.hpp"

using namespace tete;

namespace {

Checked checked(const std::string& text) { return check(Program::parse(text), {}, catalogue()); }

// "queries inputs learned", or "" for a value that depends on nothing of these.
std::string sources(const Checked& program, const std::string& name) {
  const Sources from = program.flow.values[program.find_value(name)].from;
  std::string all;
  const auto add = [&](bool is, const char* what) {
    if (is) all += (all.empty() ? "" : " ") + std::string(what);
  };
  add(from.queries, "queries"), add(from.memory, "memory");
  add(from.inputs, "inputs"), add(from.learned, "learned");
  return all;
}

std::string clock(const Checked& program, const Clock& clock) {
  const std::string name = program.dimensions[clock.axis].name;
  return clock.place < 0 ? name : name + "/" + program.dimensions[clock.place].name;
}

// "n:m n:c": the pairs for which a value is 0; "n:m=2" where it is another number.
std::string hidden(const Checked& program, const std::string& name) {
  std::string all;
  for (const Hidden& hidden : program.flow.values[program.find_value(name)].hidden) {
    if (hidden.query < 0) continue;
    all += (all.empty() ? "" : " ") + program.dimensions[hidden.query].name + ":" +
           clock(program, hidden.memory);
    if (hidden.number != 0) all += text("=", hidden.number);
  }
  return all;
}

// "n m": the positions up to which a value reads the data.
std::string reads(const Checked& program, const std::string& name) {
  std::string all;
  for (const Clock& one : program.flow.values[program.find_value(name)].reads)
    all += (all.empty() ? "" : " ") + clock(program, one);
  return all;
}

const DimensionFlow& dimension(const Checked& program, const std::string& name) {
  return program.flow.dimensions[program.find_dimension(name)];
}

// "Y n future": the statement and the sequence of each combination that no mask protects.
std::vector<std::string> combinations(const Checked& program) {
  const char* const reads[] = {"future", "length", "padding", "first"};
  std::vector<std::string> all;
  for (const Combination& c : program.flow.combinations)
    all.push_back(program.values[c.value].name + " " + program.dimensions[c.dim].name + " " +
                  reads[static_cast<int>(c.reads)]);
  return all;
}

std::string names(const Checked& program, const std::vector<bool>& marked) {
  std::string all;
  for (size_t i = 0; i < marked.size(); ++i)
    if (marked[i]) all += (all.empty() ? "" : " ") + program.values[i].name;
  return all;
}

const char* attention = R"(def F(X[n, d], M[m, d], P[d, k] = zeros(), B[k] = fixed zeros()):
  Q[n, k] = einsum(X[n, d], P[d, k])
  K[m, k] = einsum(M[m, d], P[d, k]) + B[k]
  C[k]    = B[k] * 2
  S[n, m] = position(n) - position(m)
  L[n, m] = einsum(Q[n, k], K[m, k], C[k]) + S[n, m]
  W[n, m] = softmax(L[n, m], reduced_dim=m)
  Y[n, k] = einsum(W[n, m], K[m, k])
  return Y[n, k]
)";

}  // namespace

TEST_SUITE("flow") {
  TEST_CASE("what a value depends on") {
    const Checked program = checked(attention);
    CHECK(sources(program, "X") == "queries inputs learned");
    CHECK(sources(program, "M") == "memory inputs learned");
    CHECK(sources(program, "P") == "learned");
    CHECK(sources(program, "B") == "");
    CHECK(sources(program, "C") == "");
    CHECK(sources(program, "Q") == "queries inputs learned");
    CHECK(sources(program, "K") == "memory inputs learned");
    CHECK(sources(program, "S") == "queries memory");
    CHECK(sources(program, "Y") == "queries memory inputs learned");
    const Node& logits = program.values[program.find_value("L")].right;
    CHECK(sources_of(logits, program.flow).learned);
    CHECK_FALSE(sources_of(logits.args[1], program.flow).learned);
  }

  TEST_CASE("a mask is a source too") {
    const Checked program = checked(
        "def F(X[n, d], Z[n, d]):\n  Y[n, d] = softmax(Z[n, d], reduced_dim=d, mask=X[n, d] > 0)\n"
        "  return Y[n, d]\n");
    CHECK(sources(program, "Y") == "queries inputs learned");
    const Checked leaks = checked(
        "def F(X[n, d], M[m, d], P[m, d] = zeros()):\n"
        "  A[m, d] = softmax(P[m, d], reduced_dim=d, mask=M[m, d] > 0)\n"
        "  S[d] = sum(A[m, d], reduced_dim=m)\n  Y[n, d] = X[n, d] * S[d]\n"
        "  return Y[n, d]\n");
    CHECK(combinations(leaks) == std::vector<std::string>{"S m future", "S m padding"});
    CHECK(leaks.leak.find("text:3:10: this combines all positions of 'm'") == 0);
    const Checked fixed = checked(
        "def F(X[n, d], P[d, e] = fixed zeros(), R[d, e] = zeros()):\n"
        "  A[d, e] = softmax(P[d, e], reduced_dim=e, mask=R[d, e] > 0)\n"
        "  Y[n, e] = einsum(X[n, d], A[d, e])\n  return Y[n, e]\n");
    CHECK(sources(fixed, "A") == "learned");
  }

  TEST_CASE("the queries under the memory's name depend on the memory") {
    const Checked program = checked(
        "def F(X[n, d], M[m, d] = X[n, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
        "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n  Y[n, d] = einsum(W[n, m], M[m, d])\n"
        "  return Y[n, d]\n");
    CHECK(sources(program, "X") == "queries inputs learned");
    CHECK(sources(program, "M") == "memory inputs learned");
    CHECK(sources(program, "L") == "queries memory inputs learned");
  }

  TEST_CASE("the pairs that are hidden in a value") {
    const Checked program = checked(R"(def F(X[n, d], M[m, d], B[n, m] = zeros()):
  where k = n
  L[n, m]    = einsum(X[n, d], M[m, d])
  W[n, m]    = softmax(L[n, m], reduced_dim=m)
  E[n, m]    = exp(W[n, m])
  A[n, m]    = W[n, m] + B[n, m]
  T[n, m]    = W[n, m] * B[n, m]
  V[n, m]    = W[n, m] - T[n, m]
  S[n, m]    = select(visible(n, m), L[n, m], 0)
  R[k, m]    = W[n=(k), m]
  D[n, m, d] = W[n, m] * M[m, d]
  G[n, m]    = sum(D[n, m, d], reduced_dim=d)
  U[n, m]    = einsum(E[n, m], A[n, m], V[n, m], S[n, m], G[n, m])
  Y[n, d]    = einsum(U[n, m], M[m, d]) + einsum(R[k, m], X[n=(k), d], B[n, m], M[m, d])
  return Y[n, d]
)");
    CHECK(hidden(program, "X") == "");
    CHECK(hidden(program, "L") == "");
    CHECK(hidden(program, "W") == "n:m");
    CHECK(hidden(program, "E") == "n:m=1");
    CHECK(hidden(program, "A") == "");
    CHECK(hidden(program, "T") == "n:m");
    CHECK(hidden(program, "V") == "n:m");
    CHECK(hidden(program, "S") == "n:m");
    CHECK(hidden(program, "R") == "k:m");
    CHECK(hidden(program, "D") == "n:m");
    CHECK(hidden(program, "G") == "n:m");
    CHECK(hidden(program, "U") == "n:m");
    CHECK(hidden(program, "Y") == "");
  }

  TEST_CASE("the positions that a value reads") {
    const Checked program = checked(R"(def F(X[n, d], M[m, d]):
  where w = 2, c = m // 2
  L[n, m]      = einsum(X[n, d], M[m, d])
  W[n, m]      = softmax(L[n, m], reduced_dim=m)
  S[n, m]      = select(visible(n, m), L[n, m], -1e30)
  D[n, m, d]   = W[n, m] * M[m, d]
  Z[l, d]      = X[n=(l), d]
  M_w[c, w, d] = windows(M[m, d], dim=m, into=(c w), stride=2)
  N[c, d]      = sum(M_w[c, w, d], reduced_dim=w)
  O[n, d]      = einsum(W[n, m], M[m, d])
  P[n, d]      = sum(D[n, m, d], reduced_dim=m)
  Q[n]         = max(S[n, m], reduced_dim=m)
  R[n, c, l]   = einsum(O[n, d], P[n, d], N[c, d], Z[l, d])
  Y[n, c, l]   = R[n, c, l] * Q[n]
  return Y[n, c, l]
)");
    std::string all;
    for (const char* name : {"X", "L", "W", "S", "D", "Z", "M_w", "N", "O", "P", "Q", "R"})
      all += text(name, "(", reads(program, name), ") ");
    CHECK(all == "X(n) L(n m) W(n) S(n) D(n) Z(l) M_w(c/w) N(c) O(n) P(n) Q(n) R(n c l) ");
    CHECK(hidden(program, "S") == text("n:m=", -1e30));
    CHECK(hidden(program, "D") == "n:m");
  }

  TEST_CASE("a called def's pairs are of its own axes, the caller's are of the caller's") {
    const Checked program = checked(
        "def F(X[n, d], M[m, d]):\n  L[n, m] = einsum(X[n, d], M[m, d])\n"
        "  W[n, m] = G(L[n, m])\n  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"
        "def G(A[a, b]):\n  S[a, b] = softmax(A[a, b], reduced_dim=b)\n  return S[a, b]\n");
    CHECK(hidden(program, "W.S") == "W.a:W.b");
    CHECK(hidden(program, "W") == "n:m");
    CHECK(program.leak == "");
  }

  TEST_CASE("what combines positions where no mask protects them") {
    CHECK(combinations(checked(attention)).empty());
    const Checked program = checked(R"(def F(X[n, d], M[m, d], P[m, d] = zeros()):
  A[d]    = sum(P[m, d], reduced_dim=m)
  B[d]    = M[0, d]
  C[d]    = max(X[n, d], reduced_dim=n)
  L[n, m] = einsum(X[n, d], M[m, d])
  W[n, m] = softmax(L[n, m], reduced_dim=m)
  Z[n]    = max(W[n, m], reduced_dim=m)
  Y[n, d] = einsum(W[n, m], M[m, d], A[d], B[d], C[d], Z[n])
  return Y[n, d]
)");
    CHECK(combinations(program) ==
          std::vector<std::string>{"A m length", "A m padding", "B m first", "C n future"});
    CHECK(program.leak.find("text:2:13: this combines all positions of 'm'") == 0);
  }

  TEST_CASE("windows over the memory count as memory, their places do not") {
    const Checked program = checked(
        "def F(X[n, d], M[m, d]):\n  where w = 2, c = m - 1, v = 2, e = c - 1\n"
        "  A[c, w, d] = windows(M[m, d], dim=m, into=(c w))\n"
        "  B[c, d] = sum(A[c, w, d], reduced_dim=w)\n"
        "  E[e, v, d] = windows(B[c, d], dim=c, into=(e v))\n"
        "  Y[n, c, e, v] = einsum(X[n, d], B[c, d], E[e, v, d])\n  return Y[n, c, e, v]\n");
    CHECK(dimension(program, "m").within == Role::memory);
    CHECK(dimension(program, "c").within == Role::memory);
    CHECK(dimension(program, "c").windows);
    CHECK(dimension(program, "w").within == Role::none);
    CHECK(dimension(program, "w").pieces < 0);
    CHECK(dimension(program, "e").within == Role::memory);
    CHECK_FALSE(dimension(program, "e").windows);
    CHECK(dimension(program, "e").pieces == 1);
    const Names c{program.find_dimension("c")}, e{program.find_dimension("e")};
    CHECK(program.is_over(c, Role::memory));
    CHECK_FALSE(program.is_over(c, Role::query));
    CHECK_FALSE(program.is_over(e, Role::memory));
  }

  TEST_CASE("sizes made of lengths") {
    const Checked program = checked(
        "def F(X[n, d], M[m, d], A[a, b] = zeros()):\n  where a = n // 2, b = a + d, c = m * n\n"
        "  C[c] = index(c)\n  B[n, e] = G(A[a, b], X[n, d])\n"
        "  Y[n] = einsum(B[n, e]) * sum(C[c], reduced_dim=c)\n  return Y[n]\n"
        "def G(A[p, q], X[i, j]):\n  where r = q\n  R[r] = index(r)\n"
        "  S[] = einsum(A[p, q])\n  Y[i, j] = S[] * X[i, j] * sum(R[r], reduced_dim=r)\n  return "
        "Y[i, j]\n");
    const auto made_of = [&](const char* name) {
      const DimensionFlow& flow = dimension(program, name);
      return std::string(flow.made_of(Role::query) ? "n" : "") +
             (flow.made_of(Role::memory) ? "m" : "");
    };
    CHECK(made_of("n") == "");
    CHECK(made_of("m") == "");
    CHECK(made_of("d") == "");
    CHECK(made_of("a") == "n");
    CHECK(made_of("b") == "n");
    CHECK(made_of("c") == "nm");
    CHECK(made_of("B.p") == "n");
    CHECK(made_of("B.q") == "n");
    CHECK(made_of("B.r") == "n");
    CHECK(made_of("B.i") == "");
    CHECK(made_of("B.j") == "");
  }

  TEST_CASE("heads are shared by factors and result, under all their names") {
    const Checked program = checked(
        "def F(X[n, d], P[d, k, h] = zeros(), O[d, k, h_v] = zeros()):\n  where h_v = h\n"
        "  Q[n, k, h] = einsum(X[n, d], P[d, k, h])\n  S[n, h] = einsum(Q[n, k, h], Q[n, k, h])\n"
        "  R[d] = einsum(O[d, k, h_v])\n  Y[n, d] = einsum(S[n, h], S[n, h], R[d])\n  return Y[n, "
        "d]\n");
    const auto is_head = [&](const char* name) {
      return program.dimensions[program.find_dimension(name)].head;
    };
    CHECK(is_head("h"));
    CHECK(is_head("h_v"));
    CHECK_FALSE(is_head("k"));
    CHECK_FALSE(is_head("n"));
    CHECK_FALSE(is_head("d"));
  }

  TEST_CASE("sources and results of a value") {
    const Checked program = checked(attention);
    std::vector<bool> from(program.values.size()), to = from;
    const int K = program.find_value("K");
    from[program.find_value("L")] = to[K] = true;
    std::vector<bool> cut = from;
    mark_sources(program, from);
    CHECK(names(program, from) == "X M P B Q K C S L");
    mark_sources(program, cut, [&](int value) { return value == K; });
    CHECK(names(program, cut) == "X P B Q K C S L");
    mark_results(program, to);
    CHECK(names(program, to) == "K L W Y");
  }
}
