// Amendments of attention - positions, biases, dropout - are held against loops written from the
// papers, on multi-head attention and on talking heads; each takes effect where it should.
#include "tests/layer.hpp"
#include "tests/loops.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// Changes one of the paper's tensors; those before it are there by their letters.
struct Step {
  const char* tensor;
  std::function<void(Arrays& now, const Sample&)> change;
};

// Multi-head attention, or talking heads where P_l and P_w are given, with steps in between.
Array amended(const Sample& s, const std::vector<Step>& steps, bool scaled) {
  Arrays now;
  const auto put = [&](const std::string& name, Array a) -> const Array& {
    now[name] = std::move(a);
    for (const Step& step : steps)
      if (step.tensor == name) step.change(now, s);
    return now[name];
  };
  const auto talk = [&](const Array& A, const char* P) {
    return s.parameters.contains(P) ? mixed(A, s[P]) : A;
  };
  put("X", s.X), put("M", s.M);
  put("Q", projected(now["X"], s["P_q"])), put("K", projected(now["M"], s["P_k"]));
  put("V", projected(now["M"], s["P_v"]));
  put("J", dots(now["Q"], now["K"]));
  put("L", times(talk(now["J"], "P_l"), scaled ? 1 / std::sqrt(double(s["P_q"].shape[1])) : 1));
  put("W", soft(now["L"], s.seen));
  put("U", talk(now["W"], "P_w"));
  put("O", weighed(now["U"], now["V"]));
  return put("Y", joined(now["O"], s["P_o"]));
}

// T5's bucket of key - query: how many of the distances at which it changes are not farther
// (Raffel et al. 2020, as its code gives them), and the other half where the key comes later.
int t5_bucket(int distance, bool causal) {
  static const std::vector<int> both = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  static const std::vector<int> past = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                        12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35,
                                        40, 46, 52, 59, 67, 77, 87, 99, 113};
  const auto reached = [](const std::vector<int>& changes, int far) {
    return static_cast<int>(
        std::count_if(changes.begin(), changes.end(), [&](int at) { return at <= far; }));
  };
  if (causal) return reached(past, -distance);
  return reached(both, std::abs(distance)) + (distance > 0 ? 16 : 0);
}

// L[i, j, h] += bias(i, j, h).
template <class Bias>
void add_to(Array& L, const Bias& bias) {
  loop(L.shape, [&](auto& i) { L(i[0], i[1], i[2]) += bias(i[0], i[1], i[2]); });
}

Step t5_bias{"L", [](Arrays& now, const Sample& s) {
               add_to(now["L"], [&](int i, int j, int h) {
                 return s["T5Bias.B"](h, t5_bucket(j - i - s.first, s.causal));
               });
             }};

Step contextual_bias{"L", [](Arrays& now, const Sample& s) {
                       const Array &Q = now["Q"], &A = s["ContextualBias.A"];
                       add_to(now["L"], [&](int i, int j, int h) {
                         return total(Q.shape[1], [&](int k) {
                           return Q(i, k, h) * A(h, k, t5_bucket(j - i - s.first, s.causal));
                         });
                       });
                     }};

Step alibi{"L", [](Arrays& now, const Sample& s) {
             add_to(now["L"], [&](int i, int j, int h) {
               return -std::pow(2.0, -8.0 * (h + 1) / s.size("h")) * std::abs(j - i - s.first);
             });
           }};

// Tables of 2·2 + 1 distances: row 0 is for two or more before.
int clipped(int distance) { return std::clamp(distance, -2, 2) + 2; }
Step shaw_keys{"J", [](Arrays& now, const Sample& s) {
                 const Array &Q = now["Q"], &K = now["K"], &A = s["ShawKeys.A_k"];
                 now["J"] = fill({Q.shape[0], K.shape[0], Q.shape[2]}, [&](int i, int j, int h) {
                   return total(Q.shape[1], [&](int k) {
                     return Q(i, k, h) * (K(j, k, h) + A(clipped(j - i - s.first), k));
                   });
                 });
               }};
