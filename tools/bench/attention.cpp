// tete bench attention: one layer, forward and gradient.
#include <iostream>
#include <nlohmann/json.hpp>

#include "attention/attention.hpp"
#include "nn/cost.hpp"
#include "tools/bench/nouns.hpp"
#include "tools/bench/profile.hpp"
#include "tools/bench/report.hpp"
#include "tools/model.hpp"
#include "tools/tensors.hpp"
#include "train/machine.hpp"

namespace tete {

using nlohmann::ordered_json;

namespace {

// Those of a T5-base layer.
struct AttentionOptions {
  BenchOptions bench;
  std::string variant = "multi_head", dtype = "f32", precision = "f32";
  std::vector<std::string> with, dim;
  std::optional<Index> heads, memory;
  Index d_model = 768, length = 512, batch = 4;
  bool causal = false, whole = false, forward = false;

  Index memory_length() const { return memory.value_or(length); }
  Dtype type() const { return dtype_of(dtype); }
};

// ---- The layer ----

AttentionSizes sizes_of(const AttentionOptions& o, const Checked& program) {
  constexpr Index usual_heads = 12;
  AttentionSizes sizes{.d_model = o.d_model, .heads = o.heads};
  for (const std::string& setting : o.dim) set_dim(sizes.dims, setting);
  const bool has_heads = program.find_dimension("h") >= 0 && !sizes.dims.contains("h");
  if (!o.heads && has_heads) sizes.heads = usual_heads;
  return sizes;
}

// A layer with its parameters, what it is given, and the gradient of what it makes.
class Layer {
 public:
  Layer(const AttentionOptions& o, std::shared_ptr<const Checked> program, Backend& on)
      : o_(o),
        products_(products_of(o.precision, o.type(), on)),
        attention_(Scope{params_}, program, sizes_of(o, *program)) {
    if (o.memory && !attends_across(*program))
      bad_input("--memory-length ", *o.memory, ": '", program->name,
                "' attends to its own sequence only");
  }

  Cost cost() const {
    const auto program = std::make_shared<const Checked>(attention_.program());
    SizesByName known = attention_.sizes();
    for (size_t i = 0; i < program->inputs.size(); ++i) {
      const int sequence = program->values[program->inputs[i]].dims[0];
      known[program->dimensions[sequence].name] =
          program->input_names[i] == "X" ? o_.length : o_.memory_length();
    }
    SizeTable table(program, known);
    return cost_of(*program, table, {.causal = o_.causal, .dtype = o_.type()});
  }

  void draw(Backend& on) {
    const Key key(0);
    const auto vectors = [&](const char* name, Index length) {
      return random_normal({o_.batch, length, o_.d_model}, key.fold(name), o_.type(), on);
    };
    values_ = params_.initial_values(key, o_.type(), on);
    X_ = vectors("X", o_.length), G_ = vectors("G", o_.length);
    M_ = o_.memory ? vectors("M", *o_.memory) : X_;
    if (o_.forward) return;
    X_ = X_.variable();
    M_ = o_.memory ? M_.variable() : X_;
    differentiated_ = o_.memory ? Tensors{X_, M_} : Tensors{X_};
    for (int i = 0; i < params_.size(); ++i) {
      if (params_.specs()[i].fixed) continue;
      Tensor& value = values_[i];
      differentiated_.push_back(value = value.variable());
    }
  }

  void call() const {
    const Forward forward{
        .params = values_, .tiling = {.allowed = !o_.whole}, .products = products_};
    const Tensor Y = attention_(forward, "layer", X_, M_, {.causal = o_.causal});
    if (!o_.forward) grad(Y, differentiated_, {.cotangent = G_});
  }

  Index parameters() const { return params_.element_total(); }
  // Everything that is given and made once: inputs and parameters, and the gradient of each.
  double bytes() const {
    double numbers = static_cast<double>(2 * X_.size() + (o_.memory ? M_.size() : 0));
    for (const Tensor& value : values_) numbers += static_cast<double>(value.size());
    return (o_.forward ? 1 : 2) * numbers * static_cast<double>(size_of(o_.type()));
  }

