// Small models in checkpoints, to be looked into, and attention's texts of several kinds.
#pragma once
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/trained.hpp"

namespace tete::tests {

// A small model of a text whose slots are filled so.
inline ModelSettings settings_of_text(const std::string& name,
                                      const std::vector<SlotUse>& uses = {},
                                      bool has_heads = true) {
  ModelSettings s;
  read_model_text(s, find_model(name), uses);
  s.layers = 2, s.d_model = 12, s.d_ff = 20, s.context = 16;
  if (has_heads) s.heads = 3;
  return s;
}

// With this attention: in a decoder, or between an encoder and a decoder.
inline ModelSettings settings_of(const std::string& attention, bool crossing = false) {
  const auto program = load_attention(attention);
  const bool has_heads = program->find_dimension("h") >= 0;
  const std::vector<SlotUse> uses{{(crossing ? "Cross=" : "Attention=") + attention}};
  ModelSettings s = settings_of_text(crossing ? "encoder_decoder" : "language_model", uses,
                                     has_heads || crossing);
  for (const auto& [dim, size] : SizesByName{{"w", 3}, {"g", 1}, {"max_m", 16}, {"r", 4}})
    if (program->find_dimension(dim) >= 0) s.dims[dim] = size;
  if (attention == "bigbird") s.dims["b"] = 2, s.dims["i"] = 8;
  return s;
}

inline const std::string letters = "\n abcdefghijklmnopqrstuvwxyz";

// A checkpoint of a model as it starts; other steps start elsewhere.
inline std::string write_run(const std::string& folder, const ModelSettings& s,
                             const Tokenizer& tokenizer = Tokenizer::characters(letters),
                             int64_t step = 0, Index masks = 0) {
  const Index v = tokenizer.size() + masks;
  const ParamList params = make_model(s, v).params();
  Tensors values = params.initial_values(Key(static_cast<uint64_t>(step) + 1));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = values[i] + noise(values[i].shape(), 7 + i, Dtype::f32) * 0.1;
  RunState state;
  state.step = step;
  nlohmann::ordered_json config = {{"model", to_json(s)}};
  if (masks > 0) config["task"] = masked_task;
  state.config = config.dump();
  state.tokenizer = tokenizer.describe();
  const auto optimizer = find_optimizer("adam").make(params.specs(), Dtype::f32, cpu());
  return RunFolder(folder).save(state, checkpoint_tensors(params.specs(), values, *optimizer), 9);
}

inline const Site& site_at(const Report& report, const std::string& path) {
  for (const Site& site : report.runs[0].frames[0].sites)
    if (site.path == path) return site;
  FAIL("no site ", path);
  throw;
}

inline const AttentionMap& map_of(const Site& site, const std::string& name) {
  for (const AttentionMap& map : site.maps)
    if (map.name == name) return map;
  FAIL("no map ", name);
  throw;
}

inline Tensor statistic(const Site& site, const std::string& name) {
  for (const HeadStatistic& each : site.heads)
    if (each.name == name && each.map == site.weights) return each.values;
  FAIL("no statistic ", name);
  throw;
}

inline bool close(double a, double b, double tolerance = 1e-5) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

inline std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The head of an attention's text; its statements follow.
inline std::string text_of(const std::string& parameters, const std::string& statements) {
  return "def Tried(X[n, d_X], M[m, d_M], P_k[d_M, d_k, h] = normal(1), P_v[d_M, d_v, h] = "
         "normal(1), " +
         parameters +
         "):\n  where d_k = d_X / h, d_v = d_M / h, d_Y = d_X\n"
         "  K[m, d_k, h] = einsum(M[m, d_M], P_k[d_M, d_k, h])\n"
         "  V[m, d_v, h] = einsum(M[m, d_M], P_v[d_M, d_v, h])\n" +
         statements + "  return Y[n, d_Y]\n";
}
inline const std::string one_query = "P_q[d_X, d_k, h] = normal(1), P_o[d_Y, d_v, h] = normal(1)";
inline const std::string summed =
    "  O[n, d_v, h] = einsum(W[n, m, h], V[m, d_v, h])\n"
    "  Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])\n";

inline const std::string text_of_a_difference =
    text_of(one_query + ", P_2[d_X, d_k, h] = normal(1), l[h] = normal(0.5)",
            "  L_1[n, m, h] = einsum(X[n, d_X], P_q[d_X, d_k, h], K[m, d_k, h])\n"
            "  L_2[n, m, h] = einsum(X[n, d_X], P_2[d_X, d_k, h], K[m, d_k, h])\n"
            "  W_1[n, m, h] = softmax(L_1[n, m, h], reduced_dim=m)\n"
            "  W_2[n, m, h] = softmax(L_2[n, m, h], reduced_dim=m)\n"
            "  W[n, m, h] = W_1[n, m, h] - l[h] * W_2[n, m, h]\n" +
                summed);
inline const std::string text_of_gates =
    text_of(one_query + ", P_w[h, h_v] = normal(1), g[h_v] = normal(1)",
            "  L[n, m, h] = einsum(X[n, d_X], P_q[d_X, d_k, h], K[m, d_k, h])\n"
            "  W[n, m, h] = softmax(L[n, m, h] / d_k^0.5, reduced_dim=m)\n"
            "  T[n, m, h_v] = einsum(W[n, m, h], P_w[h, h_v])\n"
            "  U[n, m, h_v] = sigmoid(g[h_v]) * T[n, m, h_v] + "
            "(1 - sigmoid(g[h_v])) * W[n, m, h=(h_v)]\n"
            "  O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h=(h_v)])\n"
            "  Y[n, d_Y] = einsum(O[n, d_v, h_v], P_o[d_Y, d_v, h=(h_v)])\n");
inline const std::string text_of_unnamed_mixing = text_of(
    "P_q[d_X, d_k, h] = normal(1), P_o[d_Y, d_v, h] = normal(1), P_a[h, r] = normal(1), "
    "P_b[r, h_2] = normal(1)",
    "  J[n, m, h] = einsum(X[n, d_X], P_q[d_X, d_k, h], K[m, d_k, h])\n"
    "  L[n, m, h_2] = einsum(J[n, m, h], P_a[h, r], P_b[r, h_2])\n"
    "  W[n, m, h_2] = softmax(L[n, m, h_2], reduced_dim=m)\n"
    "  O[n, d_v, h] = einsum(W[n, m, h_2=(h)], V[m, d_v, h])\n"
    "  Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])\n");
inline const std::string text_of_groups =
    text_of("P_q[d_X, d_k, s, h] = normal(1), P_o[d_Y, d_v, s, h] = normal(1)",
            "  Q[n, d_k, s, h] = einsum(X[n, d_X], P_q[d_X, d_k, s, h])\n"
            "  Z[n, m, d_X, d_k, s] = einsum(X[n, d_X], K[m, d_k, h], P_q[d_X, d_k, s, h])\n"
            "  G[n, m, s] = einsum(Z[n, m, d_X, d_k, s])\n"
            "  L[n, m, s, h] = einsum(Q[n, d_k, s, h], K[m, d_k, h]) + G[n, m, s]\n"
            "  A[n, m, s, h] = softmax(L[n, m, s, h], reduced_dim=m)\n"
            "  O[n, d_v, s, h] = einsum(A[n, m, s, h], V[m, d_v, h])\n"
            "  Y[n, d_Y] = einsum(O[n, d_v, s, h], P_o[d_Y, d_v, s, h])\n");
inline const std::string text_of_sigmoid =
    text_of(one_query,
            "  L[n, m, h] = einsum(X[n, d_X], P_q[d_X, d_k, h], K[m, d_k, h])\n"
            "  S[n, m, h] = select(visible(m), sigmoid(L[n, m, h] - 2), 0)\n"
            "  O[n, d_v, h] = einsum(S[n, m, h], V[m, d_v, h])\n"
            "  Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])\n");

}  // namespace tete::tests
