#include "train/bucket.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>

#include "core/bf16.hpp"

namespace tete {

namespace {

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

template <class T>
T* numbers(const Tensor& x) {
  return reinterpret_cast<T*>(x.host_bytes().data());
}

// ---- All ways ----------------------------------------------------------------------------------

// Gradients of T; messages have numbers of W.
template <class T, class W>
class TypedBucket : public Bucket {
 protected:
  using Numbers = std::vector<W>;

  // `place` is that of a rank's part among all parts in memory.
  TypedBucket(const SumOfRanks& sum, size_t number, const std::function<size_t(int)>& place)
      : sum_(sum), number_(number), place_(place(sum.rank)), rank_at_(ranks()), at_(1) {
    for (int r = 0; r < sum.division.ranks(); ++r) rank_at_[place(r)] = r;
    for (int r : rank_at_) at_.push_back(at_.back() + size_of_part(r));
  }

  size_t ranks() const { return static_cast<size_t>(sum_.division.ranks()); }
  size_t size_of_part(int r) const {
    const Division& division = sum_.division;
    return static_cast<size_t>(division.begin(number_, r + 1) - division.begin(number_, r));
  }
  // Those of the parts at places [first, last).
  std::span<std::byte> bytes(Numbers& all, size_t first, size_t last) const {
    return std::as_writable_bytes(std::span(all).subspan(at_[first], at_[last] - at_[first]));
  }

  // A node's numbers in a rank's part. A gradient that is missing is -0, which changes nothing that
  // it is added to.
  W* pack(const ShardSum& node, int r, W* to) const {
    for (const auto& [parameter, first, count] : pieces(r)) {
      const Tensor& g = node.grads[parameter];
      if (!g) std::fill_n(to, count, sent(T(-0.0), W()));
      else
        std::transform(numbers<T>(g) + first, numbers<T>(g) + first + count, to,
                       [](T x) { return sent(x, W()); });
      to += count;
    }
    return to;
  }
  void unpack(const std::vector<Division::Piece>& pieces, const W* from) const {
    for (const auto& [parameter, first, count] : pieces) {
      std::transform(from, from + count, numbers<T>(sum_.results[parameter]) + first,
                     [](W x) { return received(x); });
      from += count;
    }
  }
  std::vector<Division::Piece> pieces(int r) const {
    return sum_.division.pieces(sum_.division.begin(number_, r),
                                sum_.division.begin(number_, r + 1));
  }

  // This rank's part of the sum is known.
  void keep(Numbers part) {
    part_ = std::move(part);
    unpack(sum_.mine[number_], part_.data());
  }
  // Makes room for all parts.
  void begin_gather() {
    all_.resize(at_.back());
    std::ranges::copy(part_, all_.begin() + static_cast<std::ptrdiff_t>(at_[place_]));
    part_ = {};
  }
  void end_gather() {
    for (size_t i = 0; i < ranks(); ++i)
      if (i != place_) unpack(pieces(rank_at_[i]), all_.data() + at_[i]);
    all_ = {};
  }

  const SumOfRanks& sum_;
  size_t number_, place_;     // of the bucket; of this rank's part
  std::vector<int> rank_at_;  // by place
  std::vector<size_t> at_;    // where each place's part begins; at last the end
  Numbers part_, all_;
};

// ---- Each to each ------------------------------------------------------------------------------

template <class T, class W>
class Pairwise : public TypedBucket<T, W> {
  using Base = TypedBucket<T, W>;
  using typename Base::Numbers, typename Base::Step;

 public:
  Pairwise(const SumOfRanks& sum, size_t number)
      : Base(sum, number, [](int r) { return static_cast<size_t>(r); }) {}
  int scatter_steps() const override { return 1; }
  int gather_steps() const override { return 1; }
  Step begin(int step) override { return step == 0 ? scatter() : gather(); }
  void end(int step) override {
    if (step == 0) this->keep(add_up());
    else this->end_gather();
  }

 private:
  int peer(size_t k) const {
    return static_cast<int>((static_cast<size_t>(this->sum_.rank) + k) % this->ranks());
  }
  Step scatter() {
    const size_t ranks = this->ranks(), mine = this->size_of_part(this->sum_.rank);
    out_.resize(ranks), in_.resize(ranks);
    Step step;
    for (size_t k = 0; k < ranks; ++k) {
      const int to = peer(k), from = peer(ranks - k);
      Numbers& sending = out_[static_cast<size_t>(to)];
      sending.resize(this->size_of_part(to) * this->sum_.nodes->size());
      W* at = sending.data();
      for (const ShardSum& node : *this->sum_.nodes) at = this->pack(node, to, at);
      if (k == 0) continue;
      Numbers& coming = in_[static_cast<size_t>(from)];
      coming.resize(mine * this->sum_.nodes_of(from));
      step.out.push_back({to, std::as_writable_bytes(std::span(sending))});
      step.in.push_back({from, std::as_writable_bytes(std::span(coming))});
    }
    return step;
  }
  Step gather() {
    this->begin_gather();
    Step step;
    const auto part = [&](int r) {
      const auto place = static_cast<size_t>(r);
      return this->bytes(this->all_, place, place + 1);
    };
    for (size_t k = 1; k < this->ranks(); ++k) {
      const int from = peer(this->ranks() - k);
      step.out.push_back({peer(k), part(this->sum_.rank)});
      step.in.push_back({from, part(from)});
    }
    return step;
  }

