// route(X[n, …], G[n, e], dim=n, into=c): each row of X goes to its first choice among the experts
// e, the largest of its row of G; an expert takes the first c rows, by position. unroute brings
// them back (R29).
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

int into(const Node& node) { return node.keys[1].dim; }
// The dimension that counts the rows of a sample, and that of the experts, by G.
int rows_of(const Node& node) {
  return node.args[1].names.contains(node.dim()) ? node.dim() : into(node);
}
int experts_of(const Node& node) { return node.args[1].names.without(rows_of(node))[0]; }

void read_arguments(Reading& reading, const ExprText& e, Node& node) {
  for (const ExprText& arg : e.args) {
    node.args.push_back(reading.tensor(arg, *node.builtin));
    need(node.args.back(), Element::real, text("'", node.builtin->name, "'"));
  }
  reading.need_dim(node, node.args[0], "what goes to experts or comes from them");
}

// Fails unless G has the rows and the experts, and nothing else.
void check_choices(const Reading& reading, const Node& node, int rows) {
  const Node& choices = node.args[1];
  if (choices.names.size() != 2 || !choices.names.contains(rows))
    fail_at({choices.place}, "what rows choose by has two dimensions, '", reading.in.own_name(rows),
            "' and that of the experts");
}

void check(Reading& reading, const ExprText& e, Node& node) {
  read_arguments(reading, e, node);
  check_choices(reading, node, node.dim());
  for (int made : {into(node), experts_of(node)}) refuse_known(reading, e, node, 1, made);
  set_names(reading, e, node.args[0].names.without(node.dim()), {experts_of(node), into(node)},
            node);
}

void check_back(Reading& reading, const ExprText& e, Node& node) {
  read_arguments(reading, e, node);
  check_choices(reading, node, into(node));
  refuse_known(reading, e, node, 1, into(node));
  const int experts = node.args[1].names.without(into(node))[0];
  if (!node.args[0].names.contains(experts))
    fail_at({node.args[1].place, node.args[0].place}, "'", reading.in.own_name(experts),
            "' is not a dimension of what experts made");
  set_names(reading, e, node.args[0].names.without(node.dim()).without(experts), {into(node)},
            node);
}

// ---- Where each row goes ----------------------------------------------------------------------

// For each row of a sample its expert, and its place there; -1 if the expert is full.
struct Routes {
  std::vector<int64_t> expert, place;
};

Routes routes_of(const std::vector<double>& choices, Index rows, Index experts, Index room) {
  Routes routes;
  std::vector<Index> taken;
  for (size_t at = 0; at < choices.size(); at += static_cast<size_t>(experts)) {
    if (at % static_cast<size_t>(rows * experts) == 0)
      taken.assign(static_cast<size_t>(experts), 0);  // a sample begins
    const auto first = choices.begin() + static_cast<std::ptrdiff_t>(at);
    const auto expert = std::max_element(first, first + experts) - first;
    Index& count = taken[static_cast<size_t>(expert)];
    routes.expert.push_back(expert);
    routes.place.push_back(count < room ? count : -1);
    ++count;
  }
  return routes;
}

Tensor numbers(const Shape& shape, const std::vector<int64_t>& all, const Runner& runner) {
  return Tensor::of<int64_t>(shape, std::span<const int64_t>(all), runner.device());
}

// Both directions need these: the rows and experts with the batch, as their tensors have them.
struct Routing {
  Value choices;
  Index rows, experts, room;
  Shape batch;
  Routes routes;

  Routing(Runner& runner, const Node& node, int room_dim, bool batched)
      : choices(runner.aligned(runner.reference(node.args[1]),
                               Names{rows_of(node), experts_of(node)}, batched)),
        rows(runner.size(rows_of(node))),
        experts(runner.size(experts_of(node))),
        room(runner.size(room_dim)),
        batch(batched ? runner.batch() : Shape{}),
        routes(routes_of(choices.tensor.values<double>(), rows, experts, room)) {
    if (experts < 1)
      fail_at({node.args[1].place}, "'", runner.dimension(experts_of(node)).name,
              "' is 0, but rows choose among one expert at least");
  }

  Shape with(std::initializer_list<Index> sizes) const {
    Shape shape = batch;
    for (Index size : sizes) shape.push_back(size);
    return shape;
  }
};

bool is_batched(Runner& runner, const Node& node) {
  return runner.reference(node.args[0]).batched || runner.reference(node.args[1]).batched;
}

// x with one more row of zeros along `axis`: what is nowhere is read from there.
Tensor with_zeros(const Tensor& x, int axis) { return pad(x, axis, 0, 1); }

