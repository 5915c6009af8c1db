// The gradient check of a variant: core/check/gradcheck.hpp for a text, with its names.
#pragma once
#include "attention/attention.hpp"
#include "core/check/gradcheck.hpp"

namespace tete {

struct AttentionCheck {
  Index batch = 2, queries = 3, memories = 5;  // odd and different: a mistaken size does not fit
  bool causal = false;                         // with as many queries as memories
  Index block = 0;  // queries of a block, as a call is computed (nn/tile/tile.hpp); 0: as a whole
  GradCheckOptions options = {};  // names and dimensions are the text's
};

// Sizes at which a variant is checked: small, so that everything is compared, and such as its
// `where` takes, as in d_M / 4; as many queries as memories where no others fit. Those that are
// given by name stay, with the lengths of the sequences, which go into `check`. The smallest of all
// if none are found that fit.
AttentionSizes sizes_to_check(const std::shared_ptr<const Checked>& program,
                              const SizesByName& given, AttentionCheck& check);

// Checks the gradients of X[batch, n, d] and M[batch, m, d'] (of X alone if the variant attends to
// itself, or under a causal mask if both are as wide) and of every parameter that is learned, at
// random values. A fault is told by the statement, with its line in the text.
GradReport check_gradient(const std::shared_ptr<const Checked>& program,
                          const AttentionSizes& sizes, const AttentionCheck& check = {});

// The same for a text that is not attention: a model, or what stands in one. Sizes that its `where`
// gives as numbers become small ones; its tokens are drawn. Of two samples one is padded: of the
// source, or of X where its sequence is not causal.
SizesByName text_sizes_to_check(const std::shared_ptr<const Checked>& program,
                                const SizesByName& given, int order = 1);
GradReport check_text_gradient(const std::shared_ptr<const Checked>& program,
                               const SizesByName& sizes, const AttentionCheck& check = {});
// True if that takes some ten seconds at most, at these sizes and this order.
bool is_quick_to_check(const std::shared_ptr<const Checked>& program, const SizesByName& sizes,
                       int order);

}  // namespace tete
