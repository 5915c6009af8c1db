#include "tools/inspect/parts.hpp"

#include <algorithm>
#include <charconv>

#include "core/ops.hpp"
#include "nn/trace.hpp"
#include "tools/inspect/ties.hpp"

namespace tete {

// ---- As they are written ----

namespace {

std::string without_blanks(const std::string& words) {
  std::string kept;
  for (char c : words)
    if (c != ' ') kept += c;
  return kept;
}

Selection::Pick read_pick(const Selection& selection, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string axis = equals == std::string::npos ? "" : word.substr(0, equals);
  const std::string digits = equals == std::string::npos ? word : word.substr(equals + 1);
  Index element = -1;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, element);
  if (error != std::errc() || rest != end || element < 0 || (axis.empty() && equals == 0))
    bad_input(selection.option, " ", selection.written,
              ": in brackets stand a head's number or axis=number, as in [2] or [h=2, n=5], not '",
              word, "'");
  return {axis, element};
}

}  // namespace

Selection Selection::read(const std::string& option, const std::string& written) {
  Selection made{option, written, written};
  const size_t open = written.find('[');
  if (open == 0 || (open == std::string::npos && written.find(']') != std::string::npos) ||
      (open != std::string::npos && written.find(']') != written.size() - 1))
    bad_input(option, " ", written, ": expected a path, or a path and a part, as in O[2]");
  if (open == std::string::npos) return made;
  made.pattern = written.substr(0, open);
  const std::string inside = without_blanks(written.substr(open + 1, written.size() - open - 2));
  made.is_whole = inside.empty();
  for (size_t at = 0; !inside.empty() && at <= inside.size();) {
    const size_t end = std::min(inside.find(',', at), inside.size());
    made.picks.push_back(read_pick(made, inside.substr(at, end - at)));
    at = end + 1;
  }
  return made;
}

// ---- What a model has ----

namespace {

// The last of its dimensions that is one of heads: that of the weights or of what each head adds,
// a batch axis of some einsum, or one that is called so.
int heads_axis(const Checked& program, const Roles& roles, const CheckedValue& v) {
  const auto is_known = [&](int number, int axis, int dim) {
    return number >= 0 && axis >= 0 && same_axis(program, program.values[number].dims[axis], dim);
  };
  for (int k = v.dims.size(); k-- > 0;) {
    const Dimension& d = program.dimensions[v.dims[k]];
    if (d.role != Role::none) continue;
    const std::string name = d.short_name();
    bool is_head = d.head || name == "h" || name.starts_with("h_") ||
                   is_known(roles.contribution, roles.contribution_heads, v.dims[k]);
    for (const Roles::Map& map : roles.maps)
      is_head = is_head || is_known(map.value, map.heads(), v.dims[k]);
    if (is_head) return k;
  }
  return -1;
}

}  // namespace

NamedValue named_value(const SitePlace& place, const Roles& roles, int number) {
  const Checked& program = *place.program;
  const CheckedValue& v = program.values[number];
  NamedValue made;
  made.path = path_of(place, number);
  for (int k = 0; k < v.dims.size(); ++k) {
    const Dimension& d = program.dimensions[v.dims[k]];
    made.dims.push_back(d.short_name());
    made.sequences.push_back(d.role == Role::query    ? place.rows
                             : d.role == Role::memory ? place.columns
                                                      : -1);
    if (made.positions < 0 && d.role != Role::none) made.positions = k;
  }
  for (int k = v.dims.size(); k-- > 0;)
    if (program.dimensions[v.dims[k]].role == Role::query) made.positions = k;
  made.heads = heads_axis(program, roles, v);
  made.text = text(v.name, "[", list_of(made.dims), "]");
  return made;
}

NamedValues::NamedValues(const Model& model, const Activations& seen) {
  for (const SitePlace& place : programs_of(model)) {
    const Roles roles = roles_of(*place.program);
    for (size_t i = 0; i < place.program->values.size(); ++i) {
      const int number = static_cast<int>(i);
      if (place.program->values[i].kind == ValueKind::input) continue;
      const auto at = seen.find(path_of(place, number));
      if (at == seen.end() || values_.contains(at->first)) continue;
      NamedValue made = named_value(place, roles, number);
      Shape shape;
      for (int k = at->second.rank() - static_cast<int>(made.dims.size()); k < at->second.rank();
           ++k)
        shape.push_back(at->second.size(k));
      shapes_[at->first] = shape;
      values_[at->first] = std::move(made);
    }
  }
}