Step shaw_values{"O", [](Arrays& now, const Sample& s) {
                   const Array &U = now["U"], &V = now["V"], &A = s["ShawValues.A_v"];
                   now["O"] = fill({U.shape[0], V.shape[1], U.shape[2]}, [&](int i, int v, int h) {
                     return total(U.shape[1], [&](int j) {
                       return U(i, j, h) * (V(j, v, h) + A(clipped(j - i - s.first), v));
                     });
                   });
                 }};

// The position of a tensor's first row.
int first_of(const std::string& tensor, const Sample& s) {
  return tensor == "Q" || tensor == "X" ? s.first : 0;
}

// Pairs (2t, 2t+1) of the heads' entries, turned by their position times 10000^(-2t/d_k).
Step turned(const char* tensor) {
  return {tensor, [tensor](Arrays& now, const Sample& s) {
            const Array A = now[tensor];
            const int d_k = A.shape[1], first = first_of(tensor, s);
            loop(A.shape, [&](auto& i) {
              const int even = i[1] / 2 * 2;
              const double angle = (first + i[0]) * std::pow(10000.0, -double(even) / d_k);
              const double x = A(i[0], even, i[2]), y = A(i[0], even + 1, i[2]);
              now[tensor](i[0], i[1], i[2]) = i[1] == even
                                                  ? x * std::cos(angle) - y * std::sin(angle)
                                                  : x * std::sin(angle) + y * std::cos(angle);
            });
          }};
}

// Pairs (t, t + r/2) of the first r of the heads' entries, turned likewise.
Step turned_halves(const char* tensor, int parts = 1) {
  return {tensor, [=](Arrays& now, const Sample& s) {
            const Array A = now[tensor];
            const int r = A.shape[1] / parts, half = r / 2, first = first_of(tensor, s);
            loop(A.shape, [&](auto& i) {
              if (i[1] >= r) return;
              const int t = i[1] % half;
              const double angle = (first + i[0]) * std::pow(10000.0, -2.0 * t / r);
              const double x = A(i[0], t, i[2]), y = A(i[0], t + half, i[2]);
              now[tensor](i[0], i[1], i[2]) = i[1] < half
                                                  ? x * std::cos(angle) - y * std::sin(angle)
                                                  : x * std::sin(angle) + y * std::cos(angle);
            });
          }};
}

Step scaled_dots{"J", [](Arrays& now, const Sample&) {
                   now["J"] = times(now["J"], 1 / std::sqrt(double(now["Q"].shape[1])));
                 }};

// A[i, d] plus rows of a table, or plus sines and cosines.
Step with_row(const char* tensor, const char* table) {
  return {tensor, [=](Arrays& now, const Sample& s) {
            Array& A = now[tensor];
            const int first = first_of(tensor, s);
            loop(A.shape, [&](auto& i) { A(i[0], i[1]) += s[table](first + i[0], i[1]); });
          }};
}
Step with_waves(const char* tensor) {
  return {tensor, [=](Arrays& now, const Sample& s) {
            Array& A = now[tensor];
            const int half = A.shape[1] / 2, first = first_of(tensor, s);
            loop(A.shape, [&](auto& i) {
              const double angle =
                  (first + i[0]) * std::pow(10000.0, -double(i[1] % half) / (half - 1));
              A(i[0], i[1]) += i[1] < half ? std::sin(angle) : std::cos(angle);
            });
          }};
}
Step with_bias(const char* tensor, const char* bias) {
  return {tensor, [=](Arrays& now, const Sample& s) {
            Array& A = now[tensor];
            const size_t each = s[bias].v.size();
            for (size_t i = 0; i < A.v.size(); ++i) A.v[i] += s[bias].v[i % each];
          }};
}

struct Row {
  std::vector<std::string> names;
  std::vector<Step> steps;
  SizesByName dims = {};
  bool same_heads = false;  // as many of the queries as of the softmax
};

