#include "attention/against/precision.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "attention/against/replay.hpp"

namespace tete {

namespace {

struct Precision {
  const char* name;
  int bits;         // of the significand
  double smallest;  // the smallest difference that counts
};
// Many devices flush numbers of float32's range below 2^-126 to zero, so a sum of products just
// above that has lost terms: a difference under 2^-118 is no evidence.
constexpr Precision precisions[] = {{"bfloat16", 8, 0x1p-118},
                                    {"float16", 11, 0x1p-24},
                                    {"float32", 24, 0x1p-118},
                                    {"float64", 53, 0x1p-1074}};
constexpr int unknown = 0;

int coarser(int a, int b) { return a == unknown ? b : b == unknown ? a : std::min(a, b); }

const Precision& precision_of(int bits) {
  for (const Precision& p : precisions)
    if (bits <= p.bits) return p;
  return precisions[3];
}

// The largest relative error that rounding to it makes.
double unit_of(const Precision& precision) { return std::ldexp(1.0, -precision.bits); }

double rms_of(const std::vector<double>& numbers) {
  double squares = 0;
  for (double x : numbers)
    if (std::isfinite(x)) squares += x * x;
  return numbers.empty() ? 0 : std::sqrt(squares / static_cast<double>(numbers.size()));
}

int bits_needed(double x) {
  int exponent = 0;
  const auto significand = static_cast<int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
  return 53 - __builtin_ctzll(static_cast<uint64_t>(significand));
}

// True if one of these nodes multiplies tensors.
bool is_product(const CheckedValue& value) {
  bool found = false;
  visit(value.right, [&](const Node& node) { found |= node.builtin && node.builtin->contracts; });
  return found;
}

// The precision that each tensor was computed in.
class Bits {
 public:
  explicit Bits(const Candidate& candidate) : candidate_(candidate) {
    for (const Compared& c : candidate.compared) {
      (c.gradient ? gradient_bits_ : value_bits_)[c.value] = c.bits;
      coarsest_ = coarser(coarsest_, c.bits);
    }
    gradient_bits_.try_emplace(candidate.program->result, unknown);
    if (coarsest_ != unknown) return;
    // If no computed tensor shows the precision, the inputs do.
    coarsest_ = 24;
    for (const auto& [name, x] : candidate_.arguments)
      if (is_real(x.dtype())) coarsest_ = coarser(coarsest_, bits_shown(x));
  }

  int coarsest() const { return coarsest_; }
  // The coarsest precision of the tensor and its operands, or of it and all values that lead to it;
  // of all tensors, if one of these was not given.
  int of(const Compared& c, From from) const {
    if (product_bits_ != unknown && (from == From::inputs || multiplies(c))) return product_bits_;
    if (from == From::inputs && c.gradient) return coarsest_;
    int bits = c.bits;
    bool all_given = true;
    const auto join = [&](const std::map<int, int>& given, int i, bool is_rounded) {
      if (const auto at = given.find(i); at != given.end()) bits = coarser(bits, at->second);
      else all_given &= !is_rounded;
    };
    std::vector<bool> read = candidate_.marked(c.operands);
    if (c.gradient)
      for (int s : c.statements) join(gradient_bits_, s, true);
    else
      for (int s : c.statements) read[s] = s != c.value;
    if (from == From::inputs) mark_sources(*candidate_.program, read);
    for (int i = 0; i < candidate_.count(); ++i)
      if (read[i] || (c.gradient && i == c.value)) join(value_bits_, i, may_be_rounded(i));
    return all_given && bits != unknown ? bits : coarsest_;
  }

  // The precision of products of float32 numbers: 8 or 11 bits if several products, each of
  // operands that were given, are off by about as much as rounding the operands explains; or
  // unknown. One mistake makes one product wrong, seldom by so little, and a factor is no rounding.
  // Operands of p bits give a product a relative error of about 2^-p/√3; float32 sums of a million
  // terms, 2^-15.
  int of_products() const {
    constexpr double least = 0x1p-14, most = 0x1p-6, bf16 = 0x1p-10;
    int rounded = 0, coarse = 0;
    for (const Compared& c : candidate_.compared) {
      if (c.gradient || !is_product(candidate_.value(c.value)) || !c.fits() ||
          of(c, From::operands) != 24)
        continue;
      const double error = factor_of(c).error;
      if (!(error > least && error < most)) continue;
      ++rounded;
      if (error > bf16) ++coarse;
    }
    if (rounded < 2) return unknown;
    return 2 * coarse > rounded ? 8 : 11;
  }

  // From here on products count as made with these.
  void set_products(int bits) { product_bits_ = bits; }

 private:
  // True if a product is among the statements that the tensor is compared by.
  bool multiplies(const Compared& c) const {
    return std::any_of(c.statements.begin(), c.statements.end(),
                       [this](int s) { return is_product(candidate_.value(s)); });
  }
  // Real numbers that were not given may have been rounded to anything.
  bool may_be_rounded(int i) const {
    const CheckedValue& v = candidate_.value(i);
    return v.kind == ValueKind::statement && v.element == Element::real;
  }

