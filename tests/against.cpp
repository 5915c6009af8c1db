// Implementations that are not ours, held against the text: what agrees, and where one that does
// not first parts from it.
#include "attention/against.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "attention/attention.hpp"
#include "tests/array.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

TensorsByName talking_heads_tensors() {
  TensorsByName tensors;
  const std::map<std::string, Shape> shapes = {
      {"X", {2, 5, 6}},   {"M", {2, 7, 8}},   {"P_q", {6, 4, 3}}, {"P_k", {8, 4, 3}},
      {"P_v", {8, 2, 3}}, {"P_o", {6, 2, 3}}, {"P_l", {3, 3}},    {"P_w", {3, 3}}};
  for (const auto& [name, shape] : shapes)
    tensors[name] = random_normal(shape, Key(1).fold(name), Dtype::f64) * 0.7;
  return tensors;
}

}  // namespace

TEST_CASE("an evaluation gives each value as a run shows it, and runs on with what is set") {
  const auto program = load_attention("talking_heads");
  const TensorsByName tensors = talking_heads_tensors();
  const SizesByName sizes = {{"d_v", 2}};
  TensorsByName seen;
  RunOptions options{.sizes = sizes};
  options.watch = [&](const std::string& name, const Tensor& x) { seen[name] = x; };
  run(program, tensors, options);

  const int J = program->find_value("J"), L = program->find_value("L");
  Evaluation plain(program, tensors, {.sizes = sizes});
  for (const char* name : {"Y", "W", "K"})
    CHECK(plain.value(program->find_value(name)).values() == seen[name].values());
  CHECK(plain.batch() == Shape{2});
  CHECK(plain.size(program->find_dimension("d_v")) == 2);

  Evaluation changed(program, tensors, {.sizes = sizes});
  changed.set(J, seen["J"] * 2);
  CHECK(changed.value(L).values() == (seen["L"] * 2).values());
  CHECK(changed.value(program->find_value("Q")).values() == seen["Q"].values());
  CHECK_THROWS_AS(changed.set(L, seen["V"]), Error);
}

// ---- Theirs: talking heads in loops over plain arrays, with one mistake or none ----------------

namespace {

constexpr const char* text_of_ours = R"(
def ScaledTalkingHeads(
    X[n, d_X], M[m, d_M],
    P_q[d_X, d_k, h_k] = glorot(), P_k[d_M, d_k, h_k] = glorot(),
    P_v[d_M, d_v, h_v] = glorot(), P_o[d_Y, d_v, h_v] = glorot(),
    P_l[h_k, h] = glorot(), P_w[h, h_v] = glorot()):
  Q[n, d_k, h_k] = einsum(X[n, d_X], P_q[d_X, d_k, h_k])
  K[m, d_k, h_k] = einsum(M[m, d_M], P_k[d_M, d_k, h_k])
  V[m, d_v, h_v] = einsum(M[m, d_M], P_v[d_M, d_v, h_v])
  J[n, m, h_k]   = einsum(Q[n, d_k, h_k], K[m, d_k, h_k]) / sqrt(d_k)
  L[n, m, h]     = einsum(J[n, m, h_k], P_l[h_k, h])
  W[n, m, h]     = softmax(L[n, m, h], reduced_dim=m)
  U[n, m, h_v]   = einsum(W[n, m, h], P_w[h, h_v])
  O[n, d_v, h_v] = einsum(U[n, m, h_v], V[m, d_v, h_v])
  Y[n, d_Y]      = einsum(O[n, d_v, h_v], P_o[d_Y, d_v, h_v])
  return Y[n, d_Y]
)";

enum class Mistake {
  none,
  P_q_transposed,
  P_l_transposed,
  not_scaled,
  mask_before_P_l,
  softmax_over_n,
  m_and_n_swapped,
  heads_split_wrongly,
  heads_merged_wrongly,
  no_mask,
  mask_inverted,
  mask_after_softmax,
  P_w_left_out,
  sign,
  gradient_transposed,
  gradient_halved,
  gradient_negated,
  gradient_stopped,
  softmax_gradient_without_sum,
  K_detached,
};

