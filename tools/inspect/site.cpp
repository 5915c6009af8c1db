#include "tools/inspect/site.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tools/inspect/changes.hpp"
#include "tools/inspect/heads.hpp"
#include "tools/inspect/meanings.hpp"
#include "tools/inspect/mixing.hpp"
#include "tools/inspect/ties.hpp"

namespace tete {

namespace {

Tensor row_major(const Tensor& x) { return Tensor::of<float>(x.shape(), x.values<float>()); }

// Finds the values of one site by their numbers in its text.
class SiteReader {
 public:
  SiteReader(const SitePlace& place, const Trained& trained, const Activations& seen)
      : place_(place), program_(*place.program), trained_(trained), seen_(seen) {}

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
    const CheckedValue& v = program_.values[number];
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

  NamedTensors tensors() const {
    Activations all;  // an input as amended has the input's name: what is given stands first
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const int number = static_cast<int>(i);
      if (!program_.values[number].watched && !program_.is_argument(number)) continue;
      if (const auto [path, x] = seen_value(number); x)
        all.try_emplace(program_.name_of(number), x);
    }
    NamedTensors named;
    for (const auto& [name, x] : all) named.push_back({name, x});
    return named;
  }

 private:
  const SitePlace& place_;
  const Checked& program_;
  const Trained& trained_;
  const Activations& seen_;
};

void add_statistics(const Tensor& x, SiteValue& made) {
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
}

// Makes of one site's values what the report tells of it.
class Looker {
 public:
  Looker(const SitePlace& place, const Trained& trained, const Activations& seen)
      : place_(place),
        reader_(place, trained, seen),
        seen_(seen),
        program_(*place.program),
        roles_(roles_of(program_)) {}

  Site look(const Passage& passage) const {
    Site site;
    site.path = place_.path, site.stack = place_.stack, site.layer = place_.layer;
    site.kind = place_.cross ? "cross" : "self", site.causal = place_.causal;
    site.row_sequence = place_.rows, site.column_sequence = place_.columns;
    for (size_t i = 0; i < roles_.maps.size(); ++i) add_map(static_cast<int>(i), site, passage);
    for (const Roles::Tie& tie : roles_.ties) add_tie(tie, site);
    site.mixing = all_mixing(program_, roles_, [this](int number) {
      return reader_.parameter(program_.parameters[number].name);
    });
    for (size_t i = 0; i < program_.values.size(); ++i) add_value(static_cast<int>(i), site);
    add_contribution(site);
    return site;
  }

 private:
  void add_contribution(Site& site) const {
    if (roles_.contribution < 0) return;
    site.contribution = value(roles_.contribution).name;
    const int axis = roles_.contribution_heads;
    for (const AttentionMap& map : site.maps)
      if (axis >= 0 && map.heads == dim_name(roles_.contribution, axis))
        site.contribution_map = map.name;
  }

  const CheckedValue& value(int number) const { return program_.values[number]; }
  Role role(int dim) const { return program_.dimensions[dim].role; }

  std::string dim_name(int number, int axis) const {
    return program_.dimensions[value(number).dims[axis]].short_name();
  }

  // [pictures, rows, columns]
  AttentionMap map_of(const Roles::Map& map, const std::string& path, const Tensor& x) const {
    AttentionMap made;
    made.name = value(map.value).name, made.path = path;
    made.rows = dim_name(map.value, map.rows), made.columns = dim_name(map.value, map.columns);
    Axes order;
    Shape shape{1, x.size(map.rows), x.size(map.columns)};
    for (int axis : map.others) {
      if (axis != map.heads()) made.outer.emplace_back(dim_name(map.value, axis), x.size(axis));
      order.push_back(axis), shape[0] *= x.size(axis);
    }
    if (map.heads() >= 0) made.heads = dim_name(map.value, map.heads());
    order.push_back(map.rows), order.push_back(map.columns);
    made.values = row_major(reshape(permute(x, order), shape));
    made.weights = map.is_softmax;
    made.row_tokens = role(value(map.value).dims[map.rows]) == Role::query;
    made.column_tokens = role(value(map.value).dims[map.columns]) == Role::memory;
    return made;
  }

  void add_map(int number, Site& site, const Passage& passage) const {
    constexpr Index most = 64;
    const Roles::Map& map = roles_.maps[number];
    const auto [path, x] = reader_.seen_value(map.value);
    if (!x) return;
    Index pictures = 1;
    for (int axis : map.others) pictures *= x.size(axis);
    const std::string weights =
        roles_.weights < 0 ? "" : value(roles_.maps[roles_.weights].value).name;
    if (pictures > most && number != roles_.weights) {
      site.unshown.push_back(text(value(map.value).name, " would be ", pictures,
                                  " pictures; more than ", most,
                                  " are not drawn, and --save has it."));
      return;
    }
    AttentionMap made = map_of(map, path, x);
    const bool own = !place_.cross && made.row_tokens && made.column_tokens;
    if (number == roles_.weights) site.weights = made.name;
    made.meaning = meaning_of(program_, roles_, number);
    if (!map.is_measured)
      made.unmeasured =
          text(made.name, " has no measures, as no values are summed by it; ",
               weights.empty() ? "what they are summed by has no name." : weights + " has them.");
    else {
      const bool causal = place_.causal && made.row_tokens && made.column_tokens;
      for (HeadStatistic& each : head_statistics(
               made, own ? passage.sequences()[place_.rows].tokens : std::vector<int64_t>{},
               causal))
        site.heads.push_back(std::move(each));
      site.histograms.push_back(histogram_of(made, causal, roles_.own_mask));
    }
    site.maps.push_back(std::move(made));
  }

