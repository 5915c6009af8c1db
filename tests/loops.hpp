// Attention in plain loops, one sample at a time, written from the papers; and what holds a text
// against them: its values, and its gradients against central differences of the loops.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "attention/attention.hpp"
#include "tests/array.hpp"

namespace tete::tests {

// The inputs of attention: X[n, d_X], M[m, d_M], parameters by the text's names, and sizes.
struct Sample {
  Array X, M;
  Arrays parameters;
  Array seen;           // [n, m]: 1 where the call's mask lets a query see a memory, else 0
  bool causal = false;  // whether that mask is causal
  int first = 0;  // the position of the first query: both sequences of a causal call end at one
  SizesByName sizes;

  const Array& operator[](const std::string& name) const { return parameters.at(name); }
  int size(const std::string& name) const { return static_cast<int>(sizes.at(name)); }
};
using Loops = std::function<Array(const Sample&)>;

// ---- Pieces
// --------------------------------------------------------------------------------------

// X[i, d] P[d, k, h] -> [i, k, h].
inline Array projected(const Array& X, const Array& P) {
  return fill({X.shape[0], P.shape[1], P.shape[2]}, [&](int i, int k, int h) {
    return total(P.shape[0], [&](int d) { return X(i, d) * P(d, k, h); });
  });
}

// Q[n, k, h] · K[m, k, h] -> [n, m, h].
inline Array dots(const Array& Q, const Array& K) {
  return fill({Q.shape[0], K.shape[0], Q.shape[2]}, [&](int i, int j, int h) {
    return total(Q.shape[1], [&](int k) { return Q(i, k, h) * K(j, k, h); });
  });
}

// The heads talk: J[n, m, g] P[g, h] -> [n, m, h].
inline Array mixed(const Array& J, const Array& P) {
  return fill({J.shape[0], J.shape[1], P.shape[1]}, [&](int i, int j, int h) {
    return total(P.shape[0], [&](int g) { return J(i, j, g) * P(g, h); });
  });
}

inline Array plus(Array A, const Array& B) {
  for (size_t i = 0; i < A.v.size(); ++i) A.v[i] += B.v[i];
  return A;
}

inline Array times(Array A, double factor) {
  for (double& x : A.v) x *= factor;
  return A;
}

// e^L over the sum of those that are seen, for each query and head; zeros where none is. `extra` is
// added to the sum.
inline Array soft(const Array& L, const Array& seen, double extra = 0) {
  const auto weight = [&](int i, int j, int h) {
    return seen(i, j) > 0 ? std::exp(L(i, j, h)) : 0;
  };
  return fill({L.shape[0], L.shape[1], L.shape[2]}, [&](int i, int j, int h) {
    const double all = extra + total(L.shape[1], [&](int k) { return weight(i, k, h); });
    return all > 0 ? weight(i, j, h) / all : 0;
  });
}

// U[n, m, h] V[m, v, h] -> O[n, v, h], and O P_o[y, v, h] -> Y[n, y].
inline Array weighed(const Array& U, const Array& V) {
  return fill({U.shape[0], V.shape[1], V.shape[2]}, [&](int i, int v, int h) {
    return total(U.shape[1], [&](int j) { return U(i, j, h) * V(j, v, h); });
  });
}
inline Array joined(const Array& O, const Array& P_o) {
  return fill({O.shape[0], P_o.shape[0]}, [&](int i, int y) {
    return total(O.shape[1], [&](int v) {
      return total(O.shape[2], [&](int h) { return O(i, v, h) * P_o(y, v, h); });
    });
  });
}

// ---- Holding a text against loops
// ----------------------------------------------------------------

struct LoopCase {
  Index batch = 1, n = 5, m = 7;  // m is n where a text attends to itself
  Mask mask = {};
  bool gradient = false;
};

class HeldAgainstLoops {
 public:
  HeldAgainstLoops(std::shared_ptr<const Checked> program, const AttentionSizes& sizes, Loops loops)
      : program_(std::move(program)),
        attention_({list_, ""}, program_, sizes),
        loops_(std::move(loops)),
        d_X_(sizes.d_model),
        d_M_(sizes.memory_width > 0 ? sizes.memory_width : sizes.d_model) {
    const Tensors start = list_.initial_values(Key(5), Dtype::f64);
    for (size_t i = 0; i < start.size(); ++i) {
      const ParamSpec& spec = list_.specs()[i];
      values_.push_back(spec.fixed ? start[i] : drawn(spec.name, spec.shape) * 0.5);
    }
  }

  void check(const LoopCase& c) {
    const bool self = program_->self_only;
    Tensor X = drawn("X", {c.batch, c.n, d_X_}).variable();
    Tensor M = self ? X : drawn("M", {c.batch, c.m, d_M_}).variable();
    Tensors inputs = self ? Tensors{X} : Tensors{X, M}, values = values_;
    for (size_t i = 0; i < values.size(); ++i)
      if (!list_.specs()[i].fixed) inputs.push_back(values[i] = values[i].variable());
    const Tensor Y = attention_(Forward{.params = values, .watch = {}}, "", X, M, c.mask);

    std::vector<Sample> samples;
    for (Index b = 0; b < c.batch; ++b) samples.push_back(sample(c, b, X, M));
    std::vector<double> theirs;
    for (const Sample& s : samples) {
      const Array y = loops_(s);
      theirs.insert(theirs.end(), y.v.begin(), y.v.end());
    }
    CHECK(largest_difference(Y.values(), theirs) < 1e-10);
    if (c.gradient) check_gradients(samples, inputs, Y);
  }