// Sizes: n = m and d_X = d_k, so that what is swapped still fits.
constexpr int B = 2, N = 5, D = 4, DV = 2, H = 3, DY = 6;

double rounded(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

Array projected(Array& X, Array& P, bool transposed = false) {
  Array Y({B, N, P.shape[1], H});
  loop({B, N, P.shape[1], H, P.shape[0]}, [&](auto& i) {
    Y(i[0], i[1], i[2], i[3]) +=
        X(i[0], i[1], i[4]) * (transposed ? P(i[2], i[4], i[3]) : P(i[4], i[2], i[3]));
  });
  return Y;
}
// The dimension (d h), read as (h d).
Array split_wrongly(Array& Q) {
  Array Y(Q.shape);
  loop(Q.shape, [&](auto& i) {
    const int at = i[3] * Q.shape[2] + i[2];
    Y(i[0], i[1], i[2], i[3]) = Q(i[0], i[1], at / H, at % H);
  });
  return Y;
}
Array mixed(Array& J, Array& P, bool transposed = false) {
  Array L({B, N, N, H});
  loop({B, N, N, H, H}, [&](auto& i) {
    L(i[0], i[1], i[2], i[3]) +=
        J(i[0], i[1], i[2], i[4]) * (transposed ? P(i[3], i[4]) : P(i[4], i[3]));
  });
  return L;
}

class ForwardPass {
 public:
  ForwardPass(Mistake mistake, int bits) : mistake_(mistake), bits_(bits) {
    uint64_t seed = 0;
    for (const auto& [name, shape] :
         std::map<std::string, std::vector<int>>{{"X", {B, N, D}},
                                                 {"M", {B, N, DY}},
                                                 {"P_q", {D, D, H}},
                                                 {"P_k", {DY, D, H}},
                                                 {"P_v", {DY, DV, H}},
                                                 {"P_o", {DY, DV, H}},
                                                 {"P_l", {H, H}},
                                                 {"P_w", {H, H}},
                                                 {"grad:Y", {B, N, DY}}}) {
      Array a(shape);
      for (size_t i = 0; i < a.v.size(); ++i)
        a.v[i] = rounded(1.5 * uniform(Key(9).fold(seed), i) - 0.6, bits);
      all[name] = a;
      ++seed;
    }
    forward();
  }

  Arrays all;

 protected:
  bool is(Mistake m) const { return mistake_ == m; }
  bool sees(int n, int m) const { return is(Mistake::mask_inverted) ? m > n : m <= n; }
  Array& keep(const std::string& name, Array a) {
    for (double& x : a.v) x = rounded(x, bits_);
    return all[name] = std::move(a);
  }

 private:
  Array soft(Array& L) {
    Array W(L.shape);
    const bool over_n = is(Mistake::softmax_over_n);
    const bool blind =
        is(Mistake::no_mask) || is(Mistake::mask_before_P_l) || is(Mistake::mask_after_softmax);
    loop({B, N, H}, [&](auto& i) {
      const auto entry = [&](Array& a, int k) -> double& {
        return over_n ? a(i[0], k, i[1], i[2]) : a(i[0], i[1], k, i[2]);
      };
      const auto seen = [&](int k) { return blind || (over_n ? sees(k, i[1]) : sees(i[1], k)); };
      double most = -INFINITY, total = 0;
      for (int k = 0; k < N; ++k)
        if (seen(k)) most = std::max(most, entry(L, k));
      for (int k = 0; k < N; ++k)
        if (seen(k)) total += entry(W, k) = std::exp(entry(L, k) - most);
      for (int k = 0; k < N && total > 0; ++k) entry(W, k) /= total;
    });
    if (is(Mistake::mask_after_softmax))
      loop(W.shape, [&](auto& i) {
        if (!sees(i[1], i[2])) W(i[0], i[1], i[2], i[3]) = 0;
      });
    return W;
  }

  void forward() {
    Array Q = projected(all["X"], all["P_q"], is(Mistake::P_q_transposed));
    if (is(Mistake::heads_split_wrongly)) Q = split_wrongly(Q);
    keep("Q", Q), keep("K", projected(all["M"], all["P_k"])),
        keep("V", projected(all["M"], all["P_v"]));

    Array J({B, N, N, H});
    const double scale = is(Mistake::not_scaled) ? 1 : 1 / std::sqrt(double(D));
    loop({B, N, N, H, D}, [&](auto& i) {
      const bool swapped = is(Mistake::m_and_n_swapped);
      J(i[0], i[1], i[2], i[3]) += scale * all["Q"](i[0], i[swapped ? 2 : 1], i[4], i[3]) *
                                   all["K"](i[0], i[swapped ? 1 : 2], i[4], i[3]);
    });
    keep("J", J);
    J = all["J"];
    if (is(Mistake::mask_before_P_l))
      loop(J.shape, [&](auto& i) {
        if (!sees(i[1], i[2])) J(i[0], i[1], i[2], i[3]) = -1e9;
      });
    keep("L", mixed(J, all["P_l"], is(Mistake::P_l_transposed)));
    if (is(Mistake::sign))
      for (double& x : all["L"].v) x = -x;

    keep("W", soft(all["L"]));
    keep("U", is(Mistake::P_w_left_out) ? all["W"] : mixed(all["W"], all["P_w"]));

    Array O({B, N, DV, H});
    loop({B, N, DV, H, N}, [&](auto& i) {
      O(i[0], i[1], i[2], i[3]) +=
          all["U"](i[0], i[1], i[4], i[3]) * all["V"](i[0], i[4], i[2], i[3]);
    });
    keep("O", O);
    Array Y({B, N, DY});
    loop({B, N, DY, DV, H}, [&](auto& i) {
      int d = i[3], h = i[4];
      if (is(Mistake::heads_merged_wrongly)) {
        const int at = h * DV + d;  // of the merged heads; P_o's are (d h)
        d = at / H, h = at % H;
      }
      Y(i[0], i[1], i[2]) += all["O"](i[0], i[1], i[3], i[4]) * all["P_o"](i[2], d, h);
    });
    keep("Y", Y);
  }

  Mistake mistake_;
  int bits_;
};

class Implementation : public ForwardPass {
 public:
  explicit Implementation(Mistake mistake, int bits = 53) : ForwardPass(mistake, bits) {
    backward();
  }

  // Those of the names; all if there are none.
  TensorsByName tensors(Dtype dtype, const std::vector<std::string>& names = {}) const {
    TensorsByName made;
    for (const auto& [name, a] : all) {
      Shape shape;
      for (int size : a.shape) shape.push_back(size);
      if (names.empty() || std::count(names.begin(), names.end(), name) > 0)
        made[name] = cast(Tensor::of<double>(shape, a.v), dtype);
    }
    return made;
  }

 private:
  void backward() {
    Array gO({B, N, DV, H}), gP_o({DY, DV, H}), gU({B, N, N, H}), gV({B, N, DV, H});
    loop({B, N, DY, DV, H}, [&](auto& i) {
      const double g = all["grad:Y"](i[0], i[1], i[2]);
      gO(i[0], i[1], i[3], i[4]) += g * all["P_o"](i[2], i[3], i[4]);
      gP_o(i[2], i[3], i[4]) += g * all["O"](i[0], i[1], i[3], i[4]);
    });
    keep("grad:P_o", gP_o), keep("grad:O", gO);
    loop({B, N, DV, H, N}, [&](auto& i) {
      const double g = all["grad:O"](i[0], i[1], i[2], i[3]);
      gU(i[0], i[1], i[4], i[3]) += g * all["V"](i[0], i[4], i[2], i[3]);
      gV(i[0], i[4], i[2], i[3]) += g * all["U"](i[0], i[1], i[4], i[3]);
    });
    keep("grad:U", gU), keep("grad:V", gV);
    Array gW({B, N, N, H}), gP_w({H, H}), gL({B, N, N, H}), gP_l({H, H}), gJ({B, N, N, H});
    mixed_back("grad:U", "W", "P_w", gW, gP_w);
    keep("grad:P_w", gP_w), keep("grad:W", gW);
    loop({B, N, N, H}, [&](auto& i) {
      double total = 0;
      for (int m = 0; m < N; ++m)
        total += all["W"](i[0], i[1], m, i[3]) * all["grad:W"](i[0], i[1], m, i[3]);
      if (is(Mistake::softmax_gradient_without_sum)) total = 0;
      gL(i[0], i[1], i[2], i[3]) =
          all["W"](i[0], i[1], i[2], i[3]) * (all["grad:W"](i[0], i[1], i[2], i[3]) - total);
    });
    keep("grad:L", gL);
    mixed_back("grad:L", "J", "P_l", gJ, gP_l);
    if (is(Mistake::gradient_transposed))
      std::swap(gP_l(0, 1), gP_l(1, 0)), std::swap(gP_l(0, 2), gP_l(2, 0)),
          std::swap(gP_l(1, 2), gP_l(2, 1));
    if (is(Mistake::gradient_negated))
      for (double& x : gP_l.v) x = -x;
    keep("grad:P_l", gP_l), keep("grad:J", gJ);
    Array gQ({B, N, D, H}), gK({B, N, D, H});
    loop({B, N, N, H, D}, [&](auto& i) {
      const double g = all["grad:J"](i[0], i[1], i[2], i[3]) / std::sqrt(double(D));
      gQ(i[0], i[1], i[4], i[3]) += g * all["K"](i[0], i[2], i[4], i[3]);
      gK(i[0], i[2], i[4], i[3]) += g * all["Q"](i[0], i[1], i[4], i[3]);
    });
    keep("grad:Q", gQ), keep("grad:K", gK);
    Array gX({B, N, D}), gM({B, N, DY});
    for (const auto& [name, of, to] :
         {std::tuple{"Q", "X", &gX}, {"K", "M", &gM}, {"V", "M", &gM}}) {
      Array &g = all[std::string("grad:") + name], &x = all[of];
      const std::string p = std::string("P_") + char(std::tolower(name[0]));
      const bool detached = is(Mistake::K_detached) && std::string(name) == "K";
      Array gP(all[p].shape);
      loop({B, N, g.shape[2], H, x.shape[2]}, [&, &gY = *to](auto& i) {
        if (!detached) gY(i[0], i[1], i[4]) += g(i[0], i[1], i[2], i[3]) * all[p](i[4], i[2], i[3]);
        gP(i[4], i[2], i[3]) += g(i[0], i[1], i[2], i[3]) * x(i[0], i[1], i[4]);
      });
      if (is(Mistake::gradient_halved) && p == "P_v")
        for (double& e : gP.v) e /= 2;
      if (is(Mistake::gradient_stopped) && p == "P_k")
        for (double& e : gP.v) e = 0;
      keep("grad:" + p, gP);
    }
    keep("grad:X", gX), keep("grad:M", gM);
  }
  void mixed_back(const char* g, const char* x, const char* p, Array& gx, Array& gp) {
    loop({B, N, N, H, H}, [&](auto& i) {
      const double from = all[g](i[0], i[1], i[2], i[4]);
      gx(i[0], i[1], i[2], i[3]) += from * all[p](i[3], i[4]);
      gp(i[3], i[4]) += from * all[x](i[0], i[1], i[2], i[3]);
    });
  }
};

std::shared_ptr<const Checked> ours() {
  static const auto program =
      std::make_shared<const Checked>(check(Program::parse(text_of_ours, "ours.tete")));
  return program;
}

std::string told(const AgainstReport& report) {
  std::string all;
  for (const TensorReport& t : report.tensors) {
    static constexpr const char* verdicts[] = {"agrees", "follows", "DIFFERS"};
    all += text(t.name, ": ", verdicts[static_cast<int>(t.verdict)], " ", t.cause, " ",
                t.difference, " of ", t.tolerance, ", ours ", t.from_ours, " at ", t.entry, " ",
                t.theirs, " for ", t.text, " ", t.guess.sentence, t.shape, "\n");
  }
  return all;
}

const AgainstOptions causal{.mask = {.causal = true}};

const std::vector<std::string> inputs = {"X", "M", "P_q", "P_k", "P_v", "P_o", "P_l", "P_w"};
std::vector<std::string> with(std::vector<std::string> names, const std::string& more) {
  return names.push_back(more), names;
}

}  // namespace

