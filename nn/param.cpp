#include "nn/param.hpp"

namespace tete {

ParamId ParamList::declare(ParamSpec spec) {
  if (find(spec.name) >= 0) bad_input("parameter '", spec.name, "' is declared twice");
  if (static_cast<int>(spec.dims.size()) != spec.shape.size())
    bad_input("parameter '", spec.name, "' names ", spec.dims.size(),
              " dimensions, but its shape is ", spec.shape);
  specs_.push_back(std::move(spec));
  return {size() - 1};
}

int ParamList::find(const std::string& name) const {
  for (int i = 0; i < size(); ++i)
    if (specs_[i].name == name) return i;
  return -1;
}

Index ParamList::element_total() const {
  Index total = 0;
  for (const ParamSpec& spec : specs_) total += element_count(spec.shape);
  return total;
}

std::vector<Planned> ParamList::planned(Dtype dtype) const {
  std::vector<Planned> all;
  for (const ParamSpec& spec : specs_) all.push_back({spec.name, spec.shape, dtype});
  return all;
}

Tensors ParamList::initial_values(Key key, Dtype dtype) const {
  require_memory(planned(dtype));
  Tensors values;
  for (const ParamSpec& spec : specs_)
    values.push_back(initial_value(spec, key.fold(spec.name), dtype));
  return values;
}

// ---- Forward ---------------------------------------------------------------------------------

Forward Forward::with(const Tensors& values) const {
  return {.params = values,
          .training = training,
          .dropout = dropout,
          .key = key,
          .first_sample = first_sample,
          .watch = watch,
          .watched = watched,
          .replace = replace,
          .replaced = replaced,
          .entered = entered,
          .decoding = decoding,
          .tiling = tiling,
          .products = products,
          .recompute_blocks = recompute_blocks};
}

Tensor Forward::replacement(const std::string& path, const Tensor& x) const {
  const Tensor y = replace(path, x);
  if (!y) bad_input("the hook at '", path, "' returned no tensor");
  if (y.dtype() != x.dtype() || !(y.shape() == x.shape()))
    bad_input("the hook at '", path, "' returned ", describe(y.dtype(), y.shape()), ", expected ",
              describe(x.dtype(), x.shape()));
  // Products of what lies differently may be rounded differently.
  return y.same(x) ? y : with_layout(y, memory_order(x.shape(), x.strides()));
}

Tensor Forward::offer(const std::string& scope, const std::string& name, const Tensor& x) const {
  if (!is_looked_into()) return x;
  const std::string path = scope.empty() ? name : scope + "/" + name;
  const Tensor y = replaces(path) ? replacement(path, x) : x;
  if (watches(path)) watch(path, y);
  return y;
}

}  // namespace tete
