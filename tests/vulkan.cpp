// The Vulkan device: every operation against the processor, on every kind of layout, under the
// validation layer; training, chance and determinism. tests/vulkan.sh runs these cases; where there
// is no device they say so.
#include "core/vulkan/vulkan.hpp"
#include "core/check/compared_device.hpp"
#include "core/check/samples.hpp"
#include "core/fused.hpp"
#include "nn/run.hpp"
#include "tests/error_of.hpp"
#include "tests/inspect.hpp"
#include "tests/layer.hpp"
#include "tests/named_model.hpp"
#include "tests/strict_device.hpp"
#include "train/safetensors.hpp"
#include "train/step.hpp"

using namespace tete;
using namespace tete::tests;

namespace {

// The number of Mesa's emulation, which is there for tests, or of the last device; -1: there is
// none.
int number_of_card() {
  const std::vector<Found> all = vulkan::found();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name.find("llvmpipe") != std::string::npos) return static_cast<int>(i);
  return static_cast<int>(all.size()) - 1;
}
std::unique_ptr<vulkan::Card> open_card(const vulkan::Options& options = {}) {
  // Newer validation layers follow what shaders read and write only where they are told to.
  setenv("VK_KHRONOS_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "true", /*overwrite=*/0);
  const int number = number_of_card();
  if (number < 0) MESSAGE("not tested: there is no Vulkan device here");
  return number < 0 ? nullptr : vulkan::open(std::to_string(number), options);
}
// One for all cases, under validation where that is installed. It is never closed: when the program
// ends, the layer may be gone before.
vulkan::Card* card() {
  static vulkan::Card* const only = open_card({.validates = vulkan::can_validate()}).release();
  return only;
}
// No case may leave a message behind.
void check_silent(const vulkan::Card& device) {
  const vulkan::Said said = device.said();
  INFO(list_of(said.first));
  CHECK(said.messages == 0);
}

// ---- Layouts ----

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// A place for x's numbers in a larger tensor of NaN, with room between them: what is read or
// written beside them shows.
struct Apart {
  Tensor whole, hole;
};
Apart apart(const Shape& shape, Dtype dtype, Backend& on) {
  Shape wide = shape;
  for (Index& size : wide) size = 2 * size + 3;
  Tensor whole = Tensor::full(wide, dtype == Dtype::i64 ? -1 : nothing, dtype, on);
  Strides strides = whole.strides();
  Index first = 0;
  for (int d = 0; d < shape.size(); ++d) first += strides[d], strides[d] *= 2;
  return {whole, whole.window(shape, strides, first)};
}
// The same numbers with dimensions in the opposite order in memory.
Tensor turned(const Tensor& x) {
  Axes order;
  for (int d = x.rank() - 1; d >= 0; --d) order.push_back(d);
  return permute(x, order);
}

enum class Layout { dense, apart, turned };
Tensor placed(const Tensor& x, Layout layout, Backend& on) {
  if (!x || layout == Layout::dense) return x ? x.to(on) : x;
  if (layout == Layout::turned) {
    const Tensor y = turned(x.to(on)), made = Tensor::empty(y.shape(), y.dtype(), on);
    copy_onto(y, made);
    return turned(made);
  }
  const Apart made = apart(x.shape(), x.dtype(), on);
  copy_onto(x.to(on), made.hole);
  return made.hole;
}

// ---- Comparisons ----

// |a - b| / |b|; a norm below 1 counts as 1.
double apart_by(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.values(), y = b.values();
  REQUIRE(x.size() == y.size());
  double sum = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    sum += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  return std::sqrt(sum) / std::max(1.0, std::sqrt(norm));
}
double allowed(Dtype dtype) { return dtype == Dtype::f32 ? 1e-5 : 1e-12; }

struct Outcome {
  Tensor y;
  Tensors gradients;
};
Outcome outcome(const Sample& sample, const Tensors& at) {
  Tensors leaves, asked;
  for (const Tensor& x : at) {
    leaves.push_back(x && is_real(x.dtype()) ? x.detach().variable() : x);
    if (x && is_real(x.dtype())) asked.push_back(leaves.back());
  }
  const Tensor y = sample.apply(leaves);
  if (!y.tracked()) return {y, {}};
  const Tensor weights =
      reshape((arange(y.size(), y.dtype(), y.backend()) + 1.0) / static_cast<double>(1 + y.size()),
              y.shape());
  return {y, grad(y, asked, {.cotangent = weights})};
}

void check_sample(const Sample& sample, Dtype dtype, Layout layout, Backend& on) {
  CAPTURE(sample.name);
  CAPTURE(name_of(dtype));
  CAPTURE(static_cast<int>(layout));
  Tensors there, here;
  for (const Tensor& x : sample.inputs(dtype)) {
    there.push_back(placed(x, layout, on));
    here.push_back(x);
  }
  const Outcome made = outcome(sample, there), expected = outcome(sample, here);
  CHECK(&made.y.backend() == &on);
  CHECK(apart_by(made.y, expected.y) < allowed(dtype));
  REQUIRE(made.gradients.size() == expected.gradients.size());
  for (size_t i = 0; i < made.gradients.size(); ++i)
    if (made.gradients[i] && expected.gradients[i])
      CHECK(apart_by(made.gradients[i], expected.gradients[i]) < allowed(dtype));
}

// ---- Training ----

Model small_model(const std::string& variant) {
  SizesByName sizes = sizes_for(variant).dims;
  sizes["v"] = 11, sizes["max_n"] = 8, sizes["d_X"] = 12, sizes["l"] = 1, sizes["h"] = 3;
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

struct Trace {
  std::vector<double> losses = {};
  std::vector<int64_t> reads = {};
  Tensors values = {};
};
Trace trained(const Model& model, const char* optimizer, Backend& on, int steps,
              Products products = Products::full) {
  const ParamList& params = model.params();
  const Objective objective{params, [&](const Forward& forward, const Batch& batch) -> LossSum {
                              const Loss loss =
                                  model.loss(forward, {.X = batch.input}, batch.target);
                              return {loss.sum, loss.tokens};
                            }};
  const auto rule = find_optimizer(optimizer).make(params.specs(), Dtype::f32, on);
  const SomeTokens data;
  Stepper stepper(objective, data, *rule, single_process(),
                  {.batch = 4,
                   .shards = 2,
                   .clip = 0.1,
                   .dropout = 0.1,
                   .products = products,
                   .allow_zero_grad = {"*"}});
  Trace trace{.values = params.initial_values(Key(1), Dtype::f32, on)};
  const auto* const device = dynamic_cast<const Accelerator*>(&on);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t before = device ? device->counts().reads : 0;
    trace.losses.push_back(stepper.run(step, trace.values, 0.01).loss);
    if (device) trace.reads.push_back(device->counts().reads - before);
  }
  return trace;
}
void check_close(const Trace& a, const Trace& b, double share) {
  for (size_t i = 0; i < a.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(a.losses[i] == doctest::Approx(b.losses[i]).epsilon(share));
  }
}

}  // namespace

