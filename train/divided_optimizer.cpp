#include "train/divided_optimizer.hpp"

#include <algorithm>
#include <numeric>

#include "core/fused.hpp"
#include "core/ops.hpp"
#include "core/update.hpp"
#include "train/division.hpp"

namespace tete {

namespace {

using Piece = Division::Piece;

// Its bytes among those of the parameter.
std::span<std::byte> bytes_of(const Tensor& dense, const Piece& piece) {
  const auto size = static_cast<Index>(size_of(dense.dtype()));
  return dense.host_bytes().subspan(static_cast<size_t>(piece.first * size),
                                    static_cast<size_t>(piece.count * size));
}

std::vector<Index> learned_sizes(const std::vector<ParamSpec>& specs) {
  std::vector<Index> sizes;
  for (const ParamSpec& spec : specs) sizes.push_back(spec.fixed ? 0 : element_count(spec.shape));
  return sizes;
}

class DividedOptimizer : public Optimizer {
 public:
  DividedOptimizer(
      Comm& comm, const std::vector<ParamSpec>& specs,
      const std::function<std::unique_ptr<Optimizer>(const std::vector<ParamSpec>&)>& make)
      : comm_(comm),
        specs_(specs),
        division_(learned_sizes(specs), comm.size(), row_of_squares),
        mine_(specs.size()) {
    for (int r = 0; r < comm.size(); ++r) pieces_.push_back(division_.pieces(r));
    for (const Piece& piece : pieces_of(comm.rank())) mine_[piece.parameter].push_back(piece);
    for (size_t i = 0; i < specs.size(); ++i) {
      ParamSpec& part = parts_.emplace_back(specs[i]);
      part.shape = part_shape(i), part.layout = {};
    }
    part_ = make(parts_);
    std::swap(state, part_->state);
    for (const NamedTensor& tensor : state) {
      const std::string name = tensor.name.substr(0, tensor.name.rfind('/'));
      const auto is_it = [&](const ParamSpec& spec) { return spec.name == name; };
      of_.push_back(std::find_if(specs.begin(), specs.end(), is_it) - specs.begin());
    }
  }
  const char* name() const override { return part_->name(); }
  EffectiveRate effective_rate() const override { return part_->effective_rate(); }

  void update(const std::vector<ParamSpec>&, Tensors& values, const Tensors& grads, double rate,
              int64_t step) override {
    Tensors parts(values.size()), slopes(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (!grads[i] || mine_[i].empty()) continue;
      parts[i] = part_of(i, values[i]);
      slopes[i] = reshape(grads[i], part_shape(i)).to(values[i].backend());
    }
    std::swap(state, part_->state);
    part_->update(parts_, parts, slopes, rate, step);
    std::swap(state, part_->state);
    gather(values, grads, parts);
  }

  const Division* division() const override { return &division_; }
  Shape state_shape(size_t i) const override { return specs_[of_[i]].shape; }
  void set_state(size_t i, const Tensor& whole) override {
    if (mine_[of_[i]].empty()) return;
    const Tensor part = Tensor::empty_like(state[i].value);
    copy_onto(part_of(of_[i], whole.to(part.backend())), part);
    state[i].value = part;
  }
  Tensor whole_state(size_t i) const override {
    all_max(comm_, static_cast<int64_t>(i));
    return collected(i);
  }
  // Rank 0 says what it needs, and when it needs no more.
  void with_whole_state(const std::function<void()>& work) const override {
    constexpr int64_t no_more = -1;
    if (comm_.rank() != 0) {
      for (int64_t i; (i = all_max(comm_, no_more)) != no_more;) collected(static_cast<size_t>(i));
      return;
    }
    std::exception_ptr failed;
    try {
      work();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::peer) throw;
      failed = std::current_exception();
    } catch (const std::bad_alloc&) {
      failed = std::current_exception();
    }
    all_max(comm_, no_more);
    if (failed) std::rethrow_exception(failed);
  }

