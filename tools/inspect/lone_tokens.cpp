#include "tools/inspect/lone_tokens.hpp"

#include <algorithm>

#include "core/ops.hpp"
#include "tools/inspect/site.hpp"
#include "tools/inspect/stream_parts.hpp"

namespace tete {

namespace {

std::vector<int64_t> tokens_of(const Trained& trained, const Passage& passage) {
  constexpr int64_t small = 100;
  std::vector<int64_t> tokens;
  if (trained.tokenizer.size() <= small) {
    for (int64_t token = 0; token < trained.tokenizer.size(); ++token) tokens.push_back(token);
    return tokens;
  }
  for (int64_t token : passage.sequences()[passage.predicted()].tokens)
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
  return tokens;
}

// True if all rows of x[k, d] are one.
bool is_same_everywhere(const Tensor& x) {
  const std::vector<double> values = x.values();
  const auto d = static_cast<size_t>(x.size(1));
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != values[i % d]) return false;
  return true;
}

bool is_parameter(const Checked& program, const std::string& name) {
  return std::any_of(program.parameters.begin(), program.parameters.end(),
                     [&](const CheckedParameter& p) { return p.name == name; });
}

}  // namespace

LoneTokens::LoneTokens(const Trained& trained, const TextReading& reading, const Activations& seen)
    : trained_(trained), seen_(seen), tokens_(tokens_of(trained, reading.passage)) {}

// The stream's block around the attention.
std::optional<SitePlace> LoneTokens::block_of(const SitePlace& place) const {
  const Stream stream = stream_of(trained_.model);
  if (stream.value < 0) return {};
  const std::string path =
      text(trained_.model.program().values[stream.value].name, "/", place.layer);
  for (const SitePlace& block : blocks_of(trained_.model))
    if (block.path == path && place.path.starts_with(path + "/")) return block;
  return {};
}

std::string LoneTokens::refusal(const SitePlace& place) const {
  if (place.cross)
    return place.path + " has no circuits over tokens: its two sequences are embedded apart.";
  if (!block_of(place))
    return place.path +
           " has no circuits over tokens: it is in no block of the stream that is predicted.";
  return "";
}

// The model on each token alone.
Activations LoneTokens::alone(const std::vector<std::string>& paths,
                              const std::vector<Hook>& hooks) const {
  const Index k = std::ssize(tokens_);
  ModelInputs inputs{.X = Tensor::of<int64_t>({k, 1}, tokens_)};
  if (trained_.model.kind() == ModelKind::encoder_decoder)
    inputs.M = inputs.X, inputs.lengths = Tensor::ones({k}, Dtype::i64);
  return trace(
      {.params = trained_.params}, paths,
      [&](const Forward& forward) { trained_.model.logits(forward, inputs); }, hooks);
}

// The part of the stream's first state that is a token's: not what all of them have, as a position.
Tensor LoneTokens::embedding() {
  if (embedding_) return embedding_;
  for (const StreamPart& part : stream_start(trained_.model, alone({"**"}, {})).parts)
    if (tokens_.size() == 1 || !is_same_everywhere(part.value))
      embedding_ = embedding_ ? embedding_ + part.value : part.value;
  return embedding_;
}

std::pair<Tensor, Tensor> LoneTokens::read_by(const SitePlace& place) {
  const Tensor stream = embedding();
  const Hook hook{block_of(place)->X, [&](const std::string&, const Tensor& x) {
                    return cast(reshape(stream, x.shape()), x.dtype()).to(x.backend());
                  }};
  const Activations made = alone({place.X, place.M}, {hook});
  const auto flat = [](const Tensor& x) {
    const Tensor here = x.to(cpu());
    return reshape(here, {x.size(0) * x.size(1), x.size(2)});
  };
  return {flat(made.at(place.X)), flat(made.at(place.M))};
}

Activations LoneTokens::run(const SitePlace& place, const Tensor& X, const Tensor& M) const {
  TensorsByName given;
  for (const NamedTensor& each : tensors_of(place, trained_, seen_))
    if (is_parameter(*place.program, each.name)) given[each.name] = each.value.to(cpu());
  for (const std::string& input : place.program->input_names)
    given[input] = input == "X" || place.program->self_only ? X : M;
  Activations made;
  RunOptions options;
  options.sizes = place.sizes;
  options.watch = [&](const std::string& name, const Tensor& x) {
    made[place.path + "/" + name] = x;
  };
  made[place.path] = tete::run(place.program, given, options);
  made[place.X] = X;
  if (place.M != place.X) made[place.M] = M;
  return made;
}

}  // namespace tete
