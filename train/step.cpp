#include "train/step.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/fused.hpp"
#include "core/update.hpp"
#include "train/stop.hpp"

namespace tete {

namespace {

struct NotFinite {
  Index nan = 0, infinite = 0;
};

NotFinite count_not_finite(const Tensor& x) {
  NotFinite count;
  for (double value : x.values<double>()) {
    count.nan += std::isnan(value);
    count.infinite += std::isinf(value);
  }
  return count;
}

// "'decoder/0/W', f32[2, 3]: 1 NaN and 2 infinities of 6"
std::string describe_not_finite(const std::string& name, const Tensor& x, const NotFinite& count) {
  return text("'", name, "', ", describe(x.dtype(), x.shape()), ": ", count.nan, " NaN and ",
              count.infinite, " infinities in ", x.size(), " numbers");
}
std::string describe_not_finite(const std::string& name, const Tensor& x) {
  return describe_not_finite(name, x, count_not_finite(x));
}

bool all_finite(const Tensor& x) {
  const auto squares = [&] { return sums_of_squares(std::span(&x, 1), x.backend()).values()[0]; };
  return !is_real(x.dtype()) || std::isfinite(squares()) || [&] {
    const auto [nan, infinite] = count_not_finite(x);
    return nan + infinite == 0;
  }();
}

}  // namespace

bool name_matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  for (size_t skipped = star; skipped <= name.size(); ++skipped)
    if (name_matches(pattern.substr(star + 1), name.substr(skipped))) return true;
  return false;
}

