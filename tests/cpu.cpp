// The processor's kernels against loops that anyone can read, over odd shapes, strides and
// numbers of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "core/cpu/backend.hpp"
#include "core/cpu/rows.hpp"
#include "core/random.hpp"
#include "core/threads.hpp"

using namespace tete;

namespace {

// ---- Arrays with any strides -----------------------------------------------------------------

// How an array lies in memory. `order` is the order of its dimensions, outermost first (empty:
// row-major); `step` leaves gaps; `repeated` is a dimension with stride 0.
struct Layout {
  const char* name = "dense";
  bool reversed = false;
  Index step = 1;
  bool repeated = false;
};
const Layout input_layouts[] = {
    {}, {"reversed", true}, {"step 2", false, 2}, {"repeated", false, 1, true}};
const Layout output_layouts[] = {{}, {"reversed", true}, {"step 2", true, 2}};

class Array {
 public:
  Array(Dtype dtype, const Shape& shape, const Layout& layout = {}) {
    Short<int> order;
    for (int d = 0; d < shape.size(); ++d)
      order.push_back(layout.reversed ? shape.size() - 1 - d : d);
    view = {dtype, shape, dense_strides(shape, order), nullptr};
    for (Index& s : view.strides) s *= layout.step;
    if (layout.repeated && shape.size() > 0) view.strides[0] = 0;
    memory_.resize(static_cast<size_t>(element_count(shape) * layout.step + 8));
    view.data = memory_.data();
  }
  Array(const Array&) = delete;

  // Numbers between low and high, the same for the same seed.
  Array& random(uint64_t seed, double low = -1, double high = 1) {
    uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
    const auto next = [&] {
      state = state * 6364136223846793005 + 1442695040888963407;
      return low + (high - low) * static_cast<double>(state >> 40) * 0x1p-24;
    };
    const size_t count = memory_.size();
    for (size_t i = 0; i < count; ++i) {
      if (view.dtype == Dtype::f32)
        reinterpret_cast<float*>(memory_.data())[i] = static_cast<float>(next());
      if (view.dtype == Dtype::f64) memory_[i] = next();
      if (view.dtype == Dtype::i64)
        reinterpret_cast<int64_t*>(memory_.data())[i] = static_cast<int64_t>(next());
    }
    return *this;
  }
  std::string bytes() const {
    return std::string(reinterpret_cast<const char*>(memory_.data()), memory_.size() * 8);
  }
  View view;

 private:
  std::vector<double> memory_;
};

Index offset(const View& v, const Shape& at) {
  Index sum = 0;
  for (int d = 0; d < v.rank(); ++d) sum += at[d] * v.strides[d];
  return sum;
}
void put(const View& v, const Shape& at, double x) {
  const Index i = offset(v, at);
  if (v.dtype == Dtype::f32) static_cast<float*>(v.data)[i] = static_cast<float>(x);
  if (v.dtype == Dtype::f64) static_cast<double*>(v.data)[i] = x;
}
double get(const View& v, const Shape& at) {
  const Index i = offset(v, at);
  if (v.dtype == Dtype::f32) return static_cast<const float*>(v.data)[i];
  if (v.dtype == Dtype::f64) return static_cast<const double*>(v.data)[i];
  return static_cast<double>(static_cast<const int64_t*>(v.data)[i]);
}

// body(coordinates) in row-major order.
void for_each(const Shape& shape, const std::function<void(const Shape&)>& body) {
  if (element_count(shape) == 0) return;
  Shape at(shape.size(), Index{0});
  for (;;) {
    body(at);
    int d = shape.size() - 1;
    for (; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
    if (d < 0) return;
  }
}

bool near(double got, double expected, Dtype t, double scale = 1) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::fabs(got - expected) <= tolerance(t, std::max(scale, std::fabs(expected)));
}

// Counts coordinates where y differs from expected(at).
int wrong(const View& y, const std::function<double(const Shape&)>& expected, double scale = 1) {
  int count = 0;
  for_each(y.shape,
           [&](const Shape& at) { count += !near(get(y, at), expected(at), y.dtype, scale); });
  return count;
}

const Shape odd_shapes[] = {{},     {0},     {1},          {7},           {3, 0, 2},
                            {1, 1}, {5, 3},  {2, 3, 4, 5}, {1, 17, 1, 2}, {13, 131},
                            {67},   {20011}, {3, 7, 1031}, {33, 40}};
const Dtype reals[] = {Dtype::f32, Dtype::f64};

// The largest difference of two arrays of one shape, and the largest number of one, at least
// `least`.
double apart(const Array& a, const Array& b) {
  double most = 0;
  for_each(a.view.shape, [&](const Shape& at) {
    most = std::max(most, std::abs(get(a.view, at) - get(b.view, at)));
  });
  return most;
}
double largest(const Array& a, double least = 0) {
  for_each(a.view.shape,
           [&](const Shape& at) { least = std::max(least, std::abs(get(a.view, at))); });
  return least;
}

// Runs `compute` with 1, 2, 3, 4 and 8 threads; y's bytes must not differ.
bool same_bits(const Array& y, const std::function<void()>& compute) {
  const int before = threads();
  std::string first;
  bool same = true;
  for (int count : {1, 2, 3, 4, 8}) {
    set_threads(count);
    compute();
    if (first.empty()) first = y.bytes();
    same = same && first == y.bytes();
  }
  set_threads(before);
  return same;
}

// ---- Elementwise -----------------------------------------------------------------------------

double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double step(double x) { return x > 0; }
double relu(double x) { return x < 0 ? 0 : x; }
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_erf_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}

struct UnaryCase {
  const char* name;
  Unary op;
  std::function<double(double)> value;
  std::function<double(double, double, double)> gradient;
  double low, high;
};
struct BinaryCase {
  const char* name;
  Binary op;
  std::function<double(double, double)> value;
  double low, high;
};

std::vector<UnaryCase> unary_cases() {
  using std::exp, std::log, std::sqrt, std::sin, std::cos, std::tanh, std::erf, std::floor;
  return {
#define UNARY(name, value, gradient, low, high)                                   \
  {#name,                                                                         \
   Unary::name,                                                                   \
   [](double x) -> double { return value; },                                      \
   []([[maybe_unused]] double x, [[maybe_unused]] double y, double g) -> double { \
     return gradient;                                                             \
   },                                                                             \
   low,                                                                           \
   high},
#define BINARY(...)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  };
}
std::vector<BinaryCase> binary_cases() {
  using std::pow;
  return {
#define UNARY(...)
#define BINARY(name, value, gradient_a, gradient_b, low, high) \
  {#name, Binary::name, [](double a, double b) -> double { return value; }, low, high},
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  };
}

}  // namespace

TEST_CASE("cpu: every unary operation and its gradient equal their rows") {
  for (const UnaryCase& c : unary_cases())
    for (Dtype t : reals)
      for (const Shape& shape : odd_shapes)
        for (const Layout& in : input_layouts)
          for (const Layout& out : output_layouts) {
            CAPTURE(std::string(c.name));
            CAPTURE(std::string(name_of(t)));
            CAPTURE(shape);
            CAPTURE(std::string(in.name));
            CAPTURE(std::string(out.name));
            if (element_count(shape) > 1000 && (&in != input_layouts || &out != output_layouts))
              continue;
            Array x(t, shape, in), y(t, shape, out), g(t, shape, in), dx(t, shape, out);
            x.random(1, c.low, c.high), g.random(2);
            cpu().unary(c.op, x.view, y.view);
            CHECK(wrong(y.view, [&](const Shape& at) { return c.value(get(x.view, at)); }) == 0);
            cpu().unary_gradient(c.op, x.view, y.view, g.view, dx.view);
            CHECK(wrong(
                      dx.view,
                      [&](const Shape& at) {
                        return c.gradient(get(x.view, at), get(y.view, at), get(g.view, at));
                      },
                      4) == 0);
          }
}

template <class T>
void check_alone(double low, double high, int op) {
  constexpr Index n = 131;
  T x[n], half[n], y[n], g[n], all[n], alone;
  for (Index i = 0; i < n; ++i) {
    half[i] = static_cast<T>((low + (high - low) * uniform(Key(1), static_cast<uint64_t>(i))) / 2);
    x[i] = half[i] + half[i];
    g[i] = static_cast<T>(uniform(Key(2), static_cast<uint64_t>(i)));
  }
  const cpu_kernels::Rows<T>& rows = cpu_kernels::rows<T>();
  rows.unary[op](x, 1, y, 1, n);
  rows.unary_of_sum[op](half, 1, half, 1, all, 1, n);
  for (Index i = 0; i < n; ++i) {
    rows.unary[op](x + i, 1, &alone, 1, 1);
    CHECK(alone == y[i]);
    CHECK(all[i] == y[i]);
  }
  T sums[n];
  rows.unary_gradient[op](x, 1, y, 1, g, 1, all, 1, n);
  rows.unary_of_sum_gradient[op](half, 1, half, 1, y, 1, g, 1, sums, 1, n);
  for (Index i = 0; i < n; ++i) {
    rows.unary_gradient[op](x + i, 1, y + i, 1, g + i, 1, &alone, 1, 1);
    CHECK(alone == all[i]);
    CHECK(sums[i] == all[i]);
  }
}

TEST_CASE("cpu: where a number stands in a row, and that it is a sum, changes no bit") {
  const std::string before = cpu_kernels::instruction_set();
  for (const char* set : {"generic", "v2", "v3", "v4"}) {
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    int op = 0;
#define UNARY(name, value, gradient, low, high) \
  {                                             \
    CAPTURE(std::string(#name));                \
    check_alone<float>(low, high, op);          \
    check_alone<double>(low, high, op);         \
  }                                             \
  ++op;
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  }
  cpu_kernels::use_instruction_set(before.c_str());
}

TEST_CASE("cpu: every binary operation equals its row, with any strides") {
  for (const BinaryCase& c : binary_cases())
    for (Dtype t : reals)
      for (const Shape& shape : odd_shapes)
        for (const Layout& left : input_layouts)
          for (const Layout& right : input_layouts)
            for (const Layout& out : output_layouts) {
              CAPTURE(std::string(c.name));
              CAPTURE(shape);
              CAPTURE(std::string(left.name));
              CAPTURE(std::string(right.name));
              CAPTURE(std::string(out.name));
              if (element_count(shape) > 2000 && (&out != output_layouts || left.reversed))
                continue;
              Array a(t, shape, left), b(t, shape, right), y(t, shape, out);
              a.random(3, c.low, c.high), b.random(4, c.low, c.high);
              cpu().binary(c.op, a.view, b.view, y.view);
              CHECK(wrong(y.view, [&](const Shape& at) {
                      return c.value(get(a.view, at), get(b.view, at));
                    }) == 0);
            }
}

TEST_CASE("cpu: select, fill and copy, between any strides and dtypes") {
  for (const Shape& shape : odd_shapes)
    for (const Layout& in : input_layouts)
      for (const Layout& out : output_layouts) {
        CAPTURE(shape);
        CAPTURE(std::string(in.name));
        CAPTURE(std::string(out.name));
        for (Dtype t : reals) {
          Array c(t, shape, in), a(t, shape, in), b(t, shape), y(t, shape, out);
          c.random(5), a.random(6), b.random(7);
          cpu().unary(Unary::relu, c.view, c.view);
          cpu().select(c.view, a.view, b.view, y.view);
          CHECK(wrong(y.view, [&](const Shape& at) {
                  return get(c.view, at) != 0 ? get(a.view, at) : get(b.view, at);
                }) == 0);
        }
        for (Dtype from : {Dtype::f32, Dtype::f64, Dtype::i64})
          for (Dtype to : {Dtype::f32, Dtype::f64, Dtype::i64}) {
            Array x(from, shape, in), y(to, shape, out);
            x.random(8, -9, 9);
            cpu().copy(x.view, y.view);
            CHECK(wrong(y.view, [&](const Shape& at) {
                    return to == Dtype::i64 ? std::trunc(get(x.view, at)) : get(x.view, at);
                  }) == 0);
            cpu().fill(3, y.view);
            CHECK(wrong(y.view, [](const Shape&) { return 3.0; }) == 0);
          }
      }
}

TEST_CASE("cpu: a float function is within a few units of the last place of the real one") {
  struct Case {
    const char* name;
    Unary op;
    std::function<long double(long double)> exact;
    double ulps, low, high;
  };
  const Case cases[] = {
      {"exp", Unary::exp, [](long double x) { return std::exp(x); }, 2, -87, 88.7},
      {"log", Unary::log, [](long double x) { return std::log(x); }, 2, 1e-37, 10},
      {"log, large", Unary::log, [](long double x) { return std::log(x); }, 2, 1, 3e38},
      {"tanh", Unary::tanh, [](long double x) { return std::tanh(x); }, 4, -12, 12},
      {"erf", Unary::erf, [](long double x) { return std::erf(x); }, 4, -5, 5},
      {"sin", Unary::sin, [](long double x) { return std::sin(x); }, 4, -1e4, 1e4},
      {"cos", Unary::cos, [](long double x) { return std::cos(x); }, 4, -1e4, 1e4},
      {"sigmoid", Unary::sigmoid,
       [](long double x) {
         return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
       },
       4, -87, 87},
      {"softplus", Unary::softplus,
       [](long double x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::fabs(x))); }, 4,
       -80, 80},
  };
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    const std::string before = cpu_kernels::instruction_set();
    if (!cpu_kernels::use_instruction_set(set)) continue;
    for (const Case& c : cases) {
      const Index count = 200'003;
      Array x(Dtype::f32, {count}), y(Dtype::f32, {count});
      for (Index i = 0; i < count; ++i)
        x.view.as<float>()[i] =
            static_cast<float>(c.low + (c.high - c.low) * static_cast<double>(i) / (count - 1));
      // Small numbers of both signs, where cancellation would show.
      for (Index i = 0; i < 2000; ++i)
        if (c.low < 0)
          x.view.as<float>()[i] =
              static_cast<float>((i % 2 ? 1 : -1) * std::pow(10.0, -static_cast<double>(i) / 60));
      cpu().unary(c.op, x.view, y.view);
      double worst = 0, worst_at = 0;
      for (Index i = 0; i < count; ++i) {
        const float at = x.view.as<float>()[i];
        const long double exact = c.exact(at);
        const float rounded = static_cast<float>(exact);
        const float next =
            std::nextafter(std::fabs(rounded), std::numeric_limits<float>::infinity());
        if (std::fabs(rounded) < 1.2e-38f || std::isinf(next)) continue;
        const double ulp = static_cast<double>(next) - std::fabs(static_cast<double>(rounded));
        const double error = std::fabs(static_cast<double>(y.view.as<float>()[i] - exact)) / ulp;
        if (!(error <= worst)) worst = error, worst_at = static_cast<double>(at);
      }
      CAPTURE(std::string(set));
      CAPTURE(std::string(c.name));
      CAPTURE(worst_at);
      CAPTURE(worst);
      CHECK(worst <= c.ulps);
    }
    cpu_kernels::use_instruction_set(before.c_str());
  }
}

