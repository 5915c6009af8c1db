#include "nn/against/precision.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "nn/against/replay.hpp"
#include "nn/against/sums.hpp"

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

// The precision that each tensor was computed in.
class Bits {
 public:
  explicit Bits(const Recorded& recorded) : recorded_(recorded), candidate_(recorded.candidate) {
    for (const Compared& c : recorded.compared) {
      (c.gradient ? gradient_bits_ : value_bits_)[c.value] = c.bits;
      coarsest_ = coarser(coarsest_, c.bits);
    }
    if (coarsest_ != unknown) return;
    // If no computed tensor shows the precision, the inputs do.
    coarsest_ = 24;
    for (const auto& [name, x] : candidate_.arguments)
      if (is_real(x.dtype())) coarsest_ = coarser(coarsest_, bits_shown(x));
  }

  int coarsest() const { return coarsest_; }
  // The coarsest precision of the tensor and its operands.
  int of_operands(const Compared& c) const {
    if (product_bits_ != unknown && multiplies(c)) return product_bits_;
    const int bits =
        coarser(c.bits, c.gradient ? bits_for_gradient(c.value) : bits_for_value(c.value));
    return bits == unknown ? coarsest_ : bits;
  }
  // The coarsest precision of the tensor and all values that lead to it.
  int of_all_before(const Compared& c) const {
    if (product_bits_ != unknown) return product_bits_;
    if (c.gradient) return coarsest_;
    std::vector<bool> leads(static_cast<size_t>(candidate_.count()), false);
    leads[c.value] = true;
    int bits = c.bits;
    for (int i = c.value; i >= 0; --i) {
      if (!leads[i]) continue;
      if (is_unseen(i) && i != c.value) return coarsest_;
      if (value_bits_.contains(i)) bits = coarser(bits, value_bits_.at(i));
      for (int used : candidate_.value(i).uses) leads[used] = true;
    }
    return bits == unknown ? coarsest_ : bits;
  }

