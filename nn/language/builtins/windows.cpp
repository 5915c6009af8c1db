// windows(X[n, …], dim=n, into=(o w), left=, right=, stride=, fill=): X_w[o, w, …] is
// X[o·stride + w - left, …], and `fill` outside; o = (n + left + right - w) // stride + 1. With
// einsum it is every convolution. `into` may keep the sequence axis, (n w), or make a new one.
#include <cmath>

#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

enum Key { key_dim, key_into, key_left, key_right, key_stride, key_fill };

int window_of(const Node& node) { return node.keys[key_into].dims[0]; }
int place_of(const Node& node) { return node.keys[key_into].dims[1]; }

void check(Reading& reading, const ExprText& e, Node& node) {
  node.args.push_back(reading.tensor(e.args[0], *node.builtin));
  const Node& x = node.args[0];
  reading.need_dim(node, x, "what windows are of");
  const Node::Key& into = node.keys[key_into];
  if (into.dims.size() != 2 || into.dims[0] == into.dims[1])
    fail_at({into.place},
            text("into= is two dimensions, the windows and the places in one, as in (o w); got ",
                 into.dims.size() == 2 ? "one twice" : text(into.dims.size())));
  for (int i = 0; i < 2; ++i)
    if (x.names.contains(into.dims[i]) && (i == 1 || into.dims[0] != node.dim()))
      fail_at({into.place, x.place},
              text("'", reading.in.own_name(into.dims[i]), "' is a dimension of '",
                   e.args[0].ref.word.name, "' already"));
  Names names = into.dims;
  for (int name : x.names)
    if (name != node.dim()) names.push_back(name);
  reading.refuse_unexpected(e, names);
  for (int name : reading.expected)
    if (names.contains(name)) node.names.push_back(name);
  node.element = x.element;
  if (into.dims[0] != node.dim())
    reading.in.draft.program.windows.push_back({node.dim(), into.dims[0], into.dims[1]});
}

double number(Runner& runner, const Node& node, Key key, double otherwise) {
  const std::vector<Node>& value = node.keys[key].value;
  return value.empty() ? otherwise : runner.quantity(value[0]);
}

Index count(Runner& runner, const Node& node, Key key, Index least) {
  const double value = number(runner, node, key, static_cast<double>(least));
  if (value != std::floor(value) || value < static_cast<double>(least) || value > 1e9)
    fail_at({node.keys[key].place},
            text(node.builtin->keys[key].name, "= is a whole number of at least ", least, ", not ",
                 value));
  return static_cast<Index>(value);
}

// Under a causal mask a window of the queries may not reach to the right.
void check_causal(const Runner& runner, const Node& node, Index right) {
  if (right > 0 && runner.is_causal() && runner.dimension(node.dim()).role == Role::query)
    fail_at({node.keys[key_right].place},
            text("the windows reach ", counted(right, "position"),
                 " to the right, so a causal mask does not ", "keep the future hidden"));
}

// The windows that the new rows x complete. `tail` caches the rows that later windows need; the
// first call uses `start`, the padded rows.
Tensor next_windows(Tensor& tail, const Tensor& start, const Tensor& x, int axis, Index width,
                    Index stride) {
  const Tensor rows = tail ? concat({tail, x}, axis) : start;
  const Tensor y = windows(rows, axis, width, stride);
  const Index done = std::min(rows.size(axis), y.size(axis) * stride);
  tail = slice(rows, axis, done, rows.size(axis) - done).detach();
  return y;
}

Value run(Runner& runner, const Node& node) {
  const Value x = runner.reference(node.args[0]);
  const Index left = count(runner, node, key_left, 0), right = count(runner, node, key_right, 0),
              stride = count(runner, node, key_stride, 1), width = runner.size(place_of(node));
  const double fill = number(runner, node, key_fill, 0);
  check_causal(runner, node, right);
  const int axis = runner.axis_of(x, node.dim());
  Tensor padded = x.tensor;
  if (left > 0 || right > 0)
    padded =
        fill == 0 ? pad(padded, axis, left, right) : pad(padded - fill, axis, left, right) + fill;
  if (width < 1) fail_at({node.keys[key_into].place}, "a window has at least one place, not 0");
  Tensor* tail = runner.tail(node, node.dim());
  if (tail && stride > width)
    fail_at({node.place}, "windows with gaps between them cannot be read position by position");
  const Tensor y = tail ? next_windows(*tail, padded, x.tensor, axis, width, stride)
                        : windows(padded, axis, width, stride);
  if (y.size(axis) != runner.size(window_of(node)))
    fail_at({node.place},
            text("'", runner.dimension(window_of(node)).name, "' is ", runner.size(window_of(node)),
                 ", but there are ", y.size(axis), " windows of ", width, " in steps of ", stride,
                 " in ", padded.size(axis), " positions"));
  Names names;
  for (int name : x.names)
    if (name != node.dim()) names.push_back(name);
    else names.push_back(window_of(node)), names.push_back(place_of(node));
  return runner.aligned({y, names, x.batched}, node.names, x.batched);
}

// Windows that keep the query axis are checked in `run`, which knows right=. Windows that keep the
// memory axis leak only if they reach to the right and hidden positions are not zero. Windows with
// an axis of their own are no longer queries (a leak); over the memory they form a shorter memory,
// in which each place of a window is hidden on its own.
AxisPairs hides(FlowFinder& flow, const CallFlow& call) {
  const Node& node = call.node;
  const ValueFlow& x = call.args[0];
  const Role role = flow.within(node.dim());
  if (role == Role::none) return x.hidden;
  if (window_of(node) != node.dim()) {
    if (role == Role::query) flow.combined(node, node.dim(), node.args[0], x);
    return x.hidden.empty() ? AxisPairs{} : flow.pairs_of(node.names);
  }
  if (role == Role::memory && !node.keys[key_right].value.empty())
    flow.combined(node, node.dim(), node.args[0], x, true);
  return {};
}

constexpr KeyRow keys[] = {{"dim", KeyRow::Kind::dim},
                           {"into", KeyRow::Kind::dims},
                           {"left", KeyRow::Kind::number, false},
                           {"right", KeyRow::Kind::number, false},
                           {"stride", KeyRow::Kind::number, false},
                           {"fill", KeyRow::Kind::number, false}};

constexpr Builtin rows[] = {
    {.name = "windows",
     .usage = "windows(X[n, …], dim=n, into=(o w), left=0, right=0, stride=1, fill=0)",
     .meaning = "X at o·stride + w - left of n, and fill outside",
     .keys = keys,
     .counts_positions = true,
     .reads_earlier_rows = true,
     .is_view = true,
     .check = check,
     .run = run,
     .hides = hides},
};

}  // namespace

std::span<const Builtin> windows_functions() { return rows; }

}  // namespace tete
