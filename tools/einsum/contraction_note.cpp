#include "tools/einsum/contraction_note.hpp"

#include <algorithm>

#include "core/cpu/contract.hpp"

namespace tete::cpu_kernels {

namespace {

const char* form_of(const Choice& choice, const Groups& groups) {
  const bool m = !groups.m.empty(), n = !groups.n.empty(), batch = !groups.batch.empty();
  switch (choice.method) {
    case Method::zeros:
      return "zeros";
    case Method::product:
      return m && n && !batch ? "ger" : "elementwise";
    case Method::sum_of_products:
      return m && n ? "loop" : m || n ? "gemv" : "dot";
    case Method::lanes:
    case Method::pair:
      return "loop";
    case Method::mix:
    case Method::matrices:
      return size_of(choice.matrices.outputs) * size_of(choice.matrices.sums) > 1 ? "batched gemm"
                                                                                  : "gemm";
  }
  return "";
}

std::string times(Index count, const char* what) {
  return count == 1 ? "" : text(count, " ", what, " of ");
}

std::string shape_of(const Choice& choice, const Groups& groups) {
  const Index m = size_of(groups.m), n = size_of(groups.n), k = size_of(groups.k),
              batch = size_of(groups.batch);
  const MatrixPlan& p = choice.matrices;
  switch (choice.method) {
    case Method::zeros:
      return "a size is 0";
    case Method::product:
      return groups.batch.empty() && m * n > 1 ? text(m, "×", n) : text(batch * m * n, " products");
    case Method::sum_of_products:
      return text(batch * m * n, " sums of ", k);
    case Method::lanes:
      return text("at each of ", batch, " places ", m, "×", k, "×", n);
    case Method::pair:
      return text(times(batch, "times"), "a ", m, "×", n, " matrix from rows of ", k);
    case Method::mix:
    case Method::matrices:
      return text(times(size_of(p.outputs) * size_of(p.sums), "products"), p.m.size, "×", p.k.size,
                  "×", p.n.size);
  }
  return "";
}

// The reason why a plan packs operand v, found by planning without it.
std::string reason(const Groups& groups, const MatrixPlan& plan, Operand v) {
  std::array<bool, 3> may_pack{true, true, true};
  may_pack[v] = false;
  const MatrixPlan without = plan_matrices(groups, may_pack);
  if (without.seconds == MatrixPlan{}.seconds)
    return "no leading dimension or transpose says how it lies";
  return text("instead of ", size_of(without.outputs) * size_of(without.sums), " products of ",
              without.m.size, "×", without.k.size, "×", without.n.size, ", ",
              static_cast<int>(without.seconds / plan.seconds * 10) / 10.0, " times slower");
}

Index elements(const std::vector<Dim>& dims, int operand) {
  Index count = 1;
  for (const Dim& d : dims)
    if (d.present[operand]) count *= d.size;
  return count;
}

// Describes sum_first without running it.
void note_sum_first(std::vector<Dim>& dims, int v, size_t item, ContractionNote& note,
                    bool (*summed)(const Dim&)) {
  if (std::none_of(dims.begin(), dims.end(), summed)) return;
  Index stride = 1;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d)
    if (d->present[v] && !summed(*d)) d->stride[v] = stride, stride *= d->size;
  std::erase_if(dims, summed);
  note.copies.push_back(
      {v, static_cast<size_t>(stride) * item, "summed first over what nothing else has"});
}

}  // namespace

ContractionNote describe_contraction(const View& A, const Labels& a, const View& B, const Labels& b,
                                     const View& Y, const Labels& y) {
  ContractionNote note;
  const size_t item = size_of(Y.dtype);
  std::vector<Dim> dims = dimensions(A, a, B, b, Y, y);
  if (std::none_of(dims.begin(), dims.end(), [](const Dim& d) { return d.size == 0; })) {
    note_sum_first(dims, in_a, item, note, only_a);
    note_sum_first(dims, in_b, item, note, only_b);
  }
  const Choice choice = choose(dims);
  const Groups groups = grouped(dims);
  note.form = form_of(choice, groups);
  note.shape = shape_of(choice, groups);
  for (Operand v : {in_a, in_b, in_y})
    if (choice.matrices.packed[v])
      note.copies.push_back(
          {v, static_cast<size_t>(elements(dims, v)) * item, reason(groups, choice.matrices, v)});
  return note;
}

}  // namespace tete::cpu_kernels
