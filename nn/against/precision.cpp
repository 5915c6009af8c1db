#include "nn/against/precision.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "nn/against/replay.hpp"

namespace tete {

namespace {

struct Precision {
  const char* name;
  int bits;         // of the significand
  double smallest;  // difference that counts
};
// Below 2^-126 many devices have zero for numbers of float32's range, and a sum of products that
// are just above it has lost those below: what is under 2^-118 is no evidence.
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

int bits_needed(double x) {
  int exponent = 0;
  const auto significand = static_cast<int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
  return 53 - __builtin_ctzll(static_cast<uint64_t>(significand));
}

class Expectation {
 public:
  Expectation(Recorded& recorded, double tolerance)
      : recorded_(recorded), candidate_(recorded.candidate), tolerance_(tolerance) {
    for (const Compared& c : recorded.compared) {
      (c.gradient ? gradient_bits_ : value_bits_)[c.value] = c.bits;
      coarsest_ = coarser(coarsest_, c.bits);
    }
    if (coarsest_ != unknown) return;
    // The inputs show it, where what is computed from them does not.
    coarsest_ = 24;
    for (const auto& [name, x] : candidate_.arguments)
      if (is_real(x.dtype())) coarsest_ = coarser(coarsest_, bits_shown(x));
  }

  const char* fill_in() {
    expect_all();
    if (!multiplies_in_half()) return precision_of(coarsest_).name;
    coarsest_ = 11, half_products_ = true;
    expect_all();
    return "float32, with products in TF32 or float16,";
  }

 private:
  void expect_all() {
    for (const bool gradients : {false, true})
      for (const Precision& p : precisions) {
        std::vector<Compared*> from_operands, from_inputs;
        for (Compared& c : recorded_.compared) {
          if (c.gradient != gradients) continue;
          if (precision_of(bits_of_operands(c)).bits == p.bits) from_operands.push_back(&c);
          if (precision_of(bits_of_all_before(c)).bits == p.bits) from_inputs.push_back(&c);
        }
        expect(from_operands, From::operands, p);
        expect(from_inputs, From::inputs, p);
      }
  }

  // True if float32 numbers were multiplied in less: even the most exact of several products, each
  // of operands that were given, is far off. One mistake does not make all of them wrong.
  bool multiplies_in_half() const {
    constexpr double far = 32;
    int products = 0;
    for (const Compared& c : recorded_.compared) {
      bool is_product = false;
      visit(candidate_.value(c.value).right,
            [&](const Node& node) { is_product |= calls(node, "einsum"); });
      if (c.gradient || !is_product || !c.fits()) continue;
      const double apart =
          farthest(c.theirs.values(), c.from_operands.tensor.values(), c.ignored).apart;
      if (bits_of_operands(c) != 24 || !(apart > far * c.from_operands.tolerance)) return false;
      ++products;
    }
    return products >= 3 && tolerance_ == 0;
  }

  // The coarsest of the tensor and its operands.
  int bits_of_operands(const Compared& c) const {
    if (half_products_) return coarsest_;
    const int bits =
        coarser(c.bits, c.gradient ? bits_for_gradient(c.value) : bits_for_value(c.value));
    return bits == unknown ? coarsest_ : bits;
  }
  // The coarsest of the tensor and all that leads to it.
  int bits_of_all_before(const Compared& c) const {
    if (c.gradient || half_products_) return coarsest_;
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

  void expect(const std::vector<Compared*>& compared, From from, const Precision& precision) const {
    if (compared.empty()) return;
    const double unit = std::ldexp(1.0, -precision.bits);
    const Tensors text = replayed(compared, from, {});
    std::vector<double> rounding(compared.size(), 0);
    for (uint64_t trial : {1, 2}) {
      const Tensors rounded = replayed(compared, from, {unit, Key(trial)});
      for (size_t i = 0; i < compared.size(); ++i) {
        const double apart =
            farthest(rounded[i].values(), text[i].values(), compared[i]->ignored).apart;
        if (std::isfinite(apart)) rounding[i] = std::max(rounding[i], apart);
      }
    }
    for (size_t i = 0; i < compared.size(); ++i) {
      const double largest = largest_of(text[i].values());
      const double allowed = tolerance_ > 0
                                 ? tolerance_ * largest
                                 : 8 * rounding[i] + 4 * unit * largest + precision.smallest;
      (from == From::operands ? compared[i]->from_operands : compared[i]->from_inputs) = {text[i],
                                                                                          allowed};
    }
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
  std::map<int, int> value_bits_, gradient_bits_;
  int coarsest_ = unknown;
  bool half_products_ = false;
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
  const bool half = (most == 8 || most == 11) && of_bits[most] * 8 >= count;
  return half ? most : stored_in_half ? stored : stored == 53 && most > 24 ? 53 : 24;
}

const char* expect(Recorded& recorded, double tolerance) {
  return Expectation(recorded, tolerance).fill_in();
}

}  // namespace tete