Value run(Runner& runner, const Node& node) {
  const bool batched = is_batched(runner, node);
  const Routing routing(runner, node, into(node), batched);
  const Index all = routing.experts * routing.room, samples = element_count(routing.batch);
  std::vector<int64_t> from(static_cast<size_t>(samples * all), routing.rows);
  for (size_t i = 0; i < routing.routes.expert.size(); ++i) {
    const Index sample = static_cast<Index>(i) / routing.rows, place = routing.routes.place[i];
    if (place >= 0)
      from[static_cast<size_t>(sample * all + routing.routes.expert[i] * routing.room + place)] =
          static_cast<Index>(i) % routing.rows;
  }
  Value x = runner.reference(node.args[0]);
  x = runner.aligned(x, x.names, batched);
  const Names places{experts_of(node), into(node)};
  const std::string pattern =
      text(spelled(runner, x.names, batched, node.dim()), ", ", spelled(runner, places, batched),
           "-> ", spelled(runner, node.names, batched));
  const Tensor index = numbers(routing.with({routing.experts, routing.room}), from, runner);
  return {
      gather(Pattern::parse(pattern), with_zeros(x.tensor, runner.axis_of(x, node.dim())), index),
      node.names, batched};
}

// O[e, c, …] as [e·c and zeros, …], read at each row's place, times what the row chose by.
Value run_back(Runner& runner, const Node& node) {
  const bool batched = is_batched(runner, node);
  const Routing routing(runner, node, node.dim(), batched);
  const int rows = into(node), experts = experts_of(node);
  std::vector<int64_t> at;
  for (size_t i = 0; i < routing.routes.expert.size(); ++i)
    at.push_back(routing.routes.place[i] < 0
                     ? routing.experts * routing.room
                     : routing.routes.expert[i] * routing.room + routing.routes.place[i]);
  const Value made = runner.reference(node.args[0]);
  Names order{experts, node.dim()}, rest;
  for (int name : made.names.without(experts).without(node.dim())) rest.push_back(name);
  for (int name : rest) order.push_back(name);
  const Tensor whole = runner.aligned(made, order, batched).tensor;
  Shape flat = routing.with({routing.experts * routing.room});
  for (int name : rest) flat.push_back(runner.size(name));
  Names table{node.dim()};  // for both, once they are one axis
  for (int name : rest) table.push_back(name);
  const Tensor joined = with_zeros(reshape(whole, flat), routing.batch.size());
  const std::string row = spelled(runner, {rows}, batched);
  const Tensor read = gather(Pattern::parse(text(spelled(runner, table, batched, node.dim()), ", ",
                                                 row, "-> ", spelled(runner, node.names, batched))),
                             joined, numbers(routing.with({routing.rows}), at, runner));
  const Tensor chosen = gather(
      Pattern::parse(
          text(spelled(runner, {rows, experts}, batched, experts), ", ", row, "-> ", row)),
      routing.choices.tensor, numbers(routing.with({routing.rows}), routing.routes.expert, runner));
  const Value gate{chosen, {rows}, batched};
  return {read * runner.aligned(gate, node.names, batched).tensor, node.names, batched};
}

// ---- Rows that rows read ----------------------------------------------------------------------

// A place holds the row that came there, which depends on that row's position and what is before.
void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const Node& node = call.node;
  out.past = {};
  if (finder.within(node.dim()) == Role::memory) finder.needs_all(node.dim(), out);
  finder.choose(node, experts_of(node), call.args[1]);
  finder.route(node, node.dim(), into(node), experts_of(node), out);
}

void flow_back(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  const Node& node = call.node;
  out.past = {};
  finder.choose(node, experts_of(node), call.args[1]);
  finder.unroute(node, into(node), out);
}

constexpr KeyRow keys[] = {{"dim", KeyKind::dim}, {"into", KeyKind::dim}};

constexpr Builtin rows[] = {
    {.usage = "route(X[n, …], G[n, e], dim=n, into=c)",
     .meaning = "the rows of X whose largest of G is e: the first c of them, then zeros",
     .example = "A[e, c, d] = route(X[n, d], G[n, e], dim=n, into=c)",
     .arguments = {2},
     .keys = keys,
     .counts_positions = true,
     .check = check,
     .run = run,
     .flow = flow},
    {.usage = "unroute(O[e, c, …], G[n, e], dim=c, into=n)",
     .meaning = "each row's own of what route gave the experts, times its G; else 0",
     .example = "Y[n, d] = unroute(O[e, c, d], G[n, e], dim=c, into=n)",
     .arguments = {2},
     .keys = keys,
     .counts_positions = true,
     .check = check_back,
     .run = run_back,
     .flow = flow_back},
};

}  // namespace

std::span<const Builtin> route_functions() { return rows; }

}  // namespace tete
