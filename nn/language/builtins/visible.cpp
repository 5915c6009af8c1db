// visible(n, m): the call's mask as truth values; visible(m): the padding of the memory alone
// (R18).
#include "nn/language/builtins/builtin.hpp"

namespace tete {

namespace {

void check(Reading& reading, const ExprText& e, Node& node) {
  Draft& draft = reading.in.draft;
  for (const ExprText& arg : e.args) {
    const int dim = reading.dimension_argument(arg, *node.builtin);
    if (node.names.contains(dim)) fail_at({arg.place}, "'", arg.word.name, "' stands twice");
    node.names.push_back(dim);
    if (draft.dim(dim).role == Role::none)
      fail_at({arg.place}, "'", arg.word.name, "' is not a sequence axis: the call's mask ",
              "is over the first axes of X and M, and over l after Z[l, d] = M[m=(l), d]");
  }
  reading.refuse_unexpected(e, node.names);
  node.element = Element::truth;
  if (node.names.size() == 2) {
    const Role side = draft.dim(node.names[0]).role;
    if (side == draft.dim(node.names[1]).role)
      fail_at({e.place}, "'", e.args[0].word.name, "' and '", e.args[1].word.name, "' are both ",
              side == Role::query ? "queries" : "memory",
              "; the call's mask is over queries and memory, visible(n, m)");
    draft.program.takes_mask = true;
  }
  draft.program.takes_padding = true;
}

Value run(Runner& runner, const Node& node) { return runner.visible(node); }

void flow(FlowFinder& finder, const CallFlow& call, ValueFlow& out) {
  finder.hide_by_mask(call.node.names, call.node.names[0], out);
}

constexpr Builtin rows[] = {
    {.usage = "visible(n, m)",
     .meaning = "the call's mask as truth values; visible(m) is the padding of the memory alone",
     .example = "A[n, m] = select(visible(n, m), L[n, m], 0)",
     .arguments = {1, 2},
     .check = check,
     .run = run,
     .flow = flow},
};

}  // namespace

std::span<const Builtin> visible_functions() { return rows; }

}  // namespace tete
