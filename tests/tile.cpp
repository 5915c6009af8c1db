// The tile against the whole: every variant a block of queries at a time gives what it gives as a
// whole, whatever the blocks, the mask and the dropout; and no thread, nor who looks, changes a
// bit.
#include "nn/tile/tile.hpp"

#include <map>

#include "attention/gradcheck.hpp"
#include "core/derivatives.hpp"
#include "core/threads.hpp"
#include "tests/layer.hpp"
#include "tests/made_and_kept.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

struct Tiled {
  ParamList list;
  std::shared_ptr<const Checked> program;
  Attention attention;
  Tensors values;

  explicit Tiled(const std::string& name, const std::vector<std::string>& with = {},
                 Dtype dtype = Dtype::f64)
      : Tiled(load_attention(name, with), dtype) {}
  explicit Tiled(const std::shared_ptr<const Checked>& checked, Dtype dtype = Dtype::f64)
      : program(checked), attention({list, ""}, program, sizes(*program)) {
    for (const ParamSpec& spec : list.specs())
      values.push_back((noise(spec.shape, 100 + values.size(), dtype) * 0.5).variable());
  }
  static AttentionSizes sizes(const Checked& program) {
    AttentionSizes sizes{.d_model = 12, .dims = {}};
    if (program.find_dimension("h") >= 0) sizes.heads = 3;
    for (const auto& [dim, size] : std::map<std::string, Index>{
             {"h_k", 2}, {"h_v", 4}, {"w", 3}, {"g", 1}, {"max_m", 23}, {"max_n", 23}})
      if (program.find_dimension(dim) >= 0) sizes.dims[dim] = size;
    if (program.name == "TalkingHeads") sizes.heads = 8;  // mixed in one pass
    if (program.name == "BigBird") sizes.dims["b"] = 2, sizes.dims["i"] = 12;
    return sizes;
  }
};

// The value and the gradients of X, M and every parameter.
struct Outcome {
  Tensor Y;
  Tensors gradients;
};

struct Call {
  Tensor X, M;
  Mask mask = {};
  double dropout = 0;
  bool watched = false;
};

Outcome outcome(const Tiled& layer, const Call& call, const Tiling& tiling) {
  const Tensor X = call.X.variable(), M = call.M ? call.M.variable() : X;
  int seen = 0;
  Forward forward{.params = layer.values,
                  .training = call.dropout > 0,
                  .dropout = call.dropout,
                  .key = Key(9),
                  .first_sample = 2,
                  .tiling = tiling};
  if (call.watched) forward.watch = [&](const std::string&, const Tensor&) { ++seen; };
  Outcome made{layer.attention(forward, "", X, M, call.mask), {}};
  CHECK((seen > 0) == call.watched);
  Tensors xs = layer.values;
  xs.push_back(X);
  if (call.M) xs.push_back(M);
  const Tensor g = noise(made.Y.shape(), 77, made.Y.dtype());
  for (const Tensor& x : grad(made.Y, xs, {.cotangent = g}))
    made.gradients.push_back(x ? x : Tensor());
  return made;
}

double apart(const Outcome& a, const Outcome& b) {
  double worst = difference(a.Y, b.Y);
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    REQUIRE(bool(a.gradients[i]) == bool(b.gradients[i]));
    if (a.gradients[i]) worst = std::max(worst, difference(a.gradients[i], b.gradients[i]));
  }
  return worst;
}

constexpr Tiling whole{.allowed = false};

// The bytes that `call` takes at most beyond what is there, on one thread: on two it would be
// chance.
template <class Call>
double peak_of(const Call& call) {
  const int before = threads();
  set_threads(1);
  reset_peak_memory();
  const size_t start = memory_use().live;
  call();
  const auto peak = static_cast<double>(memory_use().peak - start);
  set_threads(before);
  return peak;
}

// The peak of a value and its gradients, for n queries.
double peak_of(const Tiled& layer, Index n, const Tiling& tiling) {
  const Tensor X = noise({1, n, 12}, 1, Dtype::f32);
  return peak_of([&] { outcome(layer, {X, {}, {}}, tiling); });
}

