// Mistakes that people make, planted: a text with one of them (or numbers, or a mask) stands for
// somebody else's implementation. Each row has the place where it first parts from the right text
// and either the explanation or none: one that is wrong is worse than none.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attention/against.hpp"
#include "attention/attention.hpp"
#include "nn/param.hpp"
#include "tests/written.hpp"

namespace tete::tests {

using Edit = void (*)(Evaluation& run, const Checked& program);
using ArgumentEdit = void (*)(TensorsByName& arguments);

struct Planted {
  const char* variant;
  std::vector<std::string> with;
  const char *from, *to;      // of the text or of what amends it, everywhere
  const char *place, *guess;  // "": nothing explains it
  SizesByName sizes = {};
  const char *mask = "causal", *their_mask = nullptr;
  Edit edit = nullptr;                 // of values
  ArgumentEdit arguments = nullptr;    // which they compute from
  std::vector<std::string> only = {};  // the values that they give; empty: all
};

// Two heads, four wide: no size but n and m is another's.
inline SizesByName sizes_of(const Planted& p) {
  SizesByName sizes = {{"n", 5}, {"m", 5}, {"d_X", 8}, {"d_M", 8}, {"d", 6}, {"h", 2}};
  if (std::string(p.variant).starts_with("talking"))
    sizes["h"] = 3, sizes["d_X"] = sizes["d_M"] = 12;
  for (const auto& [name, size] : p.sizes) sizes[name] = size;
  return sizes;
}

inline SizesByName known(const Checked& program, const SizesByName& sizes) {
  SizesByName all;
  for (const auto& [name, size] : sizes)
    if (program.find_dimension(name) >= 0) all[name] = size;
  return all;
}

inline std::shared_ptr<const Checked> program_of(const Planted& p, bool planted) {
  const auto read = [&](const Variant& v) {
    const std::string& text = v.program->source->text;
    return planted ? Program::parse(replaced(text, p.from, p.to), v.program->source->name)
                   : Program::parse(text, v.program->source->name);
  };
  std::vector<Program> with;
  for (const std::string& name : p.with) with.push_back(read(find_amendment(name)));
  return load_attention(read(find_variant(p.variant)), with);
}

inline Mask mask_named(const std::string& name, Index n, Index m) {
  if (name == "causal") return {.causal = true};
  if (name == "none") return {};
  std::vector<double> seen;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < m; ++j)
      seen.push_back(name == "strict" ? j < i : name == "ahead" ? j <= i + 1 : j > i);
  return {.visible = Tensor::of<double>({n, m}, std::span<const double>(seen))};
}

inline TensorsByName arguments_of(const std::shared_ptr<const Checked>& program,
                                  const SizesByName& set) {
  SizeTable sizes(program, known(*program, set));
  const Key key(3);
  TensorsByName all;
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    Shape shape = {2};
    for (int dim : program->values[program->inputs[i]].dims) shape.push_back(sizes.size(dim));
    all[program->input_names[i]] = random_normal(shape, key.fold(program->input_names[i]));
  }
  for (const ParameterSpec& made : parameter_specs(*program, sizes))
    all[made.spec.name] = made.spec.fixed
                              ? initial_value(made.spec, key, Dtype::f32)
                              : random_normal(made.spec.shape, key.fold(made.spec.name)) * 0.6;
  return all;
}

inline Tensor rounded(const Tensor& x, int bits) {
  std::vector<double> all = x.values();
  for (double& number : all) {
    int exponent = 0;
    const double fraction = std::frexp(number, &exponent);
    if (std::isfinite(number))
      number = std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
  }
  return cast(Tensor::of<double>(x.shape(), std::span<const double>(all)), x.dtype());
}

// Every value of a run in f32, each rounded to so many bits before the next is computed.
inline TensorsByName computed(const std::shared_ptr<const Checked>& program,
                              TensorsByName arguments, const RunOptions& options,
                              Edit edit = nullptr, int bits = 24) {
  for (auto& [name, x] : arguments) x = rounded(x, bits);
  Evaluation run(program, arguments, options);
  if (edit) edit(run, *program);
  TensorsByName all = arguments;
  for (int i = 0; i < static_cast<int>(program->values.size()); ++i) {
    if (program->is_argument(i) || !program->values[i].watched) continue;
    const Tensor x = run.value(i);
    if (bits < 24) run.set(i, rounded(x, bits));
    all.try_emplace(program->name_of(i), rounded(x, bits));
  }
  return all;
}

// ---- Numbers that are other than the text's ----

inline int numbered(const Checked& program, const char* name) {
  const int value = program.find_value(name);
  REQUIRE_MESSAGE(value >= 0, name);
  return value;
}

