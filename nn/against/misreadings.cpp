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
    if (axis >= named.batch) all += (all.empty() ? "" : ", ") + named.axes[axis];
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

// Adds every order of the axes, two or more moved, that does not change the shape.
void add_orders(const NamedAxes& named, const Shape& shape, std::vector<Misreading>& misreadings) {
  if (shape.size() > 5) return;
  for (const int moved : {2, 3, 4})
    for (const Axes& order : orders(shape.size(), 0)) {
      std::vector<int> away;
      for (int i = 0; i < shape.size(); ++i)
        if (order[i] != i) away.push_back(i);
      if (static_cast<int>(away.size()) != moved || !(permuted(shape, order) == shape)) continue;
      const auto axis = [&](int i) { return named.axes[i]; };
      misreadings.push_back(
          {moved == 2 ? text("as if ", named.name, "'s ", axis(away[0]), " and ", axis(away[1]),
                             " were swapped (transposed)")
                      : text("as if ", named.name, " were written as ",
                             listed({.name = {}, .axes = named.axes, .batch = 0}, order)),
           [=](const Tensor& x) { return permute(x, order); }});
    }
}

// Adds the reading in which the first index moves fastest instead of the last, or the other way
// round.
void add_columns(const NamedAxes& named, const Shape& shape, std::vector<Misreading>& misreadings) {
  if (shape.size() < 2) return;
  Axes back;
  for (int i = shape.size(); i-- > 0;) back.push_back(i);
  const std::string sentence =
      text("as if ", named.name, "'s numbers were stored column by column (Fortran order)");
  misreadings.push_back({sentence, [=](const Tensor& x) {
                           return permute(reshape(x, permuted(x.shape(), back)), back);
                         }});
  misreadings.push_back(
      {sentence, [=](const Tensor& x) { return reshape(permute(x, back), x.shape()); }});
}

// Adds tensors that were written in the memory order p and read as if it were q.
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
  add_orders(named, shape, misreadings);
  add_columns(named, shape, misreadings);
  add_layouts(named, shape, misreadings);
  return misreadings;
}

}  // namespace tete
