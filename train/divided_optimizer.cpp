#include "train/divided_optimizer.hpp"

#include <algorithm>
#include <numeric>

#include "core/fused.hpp"
#include "core/ops.hpp"

namespace tete {

namespace {

// Some of a parameter's numbers, in the order of its memory.
struct Range {
  Index begin = 0, end = 0;
  Index size() const { return end - begin; }
};

// Its bytes among those of the parameter.
std::span<std::byte> bytes_of(const Tensor& dense, Range range) {
  const auto size = static_cast<Index>(size_of(dense.dtype()));
  return dense.host_bytes().subspan(static_cast<size_t>(range.begin * size),
                                    static_cast<size_t>(range.size() * size));
}

class DividedOptimizer : public Optimizer {
 public:
  DividedOptimizer(
      Comm& comm, const std::vector<ParamSpec>& specs,
      const std::function<std::unique_ptr<Optimizer>(const std::vector<ParamSpec>&)>& make)
      : comm_(comm), specs_(specs) {
    for (const ParamSpec& spec : specs) {
      begins_.push_back(total_);
      if (!spec.fixed) total_ += element_count(spec.shape);
    }
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
      if (specs_[i].fixed || !grads[i] || mine(i).size() == 0) continue;
      parts[i] = part_of(i, values[i]), slopes[i] = part_of(i, grads[i]);
    }
    std::swap(state, part_->state);
    part_->update(parts_, parts, slopes, rate, step);
    std::swap(state, part_->state);
    gather(values, grads, parts);
  }

  bool is_divided() const override { return true; }
  Shape state_shape(size_t i) const override { return specs_[of_[i]].shape; }
  void set_state(size_t i, const Tensor& whole) override {
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
  Range range(size_t i, int rank) const {
    if (specs_[i].fixed) return {};
    const auto cut = [&](int r) {
      return std::clamp<Index>(total_ * r / comm_.size() - begins_[i], 0,
                               element_count(specs_[i].shape));
    };
    return {cut(rank), cut(rank + 1)};
  }
  Range mine(size_t i) const { return range(i, comm_.rank()); }
  Shape part_shape(size_t i) const {
    const Index n = mine(i).size();
    return specs_[i].shape.size() > 1 ? Shape{1, n} : Shape{n};
  }
  Short<int> order(size_t i) const {
    Short<int> order = specs_[i].layout;
    for (int d = order.size(); d < specs_[i].shape.size(); ++d) order.push_back(d);
    return order;
  }
  // A window.
  Tensor part_of(size_t i, const Tensor& x) const {
    const Tensor in_order = with_layout(x.detach(), order(i));
    return in_order.window(part_shape(i), row_major(part_shape(i)), mine(i).begin);
  }
  // Memory on the processor for all of a parameter, of which `part` is there.
  Tensor around(size_t i, const Tensor& part, Dtype dtype) const {
    const Shape& shape = specs_[i].shape;
    const Tensor whole = Tensor::empty_strided(shape, dense_strides(shape, order(i)), dtype);
    if (mine(i).size() > 0) {
      const std::span<std::byte> bytes = part.detach().to(cpu()).host_bytes();
      std::copy(bytes.begin(), bytes.end(), bytes_of(whole, mine(i)).begin());
    }
    return whole;
  }

  // All ranks' parts, as new values.
  void gather(Tensors& values, const Tensors& grads, const Tensors& parts) const {
    const auto memory = std::make_shared<Tensors>(values.size());
    std::vector<Message> out, in;
    const int ranks = comm_.size();
    for (size_t i = 0; i < values.size(); ++i) {
      if (specs_[i].fixed || !grads[i]) continue;
      const Tensor& whole = (*memory)[i] = around(i, parts[i], values[i].dtype());
      for (int k = 1; k < ranks; ++k) {
        const int to = (comm_.rank() + k) % ranks, from = (comm_.rank() + ranks - k) % ranks;
        if (mine(i).size() > 0) out.push_back({to, bytes_of(whole, mine(i))});
        if (range(i, from).size() > 0) in.push_back({from, bytes_of(whole, range(i, from))});
      }
    }
    comm_.exchange(std::move(out), std::move(in), memory);
    for (size_t i = 0; i < values.size(); ++i)
      if ((*memory)[i]) values[i] = (*memory)[i].to(values[i].backend());
  }
  // A tensor of the state, on rank 0; the others send it their parts.
  Tensor collected(size_t i) const {
    const Tensor part = state[i].value.detach().to(cpu());
    const size_t of = of_[i];
    if (comm_.rank() != 0) {
      if (mine(of).size() > 0)
        comm_.exchange({{0, part.host_bytes()}}, {}, std::make_shared<Tensor>(part));
      return {};
    }
    const auto whole = std::make_shared<Tensor>(around(of, part, part.dtype()));
    std::vector<Message> in;
    for (int r = 1; r < comm_.size(); ++r)
      if (range(of, r).size() > 0) in.push_back({r, bytes_of(*whole, range(of, r))});
    comm_.exchange({}, std::move(in), whole);
    return *whole;
  }

  Comm& comm_;
  std::vector<ParamSpec> specs_, parts_;
  Index total_ = 0;
  std::vector<Index> begins_;  // by parameter
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