  // This rank's part of the sum, in the tree's order.
  Numbers add_up() {
    const size_t size = this->size_of_part(this->sum_.rank);
    std::vector<const W*> leaves;
    std::vector<size_t> taken(this->ranks());
    for (const TreeOrder::Node& node : this->sum_.order.nodes) {
      const auto r = static_cast<size_t>(node.rank);
      leaves.push_back((node.rank == this->sum_.rank ? out_[r] : in_[r]).data() +
                       size * taken[r]++);
    }
    Numbers sums(size);
    constexpr size_t block = 1024;
    std::deque<std::vector<T>> stack;
    for (size_t first = 0; first < size; first += block) {
      add_block(leaves, first, std::min(block, size - first), stack);
      std::transform(stack[0].begin(), stack[0].end(), sums.data() + first,
                     [](T x) { return sent(x, W()); });
    }
    out_.clear(), in_.clear();
    return sums;
  }
  // The sum of `count` numbers of each leaf is then stack[0].
  void add_block(const std::vector<const W*>& leaves, size_t first, size_t count,
                 std::deque<std::vector<T>>& stack) const {
    size_t height = 0, next = 0;
    for (bool is_leaf : this->sum_.order.is_leaf) {
      if (is_leaf) {
        if (stack.size() == height) stack.emplace_back();
        const W* from = leaves[next++] + first;
        stack[height].resize(count);
        std::transform(from, from + count, stack[height++].begin(),
                       [](W x) { return received(x); });
        continue;
      }
      --height;
      std::vector<T>&left = stack[height - 1], &right = stack[height];
      for (size_t i = 0; i < count; ++i) left[i] = left[i] + right[i];
    }
  }

  std::vector<Numbers> out_, in_;  // by rank: its nodes' numbers, one by one
};

// ---- Halving and doubling ----------------------------------------------------------------------

// A rank's part has its number's bits in reverse as its place, so that what is sent is one piece.
size_t reversed(size_t r, int bits) {
  size_t place = 0;
  for (int i = 0; i < bits; ++i) place |= (r >> i & 1) << (bits - 1 - i);
  return place;
}

template <class T, class W>
class Halving : public TypedBucket<T, W> {
  using Base = TypedBucket<T, W>;
  using typename Base::Numbers, typename Base::Step;

 public:
  Halving(const SumOfRanks& sum, size_t number, int bits)
      : Base(sum, number, [bits](int r) { return reversed(static_cast<size_t>(r), bits); }),
        bits_(bits) {}
  int scatter_steps() const override { return bits_; }
  int gather_steps() const override { return bits_; }

  Step begin(int step) override {
    const bool halves = step < bits_;
    if (step == 0) pack_all();
    if (step == bits_) this->begin_gather();
    const int bit = halves ? step : 2 * bits_ - 1 - step;
    const size_t size = this->ranks() >> (bit + 1);  // parts that are sent
    const size_t here = this->place_ / size * size, there = here ^ size;
    const std::span<std::byte> mine = this->bytes(this->all_, here, here + size);
    const std::span<std::byte> other = this->bytes(this->all_, there, there + size);
    const int peer = this->sum_.rank ^ (1 << bit);
    if (!halves) return {{{peer, mine}}, {{peer, other}}};
    coming_.resize(mine.size() / sizeof(W));
    return {{{peer, other}}, {{peer, std::as_writable_bytes(std::span(coming_))}}};
  }
  void end(int step) override {
    if (step == 2 * bits_ - 1) return this->end_gather();
    if (step >= bits_) return;
    const size_t size = this->ranks() >> (step + 1);
    W* sum = this->all_.data() + this->at_[this->place_ / size * size];
    // The tree adds the left one's numbers and the right one's; that order changes no bit.
    for (size_t i = 0; i < coming_.size(); ++i)
      sum[i] = sent(received(sum[i]) + received(coming_[i]), W());
    if (step + 1 < bits_) return;
    Numbers part(sum, sum + coming_.size());
    this->all_ = {}, coming_ = {};
    this->keep(std::move(part));
  }

 private:
  void pack_all() {
    this->all_.resize(this->at_.back());
    for (size_t i = 0; i < this->ranks(); ++i)
      this->pack(this->sum_.nodes->front(), this->rank_at_[i], this->all_.data() + this->at_[i]);
  }

  int bits_;
  Numbers coming_;
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
