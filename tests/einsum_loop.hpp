// The sum that an einsum expression stands for, read and computed without the engine: one loop over
// every name, and the same loop again for the gradient of every operand.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.hpp"

namespace tete {

// One loop. Names are numbered; an operand is the names of its dimensions, in row-major order.
struct EinsumLoop {
  using Names = std::vector<size_t>;
  using Numbers = std::vector<double>;

  std::vector<Index> sizes;  // of each name
  std::vector<Names> operands;
  Names result;
  Shape result_shape;  // after merging

  // Reads "ij,jk->ik", "b (h d), ..." and so on; the shapes say how long every dimension is.
  EinsumLoop(std::string_view expression, const std::vector<Shape>& shapes);

  // Sums, and beside each the sum of the absolute values of its terms: what rounding goes by.
  struct Sums {
    Numbers value, size;
    explicit Sums(size_t count = 0) : value(count, 0.0), size(count, 0.0) {}
    void add(size_t at, double term) { value[at] += term, size[at] += std::abs(term); }
  };
  struct Totals {
    Sums result;
    std::vector<Sums> gradients;  // of Σ result·cotangent, by operand
  };
  // The operands' values and the cotangent, all row-major.
  Totals run(const std::vector<Numbers>& values, const Numbers& cotangent) const;

  size_t elements(const Names& names) const {
    size_t count = 1;
    for (size_t name : names) count *= static_cast<size_t>(sizes[name]);
    return count;
  }
  size_t points() const {
    size_t count = 1;
    for (Index size : sizes) count *= static_cast<size_t>(size);
    return count;
  }

 private:
  using Words = std::vector<std::string>;
  using Term = std::vector<Words>;  // one entry a dimension; more than one word where some merge
  static Term read_term(std::string_view text, bool letters);
  static Term unfold(const Term& term, int width);
  void solve(const std::vector<Term>& terms, const std::vector<Shape>& shapes);
  Names numbered(const Term& term);

  std::map<std::string, Index> size_of_;
  std::map<std::string, size_t> number_of_;
};

// ---- Reading ---------------------------------------------------------------------------------

inline EinsumLoop::Term EinsumLoop::read_term(std::string_view text, bool letters) {
  Term term;
  bool merging = false;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == '\t') {
      ++at;
    } else if (text[at] == '(') {
      merging = true, term.emplace_back(), ++at;
    } else if (text[at] == ')') {
      merging = false, ++at;
    } else {
      size_t end = at + 1;
      if (text[at] == '.') end = at + 3;
      else
        while (!letters && end < text.size() &&
               std::string_view(" \t(.)").find(text[end]) == std::string_view::npos)
          ++end;
      if (!merging) term.emplace_back();
      term.back().emplace_back(text.substr(at, end - at));
      at = end;
    }
  }
  return term;
}

// '...' as the names ".2", ".1", ".0": counted from the right.
inline EinsumLoop::Term EinsumLoop::unfold(const Term& term, int width) {
  Term all;
  for (const Words& dimension : term) {
    if (dimension != Words{"..."}) all.push_back(dimension);
    else
      for (int k = width - 1; k >= 0; --k) all.push_back({"." + std::to_string(k)});
  }
  return all;
}

// Every size, from the dimensions of one name and then, over and over, from the merged ones that
// have one name open.
inline void EinsumLoop::solve(const std::vector<Term>& terms, const std::vector<Shape>& shapes) {
  for (bool is_new = true; is_new;) {
    const size_t before = size_of_.size();
    for (size_t i = 0; i < terms.size(); ++i)
      for (size_t k = 0; k < terms[i].size(); ++k) {
        Index known = 1;
        const std::string* open = nullptr;
        int open_count = 0;
        for (const std::string& name : terms[i][k]) {
          if (size_of_.contains(name)) known *= size_of_[name];
          else open = &name, ++open_count;
        }
        if (open_count == 1 && known > 0) size_of_[*open] = shapes[i][static_cast<int>(k)] / known;
      }
    is_new = size_of_.size() > before;
  }
}

