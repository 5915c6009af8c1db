// An instance of Vulkan, its devices, and one of them that was opened.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/vulkan/matrices.hpp"
#include "core/vulkan/vulkan.hpp"

namespace tete::vulkan {

// Messages of the validation layer: the callback comes from any thread.
struct Messages {
  mutable std::mutex mutex;
  Said said;
};

class Instance {
 public:
  // Fails (resource) if this machine has no Vulkan.
  // The validation layer writes to `messages`, if they are given.
  explicit Instance(Messages* messages);
  ~Instance();
  Instance(const Instance&) = delete;

  Api api;
  std::vector<VkPhysicalDevice> devices;

 private:
  VkInstance instance_ = nullptr;
  VkDebugUtilsMessengerEXT messenger_ = nullptr;
};

// The abilities of a device that matter here.
struct Abilities {
  explicit Abilities(const Api& api, VkPhysicalDevice device);

  std::string name;
  VkPhysicalDeviceType type;
  bool is_usable = false;  // Vulkan 1.2, push descriptors, timeline semaphores, a compute queue
  bool f64 = false, stores_16_bits = false, tells_memory_left = false;
  bool folds_subgroups = false;  // of four invocations or more, with 32 KiB of shared memory
  std::vector<Units> units;      // the best first
  uint32_t queue_family = 0, most_groups = 0, most_invocations = 0, own_heap = 0;
  uint32_t most_shared = 0;        // bytes of a workgroup's own memory
  size_t largest = 0, memory = 0;  // bytes of a tensor, and of the largest heap that is its own

  // Bytes that the largest heap of the device's own still has, if the driver tells.
  std::optional<size_t> memory_left(const Api& api, VkPhysicalDevice device) const;
  // The extensions that it is opened with.
  std::vector<const char*> extensions() const;
  bool has(Units::Type type) const;
  bool is_emulated() const { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
  Found found() const;
};

class Opened {
 public:
  Opened(std::string_view which, const Options& options);
  ~Opened();
  Opened(const Opened&) = delete;

  Messages messages;
  Instance instance;
  Api api;
  VkPhysicalDevice physical;
  Abilities can;
  VkDevice device = nullptr;
  VkQueue queue = nullptr;
  VkPhysicalDeviceMemoryProperties memory{};
};

}  // namespace tete::vulkan
