// Derives sizes from their sources and checks the conditions on them.
#include "nn/language/sizes.hpp"

#include <algorithm>
#include <cmath>

namespace tete {

namespace {

constexpr size_t most_steps = 1000;  // sizes and operators that one size may be derived through
constexpr Index most_repetitions = 1'000'000;

// True if the def of `d` decides itself how large it is.
bool is_own(const Dimension& d) { return d.arguments.empty() && d.outer < 0; }

void add_name(const std::string& name, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// The names that a caller may set: those of the text itself, then those that what it calls decides.
void add_names(const Checked& program, bool is_root, std::vector<std::string>& names) {
  for (const Dimension& d : program.dimensions)
    if (is_root && d.name == d.short_name()) add_name(d.name, names);
  for (const Dimension& d : program.dimensions)
    if (is_own(d)) add_name(d.short_name(), names);
  visit_called(program, [&](const Checked& inner) { add_names(inner, false, names); });
}

}  // namespace

SizeTable::SizeTable(std::shared_ptr<const Checked> program, const SizesByName& given)
    : program_(std::move(program)), entries_(program_->dimensions.size()) {
  for (const auto& [name, size] : given) {
    if (size < 0) bad_input("the size '", name, "' must be at least 0, got ", size);
    if (!set_by_name(name, size)) {
      std::vector<std::string> names;
      add_names(*program_, true, names);
      bad_input("'", program_->name, "' has no size '", name, "'; its sizes are ", list_of(names),
                suggestion(name, names));
    }
  }
}

bool has_size(const Checked& program, const std::string& name) {
  const auto has_name = [&](const Dimension& d) { return d.short_name() == name && is_own(d); };
  bool has = std::any_of(program.dimensions.begin(), program.dimensions.end(), has_name);
  visit_called(program, [&](const Checked& inner) { has = has || has_size(inner, name); });
  return has;
}

bool SizeTable::set_by_name(const std::string& name, Index size) {
  const int dim = program_->find_dimension(name);
  if (dim >= 0) set(dim, size);
  return dim >= 0 || set_in_defs(name, size) || set_in_call(name, size);
}

// "Z.A.h" is the size A.h, or h of the def that A calls, in the call that makes Z.
bool SizeTable::set_in_call(const std::string& name, Index size) {
  for (const CheckedValue& v : program_->values) {
    if (v.kind != ValueKind::call || !name.starts_with(v.name + ".")) continue;
    const std::string rest = name.substr(v.name.size() + 1);
    bool known = false;
    visit(program_->calls[v.index], [&](const CheckedCall& call) {
      const int dim = call.program->find_dimension(rest);
      for (const CheckedCall::Size& passed : call.sizes)
        if (passed.is_argument && passed.inner == dim)
          fail_at({call.place}, "the size '", name, "' is that of a tensor that is passed; ",
                  "it cannot be set here");
      known |= SizeTable(call.program, {}).set_by_name(rest, size);
    });
    if (!known) continue;
    in_calls_[v.index][rest] = size;
    return true;
  }
  return false;
}

bool SizeTable::set_in_defs(const std::string& name, Index size) {
  if (!has_size(*program_, name)) return false;
  for (size_t i = 0; i < program_->dimensions.size(); ++i) {
    const Dimension& d = program_->dimensions[i];
    if (d.short_name() == name && is_own(d)) set(static_cast<int>(i), size);
  }
  inner_[name] = size;
  return true;
}

// ---- Tensors bring sizes ----------------------------------------------------------------------

void SizeTable::bind(int value, const Shape& shape) {
  const CheckedValue& v = program_->values[value];
  const int batch = shape.size() - v.dims.size();
  if (batch < 0)
    fail_at({v.place}, "'", v.name, "' has ", counted(v.dims.size(), "dimension"),
            ", but a tensor of shape ", shape, " is given");
  for (int i = 0; i < v.dims.size(); ++i) {
    const bool bounded = !v.bounds.empty() && v.bounds[i] >= 0;
    const int dim = bounded ? v.bounds[i] : v.dims[i];
    const Index size = shape[batch + i];
    Entry& known = entry(dim);
    const Place& here = v.axis_places[i];
    if (known.origin == Origin::caller || known.origin == Origin::argument) {
      if (known.size == size) continue;
      const std::string origin = known.value < 0
                                     ? "was set by the caller"
                                     : text("in '", program_->values[known.value].name, "'");
      fail_at(places_of(dim, {here}), "'", dimension(dim).name, "' is ", size, " in '", v.name,
              "', but ", known.size, " ", origin);
    }
    known = {Origin::argument, false, size, value};
  }
}

SizeTable SizeTable::of(std::shared_ptr<const Checked> program) const {
  SizeTable other = *this;
  for (Entry& e : other.entries_) {
    if (e.value < 0) continue;
    const CheckedValue& v = program_->values[e.value];
    e.value =
        v.kind == ValueKind::input ? program->inputs[v.index] : program->parameters[v.index].value;
  }
  other.program_ = std::move(program);
  return other;
}

void SizeTable::set_lengths(Index queries, Index memories) {
  parted_ = true;
  for (size_t i = 0; i < program_->dimensions.size(); ++i) {
    const Role role = program_->dimensions[i].role;
    if (role == Role::query) set(static_cast<int>(i), queries);
    if (role == Role::memory) set(static_cast<int>(i), memories);
  }
}

// `before`, then the places at which the size of `dim` was decided.
std::vector<Place> SizeTable::places_of(int dim, std::vector<Place> before) {
  const Entry& e = entry(dim);
  const Dimension& d = dimension(dim);
  if (e.origin == Origin::argument) {
    const CheckedValue& v = program_->values[e.value];
    for (int i = 0; i < v.dims.size(); ++i)
      if (v.dims[i] == dim || (!v.bounds.empty() && v.bounds[i] == dim))
        before.push_back(v.axis_places[i]);
  } else if (e.origin == Origin::derived && !d.fallback.empty()) {
    before.push_back(d.fallback_place);
  }
  return before;
}

// ---- On demand --------------------------------------------------------------------------------

Index SizeTable::size(int dim) {
  const std::optional<Index> found = find(dim);
  if (found) return *found;
  const Dimension& open = dimension(open_);
  fail_at({open.place}, "the size of '", open.name, "' is open: set it, or give it a default, as ",
          "in 'where ", open.short_name(), " = 8'");
}

std::optional<Index> SizeTable::find(int dim) {
  Entry& e = entry(dim);
  if (e.origin != Origin::open) return e.size;
  if (e.pending) {
    refuse_circle(dim);
    open_ = dim;  // several names of one size, and none is known
    return {};
  }
  if (stack_.size() + operators_ > most_steps)
    fail_at({dimension(dim).place}, "sizes depend on each other by way of more than ", most_steps,
            " sizes and operators");
  e.pending = true;
  stack_.push_back(dim);
  const std::optional<Index> size = derive(dim);
  stack_.pop_back();
  entry(dim).pending = false;
  if (size) entry(dim) = {Origin::derived, false, *size, -1};
  return size;
}

std::optional<Index> SizeTable::derive(int dim) {
  const Dimension& d = dimension(dim);
  if (!d.arguments.empty()) return find(d.arguments[0].dim);
  if (!d.fallback.empty()) {
    const std::optional<Index> size = whole(d.fallback[0]);
    const bool is_short = size && *size < 0 && program_->flow.dimensions[dim].pieces >= 0;
    return is_short ? 0 : size;  // the sequence has no piece yet
  }
  if (!d.product.empty()) {
    Index product = 1;
    for (int part : d.product) {
      const std::optional<Index> size = find(part);
      if (!size) return {};
      if (__builtin_mul_overflow(product, *size, &product))
        fail_at({d.place}, "the size of '", d.name, "' is too large: it is the product of its ",
                "parts, as ", *size, " of '", dimension(part).name, "'");
    }
    return product;
  }
  // A sequence under another name is as long, whatever the calling def means by that name.
  const int own = d.results.empty() ? -1 : d.results[0].dim;
  const bool is_sequence = d.role != Role::none;
  for (int source : {is_sequence ? own : d.outer, is_sequence ? d.outer : own})
    if (source >= 0)
      if (const std::optional<Index> size = find(source)) return size;
  if (entry(dim).outer) return entry(dim).outer;
  if (d.call >= 0)
    if (const auto size = inside(program_->calls[d.call]).find(d.inner)) return size;
  if (own < 0 && d.outer < 0) open_ = dim;
  return {};
}

SizeTable SizeTable::inside(const CheckedCall& call) {
  SizeTable inner(call.program, {});
  inner.causal_ = causal_, inner.layer_ = layer_;
  for (const auto& [name, size] : inner_) inner.set_in_defs(name, size);
  for (const CheckedCall::Size& size : call.sizes) {
    const std::optional<Index> known = find(size.outer);
    if (size.is_argument && known) inner.set(size.inner, *known);
    if (!size.is_argument) inner.entry(size.inner).outer = known;
  }
  for (const auto& own : in_calls_)
    visit(program_->calls[own.first], [&](const CheckedCall& each) {
      if (&each == &call)
        for (const auto& [name, size] : own.second) inner.set_by_name(name, size);
    });
  return inner;
}

Index SizeTable::times_of(const CheckedCall& call) {
  if (call.repeated < 0) return 1;
  const Index times = size(call.repeated);
  const Dimension& counted = dimension(call.repeated);
  if (times < 0 || times > most_repetitions)
    fail_at(places_of(call.repeated, {counted.place, call.place}), "the size of '", counted.name,
            "' comes to ", times, ", expected 0 to ", most_repetitions, " repetitions");
  for (const CheckedCall& other : call.others)
    for (const NumberText& number : other.numbers)
      if (number.value >= times)
        fail_at({number.place, call.place}, "there is no repetition ", number.value, ": '",
                dimension(call.repeated).name, "' is ", times,
                times > 0 ? text(", so they are 0 to ", times - 1) : "");
  return times;
}

void SizeTable::refuse_circle(int dim) const {
  const auto begin = std::find(stack_.begin(), stack_.end(), dim);
  std::vector<Place> places;
  std::string names;
  for (auto at = begin; at != stack_.end(); ++at) {
    const Dimension& d = dimension(*at);
    if (!d.arguments.empty() || d.fallback.empty()) continue;
    places.push_back(d.fallback_place);
    if (*at != dim) names += (names.empty() ? ", by way of '" : "', '") + d.name;
  }
  if (places.empty()) return;
  fail_at(places, "the size of '", dimension(dim).name, "' depends on itself", names,
          names.empty() ? "" : "'");
}

// ---- Conditions -------------------------------------------------------------------------------

// A run of new rows alone computes no joined value, so its total is not checked.
void SizeTable::check_total(const Condition& c) {
  Index total = 0;
  for (int part : c.others) total += *find(part);
  if (!parted_ && total != size(c.dim))
    fail_at({c.place}, "'", dimension(c.dim).name, "' is ", size(c.dim),
            ", but what is joined comes to ", total);
}

std::optional<Index> SizeTable::returned(const Condition& c) {
  const CheckedCall& call = program_->calls[c.pick];
  return inside(c.other < 0 ? call : call.others[c.other]).find(c.inner);
}

void SizeTable::check(const Condition& c) {
  const bool is_name =
      c.kind == ConditionKind::equal || (c.kind == ConditionKind::product && c.others.size() == 1);
  if (parted_ && is_name && dimension(c.dim).role != dimension(c.others[0]).role) return;
  const Index size = *find(c.dim);
  const std::string& name = dimension(c.dim).name;
  const auto refuse = [&](const std::vector<Place>& places, const auto&... why) {
    fail_at(places, "'", name, "' is ", size, ", but ", why...);
  };
  switch (c.kind) {
    case ConditionKind::equal:
      if (const Index other = *find(c.others[0]); size != other)
        refuse(places_of(c.others[0], places_of(c.dim, {c.place})), "'",
               dimension(c.others[0]).name, "' is ", other);
      return;
    case ConditionKind::product: {
      Index product = 1;
      bool fits = true;
      std::string names, sizes;
      for (int part : c.others) {
        const Index part_size = *find(part);
        fits &= !__builtin_mul_overflow(product, part_size, &product);
        names += (names.empty() ? "" : "·") + dimension(part).name;
        sizes += (sizes.empty() ? "" : "·") + text(part_size);
      }
      const std::string result = fits ? text(" = ", product) : ", which is too large";
      if (!fits || product != size)
        refuse(places_of(c.dim, {c.place}), names, " is ", sizes,
               c.others.size() > 1 ? result : "");
      return;
    }
    case ConditionKind::room:
      if (const Index room = *find(c.others[0]); size > room)
        refuse(places_of(c.others[0], {c.place}), "there is room for '",
               dimension(c.others[0]).name, "' = ", room, " only");
      return;
    case ConditionKind::total:
      check_total(c);
      return;
    case ConditionKind::returned:
      if (const auto inner = returned(c); inner && *inner != size)
        refuse(places_of(c.dim, {c.place}), "what the call returns has ", *inner);
      return;
    case ConditionKind::element:
      if (c.pick >= size)
        fail_at({c.place}, "element ", c.pick, " of '", name, "' is picked, but '", name, "' is ",
                size, ": its elements are numbered from 0");
      return;
  }
}

void SizeTable::check_known() {
  for (const Condition& c : program_->conditions) {
    bool known = find(c.dim).has_value();
    for (int other : c.others) known = known && find(other).has_value();
    if (known) check(c);
  }
}

void SizeTable::check_all() {
  for (const CheckedValue& v : program_->values)
    for (int dim : v.dims)
      if (const Index n = size(dim); n < 0)
        fail_at(places_of(dim, {dimension(dim).place}), "the size of '", dimension(dim).name,
                "' comes to ", n, ", expected at least 0");
  for (const CheckedValue& v : program_->values)
    for (int dim : v.names) size(dim);
  for (const Condition& c : program_->conditions) {
    size(c.dim);
    for (int other : c.others) size(other);
    check(c);
  }
}

}  // namespace tete
