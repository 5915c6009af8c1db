// Walks of the tree visit nodes from left to right, so the partial sums of all ranks, one rank
// after the other, are already in the order in which the tree is finished.
#include "train/tree.hpp"

#include <optional>

#include "core/ops.hpp"
#include "core/update.hpp"
#include "train/gradient_exchange.hpp"
#include "train/optimizer.hpp"

namespace tete {

namespace {

// Adds the two; a missing one is left out.
Tensor sum_of(const Tensor& a, const Tensor& b) { return !a ? b : !b ? a : a + b; }

ShardSum add(ShardSum a, ShardSum b) {
  for (size_t i = 0; i < a.grads.size(); ++i)
    a.grads[i] = sum_of(std::exchange(a.grads[i], {}), std::exchange(b.grads[i], {}));
  return {a.loss + b.loss, a.tokens + b.tokens, std::move(a.grads)};
}

using Leaf = std::function<ShardSum(int, const OnReady&)>;

ShardSum sum_of_shards(const Leaf& leaf, int a, int b) {
  if (b - a == 1) return leaf(a, {});
  const int m = a + (b - a) / 2;
  ShardSum left = sum_of_shards(leaf, a, m);
  return add(std::move(left), sum_of_shards(leaf, m, b));
}

// The last node that a rank adds. Its gradients become final one by one, while the last shard's are
// computed.
class LastNode {
 public:
  // All but the last shard.
  LastNode(const Leaf& leaf, const TreeOrder::Node& node) : shard_(node.end - 1) {
    for (int a = node.begin; a < shard_;) {
      const int m = a + (node.end - a) / 2;
      left_.push_back(sum_of_shards(leaf, a, m));
      a = m;
    }
  }
  int shard() const { return shard_; }
  // The sum of one parameter's gradients.
  Tensor finish(size_t parameter, Tensor gradient) {
    for (size_t i = left_.size(); i-- > 0;)
      gradient = sum_of(std::exchange(left_[i].grads[parameter], {}), gradient);
    return gradient;
  }
  void finish(ShardSum& last) const {
    for (size_t i = left_.size(); i-- > 0;)
      last.loss = sum_of(left_[i].loss, last.loss), last.tokens += left_[i].tokens;
  }

 private:
  int shard_;
  std::vector<ShardSum> left_;
};

std::vector<Index> sizes_of(const Tensors& layouts) {
  std::vector<Index> sizes;
  for (const Tensor& like : layouts) sizes.push_back(like ? like.size() : 0);
  return sizes;
}

}  // namespace

// ---- The sum over ranks ------------------------------------------------------------------------

struct ArrivingSum::OnTheWay {
  OnTheWay(Comm& with, const Tensors& layouts, const Division* wanted_parts)
      : comm(with), parts(wanted_parts), is_here(layouts.size(), wanted_parts != nullptr) {
    if (!parts) evenly.emplace(sizes_of(layouts), comm.size(), row_of_squares);
  }
  // The job's memory is this thread's, whatever ends it.
  ~OnTheWay() {
    if (exchange && !is_over) comm.abandon();
  }

  const Division& division() const { return parts ? *parts : *evenly; }
  ShardSum sum(int shards, const Tensors& layouts, const Leaf& leaf, SendAs send);

  Comm& comm;
  std::optional<Division> evenly;
  const Division* parts;
  std::shared_ptr<GradientExchange> exchange;
  bool is_over = false;
  Backend* device = nullptr;  // of gradients
  std::vector<bool> is_here;  // by parameter: true if all of its gradient is there, on the device
};

// Ends when this rank knows its part, and the totals.
ShardSum ArrivingSum::OnTheWay::sum(int shards, const Tensors& layouts, const Leaf& leaf,
                                    SendAs send) {
  const TreeOrder order = tree_order(comm.size(), shards);
  std::vector<TreeOrder::Node> mine;
  for (const TreeOrder::Node& node : order.nodes)
    if (node.rank == comm.rank()) mine.push_back(node);
  const auto nodes = std::make_shared<std::vector<ShardSum>>();
  for (size_t i = 0; i + 1 < mine.size(); ++i)
    nodes->push_back(sum_of_shards(leaf, mine[i].begin, mine[i].end));
  for (ShardSum& node : *nodes) {
    node.loss = node.loss.to(cpu());
    for (Tensor& g : node.grads)
      if (g) g = g.to(cpu());
  }
  LastNode last(leaf, mine.back());
  ShardSum& end = nodes->emplace_back();
  end.grads.resize(layouts.size());

  // Not before the backward pass: until then the last step's gradients may take memory.
  const auto begin = [&] {
    using Result = GradientExchange::Result;
    exchange = std::make_shared<GradientExchange>(comm.rank(), order, layouts, nodes, division(),
                                                  parts ? Result::part : Result::whole, send);
    comm.start(exchange);
  };
  std::vector<bool> told(layouts.size(), false);
  const auto ready = [&](size_t i, const Tensor& gradient) {
    if (!exchange) begin();
    if (Tensor g = last.finish(i, gradient)) end.grads[i] = laid_out_like(g, layouts[i]).to(cpu());
    told[i] = true;
    exchange->ready(i);
  };
  const ShardSum shard = leaf(last.shard(), ready);
  if (!exchange) begin();
  for (size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i] && !told[i]) ready(i, shard.grads[i]);
  end.loss = shard.loss, end.tokens = shard.tokens;
  device = &shard.loss.backend();
  last.finish(end);
  end.loss = end.loss.to(cpu());
  exchange->complete();
  comm.wait(*exchange, [&] { return exchange->is_summed(); });
  nodes->clear();              // the rest takes the sums alone
  is_over = parts != nullptr;  // nothing of it is on the way then
  ShardSum total = exchange->result();
  total.loss = total.loss.to(*device);
  return total;
}

