// Plain arrays of double and loops over them: what is compared with the library knows none of it.
#pragma once
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace tete::tests {

struct Array {
  std::vector<int> shape;
  std::vector<double> v;
  Array(std::vector<int> s = {}) : shape(std::move(s)) {
    size_t count = 1;
    for (int size : shape) count *= static_cast<size_t>(size);
    v.assign(count, 0.0);
  }
  template <class... I>
  double& operator()(I... i) {
    return v[at(i...)];
  }
  template <class... I>
  double operator()(I... i) const {
    return v[at(i...)];
  }

 private:
  template <class... I>
  size_t at(I... i) const {
    size_t all = 0, axis = 0;
    ((all = all * static_cast<size_t>(shape[axis++]) + static_cast<size_t>(i)), ...);
    return all;
  }
};
using Arrays = std::map<std::string, Array>;

// body({i, j, …}) for all of them.
template <class Body>
void loop(std::vector<int> sizes, const Body& body) {
  std::vector<int> i(sizes.size(), 0);
  for (;;) {
    body(i);
    size_t axis = sizes.size();
    while (axis-- > 0 && ++i[axis] == sizes[axis]) i[axis] = 0;
    if (axis == static_cast<size_t>(-1)) return;
  }
}

// A[i, j, …] = value(i, j, …).
template <size_t rank, class Value>
Array fill(const int (&sizes)[rank], const Value& value) {
  Array a(std::vector<int>(sizes, sizes + rank));
  std::array<int, rank> i{};
  for (double& x : a.v) {
    x = std::apply(value, i);
    for (size_t axis = rank; axis-- > 0 && ++i[axis] == sizes[axis];) i[axis] = 0;
  }
  return a;
}

// Σ value(i) over i < count.
template <class Value>
double total(int count, const Value& value) {
  double all = 0;
  for (int i = 0; i < count; ++i) all += value(i);
  return all;
}

}  // namespace tete::tests