TEST_CASE("cpu: gelu_erf and the slopes are right to a few units of the last place of 1") {
  struct Case {
    const char* name;
    Unary op;
    bool is_slope;
    double (*exact)(double);
    double most;  // of the error, for |x| > 1 of a value as a part of |x|
  };
  const Case cases[] = {{"gelu_erf", Unary::gelu_erf, false, gelu_erf, 2e-7},
                        {"gelu_erf's slope", Unary::gelu_erf, true, gelu_erf_slope, 3e-7},
                        {"gelu's slope", Unary::gelu, true, gelu_slope, 6e-7}};
  for (const char* set : {"v2", "v3", "v4", "generic"})
    for (const Case& c : cases) {
      const std::string before = cpu_kernels::instruction_set();
      if (!cpu_kernels::use_instruction_set(set)) continue;
      const Index count = 200'003;
      Array x(Dtype::f32, {count}), g(Dtype::f32, {count}), y(Dtype::f32, {count});
      for (Index i = 0; i < count; ++i) {
        x.view.as<float>()[i] = static_cast<float>(-14 + 28.0 * static_cast<double>(i) / count);
        g.view.as<float>()[i] = 1;
      }
      if (c.is_slope) cpu().unary_gradient(c.op, x.view, x.view, g.view, y.view);
      else cpu().unary(c.op, x.view, y.view);
      double worst = 0;
      for (Index i = 0; i < count; ++i) {
        const auto at = static_cast<double>(x.view.as<float>()[i]);
        const double error = std::fabs(static_cast<double>(y.view.as<float>()[i]) - c.exact(at));
        worst = std::max(worst, error / (c.is_slope ? 1 : std::max(1.0, std::fabs(at))));
      }
      CAPTURE(std::string(set));
      CAPTURE(std::string(c.name));
      CAPTURE(worst);
      CHECK(worst <= c.most);
      cpu_kernels::use_instruction_set(before.c_str());
    }
}

TEST_CASE("cpu: infinities, NaN, overflow and underflow come out right") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  struct Case {
    Unary op;
    double x, y;
  };
  const Case cases[] = {
      {Unary::exp, inf, inf},      {Unary::exp, -inf, 0},       {Unary::exp, nan, nan},
      {Unary::exp, 1000, inf},     {Unary::exp, -1000, 0},      {Unary::exp, 0, 1},
      {Unary::log, 0, -inf},       {Unary::log, inf, inf},      {Unary::log, -1, nan},
      {Unary::log, nan, nan},      {Unary::log, 1, 0},          {Unary::log, -inf, nan},
      {Unary::tanh, inf, 1},       {Unary::tanh, -inf, -1},     {Unary::tanh, nan, nan},
      {Unary::erf, inf, 1},        {Unary::erf, -inf, -1},      {Unary::erf, nan, nan},
      {Unary::sigmoid, inf, 1},    {Unary::sigmoid, -inf, 0},   {Unary::sigmoid, nan, nan},
      {Unary::sigmoid, 1000, 1},   {Unary::sigmoid, -1000, 0},  {Unary::softplus, 1000, 1000},
      {Unary::softplus, -1000, 0}, {Unary::softplus, inf, inf}, {Unary::softplus, -inf, 0},
      {Unary::softplus, nan, nan}, {Unary::sin, inf, nan},      {Unary::cos, nan, nan},
      {Unary::relu, nan, nan},     {Unary::relu, -inf, 0},      {Unary::relu, inf, inf},
      {Unary::gelu, inf, inf},     {Unary::gelu, nan, nan},     {Unary::abs, -inf, inf},
      {Unary::sqrt, -1, nan},      {Unary::rsqrt, 0, inf},      {Unary::gelu, -1000, 0},
  };
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    const std::string before = cpu_kernels::instruction_set();
    if (!cpu_kernels::use_instruction_set(set)) continue;
    for (Dtype t : reals)
      for (const Case& c : cases) {
        Array x(t, {37}), y(t, {37});  // vectors and what is left over
        cpu().fill(c.x, x.view);
        cpu().unary(c.op, x.view, y.view);
        CAPTURE(std::string(set));
        CAPTURE(static_cast<int>(c.op));
        CAPTURE(c.x);
        CAPTURE(std::string(name_of(t)));
        CHECK(wrong(
                  y.view, [&](const Shape&) { return c.y; }, 1e-30) == 0);
      }
    cpu_kernels::use_instruction_set(before.c_str());
  }
}

// ---- Folds -----------------------------------------------------------------------------------

TEST_CASE("cpu: a fold over any dimensions equals the loop over them") {
  for (Dtype t : reals)
    for (const Shape& shape : odd_shapes)
      for (const Layout& in : input_layouts)
        for (const Layout& out : output_layouts)
          for (int kept = 0; kept < 1 << shape.size(); ++kept)
            for (Fold how : {Fold::sum, Fold::max}) {
              Shape small = shape;
              for (int d = 0; d < shape.size(); ++d)
                if (!(kept >> d & 1)) small[d] = 1;
              Array x(t, shape, in), y(t, small, out);
              x.random(11);
              std::map<Index, double> expected;
              const double empty = how == Fold::sum ? 0 : -std::numeric_limits<double>::infinity();
              for_each(small, [&](const Shape& at) { expected[offset(y.view, at)] = empty; });
              for_each(shape, [&](const Shape& at) {
                Shape to = at;
                for (int d = 0; d < shape.size(); ++d)
                  if (small[d] == 1) to[d] = 0;
                double& e = expected[offset(y.view, to)];
                e = how == Fold::sum ? e + get(x.view, at) : std::max(e, get(x.view, at));
              });
              cpu().fold(how, x.view, y.view);
              CAPTURE(shape);
              CAPTURE(small);
              CAPTURE(std::string(in.name));
              CAPTURE(std::string(out.name));
              CAPTURE(std::string(name_of(t)));
              CHECK(wrong(
                        y.view, [&](const Shape& at) { return expected[offset(y.view, at)]; }, 4) ==
                    0);
            }
}

