// tete bench ops: the operations that training attention consists of, one by one.
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/ops.hpp"
#include "core/threads.hpp"
#include "tools/bench/nouns.hpp"
#include "tools/bench/report.hpp"

namespace tete {

using nlohmann::ordered_json;

namespace {

struct OpsOptions {
  BenchOptions bench;
  std::string dtype = "f32", precision = "f32";
  Index rows = 64, length = 512, heads = 24, d_model = 768, tokens = 2048, vocabulary = 8192;
};

double product(std::initializer_list<Index> sizes) {
  double all = 1;
  for (Index size : sizes) all *= static_cast<double>(size);
  return all;
}

// The operations, timed one after the other: what each is given is there for it alone.
class Operations {
 public:
  Operations(const OpsOptions& o, Backend& on, Bench& bench)
      : o_(o),
        dtype_(dtype_of(o.dtype)),
        products_{.products = products_of(o.precision, dtype_, on)},
        on_(on),
        bench_(bench) {}

  void blocks();
  void dense();
  void rows();
  void tokens();

 private:
  Tensor random(const Shape& shape) {
    return random_normal(shape, Key(0).fold(drawn_++), dtype_, on_) * 0.1;
  }
  // [n, m, h] as a tile has it: head after head, each a matrix.
  Tensor over_pairs() { return with_layout(random({o_.rows, o_.length, o_.heads}), {2, 0, 1}); }

  // `numbers` are read and written once.
  void add(const std::string& name, double multiplies, double numbers, std::function<void()> call) {
    bench_.add({.name = name,
                .call = std::move(call),
                .flops = 2 * multiplies,
                .bytes = numbers * static_cast<double>(size_of(dtype_))});
  }

  // Each thread runs its own: this is what the threads of a tile do. `make` draws what it needs.
  template <class Make>
  void add_block(const std::string& name, double multiplies, double numbers, const Make& make) {
    std::vector<std::function<void()>> calls;
    for (int thread = 0; thread < threads(); ++thread) calls.push_back(make());
    const double all = threads();
    add(name, all * multiplies, all * numbers, [calls] {
      const auto count = static_cast<Index>(calls.size());
      parallel_for(count, 1e9, [&](Index i) { calls[i](); });
    });
  }

  // The gradient of y with respect to x alone, y being there already.
  static std::function<void()> gradient(const Tensor& y, const Tensors& xs, const Tensor& g) {
    return [y, xs, g] { grad(y, xs, {.cotangent = g}); };
  }

