#include "tools/inspect/places.hpp"

#include <algorithm>

#include "tools/inspect/roles.hpp"

namespace tete {

std::string path_of(const SitePlace& place, int number) {
  const Checked& program = *place.program;
  const CheckedValue& v = program.values[number];
  if (v.kind != ValueKind::input) return place.path.empty() ? v.name : place.path + "/" + v.name;
  return program.name_of(number) == "X" ? place.X : place.M;
}

PlacedValue value_at(const std::vector<SitePlace>& programs, const std::string& path) {
  for (const SitePlace& place : programs)
    for (int i = 0; i < std::ssize(place.program->values); ++i)
      if (path_of(place, i) == path) return {place.program.get(), i};
  return {};
}

std::string without_numbers(const std::string& path) {
  std::string kept;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part.find_first_not_of("0123456789") != std::string::npos)
      kept += (kept.empty() ? "" : "/") + part;
    at = end + 1;
  }
  return kept;
}

namespace {

// A program inside a model's: a call's, in one of its repetitions, or the model's own.
struct Level {
  std::shared_ptr<const Checked> program;
  SizeTable sizes;
  std::string path = {}, stack = {};
  Index layer = 0;
  CallSequences mask = {};
  int queries = -1, memory = -1;         // the model's sequences that its X and M are
  std::vector<std::string> inputs = {};  // their paths
  bool attends = false;                  // it is given X and M
  bool is_repeated = false;
};

class Walk {
 public:
  enum class Wanted : uint8_t { sites, blocks, programs };
  Walk(const Model& model, Wanted wanted) : model_(model), wanted_(wanted) {}

  std::vector<SitePlace> places() {
    const Checked& program = model_.program();
    const bool has_source = program.is_apart();
    Level root{model_.shared_program(), model_.sizes()};
    root.mask = {program.causal, has_source};
    root.queries = has_source ? 1 : 0;
    root.memory = program.has_memory() ? 0 : -1;
    root.inputs = program.input_names;
    look(root);
    return std::move(places_);
  }

 private:
  void look(Level& level) {
    if (is_wanted(level)) add(level);
    for (size_t i = 0; i < level.program->values.size(); ++i)
      if (level.program->values[i].kind == ValueKind::call) enter(level, static_cast<int>(i));
  }

  bool is_wanted(const Level& level) const {
    if (wanted_ == Wanted::programs) return true;
    return wanted_ == Wanted::blocks ? level.is_repeated : is_site(level);
  }

  void enter(Level& outer, int number) {
    const CheckedValue& v = outer.program->values[number];
    const CheckedCall& call = outer.program->calls[v.index];
    const bool is_repeated = call.repeated >= 0;
    const Index times = outer.sizes.times_of(call);
    const std::string path = path_in(outer, number);
    std::string state;
    for (Index i = 0; i < times; ++i) {
      Level inner = level_inside(outer, call.at(i));
      if (i > 0) inner.inputs[0] = state;
      inner.path = is_repeated ? text(path, "/", i) : path;
      inner.stack = is_repeated ? path : outer.stack;
      inner.layer = is_repeated ? i : outer.layer;
      look(inner);
      state = path_in(inner, inner.program->result);
    }
  }

  static Level level_inside(const Level& outer, const CheckedCall& call) {
    SizeTable sizes = outer.sizes;
    Level inner{call.program, sizes.inside(call)};
    inner.mask = sequences_of(*outer.program, call, outer.mask.causal, outer.mask.apart);
    inner.queries = sequence(outer, call.queries), inner.memory = sequence(outer, call.memory);
    inner.is_repeated = call.repeated >= 0;
    inner.attends = call.queries >= 0 && call.memory >= 0;
    for (const CheckedCall::Passed& passed : call.passed)
      inner.inputs.push_back(passed.row < 0 ? path_in(outer, passed.value) : "");
    return inner;
  }

  static std::string path_in(const Level& level, int number) {
    const Checked& program = *level.program;
    const CheckedValue& v = program.values[number];
    if (v.kind == ValueKind::input) return level.inputs[v.index];
    return level.path.empty() ? v.name : level.path + "/" + v.name;
  }

