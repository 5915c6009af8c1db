// A build without Vulkan has no such device.
#include "core/error.hpp"
#include "core/vulkan/vulkan.hpp"

namespace tete::vulkan {

std::vector<Found> found() { return {}; }
std::unique_ptr<Card> open(std::string_view, const Options&) {
  fail(ErrorKind::resource,
       "this build has no Vulkan: it takes Debian's libvulkan-dev and glslc, "
       "and meson setup --reconfigure -Dvulkan=enabled");
}
bool can_validate() { return false; }
Backend& kept(std::string_view which) { return *open(which); }

}  // namespace tete::vulkan
