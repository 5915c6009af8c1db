#include "nn/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "core/alias.hpp"
#include "nn/decode.hpp"

namespace tete {

namespace {

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

// X with zeros at padded positions.
Tensor only_there(const Sequences& sequences, const Tensor& X) {
  if (!sequences.there) return X;
  return mul("b n d_X, b n", X, cast(sequences.there, X.dtype()));
}

// The input of a stack: the tokens' vectors, offered at `path`, plus positions.
Tensor embedded(const Forward& forward, const std::string& path, const Embedding& embedding,
                const Positions& positions, const Tensor& tokens) {
  const Tensor E = forward.offer("", path, embedding(forward, tokens));
  return dropped(forward, path, positions(forward, E));
}

// The same parameters with the initialisers of `rule`. The order stays, so ParamIds stay valid.
ParamList restarted(const ParamList& declared, const InitRule& rule) {
  ParamList params;
  for (ParamSpec spec : declared.specs()) {
    spec.init = rule(spec);
    params.declare(std::move(spec));
  }
  return params;
}

}  // namespace

// ---- Sequences -------------------------------------------------------------------------------

Sequences::Sequences(const Tensor& X, const Tensor& lengths) : X(X), lengths(lengths) {
  const Index b = X.size(0), n = X.size(1);
  if (lengths.dtype() != Dtype::i64 || !(lengths.shape() == Shape{b}))
    bad_input("lengths of ", b, " sequences are i64[", b, "], got ",
              describe(lengths.dtype(), lengths.shape()));
  std::vector<double> each;
  for (int64_t length : lengths.values<int64_t>()) {
    if (length < 0 || length > n)
      bad_input("a sequence of length ", length, " does not fit into ", n, " positions");
    for (Index i = 0; i < n; ++i) each.push_back(i < length);
  }
  there = Tensor::of<double>({b, n}, std::span<const double>(each), X.backend());
}

// ---- Block -----------------------------------------------------------------------------------

Block::Block(const Scope& scope, const Dim& width, AttentionSite self, const BlockOptions& options,
             AttentionSite cross)
    : path_(scope.path),
      self_(std::move(self)),
      cross_(std::move(cross)),
      self_norm_(scope.in("self_norm"), options.norm, width),
      cross_norm_([&] {
        std::vector<Norm> norms;
        if (cross_) norms.emplace_back(scope.in("cross_norm"), options.norm, width);
        return norms;
      }()),
      ff_norm_(scope.in("ff_norm"), options.norm, width),
      feed_forward_(scope.in("ff"), width, options.d_ff > 0 ? options.d_ff : 4 * width.size,
                    options.feed_forward) {}

Tensor Block::operator()(const Forward& forward, const Sequences& X,
                         const Sequences& memory) const {
  const auto offer = [&](const char* name, const Tensor& x) {
    return forward.offer(path_, name, x);
  };
  const auto drop = [&](const char* name, const Tensor& x) {
    return offer(name, dropped(forward, path_ + "/" + name, x));
  };
  const auto there = [&](const char* name, const Tensor& x) {
    return offer(name, only_there(X, x));
  };
  // Returns x + y, the new stream, and its norm, which the next sub-layer reads.
  const auto add_and_norm = [&](const char* stream, const Tensor& x, const Tensor& y,
                                const char* name, const Norm& norm) {
    const auto both = norm.of_sum(forward, x, y);
    const Tensor sum = offer(stream, both.first);
    const bool made = both.second && sum.same(both.first);
    return std::pair(sum, there(name, made ? both.second : norm(forward, sum)));
  };
  Tensor x = offer("resid_pre", X.X);
  const Tensor N = there("self_norm", self_norm_(forward, x));
  Tensor y = drop("self_out", self_(forward, N, N, X.lengths));
  const char* stream = "resid_mid";
  if (cross_) {
    const auto [middle, C] = add_and_norm(stream, x, y, "cross_norm", cross_norm_[0]);
    x = middle, y = drop("cross_out", cross_(forward, C, memory.X, memory.lengths));
    stream = "resid_cross";
  }
  const auto [last, F] = add_and_norm(stream, x, y, "ff_norm", ff_norm_);
  return offer("resid", last + drop("ff_out", feed_forward_(forward, F)));
}

// ---- Stack -----------------------------------------------------------------------------------

Stack::Stack(const Scope& scope, const Dim& width, int layers, const AttentionFactory& self,
             const BlockOptions& options, const AttentionFactory& cross)
    : path_(scope.path),
      blocks_([&] {
        std::vector<std::shared_ptr<const Block>> blocks;
        for (int layer = 0; layer < layers; ++layer) {
          const Scope here = scope.in(std::to_string(layer));
          const int first = scope.params.size();
          AttentionSite own = self(here.in("self"), layer);
          blocks.push_back(std::make_shared<const Block>(
              here, width, std::move(own), options,
              cross ? cross(here.in("cross"), layer) : AttentionSite()));
          for (int i = first; i < scope.params.size(); ++i)
            if (!scope.params[ParamId{i}].name.starts_with(here.path + "/")) shared_.push_back({i});
        }
        return blocks;
      }()),
      norm_(scope.in("norm"), options.norm, width) {}

Tensor Stack::block(int layer, const Forward& forward, const Sequences& X,
                    const Sequences& memory) const {
  static const Tensors none;
  const auto compute = [block = blocks_[layer], forward = forward.with(none), X,
                        memory](const Tensors& in) {
    Sequences x = X, m = memory;
    x.X = in[0], m.X = in[1];
    const Tensors params(in.begin() + 2, in.end());
    return (*block)(forward.with(params), x, m);
  };
  Tensors inputs = forward.params;
  inputs.insert(inputs.begin(), {X.X, memory.X});
  if (forward.recompute_blocks && !forward.is_looked_into() && !forward.decoding)
    return recomputed(compute, std::move(inputs));
  // A recomputed block adds one gradient for each tensor that other blocks read, too. An alias
  // makes this block do the same: the same terms summed in another order would give other bits.
  if (memory.X) inputs[1] = alias(memory.X);
  for (ParamId id : shared_) inputs[2 + static_cast<size_t>(id.index)] = alias(forward[id]);
  return compute(inputs);
}

Tensor Stack::operator()(const Forward& forward, const Sequences& X,
                         const Sequences& memory) const {
  Sequences x = X;
  for (int layer = 0; layer < std::ssize(blocks_); ++layer) x.X = block(layer, forward, x, memory);
  return end(forward, x);
}

Tensor Stack::end(const Forward& forward, const Sequences& X) const {
  const Tensor Y = forward.offer(path_, "norm", only_there(X, norm_(forward, X.X)));
  return dropped(forward, path_ + "/norm", Y);
}

// ---- How parameters start --------------------------------------------------------------------

Initializer gpt2_init(const ParamSpec& spec) {
  if (spec.shape.size() < 2 || !spec.init.is_spread()) return spec.init;
  if (mixes_heads(spec.dims)) return {InitializerKind::identity};
  return {InitializerKind::normal, 0.02};
}

InitRule init_rule(const std::string& style) {
  if (style == "t5") return [](const ParamSpec& spec) { return spec.init; };
  if (style == "gpt2") return gpt2_init;
  const std::string styles[] = {"t5", "gpt2"};
  bad_input("unknown initialisation '", style, "'", suggestion(style, styles),
            " (there are t5, gpt2)");
}

// ---- OutputLayer -----------------------------------------------------------------------------

OutputLayer::OutputLayer(const Scope& scope, const LanguageModelConfig& config,
                         const Embedding& embedding)
    : embedding_(embedding),
      scale_(config.scale_logits ? 1 / std::sqrt(static_cast<double>(config.d_model)) : 1) {
  if (!config.tied) own_.emplace_back(scope, width_of(config), Dim{"v", config.vocabulary});
}

Tensor OutputLayer::operator()(const Forward& forward, const Tensor& X) const {
  return forward.offer("", "logits",
                       own_.empty() ? embedding_.products(forward, scale_ == 1 ? X : X * scale_)
                                    : own_[0](forward, X));
}

// Logits[b, v] of the token after the last position of a decoder's vectors X.
static Tensor last_row(const Forward& forward, const OutputLayer& output, const Tensor& X) {
  const Index n = X.size(1);
  if (n == 0) bad_input("nothing follows an empty sequence");
  return rearrange("b n v -> b (n v)", output(forward, slice(X, 1, n - 1, 1)));
}

// ---- LanguageModel ---------------------------------------------------------------------------

LanguageModel::LanguageModel(const LanguageModelConfig& config, const AttentionFactory& attention,
                             InitRule rule)
    : config_(checked(config)),
      embedding_({params_, "embedding"}, {"v", config.vocabulary}, width_of(config)),
      positions_({params_, "positions"}, config.positions, config.context, width_of(config)),
      decoder_({params_, "decoder"}, width_of(config), config.layers, attention, config.block),
      output_({params_, "output"}, config, embedding_) {
  params_ = restarted(params_, rule ? rule : init_rule(config.init));
}

Tensor LanguageModel::hidden(const Forward& forward, const Tensor& tokens) const {
  return decoder_(forward, embedded(forward, "embedding", embedding_, positions_, tokens));
}

Tensor LanguageModel::logits(const Forward& forward, const Tensor& tokens) const {
  return output_(forward, hidden(forward, tokens));
}

Tensor LanguageModel::logits_of(const Forward& forward, const Tensor& X) const {
  return output_(forward, decoder_.end(forward, X));
}

Tensor LanguageModel::last_logits(const Forward& forward, const Tensor& tokens) const {
  return last_row(forward, output_, hidden(forward, tokens));
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

// ---- EncoderDecoder --------------------------------------------------------------------------

EncoderDecoder::EncoderDecoder(const LanguageModelConfig& config, const StackAttention& attention,
                               const InitRule& rule)
    : config_(checked(config)),
      embedding_({params_, "embedding"}, {"v", config.vocabulary}, width_of(config)),
      encoder_positions_({params_, "encoder/positions"}, config.positions, config.context,
                         width_of(config)),
      decoder_positions_({params_, "decoder/positions"}, config.positions, config.context,
                         width_of(config)),
      encoder_({params_, "encoder"}, width_of(config), config.layers, attention.encoder,
               config.block),
      decoder_({params_, "decoder"}, width_of(config), config.layers, attention.decoder,
               config.block, attention.cross),
      output_({params_, "output"}, config, embedding_) {
  params_ = restarted(params_, rule ? rule : init_rule(config.init));
}

Sequences EncoderDecoder::encode(const Forward& forward, const Tensor& tokens,
                                 const Tensor& lengths) const {
  const Sequences source(
      embedded(forward, "encoder/embedding", embedding_, encoder_positions_, tokens), lengths);
  return {encoder_(forward, source), lengths};
}

Tensor EncoderDecoder::hidden(const Forward& forward, const Sequences& memory,
                              const Tensor& tokens) const {
  const Tensor X = embedded(forward, "decoder/embedding", embedding_, decoder_positions_, tokens);
  return decoder_(forward, X, memory);
}

Tensor EncoderDecoder::logits(const Forward& forward, const Sequences& memory,
                              const Tensor& tokens) const {
  return output_(forward, hidden(forward, memory, tokens));
}

Tensor EncoderDecoder::logits_of(const Forward& forward, const Tensor& X) const {
  return output_(forward, decoder_.end(forward, X));
}

Tensor EncoderDecoder::last_logits(const Forward& forward, const Sequences& memory,
                                   const Tensor& tokens) const {
  return last_row(forward, output_, hidden(forward, memory, tokens));
}

Tensor EncoderDecoder::next_logits(const Forward& forward, const Sequences& memory,
                                   const Tensor& tokens, Decoding& decoding) const {
  Forward next = forward;
  next.decoding = &decoding;
  const Tensor logits = last_logits(next, memory, tokens);
  decoding.length += tokens.size(1);
  return logits;
}

Loss EncoderDecoder::loss(const Forward& forward, const Tensor& tokens, const Tensor& lengths,
                          const Tensor& targets) const {
  return token_loss(logits(forward, encode(forward, tokens, lengths), shifted_right(targets)),
                    targets);
}

Tensor shifted_right(const Tensor& targets) {
  const Index b = targets.size(0), n = targets.size(1);
  const std::vector<int64_t> wanted = targets.values<int64_t>();
  std::vector<int64_t> input(wanted.size(), end_token);
  for (Index i = 0; i < b * n; ++i)
    if (i % n > 0) input[i] = std::max<int64_t>(0, wanted[i - 1]);
  return Tensor::of<int64_t>({b, n}, input, targets.backend());
}

}  // namespace tete
