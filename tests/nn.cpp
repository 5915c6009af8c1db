// Parameters and how they start; the loss; the language model that is trained by default.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "core/check/gradcheck.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/named_model.hpp"
#include "tests/written.hpp"
#include "tools/admin.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

double mean_of(const Tensor& x) { return mean(x).item(); }
double deviation_of(const Tensor& x) { return std::sqrt(mean(square(x - mean_of(x))).item()); }

const SizesByName sizes{{"v", 11}, {"max_n", 6}, {"d_X", 8}, {"l", 2}, {"h", 2}, {"f", 20}};

NamedModel small_model(const std::vector<std::string>& uses = {}) {
  return NamedModel("language_model", sizes, uses);
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
      CHECK(difference(initial_value(spec, Key(1), Dtype::f32), wide) <= tolerance(Dtype::f32));
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

  // ---- Blocks ----------------------------------------------------------------------------------

  TEST_CASE("activations are the functions that their papers define") {
    constexpr double pi = 3.14159265358979323846;
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
    const Tensor x = Tensor::of<double>({1, 7}, {-6, -1.5, -0.1, 0, 0.1, 1.5, 6});
    for (const Row& row : rows) {
      CAPTURE(row.name);
      std::vector<double> expected;
      for (double at : x.values<double>()) expected.push_back(row.value(at));
      CHECK(difference(run(filled_text(row.name), {{"X", x}}),
                       Tensor::of<double>({1, 7}, expected)) <= tolerance(Dtype::f64));
    }
  }

  TEST_CASE("sinusoidal positions are sines, then cosines, of slower and slower waves") {
    const auto rows = [](Index n, Index d) {
      return run(filled_text("positions_sinusoidal"), {{"X", Tensor::zeros({n, d}, Dtype::f64)}});
    };
    const std::vector<double> values = rows(5, 6).values<double>();
    for (int p = 0; p < 5; ++p)
      for (int t = 0; t < 3; ++t) {
        const double w = std::pow(10000.0, -t / 2.0);
        CHECK(values[p * 6 + t] == doctest::Approx(std::sin(p * w)));
        CHECK(values[p * 6 + 3 + t] == doctest::Approx(std::cos(p * w)));
      }
    CHECK(difference(rows(2, 2), Tensor::of<double>({2, 2}, {0, 1, std::sin(1.0), std::cos(1.0)})) <
          1e-15);
  }

  // ---- The language model ----------------------------------------------------------------------

  TEST_CASE("learned positions have room for the context only") {
    const NamedModel named = small_model();
    CHECK(named["A.P"].shape() == Shape{6, 8});
    CHECK_THROWS_WITH_AS(named.model.logits(named.forward(), {.X = tokens(1, 7)}),
                         doctest::Contains("7"), Error);
    CHECK_THROWS_AS(named.model.logits(named.forward(), {.X = Tensor::of<int64_t>({1, 1}, {11})}),
                    Error);
    CHECK_THROWS_AS(named.model.last_logits(named.forward(), {.X = tokens(1, 0)}), Error);
  }

  TEST_CASE("a batch that is cut in two draws the same noise") {
    const NamedModel named = small_model();
    const auto logits = [&](const Tensor& batch, Index first) {
      return named.model.logits({.params = named.values,
                                 .training = true,
                                 .dropout = 0.3,
                                 .key = Key(2),
                                 .first_sample = first},
                                {.X = batch});
    };
    const Tensor batch = tokens(5, 4);
    const Tensor whole = logits(batch, 100);
    const Tensor cut =
        concat({logits(slice(batch, 0, 0, 2), 100), logits(slice(batch, 0, 2, 3), 102)}, 0);
    CHECK(difference(whole, cut) <= tolerance(Dtype::f64));
    CHECK(difference(whole, logits(batch, 101)) > 1e-3);
  }

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
    const Index v = 65, c = 64, d = 128, layers = 4, f = 4 * d;
    const auto count = [&](const std::vector<std::string>& uses, SizesByName own = {}) {
      own.insert({{"v", v}, {"l", layers}, {"h", 4}, {"d_X", d}});
      return Model(filled_text("language_model", uses), own).params().element_total();
    };
    const Index attention = 4 * d * d + 2 * 4 * 4;
    CHECK(count({}, {{"max_n", c}}) ==
          v * d + c * d + layers * (attention + 2 * d * f + 4 * d) + 2 * d);
    CHECK(count(gpt2_style, {{"max_n", c}}) ==
          v * d + c * d + layers * (attention + 2 * d * f + f + d + 4 * d) + 2 * d);
    CHECK(count({"Norm=norm_rms", "Absolute=positions_sinusoidal", "Output=output_own"},
                {{"f", 100}}) == 2 * v * d + layers * (attention + 2 * d * 100 + 2 * d) + d);
    CHECK(count({"Absolute=positions_none", "FeedForward=ff_gated_biases"}, {{"f", 100}}) ==
          v * d + layers * (attention + 3 * d * 100 + 2 * 100 + d + 4 * d) + 2 * d);
  }

  TEST_CASE("logits are [b, n, v]; those of the last position are the same, alone") {
    for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const NamedModel named("language_model", sizes, {}, dtype);
      const Tensor batch = tokens(3, 5), logits = named.model.logits(named.forward(), {.X = batch});
      CHECK(logits.shape() == Shape{3, 5, 11});
      CHECK(logits.dtype() == dtype);
      const Tensor last = named.model.last_logits(named.forward(), {.X = batch});
      CHECK(last.shape() == Shape{3, 11});
      CHECK(difference(last, sum(slice(logits, 1, 4, 1), {1})) <= tolerance(dtype, 4));
      CHECK(named.model.logits(named.forward(), {.X = tokens(0, 5)}).shape() == Shape{0, 5, 11});
    }
  }

  TEST_CASE("the gradient of a whole model's loss agrees with central differences") {
    for (const std::vector<std::string>& uses :
         {std::vector<std::string>{"Activation=silu"},
          gpt2_style,
          {"Absolute=positions_none", "FeedForward=ff_gated_biases", "Activation=silu"},
          {"Absolute=positions_sinusoidal", "Output=output_own", "Norm=norm_rms",
           "FeedForward=ff_gated", "Activation=gelu"}}) {  // smooth: relu has a kink
      CAPTURE(uses[0]);
      SizesByName one = sizes;
      one["l"] = 1;
      if (uses[0].starts_with("Absolute")) one.erase("max_n");
      const NamedModel named("language_model", one, uses);
      const Tensor inputs = tokens(2, 4), targets = tokens(2, 4, 2);
      const auto loss = [&](const Tensors& params) {
        const Forward forward{.params = params, .training = true, .dropout = 0.2, .key = Key(4)};
        return named.model.loss(forward, {.X = inputs}, targets).sum;
      };
      GradCheckOptions options{.order = 2, .entries = 6};
      for (const ParamSpec& spec : named.model.params().specs()) options.names.push_back(spec.name);
      const GradReport report = check_gradient(loss, named.values, options);
      CHECK(report.worst_of_order(1) <= 1e-6);
      CHECK(report.worst_of_order(2) <= 1e-5);
      for (const InputReport& input : report.inputs) {
        CAPTURE(input.input);
        CHECK_FALSE(input.severed);
      }
    }
  }

  TEST_CASE("blocks that are computed again give the same bits, with less memory") {
    SizesByName deep = sizes;
    deep["l"] = 6;
    const NamedModel named("language_model", deep, {}, Dtype::f32);
    const Tensor inputs = tokens(4, 6), targets = tokens(4, 6, 2);
    const auto gradients = [&](bool recompute, size_t& peak) {
      const Tensors params = named.variables();
      const size_t before = memory_use().live;
      reset_peak_memory();
      const Forward forward{.params = params,
                            .training = true,
                            .dropout = 0.2,
                            .key = Key(4),
                            .recompute_blocks = recompute};
      const Tensor loss = named.model.loss(forward, {.X = inputs}, targets).sum;
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
    const NamedModel named = small_model();
    const Tensor inputs = tokens(2, 4), targets = tokens(2, 4, 2);
    const auto curvature = [&](bool recompute) {
      const Tensors params = named.variables();
      const Forward forward{.params = params, .recompute_blocks = recompute};
      const Tensor loss = named.model.loss(forward, {.X = inputs}, targets).sum;
      Tensor slope = Tensor::full({}, 0, Dtype::f64);
      for (const Tensor& g : grad(loss, params, {.keep_graph = true})) slope = slope + sum(g * g);
      return grad(slope, params);
    };
    const Tensors whole = curvature(false), again = curvature(true);
    for (size_t i = 0; i < whole.size(); ++i)
      CHECK(difference(whole[i], again[i]) <= 1e-10 * (1 + std::abs(sum(whole[i]).item())));
  }

  // ---- Rules for starts ----------------------------------------------------------------------

  TEST_CASE("gpt2 starts matrices at N(0.02), matrices that mix heads at the identity") {
    SizesByName wide = sizes;
    wide["d_X"] = 64, wide["v"] = 500;
    const NamedModel named("language_model", wide, gpt2_style, Dtype::f64, init_rule("gpt2"));
    CHECK(deviation_of(named["E"]) == doctest::Approx(0.02).epsilon(0.03));
    CHECK(deviation_of(named["decoder/1/A/P_q"]) == doctest::Approx(0.02).epsilon(0.05));
    CHECK(deviation_of(named["decoder/1/F.P_1"]) == doctest::Approx(0.02).epsilon(0.1));
    CHECK(same_bits(named["decoder/1/A/P_l"], Tensor::of<double>({2, 2}, {1, 0, 0, 1})));
    CHECK(same_bits(named["decoder/1/N.gamma"], Tensor::ones({64}, Dtype::f64)));
    CHECK(same_bits(named["decoder/1/F.b_1"], Tensor::zeros({20}, Dtype::f64)));
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

  TEST_CASE("t5 starts the embedding at N(1), and a rule of the caller's stands before the text") {
    SizesByName many = sizes;
    many["v"] = 2000;
    const NamedModel plain("language_model", many);
    CHECK(deviation_of(plain["E"]) == doctest::Approx(1).epsilon(0.03));
    const NamedModel ones("language_model", many, {}, Dtype::f64, [](const ParamSpec& spec) {
      return spec.name == "E" ? Initializer{InitializerKind::ones} : spec.init;
    });
    CHECK(mean_of(ones["E"]) == 1);
    CHECK(same_bits(ones["decoder/0/A/P_l"], plain["decoder/0/A/P_l"]));
    CHECK_THROWS_WITH_AS(
        init_rule("gtp2"),
        "unknown initialisation 'gtp2'; did you mean 'gpt2'? (there are t5, gpt2, admin)", Error);
  }

  TEST_CASE("admin sets each scale of a stack by what was added before it") {
    const SizesByName many{{"v", 11}, {"max_n", 6}, {"d_X", 64}, {"l", 3}, {"h", 2}, {"f", 20}};
    const NamedModel named("language_model", many, {"Block=admin"});
    Tensors values = named.values;
    const Batch batch{tokens(8, 6), tokens(8, 6)};
    profile_scales(named.model, batch, 0, Key(1), values);
    const auto scale = [&](int i) {
      const std::string path = text("decoder/", i / 2, "/omega_", 1 + i % 2);
      const std::vector<double> all =
          values[static_cast<size_t>(named.model.params().find(path))].values();
      for (double one : all) CHECK(one == all[0]);
      return all[0];
    };
    std::map<std::string, Tensor> seen;
    const Forward forward{.params = values, .watch = [&](const std::string& path, const Tensor& x) {
                            seen[path] = x;
                          }};
    named.model.logits(forward, {.X = batch.input});
    CHECK(scale(0) == 1);
    for (int i = 1; i + 1 < 6; ++i) {
      CAPTURE(i);
      const std::string block = text("decoder/", i / 2, "/");
      const double f = std::pow(deviation_of(seen.at(block + (i % 2 == 0 ? "A" : "F"))), 2);
      CHECK(std::pow(scale(i + 1), 2) - std::pow(scale(i), 2) == doctest::Approx(f).epsilon(0.02));
    }
    CHECK(scale(5) > 1.1);
    // It changes nothing else.
    for (int i = 0; i < named.model.params().size(); ++i)
      if (named.model.params().specs()[i].name.find("omega") == std::string::npos)
        CHECK(same_bits(values[i], named.values[i]));
    const auto refusal = [&](const NamedModel& other) {
      Tensors its = other.values;
      return error_of([&] { profile_scales(other.model, batch, 0, Key(1), its); });
    };
    CHECK(refusal(small_model()).find("has residuals with a scale") != std::string::npos);
    const std::string text = find_model("language_model").program->source->text;
    const NamedModel tied(
        Program::parse(replaced(replaced(text, "Block = pre_norm", "Block = admin"), "repeated l",
                                "repeated l tied")),
        sizes);
    CHECK(refusal(tied).find("share 'decoder/omega_1'") != std::string::npos);
    // A norm in two statements is no residual.
    const NamedModel gain(Program::parse(replaced(text, "Norm = norm_layer", "Norm = Gain") +
                                         "def Gain(X[n, d_X], g[d_X] = ones(), b[d_X] = zeros()):\n"
                                         "  N[n, d_X] = layer_norm(X[n, d_X], dim=d_X)\n"
                                         "  Y[n, d_X] = N[n, d_X] * g[d_X] + b[d_X]\n"
                                         "  return Y[n, d_X]\n"),
                          sizes);
    CHECK(refusal(gain).find("has residuals with a scale") != std::string::npos);
  }
}
