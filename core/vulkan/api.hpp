// The functions of libvulkan, found when they are first needed: nothing links to it.
#pragma once
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <string>

namespace tete::vulkan {

// As in headers since 2023. A device without the extension has no such function.
struct CooperativeMatrixProperties {
  VkStructureType sType = VkStructureType(1000506001);
  void* pNext = nullptr;
  uint32_t MSize = 0, NSize = 0, KSize = 0, AType = 0, BType = 0, CType = 0, ResultType = 0;
  VkBool32 saturatingAccumulation = VK_FALSE;
  uint32_t scope = 0;
};
using PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR =
    VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, CooperativeMatrixProperties*);

// clang-format off
#define TETE_VULKAN_OF_LOADER(X) X(CreateInstance) X(EnumerateInstanceLayerProperties)
#define TETE_VULKAN_OF_INSTANCE(X)                                                            \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2)              \
  X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2)                         \
  X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties)             \
  X(CreateDevice) X(GetDeviceProcAddr) X(CreateDebugUtilsMessengerEXT)                        \
  X(DestroyDebugUtilsMessengerEXT) X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)
#define TETE_VULKAN_OF_DEVICE(X)                                                              \
  X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(CreateBuffer) X(DestroyBuffer)       \
  X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory) X(BindBufferMemory)          \
  X(MapMemory) X(CreateShaderModule) X(DestroyShaderModule) X(CreateDescriptorSetLayout)      \
  X(DestroyDescriptorSetLayout) X(CreatePipelineLayout) X(DestroyPipelineLayout)              \
  X(CreateComputePipelines) X(DestroyPipeline) X(CreateCommandPool) X(DestroyCommandPool)     \
  X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(QueueSubmit)          \
  X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores) X(CmdBindPipeline)                 \
  X(CmdPushDescriptorSetKHR) X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier)         \
  X(CmdCopyBuffer) X(CmdUpdateBuffer) X(CmdFillBuffer)
// clang-format on

struct Api {
#define TETE_FUNCTION(name) PFN_vk##name name = nullptr;
  TETE_VULKAN_OF_LOADER(TETE_FUNCTION)
  TETE_VULKAN_OF_INSTANCE(TETE_FUNCTION)
  TETE_VULKAN_OF_DEVICE(TETE_FUNCTION)
#undef TETE_FUNCTION
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;

  // Opens libvulkan. False, with the reason, if this machine has none.
  bool load(std::string& reason);
  void load_instance(VkInstance instance);
  void load_device(VkDevice device);
};

// Fails (resource) unless it is a success.
void check(VkResult result, const char* what);

}  // namespace tete::vulkan
