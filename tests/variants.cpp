// Every variant of the catalogue a second time, in loops written from its paper: values and
// gradients are the same.
#include "tests/loops.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// ---- What variants share
// -------------------------------------------------------------------------

Array queries(const Sample& s) { return projected(s.X, s["P_q"]); }
Array keys(const Sample& s) { return projected(s.M, s["P_k"]); }
Array values(const Sample& s) { return projected(s.M, s["P_v"]); }
Array products(const Sample& s) { return dots(queries(s), keys(s)); }
Array read(const Sample& s, const Array& U) { return joined(weighed(U, values(s)), s["P_o"]); }
// Multi-head attention with these logits.
Array attended(const Sample& s, const Array& L) { return read(s, soft(L, s.seen)); }

double root(const Array& Q) { return std::sqrt(double(Q.shape[1])); }
Array relu(Array A) {
  for (double& x : A.v) x = std::max(x, 0.0);
  return A;
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A[i, d] as one head: [i, d, 1]; and for h heads the same: P[d, k] -> [d, k, h].
Array repeated(Array P, int h) {
  return fill({P.shape[0], P.shape[1], h}, [&](int d, int k, int) { return P(d, k); });
}
Array alone(const Array& P) { return repeated(P, 1); }
// Without heads: weights of logits L[n, m, 1] on what is read, V[m, v].
Array attended_alone(const Array& L, const Array& seen, const Array& V) {
  const Array W = soft(L, seen);
  return fill({W.shape[0], V.shape[1]}, [&](int i, int v) {
    return total(V.shape[0], [&](int j) { return W(i, j, 0) * V(j, v); });
  });
}
// x_i P_h y_j, h forms P[x, y, h].
Array bilinear(const Array& X, const Array& P, const Array& Y) {
  return fill({X.shape[0], Y.shape[0], P.shape[2]}, [&](int i, int j, int h) {
    return total(P.shape[0], [&](int x) {
      return X(i, x) * total(P.shape[1], [&](int y) { return P(x, y, h) * Y(j, y); });
    });
  });
}

// ---- Talking heads, dynamic where a generator is given
// -------------------------------------------

Array talking(const Sample& s) {
  // Σ_g A[i, j, g] (P[g, h] + R_X[i, g, h] + R_M[j, g, h]), R_X = X P_X, R_M = M P_M.
  const auto talk = [&](const Array& A, const std::string& which) {
    const Array& P = s["P_" + which];
    const int count = P.shape[0];
    const auto generated = [&](const char* side, const Array& from, int at, int g, int h) {
      const auto R = s.parameters.find(text("P_", side, which));
      if (R == s.parameters.end()) return 0.0;
      return total(from.shape[1], [&](int d) { return from(at, d) * R->second(d, g, h); });
    };
    return fill({A.shape[0], A.shape[1], P.shape[1]}, [&](int i, int j, int h) {
      return total(count, [&](int g) {
        return A(i, j, g) * (P(g, h) + generated("X", s.X, i, g, h) + generated("M", s.M, j, g, h));
      });
    });
  };
  return read(s, talk(soft(talk(products(s), "l"), s.seen), "w"));
}

// ---- Synthesizers
// --------------------------------------------------------------------------------

// The first n rows and m columns of R[max_n, max_m, h].
Array random_logits(const Sample& s) {
  const int n = s.X.shape[0];
  return fill({n, n, s["R"].shape[2]}, [&](int i, int j, int h) { return s["R"](i, j, h); });
}
Array factorized_random(const Sample& s) {
  const Array &R_1 = s["R_1"], &R_2 = s["R_2"];
  const int n = s.X.shape[0];
  return fill({n, n, R_1.shape[2]}, [&](int i, int j, int h) {
    return total(R_1.shape[1], [&](int r) { return R_1(i, r, h) * R_2(j, r, h); });
  });
}
// H[n, k, h] W[k, max_m, h] -> [n, n, h].
Array columns(const Array& H, const Array& W) {
  return fill({H.shape[0], H.shape[0], W.shape[2]}, [&](int i, int j, int h) {
    return total(H.shape[1], [&](int k) { return H(i, k, h) * W(k, j, h); });
  });
}
Array dense(const Sample& s) { return columns(relu(projected(s.X, s["W_1"])), s["W_2"]); }
// One table for all heads.
Array dense_minus(const Sample& s) {
  return columns(relu(queries(s)), repeated(s["pi"], s.size("h")));
}
// Left-padded: Σ_w A[i - (width - 1) + w, d] F[w, d, k, h], for every head d of its own or of all.
Array convolved(const Array& A, const Array& F, bool own) {
  const int width = F.shape[0];
  return fill({A.shape[0], F.shape[2], F.shape[3]}, [&](int i, int k, int h) {
    return total(width, [&](int w) {
      const int at = i - (width - 1) + w;
      return total(at < 0 ? 0 : F.shape[1],
                   [&](int d) { return A(at, d, own ? h : 0) * F(w, d, k, h); });
    });
  });
}
Array factorized_dense(const Sample& s) {
  const Array H = relu(projected(s.X, s["W_1"]));
  const Array &W_a = s["W_a"], &W_b = s["W_b"];
  const auto logit = [&](const Array& W, int i, int column, int h) {
    return total(H.shape[1], [&](int k) { return H(i, k, h) * W(k, column, h); });
  };
  const int n = s.X.shape[0], a = W_a.shape[1];
  return fill({n, n, s.size("h")}, [&](int i, int j, int h) {
    return logit(W_a, i, j % a, h) * logit(W_b, i, j / a, h);
  });
}
// The two parts by softmax(a), and by 1 - sigmoid(a) and sigmoid(a).
Array mixture(const Sample& s, const Array& first, const Array& second) {
  const double e_0 = std::exp(s["a"](0)), e_1 = std::exp(s["a"](1));
  return plus(times(first, e_0 / (e_0 + e_1)), times(second, e_1 / (e_0 + e_1)));
}
Array alpha(const Sample& s, const Array& dot, const Array& other) {
  const double a = sigmoid(s["a"].v[0]);
  return plus(times(dot, 1 - a), times(other, a));
}

// ---- Long range
// ----------------------------------------------------------------------------------

Array linformer(const Sample& s) {
  const Array K = keys(s), V = values(s), Q = queries(s), &E = s["E"], &F = s["F"];
  const auto compressed = [&](const Array& A, const Array& P) {
    return fill({P.shape[0], A.shape[1], A.shape[2]}, [&](int r, int k, int h) {
      return total(A.shape[0], [&](int j) { return s.seen(0, j) * P(r, j) * A(j, k, h); });
    });
  };
  Array all({Q.shape[0], E.shape[0]});
  std::fill(all.v.begin(), all.v.end(), 1.0);
  const Array W = soft(times(dots(Q, compressed(K, E)), 1 / root(Q)), all);
  return joined(weighed(W, compressed(V, F)), s["P_o"]);
}

Array bigbird(const Sample& s) {
  const int n = s.X.shape[0], b = s.size("b"), blocks = s["Draw"].shape[0];
  const auto near = [&](int i, int j) { return 2 * std::abs(i - j) <= s.size("w") - 1; };
  const auto global = [&](int i, int j) { return i < s.size("g") || j < s.size("g"); };
  // True for the r blocks of the largest draw among those that a block does not see anyway.
  const auto is_drawn = [&](int i, int j) {
    int larger = 0;
    for (int k = 0; k < blocks; ++k)
      larger += !near(i, k) && !global(i, k) && s["Draw"](i, k) > s["Draw"](i, j);
    return larger < s.size("r");
  };
  const Array seen = fill({n, n}, [&](int i, int j) {
    const int I = i / b, J = j / b;
    return near(I, J) || global(I, J) || is_drawn(I, J) ? s.seen(i, j) : 0.0;
  });
  const Array Q = queries(s);
  return read(s, soft(times(dots(Q, keys(s)), 1 / root(Q)), seen));
}

Array sliding_window(const Sample& s) {
  const int w = s.size("w");
  const Array seen = fill({s.X.shape[0], s.X.shape[0]}, [&](int i, int j) {
    const int last = s.causal ? i : i + w;
    return i - w < j && j <= last ? s.seen(i, j) : 0.0;
  });
  return read(s, soft(products(s), seen));
}

// Blocks of w whole positions, by `pool(A, F)`; a block is seen where all of it is.
template <class Pool>
Array memory_compressed(const Sample& s, const Pool& pool) {
  const int w = s.size("w"), blocks = s.M.shape[0] / w;
  const Array seen = fill({s.X.shape[0], blocks}, [&](int i, int c) {
    return total(w, [&](int k) { return s.seen(i, c * w + k); }) == w ? 1.0 : 0.0;
  });
  const Array W = soft(dots(queries(s), pool(keys(s), "F_k")), seen, 1);
  return joined(weighed(W, pool(values(s), "F_v")), s["P_o"]);
}
Array strided_convolution(const Sample& s) {
  return memory_compressed(s, [&](const Array& A, const char* filters) {
    const Array& F = s[filters];
    const int w = F.shape[0];
    return fill({A.shape[0] / w, F.shape[2], F.shape[3]}, [&](int c, int e, int h) {
      return total(w, [&](int k) {
        return total(F.shape[1], [&](int d) { return A(c * w + k, d, h) * F(k, d, e, h); });
      });
    });
  });
}
Array pooled(const Sample& s) {
  return memory_compressed(s, [&](const Array& A, const char*) {
    const int w = s.size("w");
    return fill({A.shape[0] / w, A.shape[1], A.shape[2]}, [&](int c, int k, int h) {
      return total(w, [&](int t) { return A(c * w + t, k, h); }) / w;
    });
  });
}

// ---- Scores
// --------------------------------------------------------------------------------------

Array cosine(const Sample& s) {
  const Array Q = queries(s), K = keys(s);
  Array L = dots(Q, K);
  const auto norm = [](const Array& A, int i, int h) {
    return std::sqrt(total(A.shape[1], [&](int k) { return A(i, k, h) * A(i, k, h); }) + 1e-6);
  };
  loop(L.shape, [&](auto& i) {
    const double beta = std::log1p(std::exp(s["b"](i[2])));
    L(i[0], i[1], i[2]) *= beta / (norm(Q, i[0], i[2]) * norm(K, i[1], i[2]));
  });
  return attended(s, L);
}

// v · tanh(hidden(i, j, a)).
template <class Hidden>
Array through_tanh(const Sample& s, const Hidden& hidden) {
  const Array& v = s["v"];
  const Array L = fill({s.X.shape[0], s.M.shape[0], 1}, [&](int i, int j, int) {
    return total(v.shape[0], [&](int a) { return v(a) * std::tanh(hidden(i, j, a)); });
  });
  return attended_alone(L, s.seen, s.M);
}
Array additive(const Sample& s) {
  const Array Q = projected(s.X, alone(s["W_q"])), K = projected(s.M, alone(s["W_k"]));
  return through_tanh(s, [&](int i, int j, int a) { return Q(i, a, 0) + K(j, a, 0); });
}
Array concat_score(const Sample& s) {
  const int d_X = s.X.shape[1], d_M = s.M.shape[1];
  return through_tanh(s, [&](int i, int j, int a) {
    return total(d_X + d_M,
                 [&](int c) { return (c < d_X ? s.X(i, c) : s.M(j, c - d_X)) * s["W_a"](c, a); });
  });
}

// ---- Multi-head attention and its kin
// ------------------------------------------------------------

Array multi_head(const Sample& s) { return attended(s, products(s)); }
Array multi_head_scaled(const Sample& s) {
  return attended(s, times(products(s), 1 / root(s["P_q"])));
}
Array dot_product(const Sample& s) {
  return attended_alone(dots(alone(s.X), alone(s.M)), s.seen, s.M);
}
Array dot_product_projected(Sample s) {
  for (auto& [name, P] : s.parameters) P = alone(P);
  return multi_head(s);
}
// Query head i reads group i // (h / g) of keys and values.
Array grouped_query(Sample s) {
  const int h = s.size("h"), g = s.size("g");
  for (const char* name : {"P_k", "P_v"}) {
    const Array P = s[name];
    s.parameters[name] = fill({P.shape[0], P.shape[1], h},
                              [&](int d, int k, int i) { return P(d, k, i / (h / g)); });
  }
  return multi_head(s);
}
Array multi_query(Sample s) {
  for (const char* name : {"P_k", "P_v"}) s.parameters[name] = repeated(s[name], s.size("h"));
  return multi_head(s);
}
Array general_bilinear(const Sample& s) {
  const Array W = soft(bilinear(s.X, s["P"], s.M), s.seen), &Q = s["Q"];
  return fill({s.X.shape[0], Q.shape[1]}, [&](int i, int y) {
    return total(Q.shape[2], [&](int h) {
      return total(s.M.shape[0], [&](int j) {
        return W(i, j, h) * total(Q.shape[0], [&](int d) { return s.M(j, d) * Q(d, y, h); });
      });
    });
  });
}

struct Row {
  const char* variant;
  Loops loops;
  SizesByName dims = {};
  Index memory = 6;  // the width of M
  Index n = 5, heads = 3;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"dot_product", dot_product, {}, 9},
      {"dot_product_projected", dot_product_projected},
      {"multi_head", multi_head},
      {"multi_head_scaled", multi_head_scaled},
      {"multi_head_concise", multi_head},
      {"multi_head_inefficient", multi_head},
      {"multi_query", multi_query},
      {"shared_kv",
       [](const Sample& s) {
         return joined(weighed(soft(products(s), s.seen), keys(s)), s["P_o"]);
       }},
      {"grouped_query", grouped_query, {{"g", 3}}, 6, 5, 6},
      {"talking_heads", talking},
      {"talking_heads_concise", talking},
      {"talking_heads_inefficient", talking},
      {"project_logits", [](const Sample& s) { return attended(s, mixed(products(s), s["P_l"])); }},
      {"project_weights",
       [](const Sample& s) { return read(s, mixed(soft(products(s), s.seen), s["P_w"])); }},
      {"general_bilinear", general_bilinear},
      {"dynamic_Xl", talking},
      {"dynamic_Ml", talking},
      {"dynamic_Xw", talking},
      {"dynamic_Mw", talking},
      {"dynamic_projections", talking},

      {"random_synthesizer", [](const Sample& s) { return attended(s, random_logits(s)); }},
      {"fixed_random_synthesizer", [](const Sample& s) { return attended(s, random_logits(s)); }},
      {"factorized_random_synthesizer",
       [](const Sample& s) { return attended(s, factorized_random(s)); },
       {{"r", 2}}},
      {"dense_synthesizer", [](const Sample& s) { return attended(s, dense(s)); }},
      {"factorized_dense_synthesizer",
       [](const Sample& s) { return attended(s, factorized_dense(s)); },
       {{"a", 3}, {"b", 2}}},
      {"random_plus_dense",
       [](const Sample& s) { return attended(s, mixture(s, random_logits(s), dense(s))); }},
      {"dense_plus_dot",
       [](const Sample& s) { return attended(s, mixture(s, dense(s), products(s))); }},
      {"random_plus_dot",
       [](const Sample& s) { return attended(s, mixture(s, random_logits(s), products(s))); }},
      {"factorized_random_plus_dense",
       [](const Sample& s) { return attended(s, mixture(s, factorized_random(s), dense(s))); },
       {{"r", 2}}},
      {"dense_minus", [](const Sample& s) { return attended(s, dense_minus(s)); }},
      {"dense_plus",
       [](const Sample& s) { return attended(s, plus(products(s), dense_minus(s))); }},
      {"dense_plus_alpha",
       [](const Sample& s) { return attended(s, alpha(s, products(s), dense_minus(s))); }},
      {"random_plus",
       [](const Sample& s) { return attended(s, plus(products(s), random_logits(s))); }},
      {"random_plus_alpha",
       [](const Sample& s) { return attended(s, alpha(s, products(s), random_logits(s))); }},
      {"conv_synthesizer",
       [](const Sample& s) {
         return attended(s, columns(relu(convolved(alone(s.X), s["F"], false)), s["W_2"]));
       },
       {{"w", 3}}},
      {"conv_relu_conv_synthesizer",
       [](const Sample& s) {
         const Array L = convolved(relu(convolved(alone(s.X), s["F"], false)), s["G"], true);
         return attended(s, fill({s.X.shape[0], s.X.shape[0], s.size("h")},
                                 [&](int i, int j, int h) { return L(i, j, h); }));
       },
       {{"w", 3}, {"u", 2}}},
      {"bottleneck_synthesizer",
       [](const Sample& s) {
         return attended(s, columns(relu(projected(s.X, s["W_1"])), s["W_2"]));
       },
       {{"e", 2}}},
      {"glu_synthesizer",
       [](const Sample& s) {
         const Array &W_a = s["W_a"], &W_b = s["W_b"];
         const int n = s.X.shape[0], c = W_a.shape[0];
         // Head h reads the h-th c entries of x.
         const auto linear = [&](const Array& W, int i, int j, int h) {
           return total(c, [&](int k) { return s.X(i, h * c + k) * W(k, j, h); });
         };
         return attended(s, fill({n, n, s.size("h")}, [&](int i, int j, int h) {
                           return linear(W_a, i, j, h) * sigmoid(linear(W_b, i, j, h));
                         }));
       }},

      {"linformer", linformer, {{"r", 4}}},
      {"bigbird", bigbird, {{"b", 2}, {"w", 3}, {"g", 1}, {"r", 1}, {"i", 6}}, 6, 11},
      {"sliding_window", sliding_window, {{"w", 2}}, 6, 7},
      {"memory_compressed", strided_convolution, {{"w", 3}, {"e", 3}, {"f", 2}}},
      {"memory_compressed_mean", pooled, {{"w", 2}}},

      {"cosine", cosine},
      {"additive", additive, {{"a", 4}}, 9},
      {"general",
       [](const Sample& s) {
         const Array O = attended_alone(bilinear(s.X, alone(s["W_1"]), s.M), s.seen, s.M);
         const Array Y = projected(O, alone(s["W_2"]));
         return fill({Y.shape[0], Y.shape[1]}, [&](int i, int y) { return Y(i, y, 0); });
       },
       {},
       9},
      {"concat_score", concat_score, {{"a", 4}}, 9},
  };
  return all;
}

}  // namespace

TEST_CASE("every variant equals its paper's formulas in loops, and its gradient their slopes") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const auto row = std::find_if(rows().begin(), rows().end(),
                                  [&](const Row& r) { return r.variant == variant.name; });
    REQUIRE(row != rows().end());
    const auto program = load_attention(variant.name);
    AttentionSizes sizes{.d_model = 9, .memory_width = row->memory, .dims = row->dims};
    if (program->self_only) sizes.memory_width = 0;
    for (const auto& [dim, size] :
         SizesByName{{"d_k", 4}, {"d_v", 5}, {"h_k", 2}, {"h_v", 4}, {"max_n", 11}, {"max_m", 11}})
      if (program->find_dimension(dim) >= 0) sizes.dims[dim] = size;
    if (program->find_dimension("h") >= 0) sizes.heads = row->heads;
    hold_against_loops(program, sizes, row->loops, row->n);
  }
  CHECK(rows().size() == variants().size());
}