TEST_CASE("what is right agrees, tensor by tensor, in the precision that it was computed in") {
  struct Case {
    int bits;
    Dtype dtype;
    const char* name;
  };
  for (const Case& c : {Case{53, Dtype::f64, "float64"}, Case{24, Dtype::f64, "float32"},
                        Case{24, Dtype::f32, "float32"}, Case{11, Dtype::f32, "float16"},
                        Case{8, Dtype::f32, "bfloat16"}}) {
    const AgainstReport report =
        check_against(ours(), Implementation(Mistake::none, c.bits).tensors(c.dtype), causal);
    INFO(told(report));
    CHECK(report.precision == std::string(c.name));
    CHECK(report.agrees());
    CHECK(report.tensors.size() == 9 + 8 + 8);
    CHECK(report.tensors[0].name == "Q");
    CHECK(report.tensors[8].name == "Y");
    CHECK(report.tensors[9].name == "grad:P_o");
    for (const TensorReport& t : report.tensors) CHECK(t.verdict == TensorReport::Verdict::agrees);
  }
}

TEST_CASE("a tenth too little everywhere is no rounding, not even to bfloat16's eight bits") {
  for (const char* name : {"Q", "K", "V", "J", "L", "W", "U", "O", "Y"}) {
    Implementation theirs(Mistake::none, 8);
    for (double& x : theirs.all[name].v) x = rounded(0.9 * x, 8);
    const AgainstReport report = check_against(ours(), theirs.tensors(Dtype::f32), causal);
    INFO(told(report));
    CAPTURE(name);
    REQUIRE(report.first >= 0);
    CHECK(report.tensors[report.first].name == name);
  }
}