  // Terms between the same two maps are one tie; where they differ in what else is done to them
  // their sum is not known.
  void add_tie(const Roles::Tie& tie, Site& site) const {
    const auto name = [&](int map) { return value(roles_.maps[map].value).name; };
    const auto is_shown = [&](const std::string& wanted) {
      return std::any_of(site.maps.begin(), site.maps.end(),
                         [&](const AttentionMap& map) { return map.name == wanted; });
    };
    if (!is_shown(name(tie.from)) || !is_shown(name(tie.to))) return;
    auto at = std::find_if(site.ties.begin(), site.ties.end(), [&](const MapTie& known) {
      return known.from == name(tie.from) && known.to == name(tie.to);
    });
    const bool is_new = at == site.ties.end();
    const bool is_negative = tie.mixer < 0 && tie.scale < 0;
    const std::string by =
        !is_negative ? tie.by : "−" + tie.by.substr(tie.by.starts_with("× ") ? strlen("× ") : 0);
    if (is_new) at = site.ties.insert(at, {name(tie.from), name(tie.to), by});
    at->is_unknown = at->is_unknown || tie.is_unknown || (!is_new && by != at->by) ||
                     (!is_new && (tie.mixer < 0 || at->mixers.empty()));
    if (tie.mixer >= 0) at->mixers.push_back(mixer_of(tie));
  }

  // [queries, keys or 1; heads of from; heads of to], times the factor that the text gives it.
  AttentionMap mixer_of(const Roles::Tie& tie) const {
    const auto [path, x] = reader_.seen_value(tie.mixer);
    const int rows = tie.mixed, columns = tie.made;
    AttentionMap made;
    made.name = (tie.scale < 0 ? "−" : "") + program_.name_of(tie.mixer);
    made.path = path;
    made.rows = dim_name(tie.mixer, rows), made.columns = dim_name(tie.mixer, columns);
    if (tie.sequence >= 0) made.heads = dim_name(tie.mixer, tie.sequence);
    made.values = row_major(
        (tie.sequence < 0 ? reshape(permute(x, {rows, columns}), {1, x.size(rows), x.size(columns)})
                          : permute(x, {tie.sequence, rows, columns})) *
        tie.scale);
    made.row_tokens = made.column_tokens = false;
    return made;
  }

  void add_value(int number, Site& site) const {
    const CheckedValue& v = value(number);
    if (!v.watched && !program_.is_argument(number)) return;
    auto [path, x] = reader_.seen_value(number);
    if (!x) return;
    // A parameter may be longer than the text: its used rows.
    if (const auto used = seen_.find(place_.path + "/" + v.name);
        v.kind == ValueKind::parameter && used != seen_.end())
      path = used->first, x = used->second;
    SiteValue made{program_.name_of(number), path, {}, x.shape()};
    for (int dim : v.dims) made.dims.push_back(program_.dimensions[dim].short_name());
    add_statistics(x, made);
    site.values.push_back(std::move(made));
  }

  const SitePlace& place_;
  const SiteReader reader_;
  const Activations& seen_;
  const Checked& program_;
  const Roles roles_;
};

}  // namespace

Site look_at(const SitePlace& place, const Trained& trained, const Passage& passage,
             const Activations& seen) {
  return Looker(place, trained, seen).look(passage);
}

NamedTensors tensors_of(const SitePlace& place, const Trained& trained, const Activations& seen) {
  return SiteReader(place, trained, seen).tensors();
}

void add_ablation(const SitePlace& place, const Passage& passage, double loss, Site& site) {
  const Checked& program = *place.program;
  const Roles roles = roles_of(program);
  if (roles.contribution < 0 || std::isnan(loss)) return;
  const NamedValue value = named_value(place, roles, roles.contribution);
  const int axis = roles.contribution_heads;
  std::vector<float> effects;
  Index heads = 1;
  for (Index head = 0; head < heads; ++head) {
    Part part{&value};
    if (axis >= 0) part.picks.emplace_back(axis, head);
    const auto zeros = ablating(part).replace;
    const Hook hook{value.path, [&](const std::string& path, const Tensor& x) {
                      if (axis >= 0) heads = x.size(x.rank() - std::ssize(value.dims) + axis);
                      return zeros(path, x);
                    }};
    run_with_hooks({.params = passage.params()}, {hook}, [&](const Forward& forward) {
      effects.push_back(static_cast<float>(passage.loss(passage.logits(forward)) - loss));
    });
  }
  site.ablation = Tensor::of<float>({heads}, effects);
}

}  // namespace tete
