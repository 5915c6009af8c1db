// Decoding: every variant read position by position gives what it gives as a whole, at the cost of
// one row.
#include "nn/decode.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attention/attention.hpp"
#include "nn/cost.hpp"
#include "tests/in_pieces.hpp"
#include "tools/einsum/rehearsal.hpp"

using namespace tete;

namespace {

double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.values(), y = b.values();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

// A variant with parameters of its own, small where the paper's sizes are large.
struct Layer {
  ParamList list;
  std::shared_ptr<const Checked> program;
  Attention attention;
  Tensors values;

  Layer(const std::string& name, const std::vector<std::string>& with = {})
      : program(load_attention(name, with)), attention({list, ""}, program, sizes(*program)) {
    values = list.initial_values(Key(7), Dtype::f64);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = random_normal(values[i].shape(), Key(100 + i), Dtype::f64) * 0.5;
  }
  static AttentionSizes sizes(const Checked& program) {
    AttentionSizes sizes{.d_model = 12, .dims = {}};
    if (program.find_dimension("h") >= 0) sizes.heads = 3;
    for (const auto& [dim, size] : std::map<std::string, Index>{
             {"h_k", 2}, {"h_v", 4}, {"w", 3}, {"g", 1}, {"max_m", 23}, {"max_n", 23}})
      if (program.find_dimension(dim) >= 0) sizes.dims[dim] = size;
    if (program.name == "BigBird") sizes.dims["b"] = 2, sizes.dims["i"] = 12;
    return sizes;
  }
  Forward forward() const { return {.params = values, .watch = {}}; }
  Tensor whole(const Tensor& X, const Tensor& M, const Mask& mask) const {
    return attention(forward(), "", X, M, mask);
  }
};

bool can_decode(const Checked& program) { return program.takes_mask && program.leak.empty(); }

// The rows of `layer` over X, read in pieces of these lengths.
Tensor in_pieces(const Layer& layer, const Tensor& X, const std::vector<Index>& lengths) {
  return tests::in_pieces(layer.attention, layer.forward(), X, X, lengths);
}

// The cost of the text's statements for one query over a memory of m, of which one position is new.
Index one_more(const Checked& program, SizesByName sizes, Index m) {
  const auto cost_at = [&](Index memories) {
    SizeTable table(std::make_shared<const Checked>(program), sizes);
    table.set_lengths(1, memories);
    table.set_causal(true);
    return cost_of(program, table);
  };
  const Cost after = cost_at(m), before = cost_at(m - 1);
  const auto has = [&](const CheckedValue& v, Role role) {
    return std::any_of(v.dims.begin(), v.dims.end(),
                       [&](int dim) { return program.dimensions[dim].role == role; });
  };
  Index total = 0;
  for (size_t i = 0; i < after.statements.size(); ++i) {
    const StatementCost& now = after.statements[i];
    const CheckedValue& v = program.values[now.value];
    if (has(v, Role::query)) total += now.count.multiplies;
    else total += now.count.multiplies - before.statements[i].count.multiplies;
  }
  return total;
}

// A device's multiplies for one position behind eleven. Products of a tensor with a number are
// free in a text's cost, and counted by a device.
struct Multiplies {
  double contracted = 0, all = 0;
};
Multiplies multiplies_of_next(const Layer& layer) {
  Rehearsal rehearsal;
  Tensors params;
  for (const Tensor& value : layer.values) params.push_back(rehearsal.like(value));
  const Forward forward{.params = params, .watch = {}};
  Decoder decoder = layer.attention.decoder(Growth::grows);
  const Tensor past = rehearsal.tensor({1, 11, 12}, Dtype::f64),
               next = rehearsal.tensor({1, 1, 12}, Dtype::f64);
  layer.attention.next(decoder, forward, "", past, past);
  rehearsal.forget_calls();
  layer.attention.next(decoder, forward, "", next, next);
  Multiplies made;
  for (const KernelCall& call : rehearsal.calls()) {
    made.all += call.multiplies;
    if (!call.operands.empty() && !call.operands.back().labels.empty())
      made.contracted += call.multiplies;
  }
  return made;
}

}  // namespace

