// Texts changed in a word, and tokens, as tests write them by hand.
#pragma once
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace tete::tests {

inline std::string replaced(std::string all, const std::string& from, const std::string& to) {
  for (size_t at = 0; !from.empty() && (at = all.find(from, at)) != std::string::npos;
       at += to.size())
    all.replace(at, from.size(), to);
  return all;
}

// [1, n]
inline Tensor tokens(const std::vector<int64_t>& all) {
  return Tensor::of<int64_t>({1, std::ssize(all)}, std::span<const int64_t>(all));
}

}  // namespace tete::tests
