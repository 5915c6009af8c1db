// The lengths of the sums in a text, at the sizes of the candidate.
#pragma once
#include <map>

#include "nn/against/replay.hpp"

namespace tete {

class Sums {
 public:
  explicit Sums(const Recorded& recorded);
  // The number of terms of the longest sum between the given tensors and this one.
  double longest(const Compared& c, From from) const;

 private:
  void add_sizes(int value, const Shape& shape);
  // The number of terms that statement `s` sums for each entry of value `of`: the sizes of all its
  // dimensions that `of` lacks. The gradient of a parameter is a sum over the batch as well.
  double terms(int s, int of, bool gradient) const;
  double longest_around(int s, bool gradient) const;

  const Candidate& candidate_;
  std::map<int, double> sizes_;  // of dimensions
  double samples_ = 1;
};

}  // namespace tete
