// The labels of names in a contraction of core.
#pragma once
#include <algorithm>
#include <vector>

#include "core/shape.hpp"
#include "nn/flow.hpp"

namespace tete {

// Labels count the batch's dimensions first, if there are any, and then each name as it occurs. An
// einsum may have more names than a tensor has dimensions.
class NameLabels {
 public:
  explicit NameLabels(int batch = 0) : batch_(batch) {}

  // Those of a tensor with these names, after the batch's if it has the batch.
  Labels of(const Names& names, bool batched = false) {
    Labels labels;
    for (int i = 0; batched && i < batch_; ++i) labels.push_back(static_cast<Label>(i));
    for (int name : names) {
      const auto at = std::find(names_.begin(), names_.end(), name);
      labels.push_back(static_cast<Label>(batch_ + (at - names_.begin())));
      if (at == names_.end()) names_.push_back(name);
    }
    return labels;
  }
  // The names of these labels, without the batch's.
  Names names(const Labels& labels) const {
    Names found;
    for (Label label : labels)
      if (label >= batch_) found.push_back(names_[static_cast<size_t>(label - batch_)]);
    return found;
  }
  // All names so far; the first has the label `batch`.
  const std::vector<int>& all() const { return names_; }

 private:
  const int batch_;
  std::vector<int> names_;
};

}  // namespace tete