const Row rows[] = {
    {{"t5_bias"}, {t5_bias}},
    {{"contextual_bias"}, {contextual_bias}, {}, true},
    {{"alibi"}, {alibi}},
    {{"shaw"}, {shaw_keys, shaw_values}, {{"ShawKeys.k", 2}, {"ShawValues.k", 2}}},
    {{"rotary"}, {turned("Q"), turned("K")}},
    {{"rotary_halves"}, {turned_halves("Q"), turned_halves("K")}},
    {{"rotary_quarter"}, {turned_halves("Q", 4), turned_halves("K", 4)}, {{"d_k", 16}}},
    {{"scaled"}, {scaled_dots}},
    {{"learned"},
     {with_row("X", "LearnedQueries.E"), with_row("M", "LearnedMemory.E")},
     {{"LearnedQueries.max_n", 9}, {"LearnedMemory.max_m", 8}}},
    {{"sinusoidal"}, {with_waves("X"), with_waves("M")}},
    {{"biases"},
     {with_bias("Q", "QueryBias.b"), with_bias("K", "KeyBias.b"), with_bias("V", "ValueBias.b"),
      with_bias("Y", "OutputBias.b")}},
    {{"dropout"}, {}},  // where nothing is trained
    {{"biases", "rotary", "shaw", "t5_bias"},
     {with_bias("Q", "QueryBias.b"), with_bias("K", "KeyBias.b"), with_bias("V", "ValueBias.b"),
      with_bias("Y", "OutputBias.b"), turned("Q"), turned("K"), shaw_keys, shaw_values, t5_bias},
     {{"ShawKeys.k", 2}, {"ShawValues.k", 2}}},
};

Layer layer_with(const std::string& variant, const AttentionSizes& sizes, const char* amendment) {
  return Layer(variant, sizes, Dtype::f64, {*find_amendment(amendment).program});
}

// The values that a call shows, by name.
TensorsByName shown(const Layer& layer, const Tensor& X, const Tensor& M, const Mask& mask = {},
                    double dropout = 0) {
  TensorsByName seen;
  const Forward forward{.params = layer.values,
                        .training = dropout > 0,
                        .dropout = dropout,
                        .key = Key(11),
                        .watch = [&](const std::string& name, const Tensor& x) { seen[name] = x; }};
  layer.attention(forward, "", X, M, mask);
  return seen;
}

}  // namespace

TEST_CASE("every amendment equals its paper's formulas in loops, and its gradient their slopes") {
  std::vector<std::string> held;
  for (const Row& row : rows) {
    held.insert(held.end(), row.names.begin(), row.names.end());
    for (const char* base : {"multi_head", "multi_head_scaled", "talking_heads"}) {
      CAPTURE(row.names[0]);
      CAPTURE(base);
      const bool talks = std::string(base) == "talking_heads";
      AttentionSizes sizes{.d_model = 8, .memory_width = 6, .heads = 3, .dims = row.dims};
      sizes.dims.try_emplace("d_k", 4), sizes.dims["d_v"] = 5;
      if (talks) sizes.dims["h_k"] = row.same_heads ? 3 : 2, sizes.dims["h_v"] = 4;
      const bool scaled = std::string(base) == "multi_head_scaled";
      hold_against_loops(load_attention(base, row.names), sizes,
                         [&](const Sample& s) { return amended(s, row.steps, scaled); });
    }
  }
  for (const Variant& amendment : amendments())
    CHECK(std::count(held.begin(), held.end(), amendment.name) > 0);
}