  const Candidate& candidate_;
  std::map<int, int> value_bits_, gradient_bits_;
  int coarsest_ = unknown;
  int product_bits_ = unknown;
};

// The number of terms that statement `s` sums for each entry of value `of`: the sizes of all its
// dimensions that `of` lacks. The gradient of a parameter is a sum over the batch as well.
double terms(const Candidate& candidate, int s, int of, bool gradient) {
  const CheckedValue &statement = candidate.value(s), &kept = candidate.value(of);
  std::set<int> dims(statement.dims.begin(), statement.dims.end());
  for (int used : statement.uses)
    dims.insert(candidate.value(used).dims.begin(), candidate.value(used).dims.end());
  const bool over_batch = gradient && kept.kind == ValueKind::parameter;
  auto count = static_cast<double>(over_batch ? element_count(candidate.text->batch()) : 1);
  for (int dim : dims)
    if (!kept.dims.contains(dim)) count *= static_cast<double>(candidate.text->size(dim));
  return count;
}

// The most terms of a sum on the way from the operands to this tensor; from the inputs, the most of
// any sum of the text, which is an upper bound.
double longest_sum(const Candidate& candidate, const Compared& c, From from) {
  const std::vector<bool> between = candidate.marked(c.statements);
  double most = 1;
  for (int s = 0; s < candidate.count(); ++s) {
    if (from == From::operands && !between[s]) continue;
    most = std::max(most, terms(candidate, s, s, false));
    if (c.gradient)
      for (int used : candidate.value(s).uses)
        most = std::max(most, terms(candidate, s, used, true));
  }
  return most;
}

class Expectation {
 public:
  Expectation(Candidate& candidate, double tolerance)
      : candidate_(candidate), tolerance_(tolerance), bits_(candidate) {}

  const char* fill_in() {
    expect_all();
    const int products = tolerance_ > 0 ? unknown : bits_.of_products();
    if (products == unknown) return precision_of(bits_.coarsest()).name;
    bits_.set_products(products);
    expect_all();
    return products == 8 ? "float32, with products in bfloat16,"
                         : "float32, with products in TF32 or float16,";
  }

 private:
  void expect_all() {
    for (const From from : {From::operands, From::inputs}) {
      std::map<std::pair<bool, const Precision*>, std::vector<Compared*>> alike;
      for (Compared& c : candidate_.compared)
        alike[{c.gradient, &precision_of(bits_.of(c, from))}].push_back(&c);
      for (const auto& [kind, compared] : alike) expect(compared, from, *kind.second);
    }
  }

  void expect(const std::vector<Compared*>& compared, From from, const Precision& precision) const {
    std::vector<int> of;
    for (const Compared* c : compared) of.push_back(c->value);
    const auto replayed = [&](const Rounding& rounding) {
      return replay(candidate_, of, compared[0]->gradient, from, {}, rounding);
    };
    const Tensors text = replayed({});
    std::vector<Distance> rounding(compared.size());
    for (uint64_t trial : {1, 2}) {
      const Tensors rounded = replayed({unit_of(precision), Key(trial)});
      for (size_t i = 0; i < compared.size(); ++i) {
        const Distance d = distance(rounded[i].values(), text[i].values(), compared[i]->ignored);
        if (!std::isfinite(d.rms)) continue;
        rounding[i].farthest = std::max(rounding[i].farthest, d.farthest);
        rounding[i].rms = std::max(rounding[i].rms, d.rms);
      }
    }
    for (size_t i = 0; i < compared.size(); ++i) {
      Compared& c = *compared[i];
      Expected& expected = from == From::operands ? c.from_operands : c.from_inputs;
      expected.tensor = text[i];
      expected.allowed =
          allowed(text[i].values(), rounding[i], longest_sum(candidate_, c, from), precision);
    }
  }

  // The tolerance of a tensor. A mean over all entries varies less than the largest entry, so it
  // gets half the room. Partial sums of `terms` terms are rounded, too: their error grows as
  // √terms. Half precision is summed in float32 everywhere.
  Distance allowed(const std::vector<double>& text, const Distance& rounding, double terms,
                   const Precision& precision) const {
    const double unit = unit_of(precision), largest = largest_of(text);
    const double sums = 4 * std::sqrt(terms) * std::ldexp(1.0, -std::max(24, precision.bits));
    if (tolerance_ > 0) return {.farthest = tolerance_ * largest, .rms = tolerance_ * largest};
    // If the text's numbers are rounding themselves, as where all terms of a gradient cancel, its
    // size depends on what rounds alike.
    const double room = rounding.farthest > largest ? 64 : 8;
    return {.farthest = room * rounding.farthest + (4 * unit + sums) * largest + precision.smallest,
            .rms = room / 2 * rounding.rms + (2 * unit + sums) * rms_of(text) + precision.smallest};
  }

  Candidate& candidate_;
  double tolerance_;
  Bits bits_;
};

}  // namespace

int bits_shown(const Tensor& x, int stored) {
  if (stored != 0 && stored < 24) return stored;
  constexpr size_t enough = 16;
  Index count = 0, of_bits[54] = {};
  int most = 0;
  bool whole = true;
  std::set<double> magnitudes;  // no more than are enough
  for (double number : x.values()) {
    if (number == 0 || !std::isfinite(number)) continue;
    const int bits = bits_needed(number);
    ++count, ++of_bits[bits];
    most = std::max(most, bits);
    whole &= number == std::floor(number);
    if (magnitudes.size() < enough) magnitudes.insert(std::abs(number));
  }
  if (magnitudes.size() < enough || whole) return unknown;
  const bool half = (most == 8 || most == 11) && of_bits[most] * 8 >= count;
  return half ? most : most > 24 ? 53 : 24;
}

const char* expect(Candidate& candidate, double tolerance) {
  return Expectation(candidate, tolerance).fill_in();
}

}  // namespace tete
