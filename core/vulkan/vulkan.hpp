// Graphics cards by Vulkan 1.2, as what other rooms see of them: no Vulkan type. The library is
// opened when a device is asked for, and not before; absent.cpp stands in for this folder where the
// build has no Vulkan.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/devices.hpp"

namespace tete::vulkan {

struct Options {
  // Loads the validation layer, with its checks of synchronisation, and counts what it says.
  bool validates = false;
  // False: no barrier is recorded, which is wrong. For the test that validation tells.
  bool has_barriers = true;
};

// The messages of the validation layer.
struct Said {
  int64_t messages = 0;
  std::vector<std::string> first;
};

class Card : public Accelerator {
 public:
  virtual Said said() const = 0;
};

// The devices of this machine; none where there is no Vulkan.
std::vector<Found> found();
// Opens the device of a number, or of a part of its name; an empty `which` is the first that is not
// a processor's emulation. Fails (resource) if there is none, and (input) if `which` is not one.
std::unique_ptr<Card> open(std::string_view which, const Options& options = {});
// True if the validation layer is installed.
bool can_validate();

// The same, opened once and kept as long as the program lives.
Backend& kept(std::string_view which);

}  // namespace tete::vulkan