 private:
  const AttentionOptions& o_;
  Products products_;
  ParamList params_;
  Attention attention_;
  Tensors values_, differentiated_;
  Tensor X_, M_, G_;
};

// ---- What is told ----

struct Multiplies {
  double all, visible;  // of a batch, forward; visible: what the masks leave
};
Multiplies multiplies_of(const AttentionOptions& o, const Cost& cost) {
  const auto of_batch = [&](Index count) {
    return static_cast<double>(count - cost.once) * static_cast<double>(o.batch) +
           static_cast<double>(cost.once);
  };
  return {of_batch(cost.total.multiplies),
          of_batch(cost.visible_known ? cost.total.visible : cost.total.multiplies)};
}

// The bytes that are kept for the gradient.
size_t bytes_kept(const AttentionOptions& o, const Cost& cost) {
  const bool tiled = !o.whole && cost.whole_because.empty();
  return (tiled ? cost.tiled_bytes : cost.bytes) * static_cast<size_t>(o.batch);
}

ordered_json to_json(const AttentionOptions& o, const Layer& layer, const AttentionSizes& sizes,
                     const Multiplies& multiplies, const Bench& bench) {
  ordered_json json = {{"bench", "attention"},
                       {"variant", o.variant},
                       {"heads", sizes.heads ? ordered_json(*sizes.heads) : ordered_json()},
                       {"d_model", o.d_model},
                       {"length", o.length},
                       {"memory_length", o.memory_length()},
                       {"batch", o.batch},
                       {"causal", o.causal},
                       {"with", o.with},
                       {"dim", sizes.dims},
                       {"forward_only", o.forward},
                       {"whole", o.whole},
                       {"parameters", layer.parameters()},
                       {"multiplies", multiplies.all},
                       {"visible_multiplies", multiplies.visible}};
  json.update(to_json(bench.rows()[0]));
  json["peak_rss_mb"] = resident_mb(bench.rows()[0]);
  json.update(bench.machine());
  return json;
}

void print(const AttentionOptions& o, const AttentionSizes& sizes, const Multiplies& multiplies,
           const Bench& bench) {
  std::string heads = sizes.heads ? text(", ", *sizes.heads, " heads") : "";
  std::printf("%s%s, %lld wide, %lld queries, %lld of memory, batch %lld%s, %s, %s%s\n\n",
              o.variant.c_str(), heads.c_str(), static_cast<long long>(o.d_model),
              static_cast<long long>(o.length), static_cast<long long>(o.memory_length()),
              static_cast<long long>(o.batch), o.causal ? ", causal" : "", o.dtype.c_str(),
              o.forward ? "forward" : "forward and gradient", o.whole ? ", as a whole" : "");
  bench.print();
  std::printf("multiplies  %.4g forward", multiplies.all);
  if (multiplies.visible != multiplies.all)
    std::printf("; %.4g of what the mask leaves, which the rates count", multiplies.visible);
  std::printf("%s\n", o.forward ? "" : "; three times that with the gradient");
  std::printf("memory      %s at the peak of the process, %s for its tensors\n",
              size_text(bench.rows()[0].resident).c_str(),
              size_text(bench.rows()[0].tensor_bytes).c_str());
}

Profile profile_of(const AttentionOptions& o, const std::shared_ptr<const Checked>& program) {
  ClockedProcessor device;
  Layer layer(o, program, device);
  layer.draw(device);
  return profile_of(
      device, [&] { layer.call(); }, o.bench.repeats);
}

int bench_layer(const AttentionOptions& o) {
  use_threads(o.bench.threads);
  const DeviceInUse device(o.bench.device);
  const auto program = load_attention(o.variant, o.with);
  Layer layer(o, program, *device);
  const Cost cost = layer.cost();
  check_memory("this layer", bytes_kept(o, cost), *device);
  const AttentionSizes sizes = sizes_of(o, *program);
  layer.draw(*device);
  const Multiplies multiplies = multiplies_of(o, cost);
  const auto call = [&] { layer.call(); };
  Bench bench(o.bench, o.type(), *device);
  const Work work{.name = o.variant,
                  .call = call,
                  .flops = (o.forward ? 2 : 6) * multiplies.visible,
                  .bytes = layer.bytes()};
  bench.add(work);
  const std::optional<Scaling> scaling =
      o.bench.scaling ? std::optional(bench.scaling(work)) : std::nullopt;
  const std::optional<Profile> profile =
      o.bench.profile ? std::optional(profile_of(o, program)) : std::nullopt;
  if (o.bench.json) {
    ordered_json json = to_json(o, layer, sizes, multiplies, bench);
    if (scaling) json["scaling"] = to_json(*scaling);
    if (profile) json["profile"] = to_json(*profile);
    std::cout << json.dump(2) << "\n";
  } else {
    print(o, sizes, multiplies, bench);
    if (scaling) print(*scaling);
    if (profile) print(*profile);
  }
  return 0;
}

}  // namespace

Run bench_attention(CLI::App& app) {
  auto o = std::make_shared<AttentionOptions>();
  const auto optional = [&](const char* name, auto& value, Index high, const char* what) {
    app.add_option(name, value, what)->type_name("N")->check(within<Index>(1, high));
  };
  app.add_option("--variant", o->variant, "a variant (tete list), or a file in the notation")
      ->type_name("NAME|FILE")
      ->capture_default_str();
  optional("--heads", o->heads, 1024, "heads, of a variant that has them [12]");
  add_whole(app, "--d-model", o->d_model, 1, 65536, "width of queries and memory");
  add_whole(app, "--length", o->length, 1, 1 << 20, "queries");
  optional("--memory-length", o->memory, 1 << 20,
           "of a memory of its own (default: the queries are it)");
  add_whole(app, "--batch", o->batch, 1, 1 << 20, "sequences");
  app.add_flag("--causal", o->causal, "no query sees what comes after it");
  add_dtype(app, o->dtype);
  add_precision(app, o->precision);
  add_amendments(app, o->with, o->dim);
  app.add_flag("--forward", o->forward, "without the gradient");
  app.add_flag("--whole", o->whole, "as a whole, not a tile of queries at a time");
  add_device(app, o->bench.device);
  add_bench_options(app, o->bench);
  add_scaling(app, o->bench);
  add_profile(app, o->bench);
  app.footer(
      "Products and sums are two for each multiply that tete cost counts, three times\n"
      "with the gradient; of what a mask leaves. Bytes are those of inputs, parameters,\n"
      "result and gradients, once.\n\n"
      "Examples:\n"
      "  tete bench attention --variant talking_heads --heads 24 --d-model 768 \\\n"
      "    --length 512 --batch 4 --json\n"
      "  tete bench attention --variant mine.tete --causal --with rotary --whole");
  return [o] { return bench_layer(*o); };
}

}  // namespace tete
