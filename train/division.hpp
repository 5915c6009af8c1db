// How the numbers of all gradients are divided among ranks.
//
// They lie in one row, the last parameter's first, as gradients become final in that order; those
// of a parameter are in the order of its memory. The row is cut into buckets, which are sent one by
// one, and each bucket into a part for every rank. The parts are in the order of ranks or, where
// their number is a power of two, in that of ranks with their bits reversed: then those of all
// ranks with the same last bits lie together.
#pragma once
#include "core/tensor.hpp"
#include "train/comm.hpp"

namespace tete {

class Division {
 public:
  // `sizes` has the numbers of each parameter, 0 where it gets no gradient. Parts begin at
  // multiples of `unit` numbers of a parameter. What that moves in one bucket is made up for in the
  // next ones, so that all ranks get about the same.
  Division(const std::vector<Index>& sizes, int ranks, Index unit = 1);

  int ranks() const { return ranks_; }
  size_t buckets() const { return (cuts_.size() - 1) / static_cast<size_t>(ranks_); }
  // The number of a rank's part in each bucket.
  int part_of(int rank) const;
  // The place in the row at which a part begins; the next one begins where it ends.
  Index begin(size_t bucket, int part) const {
    return cuts_[bucket * static_cast<size_t>(ranks_) + static_cast<size_t>(part)];
  }
  // The place of a parameter's numbers in the row. A parameter without numbers has no slot.
  struct Slot {
    size_t parameter;
    Index begin, count;
  };
  const std::vector<Slot>& slots() const { return slots_; }

  // Some of a parameter's numbers.
  struct Piece {
    size_t parameter;
    Index first, count;
  };
  // [begin, end) of the row, in its order.
  std::vector<Piece> pieces(Index begin, Index end) const;
  // A rank's part of a bucket.
  std::vector<Piece> pieces(size_t bucket, int rank) const {
    return pieces(begin(bucket, part_of(rank)), begin(bucket, part_of(rank) + 1));
  }
  // All pieces that a rank has.
  std::vector<Piece> pieces(int rank) const;

 private:
  int ranks_;
  std::vector<Slot> slots_;
  std::vector<Index> cuts_ = {0};  // the begins of each bucket's parts; at last the row's end
};

// The numbers of a bucket, of so many in the row; the last one may have fewer.
Index bucket_size(Index all, int ranks);

// Σ x² of each gradient, of which every rank has its part, f32 or f64 on the processor: the bits
// that sums_of_squares of all of it has there. Parts begin at multiples of row_of_squares numbers.
// A tensor may have room for the other ranks' parts too. That of an empty Tensor is 0.
std::vector<double> sums_of_squares(Comm& comm, const Division& division, const Tensors& parts);

}  // namespace tete