TEST_CASE(
    "T5's buckets change at the distances that its code gives, and are the softmax's heads'") {
  const Index n = 130;
  Layer layer = layer_with("talking_heads",
                           {.d_model = 4, .heads = 3, .dims = {{"h_k", 2}, {"d_k", 2}, {"d_v", 2}}},
                           "t5_bias");
  REQUIRE(layer["T5Bias.B"].shape() == Shape{3, 32});
  std::vector<double> numbers;
  for (int i = 0; i < 3 * 32; ++i) numbers.push_back(i);
  layer["T5Bias.B"] = Tensor::of<double>({3, 32}, numbers);
  const Tensor X = Tensor::zeros({n, 4}, Dtype::f64);
  for (bool causal : {false, true}) {
    // The dot products are 0: L is the bias.
    const std::vector<double> L = shown(layer, X, X, {.causal = causal}).at("L").values();
    int wrong = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        for (int h = 0; h < 3; ++h)
          wrong += L[(i * n + j) * 3 + h] != 32 * h + t5_bucket(j - i, causal);
    CHECK(wrong == 0);
  }
}

TEST_CASE("rotary scores depend on distances, and only on them") {
  Layer layer = layer_with("talking_heads", {.d_model = 8, .heads = 2, .dims = {}}, "rotary");
  // The same vector everywhere.
  const Tensor X = broadcast(noise({1, 8}, 1), {9, 8}), M = broadcast(noise({1, 8}, 2), {9, 8});
  const Tensor J = shown(layer, X, M).at("J");
  const auto part = [&](Index i) { return slice(slice(J, 0, i, 8), 1, i, 8); };
  CHECK(difference(part(0), part(1)) < 1e-12);
  CHECK(difference(slice(J, 0, 0, 1), slice(J, 0, 1, 1)) > 0.1);
}

TEST_CASE("self-attention that takes M from X adds positions once") {
  Layer window =
      layer_with("sliding_window", {.d_model = 8, .heads = 2, .dims = {{"w", 9}}}, "sinusoidal");
  Layer multi = layer_with("multi_head", {.d_model = 8, .heads = 2, .dims = {}}, "sinusoidal");
  window.take(multi);
  const Tensor X = noise({2, 5, 8}, 1);
  CHECK(difference(window(X, X), multi(X, X)) < 1e-12);
}

TEST_CASE("dropout falls on what multiplies V, once for all queries, and keeps its mean") {
  const AttentionSizes sizes{.d_model = 8, .heads = 2, .dims = {}};
  const Tensor X = noise({2, 3, 8}, 1), M = noise({2, 400, 8}, 2);
  for (const std::string base : {"multi_head", "talking_heads"}) {
    CAPTURE(base);
    const std::string at = base == "multi_head" ? "W" : "U";
    AttentionSizes with = sizes;
    if (base == "talking_heads") with.dims = {{"h_v", 4}};
    const Layer layer = layer_with(base, with, "dropout");
    const TensorsByName seen = shown(layer, X, M, {}, 0.3);
    const Tensor before = seen.at("WeightDropout.U"), after = seen.at(at);
    // [2, 3, 400, heads]: 0 or 1 / 0.7.
    const std::vector<double> kept = (after / before).values();
    const size_t row = 400 * static_cast<size_t>(after.size(3)), sample = 3 * row;
    size_t dropped = 0, wrong = 0, alike = 0;
    for (size_t b = 0; b < 2; ++b)
      for (size_t i = 0; i < row; ++i) {
        const double first = kept[b * sample + i];
        wrong += first != 0 && std::abs(first - 1 / 0.7) > 1e-12;
        for (size_t query = 1; query < 3; ++query)
          wrong += std::abs(kept[b * sample + query * row + i] - first) > 1e-12;
        dropped += first == 0;
        alike += first == kept[i] && first == kept[i ^ 1];
      }
    CHECK(wrong == 0);
    CHECK(static_cast<double>(dropped) / static_cast<double>(2 * row) ==
          doctest::Approx(0.3).epsilon(0.1));
    CHECK(alike < 2 * row * 3 / 4);  // heads and samples have noise of their own
    CHECK(difference(seen.at("O"), einsum("b n m h, b m v h -> b n v h", after, seen.at("V"))) <
          1e-12);
    const TensorsByName quiet = shown(layer, X, M);
    CHECK(difference(quiet.at(at), quiet.at("WeightDropout.U")) == 0);
    CHECK(difference(quiet.at(at), before) < 1e-12);
  }
}