ArrivingSum::ArrivingSum(Comm& comm, int shards, const Tensors& layouts, const Leaf& leaf,
                         SendAs send, const Division* parts) {
  if (shards < 1) bad_input("a step needs at least 1 shard, got ", shards);
  if (comm.size() > shards)
    bad_input("a step of ", shards, " shards cannot be divided among ", comm.size(),
              " processes; use as many shards as processes, or more");
  if (comm.size() == 1) {
    total_ = sum_of_shards(leaf, 0, shards);
    return;
  }
  on_the_way_ = std::make_unique<OnTheWay>(comm, layouts, parts);
  total_ = on_the_way_->sum(shards, layouts, leaf, send);
}

ArrivingSum::ArrivingSum(ArrivingSum&&) noexcept = default;
ArrivingSum::~ArrivingSum() = default;

// The only numbers that a step reads from a device, all at once. A gradient's sum of squares is
// finite if and only if it is.
ArrivingSum::Numbers ArrivingSum::numbers() const {
  if (on_the_way_)
    return {total_.loss.item(),
            sums_of_squares(on_the_way_->comm, on_the_way_->division(), total_.grads)};
  const Tensor squares = sums_of_squares(total_.grads, total_.loss.backend());
  std::vector<double> all = concat({reshape(total_.loss, {1}), squares}, 0).values();
  const double loss = all[0];
  all.erase(all.begin());
  return {loss, std::move(all)};
}

void ArrivingSum::gather() {
  if (on_the_way_) on_the_way_->exchange->gather();
}

void ArrivingSum::wait(size_t parameter) {
  if (!on_the_way_ || on_the_way_->is_here[parameter]) return;
  gather();
  const GradientExchange& exchange = *on_the_way_->exchange;
  if (!exchange.has(parameter))
    on_the_way_->comm.wait(exchange, [&] { return exchange.has(parameter); });
  Tensor& g = total_.grads[parameter];
  if (g) g = g.to(*on_the_way_->device);
  on_the_way_->is_here[parameter] = true;
}

Tensor ArrivingSum::take(size_t parameter) {
  wait(parameter);
  if (on_the_way_) on_the_way_->exchange->forget(parameter);
  return std::exchange(total_.grads[parameter], {});
}

void ArrivingSum::wait() {
  for (size_t i = 0; i < total_.grads.size(); ++i) wait(i);
  if (!on_the_way_ || on_the_way_->is_over) return;
  on_the_way_->comm.finish(*on_the_way_->exchange);
  on_the_way_->is_over = true;
}

ShardSum tree_sum(Comm& comm, int shards, const Tensors& layouts, const Leaf& leaf, SendAs send,
                  const Division* parts) {
  ArrivingSum sum(comm, shards, layouts, leaf, send, parts);
  sum.wait();
  return sum.total();
}

// ---- The tree ----------------------------------------------------------------------------------

int first_shard(int rank, int ranks, int shards) {
  return static_cast<int>(static_cast<int64_t>(shards) * rank / ranks);
}

TreeOrder tree_order(int ranks, int shards) {
  TreeOrder order;
  const std::function<void(int, int)> walk = [&](int a, int b) {
    for (int r = 0; r < ranks; ++r) {
      if (a < first_shard(r, ranks, shards) || b > first_shard(r + 1, ranks, shards)) continue;
      order.nodes.push_back({a, b, r});
      order.is_leaf.push_back(true);
      return;
    }
    const int m = a + (b - a) / 2;
    walk(a, m), walk(m, b);
    order.is_leaf.push_back(false);
  };
  walk(0, shards);
  return order;
}

bool TreeOrder::is_perfect(int ranks) const {
  if (nodes.size() != static_cast<size_t>(ranks)) return false;
  std::vector<size_t> leaves;  // of subtrees
  for (bool leaf : is_leaf) {
    if (leaf) {
      leaves.push_back(1);
      continue;
    }
    const size_t right = leaves.back();
    leaves.pop_back();
    if (leaves.back() != right) return false;
    leaves.back() += right;
  }
  return true;
}

}  // namespace tete
