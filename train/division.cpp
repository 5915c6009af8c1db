#include "train/division.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/update.hpp"

namespace tete {

constexpr Index largest_bucket = 6'250'000, smallest_bucket = 131'072;  // numbers
// Smaller messages are slower; a bucket of the largest size has them where there are many ranks.
constexpr Index smallest_message = 16'384;  // numbers
constexpr Index buckets_wanted = 48;        // so that little is left when the last is ready

Index bucket_size(Index all, int ranks) {
  const Index least = std::max(smallest_bucket, ranks * smallest_message);
  return std::min(std::max(pieces_of(all, buckets_wanted), least), largest_bucket);
}

Division::Division(const std::vector<Index>& sizes, int ranks, Index unit) : ranks_(ranks) {
  Index total = 0;
  for (size_t i = sizes.size(); i-- > 0; total += sizes[i])
    if (sizes[i] > 0) slots_.push_back({i, total, sizes[i]});
  // The last place up to `at` where a part may begin.
  const auto aligned = [&](Index at) {
    return unit == 1 || at == total ? at : at - pieces(at, at + 1)[0].first % unit;
  };
  const Index size = bucket_size(total, ranks);
  std::vector<Index> given(static_cast<size_t>(ranks));  // numbers of all ranks before each
  for (Index begin = 0; begin < total;) {
    const Index end = aligned(std::min(begin + size, total));
    for (int r = 1; r < ranks; ++r) {
      Index& before = given[static_cast<size_t>(r)];
      const Index due = begin + end * r / ranks - before;
      cuts_.push_back(std::clamp(aligned(std::min(due, end)), cuts_.back(), end));
      before += cuts_.back() - begin;
    }
    cuts_.push_back(begin = end);
  }
}

int Division::part_of(int rank) const {
  const auto count = static_cast<unsigned>(ranks_);
  if (!std::has_single_bit(count)) return rank;
  int part = 0;
  for (unsigned bit = 1; bit < count; bit <<= 1, rank >>= 1) part = 2 * part + rank % 2;
  return part;
}

std::vector<Division::Piece> Division::pieces(Index begin, Index end) const {
  std::vector<Piece> all;
  auto slot = std::upper_bound(slots_.begin(), slots_.end(), begin,
                               [](Index at, const Slot& each) { return at < each.begin; });
  for (; begin < end; ++slot) {
    const Slot& here = *std::prev(slot);
    const Index stop = std::min(end, here.begin + here.count);
    all.push_back({here.parameter, begin - here.begin, stop - begin});
    begin = stop;
  }
  return all;
}

std::vector<Division::Piece> Division::pieces(int rank) const {
  std::vector<Piece> all;
  for (size_t b = 0; b < buckets(); ++b)
    for (const Piece& piece : pieces(b, rank)) all.push_back(piece);
  return all;
}

// Calls each(parameter, first, count) for what a rank has of each row of squares.
template <class Each>
static void each_row(const Division& division, int rank, const Tensors& parts, const Each& each) {
  for (const Division::Piece& piece : division.pieces(rank))
    for (Index at = 0; parts[piece.parameter] && at < piece.count; at += row_of_squares)
      each(piece.parameter, piece.first + at, std::min(row_of_squares, piece.count - at));
}

std::vector<double> sums_of_squares(Comm& comm, const Division& division, const Tensors& parts) {
  Tensors windows;
  std::vector<Index> taken(parts.size()), numbers(parts.size()), all_of(parts.size());
  for (const Division::Slot& slot : division.slots()) all_of[slot.parameter] = slot.count;
  each_row(division, comm.rank(), parts, [&](size_t i, Index first, Index count) {
    const bool has_room = parts[i].size() == all_of[i];
    windows.push_back(parts[i].window({count}, {1}, has_room ? first : taken[i]));
    taken[i] += count;
  });
  const std::vector<double> mine = sums_of_squares(windows, cpu()).values();
  const std::vector<Bytes> all = comm.all_gather(std::as_bytes(std::span(mine)));
  std::vector<std::vector<double>> rows(parts.size());
  for (int r = 0; r < comm.size(); ++r) {
    const std::byte* at = all[static_cast<size_t>(r)].data();
    each_row(division, r, parts, [&](size_t i, Index first, Index count) {
      const auto row = static_cast<size_t>(first / row_of_squares);
      rows[i].resize(std::max(rows[i].size(), row + 1));
      std::memcpy(&rows[i][row], at, sizeof(double));
      at += sizeof(double), numbers[i] += count;
    });
  }
  std::vector<double> sums;
  for (size_t i = 0; i < parts.size(); ++i) sums.push_back(sum_of_rows(rows[i], numbers[i]));
  return sums;
}

}  // namespace tete