// One of 64 rows jumps: rounding turns its comparison. That excuses no small mistake in all.
TEST_CASE("what rounding does to one entry allows it to no other") {
  const auto program = std::make_shared<const Checked>(check(Program::parse(
      "# Jump\ndef jump(X[n]):\n  Y[n] = X[n] + 100 * (X[n] > 1)\n  return Y[n]\n", "jump.tete")));
  std::vector<double> x, y;
  for (int i = 0; i < 64; ++i) {
    x.push_back(i == 5 ? std::nextafter(1.0f, 2.0f) : rounded(0.4 + 0.31 * i + i * i * 0.0137, 24));
    y.push_back(x[i] + (x[i] > 1 ? 100 : 0));
  }
  const auto tensors = [&](double by) {
    TensorsByName made;
    std::vector<double> off = y;
    for (double& v : off) v = rounded(v * by, 24);
    made["X"] = cast(Tensor::of<double>({64}, x), Dtype::f32);
    made["Y"] = cast(Tensor::of<double>({64}, off), Dtype::f32);
    return made;
  };
  CHECK(check_against(program, tensors(1)).agrees());
  CHECK_FALSE(check_against(program, tensors(0.8)).agrees());
}

TEST_CASE("of each mistake the statement is named and what it looks like") {
  struct Case {
    Mistake mistake;
    const char* first;      // where theirs first differ, all values given
    const char* guess;      // some of what is said then; "": nothing
    const char* statement;  // what is named where only Y is given
    const char* from_Y;     // some of what is said then; "": nothing
  };
  const Case cases[] = {
      {Mistake::P_q_transposed, "Q", "P_q's d_X and d_k were swapped", "Q", "P_q's d_X and d_k"},
      {Mistake::P_l_transposed, "L", "P_l's h_k and h were swapped", "L", "P_l's h_k and h"},
      {Mistake::not_scaled, "J", "times 2 = √d_k", "J", "J were multiplied by √d_k"},
      {Mistake::mask_before_P_l, "L", "mask were applied to J", "J", "mask were applied to J"},
      {Mistake::softmax_over_n, "W", "softmax went over n, not over m", "W", "softmax went over n"},
      {Mistake::m_and_n_swapped, "J", "J's n and m were swapped", "J", "J's n and m were swapped"},
      {Mistake::heads_split_wrongly, "Q", "Q's d_k and h_k were swapped in memory", "Q",
       "P_q's d_k and h_k"},
      {Mistake::heads_merged_wrongly, "Y", "P_o's d_v and h_v were swapped in memory", "Y",
       "P_o's d_v and h_v"},
      {Mistake::no_mask, "W", "no mask were applied", "W", "no mask were applied"},
      {Mistake::mask_inverted, "W", "mask were inverted", "W", "mask were inverted"},
      {Mistake::mask_after_softmax, "W", "mask were applied to W", "W", "mask were applied to W"},
      {Mistake::P_w_left_out, "U", "", "", ""},
      {Mistake::sign, "L", "its sign is the opposite", "", ""},
  };
  for (const Case& c : cases) {
    const Implementation theirs(c.mistake);
    const AgainstReport report = check_against(ours(), theirs.tensors(Dtype::f64), causal);
    INFO(told(report));
    CAPTURE(c.guess);
    REQUIRE(report.first >= 0);
    const TensorReport& first = report.tensors[report.first];
    CHECK(first.name == c.first);
    CHECK(first.guess.sentence.empty() == (c.guess[0] == 0));
    CHECK(first.guess.sentence.find(c.guess) != std::string::npos);
    CHECK(first.unseen.empty());

    const AgainstReport short_report =
        check_against(ours(), theirs.tensors(Dtype::f64, with(inputs, "Y")), causal);
    INFO(told(short_report));
    REQUIRE(short_report.first == 0);
    const TensorReport& Y = short_report.tensors[0];
    CHECK(Y.unseen.size() == 8);
    CHECK(Y.guess.sentence.empty() == (c.from_Y[0] == 0));
    if (Y.guess.sentence.empty()) continue;
    REQUIRE(Y.guess.statement >= 0);
    CHECK(ours()->values[Y.guess.statement].name == c.statement);
    CHECK(Y.guess.sentence.find(c.from_Y) != std::string::npos);
  }
}

