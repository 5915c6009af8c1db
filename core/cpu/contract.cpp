// Contraction: Y = Σ A·B over the dimensions that Y lacks.
//
// Dimensions fall into four groups: batch (A, B, Y), M (A, Y), N (B, Y) and K (A, B). Without K
// it is an elementwise product (elementwise.cpp), without M or N a sum of products (fold.cpp);
// where small matrices meet long rows it has kernels of its own (small_matrix.cpp); else it is
// products of matrices (matrices.cpp).
#include "core/cpu/contract.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/cache.hpp"
#include "core/cpu/backend.hpp"
#include "core/cpu/small_matrix.hpp"

namespace tete::cpu_kernels {
namespace {

// ---- Dimensions ------------------------------------------------------------------------------

// The view of one operand over `dims`, as kernels of equal shapes want it: stride 0 where the
// operand lacks a dimension.
View spread(const std::vector<Dim>& dims, int operand, Dtype dtype, void* data) {
  View view{dtype, {}, {}, data};
  for (const Dim& d : dims) {
    view.shape.push_back(d.size);
    view.strides.push_back(d.present[operand] ? d.stride[operand] : 0);
  }
  return view;
}

// ---- Sums that need no product ---------------------------------------------------------------

// Sums operand v over the dimensions marked by `summed` before any product. The sum is stored in
// `scratch`.
template <class Summed>
void sum_first(std::vector<Dim>& dims, int v, View& operand, std::unique_ptr<Scratch>& scratch,
               const Summed& summed) {
  if (std::none_of(dims.begin(), dims.end(), summed)) return;
  View from{operand.dtype, {}, {}, operand.data};
  View to = from;
  for (Dim& d : dims)
    if (d.present[v]) {
      from.shape.push_back(d.size);
      from.strides.push_back(d.stride[v]);
      to.shape.push_back(summed(d) ? 1 : d.size);
    }
  to.strides = dense_strides(to.shape, memory_order(from.shape, from.strides));
  const size_t bytes = static_cast<size_t>(to.size()) * size_of(to.dtype);
  scratch = std::make_unique<Scratch>(bytes);
  to.data = scratch->as<void>();
  cpu().fold(Fold::sum, from, to);
  int at = 0;
  for (Dim& d : dims)
    if (d.present[v]) {
      d.stride[v] = to.strides[at++];
      if (summed(d)) d.present[v] = false;
    }
  std::erase_if(dims, [](const Dim& d) { return !d.present[0] && !d.present[1] && !d.present[2]; });
  operand.data = to.data;
}

// A dimension along which one operand is constant is one that it lacks: a batch becomes M or N,
// and a sum becomes a sum of the other operand alone.
void drop_constant(std::vector<Dim>& dims) {
  for (Dim& d : dims)
    for (int v : {in_a, in_b}) {
      const int other = 1 - v;
      if (d.present[v] && d.stride[v] == 0 && d.present[other] && d.stride[other] != 0)
        d.present[v] = false;
    }
}

// ---- The choice ------------------------------------------------------------------------------

constexpr Index short_sum = 4;  // up to here BLAS is slower than a sum of products

template <class T>
void execute(const Choice& choice, const std::vector<Dim>& dims, T* A, T* B, T* Y) {
  const View a = spread(dims, in_a, dtype_of<T>(), A), b = spread(dims, in_b, dtype_of<T>(), B),
             y = spread(dims, in_y, dtype_of<T>(), Y);
  switch (choice.method) {
    case Method::zeros:
      return;
    case Method::product:
      return cpu().binary(Binary::mul, a, b, y);
    case Method::sum_of_products:
      return fold_product(a, b, y);
    case Method::lanes:
      return lane_product<T>(choice.groups, A, B, Y);
    case Method::pair:
      return pair<T>(choice.groups, A, B, Y);
    case Method::mix:
    case Method::matrices:
      return multiply_matrices(choice.matrices, A, B, Y);
  }
}

bool sums_first(const std::vector<Dim>& dims) {
  return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return only_a(d) || only_b(d); });
}

// A contraction as far as types, shapes and strides tell.
struct Planned {
  std::vector<Dim> dims;
  bool sums_first;
  Choice choice;  // unless it sums first; bfloat16 numbers take its matrices, whatever the method
};

// The same types, shapes and strides under the same labels, as bytes in place.
class PlanKey {
 public:
  void add(const View& x, const Labels& labels) {
    put(x.dtype), put(static_cast<uint8_t>(x.rank()));
    for (int d = 0; d < x.rank(); ++d) put(labels[d]), put(x.shape[d]), put(x.strides[d]);
  }
  operator std::string_view() const { return {bytes_, size_}; }

