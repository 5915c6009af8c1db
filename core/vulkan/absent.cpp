// A build without Vulkan has no such device.
#include "core/error.hpp"
#include "core/vulkan/vulkan.hpp"

namespace tete::vulkan {

[[noreturn]] static void refuse() {
  fail(ErrorKind::resource,
       "this build has no Vulkan: it takes Debian's libvulkan-dev and glslc, and meson setup "
       "--reconfigure -Dvulkan=enabled");
}

std::vector<Found> found() { return {}; }
std::unique_ptr<Card> open(std::string_view, const Options&) { refuse(); }
bool can_validate() { return false; }
Backend& kept(std::string_view) { refuse(); }

}  // namespace tete::vulkan
