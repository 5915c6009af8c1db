// Layers, and the language model made of them.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "core/check/gradcheck.hpp"
#include "core/threads.hpp"
#include "tests/gpt2_style.hpp"

using namespace tete;

namespace {

constexpr double pi = 3.14159265358979323846;

double mean_of(const Tensor& x) { return mean(x).item(); }
double deviation_of(const Tensor& x) { return std::sqrt(mean(square(x - mean_of(x))).item()); }

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.values<double>(), y = b.values<double>();
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double apart = std::abs(x[i] - y[i]);
    most = std::isnan(apart) ? INFINITY : std::max(most, apart);
  }
  return most;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.values<double>() == b.values<double>();
}

// causal[n, n]: 1 where the key is not after the query.
Tensor causal(Index n) {
  std::vector<double> visible;
  for (Index i = 0; i < n * n; ++i) visible.push_back(i % n <= i / n ? 1 : 0);
  return Tensor::of<double>({n, n}, visible);
}

// Scaled multi-head attention as a plain function with patterns: what a C++ user brings.
AttentionFactory multi_head(Index d_X, Index h) {
  return [=](const Scope& scope, int) -> AttentionSite {
    const Index d_k = d_X / h;
    const Initializer init{InitializerKind::normal, 1 / std::sqrt(static_cast<double>(d_X))};
    std::vector<ParamId> ids;
    for (const char* name : {"P_q", "P_k", "P_v", "P_o"})
      ids.push_back(scope.declare({name, {"d_X", "d_k", "h"}, {d_X, d_k, h}, init}));
    const ParamId P_l = scope.declare({"P_l", {"h_k", "h"}, {h, h}, {InitializerKind::glorot}});
    return [=](const Forward& forward, const Tensor& X, const Tensor& M, const Tensor&) {
      const Tensor Q = einsum("b n d_X, d_X d_k h -> b n d_k h", X, forward[ids[0]]);
      const Tensor K = einsum("b m d_M, d_M d_k h -> b m d_k h", M, forward[ids[1]]);
      const Tensor V = einsum("b m d_M, d_M d_v h -> b m d_v h", M, forward[ids[2]]);
      const Tensor J = einsum("b n d_k h, b m d_k h -> b n m h", Q, K);
      const Tensor L =
          einsum("b n m h_k, h_k h -> b n m h", J / std::sqrt(double(d_k)), forward[P_l]);
      const Tensor W = softmax("b n [m] h, n m", L, causal(X.size(1)));
      const Tensor O = einsum("b n m h, b m d_v h -> b n d_v h", W, V);
      return einsum("b n d_v h, d_Y d_v h -> b n d_Y", O, forward[ids[3]]);
    };
  };
}

LanguageModelConfig small_config() {
  LanguageModelConfig config;
  config.vocabulary = 11;
  config.context = 6;
  config.d_model = 8;
  config.layers = 2;
  config.block.d_ff = 20;
  return config;
}

LanguageModel small_model(const LanguageModelConfig& config) {
  return LanguageModel(config, multi_head(config.d_model, 2));
}

Tensor tokens(Index b, Index n, uint64_t below = 11, uint64_t seed = 1) {
  std::vector<int64_t> ids;
  for (Index i = 0; i < b * n; ++i)
    ids.push_back(static_cast<int64_t>(uniform_below(Key(seed), static_cast<uint64_t>(i), below)));
  return Tensor::of<int64_t>({b, n}, ids);
}

Tensor drawn(const Initializer& init, const Shape& shape, std::vector<std::string> dims) {
  return initial_value({"x", std::move(dims), shape, init}, Key(3), Dtype::f64);
}

}  // namespace

