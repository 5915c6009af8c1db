// Rows that a sequence adds as it is read on.
#pragma once
#include "core/tensor.hpp"

namespace tete {

// A tensor that grows along one axis. There is room behind its last row, so that an append copies
// the new rows only; all rows are copied when the room is full, which makes a quarter more.
class GrowingRows {
 public:
  GrowingRows() = default;
  GrowingRows(Tensor rows) : rows_(std::move(rows)) {}
  // A copy has no room: what it appends must not be seen by the other.
  GrowingRows(const GrowingRows& other) : rows_(other.rows_) {}
  GrowingRows& operator=(const GrowingRows& other) {
    rows_ = other.rows_, room_ = {};
    return *this;
  }
  GrowingRows(GrowingRows&&) = default;
  GrowingRows& operator=(GrowingRows&&) = default;

  // Empty until the first append.
  const Tensor& rows() const { return rows_; }
  // `more` has the shape of the rows but along `axis`, which is the same at each append.
  void append(const Tensor& more, int axis);

 private:
  Tensor rows_, room_;
};

}  // namespace tete