Index NamedValues::size(const NamedValue& value, int axis,
                        const std::vector<Index>& lengths) const {
  const Index here = shapes_.at(value.path)[axis];
  const int sequence = value.sequences[axis];
  return sequence < 0 ? here : std::max(here, lengths[sequence]);
}

Part NamedValues::part_of(const NamedValue& value, const Selection& selection,
                          const std::vector<Index>& lengths) const {
  Part part{&value};
  for (const Selection::Pick& pick : selection.picks) {
    const auto named = std::find(value.dims.begin(), value.dims.end(), pick.axis);
    const int axis = pick.axis.empty() ? value.heads : static_cast<int>(named - value.dims.begin());
    if (pick.axis.empty() && axis < 0)
      bad_input(selection.option, " ", selection.written, ": ", value.text,
                " has no axis of heads; name one of its own, as in [", value.dims.front(), "=",
                pick.element, "]");
    if (!pick.axis.empty() && named == value.dims.end())
      bad_input(selection.option, " ", selection.written, ": ", value.text, " has no axis '",
                pick.axis, "'", choice(pick.axis, value.dims));
    const Index count = size(value, axis, lengths);
    if (pick.element >= count)
      bad_input(selection.option, " ", selection.written, ": ", value.text, " has ",
                value.dims[axis], "=", count, ", so the last is ", count - 1);
    if (part.at(axis))
      bad_input(selection.option, " ", selection.written, ": '", value.dims[axis],
                "' is there twice");
    part.picks.emplace_back(axis, pick.element);
  }
  return part;
}

void NamedValues::check_finds(const Selection& selection) const {
  std::set<std::string> names;
  for (const auto& [path, value] : values_) names.insert(path);
  if (std::none_of(names.begin(), names.end(),
                   [&](const std::string& path) { return fits(selection.pattern, path); }))
    fail_nothing_at(selection.pattern, names);
}

std::vector<Part> NamedValues::parts(const Selection& selection, bool each_head, bool each_position,
                                     const std::vector<Index>& lengths) const {
  check_finds(selection);
  std::vector<Part> all;
  for (const auto& [path, value] : values_) {
    if (!fits(selection.pattern, path)) continue;
    std::vector<Part> made{part_of(value, selection, lengths)};
    for (const int axis : {each_head && !selection.is_whole ? value.heads : -1,
                           each_position ? value.positions : -1}) {
      if (axis < 0 || made[0].at(axis)) continue;
      std::vector<Part> more;
      for (const Part& part : made)
        for (Index i = 0; i < size(value, axis, lengths); ++i)
          more.push_back(part), more.back().picks.emplace_back(axis, i);
      made = std::move(more);
    }
    all.insert(all.end(), made.begin(), made.end());
  }
  return all;
}

// ---- Parts ----

std::optional<Index> Part::at(int axis) const {
  for (const auto& [picked, element] : picks)
    if (picked == axis) return element;
  return {};
}

std::string Part::others() const {
  std::string all;
  for (const auto& [axis, element] : picks)
    if (axis != value->heads && axis != value->positions)
      all += text(all.empty() ? "" : ", ", value->dims[axis], "=", element);
  return all.empty() ? "" : "[" + all + "]";
}

Tensor replaced_at(const Part& part, const Tensor& x, const Tensor& to) {
  Tensor here = Tensor::ones(Shape(x.rank(), 1), x.dtype(), x.backend());
  const int batch = x.rank() - static_cast<int>(part.value->dims.size());
  for (const auto& [axis, element] : part.picks) {
    Shape wide(x.rank(), 1);
    wide[batch + axis] = x.size(batch + axis);
    const Tensor one =
        one_hot(Tensor::of<int64_t>({1}, {element}, x.backend()), x.size(batch + axis), x.dtype());
    Shape both = here.shape();
    both[batch + axis] = x.size(batch + axis);
    here = broadcast(here, both) * broadcast(reshape(one, wide), both);
  }
  return select(broadcast(here, x.shape()), to, x);
}

}  // namespace tete
