// windows(X[n, …], dim=n, into=(o w), left=, right=, stride=, fill=): X_w[o, w, …] is
// X[o·stride + w - left, …], and `fill` outside; o = (n + left + right - w) // stride + 1. With
// einsum it is every convolution. `into` may keep the sequence axis, (n w), or make a new one.
#include <algorithm>
#include <cmath>

#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

enum Key { key_dim, key_into, key_left, key_right, key_stride, key_fill };
static_assert(key_right == static_cast<Key>(WindowKey::right) &&
              key_stride == static_cast<Key>(WindowKey::stride) &&
              key_fill == static_cast<Key>(WindowKey::count));

int window_of(const Node& node) { return node.keys[key_into].dims[0]; }
int place_of(const Node& node) { return node.keys[key_into].dims[1]; }

void check(Reading& reading, const ExprText& e, Node& node) {
  const Node& x = read_tensor(reading, e, node, "what windows are of");
  const Node::Key& into = node.keys[key_into];
  if (into.dims.size() != 2 || into.dims[0] == into.dims[1])
    fail_at({into.place},
            "into= is two dimensions, the windows and the places in one, as in (o w); got ",
            into.dims.size() == 2 ? "one twice" : text(into.dims.size()));
  for (int i = 0; i < 2; ++i)
    if (i == 1 || into.dims[0] != node.dim())
      refuse_known(reading, e, node, key_into, into.dims[i]);
  set_names(reading, e, x.names.without(node.dim()), into.dims, node);
  node.element = x.element;
  if (into.dims[0] != node.dim())
    reading.in.draft.program.windows.push_back(
        {node.dim(), into.dims[0], into.dims[1], node.keys[key_left].value,
         node.keys[key_right].value, node.keys[key_stride].value});
}

Index count(Runner& runner, const Node& node, Key key, Index least) {
  const double value = number_of_key(runner, node, key, static_cast<double>(least));
  if (value != std::floor(value) || value < static_cast<double>(least) || value > 1e9)
    fail_at({node.keys[key].place}, node.builtin->keys[key].name,
            "= is a whole number of at least ", least, ", not ", value);
  return static_cast<Index>(value);
}

// Under a causal mask a window of what the mask does not hide may not reach to the right.
void check_causal(const Runner& runner, const Node& node, Index right) {
  if (right > 0 && runner.is_causal(node.dim()) && node.reads_ahead)
    fail_at({node.keys[key_right].place}, "the windows reach ", counted(right, "position"),
            " to the right, so a causal mask does not ", "keep the future hidden");
}

