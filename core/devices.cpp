#include "core/devices.hpp"

#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/vulkan/vulkan.hpp"

namespace tete {

static Backend& the_processor(std::string_view which) {
  if (!which.empty()) bad_input("there is one processor: expected 'cpu', got 'cpu:", which, "'");
  return cpu();
}

std::span<const Device> devices() {
  static constexpr Device rows[] = {
      {"cpu", "the processor", the_processor, true,
       [] {
         return std::vector<Found>{{"the processor", "f32, f64, bf16"}};
       }},
      {"vulkan", "a graphics card, by Vulkan 1.2", vulkan::kept, false, vulkan::found}};
  return rows;
}

Backend& find_device(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view which = colon == name.npos ? "" : name.substr(colon + 1);
  if (const Device* device = find_named(name.substr(0, colon), devices()))
    return device->get(which);
  bad_input("unknown device '", name, "'", choice(name, names_of_rows(devices())));
}

}  // namespace tete
