// The registry of devices, by name.
#pragma once
#include <span>
#include <string_view>

#include "core/backend.hpp"

namespace tete {

struct Device {
  const char* name;
  const char* what;  // for a list
  // Fails (resource) if this machine has none.
  Backend& (*get)();
};
std::span<const Device> devices();

// The device of a name. Fails (input) on a name that is none, with those there are.
Backend& find_device(std::string_view name);

}  // namespace tete