std::vector<Call> calls(const Checked& program, Index n, Index m) {
  const bool self = program.self_only || n == m;
  std::vector<Call> all;
  const auto add = [&](const Shape& batch, const Mask& mask) {
    Shape x = batch, y = batch;
    x.push_back(n), x.push_back(12), y.push_back(m), y.push_back(12);
    all.push_back({noise(x, 1), self ? Tensor() : noise(y, 2), mask});
  };
  const Tensor lengths = Tensor::of<int64_t>({3}, {m, 0, 2});
  add({3}, {});
  add({}, {});
  add({2, 2}, {});
  if (program.takes_mask || program.takes_padding) add({3}, {.lengths = lengths});
  if (!program.takes_mask) return all;
  if (program.leak.empty()) {
    add({3}, {.causal = true});
    add({3}, {.causal = true, .lengths = lengths});
  }
  const Tensor some = less(noise({n, m}, 5), Tensor::zeros({n, m}, Dtype::f64));
  add({2}, {.visible = some});
  add({2}, {.visible = less(noise({2, n, m}, 5), Tensor::zeros({2, n, m}, Dtype::f64))});
  return all;
}

}  // namespace

TEST_SUITE("tile") {
  TEST_CASE("every variant in blocks is what it is as a whole: values and gradients") {
    std::vector<std::string> without;
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Tiled layer(variant.name);
      if (layer.program->tile.inside.empty()) {
        without.push_back(variant.name);
        continue;
      }
      std::vector<Call> all = calls(*layer.program, 11, 11);
      if (!layer.program->self_only)
        for (const Call& call : calls(*layer.program, 5, 7)) all.push_back(call);
      for (const Call& call : all) {
        CAPTURE(call.X.shape());
        CAPTURE(call.mask.causal);
        const Outcome expected = outcome(layer, call, whole);
        for (const Tiling& tiling :
             {Tiling{.queries = 1, .samples = 1}, Tiling{.queries = 4, .samples = 2},
              Tiling{.queries = 10, .samples = 3, .keep = Tiling::Keep::never()},
              Tiling{.queries = 11}, Tiling{.queries = 12, .samples = 4}})
          CHECK(apart(outcome(layer, call, tiling), expected) < 1e-10);
      }
    }
    // Its queries see r vectors, whatever the memory: nothing in it is over queries and memory.
    CHECK(without == std::vector<std::string>{"linformer"});
  }

  TEST_CASE("a block leaves out no hidden memory that its values count or sum") {
    for (const char* statements :
         {// the mean of a causal row is over what it sees
          "B[n, m] = position(n) + A[m]\n  Z[n] = mean(W[n, m], reduced_dim=m)",
          "B[n, m] = position(n) * A[m]\n  Z[n] = max(B[n, m], reduced_dim=m)",
          // rows of the memory that follow from parameters alone, wherever they are
          "B[n, m] = position(n) + A[m]\n  Z[n] = B[n, 10]",
          "B[n, m] = position(n) + A[m]\n  Z[n] = gather(A[m], position(n) * 0 + 10, dim=m)"}) {
      CAPTURE(statements);
      const Tiled layer(std::make_shared<const Checked>(check(Program::parse(
          text("def F(X[n, d], M[m, d], A[m<=max_m] = normal(1)):\n"
               "  where max_m = 23\n"
               "  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n  ",
               statements,
               "\n  Y[n, d] = einsum(W[n, m], B[n, m], M[m, d], Z[n])\n  return Y[n, d]\n")))));
      REQUIRE(layer.program->leak == "");
      REQUIRE(!layer.program->tile.inside.empty());
      const Call call{noise({3, 11, 12}, 1), noise({3, 11, 12}, 2), {.causal = true}};
      const Outcome expected = outcome(layer, call, whole);
      CHECK(apart(outcome(layer, call, {.queries = 2, .samples = 1}), expected) < 1e-10);
    }
  }

  TEST_CASE("what is over the memory twice is computed in strips: values and gradients") {
    for (const char* name : {"contextual_positions", "masked_by_others", "simplicial"}) {
      CAPTURE(name);
      const Tiled layer(load_attention(std::string(TEXTS) + "/causality/" + name + ".tete"));
      REQUIRE(!layer.program->strips.empty());
      for (const Call& call : calls(*layer.program, 11, 11)) {
        CAPTURE(call.X.shape());
        CAPTURE(call.mask.causal);
        const Outcome expected = outcome(layer, call, whole);
        for (const Tiling& tiling :
             {Tiling{.queries = 1, .samples = 1}, Tiling{.queries = 4, .samples = 2},
              Tiling{.queries = 5, .samples = 3, .keep = Tiling::Keep::never()}})
          CHECK(apart(outcome(layer, call, tiling), expected) < 1e-10);
      }
    }
  }

  TEST_CASE("a strip reads queries only where it is over them: a block has no others") {
    for (const std::string weight : {"sum(R[n], reduced_dim=n)", "X[0, 0]",
                                     "gather(R[n], position(m) % 2, dim=n)", "sqrt(n)"}) {
      CAPTURE(weight);
      const Tiled layer(std::make_shared<const Checked>(check(Program::parse(
          text("def F(X[n, d], M[m, d], R[n<=max_n] = normal(1)):\n"
               "  where l = m, max_n = 23\n"
               "  Z[l, d] = M[m=(l), d] * 0.3\n"
               "  B[l, m] = einsum(Z[l, d], M[m, d]) * ",
               weight,
               "\n  V[n, l] = softmax(einsum(X[n, d], Z[l, d]) + R[n], reduced_dim=l)\n"
               "  S[n, m] = einsum(V[n, l], B[l, m])\n"
               "  W[n, m] = softmax(S[n, m], reduced_dim=m)\n"
               "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n")))));
      const Call call{noise({3, 11, 12}, 1), noise({3, 11, 12}, 2)};
      const Outcome expected = outcome(layer, call, whole);
      CHECK(apart(outcome(layer, call, {.queries = 2, .samples = 1}), expected) < 1e-10);
    }
  }

  TEST_CASE("a memory that attends to itself has its block's positions, however long X is") {
    const std::string text =
        "def Near(X[n, d], M[m, d]):\n"
        "  W[n, m] = softmax(einsum(X[n, d], M[m, d]) - abs(position(n) - position(m)), "
        "reduced_dim=m)\n"
        "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"
        "def F(X[n, d], M[m, d]):\n  A[m, d] = Near(M[m, d], M[m, d])\n"
        "  G[d] = mean(A[m, d], reduced_dim=m)\n  Y[n, d] = X[n, d] + G[d]\n  return Y[n, d]\n";
    const Tiled layer(std::make_shared<const Checked>(check(Program::parse(text))));
    for (const auto& [n, m] : {std::pair<Index, Index>{7, 4}, {4, 7}, {7, 7}}) {
      const Call call{noise({2, n, 12}, 1), noise({2, m, 12}, 2)};
      const Outcome expected = outcome(layer, call, whole);
      CHECK(apart(outcome(layer, call, {.queries = 2, .samples = 1}), expected) < 1e-10);
    }
  }

  TEST_CASE("another name of X's sequence is as long as X, whatever the memory is") {
    const Tiled layer(std::make_shared<const Checked>(
        check(Program::parse("def F(X[n, d], M[m, d]):\n"
                             "  Z[l, d] = X[n=(l), d] * 0.3\n"
                             "  B[l, m] = einsum(Z[l, d], M[m, d])\n"
                             "  V[n, l] = softmax(einsum(X[n, d], Z[l, d]), reduced_dim=l)\n"
                             "  S[n, m] = einsum(V[n, l], B[l, m])\n"
                             "  W[n, m] = softmax(S[n, m], reduced_dim=m)\n"
                             "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"))));
    for (const auto& [n, m] : {std::pair<Index, Index>{7, 4}, {4, 7}, {7, 7}}) {
      const Call call{noise({2, n, 12}, 1), noise({2, m, 12}, 2)};
      const Outcome expected = outcome(layer, call, whole);
      CHECK(apart(outcome(layer, call, {.queries = 2, .samples = 1}), expected) < 1e-10);
    }
  }

  TEST_CASE("memory is linear in the length where statements are over the memory twice") {
    for (const char* name : {"contextual_positions", "masked_by_others"}) {
      CAPTURE(name);
      const auto program = load_attention(std::string(TEXTS) + "/causality/" + name + ".tete");
      const Tiled layer(program, Dtype::f32);
      const Tiling tiling{.keep = Tiling::Keep::never()};
      CHECK(peak_of(layer, 1200, tiling) < 2.6 * peak_of(layer, 600, tiling));
    }
  }

  TEST_CASE("amendments run in blocks too") {
    for (const auto& row :
         std::vector<std::pair<std::string, std::string>>{{"multi_head", "alibi"},
                                                          {"multi_head", "t5_bias"},
                                                          {"talking_heads", "t5_bias"},
                                                          {"talking_heads", "dropout"},
                                                          {"multi_head", "shaw"},
                                                          {"multi_head", "rotary"},
                                                          {"multi_head", "biases"},
                                                          {"multi_head", "contextual_bias"},
                                                          {"talking_heads", "learned"},
                                                          {"multi_head", "sinusoidal"}}) {
      const std::string variant = row.first, with = row.second;
      CAPTURE(variant + " with " + with);
      const Tiled layer(variant, {with});
      REQUIRE(!layer.program->tile.inside.empty());
      for (Call call : calls(*layer.program, 11, 11)) {
        if (with == "dropout") call.dropout = 0.3;
        const Outcome expected = outcome(layer, call, whole);
        for (const Tiling& tiling :
             {Tiling{.queries = 1, .samples = 1},
              Tiling{.queries = 4, .samples = 2, .keep = Tiling::Keep::never()}})
          CHECK(apart(outcome(layer, call, tiling), expected) < 1e-11);
      }
    }
  }

  TEST_CASE("attention in one pass is the same in blocks, in one, and in steps") {
    for (const auto& [variant, with] :
         std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"multi_head", {}},
             {"talking_heads", {}},
             {"grouped_query", {"rotary", "scaled"}},
             {"grouped_query", {"alibi"}},
             {"multi_head", {"t5_bias"}},
             {"multi_head", {"alibi", "dropout"}},
             {"sliding_window", {"t5_bias"}},
             {"talking_heads", {"t5_bias", "dropout"}}}) {
      const std::string name = variant + (with.empty() ? "" : " with " + with.back());
      CAPTURE(name);
      const Tiled layer(variant, with);
      for (const auto& lengths : {std::pair<Index, Index>{70, 70}, {70, 93}, {18, 131}}) {
        const bool is_of_itself = layer.program->inputs.size() == 1;
        if (is_of_itself && lengths.first != lengths.second) continue;
        for (Call call : calls(*layer.program, lengths.first, lengths.second)) {
          if (!with.empty() && with.back() == "dropout") call.dropout = 0.3;
          CAPTURE(lengths.first);
          CAPTURE(lengths.second);
          CAPTURE(call.mask.causal);
          const Outcome at_once = outcome(layer, call, whole);
          Call looked = call;
          looked.watched = true;
          CHECK(apart(outcome(layer, looked, whole), at_once) == 0);
          // A block of fewer than 16 queries runs the steps.
          for (const Tiling& tiling :
               {Tiling{}, Tiling{.queries = 33, .samples = 2}, Tiling{.queries = 5},
                Tiling{.queries = 17, .keep = Tiling::Keep::never()}}) {
            const Outcome in_blocks = outcome(layer, call, tiling);
            CHECK(apart(in_blocks, at_once) < 1e-11);
            CHECK(apart(outcome(layer, looked, tiling), in_blocks) == 0);
          }
        }
      }
    }
  }

  TEST_CASE("attention stores no pair of queries and memory, whatever a causal mask hides") {
    for (const auto& [variant, with] :
         std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"multi_head", {}},
             {"multi_head", {"alibi"}},
             {"multi_head", {"t5_bias"}},
             {"sliding_window", {}},
             {"talking_heads", {}},
             {"talking_heads", {"alibi"}}}) {
      const std::string name = variant + (with.empty() ? "" : " with " + with[0]);
      CAPTURE(name);
      const Tiled layer(variant, with, Dtype::f32);
      const auto held = [&](const Tiling& tiling) {
        const Tensor X = noise({2, 400, 12}, 1, Dtype::f32).variable();
        return MadeAndKept([&] {
                 return layer.attention({.params = layer.values, .tiling = tiling}, "", X, X);
               })
            .kept;
      };
      // Blocks of few queries run the steps, whose values are too many to be kept.
      Tiling few{.queries = 12};
      few.keep.least = few.keep.share = 0;
      CHECK(held(few) < 2 * held({}));
      // Values that are not over queries and memory are kept, however long it is.
      if (cpu().attends(100, 0) && name == "multi_head") {
        const auto kept = [&](Index queries, Index length) {
          return held({.queries = queries, .keep = {.least = 0, .share = 1e9, .length = length}});
        };
        CHECK(kept(100, 10) == kept(100, 1000));
        CHECK(kept(12, 10) < kept(12, 1000));  // it runs in steps
        CHECK(kept(100, 10) > held({.queries = 100, .keep = Tiling::Keep::never()}));
      }
      for (const Tiling& tiling : {whole, Tiling{}})
        for (const bool causal : {false, true}) {
          CAPTURE(causal);
          const auto peak = [&](Index n) {
            const Call call{noise({1, n, 12}, 1, Dtype::f32), {}, {.causal = causal}};
            return peak_of([&] { outcome(layer, call, tiling); });
          };
          CHECK(peak(2048) < 4.2 * peak(512));
          CHECK(peak(2048) < 2048.0 * 2048 * 4);
        }
    }
  }

  TEST_CASE("a tile that one kernel computes in linear memory is not cut") {
    if (!cpu().attends(100, 0)) return;
    const auto tiles = [](const Tiled& layer, const Mask& mask, const Tiling& tiling = {}) {
      const Tensor X = noise({3, 300, 12}, 1).variable(),
                   M = layer.program->inputs.size() == 1 ? X : noise({3, 300, 12}, 2).variable();
      int count = 0;
      const RecordWatch watch([&](const Tensor& made) {
        count += std::string(made.made_by()->op) == "tile";
        return made;
      });
      layer.attention({.params = layer.values, .tiling = tiling}, "", X, M, mask);
      return count;
    };
    const Mask pairs{.visible = Tensor::ones({3, 300, 300}, Dtype::f64)};
    for (const char* name : {"multi_head", "talking_heads"}) {
      CAPTURE(name);
      const Tiled layer(name);
      CHECK(tiles(layer, {}) == 0);
      CHECK(tiles(layer, {.causal = true}) == 0);
      CHECK(tiles(layer, {}, {.queries = 100}) == 1);
      CHECK(tiles(layer, pairs) == 1);
    }
    for (const char* bias : {"alibi", "t5_bias"})
      CHECK(tiles(Tiled("multi_head", {bias}), {}) == 0);
    // The gradient of a bias of mixed heads takes memory for pairs, that of a memory which heads
    // share takes it for each head.
    CHECK(tiles(Tiled("talking_heads", {"t5_bias"}), {}) == 1);
    CHECK(tiles(Tiled("multi_query"), {}) == 1);
    CHECK(tiles(Tiled("grouped_query"), {}) == 1);
    CHECK(tiles(Tiled("sliding_window"), {}) == 1);  // blocks need not look far
    const auto text_with = [](const char* parameter, const char* scale, const std::string& rest) {
      return Tiled(load_attention(Program::parse(text("def F(X[a, u], M[b, u]", parameter,
                                                      "):\n"
                                                      "  where k = 8",
                                                      *parameter ? ", g = 8" : "",
                                                      "\n"
                                                      "  Q[a, u, k] = X[a, u] * exp(-index(k))\n"
                                                      "  K[b, u, k] = M[b, u] * exp(-index(k))\n"
                                                      "  S[a, b, k] = ",
                                                      scale, "einsum(Q[a, u, k], K[b, u, k])\n",
                                                      rest, "  return Y[a, u]\n"))));
    };
    const auto single = [&](const char* result) {
      return text_with("", "0.3 * ",
                       text("  P[a, b, k] = softmax(S[a, b, k], reduced_dim=b)\n"
                            "  O[a, u, k] = einsum(P[a, b, k], K[b, u, k])\n  ",
                            result, "\n"));
    };
    CHECK(tiles(single("Y[a, u]    = sum(O[a, u, k], reduced_dim=k)"), {}) == 0);
    // Others read the weights, too.
    CHECK(tiles(single("Y[a, u]    = einsum(O[a, u, k], P[a, b, k], M[b, u])"), {}) == 1);
    // The kernel takes one matrix of a mix for all samples.
    const char* const mixed =
        "  L[a, b, g] = einsum(S[a, b, k], Z[k, g])\n"
        "  P[a, b, g] = softmax(L[a, b, g], reduced_dim=b)\n"
        "  V[b, u, g] = M[b, u] * exp(-index(g))\n"
        "  O[a, u, g] = einsum(P[a, b, g], V[b, u, g])\n"
        "  Y[a, u]    = sum(O[a, u, g], reduced_dim=g)\n";
    CHECK(tiles(text_with(", R[k, g] = normal(1)", "", text("  Z[k, g] = tanh(R[k, g])\n", mixed)),
                {}) == 0);
    CHECK(tiles(text_with(", R[u, k, g] = normal(1)", "",
                          text("  N[u] = mean(M[b, u], reduced_dim=b)\n"
                               "  Z[k, g] = einsum(N[u], R[u, k, g])\n",
                               mixed)),
                {}) == 1);
  }

  TEST_CASE("who looks at what an uncut tile returns, or gives it back, changes no bit") {
    const Tensor X = noise({3, 300, 12}, 1).variable();
    for (const char* name : {"multi_head", "talking_heads"}) {
      CAPTURE(name);
      const Tiled layer(name);
      int watched = 0, replaced = 0;
      const auto is_exit = [](const std::string& path) { return path == "O"; };
      Forward plain{.params = layer.values, .watch = {}}, looked = plain, given = plain;
      looked.watched = given.replaced = is_exit;
      looked.watch = [&](const std::string&, const Tensor&) { ++watched; };
      given.replace = [&](const std::string&, const Tensor& x) { return ++replaced, x; };
      const auto made = [&](const Forward& forward) {
        const Tensor Y = layer.attention(forward, "", X, X);
        Tensors all = grad(sum(square(Y)), {{layer.values[0], layer.values[1], X}});
        return all.push_back(Y), all;
      };
      const Tensors expected = made(plain), seen = made(looked), back = made(given);
      CHECK(watched == 1);
      CHECK(replaced == 1);
      for (size_t i = 0; i < expected.size(); ++i) {
        CHECK(difference(seen[i], expected[i]) == 0);
        CHECK(difference(back[i], expected[i]) == 0);
      }
    }
  }

  TEST_CASE("a mask by distance of each head's own takes no memory for pairs") {
    const Tiled layer(
        load_attention(Program::parse("def F(X[n, d], M[m, d], P[d, c, h] = normal(1)):\n"
                                      "  where c = 4\n"
                                      "  Q[n, c, h] = einsum(X[n, d], P[d, c, h])\n"
                                      "  K[m, c, h] = einsum(M[m, d], P[d, c, h])\n"
                                      "  L[n, m, h] = einsum(Q[n, c, h], K[m, c, h])\n"
                                      "  W[n, m, h] = softmax(L[n, m, h], reduced_dim=m, "
                                      "mask=position(n) - position(m) < 8 * (index(h) + 1))\n"
                                      "  O[n, c, h] = einsum(W[n, m, h], K[m, c, h])\n"
                                      "  Y[n, d]    = einsum(O[n, c, h], P[d, c, h])\n"
                                      "  return Y[n, d]\n")),
        Dtype::f32);
    for (const Tiling& tiling : {whole, Tiling{}})
      if (cpu().attends(100, 0))
        CHECK(peak_of(layer, 1024, tiling) < 4.2 * peak_of(layer, 256, tiling));
  }

  TEST_CASE("the number of threads changes no bit, nor does keeping, nor looking") {
    const int before = threads();
    for (const char* name :
         {"talking_heads", "dynamic_projections", "random_synthesizer", "multi_head"})
      for (const bool causal : {false, true}) {
        CAPTURE(name);
        const Tiled layer(name, {}, Dtype::f32);
        const Call call{noise({3, 45, 12}, 1, Dtype::f32), {}, {.causal = causal}};
        if (layer.program->find_dimension("max_n") >= 0) continue;
        const Tiling again{.queries = 4, .samples = 1, .keep = Tiling::Keep::never()};
        Tiling kept = again;
        kept.keep = Tiling::Keep::always();
        set_threads(1);
        const Outcome one = outcome(layer, call, again);
        set_threads(3);
        CHECK(apart(outcome(layer, call, again), one) == 0);
        CHECK(apart(outcome(layer, call, kept), one) == 0);
        Call looked = call;
        looked.watched = true;
        CHECK(apart(outcome(layer, looked, again), one) == 0);
        set_threads(before);
      }
  }

  TEST_CASE("who looks sees every value as it is without blocks") {
    for (const bool causal : {false, true}) {
      const Tiled layer("talking_heads", {"t5_bias"});
      const Tensor X = noise({3, 11, 12}, 1);
      std::map<std::string, Tensor> seen[2];
      for (int k = 0; k < 2; ++k) {
        Forward forward{.params = layer.values, .watch = {}};
        forward.tiling = k == 0 ? whole : Tiling{.queries = 4, .samples = 2};
        forward.watch = [&, k](const std::string& name, const Tensor& x) { seen[k][name] = x; };
        layer.attention(forward, "", X, X, {.causal = causal});
      }
      REQUIRE(seen[0].size() == seen[1].size());
      REQUIRE(seen[0].count("W") == 1);
      for (const auto& named : seen[0]) {
        CAPTURE(named.first);
        const Tensor x = named.second.detach(), y = seen[1].at(named.first).detach();
        CHECK(difference(x, y) < 1e-12);
      }
    }
  }

  TEST_CASE("a tile's second derivatives are those of its meaning") {
    const Tiled layer("talking_heads");
    const Tensor X = noise({2, 5, 12}, 1).variable(), v = noise({2, 5, 12}, 2);
    Tensor products[2];
    for (int k = 0; k < 2; ++k) {
      Forward forward{.params = layer.values, .watch = {}};
      forward.tiling = k == 0 ? whole : Tiling{.queries = 2, .samples = 1};
      const Tensor Y = layer.attention(forward, "", X, X, {.causal = true});
      products[k] = hvp(sum(square(Y)), {{X}}, {{v}})[0];
    }
    CHECK(difference(products[0], products[1]) < 1e-10);
  }

  TEST_CASE("a check in blocks says which value is not finite, in strips too") {
    for (const char* infinite : {"A[n, l] = exp(300 * einsum(X[n, d], C[l, d]))",
                                 "G[l, m] = exp(300 * einsum(C[l, d], M[m, d]))"}) {
      CAPTURE(infinite);
      const std::string name(infinite, 1);
      const auto program = load_attention(
          Program::parse(text("def F(X[n, d], M[m, d]):\n"
                              "  where l = m\n"
                              "  L[n, m] = einsum(X[n, d], M[m, d])\n"
                              "  C[l, d] = M[m=(l), d]\n  ",
                              infinite, "\n  ",
                              name == "A" ? "G[l, m] = tanh(einsum(C[l, d], M[m, d]))"
                                          : "A[n, l] = tanh(einsum(X[n, d], C[l, d]))",
                              "\n  B[n, m] = softmax(einsum(A[n, l], G[l, m]), reduced_dim=m)\n"
                              "  Y[n, d] = einsum(B[n, m], L[n, m], M[m, d])\n"
                              "  return Y[n, d]\n")));
      REQUIRE(!program->strips.empty());
      const GradReport report = check_gradient(program, {.d_model = 6}, {.block = 2});
      CAPTURE(report);
      REQUIRE(report.fault);
      CHECK(report.fault->kind == FaultKind::value);
      CHECK(report.fault->value == name);
    }
  }

  TEST_CASE("memory does not grow with queries times memory") {
    const Tiled layer("talking_heads", {}, Dtype::f32);
    const Tiling tiling{.queries = 16, .keep = Tiling::Keep::never()};
    CHECK(peak_of(layer, 512, tiling) < 2.2 * peak_of(layer, 256, tiling));
  }

  TEST_CASE("what blocks make is kept only while that leaves memory linear") {
    const Tiled layer("dynamic_projections", {}, Dtype::f32);  // it stores pairs
    const auto peak = [&](Index n, const Tiling::Keep& keep) {
      return peak_of(layer, n, {.queries = 16, .keep = keep});
    };
    // The tensors that blocks make take between 4 and 1000 times the bytes of what they get and
    // leave.
    for (Index n : {128, 256}) {
      const double again = peak(n, Tiling::Keep::never());
      CAPTURE(n);
      CHECK(peak(n, {}) > 1.5 * again);
      CHECK(peak(n, {.least = 0, .share = 1000}) > 1.5 * again);
      CHECK(peak(n, {.least = 0, .share = 4}) == again);
      CHECK(peak(n, {.least = 0, .share = 1000, .bytes = 1e4}) == again);
      CHECK(peak(n, {.least = 0, .share = 1000, .length = n - 1}) == again);
    }
  }

  TEST_CASE("what is given follows from nothing inside") {
    const Checked gated =
        check(Program::parse("def F(X[n, d], M[m, d]):\n"
                             "  L[n, m] = einsum(X[n, d], M[m, d])\n"
                             "  W[n, m] = softmax(L[n, m], reduced_dim=m)\n"
                             "  O[n, d] = einsum(W[n, m], M[m, d])\n"
                             "  G[n, d] = O[n, d] * X[n, d]\n"
                             "  S[n] = max(W[n, m], reduced_dim=m)\n"
                             "  Y[n, d] = G[n, d] + S[n] * max(L[n, m], reduced_dim=m)\n"
                             "  return Y[n, d]\n"));
    const std::vector<int>& inside = gated.tile.inside;
    const int between = gated.find_value("G");
    CHECK(std::find(inside.begin(), inside.end(), between) != inside.end());
    for (const char* given : {"X", "M"}) {
      const int number = gated.find_value(given);
      const std::vector<int>& all = gated.tile.given;
      CHECK(std::find(all.begin(), all.end(), number) != all.end());
    }
    CHECK(gated.tile.given.size() == 2);
  }

  TEST_CASE("what needs all queries at once is not cut, and says why") {
    const auto refusal = [](const std::string& text) {
      return check(Program::parse(text), {}, catalogue()).tile.reason;
    };
    CHECK(refusal("def F(X[n, d], M[m, d]):\n"
                  "  L[n, m] = einsum(X[n, d], M[m, d])\n"
                  "  W[n, m] = softmax(L[n, m], reduced_dim=n)\n"
                  "  Y[n, d] = einsum(W[n, m], M[m, d])\n"
                  "  return Y[n, d]\n")
              .find("'W' is over queries and memory and needs all queries at once: softmax runs "
                    "along 'n'") != std::string::npos);
    const auto reason = [](const std::string& statements) {
      return check(Program::parse("def F(X[n, d], M[m, d]):\n"
                                  "  L[n, m] = einsum(X[n, d], M[m, d])\n" +
                                  statements + "  return Y[n, d]\n"))
          .tile.reason;
    };
    const std::string whole = "'W' is over queries and memory and needs all queries at once: ";
    const std::string end = "  Y[n, d] = einsum(W[n, m], M[m, d])\n";
    CHECK(reason("  W[n, m] = L[n, m] / n\n" + end) == whole + "the length 'n' stands in it");
    CHECK(reason("  W[n, m] = L[n, m] * sum(L[n, m], reduced_dim=n)\n" + end) ==
          whole + "sum runs along 'n'");
    CHECK(reason("  W[n, m] = L[n, m] + L[0, m]\n" + end) ==
          whole + "it picks, splits or renames the queries of 'L'");
    CHECK(reason("  S[m] = einsum(L[n, m], X[n, 0])\n  Y[n, d] = X[n, d] * sum(S[m], "
                 "reduced_dim=m)\n") ==
          "'S' needs all queries at once: it leaves no dimension of theirs");
    CHECK(reason("  W[n, m] = L[n, m] + X[n, 0]\n" + end) == "");
    CHECK(refusal("def F(X[n, d], M[m, d]):\n"
                  "  L[n, m] = einsum(X[n, d], M[m, d])\n"
                  "  return L[n, m]\n")
              .find("'L' is over queries and memory, and is read after") != std::string::npos);
    CHECK(refusal("def F(X[n, d], M[m, d]):\n  return X[n, d]\n") == "");
    const std::string att =
        "def Att(X[n, d], M[m, d]):\n  W[n, m] = softmax(einsum(X[n, d], M[m, d]), reduced_dim=m)\n"
        "  Y[n, d] = einsum(W[n, m], M[m, d])\n  return Y[n, d]\n"
        "def Act(X[n, d], P[d, d_Y] = normal(1)):\n  where d_Y = d\n"
        "  Y[n, d_Y] = tanh(einsum(X[n, d], P[d, d_Y]))\n  return Y[n, d_Y]\n";
    const auto around = [&](const std::string& act, const std::string& sizes = "") {
      return refusal(att + "def F(X[n, d], M[m, d]):\n" + sizes +
                     "  A[n, d] = Att(X[n, d], M[m, d])\n  B[n, d] = " + act +
                     "\n  Y[n, d] = Att(B[n, d], M[m, d])\n  return Y[n, d]\n");
    };
    CHECK(around("Act(A[n, d]) repeated u", "  where u = 2\n") ==
          "'B' lies between values over queries and memory, and is a call that runs by itself");
    CHECK(around("tanh(A[n, d])") == "");
  }
}
