// Lone tokens: what a model's attentions do with tokens as such, without positions and without
// earlier layers. Their embeddings go into an attention's block, and its text is run on one query
// and one memory, so that all the attention is on that.
#pragma once
#include <optional>

#include "nn/trace.hpp"
#include "tools/inspect/places.hpp"
#include "tools/inspect/readings.hpp"

namespace tete {

class LoneTokens {
 public:
  // The tokens are the whole vocabulary where that is small, else those of the text. `seen` has
  // every value of the text's run.
  LoneTokens(const Trained& trained, const TextReading& reading, const Activations& seen);

  const std::vector<int64_t>& tokens() const { return tokens_; }
  // A sentence: why nothing lone can be said of the attention; "" where it can.
  std::string refusal(const SitePlace& place) const;
  // The X and M that the attention is given if the embeddings go into its block: [tokens, d] each.
  std::pair<Tensor, Tensor> read_by(const SitePlace& place);
  // The attention's own values on X[b, 1, d] and M[b, 1, d], by path.
  Activations run(const SitePlace& place, const Tensor& X, const Tensor& M) const;

 private:
  std::optional<SitePlace> block_of(const SitePlace& place) const;
  Activations alone(const std::vector<std::string>& paths, const std::vector<Hook>& hooks) const;
  Tensor embedding();

  const Trained& trained_;
  const Activations& seen_;
  const std::vector<int64_t> tokens_;
  Tensor embedding_;
};

}  // namespace tete