TEST_CASE("cpu: 0 is larger than -0, wherever they lie") {
  for (const Dtype t : reals)
    for (const Index n : {2, 7, 64, 131})
      for (Index place = 0; place < n; ++place) {
        Array x(t, {n, 2}), y(t, {1, 2}), z(t, {2, 1});
        cpu().fill(-0.0, x.view);
        put(x.view, {place, 0}, 0.0);
        View turned = x.view;
        std::swap(turned.shape[0], turned.shape[1]),
            std::swap(turned.strides[0], turned.strides[1]);
        Array row(t, {2, n});
        cpu().copy(turned, row.view);
        cpu().fold(Fold::max, x.view, y.view);
        cpu().fold(Fold::max, row.view, z.view);
        for (const double found : {get(y.view, {0, 0}), get(z.view, {0, 0})})
          CHECK(!std::signbit(found));
        for (const double found : {get(y.view, {0, 1}), get(z.view, {1, 0})})
          CHECK(std::signbit(found));
      }
}

TEST_CASE("cpu: a NaN wins a maximum") {
  for (const Shape& small : {Shape{1, 1}, Shape{1, 300}, Shape{200, 1}})
    for (Index place : {0, 7, 299, 30000, 59999}) {
      Array x(Dtype::f32, {200, 300}), y(Dtype::f32, small);
      x.random(1);
      x.view.as<float>()[place] = std::nanf("");
      cpu().fold(Fold::max, x.view, y.view);
      const Shape at{small[0] == 1 ? 0 : place / 300, small[1] == 1 ? 0 : place % 300};
      CAPTURE(small);
      CAPTURE(place);
      CHECK(std::isnan(get(y.view, at)));
    }
}

TEST_CASE("cpu: a float sum of a million numbers is right to a millionth") {
  for (const Shape& shape :
       {Shape{1 << 20}, Shape{1 << 18, 4}, Shape{4096, 256}, Shape{1 << 20, 1}}) {
    Array x(Dtype::f32, shape);
    x.random(3, 0, 1);
    for (int kept = -1; kept < shape.size(); ++kept) {
      Shape small(shape.size(), Index{1});
      if (kept >= 0) small[kept] = shape[kept];
      Array y(Dtype::f32, small);
      cpu().fold(Fold::sum, x.view, y.view);
      std::vector<double> expected(static_cast<size_t>(element_count(small)));
      for_each(shape, [&](const Shape& at) {
        expected[kept >= 0 ? static_cast<size_t>(at[kept]) : 0] += get(x.view, at);
      });
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i)
        worst = std::max(worst,
                         std::fabs(static_cast<double>(y.view.as<float>()[i]) / expected[i] - 1));
      CAPTURE(shape);
      CAPTURE(kept);
      CHECK(worst <= 1e-6);
    }
  }
}

// ---- Contractions ----------------------------------------------------------------------------

namespace {

// "b n x, x h d -> b n h d": every letter is a label; sizes give every letter's length.
struct Product {
  const char *a, *b, *y;
  std::map<char, Index> sizes;
};
Labels labels_of(const std::string& letters) {
  Labels labels;
  for (char c : letters) labels.push_back(static_cast<Label>(c));
  return labels;
}
Shape shape_of(const std::string& letters, const std::map<char, Index>& sizes) {
  Shape shape;
  for (char c : letters) shape.push_back(sizes.at(c));
  return shape;
}

// The sum over all letters, in double.
std::vector<double> product_by_loops(const Product& p, const View& A, const View& B,
                                     const View& Y) {
  std::string all;
  for (char c : std::string(p.y) + p.a + p.b)
    if (all.find(c) == std::string::npos) all += c;
  const auto offsets = [&](const char* letters, const View& v) {
    std::vector<Index> strides(all.size(), 0);
    for (int d = 0; d < v.rank(); ++d) strides[all.find(letters[d])] += v.strides[d];
    return strides;
  };
  const auto sa = offsets(p.a, A), sb = offsets(p.b, B), sy = offsets(p.y, Y);
  Index most = 0;
  for_each(Y.shape, [&](const Shape& at) { most = std::max(most, offset(Y, at)); });
  std::vector<double> y(static_cast<size_t>(most + 1));
  for_each(shape_of(all, p.sizes), [&](const Shape& at) {
    Index a = 0, b = 0, to = 0;
    for (int d = 0; d < at.size(); ++d) a += at[d] * sa[d], b += at[d] * sb[d], to += at[d] * sy[d];
    const auto value = [](const View& v, Index i) {
      return v.dtype == Dtype::f32 ? static_cast<double>(v.as<float>()[i]) : v.as<double>()[i];
    };
    y[to] += value(A, a) * value(B, b);
  });
  return y;
}

const Product products[] = {
    {"bhd", "bmhd", "bhm", {{'b', 2}, {'h', 5}, {'m', 501}, {'d', 67}}},
    {"bhm", "bmhd", "bhd", {{'b', 2}, {'h', 5}, {'m', 501}, {'d', 67}}},
    {"ij", "jk", "ik", {{'i', 7}, {'j', 11}, {'k', 13}}},
    {"ij", "jk", "ki", {{'i', 67}, {'j', 31}, {'k', 45}}},
    {"ji", "kj", "ik", {{'i', 130}, {'j', 70}, {'k', 90}}},
    {"ij", "ij", "", {{'i', 17}, {'j', 300}}},
    {"ij", "ij", "i", {{'i', 40}, {'j', 50}}},
    {"ij", "ij", "j", {{'i', 40}, {'j', 50}}},
    {"i", "j", "ij", {{'i', 5}, {'j', 9}}},
    {"i", "j", "", {{'i', 5}, {'j', 9}}},
    {"ij", "j", "i", {{'i', 33}, {'j', 65}}},
    {"ij", "i", "j", {{'i', 33}, {'j', 65}}},
    {"", "ij", "ji", {{'i', 3}, {'j', 4}}},
    {"", "", "", {}},
    {"ijk", "jl", "il", {{'i', 6}, {'j', 7}, {'k', 3}, {'l', 5}}},
    {"ij", "jk", "ik", {{'i', 6}, {'j', 0}, {'k', 5}}},
    {"ij", "jk", "ik", {{'i', 0}, {'j', 3}, {'k', 5}}},
    {"ij", "jk", "ik", {{'i', 1}, {'j', 64}, {'k', 1}}},
    {"ij", "jk", "ik", {{'i', 40}, {'j', 3}, {'k', 50}}},
    {"bnx", "xhd", "bnhd", {{'b', 2}, {'n', 9}, {'x', 24}, {'h', 3}, {'d', 8}}},
    {"bnx", "xdh", "bnhd", {{'b', 2}, {'n', 9}, {'x', 24}, {'h', 3}, {'d', 8}}},
    {"bnhd", "bmhd", "bhnm", {{'b', 2}, {'n', 19}, {'m', 23}, {'h', 3}, {'d', 8}}},
    {"bhnm", "bmhd", "bnhd", {{'b', 2}, {'n', 19}, {'m', 23}, {'h', 3}, {'d', 8}}},
    {"bnhd", "bnx", "xhd", {{'b', 3}, {'n', 19}, {'x', 24}, {'h', 3}, {'d', 8}}},
    {"bnhd", "hdx", "bnx", {{'b', 3}, {'n', 19}, {'x', 24}, {'h', 3}, {'d', 8}}},
    {"bnhd", "xdh", "bnx", {{'b', 3}, {'n', 19}, {'x', 24}, {'h', 3}, {'d', 8}}},
    {"bhnm", "hg", "bgnm", {{'b', 2}, {'n', 21}, {'m', 23}, {'h', 6}, {'g', 5}}},
    {"hg", "bhnm", "bgnm", {{'b', 2}, {'n', 21}, {'m', 23}, {'h', 32}, {'g', 32}}},
    {"bhnm", "bgnm", "hg", {{'b', 2}, {'n', 21}, {'m', 23}, {'h', 6}, {'g', 5}}},
    {"bhnm", "bgnm", "hg", {{'b', 1}, {'n', 70}, {'m', 70}, {'h', 9}, {'g', 13}}},
    {"bhnm", "bgnm", "hg", {{'b', 1}, {'n', 9}, {'m', 131}, {'h', 5}, {'g', 8}}},
    {"bhnm", "bgnm", "hg", {{'b', 1}, {'n', 9}, {'m', 131}, {'h', 4}, {'g', 10}}},
    {"bhnm", "bgnm", "hg", {{'b', 1}, {'n', 9}, {'m', 131}, {'h', 7}, {'g', 9}}},
    {"bhnm", "bhg", "bgnm", {{'b', 2}, {'n', 21}, {'m', 23}, {'h', 6}, {'g', 5}}},
    {"bhnm", "bhgm", "bgnm", {{'b', 2}, {'n', 7}, {'m', 131}, {'h', 5}, {'g', 13}}},
    {"hgm", "hnm", "gnm", {{'n', 3}, {'m', 129}, {'h', 37}, {'g', 2}}},
    {"hnm", "gnm", "hgm", {{'n', 66}, {'m', 191}, {'h', 9}, {'g', 29}}},
    {"hg", "gm", "hm", {{'h', 1}, {'g', 301}, {'m', 77}}},
    {"mg", "hg", "hm", {{'h', 1}, {'g', 77}, {'m', 301}}},
    {"gm", "g", "m", {{'g', 1031}, {'m', 67}}},
    {"g", "gm", "m", {{'g', 67}, {'m', 2051}}},
    {"hd", "ydh", "y", {{'h', 3}, {'d', 17}, {'y', 29}}},
    {"ydh", "hd", "y", {{'h', 19}, {'d', 5}, {'y', 16}}},
    {"x", "xdh", "hd", {{'h', 7}, {'d', 11}, {'x', 37}}},
    {"xdh", "x", "hd", {{'h', 17}, {'d', 2}, {'x', 61}}},
    {"dx", "xhyd", "hy", {{'h', 3}, {'d', 5}, {'x', 7}, {'y', 13}}},
    {"abcd", "cbde", "eab", {{'a', 3}, {'b', 4}, {'c', 5}, {'d', 6}, {'e', 7}}},
    {"ij", "jk", "ik", {{'i', 300}, {'j', 40}, {'k', 520}}},
    {"ij", "jk", "ik", {{'i', 65}, {'j', 3000}, {'k', 33}}},
};

void check_product(const Product& p, Dtype t, const Layout& left, const Layout& right,
                   const Layout& out) {
  CAPTURE(std::string(p.a));
  CAPTURE(std::string(p.b));
  CAPTURE(std::string(p.y));
  CAPTURE(std::string(name_of(t)));
  CAPTURE(std::string(left.name));
  CAPTURE(std::string(right.name));
  CAPTURE(std::string(out.name));
  double work = 1;
  for (auto [c, size] : p.sizes) work *= static_cast<double>(size);
  if (work > 2e5 && (left.step + right.step + out.step > 3 || left.repeated || t == Dtype::f64))
    return;
  Array A(t, shape_of(p.a, p.sizes), left), B(t, shape_of(p.b, p.sizes), right);
  Array Y(t, shape_of(p.y, p.sizes), out);
  A.random(21), B.random(22), Y.random(23);
  cpu().contract(A.view, labels_of(p.a), B.view, labels_of(p.b), Y.view, labels_of(p.y));
  const std::vector<double> expected = product_by_loops(p, A.view, B.view, Y.view);
  const auto at_place = [&](const Shape& at) { return expected[offset(Y.view, at)]; };
  CHECK(wrong(Y.view, at_place, 8 + std::sqrt(work)) == 0);
}

}  // namespace