TEST_SUITE("decode") {
  TEST_CASE("position by position is the whole, for every variant that a causal mask suits") {
    const Tensor X = random_normal({2, 11, 12}, Key(1), Dtype::f64);
    int decoded = 0;
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Layer layer(variant.name);
      if (!can_decode(*layer.program)) {
        CHECK_THROWS_AS(layer.attention.decoder(Growth::grows), Error);
        continue;
      }
      const Tensor whole = layer.whole(X, X, {.causal = true});
      CHECK(difference(in_pieces(layer, X, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), whole) < 1e-12);
      CHECK(difference(in_pieces(layer, X, {4, 1, 3, 1, 2}), whole) < 1e-12);
      ++decoded;
    }
    CHECK(decoded + 1 == static_cast<int>(variants().size()));
  }

  TEST_CASE("so it is with positions, biases and noise off") {
    const Tensor X = random_normal({2, 11, 12}, Key(2), Dtype::f64);
    for (const char* base : {"talking_heads", "sliding_window", "multi_head_scaled"})
      for (const Variant& amendment : amendments()) {
        CAPTURE(base);
        CAPTURE(amendment.name);
        if (amendment.name == "contextual_bias" && std::string(base) == "talking_heads") continue;
        const Layer layer(base, {amendment.name});
        const Tensor whole = layer.whole(X, X, {.causal = true});
        CHECK(difference(in_pieces(layer, X, {1, 1, 5, 1, 1, 1, 1}), whole) < 1e-12);
      }
    for (const char* off : {"dropout", "scaled"}) {  // they know pieces by another name
      CAPTURE(off);
      const Layer layer("memory_compressed", {off});
      CHECK(!layer.program->flow.rereads);
      const Tensor whole = layer.whole(X, X, {.causal = true});
      CHECK(difference(in_pieces(layer, X, {1, 1, 5, 1, 1, 1, 1}), whole) < 1e-12);
    }
  }

  TEST_CASE("a complete memory is read once") {
    const Tensor X = random_normal({2, 5, 12}, Key(3), Dtype::f64);
    const Tensor M = random_normal({2, 7, 12}, Key(4), Dtype::f64);
    const Mask mask{.lengths = Tensor::of<int64_t>({2}, {4, 7})};
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Layer layer(variant.name);
      if (layer.program->self_only) continue;
      Decoder decoder = layer.attention.decoder(Growth::complete);
      Tensors rows;
      for (Index i = 0; i < 5; ++i)  // later calls bring no memory
        rows.push_back(layer.attention.next(decoder, layer.forward(), "", slice(X, 1, i, 1),
                                            i == 0 ? M : slice(M, 1, 0, 0), mask));
      CHECK(difference(concat(rows, 1), layer.whole(X, M, mask)) < 1e-12);
    }
  }

  TEST_CASE("samples that begin alike read what is common once") {
    const Tensor beginning = random_normal({1, 5, 12}, Key(1), Dtype::f64);
    const Tensor rest = random_normal({3, 4, 12}, Key(2), Dtype::f64);
    const Tensor X = concat({broadcast(beginning, {3, 5, 12}), rest}, 1);
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Layer layer(variant.name);
      if (!can_decode(*layer.program)) continue;
      Decoder decoder = layer.attention.decoder(Growth::grows);
      const auto next = [&](const Tensor& x) {
        return layer.attention.next(decoder, layer.forward(), "", x, x);
      };
      Tensors rows = {broadcast(next(beginning), {3, 5, 12})};
      decoder.repeat(3);
      for (Index i = 0; i < 4; ++i) rows.push_back(next(slice(rest, 1, i, 1)));
      CHECK(difference(concat(rows, 1), layer.whole(X, X, {.causal = true})) < 1e-12);
    }
  }

  TEST_CASE("a decoder and its copy do not see what the other reads") {
    const Tensor both = random_normal({2, 9, 12}, Key(1), Dtype::f64);
    const auto begun = [&](uint64_t key) {
      return concat({both, random_normal({2, 2, 12}, Key(key), Dtype::f64)}, 1);
    };
    const Tensor X = begun(2), Y = begun(3);
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Layer layer(variant.name);
      if (!can_decode(*layer.program)) continue;
      const auto next = [&](Decoder& decoder, const Tensor& of, Index first, Index count = 1) {
        const Tensor x = slice(of, 1, first, count);
        return layer.attention.next(decoder, layer.forward(), "", x, x);
      };
      Decoder one = layer.attention.decoder(Growth::grows);
      next(one, both, 0, 8), next(one, both, 8);  // there is room for two more
      Decoder other = one;
      next(one, X, 9), next(other, Y, 9);
      for (auto& [decoder, read] : {std::pair(&one, X), std::pair(&other, Y)}) {
        const Tensor whole = layer.whole(read, read, {.causal = true});
        CHECK(difference(next(*decoder, read, 10), slice(whole, 1, 10, 1)) < 1e-12);
      }
    }
  }

  TEST_CASE("what is kept follows from the text") {
    const auto kept = [](const char* name) {
      return Layer(name).attention.decoder(Growth::grows).cached();
    };
    using All = std::vector<std::string>;
    CHECK(kept("multi_head") == All{"K", "V"});
    CHECK(kept("general_bilinear") == All{"M"});
    CHECK(kept("dynamic_projections") == All{"K", "V", "R_Ml", "R_Mw"});
    CHECK(kept("random_synthesizer") == All{"V"});
    CHECK(kept("memory_compressed") == All{"K_c", "V_c"});
    CHECK(kept("talking_heads_inefficient") == All{"Y.M", "Y.P", "Y.Q"});
  }

  TEST_CASE("cached rows of a head lie side by side, in whatever order they come") {
    const Tensor whole = random_normal({2, 9, 3, 5}, Key(1), Dtype::f64);  // [batch, row, head, c]
    for (const Axes& order : {Axes{0, 1, 2, 3}, {0, 1, 3, 2}}) {
      const Tensor rows = permute(whole, order);
      const int head = order[2] == 2 ? 2 : 3, c = 5 - head;
      GrowingRows cache;
      for (const auto& [from, count] : {std::pair<Index, Index>{0, 4}, {4, 1}, {5, 3}, {8, 1}})
        cache.append(slice(rows, 1, from, count), 1);
      CHECK(difference(cache.rows(), rows) == 0);
      const Strides& strides = cache.rows().strides();
      CHECK(strides[c] == 1);
      CHECK(strides[1] == 5);
      CHECK(strides[head] < strides[0]);
    }
    const Tensor heads = random_normal({2, 3, 9}, Key(2), Dtype::f64);  // rows innermost
    GrowingRows last, numbers;
    for (Index from : {0, 4, 5}) last.append(slice(heads, 2, from, from == 4 ? 1 : 4), 2);
    CHECK(difference(last.rows(), heads) == 0);
    CHECK(last.rows().strides()[2] == 1);
    for (Index i = 0; i < 3; ++i)
      numbers.append(Tensor::repeated(static_cast<double>(i), {1}, Dtype::f64), 0);
    CHECK(numbers.rows().values() == std::vector<double>{0, 1, 2});
  }

  TEST_CASE("windows of rows that attend keep the few before, if these have no memory axis") {
    const std::string text =
        "def Near(X[n, d], M[m, d], P[d, e, a] = normal(1), F[t, e, a] = normal(1)):\n"
        "  where a = 2, e = 3, t = 3\n"
        "  Q[n, e, a] = einsum(X[n, d], P[d, e, a])\n"
        "  K[m, e, a] = einsum(M[m, d], P[d, e, a])\n"
        "  L[n, m, a] = einsum(Q[n, e, a], K[m, e, a])\n"
        "  W[n, m, a] = softmax(L[n, m, a], reduced_dim=m)\n"
        "  O[n, e, a] = einsum(W[n, m, a], K[m, e, a])\n"
        "  I[n, t, e, a] = windows(O[n, e, a], dim=n, into=(n t), left=2)\n"
        "  R[n, e, a] = einsum(I[n, t, e, a], F[t, e, a])\n"
        "  Y[n, d] = einsum(R[n, e, a], P[d, e, a])\n  return Y[n, d]\n";
    std::string over_both = text;
    over_both.replace(over_both.find("softmax(L"), 9, "softmax(S");
    over_both.insert(over_both.find("  W[n"),
                     "  N[n, t, m, a] = windows(L[n, m, a], dim=n, into=(n t), left=2)\n"
                     "  S[n, m, a] = sum(N[n, t, m, a], reduced_dim=t)\n");
    const Tensor X = random_normal({2, 9, 12}, Key(1), Dtype::f64);
    using All = std::vector<std::string>;
    for (const std::string& of : {text, over_both}) {
      CAPTURE(of);
      const All kept = of == text ? All{"K"} : All{"X", "M"};
      ParamList list;
      const auto program = load_attention(Program::parse(of));
      CHECK(program->leak == "");
      const Attention attention({list, ""}, program, {.d_model = 12, .dims = {}});
      const Tensors values = list.initial_values(Key(7), Dtype::f64);
      const Forward forward{.params = values, .watch = {}};
      CHECK(attention.decoder(Growth::grows).cached() == kept);
      const Tensor whole = attention(forward, "", X, X, {.causal = true});
      for (const std::vector<Index>& lengths :
           {std::vector<Index>{1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 3, 1}})
        CHECK(difference(tests::in_pieces(attention, forward, X, X, lengths), whole) < 1e-12);
    }
  }

  TEST_CASE("one more position costs the text's multiplies for one query and one new memory") {
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Layer layer(variant.name);
      if (!can_decode(*layer.program)) continue;
      if (layer.list.find("Draw") >= 0) continue;  // a mask is made of its numbers
      const Multiplies made = multiplies_of_next(layer);
      const auto expected =
          static_cast<double>(one_more(*layer.program, layer.attention.sizes(), 12));
      CHECK(made.contracted <= expected);
      // Products of the memory alone are made once and cached, so that there may be fewer.
      if (!layer.program->pairwise) CHECK(made.all >= expected);
    }
  }

  TEST_CASE("a text of one einsum caches what a text that names each product does, and costs it") {
    for (const std::string name : {"multi_head", "talking_heads"}) {
      CAPTURE(name);
      const Layer one(name + "_concise"), other(name);
      CHECK(one.attention.decoder(Growth::grows).cached().size() == 2);
      CHECK(multiplies_of_next(one).all == multiplies_of_next(other).all);
    }
  }

  TEST_CASE("a memory of pieces is read, whatever lengths they divide") {
    const auto program = std::make_shared<const Checked>(check(Program::parse(
        "def F(X[n, d], M[m, c], P[d, e] = ones(), R[c, e] = ones()):\n"
        "  where d = 2, c = d, e = 5, b = 3, o = m / b\n"
        "  S[o, b, c] = M[m=(o b), c]\n"
        "  A[m=(o b), c] = 2 * S[o, b, c]\n"
        "  W[n, m] = softmax(einsum(X[n, d], A[m, c], P[d, e], R[c, e]), reduced_dim=m)\n"
        "  Y[n, c] = einsum(W[n, m], M[m, c])\n"
        "  return Y[n, c]\n")));
    CHECK(program->pairwise);
    const SizeTable sizes(program, {});
    const Tensor X = random_normal({4, 2}, Key(1), Dtype::f64),
                 M = random_normal({9, 2}, Key(2), Dtype::f64);
    const Tensors params = {random_normal({2, 5}, Key(3), Dtype::f64),
                            random_normal({2, 5}, Key(4), Dtype::f64)};
    const std::vector<ParamId> ids = {{0}, {1}};
    const Forward forward{.params = params, .watch = {}};
    Decoder decoder(program, sizes, Growth::complete);
    const Tensor rows = concat({decoder.next({slice(X, 0, 0, 1), M}, ids, forward),
                                decoder.next({slice(X, 0, 1, 3), M}, ids, forward)},
                               0);
    CHECK(difference(rows, run(*program, sizes, {X, M}, ids, forward)) < 1e-12);
  }

  TEST_CASE("what cannot be read position by position says why") {
    const auto complaint = [](const char* text) -> std::string {
      try {
        ParamList list;
        const Attention attention({list, ""}, load_attention(Program::parse(text, "t.tete")),
                                  {.d_model = 4, .dims = {}});
        const Tensor X = random_normal({1, 2, 4}, Key(6), Dtype::f64);
        const Tensors none;
        tests::in_pieces(attention, Forward{.params = none, .watch = {}}, X, X, {1, 1});
        return "";
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::input);
        return error.what();
      }
    };
    CHECK(complaint("def Mean(X[n, d], M[m, d]):\n A[d] = mean(M[m, d], reduced_dim=m)\n"
                    " Y[n, d] = X[n, d] + A[d]\n return Y[n, d]\n")
              .find("this combines all positions of 'm'") != std::string::npos);
    CHECK(complaint("def Taps(X[n, d]):\n Y[n, d] = X[n, d] * 2\n return Y[n, d]\n")
              .find("'Taps' is given a causal mask, but no statement of it takes the mask") == 0);
    const Layer learned("random_synthesizer");
    const Tensor X = random_normal({1, 24, 12}, Key(5), Dtype::f64);
    CHECK_THROWS_WITH_AS(in_pieces(learned, X, {23, 1}), doctest::Contains("there is room for"),
                         Error);
  }
}
