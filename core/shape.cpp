#include "core/shape.hpp"

#include <numeric>

namespace tete {

std::optional<Index> element_count_that_fits(const Shape& shape) {
  Index count = 1;
  bool fits = true, empty = false;
  for (Index size : shape) {
    empty |= size == 0;
    fits &= !__builtin_mul_overflow(count, size == 0 ? 1 : size, &count);
  }
  if (!fits || count > Index{1} << 60) return {};
  return empty ? 0 : count;
}

Index element_count(const Shape& shape) {
  const std::optional<Index> count = element_count_that_fits(shape);
  if (!count) fail(ErrorKind::resource, "a tensor of shape ", shape, " has too many elements");
  return *count;
}

Strides row_major(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<Index>(1, shape[i + 1]);
  return strides;
}

Strides dense_strides(const Shape& shape, const Short<int>& order) {
  Strides strides(shape.size(), 1);
  Index stride = 1;
  for (int i = order.size() - 1; i >= 0; --i) {
    strides[order[i]] = stride;
    stride *= std::max<Index>(1, shape[order[i]]);
  }
  return strides;
}

Short<int> memory_order(const Shape& shape, const Strides& strides) {
  Short<int> order;
  for (int i = 0; i < shape.size(); ++i) {
    int at = order.size();
    // A dimension moves outward past those that are denser than it is.
    while (at > 0 && strides[i] != 0 && strides[order[at - 1]] != 0 &&
           strides[order[at - 1]] < strides[i])
      --at;
    order.insert(at, i);
  }
  return order;
}

std::string describe(Dtype dtype, const Shape& shape) { return text(name_of(dtype), shape); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << '[' << list_of(shape) << ']';
}

}  // namespace tete
