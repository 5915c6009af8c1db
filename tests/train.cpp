// Training: optimizers against plain loops, schedules at their corners, text and data, the tree of
// shards, and what stops a step.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "core/threads.hpp"
#include "core/update.hpp"
#include "core/utf8.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tiny_run.hpp"
#include "train/checksum.hpp"
#include "train/loop.hpp"
#include "train/machine.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

bool has(const std::string& sentence, const std::string& words) {
  if (sentence.find(words) != std::string::npos) return true;
  MESSAGE("in: " << sentence);
  return false;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.values<float>(), y = b.values<float>();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), 4 * x.size()) == 0;
}
bool same_bits(const Tensors& a, const Tensors& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = same_bits(a[i], b[i]);
  return same;
}

ParamSpec spec_of(const std::string& name, const Shape& shape) {
  ParamSpec spec{.name = name, .dims = {}, .shape = shape, .init = {}};
  for (int i = 0; i < shape.size(); ++i) spec.dims.push_back(text("d", i));
  return spec;
}

// ---- Adafactor, in plain loops over double ----------------------------------------------------

struct PlainAdafactor {
  Shape shape;
  FactoredDims dims;
  std::vector<double> p;
  std::map<Index, double> vr, vc;  // by the flat place with the averaged coordinate set to 0
  std::vector<double> v;

  std::vector<Index> coordinates(Index flat) const {
    std::vector<Index> at(shape.size());
    for (int i = shape.size() - 1; i >= 0; --i) at[i] = flat % shape[i], flat /= shape[i];
    return at;
  }
  Index without(Index flat, int dim) const {
    const std::vector<Index> at = coordinates(flat);
    return flat - at[dim] * row_major(shape)[dim];
  }

  void step(const std::vector<double>& g, double rate, int64_t s) {
    const double beta = 1 - std::pow(s + 1.0, -0.8);
    const Index count = static_cast<Index>(p.size());
    std::vector<double> u(count);
    v.resize(count);
    if (dims.d0 < 0) {
      for (Index i = 0; i < count; ++i) {
        v[i] = beta * v[i] + (1 - beta) * (g[i] * g[i] + 1e-30);
        u[i] = g[i] / std::sqrt(v[i]);
      }
    } else {
      std::map<Index, double> row, column, row_mean;
      for (Index i = 0; i < count; ++i) {
        const double q = g[i] * g[i] + 1e-30;
        row[without(i, dims.d0)] += q / shape[dims.d0];
        column[without(i, dims.d1)] += q / shape[dims.d1];
      }
      for (const auto& [at, mean] : row) vr[at] = beta * vr[at] + (1 - beta) * mean;
      for (const auto& [at, mean] : column) vc[at] = beta * vc[at] + (1 - beta) * mean;
      for (const auto& [at, value] : vr) row_mean[without(at, dims.d1)] += value / shape[dims.d1];
      for (Index i = 0; i < count; ++i) {
        const Index r = without(i, dims.d0), c = without(i, dims.d1);
        u[i] = g[i] / std::sqrt(vr[r] / row_mean[without(r, dims.d1)]) / std::sqrt(vc[c]);
      }
    }
    double uu = 0, pp = 0;
    for (double x : u) uu += x * x / count;
    for (double x : p) pp += x * x / count;
    const double length = rate * std::max(1e-3, std::sqrt(pp)) / std::max(1.0, std::sqrt(uu));
    for (Index i = 0; i < count; ++i) p[i] -= length * u[i];
  }
};