 private:
  const std::vector<Piece>& pieces_of(int rank) const { return pieces_[static_cast<size_t>(rank)]; }
  Shape part_shape(size_t i) const {
    Index n = 0;
    for (const Piece& piece : mine_[i]) n += piece.count;
    return specs_[i].shape.size() > 1 ? Shape{1, n} : Shape{n};
  }
  Short<int> order(size_t i) const {
    Short<int> order = specs_[i].layout;
    for (int d = order.size(); d < specs_[i].shape.size(); ++d) order.push_back(d);
    return order;
  }
  // This rank's numbers of it, one after the other.
  Tensor part_of(size_t i, const Tensor& x) const {
    const Tensor in_order = with_layout(x.detach(), order(i));
    Tensors windows;
    for (const Piece& piece : mine_[i])
      windows.push_back(in_order.window({piece.count}, {1}, piece.first));
    return reshape(windows.size() == 1 ? windows[0] : concat(windows, 0), part_shape(i));
  }
  // Memory on the processor for all of a parameter, of which `part` is there.
  Tensor around(size_t i, const Tensor& part, Dtype dtype) const {
    const Shape& shape = specs_[i].shape;
    const Tensor whole = Tensor::empty_strided(shape, dense_strides(shape, order(i)), dtype);
    if (mine_[i].empty()) return whole;
    const Tensor here = part.detach().to(cpu());
    Piece from{i, 0, 0};
    for (const Piece& piece : mine_[i]) {
      from.first += std::exchange(from.count, piece.count);
      std::ranges::copy(bytes_of(here, from), bytes_of(whole, piece).begin());
    }
    return whole;
  }

  // All ranks' parts, as new values.
  void gather(Tensors& values, const Tensors& grads, const Tensors& parts) const {
    const auto memory = std::make_shared<Tensors>(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      if (!specs_[i].fixed && grads[i]) (*memory)[i] = around(i, parts[i], values[i].dtype());
    const auto messages = [&](int peer, int pieces_are_of) {
      std::vector<Message> all;
      for (const Piece& piece : pieces_of(pieces_are_of))
        if (const Tensor& whole = (*memory)[piece.parameter])
          all.push_back({peer, bytes_of(whole, piece)});
      return all;
    };
    std::vector<Message> out, in;
    const int ranks = comm_.size();
    for (int k = 1; k < ranks; ++k) {
      const int to = (comm_.rank() + k) % ranks, from = (comm_.rank() + ranks - k) % ranks;
      std::ranges::move(messages(to, comm_.rank()), std::back_inserter(out));
      std::ranges::move(messages(from, from), std::back_inserter(in));
    }
    comm_.exchange(std::move(out), std::move(in), memory);
    for (size_t i = 0; i < values.size(); ++i)
      if ((*memory)[i]) values[i] = (*memory)[i].to(values[i].backend());
  }
  // A tensor of the state, on rank 0; the others send it their parts.
  Tensor collected(size_t i) const {
    const Tensor part = state[i].value.detach().to(cpu());
    const size_t of = of_[i];
    const auto whole = std::make_shared<Tensor>(around(of, part, part.dtype()));
    std::vector<Message> out, in;
    for (int r = 0; r < comm_.size(); ++r)
      for (const Piece& piece : pieces_of(r))
        if (piece.parameter == of && r > 0) {
          if (comm_.rank() == 0) in.push_back({r, bytes_of(*whole, piece)});
          if (comm_.rank() == r) out.push_back({0, bytes_of(*whole, piece)});
        }
    comm_.exchange(std::move(out), std::move(in), whole);
    return *whole;
  }

  Comm& comm_;
  std::vector<ParamSpec> specs_, parts_;
  Division division_;
  std::vector<std::vector<Piece>> pieces_, mine_;  // by rank; of this one, by parameter
  std::unique_ptr<Optimizer> part_;
  std::vector<size_t> of_;  // the parameter of each tensor of the state
};

}  // namespace

std::unique_ptr<Optimizer> divided_optimizer(
    Comm& comm, const std::vector<ParamSpec>& specs,
    const std::function<std::unique_ptr<Optimizer>(const std::vector<ParamSpec>& parts)>& make) {
  return std::make_unique<DividedOptimizer>(comm, specs, make);
}

}  // namespace tete
