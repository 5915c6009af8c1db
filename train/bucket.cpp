#include "train/bucket.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/bf16.hpp"
#include "core/storage.hpp"

namespace tete {

namespace {

using Piece = Division::Piece;

// ---- Numbers on the wire -----------------------------------------------------------------------

template <class T>
T sent(T x, T) {
  return x;
}
// Rounded to the nearest, ties to even; a NaN stays one.
Bf16 sent(float x, Bf16) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return {static_cast<uint16_t>(bits >> 16 | 64)};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
template <class T>
T received(T x) {
  return x;
}
float received(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

// Memory of the tensors' free lists: a step asks the system for none.
template <class W>
struct Room {
  Storage storage;
  size_t count = 0;

  Room() = default;
  explicit Room(size_t n) : storage(cpu(), n * sizeof(W)), count(n) {}
  W* numbers() const { return static_cast<W*>(storage.data()); }
  std::span<std::byte> bytes(Index first, Index n) const {
    return std::as_writable_bytes(
        std::span(numbers(), count).subspan(static_cast<size_t>(first), static_cast<size_t>(n)));
  }
};

// ---- All ways ----------------------------------------------------------------------------------

// Gradients of T; messages have numbers of W.
template <class T, class W>
class TypedBucket : public Bucket {
 protected:
  TypedBucket(const SumOfRanks& sum, size_t number) : sum_(sum), number_(number) {}

  const Division& division() const { return sum_.division; }
  int ranks() const { return division().ranks(); }
  const std::vector<Piece>& mine() const { return sum_.mine[number_]; }
  Index size_of_part(int rank) const {
    const int part = division().part_of(rank);
    return division().begin(number_, part + 1) - division().begin(number_, part);
  }
  std::vector<Piece> pieces_of(int rank) const { return division().pieces(number_, rank); }
  T* result(const Piece& piece) const {
    return reinterpret_cast<T*>(sum_.results[piece.parameter].host_bytes().data()) + piece.first;
  }
  // A node's numbers. A gradient that is missing is -0, which changes nothing that it is added to.
  T* gradient(const ShardSum& node, const Piece& piece) {
    if (const Tensor& g = node.grads[piece.parameter])
      return reinterpret_cast<T*>(g.host_bytes().data()) + piece.first;
    const auto count = static_cast<size_t>(piece.count);
    Room<T>& missing = missing_.emplace_back(count);
    std::fill_n(missing.numbers(), count, T(-0.0));
    return missing.numbers();
  }

  // Numbers to a peer, or from it. Where W is not T they take memory of their own, and those that
  // come are there after `land`.
  Message to(int peer, T* from, Index count) {
    if constexpr (std::is_same_v<T, W>) {
      return {peer, std::as_writable_bytes(std::span(from, static_cast<size_t>(count)))};
    } else {
      const Room<W>& room = staged_.emplace_back(static_cast<size_t>(count));
      std::transform(from, from + count, room.numbers(), [](T x) { return sent(x, W()); });
      return {peer, room.bytes(0, count)};
    }
  }
  Message from(int peer, T* to, Index count) {
    if constexpr (std::is_same_v<T, W>) {
      return {peer, std::as_writable_bytes(std::span(to, static_cast<size_t>(count)))};
    } else {
      const Room<W>& room = staged_.emplace_back(static_cast<size_t>(count));
      landing_.push_back({room.numbers(), to, count});
      return {peer, room.bytes(0, count)};
    }
  }
  void land() {
    for (const Landing& each : landing_)
      std::transform(each.from, each.from + each.count, each.to, [](W x) { return received(x); });
    landing_.clear(), staged_.clear(), missing_.clear();
  }

  const SumOfRanks& sum_;
  size_t number_;  // of the bucket

 private:
  struct Landing {
    const W* from;
    T* to;
    Index count;
  };
  std::vector<Room<T>> missing_;
  std::vector<Room<W>> staged_;
  std::vector<Landing> landing_;
};

// ---- Each to each ------------------------------------------------------------------------------

template <class T, class W>
class Pairwise : public TypedBucket<T, W> {
  using Base = TypedBucket<T, W>;
  using typename Bucket::Step;

 public:
  Pairwise(const SumOfRanks& sum, size_t number) : Base(sum, number) {}
  int scatter_steps() const override { return 1; }
  int gather_steps() const override { return 1; }
  Step begin(int step) override { return step == 0 ? scatter() : gather(); }
  void end(int step) override {
    if (step == 0) add_up();
    this->land();
  }

 private:
  // The k-th rank after this one, of P.
  int peer(int k) const { return (this->sum_.rank + k) % this->ranks(); }

  Step scatter() {
    const auto ranks = this->ranks();
    const Index size = this->size_of_part(this->sum_.rank);
    in_.resize(static_cast<size_t>(ranks));
    Step step;
    for (int k = 1; k < ranks; ++k) {
      const int to = peer(k), from = peer(ranks - k);
      for (const ShardSum& node : *this->sum_.nodes)
        for (const Piece& piece : this->pieces_of(to))
          step.out.push_back(this->to(to, this->gradient(node, piece), piece.count));
      Room<W>& coming = in_[static_cast<size_t>(from)];
      const size_t nodes = this->sum_.nodes_of(from);
      coming = Room<W>(nodes * static_cast<size_t>(size));
      Index at = 0;
      for (size_t i = 0; i < nodes; ++i)
        for (const Piece& piece : this->mine()) {
          step.in.push_back({from, coming.bytes(at, piece.count)});
          at += piece.count;
        }
    }
    return step;
  }
  Step gather() {
    Step step;
    for (int k = 1; k < this->ranks(); ++k) {
      const int to = peer(k), from = peer(this->ranks() - k);
      for (const Piece& piece : this->mine())
        step.out.push_back(this->to(to, this->result(piece), piece.count));
      for (const Piece& piece : this->pieces_of(from))
        step.in.push_back(this->from(from, this->result(piece), piece.count));
    }
    return step;
  }

  // This rank's part of the sum, in the tree's order.
  void add_up() {
    const std::vector<Piece> pieces = this->pieces_of(this->sum_.rank);
    Index at = 0;
    for (size_t i = 0; i < pieces.size(); at += pieces[i++].count) {
      const std::vector<Leaf> leaves = leaves_of(pieces[i], at);
      T* const to = this->result(this->mine()[i]);
      for (Index first = 0; first < pieces[i].count; first += block)
        add_block(leaves, first, std::min(block, pieces[i].count - first), to + first);
    }
    in_.clear();
  }
  // A node's numbers of a piece: this rank's, or another's as they came.
  struct Leaf {
    const T* own;
    const W* came;
  };
  std::vector<Leaf> leaves_of(const Piece& piece, Index at) {
    const Index size = this->size_of_part(this->sum_.rank);
    std::vector<Index> taken(in_.size());
    std::vector<Leaf> leaves;
    for (const TreeOrder::Node& node : this->sum_.order.nodes) {
      const auto r = static_cast<size_t>(node.rank);
      const Index number = taken[r]++;
      if (node.rank == this->sum_.rank)
        leaves.push_back(
            {this->gradient((*this->sum_.nodes)[static_cast<size_t>(number)], piece), nullptr});
      else leaves.push_back({nullptr, in_[r].numbers() + number * size + at});
    }
    return leaves;
  }
  static constexpr Index block = 1024;
  void add_block(const std::vector<Leaf>& leaves, Index first, Index count, T* to) {
    size_t height = 0, next = 0;
    for (bool is_leaf : this->sum_.order.is_leaf) {
      if (is_leaf) {
        if (stack_.size() == height) stack_.emplace_back();
        T* const top = stack_[height++].data();
        const auto [own, came] = leaves[next++];
        if (own)
          for (Index i = 0; i < count; ++i) top[i] = received(sent(own[first + i], W()));
        else
          for (Index i = 0; i < count; ++i) top[i] = received(came[first + i]);
        continue;
      }
      --height;
      T *const left = stack_[height - 1].data(), *const right = stack_[height].data();
      for (Index i = 0; i < count; ++i) left[i] = left[i] + right[i];
    }
    std::transform(stack_[0].begin(), stack_[0].begin() + count, to,
                   [](T x) { return received(sent(x, W())); });
  }

  std::vector<Room<W>> in_;  // by rank: its nodes' numbers, one by one
  std::vector<std::array<T, block>> stack_;
};

// ---- Halving and doubling ----------------------------------------------------------------------

template <class T, class W>
class Halving : public TypedBucket<T, W> {
  using Base = TypedBucket<T, W>;
  using typename Bucket::Step;

 public:
  Halving(const SumOfRanks& sum, size_t number, int bits) : Base(sum, number), bits_(bits) {}
  int scatter_steps() const override { return bits_; }
  int gather_steps() const override { return bits_; }
  Step begin(int step) override {
    return step < bits_ ? scatter(step) : gather(2 * bits_ - 1 - step);
  }
  void end(int step) override {
    if (step < bits_) add(step);
    this->land();
  }

 private:
  // The parts [first, end) that this rank keeps, or gives away, in the step of so many.
  struct Half {
    int first, end;
  };
  Half kept(int step) const {
    const int size = this->ranks() >> (step + 1);
    const int first = this->division().part_of(this->sum_.rank) / size * size;
    return {first, first + size};
  }
  Half given(int step) const {
    const auto [first, end] = kept(step);
    const int size = end - first;
    return {first ^ size, (first ^ size) + size};
  }
  Index place(int part) const { return this->division().begin(this->number_, part); }
  std::vector<Piece> pieces(Half half) const {
    return this->division().pieces(place(half.first), place(half.end));
  }

  Step scatter(int step) {
    const int peer = this->sum_.rank ^ (1 << step);
    const Half keeps = kept(step), gives = given(step);
    Step messages;
    coming_ = Room<W>(static_cast<size_t>(place(keeps.end) - place(keeps.first)));
    if (step > 0) {
      const Index first = place(gives.first), end = place(gives.end);
      messages.out.push_back({peer, sums_.bytes(first - begin_, end - first)});
      messages.in.push_back({peer, coming_.bytes(0, static_cast<Index>(coming_.count))});
      return messages;
    }
    const ShardSum& node = this->sum_.nodes->front();
    for (const Piece& piece : pieces(gives))
      messages.out.push_back(this->to(peer, this->gradient(node, piece), piece.count));
    Index at = 0;
    for (const Piece& piece : pieces(keeps)) {
      messages.in.push_back({peer, coming_.bytes(at, piece.count)});
      at += piece.count;
    }
    return messages;
  }

  // The tree adds the left one's numbers and the right one's; that order changes no bit.
  void add(int step) {
    const Half keeps = kept(step);
    const std::vector<Piece> all = pieces(keeps);
    const bool is_last = step + 1 == bits_;
    const W* sums = sums_.numbers() + (step > 0 ? place(keeps.first) - begin_ : 0);
    W* coming = coming_.numbers();
    for (size_t i = 0; i < all.size(); ++i) {
      const Index count = all[i].count;
      const T* own = step > 0 ? nullptr : this->gradient(this->sum_.nodes->front(), all[i]);
      T* result = is_last ? this->result(this->mine()[i]) : nullptr;
      const auto each = [&](const auto& mine, const auto& put) {
        for (Index k = 0; k < count; ++k) put(k, sent(mine(k) + received(coming[k]), W()));
      };
      const auto from = [&](const auto& put) {
        if (own) each([&](Index k) { return received(sent(own[k], W())); }, put);
        else each([&](Index k) { return received(sums[k]); }, put);
      };
      if (result) from([&](Index k, W x) { result[k] = received(x); });
      else from([&](Index k, W x) { coming[k] = x; });
      coming += count;
      if (step > 0) sums += count;
    }
    sums_ = is_last ? Room<W>() : std::exchange(coming_, {});
    coming_ = {};
    begin_ = place(keeps.first);
  }

  Step gather(int step) {
    const int peer = this->sum_.rank ^ (1 << step);
    Step messages;
    for (const Piece& piece : pieces(kept(step)))
      messages.out.push_back(this->to(peer, this->result(piece), piece.count));
    for (const Piece& piece : pieces(given(step)))
      messages.in.push_back(this->from(peer, this->result(piece), piece.count));
    return messages;
  }

  int bits_;
  Room<W> sums_, coming_;
  Index begin_ = 0;  // the place of the sums in the row
};

}  // namespace

size_t SumOfRanks::nodes_of(int of) const {
  return static_cast<size_t>(
      std::count_if(order.nodes.begin(), order.nodes.end(),
                    [of](const TreeOrder::Node& node) { return node.rank == of; }));
}

std::unique_ptr<Bucket> make_bucket(const SumOfRanks& sum, size_t number, Dtype dtype,
                                    SendAs send) {
  const auto made = [&]<class T, class W>(T, W) -> std::unique_ptr<Bucket> {
    const int ranks = sum.division.ranks();
    if (!sum.order.is_perfect(ranks)) return std::make_unique<Pairwise<T, W>>(sum, number);
    const int bits = std::countr_zero(static_cast<unsigned>(ranks));
    return std::make_unique<Halving<T, W>>(sum, number, bits);
  };
  if (dtype == Dtype::f64) return made(double(), double());
  return send == SendAs::bf16 ? made(float(), Bf16()) : made(float(), float());
}

}  // namespace tete
