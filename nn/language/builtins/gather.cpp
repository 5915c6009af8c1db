// gather(T[…, r, …], I, dim=r): T at position I of r; names that both have are aligned. Its
// transpose is scatter(W[…, m], I, reduced_dim=m, dim=r): entries of W with equal I are summed.
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

void check(Reading& reading, const ExprText& e, Node& node) {
  read_tensor(reading, e, node, "what is gathered from");
  node.args.push_back(reading.expression(e.args[1]));
  const Node &table = node.args[0], &at = node.args[1];
  need(at, Element::whole, "the second argument of gather");
  if (at.constant) fail_at({at.place}, "a fixed element is picked by its number, as in a[0, h]");
  if (at.names.contains(node.dim()))
    fail_at({node.keys[0].place, e.args[1].place}, "'", reading.in.own_name(node.dim()),
            "' is replaced, so the positions cannot have it");
  set_names(reading, e, table.names.without(node.dim()), at.names, node);
  node.element = table.element;
}

// Adds to an error of `use` the name of the dimension that has no room for the positions.
template <class Use>
Tensor with_room(Runner& runner, const Node& node, int dim, const Use& use) {
  try {
    return use();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::input) throw;
    fail_at({node.place}, error.what(), ", which is '", runner.dimension(dim).name, "'");
  }
}

Value run(Runner& runner, const Node& node) {
  const Value table = runner.reference(node.args[0]);
  const Value at = runner.node(node.args[1]);
  const bool batched = table.batched || at.batched;
  const std::string pattern =
      text(spelled(runner, table.names, table.batched, node.dim()), ", ",
           spelled(runner, at.names, at.batched), "-> ", spelled(runner, node.names, batched));
  const Tensor positions = cast(at.tensor.detach(), Dtype::i64);
  const Tensor y = with_room(runner, node, node.dim(), [&] {
    return gather(Pattern::parse(pattern), table.tensor, positions);
  });
  return {y, node.names, batched};
}

// The positions, or numbers of pieces, are at most a row's own, or a value holds them, with which a
// mask is gathered, too; else a row may be of any.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const Node &node = call.node, &position = node.args[1];
  const int dim = node.dim();
  const auto how = Combination::How::gathers;
  const bool is_sequence = finder.is_sequence(dim);
  int latest = is_sequence ? latest_position(position) : finder.latest_piece(dim, position);
  if (latest >= 0 && finder.crosses(dim, latest)) latest = -1;
  const bool is_found = (is_sequence || finder.counts_pieces(dim)) && !finder.is_of_another(dim);
  const Clock found = is_found ? finder.found_by(position) : Clock{-1};
  const auto picked = [&](const Clock& clock) {
    if (clock.axis != dim || clock.found >= 0) return clock;
    return Clock{found.axis, clock.place, found.found, is_sequence ? -1 : dim};
  };
  out.hidden = call.args[0].hidden;
  if (latest >= 0) {
    change_clocks(out.reads,
                  [&](const Clock& clock) { return clock.axis == dim ? Clock{latest} : clock; });
  } else if (found.axis >= 0) {
    finder.count_rows(dim, found.axis);
    change_clocks(out, picked);
    for (Hidden& hidden : out.hidden) hidden.memory = picked(hidden.memory);
  }
  if (has_clock(out.reads, dim)) finder.report(node, dim, Combination::Reads::future, how);
  else if (finder.grows(dim) && !is_sequence && latest < 0 && found.axis < 0)
    finder.report_length(node, dim, how);
  if (has_clock(out.padding, dim)) finder.report(node, dim, Combination::Reads::padding, how);
  FlowFinder::forget(dim, out);
  finder.reads_any(dim, out);
}

// ---- scatter ------------------------------------------------------------------------------------

int into(const Node& node) { return node.keys[1].dim; }

void check_scatter(Reading& reading, const ExprText& e, Node& node) {
  read_tensor(reading, e, node, "what is scattered");
  node.args.push_back(reading.tensor(e.args[1], *node.builtin));
  const Node &values = node.args[0], &at = node.args[1];
  need(at, Element::whole, "the second argument of scatter");
  for (int name : at.names)
    if (!values.names.contains(name))
      fail_at({at.place, values.place}, "the positions have '", reading.in.own_name(name),
              "', which what is scattered lacks");
  refuse_known(reading, e, node, 1, into(node));
  set_names(reading, e, values.names.without(node.dim()), {into(node)}, node);
  node.element = values.element;
}

Value run_scatter(Runner& runner, const Node& node) {
  Value values = runner.reference(node.args[0]);
  const Value at = runner.reference(node.args[1]);
  const bool batched = values.batched || at.batched;
  values = runner.aligned(values, values.names, batched);
  const std::string pattern =
      text(spelled(runner, values.names, batched), ", ", spelled(runner, at.names, at.batched),
           "-> ", spelled(runner, node.names, batched, into(node)));
  const Tensor positions = cast(at.tensor.detach(), Dtype::i64);
  const Tensor y = with_room(runner, node, into(node), [&] {
    return scatter(Pattern::parse(pattern), values.tensor, positions, runner.size(into(node)));
  });
  return {y, node.names, batched};
}

void scatter_flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  keep_hidden_zeros(call, out);
  finder.reduce(call.node, {call.node.dim()}, out, is_zero);
  finder.needs_all(into(call.node), out);
}

constexpr KeyRow keys[] = {{"dim", KeyKind::dim}};
constexpr KeyRow scatter_keys[] = {{"reduced_dim", KeyKind::dim}, {"dim", KeyKind::dim}};

constexpr Builtin rows[] = {
    {.usage = "gather(T[…, r, …], I, dim=r)",
     .meaning = "T at position I of r; names that both have align",
     .example = "Y[n, d] = gather(M[m, d], (position(n) + 1) % m, dim=m)",
     .arguments = {2},
     .keys = keys,
     .check = check,
     .run = run,
     .flow = flow},
    {.usage = "scatter(W[…, m], I[…, m], reduced_dim=m, dim=r)",
     .meaning = "the sum of W's entries at each position I of r",
     .example = "A[n, r] = scatter(L[n, m], I[m], reduced_dim=m, dim=r)",
     .arguments = {2},
     .keys = scatter_keys,
     .counts_positions = true,
     .check = check_scatter,
     .run = run_scatter,
     .flow = scatter_flow},
};

}  // namespace

std::span<const Builtin> gather_functions() { return rows; }

}  // namespace tete
