// The value of an expression: a use of a tensor, a number that follows from sizes, an operator, or
// a call of a function, which the function's row computes.
#include "nn/language/sizes/operate.hpp"
#include "nn/run/runner.hpp"

namespace tete {

Value Runner::node(const Node& n) {
  Value v = unplaced(n);
  v.tensor = v.tensor.to(device());
  return v;
}

Operands Runner::operands(const std::vector<Value>& values, const Names& names) {
  Operands all;
  bool is_apart = false;
  for (const Value& v : values) {
    all.batched |= v.batched;
    is_apart |= &v.tensor.backend() != &values[0].tensor.backend();
  }
  for (const Value& v : values) {
    const Tensor x = aligned(v, names, all.batched).tensor;
    all.tensors.push_back(is_apart ? x.to(device()) : x);
  }
  return all;
}

Value Runner::unplaced(const Node& n) {
  if (n.fusion >= 0)
    if (const auto made = in_one_pass(n)) return *made;
  if (n.strips >= 0 && sums_strips(n)) return summed_in_strips(n);
  switch (n.kind) {
    case NodeKind::value:
      return reference(n);
    case NodeKind::operation:
      return operation(n);
    case NodeKind::call:
      return n.builtin->run(*this, n);
    default:
      return number(n);
  }
}

Value Runner::reference(const Node& n) {
  const Value& v = at(n.index);
  if (n.plain) return v;
  Tensor x = v.tensor;
  const int b = v.batched ? batch_.size() : 0;
  for (int i = 0; i < v.names.size(); ++i)
    if (const Index pick = n.axes[i].pick; pick >= 0) x = slice(x, b + i, pick, 1);
  return {reshape(x, shape_of(n.names, v.batched)), n.names, v.batched};
}

Value Runner::number(const Node& n) {
  return {Tensor::scalar(sizes_.quantity(n), dtype_), {}, false};
}

Value Runner::operation(const Node& n) {
  if (n.constant) return number(n);
  if (n.args.size() == 1) {
    Value x = unplaced(n.args[0]);
    x.tensor = operate(n.op, x.tensor, x.tensor);
    return x;
  }
  const Node &a = n.args[0], &b = n.args[1];
  if (a.constant) {
    Value x = unplaced(b);
    x.tensor = operate(n.op, Tensor::repeated_like(x.tensor, sizes_.quantity(a)), x.tensor);
    return x;
  }
  if (b.constant) {
    Value x = unplaced(a);
    const double number = sizes_.quantity(b);
    if (n.op == Operator::power && number == 2) x.tensor = square(x.tensor);
    else x.tensor = operate(n.op, x.tensor, Tensor::repeated_like(x.tensor, number));
    return x;
  }
  // dynamic_projections adds such products. Only a block joins them, as no RecordWatch sees its
  // operations; elsewhere a statement runs as it is written.
  if (n.op == Operator::add && block_.memories >= 0)
    if (const auto sum = joined(*this, a, b)) return aligned(*sum, n.names, sum->batched);
  const auto [both, batched] = operands({unplaced(a), unplaced(b)}, n.names);
  return {operate(n.op, both[0], both[1]), n.names, batched};
}

Dropout Runner::next_dropout() { return dropout_of(*current_, dropouts_++); }

Dropout Runner::dropout_of(const CheckedValue& statement, int number) const {
  const Key key = forward_.key.fold(path_).fold(statement.name).fold(static_cast<uint64_t>(number));
  return {forward_.training ? forward_.dropout : 0, key,
          static_cast<uint64_t>(forward_.first_sample)};
}

}  // namespace tete
