// Random texts of the notation (tests/random_text.hpp), judged by runs: where check() accepts one
// as causal, no row moves when later positions change, are cut off, or are not read yet, and a
// block of queries has the rows that the whole run has. RANDOM_TEXTS=10000 in the environment
// judges as many, RANDOM_SEED=5 begins with the text of this seed.
#include <cstdlib>
#include <iostream>

#include "tests/in_pieces.hpp"
#include "tests/layer.hpp"
#include "tests/random_text.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

constexpr Index length = 6, width = 3;

// Two samples of a sequence, and of a memory if that is another.
struct Sequences {
  Tensor X, M;

  static Sequences noise_for(const Checked& program, uint64_t seed) {
    const Shape shape = {2, length, width};
    return {noise(shape, seed), program.self_only ? Tensor() : noise(shape, seed + 1)};
  }
  const Tensor& memory() const { return M ? M : X; }
  Sequences part(Index at, Index count) const {
    return {slice(X, 1, at, count), M ? slice(M, 1, at, count) : M};
  }
  // These positions, and then those of `other`.
  Sequences followed_by(const Sequences& other) const {
    return {concat({X, other.X}, 1), M ? concat({M, other.M}, 1) : M};
  }
};

struct TextLayer {
  std::shared_ptr<const Checked> program;
  ParamList list;
  Attention attention;
  Tensors values;

  explicit TextLayer(const std::string& text)
      : program(load_attention(Program::parse(text, "random"))),
        attention({list, ""}, program, {.d_model = width, .dims = {}}) {
    for (const ParamSpec& spec : list.specs())
      values.push_back(noise(spec.shape, 100 + values.size()) * 0.7);
  }
  Tensor operator()(const Sequences& s, const Tiling& tiling = {}, double scale = 1) const {
    Tensors scaled;
    for (const Tensor& value : values) scaled.push_back(value * scale);
    const Tensor X = s.X * scale, M = s.M ? s.M * scale : X;
    return attention({.params = scaled, .watch = {}, .tiling = tiling}, "", X, M, {.causal = true});
  }
  Tensor in_pieces(const Sequences& s, const std::vector<Index>& counts) const {
    return tests::in_pieces(attention, {.params = values, .watch = {}}, s.X, s.memory(), counts);
  }
};

// A row that is not finite, or that a change by 1e-11 moves far, says nothing.
class Rows {
 public:
  Rows(const Tensor& Y, const Tensor& moved) : values_(Y.values()) {
    const std::vector<double> other = moved.values();
    for (size_t row = 0; row < values_.size() / width; ++row) {
      double scale = 1, move = 0;
      for (size_t i = row * width; i < (row + 1) * width; ++i) {
        scale = std::max(scale, std::abs(values_[i]));
        move += std::abs(values_[i] - other[i]);
        if (!std::isfinite(values_[i])) move = scale = INFINITY;
      }
      const bool is_sound = std::isfinite(move) && move <= 1e-7 * scale;
      scales_.push_back(is_sound ? scale : INFINITY), skipped_ += !is_sound;
    }
  }
  // The first of `count` rows of a sample that is another in Y, or -1.
  Index first_moved(const Tensor& Y, Index count) const {
    const std::vector<double> other = Y.values();
    const auto rows = static_cast<size_t>(Y.size(1));
    for (size_t sample = 0; sample < 2; ++sample)
      for (size_t row = 0; row < static_cast<size_t>(count); ++row)
        for (size_t i = 0; i < width; ++i) {
          const size_t at = sample * length + row;
          const double move =
              std::abs(values_[at * width + i] - other[(sample * rows + row) * width + i]);
          if (std::isfinite(scales_[at]) && !(move <= 1e-9 * scales_[at]))
            return static_cast<Index>(row);
        }
    return -1;
  }
  Index skipped() const { return skipped_; }

 private:
  std::vector<double> values_, scales_;
  Index skipped_ = 0;
};

struct Counts {
  int drawn = 0, checked = 0, maskless = 0, refused = 0, judged = 0, failed = 0;
  Index skipped_rows = 0;
  std::map<std::string, int> refusals = {};  // of runs, by their first words
};

class Judge {
 public:
  Judge(const std::string& text, Counts& counts) : layer_(text), counts_(counts) {}

  const Checked& program() const { return *layer_.program; }