TEST_CASE("cpu: a contraction equals the loop over its labels, with any strides") {
  for (Dtype t : reals)
    for (const Product& p : products)
      for (const Layout& left : input_layouts)
        for (const Layout& right : input_layouts)
          for (const Layout& out : output_layouts) check_product(p, t, left, right, out);
}

TEST_CASE("cpu: small matrices on long rows, with every instruction set") {
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    const std::string before = cpu_kernels::instruction_set();
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    for (Dtype t : reals)
      for (const Product& p : products)
        if (p.sizes.contains('g'))
          check_product(p, t, input_layouts[0], input_layouts[0], output_layouts[0]);
    cpu_kernels::use_instruction_set(before.c_str());
  }
}

// ---- Index -----------------------------------------------------------------------------------

TEST_CASE("cpu: gather reads where the indices say, scatter adds there") {
  struct Case {
    const char *t, *i, *y;
    char label;
    std::map<char, Index> sizes;
  };
  const Case cases[] = {
      {"vd", "bn", "bnd", 'v', {{'v', 7}, {'d', 5}, {'b', 3}, {'n', 4}}},
      {"vd", "bn", "dnb", 'v', {{'v', 7}, {'d', 67}, {'b', 3}, {'n', 40}}},
      {"tv", "t", "t", 'v', {{'v', 7}, {'t', 5}}},
      {"vt", "tk", "kt", 'v', {{'v', 7}, {'t', 5}, {'k', 3}}},
      {"v", "n", "n", 'v', {{'v', 3}, {'n', 9}}},
      {"vd", "", "d", 'v', {{'v', 3}, {'d', 9}}},
      {"vd", "n", "nd", 'v', {{'v', 3}, {'d', 9}, {'n', 0}}},
      {"avbd", "bn", "nabd", 'v', {{'v', 3}, {'d', 9}, {'n', 4}, {'a', 2}, {'b', 5}}},
  };
  for (Dtype t : reals)
    for (const Case& c : cases)
      for (const Layout& in : input_layouts)
        for (const Layout& out : output_layouts) {
          CAPTURE(std::string(c.t));
          CAPTURE(std::string(c.i));
          CAPTURE(std::string(c.y));
          CAPTURE(std::string(in.name));
          CAPTURE(std::string(out.name));
          Array T(t, shape_of(c.t, c.sizes), in), I(Dtype::i64, shape_of(c.i, c.sizes), in);
          Array Y(t, shape_of(c.y, c.sizes), out);
          T.random(31), I.random(32, 0, static_cast<double>(c.sizes.at(c.label)));
          const std::string ti = c.t, ii = c.i, yi = c.y;
          const auto place = [&](const Shape& at, const std::string& letters, int64_t index) {
            Shape to;
            for (char l : letters)
              to.push_back(l == c.label ? index : at[static_cast<int>(yi.find(l))]);
            return to;
          };
          const auto index = [&](const Shape& at) {
            return static_cast<int64_t>(get(I.view, place(at, ii, 0)));
          };
          cpu().gather(T.view, labels_of(c.t), I.view, labels_of(c.i), static_cast<Label>(c.label),
                       Y.view, labels_of(c.y));
          CHECK(wrong(Y.view,
                      [&](const Shape& at) { return get(T.view, place(at, ti, index(at))); }) == 0);

          Array G(t, Y.view.shape, in), sums(t, T.view.shape, out);
          G.random(33), sums.random(34);
          std::map<Index, double> expected;
          for_each(G.view.shape, [&](const Shape& at) {
            expected[offset(sums.view, place(at, ti, index(at)))] += get(G.view, at);
          });
          cpu().scatter(G.view, labels_of(c.y), I.view, labels_of(c.i), static_cast<Label>(c.label),
                        sums.view, labels_of(c.t));
          CHECK(wrong(
                    sums.view, [&](const Shape& at) { return expected[offset(sums.view, at)]; },
                    4) == 0);
        }
}

// ---- Random numbers --------------------------------------------------------------------------

TEST_CASE("cpu: uniform numbers depend on key and counter, not on layout, block or dtype") {
  for (Dtype t : reals) {
    const Shape shape{3, 50, 41};
    Array y(t, shape), z(t, shape, {"reversed", true}), late(t, {41});
    cpu().uniform(99, 5, y.view);
    cpu().uniform(99, 5, z.view);
    CHECK(wrong(
              z.view, [&](const Shape& at) { return get(y.view, at); }, 1e-9) == 0);
    cpu().uniform(99, 5 + 2 * 50 * 41 + 7 * 41, late.view);
    CHECK(wrong(
              late.view,
              [&](const Shape& at) {
                return get(y.view, {2, 7, at[0]});
              },
              1e-9) == 0);
    double sum = 0;
    for_each(shape, [&](const Shape& at) {
      const double u = get(y.view, at);
      CHECK(u >= 0);
      CHECK(u < 1);
      sum += u;
    });
    CHECK(sum / 6150 == doctest::Approx(0.5).epsilon(0.02));
  }
  // f32 is f64, cut after 24 bits.
  Array coarse(Dtype::f32, {1000}), fine(Dtype::f64, {1000});
  cpu().uniform(99, 5, coarse.view);
  cpu().uniform(99, 5, fine.view);
  for (Index i = 0; i < 1000; ++i)
    CHECK(get(coarse.view, {i}) == std::floor(get(fine.view, {i}) * 0x1p24) * 0x1p-24);
  // Random123's known answer for counter 0, key 0 begins with the word 6627e8d5.
  Array one(Dtype::f32, {1});
  cpu().uniform(0, 0, one.view);
  CHECK(get(one.view, {0}) == (0x6627e8d5u >> 8) * 0x1p-24);
}

TEST_CASE("cpu: uniform numbers are Philox's blocks, with every instruction set") {
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    const std::string before = cpu_kernels::instruction_set();
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    for (uint64_t key : {uint64_t{0}, uint64_t{99}, uint64_t{0xFEDCBA9876543210}})
      for (uint64_t first : {uint64_t{0}, uint64_t{0xFFFFFFF0}, uint64_t{5} << 32}) {
        Array f(Dtype::f32, {67}), d(Dtype::f64, {67});
        cpu().uniform(key, first, f.view), cpu().uniform(key, first, d.view);
        for (Index i = 0; i < 67; ++i) {
          const PhiloxBlock block = philox(key, first + static_cast<uint64_t>(i));
          const uint64_t bits = uint64_t{block.words[0]} << 32 | block.words[1];
          CHECK(get(f.view, {i}) == static_cast<double>(block.words[0] >> 8) * 0x1p-24);
          CHECK(get(d.view, {i}) == static_cast<double>(bits >> 11) * 0x1p-53);
        }
      }
    cpu_kernels::use_instruction_set(before.c_str());
  }
}

// The two of a pair are neighbours, halves of a row, or rows of their own; forth and back.
TEST_CASE("cpu: pairs turn in any layout, with every instruction set") {
  const std::string before = cpu_kernels::instruction_set();
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    for (Dtype t : reals)
      for (const Shape& shape : {Shape{3, 2, 5, 19}, Shape{1, 2, 1, 67}, Shape{2, 2, 0, 3}})
        for (const Layout& in : input_layouts)
          for (int pairs : {0, 2, 3})  // the dimension that moves to their place in memory
            for (const bool back : {false, true})
              for (const bool repeated : {false, true}) {
                CAPTURE(pairs);
                CAPTURE(back);
                const auto laid_out = [&](Array& x) {  // the two are dimension 1
                  View v = x.view;
                  std::swap(v.shape[pairs], v.shape[1]), std::swap(v.strides[pairs], v.strides[1]);
                  return v;
                };
                Shape stored = shape;
                std::swap(stored[pairs], stored[1]);
                Array x(t, stored, in), y(t, stored), c(t, {shape[2], shape[3]}),
                    s(t, {shape[2], shape[3]});
                x.random(1), c.random(2), s.random(3);
                const View vx = laid_out(x), vy = laid_out(y);
                const auto one = [&](View v, Index i) {
                  v.data = static_cast<std::byte*>(v.data) +
                           i * v.strides[1] * static_cast<Index>(size_of(t));
                  v.shape.erase(1), v.strides.erase(1);
                  return v;
                };
                const auto angles = [&](const View& v) {
                  const Index step = repeated ? 0 : v.strides[1];
                  return View{t, {shape[0], shape[2], shape[3]}, {0, v.strides[0], step}, v.data};
                };
                const View a = one(vx, back), b = one(vx, !back);
                const View cosine = angles(c.view), sine = angles(s.view);
                const View ya = one(vy, back), yb = one(vy, !back);
                CHECK(cpu().turn(a, b, cosine, sine, ya, yb));
                CHECK(wrong(ya, [&](const Shape& at) {
                        return get(a, at) * get(cosine, at) - get(b, at) * get(sine, at);
                      }) == 0);
                CHECK(wrong(yb, [&](const Shape& at) {
                        return get(a, at) * get(sine, at) + get(b, at) * get(cosine, at);
                      }) == 0);
              }
  }
  cpu_kernels::use_instruction_set(before.c_str());
}

TEST_CASE("cpu: dropout keeps what the uniform numbers say and scales it") {
  for (Dtype t : reals)
    for (const Layout& in : input_layouts)
      for (const Layout& out : output_layouts) {
        const Shape shape{6, 7, 300};
        Array x(t, shape, in), u(t, shape), y(t, shape, out);
        x.random(1);
        cpu().uniform(7, 11, u.view);
        cpu().dropout(x.view, 0.3, 7, 11, y.view);
        CHECK(wrong(y.view, [&](const Shape& at) {
                return get(u.view, at) >= 0.3 ? get(x.view, at) / 0.7 : 0;
              }) == 0);
      }
}

// ---- Softmax, norm, cross-entropy ------------------------------------------------------------