 private:
  template <class T>
  void put(T value) {
    std::memcpy(bytes_ + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  char bytes_[3 * (2 * sizeof(Dtype) + max_rank * (sizeof(Label) + 2 * sizeof(Index)))];
  size_t size_ = 0;
};

// bfloat16 numbers are multiplied as matrices, the only kernels that they have.
MatrixPlan plan_rounded(const std::vector<Dim>& dims) {
  const Groups groups = grouped(dims);
  const bool are_matrices =
      !sums_first(dims) && !groups.k.empty() && !groups.m.empty() && !groups.n.empty();
  return are_matrices ? plan_matrices(groups) : MatrixPlan{};
}

std::shared_ptr<const Planned> planned(const View& A, const Labels& a, const View& B,
                                       const Labels& b, const View& Y, const Labels& y) {
  static auto* const plans = new Cache<Planned>(1024);
  PlanKey key;
  key.add(A, a), key.add(B, b), key.add(Y, y);
  return plans->get(key, [&] {
    Planned made{dimensions(A, a, B, b, Y, y), false, {}};
    for (Dim& d : made.dims) d.before = d.stride;
    made.sums_first = sums_first(made.dims);
    if (!made.sums_first) made.choice = choose(made.dims);
    if (A.dtype == Dtype::bf16) made.choice.matrices = plan_rounded(made.dims);
    return made;
  });
}

void contract_rounded(const MatrixPlan& plan, const View& A, const View& B, const View& Y) {
  if (plan.seconds == MatrixPlan{}.seconds)
    bad_input("bf16 numbers are multiplied as matrices only");
  multiply_matrices(plan, A.as<Bf16>(), B.as<Bf16>(), Y.as<float>());
}

}  // namespace

std::vector<Dim> dimensions(const View& A, const Labels& a, const View& B, const Labels& b,
                            const View& Y, const Labels& y) {
  std::vector<Dim> dims;
  std::vector<Label> names;
  const View* const views[] = {&A, &B, &Y};
  const Labels* const labels[] = {&a, &b, &y};
  for (int v : {in_a, in_b, in_y})
    for (int d = 0; d < views[v]->rank(); ++d) {
      const Label label = (*labels[v])[d];
      const auto at = std::find(names.begin(), names.end(), label) - names.begin();
      if (at == std::ssize(names)) names.push_back(label), dims.emplace_back();
      Dim& dim = dims[static_cast<size_t>(at)];
      dim.size = views[v]->shape[d];
      dim.stride[v] = views[v]->strides[d];
      dim.present[v] = true;
    }
  std::erase_if(dims, [](const Dim& d) { return d.size == 1; });
  drop_constant(dims);
  return dims;
}

bool only_a(const Dim& d) { return !d.present[in_b] && !d.present[in_y]; }
bool only_b(const Dim& d) { return !d.present[in_a] && !d.present[in_y]; }

Groups grouped(const std::vector<Dim>& dims) {
  Groups groups;
  for (const Dim& d : dims) {
    const bool a = d.present[in_a], b = d.present[in_b], y = d.present[in_y];
    (a && b && y ? groups.batch : a && y ? groups.m : y ? groups.n : groups.k).push_back(d);
  }
  return groups;
}

Choice choose(const std::vector<Dim>& dims) {
  for (const Dim& d : dims)
    if (d.size == 0) return {Method::zeros};
  const Groups groups = grouped(dims);
  if (groups.k.empty()) return {Method::product, groups};
  if (groups.m.empty() || groups.n.empty()) return {Method::sum_of_products, groups};
  const Groups joined = merged(groups);
  const bool mixes = is_mix(joined);
  if (!mixes) {
    if (is_lane_product(joined)) return {Method::lanes, joined};
    if (is_pair(joined)) return {Method::pair, joined};
    if (size_of(groups.k) <= short_sum) return {Method::sum_of_products, groups};
  }
  const MatrixPlan plan = plan_matrices(groups);
  if (plan.seconds == MatrixPlan{}.seconds) return {Method::sum_of_products, groups};
  return {mixes ? Method::mix : Method::matrices, groups, plan};
}

bool CpuBackend::contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b,
                                const View& Y, const Labels& y) const {
  const auto plan = planned(A, a, B, b, Y, y);
  return !plan->sums_first && plan->choice.method == Method::matrices;
}

void CpuBackend::contract(const View& A, const Labels& a, const View& B, const Labels& b,
                          const View& Y, const Labels& y) {
  if (Y.size() == 0) return;
  const auto plan = planned(A, a, B, b, Y, y);
  for (const Dim& d : plan->dims)
    if (d.size == 0) return fill(0, Y);
  if (A.dtype == Dtype::bf16) return contract_rounded(plan->choice.matrices, A, B, Y);
  const auto run = [&](const Choice& choice, const std::vector<Dim>& dims, void* left,
                       void* right) {
    visit(Y.dtype, [&]<class T>() {
      execute(choice, dims, static_cast<T*>(left), static_cast<T*>(right), Y.as<T>());
    });
  };
  if (!plan->sums_first) return run(plan->choice, plan->dims, A.data, B.data);
  std::vector<Dim> dims = plan->dims;
  View left = A, right = B;
  std::unique_ptr<Scratch> left_sum, right_sum;
  sum_first(dims, in_a, left, left_sum, only_a);
  sum_first(dims, in_b, right, right_sum, only_b);
  for (Dim& d : dims) d.before = d.stride;
  run(choose(dims), dims, left.data, right.data);
}

}  // namespace tete::cpu_kernels
