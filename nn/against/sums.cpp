#include "nn/against/sums.hpp"

#include <algorithm>
#include <set>

namespace tete {

Sums::Sums(const Recorded& recorded) : candidate_(recorded.candidate) {
  for (const Compared& c : recorded.compared) add_sizes(c.value, c.theirs.shape());
  for (int i = 0; i < candidate_.count(); ++i)
    if (candidate_.is_argument(i))
      add_sizes(i, candidate_.arguments.at(candidate_.name(i)).shape());
}

void Sums::add_sizes(int value, const Shape& shape) {
  const Names& dims = candidate_.value(value).dims;
  const int batch = shape.size() - dims.size();
  for (int k = 0; k < dims.size(); ++k) sizes_[dims[k]] = static_cast<double>(shape[batch + k]);
  double samples = 1;
  for (int k = 0; k < batch; ++k) samples *= static_cast<double>(shape[k]);
  samples_ = std::max(samples_, samples);
}

double Sums::terms(int s, int of, bool gradient) const {
  const CheckedValue &statement = candidate_.value(s), &kept = candidate_.value(of);
  std::set<int> dims(statement.dims.begin(), statement.dims.end());
  for (int used : statement.uses)
    dims.insert(candidate_.value(used).dims.begin(), candidate_.value(used).dims.end());
  double count = gradient && kept.kind == CheckedValue::Kind::parameter ? samples_ : 1;
  for (int dim : dims)
    if (const auto size = sizes_.find(dim); size != sizes_.end() && !kept.dims.contains(dim))
      count *= size->second;
  return count;
}

double Sums::longest_around(int s, bool gradient) const {
  double most = terms(s, s, false);
  if (gradient)
    for (int used : candidate_.value(s).uses) most = std::max(most, terms(s, used, true));
  return most;
}

double Sums::longest(const Compared& c, From from) const {
  double most = 1;
  if (from == From::inputs)
    for (int s = 0; s < candidate_.count(); ++s)
      most = std::max(most, longest_around(s, c.gradient));
  for (int s :
       c.gradient ? statements_from(candidate_, c.value) : statements_to(candidate_, c.value))
    most = std::max(most, longest_around(s, c.gradient));
  return most;
}

}  // namespace tete
