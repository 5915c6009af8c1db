#include "nn/transformer.hpp"

#include <cmath>

#include "nn/decode.hpp"

namespace tete {

namespace {

const Tensor& shown(const Forward& forward, const std::string& path, const Tensor& x) {
  if (forward.watch) forward.watch(path, x);
  return x;
}

void at_least_one(const char* what, Index value) {
  if (value < 1) bad_input("a language model: ", what, " must be at least 1, got ", value);
}

LanguageModelConfig checked(const LanguageModelConfig& config) {
  at_least_one("vocabulary", config.vocabulary);
  at_least_one("context", config.context);
  at_least_one("d_model", config.d_model);
  at_least_one("layers", config.layers);
  return config;
}

Dim width_of(const LanguageModelConfig& config) { return {"d_X", config.d_model}; }

// Identifiers keep their meaning: the order is the same.
ParamList restarted(const ParamList& declared, const InitRule& rule) {
  ParamList params;
  for (ParamSpec spec : declared.specs()) {
    spec.init = rule(spec);
    params.declare(std::move(spec));
  }
  return params;
}

}  // namespace

// ---- Block -----------------------------------------------------------------------------------

Block::Block(const Scope& scope, const Dim& width, AttentionSite attention,
             const BlockOptions& options)
    : path_(scope.path),
      attention_(std::move(attention)),
      self_norm_(scope.in("self_norm"), options.norm, width),
      ff_norm_(scope.in("ff_norm"), options.norm, width),
      feed_forward_(scope.in("ff"), width, options.d_ff > 0 ? options.d_ff : 4 * width.size,
                    options.feed_forward),
      noise_(options.feed_forward.noise) {}

Tensor Block::operator()(const Forward& forward, const Tensor& X) const {
  const auto show = [&](const char* name, const Tensor& x) {
    return shown(forward, path_ + "/" + name, x);
  };
  const auto drop = [&](const char* name, const Tensor& x) {
    return show(name, dropped(forward, path_ + "/" + name, x, noise_));
  };
  const Tensor N = show("self_norm", self_norm_(forward, X));
  const Tensor middle = show("resid_mid", X + drop("self_out", attention_(forward, N, N)));
  const Tensor F = show("ff_norm", ff_norm_(forward, middle));
  return show("resid", middle + drop("ff_out", feed_forward_(forward, F)));
}

// ---- Stack -----------------------------------------------------------------------------------

Stack::Stack(const Scope& scope, const Dim& width, int layers, const AttentionFactory& attention,
             const BlockOptions& options)
    : path_(scope.path),
      blocks_([&] {
        std::vector<Block> blocks;
        for (int layer = 0; layer < layers; ++layer) {
          const Scope here = scope.in(std::to_string(layer));
          blocks.emplace_back(here, width, attention(here.in("self"), layer), options);
        }
        return blocks;
      }()),
      norm_(scope.in("norm"), options.norm, width),
      noise_(options.feed_forward.noise) {}

Tensor Stack::operator()(const Forward& forward, const Tensor& X) const {
  Tensor x = X;
  for (const Block& block : blocks_) x = block(forward, x);
  const std::string path = path_ + "/norm";
  return dropped(forward, path, shown(forward, path, norm_(forward, x)), noise_);
}

// ---- How parameters start --------------------------------------------------------------------

Initializer gpt2_init(const ParamSpec& spec) {
  if (spec.shape.size() < 2) return spec.init;
  const bool mixes_heads =
      std::all_of(spec.dims.begin(), spec.dims.end(),
                  [](const std::string& dim) { return dim == "h" || dim.starts_with("h_"); });
  if (mixes_heads && spec.shape.size() == 2) return {Initializer::Kind::identity};
  return {Initializer::Kind::normal, 0.02};
}

InitRule init_rule(const std::string& style) {
  if (style == "t5") return [](const ParamSpec& spec) { return spec.init; };
  if (style == "gpt2") return gpt2_init;
  const std::string styles[] = {"t5", "gpt2"};
  bad_input("unknown initialisation '", style, "'", suggestion(style, styles),
            " (there are t5, gpt2)");
}

// ---- LanguageModel ---------------------------------------------------------------------------

LanguageModelConfig gpt2_style(LanguageModelConfig config) {
  config.block.norm = "layer";
  config.block.feed_forward.activation = "gelu_erf";
  config.block.feed_forward.bias = true;
  config.positions = "learned";
  config.tied = true;
  config.scale_logits = false;
  config.init = "gpt2";
  return config;
}

LanguageModel::LanguageModel(const LanguageModelConfig& config, const AttentionFactory& attention,
                             InitRule rule)
    : config_(checked(config)),
      embedding_({params_, "embedding"}, {"v", config.vocabulary}, width_of(config)),
      positions_({params_, "positions"}, config.positions, config.context, width_of(config)),
      decoder_({params_, "decoder"}, width_of(config), config.layers, attention, config.block) {
  if (!config.tied)
    output_.emplace_back(Scope{params_, "output"}, width_of(config), Dim{"v", config.vocabulary});
  params_ = restarted(params_, rule ? rule : init_rule(config.init));
}

Tensor LanguageModel::hidden(const Forward& forward, const Tensor& tokens) const {
  const Tensor X = positions_(forward, embedding_(forward, tokens));
  shown(forward, "embedding", X);
  return decoder_(forward, dropped(forward, "embedding", X, config_.block.feed_forward.noise));
}

Tensor LanguageModel::output(const Forward& forward, const Tensor& X) const {
  if (!config_.tied) return output_[0](forward, X);
  const double size =
      config_.scale_logits ? 1 / std::sqrt(static_cast<double>(config_.d_model)) : 1;
  return embedding_.products(forward, size == 1 ? X : X * size);
}

Tensor LanguageModel::logits(const Forward& forward, const Tensor& tokens) const {
  return shown(forward, "logits", output(forward, hidden(forward, tokens)));
}

Tensor LanguageModel::last_logits(const Forward& forward, const Tensor& tokens) const {
  const Index n = tokens.size(1);
  if (n == 0) bad_input("nothing follows an empty sequence");
  const Tensor last = slice(hidden(forward, tokens), 1, n - 1, 1);
  return shown(forward, "logits", rearrange("b n v -> b (n v)", output(forward, last)));
}

Tensor LanguageModel::next_logits(const Forward& forward, const Tensor& tokens,
                                  Decoding& decoding) const {
  Forward next = forward;
  next.decoding = &decoding;
  const Tensor logits = last_logits(next, tokens);
  decoding.length += tokens.size(1);
  return logits;
}

Loss LanguageModel::loss(const Forward& forward, const Tensor& tokens,
                         const Tensor& targets) const {
  return token_loss(logits(forward, tokens), targets);
}

}  // namespace tete
