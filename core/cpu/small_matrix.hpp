// Contractions in which small matrices meet long rows, their dimensions merged.
#pragma once
#include <vector>

#include "core/cpu/backend.hpp"
#include "core/cpu/product.hpp"
#include "core/cpu/rows.hpp"

namespace tete::cpu_kernels {

// A or B is the small matrix: a product that moves more numbers than it multiplies.
bool is_mix(const Groups& groups);
// A, B and Y are matrices at each place of a row.
bool is_lane_product(const Groups& groups);
template <class T>
void lane_product(const Groups& groups, const T* A, const T* B, T* Y);
// Y is the small matrix.
bool is_pair(const Groups& groups);
template <class T>
void pair(const Groups& groups, const T* A, const T* B, T* Y);

// P[r, c] = Σ_j x[r, j] g[c, j], where blocks of the sum are added each by a thread: a block's
// terms in lanes, the blocks in their order.
template <class T>
class PairSum {
 public:
  PairSum(Index rows, Index columns, Index blocks)
      : rows_(rows),
        columns_(columns),
        blocks_(blocks),
        totals_(static_cast<size_t>(rows * columns * blocks)) {}

  class Block {
   public:
    Block(PairSum& sum, Index number);
    ~Block();
    Block(const Block&) = delete;
    void add(const T* x, Index rx, const T* g, Index rg, Index n) {
      cpu_kernels::rows<T>().outer(x, rx, sum_.rows_, g, rg, sum_.columns_, n, lanes_.as<T>());
    }

   private:
    PairSum& sum_;
    const Index number_;
    const Scratch lanes_;
  };

  // Writes the sum of all blocks; totals are lost.
  void finish(T* P, Index row, Index column);

 private:
  const Index rows_, columns_, blocks_;
  std::vector<double> totals_;
};

}  // namespace tete::cpu_kernels
