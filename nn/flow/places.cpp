// Places of experts that rows are routed to (R29). The place of an expert stands for the row that
// came there: what is made of it may read neither another place nor that place of another expert.
#include <algorithm>
#include <set>

#include "nn/flow/finder.hpp"

namespace tete {

void FlowFinder::route(const Node& node, int rows, int places, int experts, ValueFlow& out) {
  const Node& choices = node.args[1];
  const Routed routed{rows, choices.plain ? choices.index : -1, experts};
  const auto [known, is_new] = routed_.try_emplace(places, routed);
  if (!is_new && known->second != routed) known->second.choices = -1;
  ways_.push_back(&node);
  count_rows(rows, places);
  if (within(rows) == Role::memory && flow_.dimensions[places].made_of_queries)
    make_room_by_queries(node);
  change_clocks(out,
                [&](const Clock& clock) { return clock.axis == rows ? Clock{places} : clock; });
  forget(rows, out);
  if (is_sequence(places) || is_joined(places)) misplace(node.place, places, out);
}

// As many places as new queries are too few for the rows of a memory; for those of another sequence
// they become more as X grows.
void FlowFinder::make_room_by_queries(const Node& node) {
  flow_.rereads = true;
  for (int dim = 0; apart_ && dim < std::ssize(program_.dimensions); ++dim)
    if (program_.dimensions[dim].role == Role::query && flow_.dimensions[dim].counts_x)
      return report(node.place, dim, Reads::length, Combination::How::counts);
}

void FlowFinder::count_rows(int rows, int places) {
  DimensionFlow& counted = flow_.dimensions[places];
  counted.counts_x |= flow_.dimensions[rows].counts_x;
  counted.counts_m |= flow_.dimensions[rows].counts_m;
}

bool FlowFinder::has_places(int dim, const ValueFlow& out) const {
  return routed_.contains(dim) && (has_clock(out.reads, dim) || has_clock(out.padding, dim));
}

void FlowFinder::misplace(const Place& place, int places, ValueFlow& out) {
  report_clocks(place, places, Combination::How::misplaces, out);
  forget(places, out);
}

void FlowFinder::unroute(const Node& node, int rows, ValueFlow& out) {
  const int places = node.dim();
  const auto known = routed_.find(places);
  const Node& choices = node.args[1];
  const bool is_back = known != routed_.end() && choices.plain && known->second.rows == rows &&
                       known->second.choices == choices.index;
  if (is_back) ways_.push_back(&node);
  else report_clocks(node.place, places, Combination::How::brings_back, out);
  change_clocks(out, [&](const Clock& clock) {
    return clock.axis != places ? clock : Clock{is_back ? rows : -1};
  });
  forget(places, out);
}

// Places under another name are places of the same rows, if the experts come with them.
void FlowFinder::rename_places(int from, int to, const std::function<int(int)>& name) {
  const auto known = routed_.find(from);
  if (known == routed_.end()) return;
  Routed routed = known->second;
  routed.experts = name(routed.experts);
  count_rows(routed.rows, to);
  const auto [at, is_new] = routed_.try_emplace(to, routed);
  if (!is_new && at->second != routed) at->second.choices = -1;
}

// The same place of two experts has rows of any two positions.
void FlowFinder::keep_experts(const Node& node, ValueFlow& out) {
  for (const auto& [places, routed] : routed_) {
    if (!has_places(places, out)) continue;
    bool keeps = node.names.contains(routed.experts);
    for (const Node::Key& key : node.keys)
      keeps &= key.dim != routed.experts && !key.dims.contains(routed.experts);
    if (node.kind == NodeKind::value && !node.plain) {  // two axes may exchange their names
      const int at = program_.values[node.index].dims.find(routed.experts);
      keeps &= at < 0 || node.axes[static_cast<size_t>(at)].parts == Names{routed.experts};
    }
    if (!keeps) misplace(node.place, places, out);
  }
}

// The same for a statement's left side and for another name of a value, whose axes were `before`.
void FlowFinder::keep_experts(const CheckedValue& value, const Names& before, ValueFlow& out) {
  for (const auto& [places, routed] : routed_) {
    const int at = before.find(routed.experts);
    const bool keeps = at < 0 ? value.dims.contains(routed.experts)
                              : at < value.dims.size() && value.dims[at] == routed.experts;
    if (!keeps && has_places(places, out)) misplace(value.place, places, out);
  }
}

// ---- Decoding ---------------------------------------------------------------------------------

// True if the node's rows along `places` depend on their numbers, or on each other.
bool FlowFinder::follows_from_place(const Node& node, int places) const {
  if (node.kind == NodeKind::size) return node.index == places;
  const bool makes = node.names.contains(places);
  if (node.kind == NodeKind::value)
    return !node.plain && (makes || program_.values[node.index].dims.contains(places));
  if (std::find(ways_.begin(), ways_.end(), &node) != ways_.end()) return false;
  bool reads = false, runs_along = false;
  const auto has = [&](const Node& x) { return x.names.contains(places); };
  for (const Node& arg : node.args) reads |= has(arg);
  for (const Node::Key& key : node.keys) {
    reads |= std::any_of(key.value.begin(), key.value.end(), has);
    runs_along |= key.dim == places || key.dims.contains(places);
  }
  return reads != makes || runs_along;
}

// True if nothing else knows the number of a place, or how many there are, but places under other
// names.
bool FlowFinder::stand_for_rows(int places) const {
  const auto is_size_of = [&](const Dimension& d) {
    const bool is_name = routed_.contains(static_cast<int>(&d - program_.dimensions.data()));
    const auto is_places = [&](const Dimension::Equal& equal) {
      return equal.dim == places && !is_name;
    };
    bool found = d.outer == places || d.product.contains(places) ||
                 std::any_of(d.arguments.begin(), d.arguments.end(), is_places) ||
                 std::any_of(d.results.begin(), d.results.end(), is_places);
    for (const Node& size : d.fallback)
      visit(size, [&](const Node& node) { found |= follows_from_place(node, places); });
    return found;
  };
  const auto knows = [&](const CheckedValue& v) {
    const bool is_made = v.kind == ValueKind::statement || v.kind == ValueKind::same;
    bool found = !is_made && v.dims.contains(places);
    visit(v.right, [&](const Node& node) { found |= follows_from_place(node, places); });
    return found && !v.for_loss;
  };
  return std::none_of(program_.dimensions.begin(), program_.dimensions.end(), is_size_of) &&
         std::none_of(program_.values.begin(), program_.values.end(), knows);
}

// True if one is the other's name in an amendment.
bool FlowFinder::are_same_places(int a, int b) const {
  const Dimension& d = program_.dimensions[a];
  const auto is_b = [b](const Dimension::Equal& equal) { return equal.dim == b; };
  return std::any_of(d.arguments.begin(), d.arguments.end(), is_b) ||
         std::any_of(d.results.begin(), d.results.end(), is_b);
}

void FlowFinder::find_places() {
  std::set<int> known;  // by something else, under one of their names
  for (const auto& [places, routed] : routed_)
    if (!stand_for_rows(places)) known.insert(places);
  for (size_t before = known.size() + 1; before != known.size();) {
    before = known.size();
    for (const auto& [places, routed] : routed_)
      for (int other : std::set<int>(known))
        if (are_same_places(places, other) || are_same_places(other, places)) known.insert(places);
  }
  for (const auto& [places, routed] : routed_) {
    if (within(routed.rows) != Role::query) continue;
    if (!known.contains(places)) flow_.dimensions[places].stands_for_queries = true;
    else flow_.rereads = true;
  }
}

}  // namespace tete