TEST_CASE("cpu: softmax and its gradient, over any axis, with any mask") {
  for (Dtype t : reals)
    for (const Shape& shape : {Shape{7}, Shape{1}, Shape{3, 0}, Shape{0, 3}, Shape{5, 67},
                               Shape{2, 3, 131}, Shape{8, 257}})
      for (int axis = 0; axis < shape.size(); ++axis)
        for (const Layout& in : input_layouts)
          for (const Layout& out : output_layouts)
            for (int masked = 0; masked < 3; ++masked) {
              CAPTURE(shape);
              CAPTURE(axis);
              CAPTURE(std::string(in.name));
              CAPTURE(std::string(out.name));
              CAPTURE(masked);
              Array x(t, shape, in), y(t, shape, out), g(t, shape, in), dx(t, shape, out);
              Array mask(t, shape, input_layouts[masked == 2 ? 3 : 0]);
              x.random(41, -5, 5), g.random(42), mask.random(43);
              cpu().unary(Unary::step, mask.view, mask.view);
              if (masked == 2) cpu().fill(0, {t, {}, {}, mask.view.data});
              View seen = mask.view;
              if (!masked) seen.data = nullptr;
              const auto visible = [&](const Shape& at) {
                return !masked || get(mask.view, at) != 0;
              };
              const auto along = [&](const Shape& at, auto term) {
                double sum = 0;
                for (Shape i = at; auto m : std::vector<Index>(1, shape[axis]))
                  for (i[axis] = 0; i[axis] < m; ++i[axis]) sum += term(i);
                return sum;
              };
              cpu().softmax(x.view, seen, axis, y.view);
              CHECK(wrong(y.view, [&](const Shape& at) {
                      if (!visible(at)) return 0.0;
                      return std::exp(get(x.view, at)) / along(at, [&](const Shape& i) {
                               return visible(i) ? std::exp(get(x.view, i)) : 0;
                             });
                    }) == 0);
              cpu().softmax_gradient(y.view, g.view, axis, dx.view);
              CHECK(wrong(dx.view, [&](const Shape& at) {
                      return get(y.view, at) * (get(g.view, at) - along(at, [&](const Shape& i) {
                                                  return get(y.view, i) * get(g.view, i);
                                                }));
                    }) == 0);
            }
}

// Rows of n numbers, of which one more is shown in each: the first `shown` in the first. All else
// is NaN, and stays so between the rows.
template <class T>
struct ShownRows {
  static constexpr Index rows = 30, rs = 5;  // more rows than are worked on at a time
  Index n, step = n + 3;
  std::array<Index, rows> shown;
  std::vector<T> x =
      std::vector<T>(static_cast<size_t>(rows * step), std::numeric_limits<T>::quiet_NaN());
  std::vector<T> stats = std::vector<T>(rows * rs, T(7));

  ShownRows(Index first, Index n, uint64_t key) : n(n) {
    for (Index r = 0; r < rows; ++r) {
      shown[static_cast<size_t>(r)] = std::min(first + r, n);
      for (Index i = 0; i < shown[static_cast<size_t>(r)]; ++i)
        at(r, i) = static_cast<T>(4 * uniform(Key(key), static_cast<uint64_t>(r * step + i)) - 2);
      stats[static_cast<size_t>(r * rs)] = -std::numeric_limits<T>::infinity();
      stats[static_cast<size_t>(r * rs + 1)] = 0;
    }
  }
  T& at(Index r, Index i) { return x[static_cast<size_t>(r * step + i)]; }
  double number(Index r, Index i) { return static_cast<double>(at(r, i)); }
  // Columns from this one on.
  cpu_kernels::PartRows<T> part(Index from, Index to, std::array<Index, rows>& seen) {
    for (size_t r = 0; r < rows; ++r) seen[r] = std::clamp<Index>(shown[r] - from, 0, to - from);
    return {x.data() + from, step, seen.data(), rows, to - from};
  }
  // The sum of exp over a row's shown numbers, while they are logits.
  double sum(Index r) {
    double all = 0;
    for (Index i = 0; i < shown[static_cast<size_t>(r)]; ++i) all += std::exp(number(r, i));
    return all;
  }
  // Numbers that a kernel should not have written.
  Index written_outside() {
    Index wrong = 0;
    for (Index r = 0; r < rows; ++r) {
      for (Index i = n; i < step; ++i) wrong += !std::isnan(at(r, i));
      for (Index i = 2; i < rs; ++i) wrong += stats[static_cast<size_t>(r * rs + i)] != 7;
    }
    return wrong;
  }
};

// Checks weights, from all numbers at once and in two parts, those made once more, which have the
// same bits, and the gradient of logits.
template <class T>
void check_weights(Index first, Index n) {
  using Rows = ShownRows<T>;
  const auto& kernels = cpu_kernels::rows<T>();
  Rows logits(first, n, 7), w = logits, again = logits, apart = logits, g(first, n, 8), dl = g,
                            dl_of_part = g;
  std::array<Index, Rows::rows> seen, others;
  std::vector<T> factors(Rows::rows), second(Rows::rows), inner(Rows::rows);
  kernels.softmax_of_part(w.part(0, n, seen), w.stats.data(), Rows::rs, factors.data());
  const Index half = n / 2;
  kernels.softmax_of_part(apart.part(0, half, seen), apart.stats.data(), Rows::rs, factors.data());
  kernels.softmax_of_part(apart.part(half, n, others), apart.stats.data(), Rows::rs, second.data());
  Index wrong = 0;
  const auto near = [&](double got, double right, double allowed) {
    wrong += !(std::abs(got - right) <= allowed);
  };
  for (Index r = 0; r < Rows::rows; ++r) {
    const double sum = logits.sum(r);
    for (Rows* of : {&w, &apart}) {
      const T* const stats = of->stats.data() + r * Rows::rs;
      near(static_cast<double>(stats[1]) * std::exp(static_cast<double>(stats[0])), sum,
           2e-6 * sum);
    }
    again.stats[static_cast<size_t>(r * Rows::rs)] = w.stats[static_cast<size_t>(r * Rows::rs)];
    again.stats[static_cast<size_t>(r * Rows::rs + 1)] =
        1 / w.stats[static_cast<size_t>(r * Rows::rs + 1)];
  }
  kernels.softmax_of_part_again(again.part(0, n, seen), again.stats.data(), Rows::rs);
  kernels.softmax_gradient_of_part(dl.part(0, n, seen), w.x.data(), nullptr);
  for (Index r = 0; r < Rows::rows; ++r) {
    const double sum = logits.sum(r), factor = static_cast<double>(second[static_cast<size_t>(r)]);
    const Index end = logits.shown[static_cast<size_t>(r)];
    double all = 0;
    for (Index i = 0; i < end; ++i) all += w.number(r, i) * g.number(r, i);
    inner[static_cast<size_t>(r)] = static_cast<T>(all);
    for (Index i = 0; i < n; ++i) {
      const double right = i < end ? std::exp(logits.number(r, i)) / sum : 0;
      near(w.number(r, i), right, 1e-6 * right);
      near(apart.number(r, i) * (i < half ? factor : 1), right, 2e-6 * right);
      near(dl.number(r, i), i < end ? right * (g.number(r, i) - all) : 0, 8e-6 * right);
      wrong += again.at(r, i) != w.at(r, i);
    }
  }
  kernels.softmax_gradient_of_part(dl_of_part.part(0, n, seen), w.x.data(), inner.data());
  for (Index r = 0; r < Rows::rows; ++r)
    for (Index i = 0; i < n; ++i)
      near(dl_of_part.number(r, i), dl.number(r, i), 8e-6 * w.number(r, i));
  for (Rows* of : {&w, &again, &apart, &dl, &dl_of_part}) wrong += of->written_outside();
  CHECK(wrong == 0);
}

TEST_CASE("cpu: a row's weights, wherever its shown numbers end") {
  const std::string before = cpu_kernels::instruction_set();
  for (const char* set : {"generic", "v2", "v3", "v4"}) {
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    for (const Index n : {1, 64, 131, 192, 1100})
      for (Index shown = 0; shown <= n; shown += n > 1000 ? 97 : 3) {
        CAPTURE(n);
        CAPTURE(shown);
        check_weights<float>(shown, n);
        check_weights<double>(shown, n);
      }
  }
  cpu_kernels::use_instruction_set(before.c_str());
}

TEST_CASE("cpu: heads mixed around a softmax, in every layout, and the gradient") {
  for (Dtype t : reals)
    for (const auto& sizes : {std::array<Index, 3>{5, 5, 5}, {1, 7, 13}, {24, 32, 3}})
      for (Index keys : {128, 131, 1031})
        for (const Layout& layout : input_layouts)
          for (const bool mixes : {false, true})
            for (const bool masked : {false, true}) {
              const Index in = sizes[0], heads = sizes[1], out = sizes[2];
              CAPTURE(in);
              CAPTURE(keys);
              CAPTURE(std::string(layout.name));
              CAPTURE(mixes);
              CAPTURE(masked);
              const Index last = mixes ? out : heads;
              const Shape of_x{2, 5, in, keys}, of_w{2, 5, heads, keys}, of_y{2, 5, last, keys};
              Array x(t, of_x, layout), w(t, of_w), y(t, of_y), g(t, of_y, layout), dx(t, of_x),
                  mask(t, of_w, layout), P(t, {in, heads}, layout), R(t, {heads, out}, layout),
                  dP(t, {in, heads}), dR(t, {heads, out});
              x.random(1, -3, 3), g.random(2), P.random(3), R.random(4), mask.random(5);
              cpu().unary(Unary::step, mask.view, mask.view);
              const View none{}, seen = masked ? mask.view : none, after = mixes ? R.view : none;
              // The same by the operations that it stands for.
              const Labels bnhm{0, 1, 2, 3}, bnkm{0, 1, 4, 3};
              Array L(t, of_w), W(t, of_w), Y(t, of_y), dW(t, of_w), dL(t, of_w), dX(t, of_x),
                  dP_(t, {in, heads}), dR_(t, {heads, out});
              cpu().contract(x.view, bnhm, P.view, {2, 4}, L.view, bnkm);
              cpu().softmax(L.view, seen, 3, W.view);
              if (mixes) cpu().contract(W.view, bnhm, R.view, {2, 4}, Y.view, bnkm);
              else cpu().copy(W.view, Y.view);
              if (mixes) cpu().contract(g.view, bnkm, R.view, {2, 4}, dW.view, bnhm);
              else cpu().copy(g.view, dW.view);
              cpu().softmax_gradient(W.view, dW.view, 3, dL.view);
              cpu().contract(dL.view, bnkm, P.view, {2, 4}, dX.view, bnhm);
              cpu().contract(x.view, bnhm, dL.view, bnkm, dP_.view, {2, 4});
              if (mixes) cpu().contract(W.view, bnhm, g.view, bnkm, dR_.view, {2, 4});
              const auto same = [](const Array& a, const Array& b) {
                return wrong(a.view, [&](const Shape& at) { return get(b.view, at); }) == 0;
              };
              REQUIRE(
                  cpu().mixed_softmax(x.view, P.view, seen, after, mixes ? w.view : none, y.view));
              CHECK(same(y, Y));
              if (mixes) CHECK(same(w, W));
              REQUIRE(cpu().mixed_softmax_gradient(x.view, P.view, mixes ? w.view : y.view, after,
                                                   g.view, dx.view, dP.view,
                                                   mixes ? dR.view : none));
              CHECK(same(dx, dX));
              // Their terms may cancel.
              const auto near = [&](const Array& a, const Array& b) {
                return apart(a, b) < (t == Dtype::f32 ? 2e-5 : 1e-13);
              };
              CHECK(near(dP, dP_));
              if (mixes) CHECK(near(dR, dR_));
              // Weights need not be kept, nor all gradients be wanted.
              cpu().fill(7, y.view), cpu().fill(7, dP.view);
              cpu().mixed_softmax(x.view, P.view, seen, after, none, y.view);
              CHECK(same(y, Y));
              cpu().mixed_softmax_gradient(x.view, P.view, W.view, after, g.view, none, dP.view,
                                           none);
              CHECK(near(dP, dP_));
            }
}