  // The model's sequence that an axis is of; -1 if it is of none.
  static int sequence(const Level& level, int dim) {
    const Role role = dim < 0 ? Role::none : level.program->dimensions[dim].sequence;
    return role == Role::query ? level.queries : role == Role::memory ? level.memory : -1;
  }

  static bool is_site(const Level& level) {
    if (level.queries < 0) return false;
    const Roles roles = roles_of(*level.program);
    if (level.attends) return !roles.maps.empty();
    if (roles.weights < 0) return false;
    const Roles::Map& weights = roles.maps[roles.weights];
    const int columns = level.program->values[weights.value].dims[weights.columns];
    return level.program->dimensions[columns].role != Role::none;
  }

  void add(Level& level) {
    const auto input = [&](const char* name) {
      const std::vector<std::string>& names = level.program->input_names;
      const auto at = std::find(names.begin(), names.end(), name);
      return at == names.end() ? "" : level.inputs[static_cast<size_t>(at - names.begin())];
    };
    const int columns = level.memory < 0 ? level.queries : level.memory;
    const std::string X = input("X"), M = input("M");
    places_.push_back({level.path, level.stack, level.layer, columns != level.queries,
                       level.mask.causal && !level.mask.apart, level.program, known_sizes(level), X,
                       M.empty() ? X : M, level.queries, columns});
  }

  static SizesByName known_sizes(Level& level) {
    SizesByName known;
    for (size_t i = 0; i < level.program->dimensions.size(); ++i) {
      const Dimension& d = level.program->dimensions[i];
      if (d.role != Role::none || !d.product.empty()) continue;
      if (const auto size = level.sizes.find(static_cast<int>(i))) known[d.name] = *size;
    }
    return known;
  }

  const Model& model_;
  Wanted wanted_;
  std::vector<SitePlace> places_;
};

// The call whose last state is all that the result has of the model's X.
int stream_value(const Checked& program) {
  for (int i = program.result; i >= 0; --i) {
    const CheckedValue& v = program.values[i];
    if (v.kind != ValueKind::call) continue;
    const CheckedCall& call = program.calls[v.index];
    const bool is_query =
        call.queries >= 0 && program.dimensions[call.queries].sequence == Role::query;
    if (call.repeated >= 0 && is_query && !call.keeps) return i;
  }
  return -1;
}

}  // namespace

std::vector<SitePlace> places_of(const Model& model) {
  return Walk(model, Walk::Wanted::sites).places();
}

std::vector<SitePlace> blocks_of(const Model& model) {
  return Walk(model, Walk::Wanted::blocks).places();
}

std::vector<SitePlace> programs_of(const Model& model) {
  return Walk(model, Walk::Wanted::programs).places();
}

bool is_plain_value(const Node& node) { return node.kind == NodeKind::value && node.plain; }

bool is_plus_something(const Checked& program, int value, int other) {
  if (value == other) return true;
  const CheckedValue& v = program.values[value];
  if (v.kind == ValueKind::same) return is_plus_something(program, v.index, other);
  if (v.kind != ValueKind::statement || v.right.kind != NodeKind::operation ||
      v.right.op != Operator::add)
    return false;
  const Node& first = v.right.args[0];
  return is_plain_value(first) && is_plus_something(program, first.index, other);
}

bool is_on_stream(const Checked& block, int number) {
  return is_plus_something(block, number, block.inputs[0]);
}

Stream stream_of(const Model& model) {
  const Checked& program = model.program();
  Stream stream{stream_value(program)};
  if (stream.value < 0) return stream;
  const CheckedValue& v = program.values[stream.value];
  const CheckedCall& call = program.calls[v.index];
  stream.points.push_back(program.values[call.passed[0].value].name);
  SizeTable sizes = model.sizes();
  for (Index layer = 0; layer < sizes.size(call.repeated); ++layer) {
    const Checked& block = *call.at(layer).program;
    for (size_t i = 0; i < block.values.size(); ++i) {
      const auto number = static_cast<int>(i);
      const bool is_sum =
          block.values[i].kind == ValueKind::statement && is_on_stream(block, number);
      if (number == block.result || is_sum)
        stream.points.push_back(text(v.name, "/", layer, "/", block.values[i].name));
    }
  }
  return stream;
}

}  // namespace tete
