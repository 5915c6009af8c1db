// Checks free memory before tensors are made: the system grants more than it has, and kills the
// process that fills it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/shape.hpp"

namespace tete {

// Bytes that this process can still take from the system and its control groups, cached files
// included. Empty if the system does not say.
std::optional<size_t> free_memory();
// "1.5 GiB"
std::string size_text(size_t bytes);

// A tensor that is about to be made; the name's characters must outlive it.
struct Planned {
  std::string_view name;
  Shape shape;
  Dtype dtype = Dtype::f32;
};
// An error sentence about the largest of these tensors if they do not fit into memory together, or
// "".
std::string memory_refusal(std::span<const Planned> tensors);
// Fails (resource) with that sentence, if there is one.
void require_memory(std::span<const Planned> tensors);

}  // namespace tete
