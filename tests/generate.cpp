// Samples that are written side by side: each is what its seed writes alone.
#include "tools/generate.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "core/random.hpp"
#include "core/storage.hpp"
#include "tests/named_model.hpp"
#include "tools/samples.hpp"
#include "train/stop.hpp"

using namespace tete;
using tete::tests::NamedModel;

namespace {

constexpr Index context = 12;

// A model of bytes whose choices are neither certain nor all alike.
struct Written {
  NamedModel named;
  Tokenizer tokenizer = Tokenizer::bytes();
  Writer writer{named.model, context, named.values, tokenizer};

  explicit Written(const std::string& model, const std::vector<std::string>& uses = {},
                   double scale = 0.5)
      : named(model, {{"v", 256}, {"l", 2}, {"h", 2}, {"d_X", 16}, {"max_n", context}}, uses,
              Dtype::f32) {
    for (size_t i = 0; i < named.values.size(); ++i)
      named.values[i] = random_normal(named.values[i].shape(), Key(20 + i)) * scale;
  }
  std::vector<std::string> texts(const Writing& o, const std::string& prompt) const {
    std::vector<std::string> all(static_cast<size_t>(o.samples));
    const Show show = [&](size_t i, const std::string& piece) { all.at(i) += piece; };
    if (named.model.kind() == ModelKind::language_model) continue_prompt(writer, prompt, o, show);
    else answer(writer, prompt, o, show);
    return all;
  }
};

void check_like_alone(const Written& model, Writing o, const std::string& prompt) {
  const std::vector<std::string> together = model.texts(o, prompt);
  const int64_t samples = o.samples;
  o.samples = 1;
  for (int64_t i = 0; i < samples; ++i, ++o.seed)
    CHECK(together[static_cast<size_t>(i)] == model.texts(o, prompt)[0]);
}

}  // namespace

TEST_SUITE("generate") {
  TEST_CASE("a sample beside others has the tokens that it has alone") {
    const std::vector<std::vector<std::string>> uses = {{},
                                                        {"Attention=sliding_window"},
                                                        {"Attention=talking_heads with rotary"},
                                                        {"FeedForward=moe"}};  // it routes
    for (const auto& with : uses)
      for (const Writing& o : {Writing{.temperature = 0.8, .length = 30, .seed = 5, .samples = 4},
                               Writing{.temperature = 2, .top_k = 3, .length = 9, .samples = 3},
                               Writing{.temperature = 0, .length = 9, .samples = 2}}) {
        CAPTURE(with.size() ? with[0] : "");
        CAPTURE(o.temperature);
        check_like_alone(Written("language_model", with), o, "abc");
      }
    check_like_alone(Written("encoder_decoder"), {.temperature = 1, .length = 30, .samples = 4},
                     "abc");
    // More than are read in one batch where the context is read anew.
    check_like_alone(Written("language_model"), {.length = context + 3, .samples = 90}, "abc");
    check_like_alone(Written("language_model"), {.length = 3, .samples = 2},
                     "more than the context holds");
  }

  TEST_CASE("behind the context, what it holds of each text is read anew") {
    const Written model("language_model");
    Reader reader(model.writer);
    std::vector<Text> texts(3, Text(context, 7));
    for (int32_t token = 0; token < context; ++token) {
      for (int32_t i = 0; i < 3; ++i) texts[i].push_back(token + 40 * i);
      const Logits read = reader.after(texts);
      CHECK_FALSE(reader.keeps());
      for (size_t i = 0; i < 3; ++i) {
        const ModelInputs shown{.X = as_tensor({&texts[i], 1}, context)};
        const std::vector<double> whole =
            model.named.model.last_logits({.params = model.named.values}, shown).values();
        for (size_t v = 0; v < whole.size(); ++v)
          CHECK(read[i][v] == doctest::Approx(whole[v]).epsilon(1e-4));
      }
    }
  }

  TEST_CASE("samples differ, and a seed names one of them") {
    const Written model("language_model");
    const std::vector<std::string> texts = model.texts({.length = 8, .seed = 3, .samples = 3}, "a");
    CHECK(texts[0] != texts[1]);
    CHECK(texts[1] != texts[2]);
    CHECK(model.texts({.length = 8, .seed = 4, .samples = 2}, "a")[1] == texts[2]);
  }

  TEST_CASE("where rounding could decide, a sample is read alone") {
    const Writing o{.temperature = 1};
    const std::vector<double> logits = {0, 1, 0.5};  // drawn in the order 1, 2, 0
    const double first = 1 / (1 + std::exp(-0.5) + std::exp(-1));
    CHECK(is_sure(logits, o, 0.2, draw(logits, o, 0.2)));
    CHECK(draw(logits, o, first - 1e-7) == 1);
    CHECK(draw(logits, o, first + 1e-7) == 2);
    CHECK_FALSE(is_sure(logits, o, first - 1e-7, 1));
    CHECK_FALSE(is_sure(logits, o, first + 1e-7, 2));
    const std::vector<double> near = {1, 1 + 1e-6, 0};
    CHECK_FALSE(is_sure(near, {.temperature = 0}, 0, 1));
    CHECK_FALSE(is_sure(near, o, 0.2, draw(near, o, 0.2)));
    CHECK(is_sure(near, o, 0.99, 2));
    // Every logit is the same: nothing is sure.
    for (const Index length : {Index{9}, context + 4})
      check_like_alone(Written("language_model", {}, 0), {.length = length, .samples = 3}, "abc");
  }

  TEST_CASE("a stop ends all samples within one token") {
    const Written model("language_model");
    const StopSignals signals;
    std::vector<int> pieces(3);
    continue_prompt(model.writer, "a", {.length = 100, .samples = 3},
                    [&](size_t i, const std::string&) {
                      if (++pieces[i] == 4) StopSignals::request();
                    });
    CHECK(pieces == std::vector<int>{5, 5, 5});  // the last is what is left of a character
  }

  TEST_CASE("the memory of samples is told before") {
    const Written model("language_model");
    const auto told = [&](int64_t samples) {
      return static_cast<double>(bytes_of_samples(model.writer, samples, 100));
    };
    const double each = 2 * 2 * context * 16 * sizeof(float);  // keys and values of two layers
    CHECK(told(200) - told(100) >= 100 * each);
    const size_t before = memory_use().live;
    reset_peak_memory();
    model.texts({.length = context - 1, .samples = 200}, "a");
    const auto held = static_cast<double>(memory_use().peak - before);
    CHECK(held < 1.6 * told(200));  // it does not see what kernels hold
    CHECK(held > 0.5 * told(200));
    CHECK(bytes_of_samples(Written("language_model", {"FeedForward=moe"}).writer, 9, 100) == 0);
  }
}
