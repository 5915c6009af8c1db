#include "nn/against/misreadings.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops.hpp"

namespace tete {

namespace {

Shape permuted(const Shape& shape, const Axes& order) {
  Shape all;
  for (int axis : order) all.push_back(shape[axis]);
  return all;
}

Axes inverse(const Axes& order) {
  Axes back(order.size(), 0);
  for (int i = 0; i < order.size(); ++i) back[order[i]] = i;
  return back;
}

std::string listed(const NamedAxes& named, const Axes& order) {
  std::string all;
  for (int axis : order)
    if (axis >= named.batch)
      all += (all.empty() ? "" : ", ") + named.axes[static_cast<size_t>(axis)];
  return "[" + all + "]";
}

// Every order of the axes after the batch.
std::vector<Axes> orders(int rank, int batch) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::vector<Axes> all;
  do {
    all.push_back(Axes(std::span<const int>(axes)));
  } while (std::next_permutation(axes.begin() + batch, axes.end()));
  return all;
}

void add_swaps(const NamedAxes& named, const Shape& shape, std::vector<Misreading>& misreadings) {
  for (int i = 0; i < shape.size(); ++i)
    for (int k = i + 1; k < shape.size(); ++k) {
      if (shape[i] != shape[k] || shape[i] < 2) continue;
      Axes order;
      for (int axis = 0; axis < shape.size(); ++axis)
        order.push_back(axis == i ? k : axis == k ? i : axis);
      misreadings.push_back(
          {text("as if ", named.name, "'s ", named.axes[static_cast<size_t>(i)], " and ",
                named.axes[static_cast<size_t>(k)], " were swapped (transposed)"),
           [=](const Tensor& x) { return permute(x, order); }});
    }
}

// Laid out in the order p, read as if that were q.
void add_layouts(const NamedAxes& named, const Shape& shape, std::vector<Misreading>& misreadings) {
  const int free = shape.size() - named.batch;
  if (free < 2 || free > 3) return;
  for (const Axes& p : orders(shape.size(), named.batch))
    for (const Axes& q : orders(shape.size(), named.batch)) {
      if (permuted(shape, p) == permuted(shape, q)) continue;  // no more than a swap
      misreadings.push_back({text("as if ", named.name, " were laid out as ", listed(named, p),
                                  " and read as ", listed(named, q)),
                             [=](const Tensor& x) {
                               return permute(reshape(permute(x, p), permuted(shape, q)),
                                              inverse(q));
                             }});
    }
}

}  // namespace

std::vector<Misreading> confused_dimensions(const NamedAxes& named, const Shape& shape) {
  std::vector<Misreading> misreadings;
  add_swaps(named, shape, misreadings);
  add_layouts(named, shape, misreadings);
  return misreadings;
}

Misreading without_slice(const NamedAxes& named, const Shape& shape, int axis, Index at) {
  Axes others;
  std::vector<double> kept;
  for (int i = 0; i < shape.size(); ++i)
    if (i != axis) others.push_back(i);
  for (Index i = 0; i < shape[axis]; ++i) kept.push_back(i != at);
  const Tensor keep = expand(Tensor::of<double>({shape[axis]}, kept), others, shape);
  return {
      text("as if ", named.name, " were 0 where ", named.axes[static_cast<size_t>(axis)], "=", at),
      [=](const Tensor& x) { return x * keep; }};
}

std::string permuted_slices(const NamedAxes& named, const Tensor& x, const Tensor& y,
                            double tolerance) {
  constexpr Index most = 64;
  const std::vector<double> a = x.values(), b = y.values();
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Index size = x.size(axis), stride = row_major(x.shape())[axis];
    if (size < 2 || size > most) continue;
    const Index block = size * stride, blocks = x.size() / block;
    const auto alike = [&](Index i, Index k) {
      for (Index outer = 0; outer < blocks; ++outer)
        for (Index inner = 0; inner < stride; ++inner) {
          const auto p = static_cast<size_t>(outer * block + i * stride + inner);
          const auto q = static_cast<size_t>(outer * block + k * stride + inner);
          if (!(std::abs(a[p] - b[q]) <= tolerance)) return false;
        }
      return true;
    };
    std::string order;
    std::vector<bool> used(static_cast<size_t>(size), false);
    Index matched = 0;
    for (Index i = 0; i < size; ++i)
      for (Index k = 0; k < size; ++k) {
        if (used[static_cast<size_t>(k)] || !alike(i, k)) continue;
        used[static_cast<size_t>(k)] = true;
        order += text(order.empty() ? "" : ", ", k);
        ++matched;
        break;
      }
    if (matched == size)
      return text("as if ", named.name, "'s ", named.axes[static_cast<size_t>(axis)],
                  " were in another order: ", order);
  }
  return "";
}

}  // namespace tete
