#include "tools/any_model.hpp"

namespace tete {

AnyModel make_any_model(const ModelSettings& settings, const ChosenSites& sites, Index vocabulary) {
  if (is_text(settings)) return make_text_model(settings, vocabulary);
  if (settings.encoder) return make_encoder_decoder(settings, sites, vocabulary);
  return make_model(settings, sites, vocabulary);
}

const ParamList& params_of(const AnyModel& model) {
  return std::visit([](const auto& m) -> const ParamList& { return m.params(); }, model);
}

ModelKind kind_of(const AnyModel& model) {
  if (const auto* text = std::get_if<Model>(&model)) return text->kind();
  return std::holds_alternative<EncoderDecoder>(model) ? ModelKind::encoder_decoder
                                                       : ModelKind::language_model;
}

ModelCost cost_of(const AnyModel& model, const ChosenSites& sites, Index context) {
  if (const auto* text = std::get_if<Model>(&model)) return model_cost(*text, context);
  if (const auto* both = std::get_if<EncoderDecoder>(&model))
    return model_cost(both->config(), sites);
  return model_cost(std::get<LanguageModel>(model).config(), sites);
}

ModelInputs inputs_of(ModelKind kind, const Batch& batch) {
  if (kind != ModelKind::encoder_decoder) return {.X = batch.input};
  return {.X = shifted_right(batch.target), .M = batch.input, .lengths = batch.lengths};
}

// Calls `use` with the model and what it reads.
template <class Use>
static Tensor called(const AnyModel& model, const Forward& forward, const ModelInputs& in,
                     const Use& use) {
  if (const auto* text = std::get_if<Model>(&model)) return use(*text, in);
  if (const auto* both = std::get_if<EncoderDecoder>(&model))
    return use(*both, both->encode(forward, in.M, in.lengths), in.X);
  return use(std::get<LanguageModel>(model), in.X);
}

Tensor logits(const AnyModel& model, const Forward& forward, const ModelInputs& inputs) {
  return called(model, forward, inputs,
                [&](const auto& m, const auto&... read) { return m.logits(forward, read...); });
}

Tensor last_logits(const AnyModel& model, const Forward& forward, const ModelInputs& inputs) {
  return called(model, forward, inputs, [&](const auto& m, const auto&... read) {
    return m.last_logits(forward, read...);
  });
}

Tensor next_logits(const AnyModel& model, const Forward& forward, const ModelInputs& inputs,
                   Decoding& decoding) {
  return called(model, forward, inputs, [&](const auto& m, const auto&... read) {
    return m.next_logits(forward, read..., decoding);
  });
}

}  // namespace tete
