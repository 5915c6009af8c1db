// A model of any settings, a whole model's text or the skeleton of nn/transformer.hpp, called
// alike.
#pragma once
#include <variant>

#include "tools/model.hpp"
#include "tools/model_cost.hpp"
#include "train/data.hpp"

namespace tete {

using AnyModel = std::variant<LanguageModel, EncoderDecoder, Model>;

AnyModel make_any_model(const ModelSettings& settings, const ChosenSites& sites, Index vocabulary);
const ParamList& params_of(const AnyModel& model);
ModelKind kind_of(const AnyModel& model);
ModelCost cost_of(const AnyModel& model, const ChosenSites& sites, Index context);

// What a model of this kind reads of a batch.
ModelInputs inputs_of(ModelKind kind, const Batch& batch);

// As in nn/model.hpp. The skeleton's encoder reads its source at each call.
Tensor logits(const AnyModel& model, const Forward& forward, const ModelInputs& inputs);
Tensor last_logits(const AnyModel& model, const Forward& forward, const ModelInputs& inputs);
Tensor next_logits(const AnyModel& model, const Forward& forward, const ModelInputs& inputs,
                   Decoding& decoding);

}  // namespace tete