TEST_CASE("cpu: attention, of mixed heads or not, in every layout, and the gradient") {
  struct Sizes {
    Index h, g, o, n, m, c, e;
  };
  enum { b, h, g_, o, n, m, c, e };
  for (Dtype t : reals)
    for (const Sizes& s : {Sizes{1, 1, 1, 1, 1, 1, 1},
                           {3, 2, 5, 5, 3, 2, 33},
                           {2, 7, 3, 41, 131, 5, 1},
                           {6, 13, 2, 77, 64, 33, 7},
                           {2, 2, 2, 77, 64, 32, 64},
                           {3, 2, 2, 131, 397, 7, 13},
                           {1, 1, 2, 77, 1031, 3, 5},
                           {25, 24, 26, 13, 65, 3, 4}})
      for (const Layout& layout : input_layouts)
        for (const Index mixes : s.m > 300 ? Shape{0} : Shape{0, 1, 2, 3})
          for (const int masks : {0, 1, 2})
            for (const Index shown : masks == 1  ? Shape{s.m - s.n}
                                     : s.m > 900 ? Shape{s.m, 540}
                                     : mixes     ? Shape{s.m, -3}
                                                 : Shape{s.m, -3, 1}) {
              CAPTURE(name_of(t));
              CAPTURE(s.h);
              CAPTURE(std::string(layout.name));
              CAPTURE(mixes);
              CAPTURE(masks);
              CAPTURE(shown);
              const Index biases = (masks + mixes) % 3;  // 2: one of both samples
              CAPTURE(biases);
              const bool first = mixes & 1, last = mixes & 2;
              const Index in = first ? s.h : s.g, out = last ? s.o : s.g;
              const Shape of_q{2, in, s.n, s.c}, of_k{2, in, s.m, s.c}, of_v{2, out, s.m, s.e},
                  of_y{2, out, s.n, s.e}, of_j{2, in, s.n, s.m}, of_w{2, s.g, s.n, s.m},
                  of_u{2, out, s.n, s.m}, of_P{in, s.g}, of_R{s.g, out};
              const Layout made = layout.repeated ? Layout{} : layout;
              Array q(t, of_q, layout), k(t, of_k, layout), v(t, of_v, layout), P(t, of_P, layout),
                  R(t, of_R, layout), y(t, of_y, made), g(t, of_y, layout), dq(t, of_q, made),
                  dk(t, of_k, made), dv(t, of_v, made), dP(t, of_P, made), dR(t, of_R, made),
                  stats(t, {2, s.g, s.n, 2}), mask(t, of_w, layout), added(t, of_w, layout),
                  db(t, of_w, made);
              q.random(1, -1, 1), k.random(2), v.random(3), g.random(4), mask.random(5);
              P.random(6, -1, 1), R.random(7, -1, 1), added.random(8, -1, 1);
              View bias = biases ? added.view : View{}, dbias = biases ? db.view : View{};
              if (biases == 2) bias.strides[0] = dbias.strides[0] = 0;
              cpu().unary(Unary::step, mask.view, mask.view);
              View hides = masks ? mask.view : View{};
              if (masks == 1) hides.strides[1] = 0;  // one mask for all heads
              // The same by the operations that it stands for.
              Array seen(t, of_w), J(t, of_j), W(t, of_w), U(t, of_u), Y(t, of_y), dU(t, of_u),
                  dW(t, of_w), dL(t, of_w), dJ(t, of_j), dQ(t, of_q), dK(t, of_k), dV(t, of_v),
                  dP_(t, of_P), dR_(t, of_R), dB(t, of_w);
              for_each(of_w, [&](const Shape& at) {
                const bool is_seen = at[3] < shown + at[2] && (!masks || get(hides, at) != 0);
                put(seen.view, at, is_seen);
              });
              const Label i = first ? h : g_, j = last ? o : g_;
              const Labels Q{b, i, n, c}, K{b, i, m, c}, V{b, j, m, e}, O{b, j, n, e},
                  of_J{b, i, n, m}, of_W{b, g_, n, m}, of_U{b, j, n, m};
              cpu().contract(q.view, Q, k.view, K, J.view, of_J);
              if (first) cpu().contract(J.view, of_J, P.view, {h, g_}, W.view, of_W);
              else cpu().copy(J.view, W.view);
              if (biases) cpu().binary(Binary::add, W.view, bias, W.view);
              cpu().softmax(W.view, seen.view, 3, W.view);
              if (last) cpu().contract(W.view, of_W, R.view, {g_, o}, U.view, of_U);
              else cpu().copy(W.view, U.view);
              cpu().contract(U.view, of_U, v.view, V, Y.view, O);
              cpu().contract(U.view, of_U, g.view, O, dV.view, V);
              cpu().contract(g.view, O, v.view, V, dU.view, of_U);
              if (last) cpu().contract(dU.view, of_U, R.view, {g_, o}, dW.view, of_W);
              else cpu().copy(dU.view, dW.view);
              if (last) cpu().contract(W.view, of_W, dU.view, of_U, dR_.view, {g_, o});
              cpu().softmax_gradient(W.view, dW.view, 3, dL.view);
              if (first) cpu().contract(dL.view, of_W, P.view, {h, g_}, dJ.view, of_J);
              else cpu().copy(dL.view, dJ.view);
              if (first) cpu().contract(J.view, of_J, dL.view, of_W, dP_.view, {h, g_});
              cpu().contract(dJ.view, of_J, k.view, K, dQ.view, Q);
              cpu().contract(dJ.view, of_J, q.view, Q, dK.view, K);
              for_each(of_w, [&](const Shape& at) {  // both samples' where they share a bias
                const Shape other{1 - at[0], at[1], at[2], at[3]};
                put(dB.view, at, get(dL.view, at) + (biases == 2 ? get(dL.view, other) : 0));
              });
              const View none{}, before = first ? P.view : none, after = last ? R.view : none;
              const auto near = [&](const Array& a, const Array& right) {
                return apart(a, right) < (t == Dtype::f32 ? 2e-5 : 1e-13) * largest(right, 1);
              };
              CHECK(same_bits(y, [&] {
                REQUIRE(cpu().attend(q.view, k.view, v.view, before, after, bias, hides, shown,
                                     y.view, stats.view));
              }));
              CHECK(near(y, Y));
              // Without y, all positions are one part; few are with it.
              View kept = masks == 1 ? y.view : none;
              const auto gradient = [&](const View& to_q, const View& to_k, const View& to_v,
                                        const View& to_b, const View& to_P, const View& to_R) {
                return cpu().attend_gradient(q.view, k.view, v.view, before, after, bias, hides,
                                             shown, kept, stats.view, g.view, to_q, to_k, to_v,
                                             to_b, to_P, to_R);
              };
              CHECK(same_bits(dk, [&] {
                cpu().fill(0, db.view);
                REQUIRE(gradient(dq.view, dk.view, dv.view, dbias, first ? dP.view : none,
                                 last ? dR.view : none));
              }));
              CHECK(near(dq, dQ));
              CHECK(near(dk, dK));
              CHECK(near(dv, dV));
              cpu().copy(biases ? dbias : dB.view, dW.view);
              CHECK(near(dW, dB));
              if (first) CHECK(near(dP, dP_));
              if (last) CHECK(near(dR, dR_));
              kept = y.view;
              CHECK(same_bits(dq, [&] { gradient(dq.view, dk.view, dv.view, none, none, none); }));
              CHECK(near(dq, dQ));
              CHECK(near(dk, dK));
              CHECK(near(dv, dV));
              // Not all gradients need be wanted.
              cpu().fill(7, dk.view), cpu().fill(7, dv.view);
              gradient(none, dk.view, none, none, none, none);
              CHECK(near(dk, dK));
              gradient(none, none, dv.view, none, none, none);
              CHECK(near(dv, dV));
              cpu().fill(7, dq.view);
              gradient(dq.view, none, none, none, none, none);
              CHECK(near(dq, dQ));
              if (last) {
                gradient(dq.view, none, none, none, none, dR.view);
                CHECK(near(dq, dQ));
                CHECK(near(dR, dR_));
              }
            }
}

TEST_CASE("cpu: queries that see nothing lie beside some that see the end of the memory only") {
  const std::string before = cpu_kernels::instruction_set();
  const View none{};
  int sets = 0;
  for (const char* set : {"v2", "v3", "v4", "generic"}) {
    if (!cpu_kernels::use_instruction_set(set)) continue;
    CAPTURE(std::string(set));
    for (const Index n : {24, 36})
      for (const Index m : {128, 200, 1400}) {  // the last one in parts
        const Index border = m == 1400 ? 700 : 70;
        Array q(Dtype::f64, {n, 2}), k(Dtype::f64, {m, 2}), v(Dtype::f64, {m, 3}),
            y(Dtype::f64, {n, 3}), g(Dtype::f64, {n, 3}), mask(Dtype::f64, {n, m}),
            stats(Dtype::f64, {n, 2}), dq(Dtype::f64, {n, 2}), dk(Dtype::f64, {m, 2}),
            dv(Dtype::f64, {m, 3}), w(Dtype::f64, {n, m}), dV(Dtype::f64, {m, 3});
        q.random(1), k.random(2), v.random(3), g.random(4);
        for_each({n, m}, [&](const Shape& at) {
          put(mask.view, at, at[0] != 11 && at[0] != 23 && at[0] >= 5 && at[1] >= border);
        });
        cpu().contract(q.view, {0, 2}, k.view, {1, 2}, w.view, {0, 1});
        cpu().softmax(w.view, mask.view, 1, w.view);
        cpu().contract(w.view, {0, 1}, g.view, {0, 2}, dV.view, {1, 2});
        // Its products are not those of BLAS, which is faster with narrow registers.
        if (!cpu().attend(q.view, k.view, v.view, none, none, none, mask.view, m, y.view,
                          stats.view))
          continue;
        ++sets;
        cpu().attend_gradient(q.view, k.view, v.view, none, none, none, mask.view, m, y.view,
                              stats.view, g.view, dq.view, dk.view, dv.view, none, none, none);
        CHECK(wrong(dv.view, [&](const Shape& at) { return get(dV.view, at); }) == 0);
        CHECK(wrong(y.view, [&](const Shape& at) {
                double sum = 0;
                for (Index j = 0; j < m; ++j)
                  sum += get(w.view, {at[0], j}) * get(v.view, {j, at[1]});
                return sum;
              }) == 0);
        for (const Index row : {0, 4, 11, 23}) CHECK(get(dq.view, {row, 1}) == 0);
      }
  }
  cpu_kernels::use_instruction_set(before.c_str());
  CHECK((sets > 0 || !cpu().attends(100, 0)));
  for (const Index mixed : {4, 65}) CHECK(!cpu().attends(100, mixed));
}

