#include "tools/inspect/site.hpp"

#include <algorithm>
#include <cmath>

#include "nn/trace.hpp"
#include "tools/inspect/heads.hpp"
#include "tools/inspect/mixing.hpp"

namespace tete {

namespace {

Tensor row_major(const Tensor& x) { return Tensor::of<float>(x.shape(), x.values<float>()); }

// Reads the values of one site, by the values of its text.
class Looker {
 public:
  Looker(const SitePlace& place, const Trained& trained, const Activations& seen)
      : place_(place),
        trained_(trained),
        seen_(seen),
        program_(*place.program),
        roles_(roles_of(program_)) {}

  NamedTensors tensors() const {
    Activations all;  // an input as amended has the input's name: what is given stands first
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const int number = static_cast<int>(i);
      if (!value(number).watched && !program_.is_argument(number)) continue;
      if (const auto [path, x] = seen_value(number); x)
        all.try_emplace(program_.name_of(number), x);
    }
    NamedTensors named;
    for (const auto& [name, x] : all) named.push_back({name, x});
    return named;
  }

  Site look(const Passage& passage) const {
    Site site;
    site.path = place_.path, site.stack = place_.stack, site.layer = place_.layer;
    site.kind = place_.cross ? "cross" : "self", site.causal = place_.causal;
    site.row_sequence = place_.rows, site.column_sequence = place_.columns;
    for (const Roles::Map& map : roles_.maps) add_map(map, site, passage);
    site.mixing = all_mixing(program_, roles_, [this](int number) {
      return parameter(program_.parameters[number].name);
    });
    for (size_t i = 0; i < program_.values.size(); ++i) add_value(static_cast<int>(i), site);
    return site;
  }

 private:
  const CheckedValue& value(int number) const { return program_.values[number]; }
  Role role(int dim) const { return program_.dimensions[dim].role; }

  // A parameter that all layers of a stack share has its path without the layer.
  std::pair<std::string, Tensor> parameter(const std::string& name) const {
    for (const std::string& path :
         {place_.path + "/" + name, without_numbers(place_.path) + "/" + name})
      if (const int at = trained_.declared().find(path); at >= 0)
        return {path, row_major(trained_.params[at])};
    return {};
  }

  // By its path; its tensor is [dims], without the batch.
  std::pair<std::string, Tensor> seen_value(int number) const {
    const CheckedValue& v = value(number);
    if (v.kind == ValueKind::parameter) return parameter(program_.name_of(number));
    const std::string path = path_of(place_, number);
    const auto at = seen_.find(path);
    if (at == seen_.end()) return {};
    Tensor x = at->second;
    if (x.rank() > v.dims.size()) {
      Shape shape;
      for (int i = 1; i < x.rank(); ++i) shape.push_back(x.size(i));
      x = reshape(x, shape);
    }
    return {path, x};
  }

  void add_map(const Roles::Map& map, Site& site, const Passage& passage) const {
    const CheckedValue& v = value(map.value);
    const auto [path, x] = seen_value(map.value);
    if (!x) return;
    const int rows = v.dims[map.rows], columns = v.dims[map.columns];
    AttentionMap made;
    made.name = v.name, made.path = path;
    made.heads = map.heads < 0 ? "" : program_.dimensions[v.dims[map.heads]].short_name();
    made.rows = program_.dimensions[rows].short_name();
    made.columns = program_.dimensions[columns].short_name();
    made.values = row_major(map.heads < 0 ? reshape(permute(x, {map.rows, map.columns}),
                                                    {1, x.size(map.rows), x.size(map.columns)})
                                          : permute(x, {map.heads, map.rows, map.columns}));
    made.weights = map.value == roles_.weights && roles_.normalised;
    made.row_tokens = role(rows) == Role::query, made.column_tokens = role(columns) == Role::memory;
    if (map.value == roles_.weights) {
      const bool own = !place_.cross && made.row_tokens && made.column_tokens;
      site.heads = head_statistics(
          made.values, own ? passage.sequences()[place_.rows].tokens : std::vector<int64_t>{});
    }
    if (is_weights_or_after(map.value))
      site.histograms.push_back(
          histogram_of(made, place_.causal && made.column_tokens, roles_.own_mask));
    site.maps.push_back(std::move(made));
  }

  bool is_weights_or_after(int number) const {
    const auto at = [&](int wanted) {
      return std::find_if(roles_.maps.begin(), roles_.maps.end(),
                          [&](const Roles::Map& map) { return map.value == wanted; });
    };
    return at(number) >= at(roles_.weights);
  }

  void add_value(int number, Site& site) const {
    const CheckedValue& v = value(number);
    if (!v.watched && !program_.is_argument(number)) return;
    auto [path, x] = seen_value(number);
    if (!x) return;
    // A parameter may be longer than the text: its used rows.
    if (const auto used = seen_.find(place_.path + "/" + v.name);
        v.kind == ValueKind::parameter && used != seen_.end())
      path = used->first, x = used->second;
    SiteValue made{program_.name_of(number), path, {}, x.shape()};
    for (int dim : v.dims) made.dims.push_back(program_.dimensions[dim].short_name());
    const std::vector<float> values = x.values<float>();
    double sum = 0, squares = 0;
    for (float each : values) sum += each;
    const double count = static_cast<double>(values.size());
    if (!values.empty()) {
      made.mean = sum / count;
      for (float each : values) squares += (each - made.mean) * (each - made.mean);
      made.deviation = std::sqrt(squares / count);
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      made.smallest = *low, made.largest = *high;
    }
    site.values.push_back(std::move(made));
  }

  const SitePlace& place_;
  const Trained& trained_;
  const Activations& seen_;
  const Checked& program_;
  const Roles roles_;
};

// x, where one element of a dimension is zero; all of it for axis -1.
Tensor without(const Tensor& x, int axis, Index element) {
  if (axis < 0) return x * 0.0;
  std::vector<float> kept(static_cast<size_t>(x.size(axis)), 1);
  kept[element] = 0;
  Shape wide(x.rank(), 1);
  wide[axis] = x.size(axis);
  return x * broadcast(Tensor::of<float>(wide, kept, x.backend()), x.shape());
}

}  // namespace

Site look_at(const SitePlace& place, const Trained& trained, const Passage& passage,
             const Activations& seen) {
  return Looker(place, trained, seen).look(passage);
}

NamedTensors tensors_of(const SitePlace& place, const Trained& trained, const Activations& seen) {
  return Looker(place, trained, seen).tensors();
}

Tensor ablation_of(const SitePlace& place, const Passage& passage, double loss) {
  const Checked& program = *place.program;
  const Roles roles = roles_of(program);
  if (roles.contribution < 0 || std::isnan(loss)) return {};
  const CheckedValue& v = program.values[roles.contribution];
  std::vector<float> effects;
  Index heads = 1;
  for (Index head = 0; head < heads; ++head) {
    const Hook hook{place.path + "/" + v.name, [&](const std::string&, const Tensor& x) {
                      const int batch = x.rank() - v.dims.size();
                      const int axis =
                          roles.contribution_heads < 0 ? -1 : batch + roles.contribution_heads;
                      if (axis >= 0) heads = x.size(axis);
                      return without(x, axis, head);
                    }};
    run_with_hooks({.params = passage.params()}, {hook}, [&](const Forward& forward) {
      effects.push_back(static_cast<float>(passage.loss(passage.logits(forward)) - loss));
    });
  }
  return Tensor::of<float>({heads}, effects);
}

}  // namespace tete