TEST_SUITE("nn") {
  // ---- Parameters ----------------------------------------------------------------------------

  TEST_CASE("a parameter is declared once, and with as many names as sizes") {
    ParamList params;
    const Scope scope = Scope{params}.in("decoder").in("3");
    scope.declare({"W", {"d_X", "d_Y"}, {2, 3}, {}});
    CHECK(params.find("decoder/3/W") == 0);
    CHECK(params.find("W") == -1);
    CHECK(params.element_total() == 6);
    CHECK_THROWS_WITH_AS(scope.declare({"W", {"d"}, {5}, {}}),
                         "parameter 'decoder/3/W' is declared twice", Error);
    CHECK_THROWS_WITH_AS(scope.declare({"b", {"d", "e"}, {5}, {}}),
                         "parameter 'decoder/3/b' names 2 dimensions, but its shape is [5]", Error);
  }

  TEST_CASE("adding a parameter moves no other one's start") {
    const Initializer init{InitializerKind::normal, 1.0};
    ParamList alone, behind;
    alone.declare({"W", {"d"}, {7}, init});
    behind.declare({"V", {"d"}, {7}, init});
    behind.declare({"W", {"d"}, {7}, init});
    const Tensors a = alone.initial_values(Key(1)), b = behind.initial_values(Key(1));
    CHECK(same_bits(a[0], b[1]));
    CHECK_FALSE(same_bits(b[0], b[1]));
    CHECK_FALSE(same_bits(a[0], alone.initial_values(Key(2))[0]));
  }

  TEST_CASE("float32 starts as float64 rounded") {
    for (auto kind : {InitializerKind::normal, InitializerKind::truncated_normal,
                      InitializerKind::uniform, InitializerKind::glorot}) {
      const ParamSpec spec{"x", {"a", "b"}, {5, 7}, {kind, 0.5, 2}};
      const Tensor wide = initial_value(spec, Key(1), Dtype::f64);
      CHECK(largest_difference(initial_value(spec, Key(1), Dtype::f32), wide) <=
            tolerance(Dtype::f32));
    }
  }

  TEST_CASE("starts have the deviations and limits of spec D5") {
    const Shape large{300, 200};
    const std::vector<std::string> two{"a", "b"};
    const double n = 300 * 200, error = 4 / std::sqrt(n);  // four deviations of a mean
    const Tensor normal = drawn({InitializerKind::normal, 0.5}, large, two);
    CHECK(std::abs(mean_of(normal)) <= error * 0.5);
    CHECK(deviation_of(normal) == doctest::Approx(0.5).epsilon(error));
    const Tensor cut = drawn({InitializerKind::truncated_normal, 0.5}, large, two);
    CHECK(std::abs(mean_of(cut)) <= error * 0.5);
    CHECK(deviation_of(cut) == doctest::Approx(0.5 * 0.87962566).epsilon(error));
    CHECK(max(max(abs(cut), {0, 1}), Tensor::scalar(0, Dtype::f64)).item() <= 1.0);
    CHECK(max(abs(cut), {0, 1}).item() > 0.99);
    const Tensor uniform = drawn({InitializerKind::uniform, -1, 3}, large, two);
    CHECK(mean_of(uniform) == doctest::Approx(1).epsilon(4 * error));
    CHECK(deviation_of(uniform) == doctest::Approx(4 / std::sqrt(12.0)).epsilon(error));
    CHECK(max(uniform, {0, 1}).item() < 3);
    CHECK(max(-uniform, {0, 1}).item() <= 1);
  }

  TEST_CASE("glorot's fans are the last two dimensions, times the product of those before") {
    struct Row {
      Shape shape;
      double limit;
    };
    for (const Row& row : {Row{{12, 32}, std::sqrt(6.0 / (12 + 32))},
                           Row{{512, 12, 512}, std::sqrt(6.0 / (512 * 12 + 512 * 512))},
                           Row{{3, 5, 200, 100}, std::sqrt(6.0 / (15 * 200 + 15 * 100))},
                           Row{{1000}, std::sqrt(6.0 / (1000 + 1000))}}) {
      CAPTURE(row.shape);
      std::vector<std::string> dims(static_cast<size_t>(row.shape.size()), "a");
      const Tensor x =
          reshape(drawn({InitializerKind::glorot}, row.shape, dims), {element_count(row.shape)});
      CHECK(max(abs(x), Axes{0}).item() <= row.limit);
      CHECK(max(abs(x), Axes{0}).item() == doctest::Approx(row.limit).epsilon(0.02));
      CHECK(deviation_of(x) == doctest::Approx(row.limit / std::sqrt(3.0)).epsilon(0.06));
    }
  }

  TEST_CASE("constants, and an identity that need not be square") {
    CHECK(same_bits(drawn({InitializerKind::constant, 2.5}, {2}, {"a"}),
                    Tensor::of<double>({2}, {2.5, 2.5})));
    CHECK(same_bits(drawn({InitializerKind::ones}, {2}, {"a"}), Tensor::of<double>({2}, {1, 1})));
    CHECK(same_bits(drawn({}, {2}, {"a"}), Tensor::of<double>({2}, {0, 0})));
    const Initializer identity{InitializerKind::identity};
    CHECK(same_bits(drawn(identity, {2, 3}, {"h_k", "h"}),
                    Tensor::of<double>({2, 3}, {1, 0, 0, 0, 1, 0})));
    CHECK(same_bits(drawn(identity, {3, 2}, {"h", "h_v"}),
                    Tensor::of<double>({3, 2}, {1, 0, 0, 1, 0, 0})));
    CHECK_THROWS_AS(drawn(identity, {3}, {"h"}), Error);
  }

  TEST_CASE("a parameter lies in memory as declared, with the values it would have anyway") {
    ParamSpec spec{"P_q", {"d_X", "d_k", "h"}, {4, 3, 2}, {InitializerKind::normal, 1.0}};
    const Tensor plain = initial_value(spec, Key(1), Dtype::f32);
    spec.layout = {2, 0, 1};
    const Tensor heads_first = initial_value(spec, Key(1), Dtype::f32);
    CHECK(heads_first.strides() == Strides{3, 1, 12});
    CHECK(same_bits(plain, heads_first));
  }

  // ---- Layers --------------------------------------------------------------------------------

  TEST_CASE("a linear layer is a product, and a sum where it has a bias") {
    ParamList params;
    const Linear linear(Scope{params}.in("l"), {"d_X", 2}, {"d_Y", 3}, {.bias = true});
    CHECK(params.specs()[0].name == "l/W");
    CHECK(params.specs()[1].name == "l/b");
    CHECK(params.specs()[0].init.a == doctest::Approx(1 / std::sqrt(2.0)));
    const Tensors values{Tensor::of<double>({2, 3}, {1, 2, 3, 4, 5, 6}),
                         Tensor::of<double>({3}, {10, 20, 30})};
    const Tensor Y = linear(Forward{values}, Tensor::of<double>({1, 2, 2}, {1, 0, 1, -1}));
    CHECK(same_bits(Y, Tensor::of<double>({1, 2, 3}, {11, 22, 33, 7, 17, 27})));
  }

  TEST_CASE("activations are the functions that their papers define") {
    struct Row {
      const char* name;
      double (*value)(double x);
    };
    const Row rows[] = {
        {"relu", [](double x) { return std::max(x, 0.0); }},
        {"gelu",
         [](double x) {
           return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
         }},
        {"gelu_erf", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
        {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
        {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
        {"tanh", [](double x) { return std::tanh(x); }},
        {"softplus", [](double x) { return std::log1p(std::exp(x)); }},
        {"elu", [](double x) { return x > 0 ? x : std::expm1(x); }},
        {"selu",
         [](double x) {
           return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
         }},
        {"identity", [](double x) { return x; }},
    };
    const Tensor x = Tensor::of<double>({7}, {-6, -1.5, -0.1, 0, 0.1, 1.5, 6});
    for (const Row& row : rows) {
      CAPTURE(row.name);
      std::vector<double> expected;
      for (double at : x.values<double>()) expected.push_back(row.value(at));
      CHECK_FALSE(activation(row.name).gated);
      CHECK(largest_difference(activation(row.name).apply(x), Tensor::of<double>({7}, expected)) <=
            tolerance(Dtype::f64));
    }
    for (const char* name : {"glu", "geglu", "reglu", "swiglu", "liglu"})
      CHECK(activation(name).gated);
    CHECK_THROWS_WITH_AS(activation("sillu"), doctest::Contains("did you mean 'silu'?"), Error);
  }

  TEST_CASE("feed-forward is (act(X W_in) * X W_gate) W_out, and shows its hidden layer") {
    ParamList params;
    const FeedForward ff(Scope{params}.in("ff"), {"d_X", 3}, 5, {.activation = "swiglu"});
    CHECK(params.element_total() == 3 * 3 * 5);
    const Tensors values = params.initial_values(Key(1), Dtype::f64);
    const auto W = [&](const char* name) { return values[params.find(name)]; };
    const Tensor X = random_normal({2, 4, 3}, Key(2), Dtype::f64);
    std::map<std::string, Tensor> seen;
    const Tensor Y =
        ff({.params = values,
            .watch = [&](const std::string& path, const Tensor& x) { seen[path] = x; }},
           X);
    const auto product = [](const Tensor& x, const Tensor& w) {
      return einsum("b n d, d f -> b n f", x, w);
    };
    const Tensor hidden = silu(product(X, W("ff/in/W"))) * product(X, W("ff/gate/W"));
    CHECK(same_bits(seen["ff/pre"], product(X, W("ff/in/W"))));
    CHECK(same_bits(seen["ff/hidden"], hidden));
    CHECK(largest_difference(Y, product(hidden, W("ff/out/W"))) <= tolerance(Dtype::f64));
    CHECK(Y.shape() == Shape{2, 4, 3});
  }

  TEST_CASE("sinusoidal positions are sines, then cosines, of slower and slower waves") {
    const Tensor table = sinusoidal_positions(5, 6, Dtype::f64);
    const auto values = table.values<double>();
    for (int p = 0; p < 5; ++p)
      for (int t = 0; t < 3; ++t) {
        const double w = std::pow(10000.0, -t / 2.0);
        CHECK(values[p * 6 + t] == doctest::Approx(std::sin(p * w)));
        CHECK(values[p * 6 + 3 + t] == doctest::Approx(std::cos(p * w)));
      }
    CHECK(same_bits(sinusoidal_positions(2, 2, Dtype::f64),
                    Tensor::of<double>({2, 2}, {0, 1, std::sin(1.0), std::cos(1.0)})));
    CHECK_THROWS_AS(sinusoidal_positions(5, 7, Dtype::f64), Error);
  }

  TEST_CASE("positions are added to every sample; learned ones have room for the context only") {
    ParamList params;
    const Dim width{"d_X", 4};
    const Positions learned(Scope{params}.in("learned"), "learned", 3, width);
    const Positions waves(Scope{params}.in("waves"), "sinusoidal", 3, width);
    const Positions none(Scope{params}.in("none"), "none", 3, width);
    CHECK(params.element_total() == 3 * 4);
    const Tensors values = params.initial_values(Key(1));
    const Forward forward{values};
    const Tensor two = Tensor::zeros({2, 2, 4}), four = Tensor::zeros({1, 4, 4});
    CHECK(same_bits(learned(forward, two), expand(slice(values[0], 0, 0, 2), {0}, {2, 2, 4})));
    CHECK_THROWS_WITH_AS(learned(forward, four),
                         "the sequence has 4 positions, but the model learned only 3", Error);
    CHECK(same_bits(slice(waves(forward, four), 1, 0, 2), slice(waves(forward, two), 0, 0, 1)));
    CHECK(same_bits(none(forward, two), two));
    CHECK_THROWS_WITH_AS(Positions(Scope{params}.in("x"), "sinusodial", 3, width),
                         doctest::Contains("did you mean 'sinusoidal'?"), Error);
  }

  // ---- Dropout -------------------------------------------------------------------------------

  TEST_CASE("dropout drops its rate, scales what it keeps, and is the identity outside training") {
    const Tensors none;
    const Tensor X = Tensor::ones({40, 30, 20});
    const Forward training{.params = none, .training = true, .dropout = 0.2, .key = Key(1)};
    const auto values = dropped(training, "here", X).values<double>();
    double zeros = 0;
    for (double value : values) {
      if (value == 0) ++zeros;
      else CHECK(value == doctest::Approx(1.25));
    }
    CHECK(std::abs(zeros / 24000 - 0.2) <= 4 * std::sqrt(0.2 * 0.8 / 24000));
    CHECK_FALSE(same_bits(dropped(training, "here", X), dropped(training, "there", X)));
    CHECK(same_bits(dropped(training, "here", X), dropped(training, "here", X)));
    const Forward evaluating{.params = none, .dropout = 0.2, .key = Key(1)};
    CHECK(dropped(evaluating, "here", X).same(X));
  }

  TEST_CASE("a batch that is cut in two draws the same noise") {
    const LanguageModel model = small_model(small_config());
    const Tensors values = model.params().initial_values(Key(1), Dtype::f64);
    const auto logits = [&](const Tensor& batch, Index first) {
      return model.logits({.params = values,
                           .training = true,
                           .dropout = 0.3,
                           .key = Key(2),
                           .first_sample = first},
                          batch);
    };
    const Tensor batch = tokens(5, 4);
    const Tensor whole = logits(batch, 100);
    const Tensor cut =
        concat({logits(slice(batch, 0, 0, 2), 100), logits(slice(batch, 0, 2, 3), 102)}, 0);
    CHECK(largest_difference(whole, cut) <= tolerance(Dtype::f64));
    CHECK(largest_difference(whole, logits(batch, 101)) > 1e-3);
  }

  // ---- The language model --------------------------------------------------------------------

  TEST_CASE("the loss is a sum over targets, and padding is not counted") {
    const Tensor logits = random_normal({2, 3, 5}, Key(1), Dtype::f64);
    const Loss all = token_loss(logits, Tensor::of<int64_t>({2, 3}, {0, 1, 2, 3, 4, 0}));
    CHECK(all.tokens == 6);
    const Tensor p = log_softmax(logits, 2);
    const auto values = p.values<double>();
    const int targets[] = {0, 1, 2, 3, 4, 0};
    double expected = 0, without = 0;
    for (int t = 0; t < 6; ++t) {
      expected -= values[t * 5 + targets[t]];
      if (t != 2 && t != 5) without -= values[t * 5 + targets[t]];
    }
    CHECK(all.sum.item() == doctest::Approx(expected));
    const Loss padded = token_loss(logits, Tensor::of<int64_t>({2, 3}, {0, 1, -1, 3, 4, -1}));
    CHECK(padded.tokens == 4);
    CHECK(padded.sum.item() == doctest::Approx(without));
    CHECK(token_loss(logits, Tensor::of<int64_t>({2, 3}, {-1, -1, -1, -1, -1, -1})).sum.item() ==
          0);
  }

  TEST_CASE("parameters are counted in closed form") {
    const Index v = 65, c = 64, d = 128, layers = 4, f = 4 * d, h = 4;
    LanguageModelConfig config;
    config.vocabulary = v;
    const Index attention = 4 * d * d + h * h;
    const auto count = [&](const LanguageModelConfig& config) {
      return LanguageModel(config, multi_head(d, h)).params().element_total();
    };
    CHECK(count(config) == v * d + c * d + layers * (attention + 2 * d * f + 4 * d) + 2 * d);
    CHECK(count(gpt2_style(config)) ==
          v * d + c * d + layers * (attention + 2 * d * f + f + d + 4 * d) + 2 * d);
    config.block.norm = "rms";
    config.positions = "sinusoidal";
    config.tied = false;
    config.block.d_ff = 100;
    CHECK(count(config) == 2 * v * d + layers * (attention + 2 * d * 100 + 2 * d) + d);
  }

  TEST_CASE("logits are [b, n, v]; those of the last position are the same, alone") {
    for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const LanguageModel model = small_model(small_config());
      const Tensors values = model.params().initial_values(Key(1), dtype);
      const Tensor batch = tokens(3, 5);
      const Tensor logits = model.logits({values}, batch);
      CHECK(logits.shape() == Shape{3, 5, 11});
      CHECK(logits.dtype() == dtype);
      const Tensor last = model.last_logits({values}, batch);
      CHECK(last.shape() == Shape{3, 11});
      CHECK(largest_difference(last, sum(slice(logits, 1, 4, 1), {1})) <= tolerance(dtype, 4));
      CHECK(model.logits({values}, tokens(0, 5)).shape() == Shape{0, 5, 11});
    }
  }

  TEST_CASE("the decoder sees no future where its attention sees none") {
    const LanguageModel model = small_model(small_config());
    const Tensors values = model.params().initial_values(Key(1), Dtype::f64);
    const Tensor one = Tensor::of<int64_t>({1, 4}, {1, 2, 3, 4});
    const Tensor other = Tensor::of<int64_t>({1, 4}, {1, 2, 9, 4});
    const Tensor a = model.logits({values}, one), b = model.logits({values}, other);
    CHECK(same_bits(slice(a, 1, 0, 2), slice(b, 1, 0, 2)));
    CHECK(largest_difference(slice(a, 1, 2, 2), slice(b, 1, 2, 2)) > 1e-3);
  }

  TEST_CASE("a block is x + attention(norm(x)), then x + ff(norm(x)), and shows each by name") {
    const LanguageModel model = small_model(small_config());
    const Tensors values = model.params().initial_values(Key(1), Dtype::f64);
    std::map<std::string, Tensor> seen;
    Forward forward{.params = values, .watch = [&](const std::string& path, const Tensor& value) {
                      CHECK(seen.emplace(path, value).second);
                    }};
    const Tensor watched = model.logits(forward, tokens(2, 5));
    for (const char* path : {"embedding", "decoder/0/self_norm", "decoder/0/self_out",
                             "decoder/0/resid_mid", "decoder/1/ff_norm", "decoder/1/ff/hidden",
                             "decoder/1/ff_out", "decoder/1/resid", "decoder/norm", "logits"}) {
      CAPTURE(path);
      CHECK(seen.contains(path));
    }
    CHECK(same_bits(seen["decoder/0/resid_mid"],
                    seen["decoder/0/resid_pre"] + seen["decoder/0/self_out"]));
    CHECK(
        same_bits(seen["decoder/0/resid"], seen["decoder/0/resid_mid"] + seen["decoder/0/ff_out"]));
    CHECK(seen["decoder/1/ff/hidden"].shape() == Shape{2, 5, 20});
    CHECK(same_bits(watched, model.logits({values}, tokens(2, 5))));  // looking changes no bit
  }

  TEST_CASE(
      "what is computed in one pass where nobody looks has the same bits where somebody does") {
    LanguageModelConfig config = small_config();
    config.d_model = 32, config.context = 40, config.block.d_ff = 131;
    LanguageModelConfig other = gpt2_style(config);
    other.block.norm = "rms", other.block.feed_forward.activation = "swiglu";
    const Tensor inputs = tokens(5, 40), targets = tokens(5, 40, 11, 2);
    const Tensor lengths = Tensor::of<int64_t>({5}, {40, 7, 0, 40, 39});
    for (const LanguageModelConfig& c : {config, gpt2_style(config), other})
      for (bool with_memory : {false, true}) {
        CAPTURE(c.block.feed_forward.activation);
        CAPTURE(with_memory);
        const AttentionFactory attention = multi_head(32, 2);
        const LanguageModel decoder(c, attention);
        const EncoderDecoder both(c, {attention, attention, attention});
        const Tensors start =
            (with_memory ? both.params() : decoder.params()).initial_values(Key(1));
        int passes = 0;  // that are a sum and an activation
        const auto run = [&](const std::string& watched, const std::string& replaced) {
          Tensors params;
          for (const Tensor& value : start) params.push_back(value.variable());
          Forward forward{.params = params, .training = true, .dropout = 0.2, .key = Key(4)};
          if (!watched.empty()) forward.watch = [](const std::string&, const Tensor&) {};
          if (!replaced.empty())
            forward.replace = [](const std::string&, const Tensor& value) { return value; };
          forward.watched = [=](const std::string& path) { return path.ends_with(watched); };
          forward.replaced = [=](const std::string& path) { return path.ends_with(replaced); };
          passes = 0;
          const RecordWatch watch([&](const Tensor& made) {
            passes += std::string(made.made_by()->op) == "unary_of_sum";
            return made;
          });
          const Loss loss = with_memory ? both.loss(forward, inputs, lengths, targets)
                                        : decoder.loss(forward, inputs, targets);
          Tensors found = grad(loss.sum, params);
          found.push_back(loss.sum.detach());
          return found;
        };
        const auto same = [](const Tensors& a, const Tensors& b) {
          for (size_t i = 0; i < a.size(); ++i) {
            CAPTURE(i);
            CHECK(same_bits(a[i], b[i]));
          }
        };
        const Tensors unseen = run("", "");
        CHECK(passes == (c.block.feed_forward.bias ? (with_memory ? 4 : 2) : 0));
        for (const char* path : {"resid_mid", "resid_cross", "ff_norm", "ff_norm/divisor", "ff/pre",
                                 "self_out", "ff_out"}) {
          CAPTURE(path);
          same(unseen, run(path, ""));
          CHECK((passes == 0) == (!c.block.feed_forward.bias || std::string(path) == "ff/pre"));
          same(unseen, run("", path));
        }
        const int before = threads();
        set_threads(before == 1 ? 2 : 1);
        same(unseen, run("", ""));
        set_threads(before);
      }
  }

  TEST_CASE("tied logits are the products with the embedding, scaled where that is of size 1") {
    LanguageModelConfig config = small_config();
    std::map<std::string, Tensor> seen;
    for (bool scaled : {true, false}) {
      config.scale_logits = scaled;
      const LanguageModel model = small_model(config);
      const Tensors values = model.params().initial_values(Key(1), Dtype::f64);
      const Tensor logits = model.logits(
          {.params = values,
           .watch = [&](const std::string& path, const Tensor& value) { seen[path] = value; }},
          tokens(2, 3));
      const Tensor E = values[model.params().find("embedding/table")];
      const Tensor products = einsum("b n d, v d -> b n v", seen["decoder/norm"], E);
      CHECK(largest_difference(logits, scaled ? products / std::sqrt(8.0) : products) <=
            tolerance(Dtype::f64, 8));
    }
  }

  TEST_CASE("the gradient of a whole model's loss agrees with central differences") {
    struct Style {
      const char* name;
      LanguageModelConfig config;
    };
    LanguageModelConfig t5 = small_config();
    t5.layers = 1;
    t5.block.feed_forward.activation = "silu";  // smooth: relu has no derivative at its kink
    LanguageModelConfig untied = t5;
    untied.tied = false;
    untied.positions = "sinusoidal";
    untied.block.norm = "rms";
    untied.block.feed_forward.activation = "geglu";
    for (const Style& style :
         {Style{"t5", t5}, Style{"gpt2", gpt2_style(t5)}, Style{"untied", untied}}) {
      CAPTURE(style.name);
      const LanguageModel model = small_model(style.config);
      const Tensor inputs = tokens(2, 4), targets = tokens(2, 4, 11, 2);
      const auto loss = [&](const Tensors& params) {
        return model
            .loss({.params = params, .training = true, .dropout = 0.2, .key = Key(4)}, inputs,
                  targets)
            .sum;
      };
      GradCheckOptions options{.order = 2, .entries = 6};
      for (const ParamSpec& spec : model.params().specs()) options.names.push_back(spec.name);
      const GradReport report =
          check_gradient(loss, model.params().initial_values(Key(1), Dtype::f64), options);
      CHECK(report.worst_of_order(1) <= 1e-6);
      CHECK(report.worst_of_order(2) <= 1e-5);
      for (const InputReport& input : report.inputs) {
        CAPTURE(input.input);
        CHECK_FALSE(input.severed);
      }
    }
  }

  TEST_CASE("blocks that are computed again give the same bits, with less memory") {
    LanguageModelConfig config = small_config();
    config.layers = 6;
    const LanguageModel model = small_model(config);
    const Tensor inputs = tokens(4, 6), targets = tokens(4, 6, 11, 2);
    const auto gradients = [&](bool recompute, size_t& peak) {
      Tensors params;
      for (const Tensor& value : model.params().initial_values(Key(1)))
        params.push_back(value.variable());
      const size_t before = memory_use().live;
      reset_peak_memory();
      const Tensor loss = model
                              .loss({.params = params,
                                     .training = true,
                                     .dropout = 0.2,
                                     .key = Key(4),
                                     .recompute_blocks = recompute},
                                    inputs, targets)
                              .sum;
      Tensors found = grad(loss, params);
      peak = memory_use().peak - before;
      found.push_back(loss.detach());
      return found;
    };
    size_t kept = 0, again = 0;
    const Tensors whole = gradients(false, kept), recomputed = gradients(true, again);
    for (size_t i = 0; i < whole.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(whole[i], recomputed[i]));
    }
    CHECK(again < kept / 2);
  }

  TEST_CASE("blocks that are computed again have gradients of gradients") {
    const LanguageModel model = small_model(small_config());
    const Tensor inputs = tokens(2, 4), targets = tokens(2, 4, 11, 2);
    const auto curvature = [&](bool recompute) {
      Tensors params;
      for (const Tensor& value : model.params().initial_values(Key(1), Dtype::f64))
        params.push_back(value.variable());
      const Tensor loss =
          model.loss({.params = params, .recompute_blocks = recompute}, inputs, targets).sum;
      Tensor slope = Tensor::full({}, 0, Dtype::f64);
      for (const Tensor& g : grad(loss, params, {.keep_graph = true})) slope = slope + sum(g * g);
      return grad(slope, params);
    };
    const Tensors whole = curvature(false), again = curvature(true);
    for (size_t i = 0; i < whole.size(); ++i)
      CHECK(largest_difference(whole[i], again[i]) <= 1e-10 * (1 + std::abs(sum(whole[i]).item())));
  }

  TEST_CASE("gpt2 starts matrices at N(0.02), matrices that mix heads at the identity") {
    LanguageModelConfig config = small_config();
    config.d_model = 64;
    config.vocabulary = 500;
    const LanguageModel model = small_model(gpt2_style(config));
    const Tensors values = model.params().initial_values(Key(1), Dtype::f64);
    const auto value = [&](const char* name) { return values[model.params().find(name)]; };
    CHECK(deviation_of(value("embedding/table")) == doctest::Approx(0.02).epsilon(0.03));
    CHECK(deviation_of(value("decoder/1/self/P_q")) == doctest::Approx(0.02).epsilon(0.05));
    CHECK(deviation_of(value("decoder/1/ff/in/W")) == doctest::Approx(0.02).epsilon(0.1));
    CHECK(same_bits(value("decoder/1/self/P_l"), Tensor::of<double>({2, 2}, {1, 0, 0, 1})));
    CHECK(same_bits(value("decoder/1/self_norm/scale"), Tensor::ones({64}, Dtype::f64)));
    CHECK(same_bits(value("decoder/1/ff/in/b"), Tensor::zeros({20}, Dtype::f64)));
  }

  TEST_CASE("gpt2 replaces how far values spread, and no other start") {
    using Kind = InitializerKind;
    const auto start = [](Kind kind, const char* first, const char* second) {
      return gpt2_init({"P", {first, second}, {4, 4}, {kind, 0.5, 0.75}});
    };
    for (const Kind kind : {Kind::normal, Kind::truncated_normal, Kind::glorot}) {
      CHECK(start(kind, "d", "e").kind == Kind::normal);
      CHECK(start(kind, "d", "e").a == 0.02);
      CHECK(start(kind, "h_k", "h").kind == Kind::identity);
    }
    for (const Kind kind : {Kind::uniform, Kind::constant, Kind::zeros, Kind::ones, Kind::identity})
      for (const char* const last : {"h", "e"}) {
        CHECK(start(kind, "h_k", last).kind == kind);
        CHECK(start(kind, "h_k", last).a == 0.5);
        CHECK(start(kind, "h_k", last).b == 0.75);
      }
  }

  TEST_CASE("t5 starts the embedding at N(1), and a rule of the caller's stands before any style") {
    LanguageModelConfig config = small_config();
    config.vocabulary = 2000;
    const LanguageModel model = small_model(config);
    CHECK(deviation_of(model.params().initial_values(Key(1), Dtype::f64)[0]) ==
          doctest::Approx(1).epsilon(0.03));
    const LanguageModel ones(config, multi_head(8, 2), [](const ParamSpec& spec) {
      return spec.name == "embedding/table" ? Initializer{InitializerKind::ones} : spec.init;
    });
    const Tensors values = ones.params().initial_values(Key(1));
    CHECK(mean_of(values[0]) == 1);
    const int P_l = ones.params().find("decoder/0/self/P_l");
    CHECK(same_bits(values[P_l], model.params().initial_values(Key(1))[P_l]));
  }

  TEST_CASE("nonsense is one sentence") {
    const auto message = [](auto&& change) {
      LanguageModelConfig config = small_config();
      change(config);
      try {
        small_model(config);
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::input);
        return std::string(error.what());
      }
      return std::string();
    };
    CHECK(message([](auto& c) { c.layers = 0; }) ==
          "a language model: layers must be at least 1, got 0");
    CHECK(message([](auto& c) { c.block.norm = "layr"; }) ==
          "unknown norm 'layr'; did you mean 'layer'? (there are layer, rms)");
    CHECK(message([](auto& c) { c.init = "gtp2"; }) ==
          "unknown initialisation 'gtp2'; did you mean 'gpt2'? (there are t5, gpt2)");
    const LanguageModel model = small_model(small_config());
    const Tensors values = model.params().initial_values(Key(1));
    CHECK_THROWS_WITH_AS(model.logits({values}, tokens(1, 7)),
                         "the sequence has 7 positions, but the model learned only 6", Error);
    CHECK_THROWS_AS(model.logits({values}, Tensor::of<int64_t>({1, 2}, {3, 11})), Error);
    CHECK_THROWS_AS(model.last_logits({values}, tokens(1, 0)), Error);
  }
}
