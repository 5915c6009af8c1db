#include "core/vulkan/api.hpp"

#include <dlfcn.h>

#include "core/error.hpp"

namespace tete::vulkan {

// The library stays open: its drivers have threads of their own.
bool Api::load(std::string& reason) {
  static void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    reason = "this machine has no Vulkan (libvulkan.so.1)";
    return false;
  }
  GetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (!GetInstanceProcAddr) {
    reason = "libvulkan.so.1 lacks vkGetInstanceProcAddr";
    return false;
  }
#define TETE_FUNCTION(name) \
  name = reinterpret_cast<PFN_vk##name>(GetInstanceProcAddr(nullptr, "vk" #name));
  TETE_VULKAN_OF_LOADER(TETE_FUNCTION)
#undef TETE_FUNCTION
  return true;
}

void Api::load_instance(VkInstance instance) {
#define TETE_FUNCTION(name) \
  name = reinterpret_cast<PFN_vk##name>(GetInstanceProcAddr(instance, "vk" #name));
  TETE_VULKAN_OF_INSTANCE(TETE_FUNCTION)
#undef TETE_FUNCTION
}

void Api::load_device(VkDevice device) {
#define TETE_FUNCTION(name) \
  name = reinterpret_cast<PFN_vk##name>(GetDeviceProcAddr(device, "vk" #name));
  TETE_VULKAN_OF_DEVICE(TETE_FUNCTION)
#undef TETE_FUNCTION
}

static std::string name_of(VkResult result) {
  switch (result) {
#define TETE_NAME(name) \
  case name:            \
    return #name;
    TETE_NAME(VK_ERROR_DEVICE_LOST)
    TETE_NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
    TETE_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    TETE_NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
    TETE_NAME(VK_ERROR_INITIALIZATION_FAILED)
#undef TETE_NAME
    default:
      return text("VkResult ", static_cast<int>(result));
  }
}

void check(VkResult result, const char* what) {
  if (result != VK_SUCCESS)
    fail(ErrorKind::resource, "Vulkan: ", what, " failed: ", name_of(result));
}

}  // namespace tete::vulkan
