// Memory is asked for before tensors are made: the system grants more than it has, and ends the
// process that fills it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/shape.hpp"

namespace tete {

// Bytes that this process can still take: what the system and its control groups have left, cached
// files included. Empty where the system does not say.
std::optional<size_t> free_memory();
// "1.5 GiB"
std::string size_text(size_t bytes);

// A tensor that is about to be made; the name is another's.
struct Planned {
  std::string_view name;
  Shape shape;
  Dtype dtype = Dtype::f32;
};
// Why these tensors do not fit into memory together, with the largest by name and shape, or "".
std::string memory_refusal(std::span<const Planned> tensors);
// Fails (resource) with that.
void require_memory(std::span<const Planned> tensors);

}  // namespace tete
