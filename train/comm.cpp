// The canonical tree of comm.hpp. Both walks below visit nodes from left to right, so the partial
// sums of all ranks, one rank after the other, are already in the order in which the tree is
// finished: no node needs a number.
#include "train/comm.hpp"

#include <algorithm>
#include <cstring>

#include "core/ops.hpp"
#include "train/optimizer.hpp"

namespace tete {

namespace {

using Bytes = std::vector<std::byte>;

ShardSum add(ShardSum a, ShardSum b) {
  for (size_t i = 0; i < a.grads.size(); ++i) {
    if (!a.grads[i]) a.grads[i] = std::move(b.grads[i]);
    else if (b.grads[i]) a.grads[i] = a.grads[i] + b.grads[i];
  }
  return {a.loss + b.loss, a.tokens + b.tokens, std::move(a.grads)};
}

struct Tree {
  Comm& comm;
  int shards;
  const Tensors& layouts;
  const std::function<ShardSum(int)>& leaf;

  int begin_of(int rank) const { return first_shard(rank, comm.size(), shards); }

  ShardSum sum(int a, int b) const {
    if (b - a == 1) return leaf(a);
    const int m = a + (b - a) / 2;
    ShardSum left = sum(a, m);
    return add(std::move(left), sum(m, b));
  }

  // The largest nodes below [a, b) that lie in this rank's range, as bytes.
  void write_partials(int a, int b, Bytes& out) const {
    const int begin = begin_of(comm.rank()), end = begin_of(comm.rank() + 1);
    if (b <= begin || a >= end) return;
    if (begin <= a && b <= end) return write(sum(a, b), out);
    const int m = a + (b - a) / 2;
    write_partials(a, m, out);
    write_partials(m, b, out);
  }

  bool in_one_rank(int a, int b) const {
    for (int r = 0; r < comm.size(); ++r)
      if (begin_of(r) <= a && b <= begin_of(r + 1)) return true;
    return false;
  }

  ShardSum finish(int a, int b, std::span<const std::byte>& in) const {
    if (in_one_rank(a, b)) return read(in);
    const int m = a + (b - a) / 2;
    ShardSum left = finish(a, m, in);
    return add(std::move(left), finish(m, b, in));
  }

  static void write_bytes(const void* from, size_t count, Bytes& out) {
    const size_t at = out.size();
    out.resize(at + count);
    if (count > 0) std::memcpy(out.data() + at, from, count);
  }
  static void read_bytes(void* to, size_t count, std::span<const std::byte>& in) {
    if (in.size() < count) fail(ErrorKind::peer, "a rank sent a shorter gradient than expected");
    if (count > 0) std::memcpy(to, in.data(), count);
    in = in.subspan(count);
  }

  static void write_tensor(const Tensor& x, Bytes& out) {
    const Tensor here = x.to(cpu());
    write_bytes(here.host_bytes().data(), here.host_bytes().size(), out);
  }
  // A tensor of the shape, type, order and device of `like`.
  static Tensor read_tensor(const Tensor& like, std::span<const std::byte>& in) {
    const Tensor here = Tensor::empty_strided(like.shape(), like.strides(), like.dtype());
    read_bytes(here.host_bytes().data(), here.host_bytes().size(), in);
    return here.to(like.backend());
  }

  // Gradients travel in the memory order of their parameters, which every rank knows.
  void write(const ShardSum& s, Bytes& out) const {
    write_tensor(s.loss, out);
    write_bytes(&s.tokens, sizeof s.tokens, out);
    for (size_t i = 0; i < layouts.size(); ++i) {
      const char present = s.grads[i] ? 1 : 0;
      write_bytes(&present, 1, out);
      if (!present) continue;
      write_tensor(laid_out_like(s.grads[i], layouts[i]), out);
    }
  }
  ShardSum read(std::span<const std::byte>& in) const {
    ShardSum s;
    s.loss = read_tensor(Tensor::scalar(0, Dtype::f64, layouts[0].backend()), in);
    read_bytes(&s.tokens, sizeof s.tokens, in);
    for (const Tensor& like : layouts) {
      char present = 0;
      read_bytes(&present, 1, in);
      s.grads.push_back(present ? read_tensor(like, in) : Tensor());
    }
    return s;
  }
};

}  // namespace

int first_shard(int rank, int ranks, int shards) {
  return static_cast<int>(static_cast<int64_t>(shards) * rank / ranks);
}

ShardSum tree_sum(Comm& comm, int shards, const Tensors& layouts,
                  const std::function<ShardSum(int)>& leaf) {
  if (shards < 1) bad_input("a step needs at least 1 shard, got ", shards);
  if (comm.size() > shards)
    bad_input("a step of ", shards, " shards cannot be divided among ", comm.size(),
              " processes; use as many shards as processes, or more");
  const Tree tree{comm, shards, layouts, leaf};
  if (comm.size() == 1) return tree.sum(0, shards);
  Bytes mine, all;
  tree.write_partials(0, shards, mine);
  for (const Bytes& of_rank : comm.all_gather(mine))
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  std::span<const std::byte> in(all);
  return tree.finish(0, shards, in);
}

int64_t all_max(Comm& comm, int64_t mine) {
  if (comm.size() == 1) return mine;
  int64_t largest = mine;
  for (const Bytes& of_rank : comm.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    int64_t other = mine;
    if (of_rank.size() == sizeof other) std::memcpy(&other, of_rank.data(), sizeof other);
    largest = std::max(largest, other);
  }
  return largest;
}

}  // namespace tete
