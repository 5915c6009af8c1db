// The gradient checker against gradients that are wrong, each in its own way, and against functions
// that only look so.
#include "core/check/gradcheck.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/ops.hpp"

using namespace tete;

namespace {

Tensor numbers(const Shape& shape, uint64_t seed, Dtype dtype = Dtype::f64) {
  return cast(random_uniform(shape, Key(seed), Dtype::f32) * 4.0 - 2.0, dtype);
}

// The square, with a gradient rule that the test brings.
Tensor square_with(const Tensor& x, Vjp vjp) {
  return record("square", square(x.detach()), {x}, std::move(vjp));
}

}  // namespace

TEST_SUITE("gradcheck") {
  TEST_CASE("a wrong gradient is caught, however it is wrong") {
    struct Mistake {
      const char* name;
      std::function<Tensor(const Tensors&)> apply;
      Tensors inputs;
    };
    const Tensor x = numbers({3, 3}, 1, Dtype::f64), row = numbers({3}, 2, Dtype::f64);
    const auto wrong_square = [](double factor) {
      return [factor](const Tensors& in) {
        return square_with(
            in[0], [factor](const Backward& at) -> Tensors { return {at.g * at.in[0] * factor}; });
      };
    };
    const Mistake mistakes[] = {
        {"sign", wrong_square(-2), {x}},
        {"factor", wrong_square(1), {x}},
        {"a factor near one", wrong_square(2.00001), {x}},
        {"transposed",
         [](const Tensors& in) {
           return square_with(in[0], [](const Backward& at) -> Tensors {
             return {permute(at.g * at.in[0] * 2, {1, 0})};
           });
         },
         {x}},
        {"a sum with the right total",  // .sum() as the loss would not see it
         [](const Tensors& in) {
           return square_with(in[0], [](const Backward& at) -> Tensors {
             const Tensor right = at.g * at.in[0] * 2;
             return {expand(mean(right), {0, 1}, right.shape())};
           });
         },
         {x}},
        {"missing sum",  // the gradient of a broadcast row must be summed, not sampled
         [](const Tensors& in) {
           const Tensor y = add("n d, d", in[0].detach(), in[1].detach());
           return record("add_row", y + 0.0, {in[0], in[1]}, [](const Backward& at) -> Tensors {
             return {at.g, sum(slice(at.g, 0, 0, 1), {0})};
           });
         },
         {x, row}},
        {"not a number",
         [](const Tensors& in) {
           return square_with(in[0],
                              [](const Backward& at) -> Tensors { return {log(at.g - 100)}; });
         },
         {x}},
        {"severed",
         [](const Tensors& in) { return in[0].detach() * in[1].detach() + in[0]; },
         {x, x + 1}},
    };
    for (const Mistake& mistake : mistakes) {
      CAPTURE(mistake.name);
      CHECK(check_gradient(mistake.apply, mistake.inputs).worst > 1e-6);
    }
  }

  TEST_CASE("a gradient whose own gradient is wrong passes order 1 and fails order 2") {
    const auto apply = [](const Tensors& in) {
      return square_with(in[0], [](const Backward& at) -> Tensors {
        return {at.g * at.in[0].detach() * 2};  // right, but constant to whoever differentiates it
      });
    };
    const GradReport report =
        check_gradient(apply, {numbers({3}, 1, Dtype::f64)}, {.order = 2, .names = {"x"}});
    CHECK(report.worst_of_order(1) <= 1e-6);
    CHECK(report.worst_of_order(2) > 0.1);
    CHECK(report.inputs.back().severed);
  }

  TEST_CASE("one wrong entry among thousands is caught, and a severed input is named") {
    const Tensor x = numbers({4099}, 1, Dtype::f64);
    const auto one_wrong = [](const Tensors& in) {
      return square_with(in[0], [](const Backward& at) -> Tensors {
        const Tensor right = at.g * at.in[0] * 2;
        return {concat({slice(right, 0, 0, 4098), slice(right, 0, 4098, 1) * 3}, 0)};
      });
    };
    CHECK(check_gradient(one_wrong, {x}).worst > 1e-6);
    const GradReport report = check_gradient([](const Tensors& in) { return in[0] * 2; }, {x, x},
                                             {.names = {"query", "memory"}});
    REQUIRE(report.inputs.size() == 2);
    CHECK_FALSE(report.inputs[0].severed);
    CHECK(report.inputs[1].severed);
    CHECK(report.inputs[1].input == "memory");
  }

  TEST_CASE("what cannot be checked is said") {
    const auto twice = [](const Tensors& in) { return in[0] * 2; };
    CHECK_THROWS_WITH_AS(check_gradient(twice, {Tensor::ones({3})}),
                         "check_gradient: expected f64 inputs, got f32[3]", Error);
    CHECK_THROWS_WITH_AS(check_gradient([](const Tensors& in) { return cast(in[0], Dtype::f32); },
                                        {Tensor::ones({3}, Dtype::f64)}),
                         "check_gradient: the function returned f32[3], expected f64", Error);
  }

  // ---- Verdicts -------------------------------------------------------------------------------

  TEST_CASE("the curve of errors tells right, wrong, kinks, jumps and noise apart") {
    struct Case {
      const char* name;
      std::function<double(double)> f;
      double analytic;
      Verdict verdict;
    };
    const double r = 1e-8;  // what a float32 would round to
    // A layer norm of two numbers that differ by 4e-5 and move apart, and its slope.
    const auto turns = [](double x) {
      const double apart = 30 * x + 4e-5;
      return apart / std::sqrt(apart * apart + 4e-6);
    };
    const double turns_by = 30 * 4e-6 * std::pow(16e-10 + 4e-6, -1.5);
    const Case cases[] = {
        {"smooth", [](double x) { return std::exp(x); }, 1, Verdict::right},
        {"steep", [](double x) { return std::sin(300 * x) + x; }, 301, Verdict::right},
        {"turns within a step", turns, turns_by, Verdict::right},
        {"turns within a step, wrong", turns, turns_by * 1.00001, Verdict::wrong},
        {"wrong", [](double x) { return std::exp(x); }, 1.001, Verdict::wrong},
        {"wrong sign", [](double x) { return std::sin(x); }, -1, Verdict::wrong},
        {"kink, left", [](double x) { return std::fabs(x); }, -1, Verdict::kink},
        {"kink, between", [](double x) { return std::fabs(x) + std::exp(x); }, 1.5, Verdict::kink},
        {"kink, outside", [](double x) { return std::fabs(x); }, 7, Verdict::wrong},
        {"a kink near by", [](double x) { return std::fabs(x - 3e-5); }, -1, Verdict::kink},
        {"a kink very near by", [](double x) { return std::max(x, 1e-6); }, 0, Verdict::kink},
        {"a jump", [](double x) { return std::floor(1 + x); }, 0, Verdict::kink},
        {"noise", [r](double x) { return std::floor(std::sin(x + 1) / r) * r; }, std::cos(1.0),
         Verdict::noise},
        {"wrong under noise", [r](double x) { return std::floor(std::sin(x + 1) / r) * r; }, 2,
         Verdict::wrong},
        {"NaN on one side", [](double x) { return std::sqrt(x); }, 1, Verdict::not_finite},
        {"a gradient that is NaN", [](double x) { return x; }, std::nan(""), Verdict::not_finite},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      const auto rise = [&](double from, double to) { return c.f(to) - c.f(from); };
      const ErrorCurve curve = trace(
          rise, {.analytic = c.analytic, .tolerance = 1e-6, .rounding = 2e-16, .one_kink = true});
      CHECK_MESSAGE(curve.verdict == c.verdict, c.name, ": ", name_of(curve.verdict));
      REQUIRE(curve.points.size() >= 6);
      CHECK(curve.points.front().step == doctest::Approx(1e-2));
      CHECK(curve.points[5].step == doctest::Approx(1e-7));
    }
  }

  TEST_CASE("at a kink no gradient is wrong that lies between the slopes, and any other is") {
    const Tensor x = Tensor::of<double>({2, 3}, {0, 1.5, -1, 0, 0.5, -2});
    const std::function<Tensor(const Tensors&)> functions[] = {
        [](const Tensors& in) { return relu(in[0]); },
        [](const Tensors& in) { return abs(in[0]) + relu(in[0]); },
        [](const Tensors& in) { return max(in[0], in[0] * 0.5); },
        [](const Tensors& in) { return min(in[0] * in[0], -in[0]); },
        [](const Tensors& in) { return max(in[0] * in[0] * (in[0] - 1.5) * (in[0] + 1), {1}); },
        [](const Tensors& in) { return floor(in[0] * 2); },
        [](const Tensors& in) { return einsum("i j, k j -> i k", relu(in[0]), in[0] + 3.0); },
        // Smooth, but made of two kinks, at which zero was chosen.
        [](const Tensors& in) { return relu(in[0]) - relu(-in[0]); },
    };
    for (const auto& f : functions) {
      const GradReport report = check_gradient(f, {x});
      CAPTURE(report);
      CHECK(report.passed());
      CHECK(report.worst <= 1e-6);
      CHECK(report.inputs[0].verdict == Verdict::kink);
      CHECK(report.inputs[0].kinks > 0);
    }
    const GradReport wrong = check_gradient(
        [](const Tensors& in) {
          return record("relu", relu(in[0].detach()), {in[0]}, [](const Backward& at) -> Tensors {
            return {at.g * (step(at.in[0]) + equal(at.in[0], at.in[0] * 0.0) * 7.0)};
          });
        },
        {x});
    CHECK_FALSE(wrong.passed());
    REQUIRE(wrong.fault);
    CHECK(wrong.fault->operation == "relu");
  }

  TEST_CASE("what is right passes, however steep, flat, large or small") {
    const Tensor x = numbers({3, 5}, 1);
    const std::function<Tensor(const Tensors&)> functions[] = {
        [](const Tensors& in) { return sin(in[0] * 500.0); },
        [](const Tensors& in) { return exp(in[0] * 20.0) / 1e9; },
        [](const Tensors& in) { return in[0] * 1e12 + 1e12; },
        [](const Tensors& in) { return in[0] * 1e-12; },
        [](const Tensors& in) { return square(in[0]) + 1e6; },
        [](const Tensors& in) { return tanh(in[0] * 50.0); },
        // Rows of two numbers that are nearly equal.
        [&x](const Tensors& in) {
          const Tensor apart = reshape((in[0] - x) * 20.0 + 4e-5, {15, 1});
          return layer_norm(concat({apart, -apart}, 1), Tensor::ones({2}, Dtype::f64),
                            Tensor::zeros({2}, Dtype::f64));
        },
        [](const Tensors& in) { return in[0] * 0.0; },
    };
    for (const auto& f : functions) {
      const GradReport report = check_gradient(f, {x}, 2);
      CAPTURE(report);
      CHECK(report.passed());
    }
  }

  TEST_CASE("what cannot be told, is not finite, or is severed has its own verdict") {
    const Tensor x = numbers({3, 5}, 1);
    int calls = 0;
    struct Case {
      const char* name;
      std::function<Tensor(const Tensors&)> apply;
      Verdict verdict;
      const char* words;  // of the report
    };
    const Case cases[] = {
        {"rounded to float32",
         [](const Tensors& in) { return cast(cast(in[0], Dtype::f32) * 3.0, Dtype::f64); },
         Verdict::noise, "rounded to float32"},
        {"drawn anew", [&](const Tensors& in) { return dropout(in[0], 0.5, Key(9).fold(++calls)); },
         Verdict::noise, "the function does not repeat itself"},
        {"the logarithm of what is negative",
         [](const Tensors& in) { return exp(log(in[0] * 2.0) * 0.5); }, Verdict::not_finite,
         "operation 'log' (elementwise.def:"},
        {"a root's slope at zero", [](const Tensors& in) { return sqrt(in[0] * 0.0) + in[0]; },
         Verdict::not_finite, "operation 'sqrt'"},
        {"a path that is not recorded",
         [](const Tensors& in) {
           const Tensor e = exp(in[0]);
           return sin(in[0]) + Tensor::of<double>(e.shape(), e.values<double>());
         },
         Verdict::wrong, "the result of operation 'exp'"},
        {"no path is recorded", [](const Tensors& in) { return sin(in[0].detach()); },
         Verdict::severed, "'input 1' reaches the end on a path that is not recorded"},
        {"no path at all",
         [](const Tensors& in) { return cast(arange(in[0].size(0)), Dtype::f64); },
         Verdict::unreached, "unreached"},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      const GradReport report = check_gradient(c.apply, {x});
      CHECK_MESSAGE(report.inputs[0].verdict == c.verdict, c.name, ": ", report);
      CHECK(report.passed() == (c.verdict == Verdict::unreached));
      CHECK(text(report).find(c.words) != std::string::npos);
    }
  }

  // ---- Faults ---------------------------------------------------------------------------------

  TEST_CASE("the operation whose own rule is wrong is named, and the value it was computed for") {
    struct Rule {
      const char* name;
      int order;
      Vjp vjp;
    };
    const Rule rules[] = {
        {"sign", 1, [](const Backward& at) -> Tensors { return {at.g * at.in[0] * -2.0}; }},
        {"factor", 1, [](const Backward& at) -> Tensors { return {at.g * at.in[0] * 2.001}; }},
        {"one entry", 1,
         [](const Backward& at) -> Tensors {
           const Tensor right = at.g * at.in[0] * 2.0;
           return {concat({slice(right, 0, 0, 2), slice(right, 0, 2, 1) * 3.0}, 0)};
         }},
        {"nothing", 1, [](const Backward&) -> Tensors { return {Tensor()}; }},
        {"infinity", 1, [](const Backward& at) -> Tensors { return {at.g / (at.in[0] * 0.0)}; }},
        {"severed at the second order", 2,
         [](const Backward& at) -> Tensors { return {at.g * at.in[0].detach() * 2.0}; }},
    };
    const Tensors inputs{numbers({3, 4}, 1), numbers({4, 5}, 2)};
    for (const Rule& rule : rules)
      for (int layer = 0; layer < 3; ++layer) {
        CAPTURE(rule.name);
        CAPTURE(layer);
        const WatchedFunction f = [&](const Tensors& in, const Watch& watch) {
          const auto show = [&](const std::string& name, const Tensor& x) {
            if (watch) watch(name, x);
          };
          Tensor x = einsum("n d, d k -> n k", in[0], in[1]);
          show("project", x);
          for (int i = 0; i < 3; ++i) {
            // The softmax takes a detour through what is detached, which is no fault.
            const Tensor high = broadcast(max(x.detach(), {1}, true), x.shape());
            const Tensor e = exp(x - high);
            x = e / broadcast(sum(e, {1}, true), x.shape()) + tanh(x);
            show(text("mix ", i), x);
            x = i == layer ? square_with(x, rule.vjp) : square(x);
            show(text("square ", i), x);
          }
          return x;
        };
        const GradReport report =
            check_gradient(f, inputs, {.order = rule.order, .names = {"x", "P"}});
        CAPTURE(report);
        CHECK_FALSE(report.passed());
        REQUIRE(report.fault);
        CHECK(report.fault->operation == "square");
        CHECK(report.fault->rule.starts_with("gradcheck.cpp:"));
        CHECK(report.fault->value == text("square ", layer));
        CHECK(report.fault->order == rule.order);
      }
  }

  TEST_CASE("a fused operation is named whether its kernel or its meaning is wrong") {
    const auto cube = [](double gradient, double meaning) {
      return [=](const Tensors& in) {
        const Fused op{
            "cube",
            [](const Tensors& x) {
              return FusedValue{x[0] * x[0] * x[0], {}};
            },
            [=](const Backward& at) -> Tensors { return {at.g * square(at.in[0]) * gradient}; },
            [=](const Tensors& x) { return x[0] * x[0] * x[0] * meaning; }};
        return tanh(fused(op, {sin(in[0])}));
      };
    };
    const Tensor x = numbers({4}, 1);
    CHECK(check_gradient(cube(3, 1), {x}, 3).passed());
    for (const auto& [gradient, meaning, order] : {std::tuple{-3.0, 1.0, 1}, {3.0, 1.01, 2}}) {
      const GradReport report = check_gradient(cube(gradient, meaning), {x}, 2);
      CAPTURE(report);
      REQUIRE(report.fault);
      CHECK(report.fault->operation == "cube");
      CHECK(report.fault->rule.starts_with("gradcheck.cpp:"));
      CHECK(report.fault->order == order);
    }
  }

  TEST_CASE("the gradient that one operation gives one of its inputs is blamed on it alone") {
    // Both products are right by themselves; the sum of rows is missing in the second input of add.
    const auto f = [](const Tensors& in) {
      const Tensor a = einsum("n d, d k -> n k", in[0], in[1]), row = sum(in[1], {0});
      const Tensor y = add("n k, k", a.detach(), row.detach());
      const Tensor added = record("add_row", y, {a, row}, [](const Backward& at) -> Tensors {
        return {at.g, reshape(slice(at.g, 0, 0, 1), {at.g.size(1)})};
      });
      return softmax(added, 1);
    };
    const GradReport report = check_gradient(f, {numbers({3, 4}, 1), numbers({4, 5}, 2)});
    CAPTURE(report);
    CHECK(report.inputs[0].verdict == Verdict::right);
    CHECK(report.inputs[1].verdict == Verdict::wrong);
    REQUIRE(report.fault);
    CHECK(report.fault->operation == "add_row");
    REQUIRE(report.fault->own);
    CHECK(report.fault->own->input == "input 2");
  }

  TEST_CASE("a function that computes more for who looks repeats itself, and each value is told") {
    // One operation has two values, of which the second is not finite.
    const WatchedFunction f = [](const Tensors& in, const Watch& watch) {
      const Tensor a = in[0] * 1000.0, y = concat({a.detach(), exp(a.detach())}, 0);
      const Tensor both = record(
          "both", y, {a}, [](const Backward& at) -> Tensors { return {slice(at.g, 0, 0, 3)}; });
      if (!watch) return both;
      const Tensor A = sin(in[0]), B = slice(y, 0, 3, 3);
      watch("A", A), watch("B", B);
      return both;
    };
    const GradReport report = check_gradient(f, {numbers({3, 4}, 1)}, GradCheckOptions{});
    CAPTURE(report);
    REQUIRE(report.fault);
    CHECK(report.fault->kind == FaultKind::value);
    CHECK(report.fault->operation == "both");
    CHECK(report.fault->value == "B");
  }

  // ---- Reports --------------------------------------------------------------------------------

  TEST_CASE("the worst entry is told by the names of its dimensions") {
    const auto one_wrong = [](const Tensors& in) {
      return square_with(in[0], [](const Backward& at) -> Tensors {
        Tensor mask = Tensor::ones({8, 3, 4}, Dtype::f64);
        mask.view().as<double>()[(5 * 3 + 1) * 4 + 2] = -1;  // nobody else has it yet
        return {at.g * at.in[0] * 2.0 * mask};
      });
    };
    GradCheckOptions options{
        .names = {"P_q"}, .dims = {{"d_X", "d_k", "h_k"}}, .result_dims = {"n", "k", "h"}};
    for (const auto& [full, result] :
         {std::pair{Index{100}, "the result's [n=5, k=1, h=2]"}, {Index{0}, ""}}) {
      options.full = full;
      options.entries = 96;
      const GradReport report = check_gradient(one_wrong, {numbers({8, 3, 4}, 1)}, options);
      CHECK(report.inputs[0].place() == "P_q[d_X=5, d_k=1, h_k=2]");
      CHECK(report.inputs[0].result_place() == result);
      CHECK(report.inputs[0].verdict == Verdict::wrong);
      const std::string printed = text(report);
      CAPTURE(printed);
      for (const char* words :
           {"order 1", "P_q[d_X=8, d_k=3, h_k=4]", "wrong", "P_q is wrong: at P_q", "a plateau",
            "operation 'square' (gradcheck.cpp:"})
        CHECK(printed.find(words) != std::string::npos);
    }
  }

  TEST_CASE("few elements: the whole Jacobian; more: entries, three of four where it is not zero") {
    const Tensor small = numbers({2, 3}, 1), large = numbers({4099}, 2);
    const auto square_all = [](const Tensors& in) { return square(in[0]); };
    CHECK(check_gradient(square_all, {small}).inputs[0].compared == 2 + 6 * 6);
    CHECK(check_gradient(square_all, {large}).inputs[0].compared == 2 + 24);
    // Only ten of 4099 gradients are not zero, and one of these is wrong.
    const auto sparse = [](const Tensors& in) {
      return record(
          "head", square(slice(in[0].detach(), 0, 0, 10)), {in[0]},
          [](const Backward& at) -> Tensors {
            const Tensor right = at.g * slice(at.in[0], 0, 0, 10) * 2.0;
            const Tensor off = concat({slice(right, 0, 0, 9), slice(right, 0, 9, 1) * 1.1}, 0);
            return {pad(off, 0, 0, 4089)};
          });
    };
    const GradReport report = check_gradient(sparse, {large});
    CHECK(report.inputs[0].verdict == Verdict::wrong);
    CHECK(report.inputs[0].worst.entry == std::vector<Index>{9});
  }

  TEST_CASE("the third order is checked like the first") {
    const auto f = [](const Tensors& in) {
      return softmax(einsum("i j, j k -> i k", in[0], in[1]), 1);
    };
    const GradReport report = check_gradient(f, {numbers({2, 3}, 1), numbers({3, 2}, 2)}, 3);
    CAPTURE(report);
    CHECK(report.passed());
    CHECK(report.inputs.size() == 6);
    CHECK(report.worst_of_order(3) <= 1e-6);
  }
}
