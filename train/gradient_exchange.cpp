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

// ---- The order of numbers ----------------------------------------------------------------------

// All gradients as one row of numbers, the last parameter's first.
class Row {
 public:
  explicit Row(const Tensors& layouts) : place_(layouts.size(), -1) {
    for (size_t i = layouts.size(); i-- > 0;) {
      if (!layouts[i] || layouts[i].size() == 0) continue;
      place_[i] = static_cast<int64_t>(slots_.size());
      slots_.push_back({i, total_, layouts[i].size()});
      total_ += layouts[i].size();
    }
  }
  int64_t total() const { return total_; }
  size_t slots() const { return slots_.size(); }
  int64_t slot_of(size_t parameter) const { return place_[parameter]; }  // -1: it has no gradient
  int64_t begin_of(size_t slot) const { return slot < slots_.size() ? slots_[slot].begin : total_; }

  // Calls each(parameter, first, count) for the pieces of [begin, end).
  template <class Each>
  void walk(int64_t begin, int64_t end, const Each& each) const {
    auto slot = std::upper_bound(slots_.begin(), slots_.end(), begin,
                                 [](int64_t at, const Slot& s) { return at < s.begin; });
    if (slot != slots_.begin()) --slot;
    for (; begin < end; ++slot) {
      const int64_t stop = std::min(end, slot->begin + slot->count);
      each(slot->parameter, begin - slot->begin, stop - begin);
      begin = stop;
    }
  }

 private:
  struct Slot {
    size_t parameter;
    int64_t begin, count;
  };
  std::vector<Slot> slots_;
  std::vector<int64_t> place_;
  int64_t total_ = 0;
};

constexpr int64_t largest_bucket = 25'000'000, smallest_bucket = 256 << 10;  // bytes
constexpr int buckets_wanted = 8;     // so that small models overlap, too
constexpr size_t most_under_way = 3;  // buckets; more would take memory

// ---- The exchange ------------------------------------------------------------------------------

// Gradients of T; messages have numbers of W.
template <class T, class W>
class Typed : public GradientExchange {
 public:
  Typed(int rank, int ranks, const TreeOrder& order, const Tensors& layouts,
        std::shared_ptr<std::vector<ShardSum>> nodes)
      : rank_(rank), ranks_(ranks), order_(order), nodes_(std::move(nodes)), row_(layouts) {
    for (int r = 0; r < ranks; ++r)
      count_.push_back(std::count_if(order.nodes.begin(), order.nodes.end(),
                                     [&](const TreeOrder::Node& node) { return node.rank == r; }));
    is_ready_.assign(row_.slots(), false);
    for (const Tensor& like : layouts)
      sum_.grads.push_back(like ? Tensor::empty_strided(like.shape(), like.strides(), like.dtype())
                                : Tensor());
    const int64_t size = std::clamp(row_.total() * int64_t{sizeof(T)} / buckets_wanted,
                                    smallest_bucket, largest_bucket) /
                         int64_t{sizeof(T)};
    for (int64_t at = 0; at < row_.total(); at += size)
      buckets_.push_back({at, std::min(at + size, row_.total())});
  }

  void ready(size_t parameter) override {
    const int64_t slot = row_.slot_of(parameter);
    if (slot < 0) return;
    is_ready_[static_cast<size_t>(slot)] = true;
    while (slots_ready_ < is_ready_.size() && is_ready_[slots_ready_]) ++slots_ready_;
    ready_until_.store(row_.begin_of(slots_ready_), std::memory_order_release);
  }
  void complete() override { complete_.store(true, std::memory_order_release); }

  State advance(Transport& transport) override {
    bool waits = false;
    while (begun_ < buckets_.size() && under_way_.size() < most_under_way &&
           ready_until_.load(std::memory_order_acquire) >= buckets_[begun_].end)
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
    int64_t begin, end;
    std::vector<std::vector<W>> out = {}, in = {};  // by rank: its nodes' numbers, one by one
    std::vector<W> all = {};                        // the finished numbers of the whole bucket
    std::unique_ptr<Exchange> scatter = {}, gather = {};
  };
  static constexpr size_t done = ~size_t{0};
  struct Scalars {
    double loss = 0;
    int64_t tokens = 0;
  };