inline EinsumLoop::Names EinsumLoop::numbered(const Term& term) {
  Names names;
  for (const Words& dimension : term)
    for (const std::string& name : dimension) {
      const auto [place, is_new] = number_of_.emplace(name, sizes.size());
      if (is_new) sizes.push_back(size_of_.at(name));
      names.push_back(place->second);
    }
  return names;
}

inline EinsumLoop::EinsumLoop(std::string_view expression, const std::vector<Shape>& shapes) {
  const bool letters = expression.find_first_of(" \t_0123456789") == std::string_view::npos;
  const size_t arrow = expression.find("->");
  std::string_view left = expression.substr(0, arrow);
  std::vector<Term> terms;
  int width = 0;
  for (size_t at = 0; at <= left.size();) {
    const size_t end = std::min(left.find(',', at), left.size());
    const Term term = read_term(left.substr(at, end - at), letters);
    const int dots = static_cast<int>(std::count(term.begin(), term.end(), Words{"..."}));
    const int own = shapes[terms.size()].size() - static_cast<int>(term.size()) + dots;
    terms.push_back(unfold(term, own));
    width = std::max(width, dots * own);
    at = end + 1;
  }
  solve(terms, shapes);
  for (const Term& term : terms) operands.push_back(numbered(term));
  Term result_term;
  if (arrow != std::string_view::npos) {
    result_term = unfold(read_term(expression.substr(arrow + 2), letters), width);
  } else {
    result_term = unfold({{"..."}}, width);
    for (const auto& [name, number] : number_of_) {  // in alphabetical order
      size_t count = 0;
      for (const Names& operand : operands)
        count += static_cast<size_t>(std::count(operand.begin(), operand.end(), number));
      if (count == 1 && name[0] != '.') result_term.push_back({name});
    }
  }
  result = numbered(result_term);
  for (const Words& dimension : result_term) {
    result_shape.push_back(1);
    for (const std::string& name : dimension) result_shape.back() *= size_of_.at(name);
  }
}

// ---- The loop --------------------------------------------------------------------------------

inline EinsumLoop::Totals EinsumLoop::run(const std::vector<Numbers>& values,
                                          const Numbers& cotangent) const {
  const size_t count = operands.size();
  // How far each operand, and last the result, moves with one step of each name.
  std::vector<std::vector<size_t>> steps;
  for (size_t i = 0; i <= count; ++i) {
    const Names& names = i < count ? operands[i] : result;
    steps.emplace_back(sizes.size(), 0);
    size_t stride = 1;
    for (size_t k = names.size(); k-- > 0;) {
      steps[i][names[k]] += stride;
      stride *= static_cast<size_t>(sizes[names[k]]);
    }
  }
  Totals totals{Sums(elements(result)), {}};
  for (const Names& names : operands) totals.gradients.emplace_back(elements(names));
  std::vector<Index> digits(sizes.size(), 0);
  std::vector<size_t> at(count + 1, 0);
  std::vector<double> before(count + 1, 1.0);  // products of the first operands
  for (size_t point = 0, all = points(); point < all; ++point) {
    for (size_t i = 0; i < count; ++i) before[i + 1] = before[i] * values[i][at[i]];
    totals.result.add(at[count], before[count]);
    double after = cotangent[at[count]];
    for (size_t i = count; i-- > 0; after *= values[i][at[i]])
      totals.gradients[i].add(at[i], before[i] * after);
    for (size_t name = sizes.size(); name-- > 0;) {  // the next point
      const bool turns = ++digits[name] == sizes[name];
      for (size_t i = 0; i <= count; ++i)
        at[i] += turns ? -steps[i][name] * static_cast<size_t>(sizes[name] - 1) : steps[i][name];
      if (!turns) break;
      digits[name] = 0;
    }
  }
  return totals;
}

}  // namespace tete
