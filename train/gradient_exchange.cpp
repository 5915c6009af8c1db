#include "train/gradient_exchange.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>

#include "core/bf16.hpp"
#include "core/ops.hpp"

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

template <class W>
std::span<std::byte> bytes_of(std::vector<W>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

constexpr size_t most_under_way = 3;  // buckets; more would take memory

// ---- The exchange ------------------------------------------------------------------------------

// Gradients of T; messages have numbers of W.
template <class T, class W>
class Typed : public GradientExchange {
 public:
  Typed(int rank, const TreeOrder& order, const Tensors& layouts,
        std::shared_ptr<std::vector<ShardSum>> nodes, const Division& division, Result wanted)
      : rank_(rank),
        ranks_(division.ranks()),
        order_(order),
        nodes_(std::move(nodes)),
        division_(division),
        wanted_(wanted),
        is_ready_(layouts.size()),
        buckets_(division.buckets()) {
    for (int r = 0; r < ranks_; ++r)
      count_.push_back(std::count_if(order.nodes.begin(), order.nodes.end(),
                                     [&](const TreeOrder::Node& node) { return node.rank == r; }));
    std::vector<Index> mine(layouts.size());  // numbers so far
    for (size_t b = 0; b < buckets_.size(); ++b) {
      Bucket& bucket = buckets_[b];
      bucket.begin = division.begin(b, wanted == Result::part ? rank : 0);
      bucket.end = wanted == Result::part ? division.begin(b, rank + 1) : division.begin(b + 1, 0);
      bucket.pieces = division.pieces(bucket.begin, bucket.end);
      for (Division::Piece& piece : bucket.pieces) {
        Index& before = mine[piece.parameter];
        if (wanted == Result::part) piece.first = before;
        before += piece.count;
      }
    }
    for (size_t i = 0; i < layouts.size(); ++i) {
      const Tensor& like = layouts[i];
      if (!like) sum_.grads.emplace_back();
      else if (wanted == Result::part) sum_.grads.push_back(Tensor::empty({mine[i]}, like.dtype()));
      else sum_.grads.push_back(Tensor::empty_strided(like.shape(), like.strides(), like.dtype()));
    }
  }

  void ready(size_t parameter) override {
    is_ready_[parameter] = true;
    const std::vector<Division::Slot>& slots = division_.slots();
    while (slots_ready_ < slots.size() && is_ready_[slots[slots_ready_].parameter]) ++slots_ready_;
    ready_until_.store(slots_ready_ < slots.size() ? slots[slots_ready_].begin
                                                   : division_.begin(buckets_.size(), 0),
                       std::memory_order_release);
  }
  void complete() override { complete_.store(true, std::memory_order_release); }

  State advance(Transport& transport) override {
    bool waits = false;
    while (begun_ < buckets_.size() && under_way_.size() < most_under_way &&
           ready_until_.load(std::memory_order_acquire) >= division_.begin(begun_ + 1, 0))
      scatter(transport, begun_++);
    for (size_t& number : under_way_) waits |= !move(transport, number);
    std::erase(under_way_, done);
    if (!scalars_ && complete_.load(std::memory_order_acquire)) exchange_scalars(transport);
    if (scalars_ && !scalars_done_) {
      scalars_done_ = scalars_->test();
      waits |= !scalars_done_;
    }
    if (waits) return State::waiting;
    const bool all = begun_ == buckets_.size() && under_way_.empty() && scalars_done_;
    return all ? State::done : State::idle;
  }

  int64_t progress() const override {
    int64_t sum = static_cast<int64_t>(begun_) + finished_;
    if (scalars_) sum += scalars_->progress();
    for (size_t number : under_way_) {
      const Bucket& bucket = buckets_[number];
      for (const auto& exchange : {bucket.scatter.get(), bucket.gather.get()})
        if (exchange) sum += exchange->progress();
    }
    return sum;
  }
  std::vector<int> waiting_for() const override {
    for (size_t number : under_way_) {
      const Bucket& bucket = buckets_[number];
      return bucket.gather ? bucket.gather->waiting_for() : bucket.scatter->waiting_for();
    }
    return scalars_ ? scalars_->waiting_for() : std::vector<int>();
  }
  int64_t bytes() const override { return bytes_; }

  ShardSum result() override {
    finish_scalars();
    return std::move(sum_);
  }

 private:
  struct Bucket {
    Index begin = 0, end = 0;                       // the numbers that this rank is to have
    std::vector<Division::Piece> pieces = {};       // their places in the result
    std::vector<std::vector<W>> out = {}, in = {};  // by rank: its nodes' numbers, one by one
    std::vector<W> all = {};                        // the finished numbers
    std::unique_ptr<Exchange> scatter = {}, gather = {};
  };
  static constexpr size_t done = ~size_t{0};
  struct Scalars {
    double loss = 0;
    int64_t tokens = 0;
  };

  Index part_size(size_t bucket, int r) const {
    return division_.begin(bucket, r + 1) - division_.begin(bucket, r);
  }

  // The numbers of one of this rank's nodes. A gradient that is missing is -0, which changes
  // nothing that it is added to.
  W* pack(const ShardSum& node, size_t bucket, int r, W* to) const {
    for (const auto& [parameter, first, count] :
         division_.pieces(division_.begin(bucket, r), division_.begin(bucket, r + 1))) {
      const Tensor& g = node.grads[parameter];
      if (!g) std::fill_n(to, count, sent(T(-0.0), W()));
      else
        std::transform(numbers(g) + first, numbers(g) + first + count, to,
                       [](T x) { return sent(x, W()); });
      to += count;
    }
    return to;
  }
  static T* numbers(const Tensor& x) { return reinterpret_cast<T*>(x.host_bytes().data()); }

  void scatter(Transport& transport, size_t number) {
    Bucket& b = buckets_[number];
    b.out.resize(static_cast<size_t>(ranks_)), b.in.resize(static_cast<size_t>(ranks_));
    std::vector<Message> out, in;
    for (int k = 0; k < ranks_; ++k) {
      const int to = (rank_ + k) % ranks_, from = (rank_ + ranks_ - k) % ranks_;
      std::vector<W>& sending = b.out[static_cast<size_t>(to)];
      sending.resize(static_cast<size_t>(part_size(number, to)) * nodes_->size());
      W* at = sending.data();
      for (const ShardSum& node : *nodes_) at = pack(node, number, to, at);
      if (k == 0) continue;
      std::vector<W>& coming = b.in[static_cast<size_t>(from)];
      coming.resize(
          static_cast<size_t>(part_size(number, rank_) * count_[static_cast<size_t>(from)]));
      out.push_back({to, bytes_of(sending)}), in.push_back({from, bytes_of(coming)});
    }
    b.scatter = begin(transport, 1 + 2 * static_cast<int>(number), out, in);
    under_way_.push_back(number);
  }

  std::unique_ptr<Exchange> begin(Transport& transport, int channel, std::vector<Message>& out,
                                  std::vector<Message>& in) {
    const auto empty = [](const Message& message) { return message.bytes.empty(); };
    std::erase_if(out, empty), std::erase_if(in, empty);
    for (const Message& message : out) bytes_ += static_cast<int64_t>(message.bytes.size());
    return transport.begin(channel, out, in);
  }

  // True if nothing is to be waited for.
  bool move(Transport& transport, size_t& number) {
    Bucket& b = buckets_[number];
    if (b.all.empty()) {
      if (!b.scatter->test()) return false;
      add_up(number);
      if (wanted_ == Result::whole) gather(transport, number);
    }
    if (b.gather && !b.gather->test()) return false;
    unpack(b);
    finished_ += 1 + b.scatter->progress() + (b.gather ? b.gather->progress() : 0);
    b = {};
    number = done;
    return true;
  }

  // This rank's part of the sum, in the tree's order.
  void add_up(size_t number) {
    Bucket& b = buckets_[number];
    std::vector<const W*> leaves;
    const auto size = static_cast<size_t>(part_size(number, rank_));
    std::vector<size_t> taken(static_cast<size_t>(ranks_));
    for (const TreeOrder::Node& node : order_.nodes) {
      const auto r = static_cast<size_t>(node.rank);
      leaves.push_back((node.rank == rank_ ? b.out[r] : b.in[r]).data() + size * taken[r]++);
    }
    b.all.resize(static_cast<size_t>(b.end - b.begin));
    W* sums = b.all.data() + (division_.begin(number, rank_) - b.begin);
    constexpr size_t block = 1024;
    std::deque<std::vector<T>> stack;
    for (size_t first = 0; first < size; first += block) {
      add_block(leaves, first, std::min(block, size - first), stack);
      std::transform(stack[0].begin(), stack[0].end(), sums + first,
                     [](T x) { return sent(x, W()); });
    }
    b.out.clear(), b.in.clear();
  }
  // The sum of `count` numbers of each leaf is then stack[0].
  void add_block(const std::vector<const W*>& leaves, size_t first, size_t count,
                 std::deque<std::vector<T>>& stack) const {
    size_t height = 0, next = 0;
    for (bool is_leaf : order_.is_leaf) {
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

  void gather(Transport& transport, size_t number) {
    Bucket& b = buckets_[number];
    const auto part = [&](int r) {
      const auto before = static_cast<size_t>(division_.begin(number, r) - b.begin);
      return bytes_of(b.all).subspan(before * sizeof(W),
                                     static_cast<size_t>(part_size(number, r)) * sizeof(W));
    };
    std::vector<Message> out, in;
    for (int k = 1; k < ranks_; ++k) {
      const int to = (rank_ + k) % ranks_, from = (rank_ + ranks_ - k) % ranks_;
      out.push_back({to, part(rank_)}), in.push_back({from, part(from)});
    }
    b.gather = begin(transport, 2 + 2 * static_cast<int>(number), out, in);
  }

  void unpack(const Bucket& b) const {
    const W* from = b.all.data();
    for (const auto& [parameter, first, count] : b.pieces) {
      std::transform(from, from + count, numbers(sum_.grads[parameter]) + first,
                     [](W x) { return received(x); });
      from += count;
    }
  }

  // ---- Losses, and which gradients there are ----

  size_t scalar_bytes(int r) const {
    return static_cast<size_t>(count_[static_cast<size_t>(r)]) * sizeof(Scalars) +
           sum_.grads.size();
  }
  void exchange_scalars(Transport& transport) {
    for (int r = 0; r < ranks_; ++r) scalar_in_.emplace_back(scalar_bytes(r));
    std::byte* at = scalar_in_[static_cast<size_t>(rank_)].data();
    for (const ShardSum& node : *nodes_) {
      const Scalars scalars{node.loss.item(), node.tokens};
      std::memcpy(at, &scalars, sizeof scalars);
      at += sizeof scalars;
    }
    for (size_t i = 0; i < sum_.grads.size(); ++i)
      at[i] = std::byte(std::any_of(nodes_->begin(), nodes_->end(),
                                    [&](const ShardSum& node) { return bool(node.grads[i]); }));
    std::vector<Message> out, in;
    for (int k = 1; k < ranks_; ++k) {
      const int to = (rank_ + k) % ranks_, from = (rank_ + ranks_ - k) % ranks_;
      out.push_back({to, scalar_in_[static_cast<size_t>(rank_)]});
      in.push_back({from, scalar_in_[static_cast<size_t>(from)]});
    }
    scalars_ = begin(transport, 1 + 2 * static_cast<int>(buckets_.size()), out, in);
  }
  void finish_scalars() {
    std::vector<const std::byte*> at;
    for (const Bytes& bytes : scalar_in_) at.push_back(bytes.data());
    std::vector<Scalars> stack;
    auto node = order_.nodes.begin();
    for (bool is_leaf : order_.is_leaf) {
      if (is_leaf) {
        const std::byte*& from = at[static_cast<size_t>((node++)->rank)];
        std::memcpy(&stack.emplace_back(), from, sizeof(Scalars));
        from += sizeof(Scalars);
        continue;
      }
      const Scalars right = stack.back();
      stack.pop_back();
      stack.back().loss += right.loss, stack.back().tokens += right.tokens;
    }
    sum_.loss = Tensor::scalar(stack[0].loss, Dtype::f64), sum_.tokens = stack[0].tokens;
    for (size_t i = 0; i < sum_.grads.size(); ++i)
      if (std::all_of(at.begin(), at.end(), [&](auto* flags) { return flags[i] == std::byte(0); }))
        sum_.grads[i] = Tensor();
  }

  int rank_, ranks_;
  TreeOrder order_;
  std::shared_ptr<const std::vector<ShardSum>> nodes_;
  std::vector<std::ptrdiff_t> count_;  // of nodes, by rank
  const Division& division_;
  Result wanted_;
  ShardSum sum_;
  std::vector<bool> is_ready_;
  size_t slots_ready_ = 0;
  std::atomic<int64_t> ready_until_{0};
  std::atomic<bool> complete_{false};
  std::vector<Bucket> buckets_;
  size_t begun_ = 0;
  std::vector<size_t> under_way_;
  std::vector<Bytes> scalar_in_;
  std::unique_ptr<Exchange> scalars_;
  bool scalars_done_ = false;
  int64_t finished_ = 0, bytes_ = 0;
};

}  // namespace

std::shared_ptr<GradientExchange> GradientExchange::make(
    int rank, const TreeOrder& order, const Tensors& layouts,
    std::shared_ptr<std::vector<ShardSum>> nodes, const Division& division, Result wanted,
    SendAs send) {
  Dtype dtype = Dtype::f32;
  for (const Tensor& like : layouts)
    if (like) dtype = like.dtype();
  const auto made = [&]<class T, class W>(T, W) -> std::shared_ptr<GradientExchange> {
    return std::make_shared<Typed<T, W>>(rank, order, layouts, std::move(nodes), division, wanted);
  };
  if (dtype == Dtype::f64) return made(double(), double());
  return send == SendAs::bf16 ? made(float(), Bf16()) : made(float(), float());
}

}  // namespace tete