Stepper::Stepper(const Objective& objective, const Data& data, Optimizer& optimizer, Comm& comm,
                 const StepOptions& options)
    : objective_(objective),
      data_(data),
      optimizer_(optimizer),
      comm_(comm),
      options_(options),
      zero_so_far_(objective.params.size(), true) {
  if (options.batch < 1) bad_input("a step needs at least 1 sample, got ", options.batch);
  if (options.shards < 1 || options.shards > options.batch)
    bad_input("the batch of ", options.batch, " samples can be cut into 1 to ", options.batch,
              " shards, got ", options.shards);
  if (!(options.dropout >= 0 && options.dropout < 1))
    bad_input("the dropout rate must be at least 0 and below 1, got ", options.dropout);
  if (!(options.clip >= 0))
    bad_input("the gradient norm's limit must be 0 (none) or more, got ", options.clip);
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

static std::vector<double> lengths(const Tensors& xs) {
  std::vector<double> all =
      xs.empty() ? std::vector<double>() : sums_of_squares(xs, xs[0].backend()).values();
  for (double& x : all) x = std::sqrt(x);
  return all;
}

// Throws on all ranks if one has failed.
static void tell_all(Comm& comm, const std::exception_ptr& failed) {
  together(comm, [&] {
    if (failed) std::rethrow_exception(failed);
  });
}

// True if the exception that is handled says that another rank is lost.
static bool is_lost() {
  try {
    throw;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::peer;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::pair<StepResult, Stepper::Unsettled> Stepper::begin(int64_t step, Tensors& values, double rate,
                                                         bool with_norms) {
  if (unsettled_) unsettled_->sum.gather();
  // A rank whose shard fails takes part to the end, and then all know.
  std::exception_ptr failed;
  const auto leaf = [&](int g, const OnReady& ready) {
    try {
      if (!failed) return shard(step, g, values, ready);
    } catch (...) {
      // After half of an update there is no state to save.
      if (comm_.size() == 1 || is_lost() || (unsettled_ && unsettled_->is_updating)) throw;
      failed = std::current_exception();
      settle(values);
    }
    return ShardSum{Tensor::scalar(std::nan(""), Dtype::f64, values[0].backend()), 1,
                    Tensors(values.size())};
  };
  ArrivingSum sum(comm_, options_.shards, learned(values), leaf, options_.send,
                  optimizer_.division());
  const Tensors& grads = sum.total().grads;
  const auto numbers = sum.numbers();
  const std::vector<double>& squares = numbers.squares;
  const auto tokens = static_cast<double>(sum.total().tokens);
  StepResult result;
  result.tokens = sum.total().tokens;
  result.loss = numbers.loss / tokens;
  result.grad_norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / tokens;
  try {
    if (!std::isfinite(result.loss)) tell_all(comm_, failed);
    on_all_ranks([&] { check_severed(grads, squares, result.warnings); });
    if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
      sum.wait();
      on_all_ranks([&] { explain_not_finite(step, values, result.loss, grads); });
    }
  } catch (const Error&) {
    sum.wait();  // the ranks go on to save
    throw;
  }
  // The sum becomes a mean and is clipped in one go.
  const double factor = clip_factor(result.grad_norm, options_.clip);
  result.grad_norm_clipped = result.grad_norm * factor;
  if (with_norms)
    for (double square : squares) result.norms.push_back({.gradient = std::sqrt(square) / tokens});
  return {result, Unsettled{std::move(sum), step, rate, factor / tokens}};
}

StepResult Stepper::run(int64_t step, Tensors& values, double rate, bool with_norms) {
  auto [result, left] = begin(step, values, rate, with_norms);
  const Tensors before = with_norms ? values : Tensors();
  update(values, left);
  if (!with_norms) return result;
  Tensors updates;
  for (size_t i = 0; i < values.size(); ++i) updates.push_back(values[i] - before[i]);
  const std::vector<double> of_values = lengths(before), of_updates = lengths(updates);
  for (size_t i = 0; i < values.size(); ++i)
    result.norms[i].value = of_values[i], result.norms[i].update = of_updates[i];
  return result;
}

StepResult Stepper::run_ahead(int64_t step, Tensors& values, double rate) {
  if (comm_.size() == 1 || optimizer_.division()) return run(step, values, rate);
  auto [result, left] = begin(step, values, rate, /*with_norms=*/false);
  unsettled_.emplace(std::move(left));
  return result;
}

void Stepper::update(Tensors& values, Unsettled& left) {
  Tensors grads;
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor g = left.sum.take(i);
    grads.push_back(g ? g * left.factor : g);
  }
  left.sum.wait();
  optimizer_.update(objective_.params.specs(), values, grads, left.rate, left.step);
}

void Stepper::settle(Tensors& values) {
  if (!unsettled_) return;
  for (size_t i = 0; i < values.size(); ++i) settle(values, i);
  unsettled_->sum.wait();
  unsettled_.reset();
}

// Works in place: the forward pass that waits for the value has this tensor already. A gradient
// that is not there never was, or is settled.
void Stepper::settle(Tensors& values, size_t parameter) {
  if (!unsettled_) return;
  Unsettled& left = *unsettled_;
  Tensors grads(values.size());
  grads[parameter] = left.sum.take(parameter);
  if (!grads[parameter]) return;
  left.is_updating = true;
  grads[parameter] = grads[parameter] * left.factor;
  const Tensor old = values[parameter];
  optimizer_.update(objective_.params.specs(), values, grads, left.rate, left.step);
  copy_onto(std::exchange(values[parameter], old), old);
  left.is_updating = false;
}

LossSum Stepper::forward(int64_t step, int shard, Forward forward) const {
  const Index begin = options_.batch * shard / options_.shards;
  const Index end = options_.batch * (shard + 1) / options_.shards;
  const Key key(options_.seed);
  const Batch batch = data_.batch(key.fold("data"), step * options_.batch + begin, end - begin);
  forward.training = true;
  forward.dropout = options_.dropout;
  forward.key = key.fold("noise").fold(step);
  forward.first_sample = batch.first_sample;
  forward.products = options_.products;
  forward.recompute_blocks = options_.recompute_blocks;
  return objective_.loss(forward, batch);
}

Tensors Stepper::learned(const Tensors& values) const {
  Tensors learned = values;
  for (int i = 0; i < objective_.params.size(); ++i)
    if (objective_.params.specs()[i].fixed) learned[i] = Tensor();
  return learned;
}

ShardSum Stepper::shard(int64_t step, int shard, Tensors& values, const OnReady& ready) {
  Tensors params, learned;
  std::vector<size_t> places;
  for (int i = 0; i < objective_.params.size(); ++i) {
    const bool fixed = objective_.params.specs()[i].fixed;
    params.push_back(fixed ? values[i].detach() : values[i].variable());
    if (!fixed) learned.push_back(params.back()), places.push_back(i);
  }
  Forward hooked{.params = params};
  if (unsettled_)
    hooked.before_read = [&](ParamId id) { settle(values, static_cast<size_t>(id.index)); };
  const LossSum loss = forward(step, shard, hooked);
  settle(values);
  if (loss.tokens < 1) bad_input("a shard of step ", step + 1, " has no token to learn from");
  GradOptions options;
  if (ready) options.on_ready = [&](size_t i, const Tensor& g) { ready(places[i], g.detach()); };
  const Tensors found = grad(loss.sum, learned, options);
  ShardSum sum{cast(loss.sum.detach(), Dtype::f64), loss.tokens, {}};
  auto next = found.begin();
  for (int i = 0; i < objective_.params.size(); ++i) {
    const Tensor g = objective_.params.specs()[i].fixed ? Tensor() : *next++;
    // One layout for all ranks, so that norms add in the same order on each.
    sum.grads.push_back(g ? laid_out_like(g, values[i]) : g);
  }
  return sum;
}

void Stepper::check_severed(const Tensors& grads, const std::vector<double>& squares,
                            std::vector<std::string>& warnings) {
  if (steps_run_ > max_zero_steps) return;
  std::vector<std::string> missing, zero;
  for (int i = 0; i < objective_.params.size(); ++i) {
    const ParamSpec& spec = objective_.params.specs()[i];
    const auto& allowed = options_.allow_zero_grad;
    if (spec.fixed || std::any_of(allowed.begin(), allowed.end(), [&](const std::string& pattern) {
          return name_matches(pattern, spec.name);
        }))
      continue;
    const std::string name = "'" + spec.name + "'";
    if (!grads[i]) missing.push_back(name);
    zero_so_far_[i] = zero_so_far_[i] && grads[i] && squares[i] == 0;
    if (zero_so_far_[i]) zero.push_back(name);
  }
  if (!missing.empty())
    bad_input("no gradient reaches ", list_of(missing),
              ": the loss does not depend on it. Mark it as fixed, or allow it by name "
              "(--allow-zero-grad)");
  if (!zero.empty() && steps_run_ == max_zero_steps)
    bad_input("the gradient of ", list_of(zero), " was exactly zero in each of the first ",
              max_zero_steps + 1,
              " steps. Mark it as fixed, or allow it by name (--allow-zero-grad)");
  if (!zero.empty() && steps_run_ == 0)
    warnings.push_back("the gradient of " + list_of(zero) + " is exactly zero in the first step");
  ++steps_run_;
}

std::string Stepper::first_not_finite(int64_t step, const Tensors& values) const {
  std::string first;
  Forward hooked{.params = values};
  hooked.watch = [&](const std::string& path, const Tensor& value) {
    if (first.empty() && !all_finite(value)) first = describe_not_finite(path, value);
  };
  const int end = first_shard(comm_.rank() + 1, comm_.size(), options_.shards);
  for (int g = first_shard(comm_.rank(), comm_.size(), options_.shards); g < end; ++g)
    if (first.empty()) forward(step, g, hooked);
  const std::vector<std::string> all = comm_.all_gather(first);
  for (int r = 0; r < comm_.size(); ++r)
    if (const std::string& found = all[static_cast<size_t>(r)]; !found.empty())
      return comm_.size() == 1 ? found : found + " on " + comm_.name_of(r);
  return "";
}

void Stepper::explain_not_finite(int64_t step, const Tensors& values, double loss,
                                 const Tensors& grads) const {
  const std::vector<ParamSpec>& specs = objective_.params.specs();
  std::string what;
  for (size_t i = 0; i < specs.size() && what.empty(); ++i)
    if (!all_finite(values[i]))
      what = "before it, the parameter " + describe_not_finite(specs[i].name, values[i]);
  for (size_t i = 0; i < specs.size() && what.empty() && std::isfinite(loss); ++i) {
    if (!grads[i]) continue;
    NotFinite count = count_not_finite(grads[i]);
    if (optimizer_.division()) {
      const std::vector<NotFinite> all = comm_.all_gather(std::exchange(count, {}));
      for (const NotFinite& part : all) count.nan += part.nan, count.infinite += part.infinite;
    }
    if (count.nan + count.infinite > 0)
      what = text("the loss is ", loss, ", but the gradient of ",
                  describe_not_finite(specs[i].name, values[i], count));
  }
  const std::string first = first_not_finite(step, values);
  if (!first.empty())
    what += (what.empty() ? "" : "; ") + ("the first value that is not finite is " + first);
  if (what.empty()) what = text("the loss is ", loss, ", the gradient too large to have a norm");
  fail(ErrorKind::numbers, "the numbers went wrong in step ", step + 1, ": ", what);
}

// The findings of a rank in one batch of a validation.
struct BatchFound {
  double loss = 0;
  int64_t tokens = 0, counts = 0, right_tokens = 0, right_samples = 0;
  int64_t stop = 0;    // nonzero: it was asked to stop
  int64_t failed = 0;  // nonzero: it cannot tell

  void add(const BatchFound& other) {
    loss += other.loss, tokens += other.tokens, counts |= other.counts;
    right_tokens += other.right_tokens, right_samples += other.right_samples;
    stop |= other.stop, failed |= other.failed;
  }
};

static BatchFound found_in(const LossSum& loss) {
  BatchFound found{loss.sum.item(), loss.tokens};
  if (loss.right)
    found.counts = 1, found.right_tokens = loss.right->tokens,
    found.right_samples = loss.right->samples;
  return found;
}

std::optional<Validation> validate(const Objective& objective, const Tensors& values,
                                   const Data& data, Index samples, Index batch, Comm& comm) {
  if (samples < 1 || batch < 1)
    bad_input("validation needs at least 1 sample in batches of at least 1, got ", samples, " and ",
              batch);
  Tensors params;
  for (const Tensor& value : values) params.push_back(value.detach());
  const Forward forward{.params = params};
  const Key key = Key(0).fold("validation");  // whatever the seed: runs can be compared
  BatchFound sum;
  for (Index turn = 0; turn < samples; turn += comm.size() * batch) {
    if (sum.stop) return {};
    BatchFound mine;
    std::exception_ptr failed;
    try {
      if (const Index first = turn + comm.rank() * batch; first < samples)
        mine = found_in(objective.loss(
            forward, data.validation_batch(key, first, std::min(batch, samples - first))));
    } catch (const Error&) {
      failed = std::current_exception(), mine.failed = 1;
    }
    mine.stop = StopSignals::requested();
    for (const BatchFound& of_rank : comm.all_gather(mine)) sum.add(of_rank);
    if (sum.failed) tell_all(comm, failed);
  }
  Validation validation{.loss = sum.loss / static_cast<double>(sum.tokens)};
  if (sum.counts) {
    validation.accuracy = static_cast<double>(sum.right_tokens) / static_cast<double>(sum.tokens);
    validation.exact_match = static_cast<double>(sum.right_samples) / static_cast<double>(samples);
  }
  return validation;
}

}  // namespace tete