TEST_SUITE("vulkan") {
  TEST_CASE("every operation and its gradient agree with the processor, on every layout") {
    if (!card()) return;
    for (const Sample& sample : op_samples())
      for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        // Samples have views of their own; a copy on the device is dense, so it is laid out there.
        for (const Layout layout : {Layout::dense, Layout::apart, Layout::turned}) {
          if (dtype == Dtype::f64 && layout != Layout::apart) continue;
          check_sample(sample, dtype, layout, *card());
        }
      }
    check_silent(*card());
  }

  TEST_CASE("kernels write what is theirs and nothing beside it") {
    if (!card()) return;
    Backend& on = *card();
    const Shape shape{5, 7, 3};
    const Tensor x = noise(shape, 1, Dtype::f32), there = x.to(on);
    const Tensor index = Tensor::of<int64_t>({5}, {4, 0, 2, 2, 6}).to(on);
    const Labels nmd{0, 1, 2}, nd{0, 2}, n{0};
    struct Row {
      const char* name;
      Shape result;
      std::function<void(Backend&, const View&, const View&)> run;  // the input, then the result
    };
    const std::vector<Row> rows{
        {"copy", shape, [](Backend& b, const View& x, const View& y) { b.copy(x, y); }},
        {"fill", shape, [](Backend& b, const View&, const View& y) { b.fill(3, y); }},
        {"exp", shape, [](Backend& b, const View& x, const View& y) { b.unary(Unary::exp, x, y); }},
        {"add", shape,
         [](Backend& b, const View& x, const View& y) { b.binary(Binary::add, x, x, y); }},
        {"sum",
         {5, 1, 3},
         [](Backend& b, const View& x, const View& y) { b.fold(Fold::sum, x, y); }},
        {"max",
         {1, 7, 1},
         [](Backend& b, const View& x, const View& y) { b.fold(Fold::max, x, y); }},
        {"contract",
         {5, 5},
         [](Backend& b, const View& x, const View& y) {
           b.contract(x, {0, 1, 2}, x, {3, 1, 2}, y, {0, 3});
         }},
        {"batched",
         {7, 5, 5},
         [](Backend& b, const View& x, const View& y) {
           b.contract(x, {0, 1, 2}, x, {3, 1, 2}, y, {1, 0, 3});
         }},
        {"softmax", shape,
         [](Backend& b, const View& x, const View& y) { CHECK(b.softmax(x, {}, 1, y)); }},
        {"uniform", shape,
         [](Backend& b, const View&, const View& y) { b.uniform(7, 1ull << 32, y); }},
        {"dropout", shape,
         [](Backend& b, const View& x, const View& y) { CHECK(b.dropout(x, 0.3, 7, 5, y)); }},
    };
    for (const Row& row : rows) {
      CAPTURE(row.name);
      const Apart made = apart(row.result, Dtype::f32, on);
      const Tensor expected = Tensor::empty(row.result);
      row.run(on, there.view(), made.hole.view());
      row.run(cpu(), x.view(), expected.view());
      CHECK(apart_by(made.hole, expected) < 1e-5);
      Index written = 0;
      for (double each : made.whole.values()) written += !std::isnan(each);
      CHECK(written == expected.size());
    }
    const Apart gathered = apart({5, 3}, Dtype::f32, on);
    on.gather(there.view(), nmd, index.view(), n, 1, gathered.hole.view(), nd);
    CHECK(same_bits(gathered.hole.to(cpu()), gather("n [m] d, n -> n d", x, index.to(cpu()))));
    Index written = 0;
    for (double each : gathered.whole.values()) written += !std::isnan(each);
    CHECK(written == 15);
    check_silent(*card());
  }

  TEST_CASE("rows of any length are the processor's, and their gradients") {
    if (!card()) return;
    // Rows in one block and in several, as an emulation cuts them and as cards do.
    for (const Index n : {1, 2, 7, 8, 9, 31, 33, 255, 256, 257, 1021, 1024, 2049, 4096, 4097}) {
      CAPTURE(n);
      const auto run = [n](Backend& on) {
        const auto there = [&](const Shape& shape, uint64_t seed) {
          return noise(shape, seed, Dtype::f32).to(on).variable();
        };
        const Tensors xs{there({3, n}, 1), there({3, n}, 2), there({n}, 3), there({n}, 4)};
        const Tensor far = xs[0] * 40.0, turned_x = turned(there({n, 3}, 5));
        // The second row is hidden everywhere.
        const Tensor seen = less(noise({1, n}, 6, Dtype::f32), Tensor::full({1, n}, 0.2)),
                     mask = concat({seen, seen * 0.0, Tensor::full({1, n}, 1)}, 0).to(on),
                     targets = Tensor::of<int64_t>({3}, {0, n / 2, n - 1}).to(on);
        const SumWithNorm sum = sum_with_norm(xs[0], xs[1], {xs[2], xs[3]});
        Tensors made;
        for (const Tensor& y :
             {softmax(far, 1), softmax(xs[0], 1, mask), cross_entropy(far, targets),
              rms_norm(xs[0], xs[2]), layer_norm(turned_x, xs[2], xs[3]), sum.sum * sum.norm()}) {
          made.push_back(y.to(cpu()));
          const Tensor g = noise(y.shape(), 7, Dtype::f32).to(on);
          for (const Tensor& found : grad(y, xs, {.cotangent = g}))
            if (found) made.push_back(found.to(cpu()));
        }
        return made;
      };
      const Tensors here = run(cpu()), there = run(*card());
      REQUIRE(here.size() == there.size());
      for (size_t i = 0; i < here.size(); ++i) {
        CAPTURE(i);
        CHECK(apart_by(there[i], here[i]) < 1e-4);  // a norm of one number leaves nothing
      }
    }
    check_silent(*card());
  }

  TEST_CASE("heads mixed around a softmax are the processor's, and their gradients") {
    if (!card()) return;
    struct Case {
      Index in, heads, out, keys;  // out = 0: not mixed afterwards
      bool masked, turned;
    };
    for (const Case& c : std::initializer_list<Case>{{3, 5, 4, 131, true, false},
                                                     {1, 1, 2, 7, false, true},
                                                     {32, 2, 0, 129, true, true},
                                                     {4, 4, 4, 1, false, false},
                                                     {24, 24, 24, 512, true, false},
                                                     {9, 32, 11, 1025, false, true},
                                                     {33, 5, 4, 130, false, false}}) {
      CAPTURE(c.in);
      CAPTURE(c.keys);
      const auto run = [&](Backend& on, bool alone) {
        const auto there = [&](const Shape& shape, uint64_t seed) {
          return noise(shape, seed, Dtype::f32).to(on).variable();
        };
        Tensors xs{there(c.turned ? Shape{c.in, 2, 3, c.keys} : Shape{2, 3, c.in, c.keys}, 1),
                   there({c.in, c.heads}, 2)};
        if (c.out > 0) xs.push_back(there({c.heads, c.out}, 3));
        if (alone) xs[0] = xs[0].detach();
        const Tensor x = c.turned ? permute(xs[0], {1, 2, 0, 3}) : xs[0];
        // The second sample is hidden everywhere.
        const Tensor seen = less(noise({1, 1, 1, c.keys}, 4, Dtype::f32),
                                 Tensor::full({1, 1, 1, c.keys}, 0.4)),
                     mask = concat({seen, seen * 0.0}, 0);
        const Tensor y = mixed_softmax(x, xs[1], c.masked ? mask.to(on) : Tensor(),
                                       c.out > 0 ? xs[2] : Tensor());
        Tensors made{y.to(cpu())};
        for (const Tensor& found :
             grad(y, xs, {.cotangent = noise(y.shape(), 5, Dtype::f32).to(on)}))
          made.push_back(found ? found.to(cpu()) : Tensor::zeros({1}));
        return made;
      };
      for (const bool alone : {false, true}) {
        const Tensors here = run(cpu(), alone), there = run(*card(), alone);
        for (size_t i = 0; i < here.size(); ++i) {
          CAPTURE(i);
          CHECK(apart_by(there[i], here[i]) < 2e-5);
        }
      }
    }
    check_silent(*card());
  }

  TEST_CASE("a row that shows -inf alone is NaN, and one that shows nothing is 0") {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const Tensor x = Tensor::of<float>({3, 2}, std::vector<float>{-inf, -inf, -inf, -inf, -inf, 1}),
                 mask = Tensor::of<float>({3, 2}, std::vector<float>{1, 0, 0, 0, 1, 1}),
                 one = Tensor::of<float>({1, 1}, std::vector<float>{1});
    StrictDevice without_kernels;
    std::vector<Backend*> devices{&cpu(), &without_kernels};
    if (card()) devices.push_back(card());
    for (Backend* on : devices) {
      CAPTURE(on->name());
      const Tensor heads = reshape(x, {3, 1, 2}).to(*on), masks = reshape(mask, {3, 1, 2}).to(*on);
      for (const Tensor& y :
           {softmax(x.to(*on), 1, mask.to(*on)), mixed_softmax(heads, one.to(*on), masks)}) {
        const std::vector<double> row = y.values();
        CHECK(std::isnan(row[0]));
        CHECK(row[2] == 0);
        CHECK(row[5] == 1);
      }
      CHECK(std::isnan(softmax(x.to(*on), 1).values()[0]));
    }
  }

  TEST_CASE("numbers by chance have the processor's bits") {
    if (!card()) return;
    for (const Dtype dtype : {Dtype::f32, Dtype::f64})
      for (const uint64_t first : {uint64_t{0}, (uint64_t{1} << 32) - 5}) {
        CHECK(same_bits(random_uniform({3, 41}, Key(5), dtype, first, *card()),
                        random_uniform({3, 41}, Key(5), dtype, first)));
        const Tensor x = noise({3, 41}, 2, dtype);
        CHECK(
            same_bits(dropout(x.to(*card()), 0.3, Key(6), first), dropout(x, 0.3, Key(6), first)));
      }
    CHECK(same_bits(random_normal({3, 41}, Key(5), Dtype::f32, *card()),
                    random_normal({3, 41}, Key(5), Dtype::f32)));
  }

  TEST_CASE("powers of zeros and infinities are the processor's") {
    if (!card()) return;
    constexpr float inf = std::numeric_limits<float>::infinity();
    const std::vector<float> numbers{0.0f, -0.0f, 0.5f, -0.5f, 1, -1, 2, -3, inf, -inf};
    std::vector<float> a, b;
    for (float x : numbers)
      for (float y : numbers) a.push_back(x), b.push_back(y);
    const Shape shape{std::ssize(a)};
    const Tensor x = Tensor::of<float>(shape, a), y = Tensor::of<float>(shape, b);
    const auto here = pow(x, y).values(), there = pow(x.to(*card()), y.to(*card())).values();
    for (size_t i = 0; i < here.size(); ++i) {
      CAPTURE(a[i]);
      CAPTURE(b[i]);
      CHECK((std::isnan(here[i]) ? std::isnan(there[i])
                                 : std::abs(here[i] - there[i]) <= 1e-5 * std::abs(here[i]) ||
                                       here[i] == there[i]));
      CHECK((std::isnan(here[i]) || std::signbit(here[i]) == std::signbit(there[i])));
    }
  }

  TEST_CASE("a norm of small doubles takes epsilon as it is") {
    if (!card()) return;
    const Tensor x = noise({3, 7}, 1, Dtype::f64) * 1e-4, scale = Tensor::ones({7}, Dtype::f64);
    CHECK(apart_by(rms_norm(x.to(*card()), scale.to(*card())), rms_norm(x, scale)) < 1e-13);
  }

  TEST_CASE("copies between types are the processor's") {
    if (!card()) return;
    const std::vector<double> numbers{0,    -0.0, 1,     -1.5,    2.75,   3e9,
                                      -3e9, 1e18, -1e19, nothing, 0.1,    255.5,
                                      1e30, 7,    -7.9,  65504.3, 1 / 3.0};
    const Shape shape{static_cast<Index>(numbers.size())};
    for (const Dtype from : {Dtype::f32, Dtype::f64, Dtype::i64})
      for (const Dtype to : {Dtype::f32, Dtype::f64, Dtype::i64, Dtype::bf16}) {
        if (from == Dtype::i64 && to == Dtype::bf16) continue;
        CAPTURE(name_of(from));
        CAPTURE(name_of(to));
        const Tensor x = cast(Tensor::of<double>(shape, numbers), from);
        const Tensor y = Tensor::empty(shape, to, *card()), z = Tensor::empty(shape, to);
        card()->copy(x.to(*card()).view(), y.view());
        cpu().copy(x.view(), z.view());
        CHECK(apart_by(y, z) == 0);
      }
    check_silent(*card());
  }

  TEST_CASE("a position outside a table is told with the next read") {
    if (!card()) return;
    const Tensor table = noise({3, 2}, 1).to(*card()),
                 at = Tensor::of<int64_t>({3}, {2, -1, 3}, *card());
    const Tensor y = gather("[v] d, n -> n d", table, at);
    CHECK(error_of(ErrorKind::input, [&] { y.values(); }) ==
          "gather: position -1 (element 1 of the index) is outside a dimension of size 3");
    CHECK(table.values().size() == 6);
  }

  TEST_CASE("what the device lacks is counted, and an error where that is asked for") {
    const auto device = open_card();
    if (!device) return;
    const Tensor x = noise({4, 5}, 1), y = exp(x.to(*device));
    CHECK(same_bits(y.to(cpu()), exp(x)));
    REQUIRE(device->fallbacks().size() == 1);
    CHECK(device->fallbacks()[0].operation == "unary exp in f64");
    CHECK(device->fallbacks()[0].times == 1);
    CHECK(device->fallbacks()[0].bytes == 2 * 20 * 8);
    device->refuse_fallbacks();
    CHECK(error_of(ErrorKind::resource, [&] {
            exp(x.to(*device));
          }).find("lacks the operation 'unary exp in f64'") != std::string::npos);
  }

  TEST_CASE("memory that is not there is told with what would fit") {
    if (!card()) return;
    const std::string said =
        error_of(ErrorKind::resource, [] { Tensor::empty({Index{1} << 40}, Dtype::f32, *card()); });
    CHECK(said.find("there is no memory for ") == 0);
    CHECK(said.find("one tensor has at most ") != std::string::npos);
    CHECK(said.find("a smaller batch or context, or more shards, takes less") != std::string::npos);
  }

  TEST_CASE("the memory that is left falls by what a tensor takes") {
    const auto device = open_card();
    if (!device) return;
    const size_t bytes = size_t{80} << 20;
    CHECK(device->free_memory() > bytes);
    // Other programs take memory, too, and give it back: one of several tries is undisturbed.
    const auto falls_and_rises = [&] {
      const size_t before = device->free_memory();
      size_t with = 0;
      {
        const Tensor x = Tensor::zeros({static_cast<Index>(bytes / 4)}, Dtype::f32, *device);
        device->finish();  // an emulation takes memory when it is written
        with = device->free_memory();
      }
      release_free_memory(*device);
      const size_t after = device->free_memory();
      return with < before - bytes / 2 && with > before - 2 * bytes && after > before - bytes / 2;
    };
    bool once = false;
    for (int i = 0; i < 5 && !once; ++i) once = falls_and_rises();
    CHECK(once);
  }

  TEST_CASE("each operation of a step agrees with the processor's, compared as it runs") {
    if (!card()) return;
    for (const char* optimizer : {"adam", "adafactor"})
      for (const Products products : {Products::full, Products::bf16}) {
        ComparedDevice compared(*card());
        trained(small_model("talking_heads"), optimizer, compared, 2, products);
        const ComparedDevice::Findings& found = compared.findings();
        CAPTURE(found.worst_call);
        CHECK(found.calls > 300);
        CHECK(found.wrong == 0);
        CHECK(found.worst < 1e-5);
      }
    check_silent(*card());
  }

  TEST_CASE("inspected tensors and logits are the processor's") {
    if (!card()) return;
    for (const char* variant : {"talking_heads", "multi_query", "sliding_window"}) {
      CAPTURE(variant);
      const TemporaryFolder folder;
      const std::string run = write_run(folder.path, settings_of(variant));
      const auto saved = [&](Backend& on, const std::string& name) {
        const std::string path = folder.path + "/" + name;
        inspect({.checkpoints = {run},
                 .text = "the quick brown",
                 .paths = {"**"},
                 .save = path,
                 .ablation = false,
                 .device = &on});
        return Safetensors(path, Safetensors::Trust::anyone).read_all();
      };
      const NamedTensors here = saved(cpu(), "here"), there = saved(*card(), "there");
      REQUIRE(here.size() == there.size());
      bool has_logits = false;
      for (size_t i = 0; i < here.size(); ++i) {
        CAPTURE(here[i].name);
        CHECK(here[i].name == there[i].name);
        CHECK(apart_by(there[i].value, here[i].value) < 1e-5);
        const Shape& shape = here[i].value.shape();
        has_logits |= here[i].name == "Y" && shape.back() == std::ssize(letters);
      }
      CHECK(has_logits);
    }
    check_silent(*card());
  }

  TEST_CASE("validation tells a barrier that is missing") {
    if (!vulkan::can_validate()) {
      MESSAGE("not tested: the validation layer is not installed");
      return;
    }
    const auto device = open_card({.validates = true, .has_barriers = false});
    if (!device) return;
    const Tensor x = noise({64}, 1, Dtype::f32).to(*device);
    exp(exp(x)).values();
    const vulkan::Said said = device->said();
    CHECK(said.messages > 0);
    REQUIRE(!said.first.empty());
    CAPTURE(said.first[0]);
    // Older layers say SYNC-HAZARD-READ_AFTER_WRITE.
    CHECK(said.first[0].find("READ_AFTER_WRITE") != std::string::npos);
  }

  TEST_CASE("every causal variant trains as on the processor, in float32 alone") {
    const auto device = open_card();
    if (!device) return;
    for (const Variant& variant : variants()) {
      if (!is_causal(*load_attention(variant.name))) continue;
      CAPTURE(variant.name);
      const Model model = small_model(variant.name);
      const Trace there = trained(model, "adam", *device, 10);
      check_close(there, trained(model, "adam", cpu(), 10), 1e-3);
      CHECK(there.reads == std::vector<int64_t>(10, 1));
      for (const Fallback& each : device->fallbacks()) CHECK_MESSAGE(false, each.operation);
    }
  }

  TEST_CASE("twenty steps have the processor's loss, and twice the same bits") {
    if (!card()) return;
    const Model model = small_model("talking_heads");
    for (const char* optimizer : {"adam", "adafactor"}) {
      CAPTURE(optimizer);
      const Trace there = trained(model, optimizer, *card(), 20),
                  again = trained(model, optimizer, *card(), 20);
      check_close(there, trained(model, optimizer, cpu(), 20), 1e-4);
      CHECK(there.losses == again.losses);
      for (size_t i = 0; i < there.values.size(); ++i)
        CHECK(same_bits(there.values[i].to(cpu()), again.values[i].to(cpu())));
    }
    check_silent(*card());
  }

  TEST_CASE("products of bfloat16 are the processor's") {
    if (!card()) return;
    const Tensor a = noise({33, 70}, 1, Dtype::f32), b = noise({70, 41}, 2, Dtype::f32);
    const auto coarse = [](const Tensor& x) { return cast(x.rounded(), Dtype::f32); };
    const Tensor y = einsum("i k, k j -> i j", EinsumOptions{.products = Products::bf16},
                            a.to(*card()), b.to(*card()));
    CHECK(apart_by(y, einsum("i k, k j -> i j", coarse(a), coarse(b))) < 1e-5);
    CHECK(apart_by(y, einsum("i k, k j -> i j", a, b)) > 1e-4);  // they were rounded
    const Model model = small_model("multi_head");
    check_close(trained(model, "adam", *card(), 5, Products::bf16),
                trained(model, "adam", cpu(), 5, Products::bf16), 1e-2);
    check_silent(*card());
  }

  // Lines that are whole vectors, and rows that are one dimension, have kernels of their own.
  TEST_CASE("products of every form are the processor's") {
    if (!card()) return;
    const std::pair<const char*, std::array<const char*, 3>> products[] = {
        {"i k, k j -> i j", {"ik", "kj", "ij"}},
        {"k i, k j -> i j", {"ki", "kj", "ij"}},
        {"i k, j k -> i j", {"ik", "jk", "ij"}},
        {"k i, j k -> j i", {"ki", "jk", "ji"}},
        {"b i k, j b k -> i b j", {"bik", "jbk", "ibj"}},
        {"i b k, k b j -> b j i", {"ibk", "kbj", "bji"}},
        {"i h k, j k h -> i j", {"ihk", "jkh", "ij"}},
        {"i h k, k j -> h j i", {"ihk", "kj", "hji"}}};
    const auto size_of = [](char name, int odd) {
      const std::string_view names = "ikjbh";
      const Index sizes[] = {48, 32, 40, 3, 2};
      const size_t at = names.find(name);
      return sizes[at] - (static_cast<int>(at) == odd);
    };
    const auto made = [&](const char* names, int odd, int64_t seed, Dtype dtype, Backend& on) {
      Shape shape;
      for (; *names; ++names) shape.push_back(size_of(*names, odd));
      const bool is_apart = odd == 3;  // lines that begin anywhere
      if (is_apart) shape.back() += 3;
      const Tensor x = cast(noise(shape, seed, Dtype::f32), dtype).to(on);
      return is_apart ? slice(x, shape.size() - 1, 1, shape.back() - 3) : x;
    };
    for (const auto& product : products)
      for (int odd = -1; odd <= 3; ++odd) {
        const char* const equation = product.first;
        const auto& names = product.second;
        CAPTURE(equation);
        CAPTURE(odd);
        const Pattern pattern = Pattern::parse(equation);
        const auto operands = [&](Dtype dtype, Backend& on) {
          return Tensors{made(names[0], odd, 1, dtype, on), made(names[1], odd, 2, dtype, on)};
        };
        for (const Dtype dtype : {Dtype::f32, Dtype::f64})
          CHECK(apart_by(einsum(pattern, operands(dtype, *card())),
                         einsum(pattern, operands(dtype, cpu()))) < 1e-6);
        Tensors coarse;
        for (const Tensor& x : operands(Dtype::f32, cpu()))
          coarse.push_back(cast(x.rounded(), Dtype::f32));
        CHECK(apart_by(einsum(pattern, operands(Dtype::f32, *card()), {.products = Products::bf16}),
                       einsum(pattern, coarse)) < 1e-6);
      }
    check_silent(*card());
  }

  // Units for 16 bits fill whole tiles, and those for fp16 have its range: neither may show.
  TEST_CASE("products of bfloat16 are right in any shape, layout and range") {
    if (!card()) return;
    struct Case {
      const char* equation;
      Shape a, b;
    };
    const Case cases[] = {{"i k, k j -> i j", {33, 70}, {70, 41}},
                          {"i k, k j -> i j", {16, 8}, {8, 8}},
                          {"i k, k j -> i j", {8, 7}, {7, 9}},
                          {"k i, k j -> i j", {37, 19}, {37, 23}},
                          {"k i, j k -> j i", {17, 13}, {11, 17}},
                          {"i k, j k -> i j", {129, 65}, {67, 65}},
                          {"b i k, b k j -> b i j", {3, 10, 12}, {3, 12, 14}},
                          {"b i h k, b j h k -> b h i j", {2, 9, 3, 8}, {2, 11, 3, 8}},
                          {"i k, k j -> i j", {9, 9001}, {9001, 10}}};
    const auto coarse = [](const Tensor& x) { return cast(x.rounded(), Dtype::f32); };
    for (const Case& each : cases)
      for (const double size : {1.0, 1e25, 1e-18}) {
        CAPTURE(each.equation);
        CAPTURE(size);
        const Pattern equation = Pattern::parse(each.equation);
        const Tensor a = noise(each.a, 1, Dtype::f32) * size, b = noise(each.b, 2, Dtype::f32) / 4;
        const Tensor y =
            einsum(equation, {a.to(*card()), b.to(*card())}, {.products = Products::bf16});
        CHECK(apart_by(y / size, einsum(equation, {coarse(a), coarse(b)}) / size) < 1e-6);
        const Tensor z =
            einsum(equation, {a.to(*card()), (b / size).to(*card())}, {.products = Products::bf16});
        CHECK(apart_by(z, einsum(equation, {coarse(a), coarse(b / size)})) < 1e-6);
      }
    // Rows of very different sizes keep their own accuracy.
    const Tensor rows = noise({9, 24}, 1, Dtype::f32), columns = noise({24, 17}, 2, Dtype::f32);
    const Tensor sizes = exp(arange(9, Dtype::f32) * -9.0),
                 others = exp(arange(17, Dtype::f32) * 4.0);
    const Tensor uneven = einsum("i k, i -> i k", rows, sizes),
                 wide = einsum("k j, j -> k j", columns, others),
                 product = einsum("i k, k j -> i j", EinsumOptions{.products = Products::bf16},
                                  uneven.to(*card()), wide.to(*card()))
                               .to(cpu());
    const auto even = [&](const Tensor& x) {
      return einsum("i j, i, j -> i j", x, reciprocal(sizes), reciprocal(others));
    };
    CHECK(apart_by(even(product), even(einsum("i k, k j -> i j", coarse(uneven), coarse(wide)))) <
          1e-6);
    // A row that is infinite leaves the others as they are; so does one of zeros.
    const Tensor a = noise({20, 24}, 1, Dtype::f32), b = noise({24, 16}, 2, Dtype::f32);
    for (const double odd : {std::numeric_limits<double>::infinity(), 0.0}) {
      const Tensor mixed = concat({Tensor::full({1, 24}, odd), a}, 0);
      const Tensor y = einsum("i k, k j -> i j", EinsumOptions{.products = Products::bf16},
                              mixed.to(*card()), b.to(*card()));
      CHECK(apart_by(y, einsum("i k, k j -> i j", coarse(mixed), coarse(b))) < 1e-6);
    }
    check_silent(*card());
  }

  // A grid has up to 65,535 workgroups in a line, and ends with some that have nothing to do.
  TEST_CASE("more products than a line of workgroups has are as few") {
    if (!card()) return;
    const Tensor a = noise({3, 21847, 8, 8}, 1, Dtype::f32),
                 b = noise({21847, 3, 8, 8}, 2, Dtype::f32);
    enum : Label { i, n, k, j, c };
    const Labels y{i, n, c, j};
    for (const Products products : {Products::full, Products::bf16}) {
      const auto made = [&](Backend& on) {
        return contract(a.to(on), {c, n, i, k}, b.to(on), {n, c, k, j}, y, y,
                        {.products = products});
      };
      CHECK(apart_by(made(*card()), made(cpu())) < 1e-5);
    }
    check_silent(*card());
  }

  TEST_CASE("a device with units for 16 bits multiplies by them") {
    if (!card()) return;
    const std::string what = vulkan::found()[static_cast<size_t>(number_of_card())].what;
    CHECK(card()->why_bf16_is_no_faster().empty() == (what.find("matrices") != std::string::npos));
  }

  TEST_CASE("long sums are cut into parts, and lose nothing") {
    if (!card()) return;
    const Tensor x = noise({3, 20011}, 1, Dtype::f32), y = noise({20011, 5}, 2, Dtype::f32);
    const Tensor there = x.to(*card());
    CHECK(apart_by(sum(there, {1}), sum(x, {1})) < 1e-5);
    CHECK(apart_by(sum(there, {0}), sum(x, {0})) < 1e-5);
    CHECK(apart_by(max(there, {1}), max(x, {1})) == 0);
    CHECK(apart_by(sum(there), sum(x)) < 1e-5);
    CHECK(apart_by(einsum("i k, k j -> i j", there, y.to(*card())),
                   einsum("i k, k j -> i j", x, y)) < 1e-5);
    CHECK(apart_by(einsum("i k, i k -> i", there, there), einsum("i k, i k -> i", x, x)) < 1e-5);
  }

  TEST_CASE("decoding gives the processor's logits") {
    if (!card()) return;
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
      const Tensors here = logits(cpu()), there = logits(*card());
      for (size_t i = 0; i < here.size(); ++i) CHECK(apart_by(there[i], here[i]) < 1e-5);
    }
  }

  TEST_CASE("200 random sequences of operations over few tensors are the processor's") {
    if (!card()) return;
    const Key key(11);
    const auto number = [&](int sequence, int i, uint64_t below) {
      return uniform_below(key.fold(sequence), static_cast<uint64_t>(i), below);
    };
    for (int sequence = 0; sequence < 200; ++sequence) {
      CAPTURE(sequence);
      Tensors here, there;
      for (uint64_t i = 0; i < 3; ++i) {
        here.push_back(noise({6, 5}, 100 + i, Dtype::f32));
        there.push_back(here.back().to(*card()));
      }
      for (int i = 0; i < 12; ++i) {
        const size_t a = number(sequence, 3 * i, 3), b = number(sequence, 3 * i + 1, 3);
        const uint64_t what = number(sequence, 3 * i + 2, 6);
        for (Tensors* xs : {&here, &there}) {
          const Tensor &x = (*xs)[a], &y = (*xs)[b];
          (*xs)[a] = what == 0   ? x * 0.5 + y
                     : what == 1 ? tanh(x)
                     : what == 2 ? softmax(x - y, 1)
                     : what == 3 ? einsum("i k, j k, j l -> i l", x, y, x) * 0.1
                     : what == 4 ? broadcast(sum(x, {0}, true), x.shape()) * 0.2 + 0.0 * y
                                 : concat({slice(x, 0, 3, 3), slice(y, 0, 0, 3)}, 0);
        }
      }
      for (size_t i = 0; i < 3; ++i) CHECK(apart_by(there[i], here[i]) < 1e-4);
    }
    check_silent(*card());
  }
}