 private:
  static Tensor drawn(const std::string& name, const Shape& shape) {
    return random_normal(shape, Key(3).fold(name), Dtype::f64);
  }
  static double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst;
  }
  // A whole tensor, or one element of its first dimension.
  static Array array(const Tensor& x, Index sample = -1) {
    const Tensor t = sample < 0 ? x.detach() : slice(x.detach(), 0, sample, 1);
    Array a;
    for (int i = sample < 0 ? 0 : 1; i < t.rank(); ++i)
      a.shape.push_back(static_cast<int>(t.size(i)));
    a.v = t.values();
    return a;
  }

  Sample sample(const LoopCase& c, Index b, const Tensor& X, const Tensor& M) const {
    Sample s;
    s.X = array(X, b), s.M = array(M, b);
    s.causal = c.mask.causal, s.sizes = attention_.sizes();
    for (size_t i = 0; i < values_.size(); ++i)
      s.parameters[list_.specs()[i].name] = array(values_[i]);
    const int n = s.X.shape[0], m = s.M.shape[0];
    const int length = c.mask.lengths ? static_cast<int>(c.mask.lengths.values()[b]) : m;
    const Array visible = c.mask.visible ? array(c.mask.visible) : Array();
    s.first = c.mask.causal ? m - n : 0;
    s.seen = fill({n, m}, [&](int i, int j) {
      const bool past = !c.mask.causal || j <= i + m - n;
      return past && j < length && (!c.mask.visible || visible(i, j) > 0) ? 1.0 : 0.0;
    });
    return s;
  }

  // Checks the gradients of a random projection of the output.
  void check_gradients(std::vector<Sample>& samples, const Tensors& inputs, const Tensor& Y) const {
    const Tensor weights = drawn("weights", Y.shape());
    const Tensors gradients = grad(Y, inputs, {.cotangent = weights});
    const auto projection = [&](size_t b) {
      const Array y = loops_(samples[b]), w = array(weights, static_cast<Index>(b));
      double all = 0;
      for (size_t i = 0; i < y.v.size(); ++i) all += y.v[i] * w.v[i];
      return all;
    };
    // Central differences of the fourth order; `place(s)` is the number that moves.
    const auto slope = [&](size_t first, size_t last, const auto& place) {
      const auto at = [&](double step) {
        double all = 0;
        for (size_t b = first; b < last; ++b) {
          const Sample kept = samples[b];
          place(samples[b]) += step;
          if (program_->self_only) samples[b].M = samples[b].X;
          all += projection(b);
          samples[b] = kept;
        }
        return all;
      };
      const double h = 1e-4;
      return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    };
    const auto compare = [&](const std::string& name, size_t i, double ours, double theirs) {
      CAPTURE(name);
      CAPTURE(i);
      CAPTURE(ours);
      CAPTURE(theirs);
      CHECK(std::abs(ours - theirs) <= 1e-6 * std::abs(theirs) + 1e-9);
    };

    size_t input = 0;
    for (Array Sample::*sequence : {&Sample::X, &Sample::M}) {
      if (sequence == &Sample::M && program_->self_only) break;
      const std::vector<double> ours = gradients[input++].values();
      for (size_t i = 0; i < ours.size(); ++i) {
        const size_t each = ours.size() / samples.size(), b = i / each;
        compare(sequence == &Sample::X ? "X" : "M", i, ours[i],
                slope(b, b + 1, [&](Sample& s) -> double& { return (s.*sequence).v[i % each]; }));
      }
    }
    for (const ParamSpec& spec : list_.specs()) {
      if (spec.fixed) continue;
      const std::vector<double> ours = gradients[input++].values();
      for (uint64_t k = 0; k < 3; ++k) {
        const auto i = static_cast<size_t>(uniform(Key(4).fold(spec.name), k) *
                                           static_cast<double>(ours.size()));
        compare(spec.name, i, ours[i], slope(0, samples.size(), [&](Sample& s) -> double& {
                  return s.parameters.at(spec.name).v[i];
                }));
      }
    }
  }

  ParamList list_;
  std::shared_ptr<const Checked> program_;
  Attention attention_;
  Loops loops_;
  Index d_X_, d_M_;
  Tensors values_;
};

// Masks of every kind that the text takes, over a batch of one and of two.
inline void hold_against_loops(const std::shared_ptr<const Checked>& program,
                               const AttentionSizes& sizes, const Loops& loops, Index n = 5) {
  HeldAgainstLoops held(program, sizes, loops);
  const Index m = program->self_only ? n : 7;
  held.check({.n = n, .m = m, .gradient = true});
  const Tensor lengths = Tensor::of<int64_t>({2}, {3, m});
  held.check({.batch = 2, .n = n, .m = m, .mask = {.lengths = lengths}});
  if (!program->takes_mask) return;
  held.check(
      {.batch = 2, .n = n, .m = m, .mask = {.causal = true, .lengths = lengths}, .gradient = true});
  std::vector<double> some;
  for (Index i = 0; i < n * m; ++i)
    some.push_back(i / m == 2 || i % 3 == 1 ? 0 : 1);  // query 2: none
  held.check({.n = n, .m = m, .mask = {.visible = Tensor::of<double>({n, m}, some)}});
}

}  // namespace tete::tests