TEST_CASE("cpu: what attention does not see poisons nothing, and -inf alone is NaN") {
  if (!cpu().attends(100, 0)) return;
  constexpr Index n = 3;
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const Index m : {70, 1600}) {  // the latter in parts
    CAPTURE(m);
    const View none{};
    Array q(Dtype::f64, {n, 1}), k(Dtype::f64, {m, 1}), v(Dtype::f64, {m, 1}),
        y(Dtype::f64, {n, 1}), mask(Dtype::f64, {n, m}), stats(Dtype::f64, {n, 2}),
        dv(Dtype::f64, {m, 1});
    cpu().fill(1, q.view), cpu().fill(0, k.view), cpu().fill(2, v.view), cpu().fill(1, mask.view);
    put(k.view, {3, 0}, std::nan(""));
    put(k.view, {m - 1, 0}, inf);
    for (Index i = 0; i < n; ++i) put(mask.view, {i, 3}, 0);
    for (Index j = 0; j < m; ++j) put(mask.view, {1, j}, 0);
    const auto attend = [&](const View& mask) {
      cpu().attend(q.view, k.view, v.view, none, none, none, mask, m - 10, y.view, stats.view);
    };
    attend(mask.view);
    CHECK(get(y.view, {0, 0}) == doctest::Approx(2));
    CHECK(get(y.view, {1, 0}) == 0);  // it sees nothing
    CHECK(get(y.view, {2, 0}) == doctest::Approx(2));
    cpu().attend_gradient(q.view, k.view, v.view, none, none, none, mask.view, m - 10, y.view,
                          stats.view, y.view, none, none, dv.view, none, none, none);
    CHECK(get(dv.view, {3, 0}) == 0);
    const double visible = static_cast<double>(m) - 11;  // to the first query
    CHECK(get(dv.view, {4, 0}) == doctest::Approx(2 / visible + 2 / (visible + 2)));
    CHECK(get(dv.view, {m - 1, 0}) == 0);
    cpu().fill(-inf, k.view);
    attend(none);
    CHECK(std::isnan(get(y.view, {0, 0})));
    put(k.view, {m - 11, 0}, -1000);  // the largest, in the last part
    attend(none);
    CHECK(get(y.view, {0, 0}) == doctest::Approx(2));
    put(k.view, {m - 11, 0}, inf);
    attend(none);
    CHECK(std::isnan(get(y.view, {0, 0})));
    put(k.view, {m - 11, 0}, 0), put(k.view, {5, 0}, std::nan(""));
    attend(none);
    CHECK(std::isnan(get(y.view, {2, 0})));
  }
}

TEST_CASE("cpu: a long memory is taken in parts, whichever has the largest logits") {
  if (!cpu().attends(100, 0)) return;
  constexpr Index n = 29, m = 1700;
  const View none{};
  for (const Dtype t : reals)
    for (const int shape : {0, 1, 2}) {
      CAPTURE(name_of(t));
      CAPTURE(shape);
      Array q(t, {n, 1}), k(t, {m, 1}), v(t, {m, 3}), y(t, {n, 3}), g(t, {n, 3}), stats(t, {n, 2}),
          dq(t, {n, 1}), dk(t, {m, 1}), dv(t, {m, 3}), w(t, {n, m}), Y(t, {n, 3}), dw(t, {n, m}),
          dQ(t, {n, 1}), dK(t, {m, 1}), dV(t, {m, 3});
      v.random(1), g.random(2);
      for (Index i = 0; i < n; ++i) put(q.view, {i, 0}, 1 + 0.01 * static_cast<double>(i));
      for (Index j = 0; j < m; ++j) {  // over a range of 340, exp of which no f32 holds
        const double at = 0.2 * static_cast<double>(j);
        put(k.view, {j, 0}, shape == 0 ? at : shape == 1 ? -at : -std::abs(at - 170));
      }
      cpu().contract(q.view, {0, 2}, k.view, {1, 2}, w.view, {0, 1});
      cpu().softmax(w.view, none, 1, w.view);
      cpu().contract(w.view, {0, 1}, v.view, {1, 2}, Y.view, {0, 2});
      cpu().contract(w.view, {0, 1}, g.view, {0, 2}, dV.view, {1, 2});
      cpu().contract(g.view, {0, 2}, v.view, {1, 2}, dw.view, {0, 1});
      cpu().softmax_gradient(w.view, dw.view, 1, dw.view);
      cpu().contract(dw.view, {0, 1}, k.view, {1, 2}, dQ.view, {0, 2});
      cpu().contract(dw.view, {0, 1}, q.view, {0, 2}, dK.view, {1, 2});
      REQUIRE(cpu().attend(q.view, k.view, v.view, none, none, none, none, m, y.view, stats.view));
      cpu().attend_gradient(q.view, k.view, v.view, none, none, none, none, m, y.view, stats.view,
                            g.view, dq.view, dk.view, dv.view, none, none, none);
      const auto near = [&](const Array& a, const Array& right) {  // in dq, 340 cancels
        return apart(a, right) < (t == Dtype::f32 ? 1e-3 : 1e-11) * largest(right);
      };
      CHECK(near(y, Y));
      CHECK(near(dv, dV));
      CHECK(near(dq, dQ));
      CHECK(near(dk, dK));
    }
}

TEST_CASE("cpu: attention in parts is exact where one weight is all, and overflows no sooner") {
  if (!cpu().attends(100, 0)) return;
  constexpr Index n = 17, m = 1100, e = 300;
  const View none{};
  Array q(Dtype::f32, {n, 1}), k(Dtype::f32, {m, 1}), v(Dtype::f32, {m, e}), y(Dtype::f32, {n, e}),
      g(Dtype::f32, {n, e}), stats(Dtype::f32, {n, 2}), dq(Dtype::f32, {n, 1}),
      dk(Dtype::f32, {m, 1});
  v.random(1), g.random(2), cpu().fill(1, q.view);
  for (const Index largest : {3, 1000}) {  // of the first part, and of the last one
    for (Index j = 0; j < m; ++j) put(k.view, {j, 0}, j == largest ? 500 : -500);
    cpu().attend(q.view, k.view, v.view, none, none, none, none, m, y.view, stats.view);
    CHECK(get(y.view, {2, 5}) == get(v.view, {largest, 5}));
    cpu().attend_gradient(q.view, k.view, v.view, none, none, none, none, m, y.view, stats.view,
                          g.view, dq.view, dk.view, none, none, none, none);
    for (Index i = 0; i < n; ++i) CHECK(get(dq.view, {i, 0}) == 0);
    for (Index j = 0; j < m; ++j) CHECK(get(dk.view, {j, 0}) == 0);
  }
  cpu().fill(0, k.view), cpu().fill(1e37, v.view);
  cpu().attend(q.view, k.view, v.view, none, none, none, none, m, y.view, stats.view);
  CHECK(get(y.view, {0, 0}) == doctest::Approx(1e37));
}

TEST_CASE("cpu: softmax does not overflow, and what is hidden poisons nothing") {
  Array x(Dtype::f32, {3, 40}), mask(Dtype::f32, {3, 40}), y(Dtype::f32, {3, 40});
  cpu().fill(1e30, x.view);
  cpu().fill(1, mask.view);
  for (Index i = 0; i < 40; ++i) mask.view.as<float>()[40 + i] = 0;
  x.view.as<float>()[3] = std::nanf("");
  mask.view.as<float>()[3] = 0;
  cpu().softmax(x.view, mask.view, 1, y.view);
  CHECK(wrong(y.view, [](const Shape& at) {
          return at[0] == 1 || (at[0] == 0 && at[1] == 3) ? 0.0 : at[0] == 0 ? 1.0 / 39 : 1.0 / 40;
        }) == 0);
}

