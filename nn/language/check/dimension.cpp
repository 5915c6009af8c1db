// Dimensions: which one a name means in a def, and where its size may come from.
#include "nn/language/check/draft.hpp"

namespace tete {

void Draft::take(int to, int from, std::vector<Dimension::Equal> Dimension::*as,
                 const Place& place) {
  if (to == from) return;
  (dim(to).*as).push_back({from, place});
  if (dim(to).role == Role::none)
    dim(to).role = dim(from).role, dim(to).sequence = dim(from).sequence;
  program.conditions.push_back({ConditionKind::equal, to, {from}, 0, place});
}

void Draft::take_sequence(int part, int whole, const Place& place) {
  Dimension& d = dim(part);
  if (d.role != Role::none || dim(whole).role == Role::none) return;
  d.role = Role::memory, d.sequence = dim(whole).sequence;
  d.results.push_back({whole, place});
}

int Instance::declare(const std::string& name, const Place& place) {
  const auto [at, fresh] = dims.try_emplace(name, -1);
  if (fresh) {
    Dimension d;
    d.name = prefix + name;
    d.place = place;
    at->second = draft.add(std::move(d));
  }
  return at->second;
}

void Instance::declare_dimensions() {
  const auto one = [&](const Word& word) {
    if (!word.name.empty()) declare(word.name, word.place);
  };
  const auto axes = [&](const RefText& ref) {
    for (const AxisText& axis : ref.axes) {
      one(axis.word), one(axis.bound);
      for (const Word& part : axis.parts) one(part);
    }
  };
  for (const ArgText& arg : def.args) axes(arg.ref), one(arg.below);
  for (const WhereText& w : def.where) one(w.word);
  for (const StatementText& s : def.statements) axes(s.left);
}

int Instance::dimension(const Word& word) {
  const auto at = dims.find(word.name);
  if (at == dims.end())
    fail_at({word.place}, "'", word.name, "' is not a dimension of '", def.word.name, "'",
            choice(word.name, keys_of(dims)));
  mentioned.insert(word.name);
  return at->second;
}

int Instance::outer_dimension(const std::string& name, const Place& place) {
  const bool known = dims.contains(name);
  const int dim = declare(name, place);
  mentioned.insert(name);
  if (!known && caller) draft.dim(dim).outer = caller->outer_dimension(name, place);
  return dim;
}

std::vector<int> Instance::undecided() const {
  std::set<std::string> merged;
  for (const StatementText& s : def.statements)
    for (const AxisText& axis : s.left.axes)
      if (!axis.parts.empty() && !has_as_argument(axis.word.name)) merged.insert(axis.word.name);
  std::vector<int> found;
  for (const auto& [name, dim] : dims) {
    const Dimension& d = draft.dim(dim);
    if (d.role != Role::none && !d.results.empty()) continue;  // another name of a sequence
    if (d.arguments.empty() && d.fallback.empty() && !merged.contains(name)) found.push_back(dim);
  }
  return found;
}

void Instance::open_dimensions() {
  if (!caller) return;
  for (int dim : undecided()) {
    const std::string name = own_name(dim);
    const Place place = draft.dim(dim).place;
    draft.dim(dim).outer = caller->outer_dimension(name, place);
  }
}

bool Instance::has_as_argument(const std::string& dim) const {
  for (const ArgText& arg : def.args)
    for (const AxisText& axis : arg.ref.axes)
      if (axis.word.name == dim || axis.bound.name == dim) return true;
  return false;
}

Names Instance::defined_dims(const RefText& ref, Names* bounds) {
  Names names;
  refuse_many(ref);
  for (const AxisText& axis : ref.axes) {
    if (axis.pick >= 0)
      fail_at({axis.word.place}, "where '", ref.word.name, "' is defined its dimensions ",
              "have names, not numbers");
    if (!axis.bound.name.empty() && !bounds)
      fail_at({axis.bound.place}, "only a parameter has a largest length; '", ref.word.name,
              "' is none");
    const int dim = dimension(axis.word);
    refuse_twice(ref, axis.word, names.contains(dim));
    names.push_back(dim);
    if (bounds) bounds->push_back(axis.bound.name.empty() ? -1 : dimension(axis.bound));
  }
  return names;
}

Place Instance::place_of(const RefText& ref, int dim) const {
  const auto is = [&](const Word& word) {
    const auto at = dims.find(word.name);
    return at != dims.end() && at->second == dim;
  };
  for (const AxisText& axis : ref.axes) {
    for (const Word& part : axis.parts)
      if (is(part)) return part.place;
    if (is(axis.word)) return axis.word.place;
  }
  return ref.whole;
}

void refuse_many(const RefText& ref) {
  size_t count = 0;
  for (const AxisText& axis : ref.axes) count += std::max<size_t>(1, axis.parts.size());
  if (count > size_t{most_dims})
    fail_at({ref.whole}, "a tensor has at most ", most_dims, " dimensions, this has ", count);
}

void refuse_twice(const RefText& ref, const Word& word, bool twice) {
  if (twice)
    fail_at({word.place}, "'", word.name, "' stands twice in ", ref.word.name,
            "[…]; a second dimension of the same size needs a name of its own");
}

}  // namespace tete