// [batch, n, d, h] turned by halves of d (t and t + d/2), not by neighbours.
inline Tensor turned(const Tensor& x, double base, bool halves, double first) {
  const Index n = x.size(1), d = x.size(2), h = x.size(3);
  std::vector<double> in = x.values(), out = in;
  for (Index b = 0; b < x.size(0); ++b)
    for (Index i = 0; i < n; ++i)
      for (Index t = 0; t < d / 2; ++t)
        for (Index k = 0; k < h; ++k) {
          const double angle =
              (static_cast<double>(i) + first) *
              std::pow(base, -2.0 * static_cast<double>(t) / static_cast<double>(d));
          const auto at = [&](Index c) {
            return static_cast<size_t>(((b * n + i) * d + c) * h + k);
          };
          const size_t p = at(halves ? t : 2 * t), q = at(halves ? t + d / 2 : 2 * t + 1);
          out[p] = in[p] * std::cos(angle) - in[q] * std::sin(angle);
          out[q] = in[p] * std::sin(angle) + in[q] * std::cos(angle);
        }
  return cast(Tensor::of<double>(x.shape(), std::span<const double>(out)), x.dtype());
}
inline void turn(Evaluation& run, const Checked& program, double base, bool halves, double first) {
  for (const auto& [before, after] :
       {std::pair{"RotaryQueries.Q", "RotaryQueries.Y"}, {"RotaryKeys.K", "RotaryKeys.Y"}})
    run.set(numbered(program, after),
            turned(run.value(numbered(program, before)), base, halves, first));
}

// The first query, which sees nothing under a strict mask.
inline void first_row(Evaluation& run, const Checked& program, double number) {
  const int W = numbered(program, "W");
  const Tensor w = run.value(W);
  std::vector<double> all = w.values();
  const auto block = static_cast<size_t>(w.size() / w.size(0)),
             row = block / static_cast<size_t>(w.size(1));
  for (size_t i = 0; i < all.size(); ++i)
    if (i % block < row) all[i] = number;
  run.set(W, cast(Tensor::of<double>(w.shape(), std::span<const double>(all)), w.dtype()));
}

// The same numbers in an array of which the first index moves fastest.
inline Tensor by_columns(const Tensor& x) {
  Axes back;
  Shape shape;
  for (int i = x.rank(); i-- > 0;) back.push_back(i), shape.push_back(x.size(i));
  return permute(reshape(x, shape), back);
}

template <class Of>
inline void change(Evaluation& run, const Checked& program, const char* name, const Of& of) {
  const int value = numbered(program, name);
  run.set(value, of(run.value(value)));
}
inline Tensor with_entry(const Tensor& x, size_t at, double number) {
  std::vector<double> all = x.values();
  all[at] = number;
  return cast(Tensor::of<double>(x.shape(), std::span<const double>(all)), x.dtype());
}

const SizesByName square = {{"d_X", 16}, {"d_M", 16}, {"h", 4}};  // d_k = h = 4, as often
const SizesByName one_size = {{"d_X", 4}, {"d_M", 4}, {"h", 2}, {"d_k", 4}};

inline void blind_uniform(Evaluation& run, const Checked& p) { first_row(run, p, 0.2); }
inline void blind_nan(Evaluation& run, const Checked& p) { first_row(run, p, NAN); }
inline void by_halves(Evaluation& run, const Checked& p) { turn(run, p, 10000, true, 0); }
inline void base_1000(Evaluation& run, const Checked& p) { turn(run, p, 1000, false, 0); }
inline void from_1(Evaluation& run, const Checked& p) { turn(run, p, 10000, false, 1); }
inline void V_by_columns(Evaluation& run, const Checked& p) { change(run, p, "V", by_columns); }
inline void W_heads_first(Evaluation& run, const Checked& p) {
  change(run, p, "W", [](const Tensor& x) { return permute(x, {0, 3, 1, 2}); });
}
inline void L_infinite(Evaluation& run, const Checked& p) {
  change(run, p, "L", [](const Tensor& x) { return with_entry(x, 7, INFINITY); });
}
inline void O_nan(Evaluation& run, const Checked& p) {
  change(run, p, "O", [](const Tensor& x) { return with_entry(x, 3, NAN); });
}
inline void V_one_entry(Evaluation& run, const Checked& p) {
  change(run, p, "V", [](const Tensor& x) { return with_entry(x, 3, 0.25); });
}
inline void K_zero(Evaluation& run, const Checked& p) {
  change(run, p, "K", [](const Tensor& x) { return x * 0.0; });
}
inline void P_o_by_columns(TensorsByName& t) { t["P_o"] = by_columns(t["P_o"]); }
inline void P_k_as_P_v(TensorsByName& t) { t["P_v"] = t["P_k"]; }
inline void heads_split_wrongly(TensorsByName& t) {
  const Tensor& P = t["P_q"];
  t["P_q"] = permute(reshape(P, {P.size(0), P.size(2), P.size(1)}), {0, 2, 1});
}