TEST_CASE("cpu: layer norm, RMS norm and their gradients equal their formulas") {
  for (Dtype t : reals)
    for (const Shape& shape :
         {Shape{5}, Shape{0, 4}, Shape{3, 7}, Shape{2, 3, 130}, Shape{300, 67}})
      for (bool center : {true, false})
        for (const Layout& in : input_layouts)
          for (const Layout& out : output_layouts) {
            CAPTURE(shape);
            CAPTURE(center);
            CAPTURE(std::string(in.name));
            CAPTURE(std::string(out.name));
            CAPTURE(std::string(name_of(t)));
            const int last = shape.size() - 1;
            const Index n = shape[last];
            Shape pairs = shape;
            pairs[last] = 2;
            Array x(t, shape, in), g(t, shape, in), y(t, shape, out), dx(t, shape, out),
                stats(t, pairs, out);
            Array scale(t, {n}, {"step 2", false, 2}), bias(t, {n}),
                dscale(t, {n}, {"step 2", false, 2}), dbias(t, {n});
            x.random(51), g.random(52), scale.random(53, 0.5, 1.5), bias.random(54);
            View b = bias.view, db = dbias.view;
            if (!center) b.data = db.data = nullptr;
            const double epsilon = 1e-3;
            cpu().norm(x.view, scale.view, b, center, epsilon, y.view, stats.view);
            // mean over the last dimension of term(i)
            const auto mean = [&](Shape at, auto term) {
              double sum = 0;
              for (at[last] = 0; at[last] < n; ++at[last]) sum += term(at);
              return sum / static_cast<double>(n);
            };
            const auto mu = [&](const Shape& at) {
              return center ? mean(at, [&](const Shape& i) { return get(x.view, i); }) : 0;
            };
            const auto inverse = [&](const Shape& at, double m) {
              return 1 /
                     std::sqrt(
                         mean(at, [&](const Shape& i) { return std::pow(get(x.view, i) - m, 2); }) +
                         epsilon);
            };
            CHECK(wrong(stats.view, [&](const Shape& at) {
                    const double m = mu(at);
                    return at[last] ? inverse(at, m) : m;
                  }) == 0);
            const auto h = [&](const Shape& at) {
              Shape s = at;
              s[last] = 0;
              const double m = get(stats.view, s);
              s[last] = 1;
              return (get(x.view, at) - m) * get(stats.view, s);
            };
            const auto of = [&](const Array& v, const Shape& at) {
              return get(v.view, {at[last]});
            };
            CHECK(wrong(
                      y.view,
                      [&](const Shape& at) {
                        return h(at) * of(scale, at) + (center ? of(bias, at) : 0);
                      },
                      4) == 0);
            cpu().norm_gradient(x.view, scale.view, g.view, stats.view, center, dx.view,
                                dscale.view, db);
            const auto q = [&](const Shape& at) { return of(scale, at) * get(g.view, at); };
            if (element_count(shape) < 10000)
              CHECK(wrong(
                        dx.view,
                        [&](const Shape& at) {
                          const double mq = center ? mean(at, q) : 0,
                                       mqh = mean(at, [&](const Shape&i) { return q(i) * h(i); });
                          Shape s = at;
                          s[last] = 1;
                          return get(stats.view, s) * (q(at) - mq - h(at) * mqh);
                        },
                        8) == 0);
            std::vector<long double> scales(static_cast<size_t>(n)), biases(scales);
            for_each(shape, [&](const Shape& at) {
              scales[at[last]] += get(g.view, at) * h(at);
              biases[at[last]] += get(g.view, at);
            });
            CHECK(wrong(
                      dscale.view,
                      [&](const Shape& at) { return static_cast<double>(scales[at[0]]); },
                      32) == 0);
            if (center)
              CHECK(wrong(
                        dbias.view,
                        [&](const Shape& at) { return static_cast<double>(biases[at[0]]); },
                        32) == 0);
          }
}

TEST_CASE("cpu: cross-entropy and its gradient equal their formulas") {
  for (Dtype t : reals)
    for (const Shape& shape : {Shape{0, 3}, Shape{1, 1}, Shape{7, 65}, Shape{31, 1025}})
      for (const Layout& in : input_layouts)
        for (const Layout& out : output_layouts) {
          CAPTURE(shape);
          CAPTURE(std::string(in.name));
          CAPTURE(std::string(out.name));
          CAPTURE(std::string(name_of(t)));
          const Index rows = shape[0];
          Array x(t, shape, in), targets(Dtype::i64, {rows}, {"step 2", false, 2}),
              loss(t, {rows}, out), lse(t, {rows});
          Array g(t, {rows}, in), dx(t, shape, out);
          x.random(61, -4, 4), targets.random(62, 0, static_cast<double>(shape[1])), g.random(63);
          cpu().cross_entropy(x.view, targets.view, loss.view, lse.view);
          const auto logsumexp = [&](Index row) {
            double sum = 0;
            for (Index v = 0; v < shape[1]; ++v) sum += std::exp(get(x.view, {row, v}));
            return std::log(sum);
          };
          CHECK(wrong(
                    lse.view, [&](const Shape& at) { return logsumexp(at[0]); }, 4) == 0);
          CHECK(wrong(
                    loss.view,
                    [&](const Shape& at) {
                      return logsumexp(at[0]) -
                             get(x.view, {at[0], static_cast<Index>(get(targets.view, at))});
                    },
                    8) == 0);
          cpu().cross_entropy_gradient(x.view, targets.view, lse.view, g.view, dx.view);
          CHECK(wrong(dx.view, [&](const Shape& at) {
                  const bool hit = get(targets.view, {at[0]}) == static_cast<double>(at[1]);
                  return get(g.view, {at[0]}) *
                         (std::exp(get(x.view, at) - get(lse.view, {at[0]})) - hit);
                }) == 0);
        }
}

// ---- Threads ---------------------------------------------------------------------------------

TEST_CASE("cpu: the number of threads changes no bit") {
  const Dtype t = Dtype::f32;
  for (const Shape& small : {Shape{1, 1}, Shape{1, 300}, Shape{1000, 1}}) {
    Array x(t, {1000, 300}), y(t, small);
    x.random(1);
    CHECK(same_bits(y, [&] { cpu().fold(Fold::sum, x.view, y.view); }));
  }
  const Product cases[] = {
      {"ij", "jk", "ik", {{'i', 768}, {'j', 128}, {'k', 512}}},
      {"ji", "jk", "ik", {{'i', 128}, {'j', 3000}, {'k', 65}}},
      {"bnhd", "bmhd", "bhnm", {{'b', 3}, {'n', 64}, {'m', 64}, {'h', 4}, {'d', 32}}},
      {"bhnm", "bmhd", "bnhd", {{'b', 3}, {'n', 64}, {'m', 64}, {'h', 4}, {'d', 32}}},
      {"bhnm", "hg", "bgnm", {{'b', 2}, {'n', 100}, {'m', 130}, {'h', 12}, {'g', 12}}},
      {"bhnm", "bgnm", "hg", {{'b', 2}, {'n', 100}, {'m', 130}, {'h', 12}, {'g', 12}}},
      {"ij", "j", "i", {{'i', 500}, {'j', 700}}},
      {"ij", "i", "j", {{'i', 500}, {'j', 700}}},
      {"bhd", "bmhd", "bhm", {{'b', 3}, {'h', 5}, {'m', 701}, {'d', 67}}},
      {"bhm", "bmhd", "bhd", {{'b', 3}, {'h', 5}, {'m', 701}, {'d', 67}}},
      {"bi", "io", "bo", {{'b', 8}, {'i', 300}, {'o', 1025}}},
      // A B that several rows of tiles would turn, also one whose lines would collide.
      {"ik", "jk", "ij", {{'i', 397}, {'k', 70}, {'j', 97}}},
      {"ik", "jk", "ij", {{'i', 2100}, {'k', 41}, {'j', 1024}}},
  };
  for (const Product& p : cases) {
    CAPTURE(std::string(p.a));
    CAPTURE(std::string(p.b));
    CAPTURE(std::string(p.y));
    Array A(t, shape_of(p.a, p.sizes)), B(t, shape_of(p.b, p.sizes)), Y(t, shape_of(p.y, p.sizes));
    A.random(2), B.random(3);
    CHECK(same_bits(Y, [&] {
      cpu().contract(A.view, labels_of(p.a), B.view, labels_of(p.b), Y.view, labels_of(p.y));
    }));
  }
  Array x(t, {500, 300}), g(t, {500, 300}), scale(t, {300}), dx(t, {500, 300}), stats(t, {500, 2}),
      dscale(t, {300}), dbias(t, {300});
  x.random(4), g.random(5), scale.random(6);
  cpu().norm(x.view, scale.view, scale.view, true, 1e-6, dx.view, stats.view);
  CHECK(same_bits(dscale, [&] {
    cpu().norm_gradient(x.view, scale.view, g.view, stats.view, true, dx.view, dscale.view,
                        dbias.view);
  }));
  Array sum(t, {500, 300});
  CHECK(same_bits(dx, [&] {
    cpu().add_norm(x.view, g.view, scale.view, scale.view, true, 1e-6, sum.view, dx.view,
                   stats.view);
  }));
  Array table(t, {65, 300}), index(Dtype::i64, {500});
  index.random(7, 0, 65);
  CHECK(same_bits(table, [&] {
    cpu().scatter(g.view, labels_of("nd"), index.view, labels_of("n"), 'v', table.view,
                  labels_of("vd"));
  }));
}

TEST_CASE("a thread's own memory in a loop is aligned, as large as asked, and no other's") {
  using cpu_kernels::Scratch;
  const int before = threads();
  const size_t live = memory_use().live;
  const std::vector<size_t> sizes{0, 1, 256, 257, 1000, 1 << 18, (1 << 18) + 1};
  for (int count : {1, 3}) {
    set_threads(count);
    std::vector<std::unique_ptr<Scratch>> made(40 * sizes.size());
    for (int round = 0; round < 3; ++round) {
      parallel_for(std::ssize(made), 1e9, [&](Index i) {
        const size_t bytes = sizes[i % sizes.size()];
        const Scratch own(bytes);
        made[i] = std::make_unique<Scratch>(bytes);
        for (const Scratch* each : {&own, static_cast<const Scratch*>(made[i].get())})
          std::memset(each->as<char>(), static_cast<int>(i), bytes);
      });
      for (size_t i = 0; i < made.size(); ++i) {
        const char* const bytes = made[i]->as<char>();
        const auto is_own = [&](char byte) { return byte == static_cast<char>(i); };
        CHECK(reinterpret_cast<uintptr_t>(bytes) % 64 == 0);
        CHECK(std::all_of(bytes, bytes + sizes[i % sizes.size()], is_own));
      }
      made = decltype(made)(made.size());  // on another thread than the one that took it
    }
  }
  set_threads(before);
  CHECK(memory_use().live == live);
}

TEST_CASE("an exception in a thread reaches the caller, and later work still runs") {
  for (int count : {1, 2, 5}) {
    const int before = threads();
    set_threads(count);
    CHECK_THROWS_AS(parallel_for(100, 1e9,
                                 [](Index i) {
                                   if (i == 50) bad_input("fifty");
                                 }),
                    Error);
    for (size_t blocks : {2, 3, 7, 1000}) {
      std::vector<int> seen(blocks);
      parallel_for(std::ssize(seen), 1e9, [&](Index i) {
        // A loop in a loop stays on its thread.
        parallel_for(3, 1e9, [&](Index) { ++seen[i]; });
      });
      CHECK(seen == std::vector<int>(blocks, 3));
    }
    set_threads(before);
  }
  CHECK_THROWS_AS(set_threads(0), Error);
}

TEST_CASE("denormals are flushed in every thread, or honoured in every thread") {
  const bool before = denormals_are_flushed();
  for (int count : {1, 2, 5}) {
    const int usual = threads();
    set_threads(count);
    flush_denormals(true);
    CHECK(denormals_are_flushed());
    {
      ExactDenormals exact;
      CHECK_FALSE(denormals_are_flushed());
    }
    CHECK(denormals_are_flushed());
    std::vector<float> halves(64, 1.5e-38f);
    volatile float half = 0.5f;
    parallel_for(64, 1e9, [&](Index i) { halves[i] *= half; });
    CHECK(halves == std::vector<float>(64, 0.0f));
    set_threads(usual);
  }
  flush_denormals(before);
}