// A call that has only the last queries lacks those that windows before them have.
void check_begin(Runner& runner, const Node& node, Index left, const Tensor* tail) {
  const Dimension& d = runner.dimension(node.dim());
  const bool looks_back = left > 0 || window_of(node) != node.dim();
  if (looks_back && !tail && runner.is_causal(node.dim()) && d.role == Role::query &&
      runner.first(node.dim()) > 0)
    fail_at({node.place}, "this has windows of '", d.name, "', but this call begins later");
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

// x between `left` and `right` numbers `fill`.
Tensor padded_with(double fill, const Tensor& x, int axis, Index left, Index right) {
  const Tensor padded = pad(x, axis, left, right);
  if (fill == 0) return padded;
  const Tensor inside = Tensor::repeated(fill, {x.size(axis)}, x.dtype(), x.backend());
  const Axes others = all_axes(x.rank()).without(axis);
  return padded + expand(fill - pad(inside, 0, left, right), others, padded.shape());
}

// x with `fill` in the place of padding.
Value filled(Runner& runner, const Value& x, const Value& there, double fill) {
  const Tensor all = runner.aligned(x, x.names, true).tensor;
  const Tensor outside = Tensor::repeated_like(all, fill);
  return {select(runner.aligned(there, x.names, true).tensor, all, outside), x.names, true};
}

Value run(Runner& runner, const Node& node) {
  Value x = runner.reference(node.args[0]);
  const Index left = count(runner, node, key_left, 0), right = count(runner, node, key_right, 0),
              stride = count(runner, node, key_stride, 1), width = runner.size(place_of(node));
  const double fill = number_of_key(runner, node, key_fill, 0);
  check_causal(runner, node, right);
  // Windows that keep their axis and look back only read no padding, but where they are padding.
  const bool meets_padding = right > 0 || window_of(node) != node.dim();
  if (meets_padding)
    if (const Value there = runner.there_along(node.dim()); there.tensor)
      x = filled(runner, x, there, fill);
  const int axis = runner.axis_of(x, node.dim());
  Tensor padded = x.tensor;
  if (left > 0 || right > 0) padded = padded_with(fill, padded, axis, left, right);
  if (width < 1) fail_at({node.keys[key_into].place}, "a window has at least one place, not 0");
  Tensor* tail = runner.tail(node, node.dim());
  check_begin(runner, node, left, tail);
  if (tail && stride > width)
    fail_at({node.place}, "windows with gaps between them cannot be read position by position");
  const Tensor y = tail ? next_windows(*tail, padded, x.tensor, axis, width, stride)
                        : windows(padded, axis, width, stride);
  if (y.size(axis) != runner.size(window_of(node)))
    fail_at({node.place}, "'", runner.dimension(window_of(node)).name, "' is ",
            runner.size(window_of(node)), ", but there are ", y.size(axis), " windows of ", width,
            " in steps of ", stride, " in ", padded.size(axis), " positions");
  Names names;
  for (int name : x.names)
    if (name != node.dim()) names.push_back(name);
    else names.push_back(window_of(node)), names.push_back(place_of(node));
  return runner.aligned({y, names, x.batched}, node.names, x.batched);
}

// True if the key is given and not the number 0.
bool is_given(const Node& node, Key key) {
  const Node* const value = value_of(node, key);
  return value && !(value->kind == NodeKind::number && value->number == 0);
}

bool ends_at_row(const Node& node) { return ends_at_row(node.keys[key_left], place_of(node)); }

// The number outside, NaN if it follows from sizes.
double fill_of(const Node& node) {
  const Node* const fill = value_of(node, key_fill);
  return fill ? number_of(*fill) : 0;
}

// True if no row sees whether the sequence goes on: what is later than a query is `fill` either
// way.
bool ends_hidden(const Node& node, const ValueFlow& x) {
  return !has_clock(x.reads, node.dim()) &&
         std::any_of(x.hidden.begin(), x.hidden.end(), [&](const Hidden& hidden) {
           return hidden.query >= 0 && hidden.memory == Clock{node.dim()} &&
                  hidden.number == fill_of(node);
         });
}

// True if rows of queries have elements over the memory, so that earlier ones have fewer of these.
bool is_over_both(const FlowFinder& finder, const Node& node, const ValueFlow& x) {
  const Names& names = node.args[0].names;
  return x.from.queries && x.from.memory && finder.within(node.dim()) == Role::query &&
         std::any_of(names.begin(), names.end(),
                     [&](int name) { return name != node.dim() && finder.grows(name); });
}

// A place in a window is later than its row only by right=, so that run() refuses it. Padding reads
// as fill=, and so does what is before the first position.
void keep_axis(FlowFinder& finder, Node& node, const ValueFlow& x, ValueFlow& out) {
  const int dim = node.dim(), place = place_of(node);
  const bool is_mixed = is_over_both(finder, node, x);
  const bool of_windows = finder.within(dim) != Role::none && !finder.is_sequence(dim);
  if (finder.grows(place) || is_mixed || of_windows) finder.needs_all(dim, out);
  if (finder.grows(place)) {
    if (ends_at_row(node) && finder.same_dimension(dim, place)) {  // all that come before
      out.past.push_back(place);
      out.hidden.push_back({Hidden::before, {place}, fill_of(node)});
    } else {
      finder.report_length(node, place, Combination::How::surrounds);
    }
  }
  for (const Hidden& hidden : x.hidden) {  // what is later is hidden, too, and from earlier rows
    const bool is_later = hidden.memory == Clock{dim} && !is_given(node, key_left),
               is_earlier = hidden.query == dim && !is_given(node, key_right);
    if ((is_later || is_earlier || !hidden.mentions(dim)) && hidden.number == fill_of(node))
      out.hidden.push_back(hidden);
  }
  const bool reads_ahead = is_given(node, key_right) && finder.within(dim) != Role::none;
  if (reads_ahead && ends_hidden(node, x)) finder.needs_all(dim, out);
  else if (reads_ahead) {
    if (value_of(node, key_right)->kind == NodeKind::number || finder.is_apart())
      finder.report(node, dim, Combination::Reads::future, Combination::How::looks_ahead);
    if (!finder.is_apart()) node.reads_ahead = true;
  }
}

// Windows of their own form a shorter sequence, in which each place is hidden on its own.
void count_windows(FlowFinder& finder, const Node& node, const ValueFlow& x, ValueFlow& out) {
  const int dim = node.dim();
  const Clock at{window_of(node), place_of(node)};
  const bool is_sequence = finder.within(dim) != Role::none;
  if (is_sequence && (finder.is_sequence(at.axis) ||
                      !finder.counts_windows(at.axis, std::span(node.keys).first(key_fill)))) {
    finder.report(node, dim, Combination::Reads::future, Combination::How::shifts);
    finder.report(node, dim, Combination::Reads::padding, Combination::How::shifts);
    return FlowFinder::forget(dim, out);
  }
  const bool fits = !is_given(node, key_right);
  for (const Hidden& hidden : x.hidden) {
    const bool is_of_dim = hidden.memory == Clock{dim};
    if (is_of_dim && hidden.query == Hidden::padding) continue;  // it reads as fill=
    if (is_of_dim ? fits || hidden.number == fill_of(node)
                  : !hidden.mentions(dim) && hidden.number == fill_of(node))
      out.hidden.push_back(
          {hidden.query, is_of_dim ? at : hidden.memory, hidden.number, hidden.in_f32});
  }
  if (is_sequence) out.hidden.push_back({Hidden::padding, at, fill_of(node)});
  if (is_sequence && !fits) finder.needs_all(dim, out);  // later rows complete a window
  finder.count(dim, at, out);
}

void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  Node& node = call.node;
  const int dim = node.dim();
  const bool keeps = window_of(node) == dim;
  out.past = {};
  change_clocks(out, [&](const Clock& clock) {  // places in windows of places
    return clock.place == dim ? clock.of_window() : clock;
  });
  if (finder.has_places(dim, out) && (!keeps || is_given(node, key_right)))
    finder.misplace(node.place, dim, out);
  for (Key key : {key_left, key_right, key_stride, key_fill})
    if (!node.keys[key].value.empty() && !(keeps && key == key_left && ends_at_row(node)))
      finder.report_sizes(node.keys[key].value[0]);
  if (finder.is_joined(dim)) finder.drop(node, dim, Combination::How::joins, out);
  else if (keeps) keep_axis(finder, node, call.args[0], out);
  else count_windows(finder, node, call.args[0], out);
}

constexpr KeyRow keys[] = {{"dim", KeyKind::dim},
                           {"into", KeyKind::dims},
                           {"left", KeyKind::number, false},
                           {"right", KeyKind::number, false},
                           {"stride", KeyKind::number, false},
                           {"fill", KeyKind::number, false}};

constexpr Builtin rows[] = {
    {.usage = "windows(X[n, …], dim=n, into=(o w), left=0, right=0, stride=1, fill=0)",
     .meaning = "X at o·stride + w - left of n, and fill outside",
     .example = "A[c, w, d] = windows(M[m, d], dim=m, into=(c w), stride=2)",
     .keys = keys,
     .counts_positions = true,
     .reads_earlier_rows = true,
     .is_view = true,
     .check = check,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> windows_functions() { return rows; }

}  // namespace tete