// They give these values only.
inline Planted given(std::vector<std::string> names, Planted p) {
  p.only = std::move(names);
  return p;
}

inline std::vector<Planted> mistakes() {
  const char* multi = "multi_head";
  const char* scaled = "multi_head_scaled";
  const char* talking = "talking_heads";
  const char* dense = "dense_synthesizer";
  const std::vector<std::string> none, rotary = {"rotary"}, t5 = {"t5_bias"}, alibi = {"alibi"};
  // clang-format off
  return {
      // Scales.
      {scaled, none, " / sqrt(d_k)", "", "L", "√d_k", square},
      {scaled, none, " / sqrt(d_k)", "", "L", "√d_k"},
      {scaled, none, " / sqrt(d_k)", " / d_k", "L", "times 0.5 = 1/√d_k", square},
      {scaled, none, " / sqrt(d_k)", " * sqrt(d_k)", "L", "times 4", square},
      {scaled, none, " = J[n, m, h] /", " = -J[n, m, h] /", "L", "sign is the opposite"},
      {multi, none, "K[m, d_k, h])  ", "K[m, d_k, h]) / sqrt(d_k)  ", "L", "= 1/√d_k", square},
      {multi, none, "K[m, d_k, h])  ", "K[m, d_k, h]) * sqrt(d_k)  ", "L", "= √d_k", square},
      {talking, none, "K[m, d_k, h_k])", "K[m, d_k, h_k]) / sqrt(d_k)", "J", "= 1/√d_k"},
      given({"Y"}, {scaled, none, " / sqrt(d_k)", "", "Y", "√d_k", square}),
      given({"Y"}, {multi, none, "K[m, d_k, h])  ", "K[m, d_k, h]) / sqrt(d_k)  ", "Y", "1/√d_k",
       square}),
      {multi, none, "P_o[d_Y, d_v, h])", "P_o[d_Y, d_v, h]) / 2", "Y", "times 0.5", square},
      // Dimensions.
      {multi, none, "P_q[d_X, d_k, h]", "P_q[d_k, d_X, h]", "Q", "P_q's d_X and d_k were swapped",
       one_size},
      {multi, none, "P_k[d_M, d_k, h]", "P_k[d_k, d_M, h]", "K", "P_k's d_M and d_k were swapped",
       one_size},
      {multi, none, "P_o[d_Y, d_v, h]", "P_o[d_Y, h, d_v]", "Y", "P_o's d_v and h were swapped",
       square},
      {talking, none, "P_l[h_k, h]", "P_l[h, h_k]", "L", "P_l's h_k and h were swapped"},
      {talking, none, "P_w[h, h_v]", "P_w[h_v, h]", "U", "P_w's h and h_v were swapped"},
      given({"Y"}, {talking, none, "P_w[h, h_v]", "P_w[h_v, h]", "Y",
       "P_w's h and h_v were swapped"}),
      {"grouped_query", none, "h=(g s)", "h=(s g)", "L", "", {{"h", 6}, {"g", 2}, {"d_X", 12},
       {"d_M", 12}}},
      // K, which is wrong and not given, leads to both.
      given({"L", "O", "Y"}, {"shared_kv", none, "P_k[d_M, d_k, h])", "P_k[d_M, d_k, h]) * 3", "L", "times 3"}),
      {multi, none, "", "", "V", "", {}, "causal", nullptr, nullptr, P_k_as_P_v},
      // Softmax and mask.
      {multi, none, "reduced_dim=m", "reduced_dim=n", "W", "softmax went over n", {}, "none"},
      {multi, none, "reduced_dim=m", "reduced_dim=h", "W", "softmax went over h", {}, "none"},
      {multi, none, "softmax(L[n, m, h], reduced_dim=m)",
       "softmax(softmax(L[n, m, h], reduced_dim=m), reduced_dim=m)", "W",
       ""},
      {scaled, none, "softmax(L[n, m, h], reduced_dim=m)",
       "softmax(softmax(L[n, m, h], reduced_dim=m), reduced_dim=m)", "W",
       "", {}, "none"},
      given({"Y"}, {talking, none, "softmax(L[n, m, h], reduced_dim=m)",
       "softmax(softmax(L[n, m, h], reduced_dim=m), reduced_dim=m)", "Y",
       ""}),
      {multi, none, "", "", "W", "no mask were applied", {}, "causal", "none"},
      {multi, none, "", "", "W", "a causal mask were applied", {}, "none", "causal"},
      {multi, none, "", "", "W", "mask were inverted", {}, "causal", "inverted"},
      {multi, none, "", "", "W", "", {}, "causal", "strict"},
      {talking, none, "", "", "W", "", {}, "causal", "strict", blind_uniform},
      {talking, none, "", "", "W", "", {}, "causal", "strict", blind_nan},
      {multi, none, "", "", "Y", "", {}, "causal", "strict", blind_uniform, nullptr, {"Y"}},
      {multi, none, "", "", "W", "", {}, "causal", "ahead"},
      {talking, none, "  L[n, m, h]     = einsum(J[",
       "  Z[n, m, h_k] = select(visible(n, m), J[n, m, h_k], -1000000000)\n  L[n, m, h] = einsum(Z[",
       "L", "mask were applied to J"},
      // Functions and terms.
      {dense, none, "relu(", "gelu(", "H", ""},
      {dense, none, "relu(", "silu(", "H", ""},
      {dense, none, "  H[n, d_k, h] = relu(einsum(X[n, d_X], W_1[d_X, d_k, h]))",
       "  Z[n, d_k, h] = einsum(X[n, d_X], W_1[d_X, d_k, h])\n"
       "  H[n, d_k, h] = select(Z[n, d_k, h] > 0, Z[n, d_k, h], 0.01 * Z[n, d_k, h])",
       "H", ""},
      {dense, none, "relu(einsum(X[n, d_X], W_1[d_X, d_k, h]))",
       "einsum(X[n, d_X], W_1[d_X, d_k, h])", "H", ""},
      {"bottleneck_synthesizer", none, "relu(", "gelu_erf(", "H", ""},
      {multi, {"biases"}, "Q[n, d_k, h] + b", "Q[n, d_k, h] - b", "QueryBias.Y", ""},
      {multi, {"biases"}, "+ b[d_Y]", "+ 0 * b[d_Y]", "OutputBias.Z", ""},
      // Positions.
      {multi, rotary, "", "", "RotaryQueries.Y", "", {}, "causal", nullptr, by_halves},
      {scaled, rotary, "", "", "Y", "", {}, "none", nullptr, by_halves, nullptr, {"Y"}},
      {multi, rotary, "", "", "RotaryQueries.Y", "", {}, "causal", nullptr, base_1000},
      {multi, rotary, "", "", "RotaryQueries.Y", "", {}, "causal", nullptr, from_1},
      {multi, rotary, "], position(", "], -position(", "RotaryQueries.Y", ""},
      {multi, rotary, "rotate(K[m, d_k, h], position(m), dim=d_k)", "K[m, d_k, h]", "RotaryKeys.Y",
       ""},
      {multi, t5, "position(m) - position(n)", "position(n) - position(m)", "T5Bias.I",
       "T5Bias.I's n and m were swapped"},
      given({"Y"}, {multi, t5, "position(m) - position(n)", "position(n) - position(m)", "Y",
       "n and m were swapped", {}, "none"}),
      given({"L", "W"}, {multi, t5, "position(m) - position(n)", "position(m) - position(n) + 1",
       "L", ""}),
      given({"L", "W", "Y"}, {multi, t5, "position(m) - position(n)",
       "position(m) - position(n) - 1", "L", "", {}, "none"}),
      {multi, t5, ", 128, causal)", ", 128, 0)", "T5Bias.I", ""},
      {multi, t5, "L[n, m, h] + gather", "L[n, m, h] - gather", "T5Bias.Y", ""},
      {multi, t5, "t, 128,", "t, 20,", "T5Bias.I", "", {{"T5Bias.t", 8}, {"n", 12}, {"m", 12}}},
      {multi, alibi, "(index(h) + 1)", "index(h)", "ALiBi.slope", "it is the text's times"},
      {multi, alibi, "- slope", "+ slope", "ALiBi.Y", ""},
      {multi, alibi, "-8 *", "-4 *", "ALiBi.slope", ""},
      {multi, {"shaw"}, "position(m) - position(n)", "position(n) - position(m)", "ShawKeys.D",
       "ShawKeys.D's n and m were swapped"},
      // Layouts.
      {multi, none, "", "", "V", "", {}, "causal", nullptr, V_by_columns},
      {multi, none, "", "", "Y", "P_o's d_Y and h were swapped in memory", {}, "causal",
       nullptr, nullptr, P_o_by_columns},
      {multi, none, "", "", "W", "", {{"h", 5}, {"d_X", 10}, {"d_M",
       10}}, "none", nullptr, W_heads_first},
      {multi, none, "", "", "Q", "d_k and h were swapped in memory", {}, "causal", nullptr, nullptr, heads_split_wrongly},
      // Numbers.
      {multi, none, "", "", "L", "", {}, "none", nullptr, L_infinite},
      {multi, none, "", "", "O", "", {}, "none", nullptr, O_nan},
      {multi, none, "", "", "V", "", {}, "none", nullptr, V_one_entry},
      {multi, none, "", "", "K", "zero everywhere", {}, "none", nullptr, K_zero},
  };
  // clang-format on
}

}  // namespace tete::tests
