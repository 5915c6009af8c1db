// Whatever is computed on a device goes through the Backend: on a device whose memory the host
// cannot touch, operations, attention and their gradients give the processor's bits.
#include <sys/wait.h>

#include <csignal>

#include "core/check/compared_device.hpp"
#include "core/check/samples.hpp"
#include "nn/run.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/named_model.hpp"
#include "tests/strict_device.hpp"
#include "train/step.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// The strict device with one operation or kernel whose first number is wrong.
class PlantedDevice final : public StrictDevice {
 public:
  explicit PlantedDevice(std::string wrong) : wrong_(std::move(wrong)) {}

#define OPERATION(name, parameters, arguments)  \
  void name parameters override {               \
    StrictDevice::name arguments;               \
    spoil(#name, views_of(std::tie arguments)); \
  }
#include "core/operations.def"
#undef OPERATION
#define KERNEL(name, parameters, arguments)                 \
  bool name parameters override {                           \
    const bool has = StrictDevice::name arguments;          \
    return spoil(#name, views_of(std::tie arguments)), has; \
  }
#include "core/kernels.def"
#undef KERNEL

 private:
  void spoil(std::string_view call, const std::vector<View>& views) {
    if (call == wrong_) StrictDevice::fill(7, {views.back().dtype, {}, {}, views.back().data});
  }
  std::string wrong_;
};

struct Outcome {
  Tensor y;
  Tensors gradients;
};

Tensors on(Backend& device, const Tensors& xs) {
  Tensors moved;
  for (const Tensor& x : xs) moved.push_back(x ? x.to(device) : x);
  return moved;
}

// f of variables, and the gradients of Σ f · (1, 2, …)/size, so that no two entries count alike.
Outcome outcome(const std::function<Tensor(const Tensors&)>& f, const Tensors& at) {
  Tensors leaves, asked;
  for (const Tensor& x : at) {
    leaves.push_back(x && is_real(x.dtype()) ? x.variable() : x);
    if (x && is_real(x.dtype())) asked.push_back(leaves.back());
  }
  const Tensor y = f(leaves);
  if (!y.tracked()) return {y, {}};
  const Tensor weights =
      reshape((arange(y.size(), y.dtype(), y.backend()) + 1.0) / static_cast<double>(1 + y.size()),
              y.shape());
  return {y, grad(y, asked, {.cotangent = weights})};
}

void check_same(const Outcome& a, const Outcome& b) {
  CHECK(same_bits(a.y, b.y));
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    REQUIRE(static_cast<bool>(a.gradients[i]) == static_cast<bool>(b.gradients[i]));
    if (a.gradients[i]) CHECK(same_bits(a.gradients[i], b.gradients[i]));
  }
}

Model small_model(const std::string& variant) {
  SizesByName sizes = sizes_for(variant).dims;
  sizes["v"] = 11, sizes["max_n"] = 8, sizes["d_X"] = 12, sizes["l"] = 2, sizes["h"] = 3;
  return {filled_text("language_model", {"Attention=" + variant}), sizes};
}

class SomeTokens : public Data {
 public:
  Batch batch(Key key, Index first, Index count) const override {
    std::vector<int64_t> tokens;
    for (Index i = 0; i < 8 * count; ++i)
      tokens.push_back(static_cast<int64_t>(uniform_below(key, 8 * first + i, 11)));
    const Tensor all = Tensor::of<int64_t>({count, 8}, tokens);
    return {slice(all, 1, 0, 7), slice(all, 1, 1, 7), first};
  }
  Batch validation_batch(Key key, Index first, Index count) const override {
    return batch(key, first, count);
  }
  const std::string& fingerprint() const override { return name_; }

