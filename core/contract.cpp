// contract: y = Σ A·B over the labels that y lacks; the one product that every einsum is made of.
// Its gradient is two contractions with y and an operand exchanged.
#include "core/ops.hpp"
#include "core/plan.hpp"

namespace tete {

namespace {

// Operands rounded to bf16 are multiplied with others as f32 numbers.
Dtype type_of_product(const Tensor& A) { return A.dtype() == Dtype::bf16 ? Dtype::f32 : A.dtype(); }
Tensor in_full(const Tensor& A) { return cast(A, type_of_product(A)); }

// Labels name the dimensions of an operand, each one; einsum has taken the diagonals before.
void check_labels(const char* operand, const Tensor& A, const Labels& a) {
  if (a.size() != A.rank())
    bad_input("contract: ", operand, " has ", a.size(), " labels, but the tensor is ",
              describe(A.dtype(), A.shape()));
  for (int i = 0; i < a.size(); ++i)
    if (a.find(a[i]) != i)
      bad_input("contract: dimensions ", a.find(a[i]), " and ", i, " of ", operand,
                " have one label; take its diagonal first");
}

void check_operands(const Tensor& A, const Labels& a, const Tensor& B, const Labels& b,
                    const Labels& y) {
  check_labels("A", A, a);
  check_labels("B", B, b);
  if (type_of_product(A) != type_of_product(B) || !is_real(type_of_product(A)))
    bad_input("contract: expected operands of one real type, got ", name_of(A.dtype()), " and ",
              name_of(B.dtype()));
  for (int i = 0; i < a.size(); ++i)
    if (const int k = b.find(a[i]); k >= 0 && B.size(k) != A.size(i))
      bad_input("contract: dimension ", i, " of A is ", A.size(i), ", but dimension ", k,
                " of B, of the same label, is ", B.size(k));
  for (int i = 0; i < y.size(); ++i)
    if (y.find(y[i]) != i || !(a.contains(y[i]) || b.contains(y[i])))
      bad_input("contract: label ", i, " of the result stands twice, or in no operand");
}

// A's labels in memory order, outermost first.
Labels memory_labels(const Tensor& A, const Labels& a) {
  Labels labels;
  for (int i : memory_order(A.shape(), A.strides())) labels.push_back(a[i]);
  return labels;
}

// Sums over the labels of A that neither the other operand nor the result has.
void sum_private_labels(Tensor& A, Labels& a, const Labels& b, const Labels& y) {
  Axes axes;
  Labels left;
  for (int i = 0; i < a.size(); ++i) {
    if (b.contains(a[i]) || y.contains(a[i])) left.push_back(a[i]);
    else axes.push_back(i);
  }
  if (axes.empty()) return;
  A = sum(in_full(A), axes);
  a = left;
}

// True if B is a small matrix that mixes long rows of A, as when heads are mixed.
bool mixes_rows(const Tensor& A, const Labels& a, const Tensor& B, const Labels& b,
                const Labels& y) {
  Index own = 1;
  for (int i = 0; i < b.size(); ++i)
    if (!a.contains(b[i])) own *= B.size(i);
  const Labels in_a = memory_labels(A, a);
  return !in_a.empty() && y.contains(in_a.back()) && !b.contains(in_a.back()) &&
         own <= small_side && A.size(a.find(in_a.back())) >= long_row;
}

// The labels that both operands have, then A's own, then B's own, each group in memory order: the
// order in which a batched matrix product writes its result. Rows that are mixed stay whole.
Labels natural_layout(const Tensor& A, const Labels& a, const Tensor& B, const Labels& b,
                      const Labels& y) {
  Labels layout;
  const Labels in_a = memory_labels(A, a), in_b = memory_labels(B, b);
  for (Label label : in_a)
    if (y.contains(label) && b.contains(label)) layout.push_back(label);
  const auto add_own = [&](const Labels& own, const Labels& other) {
    for (Label label : own)
      if (y.contains(label) && !other.contains(label)) layout.push_back(label);
  };
  const bool rows = mixes_rows(A, a, B, b, y);
  if (rows) add_own(in_b, a);
  add_own(in_a, b);
  if (!rows) add_own(in_b, a);
  return layout;
}

Tensor empty_result(const Tensor& A, const Labels& a, const Tensor& B, const Labels& b,
                    const Labels& y, const Labels& layout) {
  Shape shape;
  for (Label label : y) {
    const int in_a = a.find(label);
    shape.push_back(in_a >= 0 ? A.size(in_a) : B.size(b.find(label)));
  }
  Short<int> order;
  for (Label label : layout) order.push_back(y.find(label));
  return Tensor::empty_strided(shape, dense_strides(shape, order), type_of_product(A), A.backend());
}

// The operand that the gradient rule saves if the product rounds it: the bf16 copy, unless the full
// numbers stay in memory anyway.
Tensor saved_form(const Tensor& A) {
  const Record* const made = A.made_by();
  return made && !made->holds_storage ? A.rounded() : A;
}

}  // namespace

Tensor contract(const Tensor& whole_A, const Labels& whole_a, const Tensor& whole_B,
                const Labels& whole_b, const Labels& y, const Labels& layout,
                const EinsumOptions& options) {
  check_one_device("einsum", whole_A, whole_B);
  check_operands(whole_A, whole_a, whole_B, whole_b, y);
  Tensor A = whole_A, B = whole_B;
  Labels a = whole_a, b = whole_b;
  sum_private_labels(A, a, b, y);
  sum_private_labels(B, b, a, y);
  const Tensor Y =
      empty_result(A, a, B, b, y, layout.empty() ? natural_layout(A, a, B, b, y) : layout);
  const bool rounds = options.products == Products::bf16 && Y.dtype() == Dtype::f32 &&
                      A.backend().contracts_bf16(A.view(), a, B.view(), b, Y.view(), y);
  // The gradient of A reads B, and that of B reads A.
  const Tensor left = B.tracked() && rounds ? saved_form(A) : A,
               right = A.tracked() && rounds ? saved_form(B) : B;
  const auto read = [&](const Tensor& X) {
    return rounds ? X.detach().rounded() : in_full(X.detach());
  };
  if (!options.only_graph)
    A.backend().contract(read(left).view(), a, read(right).view(), b, Y.view(), y);
  // y = Σ over the labels missing from it, so dA is the same sum with y and A exchanged, and dB
  // likewise. A gradient has its operand's memory order, so adding and updating stay flat loops.
  const auto gradient = [a, b, y, rounds, products = options.products](const Backward& at) {
    const auto read = [rounds](const Tensor& X) { return rounds ? X.rounded() : X; };
    const auto product = [&](const Tensor& U, const Labels& u, const Tensor& V, const Labels& v,
                             const Tensor& like, const Labels& x) {
      return contract(U, u, V, v, x, memory_labels(like, x), {.products = products});
    };
    const Tensor &A = at.in[0], &B = at.in[1], g = read(at.g);
    return Tensors{at.wants(0) ? product(g, y, read(B), b, A, a) : Tensor(),
                   at.wants(1) ? product(read(A), a, g, y, B, b) : Tensor()};
  };
  const Saved saved{.result = false, .inputs = (B.tracked() ? 1u : 0u) | (A.tracked() ? 2u : 0u)};
  const Tensor made = record("contract", Y, {left, right}, gradient, saved);
  return options.only_graph ? made.without_storage() : made;
}

// One operand: a sum over the labels that the result lacks, then a permutation.
static Tensor contract_one(const Operand& operand, const Labels& y) {
  Tensor x = operand.value;
  Labels labels = operand.labels;
  sum_private_labels(x, labels, {}, y);
  Axes order;
  for (Label label : y) order.push_back(labels.find(label));
  return permute(x, order);
}

Tensor contract_all(const std::vector<Operand>& operands, const Labels& y, const Labels& layout,
                    const EinsumOptions& options) {
  if (operands.size() == 1) return contract_one(operands[0], y);
  if (operands.size() == 2)
    return contract(operands[0].value, operands[0].labels, operands[1].value, operands[1].labels, y,
                    layout, options);
  Sizes sizes;
  sizes.fill(0);
  std::vector<Labels> labels;
  for (const Operand& operand : operands) {
    labels.push_back(operand.labels);
    for (int i = 0; i < operand.labels.size(); ++i)
      sizes[operand.labels[i]] = operand.value.size(i);
  }
  std::vector<Operand> made = operands;
  const auto order = cached_plan(labels, y, sizes,
                                 static_cast<double>(options.memory_limit) /
                                     static_cast<double>(size_of(operands[0].value.dtype())));
  for (size_t i = 0; i < order->steps.size(); ++i) {
    const auto& [a, b, result, multiplies] = order->steps[i];
    const bool last = i + 1 == order->steps.size();
    EinsumOptions here = options;
    here.only_graph = options.only_graph && last;
    const Labels& left = last ? y : result;
    const Operand &A = made[static_cast<size_t>(a)], &B = made[static_cast<size_t>(b)];
    made.push_back(
        {contract(A.value, A.labels, B.value, B.labels, left, last ? layout : Labels{}, here),
         left});
  }
  return made.back().value;
}

}  // namespace tete