  int64_t part_begin(const Bucket& b, int r) const {
    return b.begin + (b.end - b.begin) * r / ranks_;
  }
  int64_t part_size(const Bucket& b, int r) const {
    return part_begin(b, r + 1) - part_begin(b, r);
  }

  // The numbers of one of this rank's nodes. A gradient that is missing is -0, which changes
  // nothing that it is added to.
  W* pack(const ShardSum& node, int64_t begin, int64_t end, W* to) const {
    row_.walk(begin, end, [&](size_t parameter, int64_t first, int64_t count) {
      const Tensor& g = node.grads[parameter];
      if (!g) std::fill_n(to, count, sent(T(-0.0), W()));
      else
        std::transform(numbers(g) + first, numbers(g) + first + count, to,
                       [](T x) { return sent(x, W()); });
      to += count;
    });
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
      sending.resize(static_cast<size_t>(part_size(b, to)) * nodes_->size());
      W* at = sending.data();
      for (const ShardSum& node : *nodes_)
        at = pack(node, part_begin(b, to), part_begin(b, to + 1), at);
      if (k == 0) continue;
      std::vector<W>& coming = b.in[static_cast<size_t>(from)];
      coming.resize(static_cast<size_t>(part_size(b, rank_) * count_[static_cast<size_t>(from)]));
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
    if (!b.gather) {
      if (!b.scatter->test()) return false;
      add_up(b);
      gather(transport, b, 2 + 2 * static_cast<int>(number));
    }
    if (!b.gather->test()) return false;
    unpack(b);
    finished_ += 1 + b.scatter->progress() + b.gather->progress();
    b = {b.begin, b.end};
    number = done;
    return true;
  }

  // This rank's part of the sum, in the tree's order.
  void add_up(Bucket& b) {
    std::vector<const W*> leaves;
    const auto size = static_cast<size_t>(part_size(b, rank_));
    std::vector<size_t> taken(static_cast<size_t>(ranks_));
    for (const TreeOrder::Node& node : order_.nodes) {
      const auto r = static_cast<size_t>(node.rank);
      leaves.push_back((node.rank == rank_ ? b.out[r] : b.in[r]).data() + size * taken[r]++);
    }
    b.all.resize(static_cast<size_t>(b.end - b.begin));
    W* sums = b.all.data() + (part_begin(b, rank_) - b.begin);
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

  void gather(Transport& transport, Bucket& b, int channel) {
    const auto part = [&](int r) {
      return bytes_of(b.all).subspan(static_cast<size_t>(part_begin(b, r) - b.begin) * sizeof(W),
                                     static_cast<size_t>(part_size(b, r)) * sizeof(W));
    };
    std::vector<Message> out, in;
    for (int k = 1; k < ranks_; ++k) {
      const int to = (rank_ + k) % ranks_, from = (rank_ + ranks_ - k) % ranks_;
      out.push_back({to, part(rank_)}), in.push_back({from, part(from)});
    }
    b.gather = begin(transport, channel, out, in);
  }

  void unpack(const Bucket& b) const {
    const W* from = b.all.data();
    row_.walk(b.begin, b.end, [&](size_t parameter, int64_t first, int64_t count) {
      std::transform(from, from + count, numbers(sum_.grads[parameter]) + first,
                     [](W x) { return received(x); });
      from += count;
    });
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
  Row row_;
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
    int rank, int ranks, const TreeOrder& order, const Tensors& layouts,
    std::shared_ptr<std::vector<ShardSum>> nodes, SendAs send) {
  Dtype dtype = Dtype::f32;
  for (const Tensor& like : layouts)
    if (like) dtype = like.dtype();
  if (dtype == Dtype::f64)
    return std::make_shared<Typed<double, double>>(rank, ranks, order, layouts, nodes);
  if (send == SendAs::bf16)
    return std::make_shared<Typed<float, Bf16>>(rank, ranks, order, layouts, nodes);
  return std::make_shared<Typed<float, float>>(rank, ranks, order, layouts, nodes);
}

}  // namespace tete