TEST_CASE("a mistake in a gradient alone is found there") {
  struct Case {
    Mistake mistake;
    const char *first, *guess;
    int wrong;  // gradients that differ or follow
  };
  const Case cases[] = {
      {Mistake::gradient_transposed, "grad:P_l", "h_k and h were swapped", 1},
      {Mistake::gradient_negated, "grad:P_l", "its sign is the opposite", 1},
      {Mistake::gradient_halved, "grad:P_v", "times 0.5", 1},
      {Mistake::gradient_stopped, "grad:P_k", "no gradient arrives", 1},
      {Mistake::K_detached, "grad:M", "no gradient comes by way of K", 1},
      {Mistake::softmax_gradient_without_sum, "grad:L", "", 9},
  };
  for (const Case& c : cases) {
    const AgainstReport report =
        check_against(ours(), Implementation(c.mistake).tensors(Dtype::f64), causal);
    INFO(told(report));
    REQUIRE(report.first >= 0);
    const TensorReport& first = report.tensors[report.first];
    CHECK(first.name == c.first);
    CHECK(first.gradient);
    CHECK(first.guess.sentence.empty() == (c.guess[0] == 0));
    CHECK(first.guess.sentence.find(c.guess) != std::string::npos);
    int wrong = 0, differ = 0;
    for (const TensorReport& t : report.tensors) {
      wrong += t.verdict != TensorReport::Verdict::agrees;
      differ += t.verdict == TensorReport::Verdict::differs;
    }
    CHECK(wrong == c.wrong);
    CHECK(differ == 1);
  }
}