  // The precision of products of float32 numbers: 8 or 11 bits if several products, each of
  // operands that were given, are off by about as much as rounding the operands explains; or
  // unknown. One mistake makes one product wrong, seldom by so little, and a factor is no rounding.
  // Operands of p bits give a product a relative error of about 2^-p/√3; float32 sums of a million
  // terms, 2^-15.
  int of_products() const {
    constexpr double least = 0x1p-14, most = 0x1p-6, bf16 = 0x1p-10;
    int rounded = 0, coarse = 0;
    for (const Compared& c : recorded_.compared) {
      if (c.gradient || !is_product(c.value) || !c.fits() || of_operands(c) != 24) continue;
      const double error = error_beside_factor(c);
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
  bool is_product(int value) const {
    bool found = false;
    visit(candidate_.value(value).right, [&](const Node& node) { found |= calls(node, "einsum"); });
    return found;
  }

  // |theirs - f · text| / |text| for the factor f that makes it least.
  static double error_beside_factor(const Compared& c) {
    const std::vector<double> x = c.theirs.values(), y = c.from_operands.tensor.values();
    double xx = 0, xy = 0, yy = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (c.ignored.empty() || !c.ignored[i])
        xx += x[i] * x[i], xy += x[i] * y[i], yy += y[i] * y[i];
    const double squares = xx / yy - (xy / yy) * (xy / yy);
    return squares > 0 ? std::sqrt(squares) : 0;
  }

  // True if a product is among the statements that the tensor is compared by.
  bool multiplies(const Compared& c) const {
    const std::vector<int> through =
        c.gradient ? statements_from(candidate_, c.value) : statements_to(candidate_, c.value);
    return std::any_of(through.begin(), through.end(), [this](int s) { return is_product(s); });
  }

  // Real numbers that were not given may have been rounded to anything.
  bool is_unseen(int i) const {
    const CheckedValue& v = candidate_.value(i);
    return v.kind == CheckedValue::Kind::statement && v.element == Element::real &&
           !value_bits_.contains(i);
  }
  int bits_for_value(int value) const {
    std::vector<int> operands;
    for (int s : statements_to(candidate_, value, &operands))
      if (s != value && is_unseen(s)) return coarsest_;
    int bits = unknown;
    for (int i : operands)
      if (value_bits_.contains(i)) bits = coarser(bits, value_bits_.at(i));
    return bits;
  }
  int bits_for_gradient(int value) const {
    int bits = unknown;
    for (int s : statements_from(candidate_, value)) {
      if (gradient_bits_.contains(s)) bits = coarser(bits, gradient_bits_.at(s));
      else if (s != candidate_.program->result) return coarsest_;
      for (int i : candidate_.value(s).uses)
        if (value_bits_.contains(i)) bits = coarser(bits, value_bits_.at(i));
        else if (is_unseen(i)) return coarsest_;
    }
    return bits;
  }

  const Recorded& recorded_;
  const Candidate& candidate_;
  std::map<int, int> value_bits_, gradient_bits_;
  int coarsest_ = unknown;
  int product_bits_ = unknown;
};

class Expectation {
 public:
  Expectation(Recorded& recorded, double tolerance)
      : recorded_(recorded),
        candidate_(recorded.candidate),
        tolerance_(tolerance),
        sums_(recorded),
        bits_(recorded) {}

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
    for (const bool gradients : {false, true})
      for (const Precision& p : precisions) {
        std::vector<Compared*> from_operands, from_inputs;
        for (Compared& c : recorded_.compared) {
          if (c.gradient != gradients) continue;
          if (precision_of(bits_.of_operands(c)).bits == p.bits) from_operands.push_back(&c);
          if (precision_of(bits_.of_all_before(c)).bits == p.bits) from_inputs.push_back(&c);
        }
        expect(from_operands, From::operands, p);
        expect(from_inputs, From::inputs, p);
      }
  }

  void expect(const std::vector<Compared*>& compared, From from, const Precision& precision) const {
    if (compared.empty()) return;
    const double unit = std::ldexp(1.0, -precision.bits);
    const Tensors text = replayed(compared, from, {});
    std::vector<Distance> rounding(compared.size());
    for (uint64_t trial : {1, 2}) {
      const Tensors rounded = replayed(compared, from, {unit, Key(trial)});
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
      expected.allowed = allowed(text[i].values(), rounding[i], sums_.longest(c, from), precision);
    }
  }

  // The tolerance of a tensor. A mean over all entries varies less than the largest entry, so it
  // gets half the room. Partial sums of `terms` terms are rounded, too: their error grows as
  // √terms. Half precision is summed in float32 everywhere.
  Distance allowed(const std::vector<double>& text, const Distance& rounding, double terms,
                   const Precision& precision) const {
    const double unit = std::ldexp(1.0, -precision.bits), largest = largest_of(text);
    const double sums = 4 * std::sqrt(terms) * std::ldexp(1.0, -std::max(24, precision.bits));
    if (tolerance_ > 0) return {.farthest = tolerance_ * largest, .rms = tolerance_ * largest};
    // If the text's numbers are rounding themselves, as where all terms of a gradient cancel, its
    // size depends on what rounds alike.
    const double room = rounding.farthest > largest ? 64 : 8;
    return {.farthest = room * rounding.farthest + (4 * unit + sums) * largest + precision.smallest,
            .rms = room / 2 * rounding.rms + (2 * unit + sums) * rms_of(text) + precision.smallest};
  }

  Tensors replayed(const std::vector<Compared*>& compared, From from,
                   const Rounding& rounding) const {
    std::vector<int> of;
    for (const Compared* c : compared) of.push_back(c->value);
    return compared[0]->gradient ? replay_gradients(candidate_, of, from, {}, rounding)
                                 : replay_values(candidate_, of, from, {}, rounding);
  }

  Recorded& recorded_;
  const Candidate& candidate_;
  double tolerance_;
  const Sums sums_;
  Bits bits_;
};

}  // namespace

int bits_shown(const Tensor& x, int stored) {
  const bool stored_in_half = stored != 0 && stored < 24;
  if (stored == 0) stored = x.dtype() == Dtype::f64 ? 53 : 24;
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
  if (magnitudes.size() < enough || whole) return stored_in_half ? stored : unknown;
  if (stored_in_half) return stored;
  const bool half = (most == 8 || most == 11) && of_bits[most] * 8 >= count;
  return half ? most : stored == 53 && most > 24 ? 53 : 24;
}

const char* expect(Recorded& recorded, double tolerance) {
  return Expectation(recorded, tolerance).fill_in();
}

}  // namespace tete