 private:
  std::string name_ = "some";
};

// Three steps, and how often each read from the device.
struct Trace {
  std::vector<double> losses = {}, norms = {};
  Tensors values = {};
  std::vector<int64_t> reads = {};
};
Trace trained(const Model& model, const char* optimizer, Backend& on,
              const std::function<int64_t()>& reads) {
  const ParamList& params = model.params();
  const Objective objective{params, [&](const Forward& forward, const Batch& batch) -> LossSum {
                              const Loss loss =
                                  model.loss(forward, {.X = batch.input}, batch.target);
                              return {loss.sum, loss.tokens};
                            }};
  const auto rule = find_optimizer(optimizer).make(params.specs(), Dtype::f32, on);
  const SomeTokens data;
  Stepper stepper(objective, data, *rule, single_process(),
                  {.batch = 4, .shards = 2, .clip = 0.1, .dropout = 0.1, .allow_zero_grad = {"*"}});
  Trace trace{.values = params.initial_values(Key(1), Dtype::f32, on)};
  for (int64_t step = 0; step < 3; ++step) {
    const int64_t before = reads ? reads() : 0;
    const StepResult result = stepper.run(step, trace.values, 0.01);
    if (reads) trace.reads.push_back(reads() - before);
    trace.losses.push_back(result.loss), trace.norms.push_back(result.grad_norm);
  }
  return trace;
}

void check_same(const Trace& a, const Trace& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.norms == b.norms);
  for (size_t i = 0; i < a.values.size(); ++i) CHECK(same_bits(a.values[i], b.values[i]));
}