  // Says which value moved, or "".
  std::string verdict() {
    const Sequences s = Sequences::noise_for(program(), 1),
                    other = Sequences::noise_for(program(), 11);
    const Tensor Y = tried("whole", true, [&] { return layer_(s); });
    if (!Y) return "";
    const Rows rows(Y, layer_(s, {}, 1 + 1e-11));
    ++counts_.judged, counts_.skipped_rows += rows.skipped();
    for (Index count : {1, 2, 3, 5}) {
      const Sequences first = s.part(0, count);
      compare(rows, count, text("future after ", count), false,
              [&] { return layer_(first.followed_by(other.part(count, length - count))); });
      compare(rows, count, text("cut after ", count), true, [&] { return layer_(first); });
    }
    for (Index queries : {1, 2})
      compare(rows, length, text("blocks of ", queries), false,
              [&] { return layer_(s, {.queries = queries, .samples = 1}); });
    const bool is_refused = cuts_refused_ > 0;
    compare(rows, length, "one by one", is_refused, [&] {
      return layer_.in_pieces(s, {1, 1, 1, 1, 1, 1});
    });
    compare(rows, length, "in pieces", is_refused, [&] { return layer_.in_pieces(s, {3, 1, 2}); });
    return moved_;
  }

 private:
  // The result; or an empty tensor if the run refuses, as one that is short may: two positions have
  // no three largest.
  template <class Run>
  Tensor tried(const std::string& how, bool may_refuse, const Run& run) {
    try {
      return run();
    } catch (const Error& error) {
      if (error.kind() != decltype(error.kind())::input) throw;
      if (!may_refuse) moved_ += how + ": " + error.what() + "; ";
      else ++counts_.refusals[words(error.what())], ++cuts_refused_;
      return {};
    }
  }
  template <class Run>
  void compare(const Rows& rows, Index count, const std::string& how, bool may_refuse,
               const Run& run) {
    const Tensor Y = tried(how, may_refuse, run);
    const Index row = Y ? rows.first_moved(Y, count) : -1;
    if (row >= 0) moved_ += text(how, ": row ", row, " moved; ");
  }
  // The sentence without places and numbers.
  static std::string words(const std::string& error) {
    std::string all;
    const size_t begin = error.find(": "), end = error.find('\n');
    for (char c : error.substr(begin == std::string::npos ? 0 : begin + 2,
                               end == std::string::npos ? end : end - begin - 2))
      if (!std::isdigit(static_cast<unsigned char>(c))) all += c;
    return all;
  }

  TextLayer layer_;
  Counts& counts_;
  int cuts_refused_ = 0;
  std::string moved_ = {};
};

// Says how the text is judged wrongly, or "".
std::string judged(const std::string& text, Counts& counts) {
  ++counts.drawn;
  std::optional<Judge> judge;
  try {
    judge.emplace(text, counts);
  } catch (const Error& error) {
    return error.kind() == decltype(error.kind())::input ? "" : error.what();
  }
  ++counts.checked;
  if (!judge->program().takes_mask) return ++counts.maskless, "";
  if (!judge->program().leak.empty()) return ++counts.refused, "";
  try {
    return judge->verdict();
  } catch (const std::exception& error) {
    return error.what();
  }
}

int number_in_environment(const char* name, int otherwise) {
  const char* given = std::getenv(name);
  return given ? std::atoi(given) : otherwise;
}

void print(const Counts& c) {
  std::cout << "random texts: " << c.drawn << " drawn, " << c.checked << " checked, " << c.maskless
            << " without a mask, " << c.refused << " refused as leaking ("
            << 100 * c.refused / std::max(1, c.checked - c.maskless) << " %), " << c.judged
            << " judged, " << c.failed << " moved; " << c.skipped_rows << " rows skipped\n";
  for (const auto& [sentence, count] : c.refusals)
    std::cout << "  " << count << " runs refused, " << sentence << "\n";
}

}  // namespace

TEST_SUITE("causality") {
  TEST_CASE("in a random text that is accepted as causal no row moves") {
    Counts counts;
    const int texts = number_in_environment("RANDOM_TEXTS", 300),
              first = number_in_environment("RANDOM_SEED", 1);
    for (int seed = first; seed < first + texts; ++seed) {
      const std::string text = random_text(static_cast<uint64_t>(seed)).text();
      const std::string wrong = judged(text, counts);
      CAPTURE(seed);
      CAPTURE(text);
      CHECK(wrong == "");
      counts.failed += !wrong.empty();
    }
    print(counts);
  }
}