  const OpsOptions& o_;
  Dtype dtype_;
  EinsumOptions products_;
  Backend& on_;
  uint64_t drawn_ = 0;
  Bench& bench_;
};

// One block: `rows` queries against all keys.
void Operations::blocks() {
  const Index n = o_.rows, m = o_.length, h = o_.heads, d = std::max<Index>(1, o_.d_model / h);
  enum : Label { query, memory, head, other, key };
  const Labels pairs{query, memory, head}, queries{query, key, head}, keys{memory, key, head},
      mixed{query, memory, other};
  const Labels pair_layout{head, query, memory}, mixed_layout{other, query, memory},
      key_layout{head, memory, key}, query_layout{head, query, key};
  const double all = product({n, m, h}), ends = product({n + m, d, h});
  const auto by_head = [&](Index size) { return with_layout(random({size, d, h}), {2, 0, 1}); };
  add_block("tile: queries x keys", all * static_cast<double>(d), all + ends, [&] {
    return
        [=, Q = by_head(n), K = by_head(m)] { contract(Q, queries, K, keys, pairs, pair_layout); };
  });
  add_block("tile: weights x values", all * static_cast<double>(d), all + ends, [&] {
    return [=, W = over_pairs(), V = by_head(m)] {
      contract(W, pairs, V, keys, queries, query_layout);
    };
  });
  add_block("tile: gradient of keys", all * static_cast<double>(d), all + ends, [&] {
    return [=, dJ = over_pairs(), Q = by_head(n)] {
      contract(dJ, pairs, Q, queries, keys, key_layout);
    };
  });
  add_block("tile: mixing heads", all * static_cast<double>(h), 2 * all, [&] {
    return [=, J = over_pairs(), P = random({h, h})] {
      contract(J, pairs, P, {head, other}, mixed, mixed_layout);
    };
  });
  add_block("tile: gradient of the mix", all * static_cast<double>(h), 2 * all, [&] {
    return [=, J = over_pairs(), dL = over_pairs()] {
      contract(J, pairs, dL, mixed, {head, other});
    };
  });
  add_block("tile: softmax", 0, 2 * all, [&] { return [L = over_pairs()] { softmax(L, 1); }; });
  add_block("tile: softmax, gradient", 0, 3 * all, [&] {
    const Tensor L = over_pairs().variable();
    return gradient(softmax(L, 1), {L}, over_pairs());
  });
}

void Operations::dense() {
  const Index t = o_.tokens, d = o_.d_model;
  const double numbers = product({2 * t, d}) + product({d, d});
  add("projection", product({t, d, d}), numbers, [this, X = random({t, d}), P = random({d, d})] {
    einsum("t d_X, d_X d -> t d", products_, X, P);
  });
  add("projection, gradient of P", product({t, d, d}), numbers,
      [this, X = random({t, d}), dY = random({t, d})] {
        einsum("t d_X, t d -> d_X d", products_, X, dY);
      });
}

void Operations::rows() {
  const Index t = o_.tokens, d = o_.d_model, wide = 4 * d;
  const double hidden = product({t, wide}), narrow = product({t, d});
  for (const auto& [name, f] :
       {std::pair{"gelu", &gelu}, std::pair{"gelu_erf", &gelu_erf}, std::pair{"relu", &relu}}) {
    const Tensor x = random({t, wide}).variable();
    add(name, 0, 2 * hidden, [x = x.detach(), f = f] { f(x); });
    add(text(name, ", gradient"), 0, 3 * hidden, gradient(f(x), {x}, random({t, wide})));
  }
  add("bias", 0, 2 * hidden,
      [x = random({t, wide}), b = random({wide})] { tete::add("t d, d", x, b); });
  const Tensor wide_bias = random({wide}).variable(), z = random({t, wide}).variable();
  const auto biased = [](const Tensor& x, const Tensor& b) {
    return unary_of_sum(Unary::gelu_erf, "t d, d", x, b);
  };
  add("bias, gelu_erf", 0, 2 * hidden,
      [=, x = z.detach(), b = wide_bias.detach()] { biased(x, b); });
  add("bias, gelu_erf, gradient", 0, 3 * hidden,
      gradient(biased(z, wide_bias), {z, wide_bias}, random({t, wide})));
  add("residual", 0, 3 * narrow, [x = random({t, d}), y = random({t, d})] { x + y; });
  const Tensor x = random({t, d}).variable(), scale = random({d}).variable(),
               bias = random({d}).variable();
  add("layer_norm", 0, 2 * narrow,
      [x = x.detach(), s = scale.detach(), b = bias.detach()] { layer_norm(x, s, b); });
  add("residual, layer_norm", 0, 4 * narrow,
      [r = random({t, d}), x = x.detach(), s = scale.detach(), b = bias.detach()] {
        sum_with_norm(x, r, {s, b}).norm();
      });
  add("layer_norm, gradient", 0, 3 * narrow,
      gradient(layer_norm(x, scale, bias), {x, scale, bias}, random({t, d})));
}

void Operations::tokens() {
  const Index t = o_.tokens, d = o_.d_model, v = o_.vocabulary;
  std::vector<int64_t> drawn;
  for (Index i = 0; i < t; ++i)
    drawn.push_back(static_cast<int64_t>(
        uniform_below(Key(0).fold("ids"), static_cast<uint64_t>(i), static_cast<uint64_t>(v))));
  const Tensor ids = Tensor::of<int64_t>({t}, std::span<const int64_t>(drawn), on_);
  const Tensor z = random({t, v}).variable();
  const double logits = product({t, v}), vectors = product({t, d}), table = product({v, d});
  add("cross_entropy", 0, logits, [z = z.detach(), ids] { cross_entropy(z, ids); });
  add("cross_entropy, gradient", 0, 2 * logits,
      gradient(cross_entropy(z, ids), {z}, Tensor::ones({t}, dtype_, on_)));
  add("embedding", 0, 2 * vectors,
      [E = random({v, d}), ids] { gather("[v] d, t -> t d", E, ids); });
  add("embedding, gradient", 0, vectors + table,
      [dX = random({t, d}), ids, v] { scatter("t d, t -> [v] d", dX, ids, v); });
}

// Bytes of the largest operation: what it is given and makes, three values of one size at most.
size_t bytes_needed(const OpsOptions& o) {
  const double blocks = threads() * product({o.rows, o.length, o.heads});
  const double largest =
      std::max({blocks, product({o.tokens, 4, o.d_model}), product({o.tokens, o.vocabulary}),
                product({o.d_model, o.d_model}), product({o.vocabulary, o.d_model})});
  return static_cast<size_t>(3 * largest * static_cast<double>(size_of(dtype_of(o.dtype))));
}

int bench_operations(const OpsOptions& o) {
  const Dtype dtype = dtype_of(o.dtype);
  use_threads(o.bench.threads);
  const DeviceInUse device(o.bench.device);
  check_memory("the largest operation of these sizes", bytes_needed(o), *device);
  Bench bench(o.bench, dtype, *device);
  Operations operations(o, *device, bench);
  operations.blocks();
  operations.dense();
  operations.rows();
  operations.tokens();
  if (!o.bench.json) {
    std::printf(
        "tile: %lld queries x %lld keys, %lld heads, a block for each thread; others: %lld "
        "tokens,\n"
        "%lld wide, feed-forward four times that, %lld kinds of tokens; %s, projections in %s\n\n",
        static_cast<long long>(o.rows), static_cast<long long>(o.length),
        static_cast<long long>(o.heads), static_cast<long long>(o.tokens),
        static_cast<long long>(o.d_model), static_cast<long long>(o.vocabulary), o.dtype.c_str(),
        o.precision == "bf16" ? "bf16" : o.dtype.c_str());
    bench.print();
    return 0;
  }
  ordered_json json = {{"bench", "ops"},
                       {"rows_of_a_block", o.rows},
                       {"length", o.length},
                       {"heads", o.heads},
                       {"d_model", o.d_model},
                       {"tokens", o.tokens},
                       {"vocabulary", o.vocabulary},
                       {"precision", o.precision}};
  for (const Measured& row : bench.rows()) {
    ordered_json line = {{"name", row.name}};
    line.update(to_json(row));
    json["rows"].push_back(line);
  }
  json.update(bench.machine());
  std::cout << json.dump(2) << "\n";
  return 0;
}

}  // namespace

Run bench_ops(CLI::App& app) {
  auto o = std::make_shared<OpsOptions>();
  const auto size = [&](const char* name, Index& value, const char* what) {
    add_whole(app, name, value, 1, 1 << 20, what);
  };
  size("--rows", o->rows, "queries of a block");
  size("--length", o->length, "keys that they are held against");
  size("--heads", o->heads, "heads, before and after they are mixed");
  size("--d-model", o->d_model, "width");
  size("--tokens", o->tokens, "rows of everything that is not of a block");
  size("--vocabulary", o->vocabulary, "kinds of tokens");
  add_dtype(app, o->dtype);
  add_precision(app, o->precision)->description("of projections' products: f32 or bf16");
  add_device(app, o->bench.device);
  add_bench_options(app, o->bench);
  app.footer(
      "Lines that begin with 'tile' are what the tile of attention does: every thread\n"
      "has a block of its own. Bytes are those given and made, once.\n\n"
      "Example:\n"
      "  tete bench ops --rows 64 --heads 24 --threads 1");
  return [o] { return bench_operations(*o); };
}

}  // namespace tete
