// Masked tokens: how many of them, what stands in their place, and that a sample's are its own.
#include "train/masked.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "core/ops.hpp"

using namespace tete;

namespace {

constexpr int64_t mask = 10;

TextData digits(Index context, int32_t step = 7) {
  std::string bytes;
  for (int32_t i = 0; i < 4000; ++i) bytes += static_cast<char>(i * step % 10);
  return TextData(Tokens(bytes, Tokenizer::bytes()), context);
}

std::vector<int64_t> row(const Tensor& x, Index sample) {
  return slice(x, 0, sample, 1).values<int64_t>();
}

std::set<Index> asked(const Batch& batch, Index sample) {
  const std::vector<int64_t> target = row(batch.target, sample);
  std::set<Index> places;
  for (Index i = 0; i < std::ssize(target); ++i)
    if (target[i] >= 0) places.insert(i);
  return places;
}

}  // namespace

TEST_SUITE("masked") {
  TEST_CASE("of each sample 15% is asked for, one token at least, and all else is the text") {
    const std::map<Index, size_t> counts = {{1, 1},  {3, 1},   {9, 1},   {10, 2},
                                            {20, 3}, {64, 10}, {100, 15}};
    for (const auto& each : counts) {
      const Index context = each.first;
      CAPTURE(context);
      const MaskedData data(digits(context), mask);
      for (const bool held_out : {false, true}) {
        const auto drawn = [&](const Data& from) {
          return held_out ? from.validation_batch(Key(5), 3, 20) : from.batch(Key(5), 3, 20);
        };
        const Batch masked = drawn(data), whole = drawn(digits(context));
        CHECK(masked.first_sample == 3);
        for (Index sample = 0; sample < 20; ++sample) {
          const std::set<Index> places = asked(masked, sample);
          CHECK(places.size() == each.second);
          const auto read = row(masked.input, sample), is = row(whole.input, sample),
                     target = row(masked.target, sample);
          for (Index i = 0; i < context; ++i)
            if (places.contains(i)) CHECK(target[i] == is[i]);
            else CHECK(read[i] == is[i]);
        }
      }
    }
  }

  TEST_CASE("eight of ten are masked, one is any token, one stays; all places are as likely") {
    const Index context = 20, samples = 8000;
    const MaskedData data(digits(context), mask);
    const Batch batch = data.batch(Key(1), 0, samples);
    const auto read = batch.input.values<int64_t>(), target = batch.target.values<int64_t>();
    double masked = 0, same = 0, all = 0;
    std::map<int64_t, double> others;
    std::vector<double> places(context);
    for (size_t i = 0; i < read.size(); ++i) {
      if (target[i] < 0) continue;
      ++all, ++places[i % context];
      if (read[i] == mask) ++masked;
      else if (read[i] == target[i]) ++same;
      else ++others[read[i]];
    }
    CHECK(all == 3.0 * samples);
    CHECK(masked / all == doctest::Approx(0.8).epsilon(0.02));
    CHECK(same / all == doctest::Approx(0.11).epsilon(0.06));  // one of ten random ones is the same
    CHECK(others.size() == 10);
    for (const auto& [token, count] : others) {
      CHECK(token < mask);
      CHECK(count / all == doctest::Approx(0.009).epsilon(0.3));
    }
    for (double count : places) CHECK(count / all == doctest::Approx(1.0 / context).epsilon(0.1));
  }

  TEST_CASE("a sample is a function of key and number, whatever is drawn with it") {
    const MaskedData data(digits(24), mask);
    const Batch many = data.batch(Key(2), 10, 6);
    std::set<std::set<Index>> different;
    for (Index i = 0; i < 6; ++i) {
      const Batch one = data.batch(Key(2), 10 + i, 1);
      CHECK(row(one.input, 0) == row(many.input, i));
      CHECK(row(one.target, 0) == row(many.target, i));
      different.insert(asked(many, i));
    }
    CHECK(different.size() > 4);
    CHECK(asked(data.batch(Key(3), 10, 1), 0) != asked(many, 0));
    // The places do not depend on the text.
    const MaskedData other(digits(24, 3), mask);
    CHECK(asked(other.batch(Key(2), 10, 1), 0) == asked(many, 0));
    CHECK(data.fingerprint() != digits(24).fingerprint());
    CHECK(data.fingerprint() != other.fingerprint());
  }

  TEST_CASE("a mask is one more token, of this objective only") {
    const Tokenizer letters = Tokenizer::characters("abc");
    CHECK(vocabulary_of("mlm", letters) == 4);
    CHECK(vocabulary_of("text", letters) == 3);
    CHECK(vocabulary_of("reverse", letters) == 3);
  }
}