// The parameters after some steps of a whole batch, or one that is cut, and their losses.
struct Trained {
  Tensors values;
  std::vector<double> losses;
};
Trained trained(int shards, int steps) {
  TinyRun run;
  auto optimizer = adam(run.model.params.specs());
  Stepper stepper(run.model.objective, run.data, *optimizer, single_process(),
                  {.batch = 6, .shards = shards, .clip = 0.5, .dropout = 0.2, .seed = 5});
  Trained result;
  for (int s = 0; s < steps; ++s) result.losses.push_back(stepper.run(s, run.values, 1e-2).loss);
  result.values = run.values;
  return result;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("Adafactor factors the two largest dimensions, if the second is at least 128") {
    const auto dims = [](const Shape& shape) {
      const FactoredDims found = factored_dims(shape);
      return std::pair(found.d0, found.d1);
    };
    CHECK(dims({}) == std::pair(-1, -1));
    CHECK(dims({512}) == std::pair(-1, -1));
    CHECK(dims({127, 512}) == std::pair(-1, -1));
    CHECK(dims({128, 512}) == std::pair(1, 0));
    CHECK(dims({256, 256}) == std::pair(0, 1));
    CHECK(dims({768, 12, 768}) == std::pair(0, 2));
    CHECK(dims({768, 12, 64}) == std::pair(-1, -1));
    CHECK(dims({200, 300, 200}) == std::pair(1, 0));
    CHECK(dims({2, 128, 129}) == std::pair(2, 1));
  }

  TEST_CASE("Adafactor equals plain loops over double") {
    const std::vector<Shape> shapes = {{},         {5},        {7, 3},        {128, 130},
                                       {130, 128}, {128, 128}, {128, 3, 129}, {2, 131, 128, 2}};
    std::vector<ParamSpec> specs;
    std::vector<PlainAdafactor> plain;
    Tensors values;
    for (size_t i = 0; i < shapes.size(); ++i) {
      specs.push_back(spec_of(text("p", i), shapes[i]));
      values.push_back(random_normal(shapes[i], Key(i), Dtype::f64) * 0.3);
      plain.push_back({shapes[i], factored_dims(shapes[i]), values[i].values(), {}, {}, {}});
    }
    const auto optimizer = adafactor(specs, Dtype::f64);
    for (int64_t s = 0; s < 4; ++s) {
      Tensors grads;
      for (size_t i = 0; i < shapes.size(); ++i) {
        grads.push_back(random_normal(shapes[i], Key(100 + i).fold(s), Dtype::f64) *
                        (2.0 - 0.4 * s));
        plain[i].step(grads[i].values(), 0.01, s);
      }
      optimizer->update(specs, values, grads, 0.01, s);
      for (size_t i = 0; i < shapes.size(); ++i) {
        CAPTURE(shapes[i]);
        CAPTURE(s);
        CHECK(largest_difference(values[i].values(), plain[i].p) <= 1e-13);
      }
    }
    CHECK(optimizer->effective_rate().min > 0);
    CHECK(optimizer->effective_rate().min <= optimizer->effective_rate().median);
    CHECK(optimizer->effective_rate().median <= optimizer->effective_rate().max);
  }

  TEST_CASE("Adafactor in float32 stays near float64") {
    const std::vector<ParamSpec> specs = {spec_of("a", {128, 130}), spec_of("b", {9})};
    const auto run = [&](Dtype dtype) {
      Tensors values;
      for (size_t i = 0; i < 2; ++i)
        values.push_back(cast(random_normal(specs[i].shape, Key(i)), dtype));
      const auto optimizer = adafactor(specs, dtype);
      for (int64_t s = 0; s < 3; ++s) {
        Tensors grads;
        for (size_t i = 0; i < 2; ++i)
          grads.push_back(cast(random_normal(specs[i].shape, Key(9 + i).fold(s)), dtype));
        optimizer->update(specs, values, grads, 0.01, s);
      }
      return values;
    };
    const Tensors x = run(Dtype::f32), y = run(Dtype::f64);
    for (size_t i = 0; i < 2; ++i)
      CHECK(largest_difference(x[i].values(), y[i].values()) <= tolerance(Dtype::f32, 4));
  }

  TEST_CASE("Adafactor made anew goes on to the last bit from values and state") {
    const std::vector<ParamSpec> specs = {
        spec_of("matrix", {130, 4200}),  spec_of("turned", {150, 130}),
        spec_of("heads", {128, 3, 129}), spec_of("inner", {131, 128, 2}),
        spec_of("vector", {5000}),       spec_of("part", {140, 130})};
    Tensors values;
    for (const ParamSpec& spec : specs)
      values.push_back(random_normal(spec.shape, Key(0).fold(spec.name)));
    values[1] = with_layout(values[1], {1, 0});
    values[2] = with_layout(values[2], {1, 2, 0});
    values[5] = slice(random_normal({140, 150}, Key(7)), 1, 5, 130);  // with gaps
    const auto step = [&](Optimizer& optimizer, Tensors& at, int64_t s) {
      Tensors grads;
      for (size_t i = 0; i < specs.size(); ++i)
        grads.push_back(random_normal(specs[i].shape, Key(1).fold(i).fold(s)));
      if (s % 2 == 0) grads[0] = with_layout(grads[0], {1, 0});  // a gradient lies as it likes
      optimizer.update(specs, at, grads, 0.1, s);
    };
    const auto whole = adafactor(specs);
    for (int64_t s = 0; s < 5; ++s) {
      const auto anew = adafactor(specs);
      for (size_t i = 0; i < whole->state.size(); ++i)
        anew->state[i].value =
            Tensor::of<float>(whole->state[i].value.shape(), whole->state[i].value.values<float>());
      Tensors copies;
      for (const Tensor& value : values) copies.push_back(value * 1);
      step(*whole, values, s);
      step(*anew, copies, s);
      CAPTURE(s);
      for (size_t i = 0; i < specs.size(); ++i) {
        CAPTURE(specs[i].name);
        CHECK(values[i].values() == copies[i].values());
      }
      CHECK(whole->effective_rate().max == anew->effective_rate().max);
    }
  }

  TEST_CASE("where the squared gradient has rank one, factoring changes nothing") {
    const Shape shape = {128, 140};
    const Tensor a = random_normal({128}, Key(1), Dtype::f64),
                 b = random_normal({140}, Key(2), Dtype::f64);
    const Tensor g = einsum("i, j -> i j", a, b);
    const std::vector<ParamSpec> specs = {spec_of("p", shape)};
    Tensors values = {random_normal(shape, Key(3), Dtype::f64)};
    PlainAdafactor whole{shape, {}, values[0].values(), {}, {}, {}};
    const auto optimizer = adafactor(specs, Dtype::f64);
    optimizer->update(specs, values, {g}, 0.01, 0);
    whole.step(g.values(), 0.01, 0);
    CHECK(largest_difference(values[0].values(), whole.p) <= 1e-12);
  }

  TEST_CASE("a parameter at zero moves by a thousandth of the rate") {
    const std::vector<ParamSpec> specs = {spec_of("alpha", {})};
    Tensors values = {Tensor::scalar(0, Dtype::f64)};
    adafactor(specs, Dtype::f64)->update(specs, values, {Tensor::scalar(7, Dtype::f64)}, 0.01, 0);
    CHECK(values[0].item() == doctest::Approx(-1e-5).epsilon(1e-12));
  }

  TEST_CASE("Adam equals plain loops over double, as PyTorch writes them") {
    const std::vector<ParamSpec> specs = {spec_of("matrix", {3, 4}), spec_of("bias", {5})};
    const AdamOptions options;
    const auto optimizer = adam(specs, options, Dtype::f64);
    Tensors values;
    std::vector<std::vector<double>> p, m(2), v(2);
    for (size_t i = 0; i < 2; ++i) {
      values.push_back(random_normal(specs[i].shape, Key(i), Dtype::f64));
      p.push_back(values[i].values());
      m[i].resize(p[i].size()), v[i].resize(p[i].size());
    }
    for (int64_t s = 0; s < 5; ++s) {
      const double rate = 1e-2 / (s + 1), t = s + 1.0;
      Tensors grads;
      for (size_t i = 0; i < 2; ++i) {
        grads.push_back(random_normal(specs[i].shape, Key(20 + i).fold(s), Dtype::f64));
        const std::vector<double> g = grads[i].values();
        for (size_t k = 0; k < g.size(); ++k) {
          if (i == 0) p[i][k] *= 1 - rate * 0.1;
          m[i][k] = 0.9 * m[i][k] + 0.1 * g[k];
          v[i][k] = 0.99 * v[i][k] + 0.01 * g[k] * g[k];
          const double size = std::sqrt(v[i][k]) / std::sqrt(1 - std::pow(0.99, t)) + 1e-8;
          p[i][k] -= rate / (1 - std::pow(0.9, t)) * m[i][k] / size;
        }
      }
      optimizer->update(specs, values, grads, rate, s);
      for (size_t i = 0; i < 2; ++i) CHECK(largest_difference(values[i].values(), p[i]) <= 1e-13);
    }
  }

  TEST_CASE("every optimizer leaves fixed parameters alone and values where they lay in memory") {
    for (const OptimizerRow& row : optimizers()) {
      CAPTURE(row.name);
      CHECK_NOTHROW(find_schedule(row.schedule));
      std::vector<ParamSpec> specs = {spec_of("free", {3, 4, 2}), spec_of("fixed", {2}),
                                      spec_of("big", {130, 129})};
      specs[1].fixed = true;
      Tensors values = {with_layout(random_normal({3, 4, 2}, Key(1)), {1, 2, 0}), Tensor::ones({2}),
                        with_layout(random_normal({130, 129}, Key(2)), {1, 0})};
      const Tensors before = values;
      const auto optimizer = row.make(specs, Dtype::f32, cpu());
      CHECK(optimizer->name() == std::string(row.name));
      optimizer->update(
          specs, values,
          {random_normal({3, 4, 2}, Key(3)), Tensor::ones({2}), random_normal({130, 129}, Key(4))},
          1e-2, 0);
      CHECK(values[0].strides() == before[0].strides());
      CHECK(values[2].strides() == before[2].strides());
      CHECK_FALSE(values[0].tracked());
      CHECK_FALSE(same_bits(values[0], before[0]));
      CHECK(values[1].same(before[1]));
      for (const NamedTensor& tensor : optimizer->state)
        CHECK(tensor.name.find("fixed") == std::string::npos);
    }
    CHECK(has(error_of(ErrorKind::input, [] { find_optimizer("adafacter"); }),
              "did you mean 'adafactor'?"));
  }

  TEST_CASE("schedules have the values of their papers") {
    const Schedule t5 = schedule_of("inverse_sqrt", 524288);
    CHECK(t5(0) == 0.01);
    CHECK(t5(9999) == 0.01);
    CHECK(t5(10001) == doctest::Approx(1 / std::sqrt(10001.0)).epsilon(1e-15));
    CHECK(t5(471859) == doctest::Approx(1 / std::sqrt(471859.0)).epsilon(1e-15));
    CHECK(t5(498074) == doctest::Approx(0.5 / std::sqrt(498074.0)).epsilon(1e-4));
    CHECK(t5(524288) == 0);
    const Schedule short_run = schedule_of("inverse_sqrt", 2000);
    for (int64_t s : {0, 1000, 1800}) CHECK(short_run(s) == 0.01);
    CHECK(short_run(1900) == doctest::Approx(0.005).epsilon(1e-12));
    CHECK(short_run(1999) == doctest::Approx(0.01 / 200).epsilon(1e-12));
    CHECK(short_run(2000) == 0);
    const Schedule nano = schedule_of("cosine", 2000);
    CHECK(nano(0) == doctest::Approx(1e-3 / 101).epsilon(1e-15));
    CHECK(nano(99) == doctest::Approx(1e-1 / 101).epsilon(1e-15));
    CHECK(nano(100) == doctest::Approx(1e-3).epsilon(1e-15));
    CHECK(nano(1050) == doctest::Approx(5.5e-4).epsilon(1e-12));
    CHECK(nano(2000) == doctest::Approx(1e-4).epsilon(1e-12));
    Schedule same = schedule_of("constant", 10);
    CHECK(same(0) == 1e-3);
    CHECK(same(9) == 1e-3);
    for (const ScheduleRow& row : schedules()) {
      for (int64_t steps : {1, 7, 300}) {
        for (int64_t s = 0; s < steps; ++s) {
          const double rate = schedule_of(row.name, steps)(s);
          CHECK_MESSAGE((std::isfinite(rate) && rate > 0), row.name << " " << s << " of " << steps);
        }
      }
    }
    CHECK(
        has(error_of(ErrorKind::input, [] { find_schedule("cosin"); }), "did you mean 'cosine'?"));
  }

  TEST_CASE("the clipping factor is PyTorch's") {
    CHECK(clip_factor(5, 10) == 1);
    CHECK(clip_factor(5, 1) == doctest::Approx(1 / (5 + 1e-6)).epsilon(1e-15));
    CHECK(clip_factor(5, 0) == 1);
  }

  TEST_CASE("sums of squares are those of each tensor, and tell what is not finite") {
    const Tensor x = random_normal({300, 301}, Key(1));
    double plain = 0;
    for (double value : x.values()) plain += value * value;
    const Tensors xs{x,
                     Tensor(),
                     slice(x, 1, 0, 300),
                     Tensor::of<float>({2}, {1, std::nanf("")}),
                     Tensor::of<float>({2}, {1, INFINITY}),
                     Tensor::of<float>({2}, {3, 4})};
    const std::vector<double> sums = sums_of_squares(xs, cpu()).values();
    CHECK(sums[0] == doctest::Approx(plain).epsilon(1e-13));
    CHECK(sums[1] == 0);
    CHECK(sums[2] < sums[0]);
    CHECK(std::isnan(sums[3]));
    CHECK(std::isinf(sums[4]));
    CHECK(sums[5] == 25);
  }

  TEST_CASE("a tokenizer gives back what it was given") {
    const std::string mixed = "na\xC3\xAFve \xE2\x82\xAC 1 \xF0\x9F\x98\x80\n\t~";
    const Tokenizer characters = Tokenizer::characters(mixed);
    CHECK(characters.size() == 12);
    CHECK(characters.decode(characters.encode(mixed)) == mixed);
    CHECK(characters.encode("\t")[0] == 0);  // sorted by code point
    CHECK(characters.piece(11) == "\xF0\x9F\x98\x80");
    for (const Tokenizer& one : {characters, Tokenizer::bytes()}) {
      const Tokenizer again = Tokenizer::read(one.describe());
      CHECK(again.describe() == one.describe());
      CHECK(again.encode(mixed) == one.encode(mixed));
    }
    const Tokenizer bytes = Tokenizer::bytes();
    for (uint64_t i = 0; i < 2000; ++i) {
      std::string noise(uniform_below(Key(i), 0, 40), '\0');
      for (size_t k = 0; k < noise.size(); ++k)
        noise[k] = static_cast<char>(uniform_below(Key(i), k + 1, 256));
      CHECK(bytes.decode(bytes.encode(noise)) == noise);
      // Random bytes are either refused, or characters that come back the same.
      if (find_invalid_utf8(noise) == std::string::npos) {
        const Tokenizer own = Tokenizer::characters(noise);
        CHECK(own.decode(own.encode(noise)) == noise);
      } else {
        CHECK_THROWS_AS(Tokenizer::characters(noise), Error);
      }
    }
    for (char32_t code = 0; code <= 0x10FFFF; code += 37) {
      if (code >= 0xD800 && code < 0xE000) continue;
      std::string text;
      append_character(text, code);
      const Character c = read_character(text, 0);
      REQUIRE((c.code == code && c.length == static_cast<int>(text.size())));
    }
  }

  TEST_CASE("what is not UTF-8 is refused with the offset of the byte") {
    const std::vector<std::string> tails = {"\x80",
                                            "\xBF",
                                            "\xC0\x80",
                                            "\xC1\xBF",
                                            "\xE0\x80\x80",
                                            "\xE0\x9F\xBF",
                                            "\xED\xA0\x80",
                                            "\xED\xBF\xBF",
                                            "\xF0\x80\x80\x80",
                                            "\xF0\x8F\xBF\xBF",
                                            "\xF4\x90\x80\x80",
                                            "\xF5\x80\x80\x80",
                                            "\xF8\x88\x80\x80\x80",
                                            "\xFE",
                                            "\xFF",
                                            "\xC3",
                                            "\xE2\x82",
                                            "\xF0\x9F\x98",
                                            "\xC3(",
                                            "\xE2\x28\xA1",
                                            "\xF0\x28\x8C\xBC"};
    for (const std::string& tail : tails) {
      CAPTURE(hexadecimal(checksum(tail)));
      CHECK(find_invalid_utf8("ab\xC3\xA9" + tail) == 4);
      CHECK(has(error_of(ErrorKind::input, [&] { Tokenizer::characters("ab\xC3\xA9" + tail); }),
                "byte 4"));
    }
    CHECK(find_invalid_utf8("\xEF\xBF\xBF\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80") ==
          std::string::npos);
    const Tokenizer abc = Tokenizer::characters("abc");
    const std::string missing = error_of(ErrorKind::input, [&] { abc.encode("ab\xC3\xA9"); });
    CHECK(has(missing, "'\xC3\xA9' (U+00E9) at byte 2 is not in the vocabulary"));
    CHECK(has(error_of(ErrorKind::input, [&] { abc.encode("a\n"); }), "U+000A at byte 1"));
    const std::vector<int32_t> beyond = {0, 3};
    CHECK(has(error_of(ErrorKind::input, [&] { abc.decode(beyond); }), "token 3"));
    for (const char* damaged : {"", "byte", "characters 61 61", "characters 62 61", "characters x",
                                "characters 110000", "characters d800", "characters  61"})
      CHECK_THROWS_AS(Tokenizer::read(damaged), Error);
  }

  TEST_CASE("bad texts are told in one sentence each") {
    const TemporaryFolder folder;
    const auto problem = [&](const std::string& path) {
      return error_of(ErrorKind::input,
                      [&] { Corpus(std::vector<std::string>{path}).characters(); });
    };
    const std::string at = folder.path + "/";
    CHECK(problem(at + "none.txt") == "there is no file " + at + "none.txt");
    CHECK(problem(folder.path) == folder.path + " is a folder, not a file");
    CHECK(problem(folder.file("empty", "")) == at + "empty is empty");
    CHECK(problem(folder.file("binary", std::string("ab\0c", 4))) ==
          at + "binary is not a text: byte 2 is zero; to train on any bytes, use bytes as tokens");
    CHECK(problem(folder.file("latin", "caf\xE9 noir")) ==
          at + "latin is not UTF-8: byte 3 does not continue a character; convert it (iconv), or "
               "use bytes as tokens");
    CHECK(problem("/dev/zero") == "/dev/zero is not a regular file");
    const std::string before(65535, 'a');  // of two bytes, one is in the next piece
    const std::string one = folder.file("one", before + "\xC3\xA9llo "),
                      two = folder.file("two", "wo");
    CHECK(Corpus(std::vector<std::string>{one, two}).characters() == " alow\xC3\xA9");
    CHECK(has(problem(folder.file("cut", before + "\xC3")), "not UTF-8: byte 65535 does"));
    CHECK(has(problem(folder.file("late", before + "aa\xFF")), "not UTF-8: byte 65537 does"));
    const Tokens text(std::string(300, 'a'), Tokenizer::bytes());
    const std::string too_short = error_of(ErrorKind::input, [&] { TextData(text, 64); });
    CHECK(too_short ==
          "the text is too short: a context of 64 tokens needs 65 in each part, but its 300 tokens "
          "give 270 to train on and 30 for validation; use a longer text or a shorter context");
    CHECK(error_of(ErrorKind::input, [&] { TextData(text, 0); }) ==
          "the context must be at least 1 token, got 0");
    CHECK(error_of(ErrorKind::input, [&] { TextData(text, 8, 1.5); }) ==
          "the part held out for validation must lie between 0 and 1, got 1.5");
  }

  TEST_CASE("a step whose options make no sense is refused") {
    TinyRun run;
    const auto said = [&](const StepOptions& options) {
      const auto optimizer = adam(run.model.params.specs());
      return error_of(ErrorKind::input, [&] {
        Stepper(run.model.objective, run.data, *optimizer, single_process(), options);
      });
    };
    CHECK(said({.batch = 0}) == "a step needs at least 1 sample, got 0");
    CHECK(said({.batch = 4, .shards = 5}) ==
          "the batch of 4 samples can be cut into 1 to 4 shards, got 5");
    CHECK(said({.batch = 4, .dropout = 1}) ==
          "the dropout rate must be at least 0 and below 1, got 1");
    CHECK(said({.batch = 4, .clip = -1}) ==
          "the gradient norm's limit must be 0 (none) or more, got -1");
    CHECK(error_of(ErrorKind::input, [&] {
            validate(run.model.objective, run.values, run.data, 0, 7);
          }) == "validation needs at least 1 sample in batches of at least 1, got 0 and 7");
  }

  TEST_CASE(
      "a step tells the norms of what it had, what it found and what it added; no bit moves") {
    const auto length = [](const std::vector<double>& x) {
      double squares = 0;
      for (double each : x) squares += each * each;
      return std::sqrt(squares);
    };
    TinyRun quiet, run;
    const auto alone = adam(quiet.model.params.specs()), optimizer = adam(run.model.params.specs());
    const StepOptions options{.batch = 6, .clip = 0.1, .seed = 5};
    Stepper silent(quiet.model.objective, quiet.data, *alone, single_process(), options);
    Stepper stepper(run.model.objective, run.data, *optimizer, single_process(), options);
    for (int step = 0; step < 3; ++step) {
      CHECK(silent.run(step, quiet.values, 1e-2).norms.empty());
      const Tensors before = run.values;
      const StepResult told = stepper.run(step, run.values, 1e-2, true);
      REQUIRE(told.norms.size() == before.size());
      std::vector<double> gradients;
      for (size_t i = 0; i < before.size(); ++i) {
        std::vector<double> was = before[i].values(), change = run.values[i].values();
        for (size_t j = 0; j < was.size(); ++j) change[j] -= was[j];
        CHECK(told.norms[i].value == doctest::Approx(length(was)));
        CHECK(told.norms[i].update == doctest::Approx(length(change)).epsilon(1e-4));
        gradients.push_back(told.norms[i].gradient);
      }
      CHECK(length(gradients) == doctest::Approx(told.grad_norm));
      CHECK(told.grad_norm > told.grad_norm_clipped);
      CHECK(same_bits(run.values, quiet.values));
    }
  }

  TEST_CASE("a sample is a function of the key and its number alone") {
    std::string characters;  // 1000 of them: token i is i
    for (int i = 0; i < 1000; ++i) append_character(characters, 0x4E00 + i);
    const Tokenizer tokenizer = Tokenizer::characters(characters);
    const TextData data(Tokens(characters, tokenizer), 16);
    CHECK(data.train_tokens() == 900);
    const Batch all = data.batch(Key(1), 0, 64);
    CHECK(all.input.shape() == Shape{64, 16});
    const std::vector<int64_t> input = all.input.values<int64_t>(),
                               target = all.target.values<int64_t>();
    for (Index i = 0; i < 64; ++i) {
      for (Index k = 0; k < 16; ++k) {
        CHECK(input[16 * i + k] == input[16 * i] + k);
        CHECK(target[16 * i + k] == input[16 * i + k] + 1);
        CHECK(target[16 * i + k] < 900);
      }
      const Batch one = data.batch(Key(1), i, 1);
      CHECK(one.input.values<int64_t>()[0] == input[16 * i]);
      CHECK(one.first_sample == i);
    }
    for (int64_t token : data.validation_batch(Key(2), 0, 50).input.values<int64_t>())
      CHECK(token >= 900);
    CHECK(data.batch(Key(2), 0, 64).input.values<int64_t>() != input);
    const Tokens same(characters, tokenizer);
    CHECK(TextData(same, 8).fingerprint() == data.fingerprint());
    characters.replace(characters.size() - 3, 3, "\xE4\xB8\x80");
    CHECK(TextData(Tokens(characters, tokenizer), 16).fingerprint() != data.fingerprint());
  }

  TEST_CASE("tokens that are read anywhere in files are those of the whole text") {
    const TemporaryFolder folder;
    std::string bytes, wide;
    for (int i = 0; i < 10000; ++i) bytes += static_cast<char>(i * i >> 3);
    for (int i = 0; i < 10000; ++i) append_character(wide, 0x4E00 + i % 3001);
    struct Case {
      std::string text;
      size_t cut;  // where the second file begins
      Tokenizer tokenizer;
      const char* fingerprint;  // as a program that held the tokens, in four bytes each, saved it
    };
    const std::string few = tiny_text() + "\xC3\xA9";
    for (const Case& c :
         {Case{bytes, 4001, Tokenizer::bytes(), "dd8381331ac50563 9000+1000"},
          Case{few, 1, Tokenizer::characters(few), "c345a275a77f0b26 2430+271"},
          Case{wide, 300, Tokenizer::characters(wide), "c50d495f02e4c12d 9000+1000"}}) {
      CAPTURE(c.fingerprint);
      const Tokens tokens(Corpus(std::vector<std::string>{folder.file("a", c.text.substr(0, c.cut)),
                                                          folder.file("b", c.text.substr(c.cut))}),
                          c.tokenizer);
      CHECK(TextData(tokens, 8).fingerprint() == c.fingerprint);
      const std::vector<int32_t> all = c.tokenizer.encode(c.text);
      CHECK(tokens.size() == std::ssize(all));
      for (Index first = 0; first + 9 <= tokens.size(); first += 7) {
        std::vector<int64_t> read(9);
        tokens.read(first, read);
        CHECK(std::equal(read.begin(), read.end(), all.begin() + first));
      }
    }
  }

  TEST_CASE(
      "a file that is written to while it is learned from is told, one that is replaced is not") {
    const TemporaryFolder folder;
    const std::string path = folder.file("text", tiny_text());
    const TextData data(Tokens(Corpus(std::vector<std::string>{path}), Tokenizer::bytes()), 8);
    const auto drawn = [&] { return data.batch(Key(1), 0, 9).input.values<int64_t>(); };
    const std::vector<int64_t> before = drawn();
    std::filesystem::rename(path, folder / "older");
    folder.file("text", "another one");
    CHECK(drawn() == before);
    const auto fill = [&](const std::string& text) {  // the open file, whose name another one has
      std::ofstream(folder / "older") << text;
    };
    fill(tiny_text() + "more");
    CHECK(drawn() == before);
    fill(std::string(tiny_text().size(), 'x'));
    CHECK(error_of(ErrorKind::input, drawn) == path + " was written to while a run learns from it");
    fill("");
    CHECK(error_of(ErrorKind::input, drawn) == path + " became shorter while it was read");
    fill(tiny_text());
    CHECK(drawn() == before);
  }

  TEST_CASE("a batch that is cut into shards has the same samples and the same noise") {
    CHECK(trained(1, 1).losses[0] == doctest::Approx(trained(3, 1).losses[0]).epsilon(1e-6));
  }

  TEST_CASE("a step learns, and the same seed gives the same bits") {
    const Trained a = trained(1, 60), b = trained(1, 60);
    CHECK(a.losses.back() < 0.8 * a.losses.front());
    CHECK(a.losses == b.losses);
    CHECK(same_bits(a.values, b.values));
  }

  TEST_CASE("a severed gradient is an error that names the parameter") {
    struct Case {
      bool missing;
      std::vector<std::string> allowed;
    };
    for (const Case& c :
         {Case{true, {}}, Case{true, {"extra/*"}}, Case{false, {}}, Case{false, {"*z"}}}) {
      TinyRun run;
      ParamList& params = run.model.params;
      const ParamId z = params.declare({"extra/z", {"d"}, {tiny_width}, {}});
      run.values = params.initial_values(Key(3));
      run.model.spoil = [&](const Forward& f, const Tensor& H) {
        return c.missing ? H : add("b n d, d", H, f[z] * 0.0);
      };
      auto optimizer = adafactor(params.specs());
      Stepper stepper(run.model.objective, run.data, *optimizer, single_process(),
                      {.batch = 2, .allow_zero_grad = c.allowed});
      const Tensors before = run.values;
      std::vector<std::string> warnings;
      const auto steps = [&] {
        for (int s = 0; s < 15; ++s)
          for (const std::string& w : stepper.run(s, run.values, 0.01).warnings)
            warnings.push_back(w);
      };
      if (!c.allowed.empty()) {
        CHECK_NOTHROW(steps());
        CHECK(warnings.empty());
      } else if (c.missing) {
        CHECK(has(error_of(ErrorKind::input, steps), "no gradient reaches 'extra/z'"));
        CHECK(same_bits(run.values, before));
      } else {
        CHECK(has(error_of(ErrorKind::input, steps),
                  "'extra/z' was exactly zero in each of the first 11"));
        REQUIRE(warnings.size() == 1);
        CHECK(has(warnings[0], "'extra/z' is exactly zero in the first step"));
      }
    }
    CHECK(name_matches("*", ""));
    CHECK(name_matches("a*c*", "abcd"));
    CHECK_FALSE(name_matches("a*c", "abcd"));
  }

  TEST_CASE("what is not finite stops the step, named, and nothing has changed") {
    const auto stop_with = [](const std::function<void(TinyRun&)>& prepare) {
      TinyRun run;
      prepare(run);
      auto optimizer = adam(run.model.params.specs());
      Stepper stepper(run.model.objective, run.data, *optimizer, single_process(),
                      {.batch = 4, .shards = 2});
      for (int s = 0; s < 3; ++s) stepper.run(s, run.values, 1e-2);
      const Tensors before = run.values;
      const std::string sentence =
          error_of(ErrorKind::numbers, [&] { stepper.run(3, run.values, 1e-2); });
      CHECK(same_bits(run.values, before));
      return sentence;
    };
    // Only the second shard of the fourth step sees the NaN.
    const std::string value = stop_with([](TinyRun& run) {
      run.model.spoil = [](const Forward& f, const Tensor& H) {
        return f.first_sample == 14 ? H * std::nan("") : H;
      };
    });
    CHECK(has(value, "step 4"));
    CHECK(has(value, "'layer/0/H', f32[2, 8, 6]: 96 NaN and 0 infinities in 96"));
    // tanh hides an infinity from the loss, not from the gradient.
    const std::string hidden = stop_with([](TinyRun& run) {
      run.model.spoil = [](const Forward& f, const Tensor& H) {
        return f.first_sample == 12 ? H / 0.0 : H;
      };
    });
    CHECK(has(hidden, "the gradient of 'embed/E'"));
    CHECK(has(hidden, "the first value that is not finite is 'layer/0/H'"));
    const std::string gradient = stop_with([](TinyRun& run) {
      const ParamId scale = run.model.scale;
      run.model.spoil = [scale](const Forward& f, const Tensor& H) {
        return f.first_sample >= 12 ? add("b n d, d", H, sqrt(f[scale] * 0.0)) : H;
      };
    });
    CHECK(has(gradient, "step 4"));
    CHECK(has(gradient, "the gradient of 'layer/0/scale', f32[6]: 6 NaN"));
  }

  TEST_CASE("a step gives back the memory that it took, and a run all of it") {
    const size_t before = memory_use().live;
    {
      TinyRun run;
      auto optimizer = adafactor(run.model.params.specs());
      Stepper stepper(run.model.objective, run.data, *optimizer, single_process(),
                      {.batch = 6, .shards = 2, .clip = 0.5, .dropout = 0.2, .seed = 5});
      stepper.run(0, run.values, 1e-2);
      const size_t after_one = memory_use().live;
      size_t allocations = 0;
      for (int step = 1; step < 6; ++step) {
        stepper.run(step, run.values, 1e-2);
        CHECK(memory_use().live == after_one);
        if (step == 2) allocations = memory_use().system_allocations;
      }
      CHECK(memory_use().system_allocations == allocations);  // a steady step asks for none
    }
    CHECK(memory_use().live == before);
  }

  TEST_CASE("validation is the same whatever the batch, and leaves no graph") {
    TinyRun run;
    Tensors tracked;
    for (const Tensor& value : run.values) tracked.push_back(value.variable());
    const Validation whole = validate(run.model.objective, run.values, run.data, 20, 20).value();
    CHECK(validate(run.model.objective, tracked, run.data, 20, 7).value().loss ==
          doctest::Approx(whole.loss).epsilon(1e-6));
    CHECK(whole.loss > 0);
    CHECK(std::isnan(whole.exact_match));  // a text has none
  }

  TEST_CASE("progress is one line") {
    Progress p{.step = 1200,
               .steps = 2000,
               .loss = 1.7123,
               .tokens_per_second = 24300.4,
               .seconds_left = 38.2};
    CHECK(progress_text(p) == "step 1200/2000  loss 1.712  24300 tokens/s  0:38 left");
    p.validation_loss = 1.8431, p.seconds_left = 3758;
    CHECK(progress_text(p) ==
          "step 1200/2000  loss 1.712  validation 1.843  24300 tokens/s  1:02:38 left");
    Progress decoded = p;
    decoded.accuracy = 0.9884, decoded.exact_match = 0.9531;
    CHECK(progress_text(decoded) ==
          "step 1200/2000  loss 1.712  validation 1.843  right 0.988, whole answers 0.953  "
          "24300 tokens/s  1:02:38 left");
    std::FILE* file = std::tmpfile();
    ProgressLine line(file);
    for (p.step = 1; p.step <= p.steps; ++p.step) p.seconds = 0.1 * p.step, line.step(p);
    line.done();
    std::rewind(file);
    int lines = 0;
    for (int c; (c = std::fgetc(file)) != EOF;) lines += c == '\n';
    std::fclose(file);
    CHECK(lines > 5);
    CHECK(lines < 40);
  }

  TEST_CASE("a warning takes one line and moves no cursor, whatever it quotes") {
    std::FILE* file = std::tmpfile();
    ProgressLine(file).warning("saved with a\nb\x1b[2J");
    std::rewind(file);
    char line[80] = {};
    CHECK(std::fread(line, 1, sizeof line - 1, file) > 0);
    std::fclose(file);
    CHECK(line == std::string("warning: saved with a b\\x1b[2J\n"));
  }

  TEST_CASE("the first interrupt asks, the second ends the program with 130") {
    {
      const StopSignals signals;
      CHECK_FALSE(StopSignals::requested());
      raise(SIGTERM);
      CHECK(StopSignals::requested());
      CHECK(StopSignals::exit_code() == 143);
    }
    CHECK_FALSE(StopSignals::requested());
    { CHECK_FALSE((StopSignals(), StopSignals::requested())); }
    const pid_t child = fork();
    if (child == 0) {
      const StopSignals signals;
      raise(SIGINT);
      if (!StopSignals::requested()) _exit(1);
      raise(SIGINT);
      _exit(2);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 130);
  }

  TEST_CASE("a run that does not fit into memory is told with what would") {
    const size_t mib = size_t{1} << 20;
    RunSize run;
    run.memory = {.parameters = 2 * mib, .gradients = 2 * mib, .activations = 40 * mib};
    run.batch = 16, run.shards = 2, run.context = 64;
    Machine machine;
    machine.memory = 44 * mib;
    CHECK(memory_refusal(machine, run) == "");
    machine.memory = 20 * mib, machine.device = "a card";  // 16 are for three samples of 5 each
    CHECK(memory_refusal(machine, run) ==
          "this run needs about 44 MiB of memory, but 20 MiB are free on a card; --batch 6 would "
          "fit, or --shards 6");
    machine.memory = 6 * mib, machine.device = "";
    CHECK(memory_refusal(machine, run) ==
          "this run needs about 44 MiB of memory, but 6 MiB are free; --batch 1 with --context 25 "
          "would fit");
    machine.memory = 4 * mib;
    CHECK(memory_refusal(machine, run) ==
          "this run needs about 44 MiB of memory, but 4 MiB are free; 4 MiB of it without "
          "activations");
  }

  TEST_CASE("the start block says what will run, and what halves the speed") {
    const Machine here = inspect_machine();
    CHECK(here.usable >= 1);
    CHECK(here.usable <= here.cores);
    CHECK(here.threads == threads());
    CHECK(has(here.blas, "OpenBLAS"));
    CHECK(here.memory > 0);
    Machine good{.cores = 4,
                 .affinity = 4,
                 .quota = 0,
                 .usable = 4,
                 .threads = 4,
                 .blas = "OpenBLAS 1",
                 .blas_kernel = "K",
                 .fitting_kernel = "K",
                 .blas_threading = "openmp",
                 .denormals_flushed = true,
                 .memory = 1};
    CHECK(speed_warnings(good).empty());
    const auto warned = [&](auto change, const std::string& words) {
      Machine bad = good;
      change(bad);
      const std::vector<std::string> sentences = speed_warnings(bad);
      REQUIRE(sentences.size() == 1);
      CHECK(has(sentences[0], words));
    };
    warned([](Machine& m) { m.threads = 1; }, "only 1 of 4 usable cores");
    warned([](Machine& m) { m.threads = 8; }, "8 threads share 4 cores");
    warned([](Machine& m) { m.quota = 1.5, m.usable = 2; },
           "grants the time of 1.5 cores to 4 threads");
    warned([](Machine& m) { m.cores = 8; }, "4 of the machine's 8");
    warned([](Machine& m) { m.blas_threading = "pthread"; }, "libopenblas0-openmp");
    warned([](Machine& m) { m.fitting_kernel = "SkylakeX", m.kernel_named = true; },
           "its kernel for K, but that for SkylakeX fits this processor");
    warned([](Machine& m) { m.fitting_kernel = "SkylakeX"; }, "built for several processors");
    warned([](Machine& m) { m.denormals_flushed = false; }, "denormal");

    std::vector<ParamSpec> specs;
    for (int layer = 0; layer < 12; ++layer)
      for (const char* name : {"A/P_q", "A/P_o", "F.P_1"})
        specs.push_back(spec_of(text("decoder/", layer, "/", name), {64, 64}));
    specs.push_back(spec_of("embed/E", {1000, 64}));
    specs.push_back(spec_of("norm", {64}));
    const std::vector<ParameterGroup> groups = parameter_groups(specs);
    REQUIRE(groups.size() == 4);
    CHECK(groups[0].name == "decoder/*/A");
    CHECK(groups[0].tensors == 24);
    CHECK(groups[1].name == "decoder/*/F");
    CHECK(groups[2].name == "embed");
    CHECK(groups[3].name == "norm");
    const std::string block =
        start_block(here, {groups, {1 << 20, 1 << 20, 1 << 10, size_t{3} << 31}, 12, 1, 64});
    for (size_t at = 0, end; (end = block.find('\n', at)) != std::string::npos; at = end + 1)
      CHECK(end - at <= 80);
    CHECK(has(block, "768 tokens"));
    CHECK(has(block, "6 GiB"));
    CHECK(size_text(1536) == "1.5 KiB");
  }
}
