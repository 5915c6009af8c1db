#include "nn/param.hpp"

namespace tete {

bool mixes_heads(const std::vector<std::string>& dims) {
  return dims.size() == 2 && std::all_of(dims.begin(), dims.end(), [](const std::string& dim) {
           return dim == "h" || dim.starts_with("h_");
         });
}

ParamId ParamList::declare(ParamSpec spec) {
  if (find(spec.name) >= 0) bad_input("parameter '", spec.name, "' is declared twice");
  if (static_cast<int>(spec.dims.size()) != spec.shape.size())
    bad_input("parameter '", spec.name, "' names ", spec.dims.size(),
              " dimensions, but its shape is ", spec.shape);
  by_name_[spec.name] = size();
  specs_.push_back(std::move(spec));
  return {size() - 1};
}

int ParamList::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
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

Tensors ParamList::initial_values(Key key, Dtype dtype, Backend& on) const {
  require_memory(planned(dtype));
  Tensors values;
  for (const ParamSpec& spec : specs_)
    values.push_back(initial_value(spec, key.fold(spec.name), dtype).to(on));
  return values;
}

}  // namespace tete
