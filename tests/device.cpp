// Whatever is computed on a device goes through the Backend: on a device whose memory the host
// cannot touch, operations, attention and their gradients give the processor's bits.
#include <sys/wait.h>

#include <csignal>

#include "core/check/samples.hpp"
#include "nn/transformer.hpp"
#include "tests/error_of.hpp"
#include "tests/layer.hpp"
#include "tests/strict_device.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

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
      const std::string said = error_of(Kind::input, mix);
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

  TEST_CASE("a language model's loss and gradients are the processor's on it, bit for bit") {
    StrictDevice device;
    const LanguageModelConfig config{
        .vocabulary = 11, .context = 8, .d_model = 12, .layers = 2, .block = {}};
    const LanguageModel model(config, [](const Scope& scope, int) -> AttentionSite {
      const Attention attention(scope, load_attention("talking_heads"),
                                {.d_model = 12, .heads = 3});
      return [attention, path = scope.path](const Forward& forward, const Tensor& X,
                                            const Tensor& M, const Tensor&) {
        return attention(forward, path, X, M, {.causal = true});
      };
    });
    const Tensor tokens = Tensor::of<int64_t>({2, 5}, {1, 2, 3, 4, 5, /**/ 6, 7, 8, 9, 10});
    const Tensor targets = Tensor::of<int64_t>({2, 5}, {2, 3, 4, 5, -1, /**/ 7, 8, 9, 10, 0});
    const auto loss = [&](const Tensors& params) {
      Backend& where = params[0].backend();
      const Forward forward{.params = params, .training = true, .dropout = 0.1, .key = Key(3)};
      return model.loss(forward, tokens.to(where), targets.to(where)).sum;
    };
    const Tensors values = model.params().initial_values(Key(1), Dtype::f32);
    check_same(outcome(loss, on(device, values)), outcome(loss, values));
  }
}