void check_close(const Trace& a, const Trace& b) {
  for (size_t i = 0; i < a.losses.size(); ++i)
    CHECK(a.losses[i] == doctest::Approx(b.losses[i]).epsilon(1e-4));
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("a host loop over a device's memory dies") {
    StrictDevice device;
    const Tensor x = Tensor::ones({3}, Dtype::f32, device);
    CHECK(x.values() == std::vector<double>{1, 1, 1});
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      const volatile float* const first = x.view().as<float>();
      _exit(first[0] == 1 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGSEGV);
  }

  TEST_CASE("a tensor goes to a device and back, and so does its gradient") {
    StrictDevice device;
    const Tensor x = noise({3, 5}, 1).variable();
    const Tensor there = permute(x, {1, 0}).to(device);
    CHECK(&there.backend() == &device);
    CHECK(there.to(device).same(there));
    CHECK(same_bits(there.to(cpu()), permute(x, {1, 0})));
    const Tensor g = grad(sum(square(there)), Tensors{x})[0];
    CHECK(&g.backend() == &cpu());
    CHECK(same_bits(g, x * 2.0));
    const Tensor whole = Tensor::of<int64_t>({2}, {7, -7});
    CHECK(whole.to(device).values<int64_t>() == std::vector<int64_t>{7, -7});
    CHECK(same_bits(Tensor::zeros({0, 3}).to(device), Tensor::zeros({0, 3})));
  }

  TEST_CASE("tensors of two devices are an error that names both") {
    StrictDevice device;
    const Tensor here = noise({2, 2}, 1), there = noise({2, 2}, 2).to(device);
    for (const auto& mix : std::vector<std::function<void()>>{
             [&] { here + there; }, [&] { einsum("i k, k j -> i j", there, here); },
             [&] { softmax(here, 1, there); }, [&] { select(there, here, here); },
             [&] {
               concat({here, there}, 0);
             },
             [&] {
               gather("t [v], t -> t", there, Tensor::of<int64_t>({2}, {0, 1}));
             }}) {
      const std::string said = error_of(ErrorKind::input, mix);
      CAPTURE(said);
      CHECK(said.find("expected tensors on one device, got ") != std::string::npos);
      CHECK(said.find("on 'cpu'") != std::string::npos);
      CHECK(said.find("on 'strict'") != std::string::npos);
    }
  }

  TEST_CASE("every operation gives the processor's bits on it, and so does its gradient") {
    StrictDevice device;
    for (const Sample& sample : op_samples())
      for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
        CAPTURE(sample.name);
        CAPTURE(name_of(dtype));
        const Tensors inputs = sample.inputs(dtype), there = on(device, inputs);
        const Outcome made = outcome(sample.apply, there);
        CHECK(&made.y.backend() == &device);
        // A copy is dense: so are the inputs that it is compared with.
        check_same(made, outcome(sample.apply, on(cpu(), there)));
      }
  }

  TEST_CASE("without fused kernels every operation is computed as its meaning") {
    StrictDevice device(/*fused=*/false);
    for (const Sample& sample : op_samples()) {
      CAPTURE(sample.name);
      const Tensors inputs = sample.inputs(Dtype::f64);
      const Outcome here = outcome(sample.apply, inputs),
                    there = outcome(sample.apply, on(device, inputs));
      CHECK(difference(there.y, here.y) < 1e-9);
      REQUIRE(there.gradients.size() == here.gradients.size());
      for (size_t i = 0; i < here.gradients.size(); ++i)
        if (here.gradients[i] && there.gradients[i])
          CHECK(difference(there.gradients[i], here.gradients[i]) < 1e-9);
    }
  }

  TEST_CASE(
      "attention gives the processor's bits on it: values and gradients, whole and in tiles") {
    StrictDevice device;
    for (const Variant& variant : variants()) {
      CAPTURE(variant.name);
      const Layer layer(variant.name, sizes_for(variant.name), Dtype::f32);
      Tensors inputs = layer.values;
      inputs.push_back(noise({2, 7, 12}, 5, Dtype::f32));
      for (const bool causal : {false, true})
        for (const Tiling& tiling :
             {Tiling{.allowed = false}, Tiling{.queries = 3, .samples = 1}}) {
          if (causal && (!layer.program->takes_mask || !layer.program->leak.empty())) continue;
          const auto run = [&](const Tensors& at) {
            const Tensors params(at.begin(), at.end() - 1);
            const Forward forward{.params = params, .tiling = tiling};
            return layer.attention(forward, "", at.back(), at.back(), {.causal = causal});
          };
          check_same(outcome(run, on(device, inputs)), outcome(run, inputs));
        }
    }
  }

  TEST_CASE("training steps on it have the processor's bits and read one small tensor each") {
    for (const Variant& variant : variants()) {
      if (!is_causal(*load_attention(variant.name))) continue;
      CAPTURE(variant.name);
      const Model model = small_model(variant.name);
      for (const char* optimizer : {"adam", "adafactor"})
        for (const bool fused : {true, false}) {
          if (!fused && std::string_view(variant.name) != "talking_heads") continue;
          StrictDevice device(fused);
          const Trace here = trained(model, optimizer, cpu(), {}),
                      there = trained(model, optimizer, device, [&] { return device.reads; });
          CHECK(there.reads == std::vector<int64_t>{1, 1, 1});
          if (fused) check_same(there, here);
          else check_close(there, here);
        }
    }
  }

  TEST_CASE("each operation of a step is compared, and one that is wrong is found and named") {
    const Model model = small_model("talking_heads");
    const auto found_with = [&](const char* wrong, const char* optimizer) {
      PlantedDevice device(wrong);
      ComparedDevice compared(device);
      const Trace trace = trained(model, optimizer, compared, {});
      if (std::string_view(wrong).empty()) check_same(trace, trained(model, optimizer, cpu(), {}));
      return compared.findings();
    };
    for (const char* optimizer : {"adam", "adafactor"}) {
      const ComparedDevice::Findings none = found_with("", optimizer);
      CAPTURE(none.worst_call);
      CHECK(none.wrong == 0);
      CHECK(none.worst < 1e-5);
      CHECK(none.calls > 300);
    }
    for (const char* wrong : {"contract", "fold", "unary", "binary", "copy", "gather", "scatter",
                              "softmax", "softmax_gradient", "norm_gradient", "accumulate",
                              "cross_entropy", "dropout", "adam", "sum_of_squares"}) {
      CAPTURE(wrong);
      const ComparedDevice::Findings found = found_with(wrong, "adam");
      CAPTURE(found.worst_call);
      CHECK(found.wrong > 0);
      CHECK(found.wrong < found.calls / 2);
      CHECK(found.worst_call.find(wrong) == 0);
    }
  }

  TEST_CASE("a position outside a table is told with the next read") {
    StrictDevice device;
    const Tensor table = noise({3, 2}, 1).to(device), at = Tensor::of<int64_t>({2}, {2, 3}, device);
    const Tensor y = gather("[v] d, n -> n d", table, at);
    CHECK(error_of(ErrorKind::input, [&] { y.values(); }) ==
          "gather: position 3 (element 1 of the index) is outside a dimension of size 3");
    CHECK(table.values().size() == 6);
  }

  TEST_CASE("top_k and one_hot are the processor's on it") {
    StrictDevice device;
    const Tensor x = noise({3, 7, 2}, 4), there = x.to(device);
    for (int axis : {0, 1, 2})
      CHECK(top_k(there, axis, 2).values<int64_t>() == top_k(x, axis, 2).values<int64_t>());
    const Tensor ids = Tensor::of<int64_t>({2, 2}, {0, 4, 3, 1});
    CHECK(same_bits(one_hot(ids.to(device), 5, Dtype::f32), one_hot(ids, 5, Dtype::f32)));
  }

  TEST_CASE("decoding on it gives the processor's logits") {
    StrictDevice device;
    for (const char* name : {"multi_head", "talking_heads", "multi_query"}) {
      CAPTURE(name);
      const Model model = small_model(name);
      const auto logits = [&](Backend& on) {
        const Tensors params = model.params().initial_values(Key(1), Dtype::f32, on);
        const Forward forward{.params = params};
        Decoding decoding;
        Tensors all;
        for (const auto& piece : {std::vector<int64_t>{1, 2, 3}, {4}, {5, 6}}) {
          const Shape shape{1, std::ssize(piece)};
          all.push_back(
              model.next_logits(forward, {.X = Tensor::of<int64_t>(shape, piece)}, decoding));
        }
        return all;
      };
      const Tensors here = logits(cpu()), there = logits(device);
      for (size_t i = 0; i < here.size(); ++i) CHECK(same_bits(there[i], here[i]));
    }
  }

  TEST_CASE("a text on tensors by name gives the processor's values and gradients on it") {
    StrictDevice device;
    const Layer layer("talking_heads", sizes_for("talking_heads"), Dtype::f32);
    const auto outcome_of = [&](Backend& on) {
      TensorsByName tensors{{"X", noise({2, 5, 12}, 1, Dtype::f32).to(on).variable()},
                            {"M", noise({2, 7, 12}, 2, Dtype::f32).to(on).variable()}};
      for (size_t i = 0; i < layer.values.size(); ++i)
        tensors[layer.list.specs()[i].name] = layer.values[i].to(on);
      Evaluation evaluation(layer.program, tensors, {.mask = {.causal = true}});
      const Tensor y = evaluation.value(layer.program->result);
      return Outcome{y, grad(y, Tensors{tensors["X"], tensors["M"]})};
    };
    check_same(outcome_of(device), outcome_of(cpu()));
  }

  TEST_CASE("a language model's loss and gradients are the processor's on it, bit for bit") {
    StrictDevice device;
    const Model model = small_model("talking_heads");
    const Tensor tokens = Tensor::of<int64_t>({2, 5}, {1, 2, 3, 4, 5, /**/ 6, 7, 8, 9, 10});
    const Tensor targets = Tensor::of<int64_t>({2, 5}, {2, 3, 4, 5, -1, /**/ 7, 8, 9, 10, 0});
    const auto loss = [&](const Tensors& params) {
      Backend& where = params[0].backend();
      const Forward forward{.params = params, .training = true, .dropout = 0.1, .key = Key(3)};
      return model.loss(forward, {.X = tokens.to(where)}, targets.to(where)).sum;
    };
    const Tensors values = model.params().initial_values(Key(1), Dtype::f32);
    check_same(outcome(loss, on(device, values)), outcome(loss, values));
  }
}
