#include "core/vulkan/device.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/error.hpp"

namespace tete::vulkan {

namespace {

constexpr const char* layer = "VK_LAYER_KHRONOS_validation";

template <class Properties, class Enumerate>
std::vector<Properties> all_of(const Enumerate& enumerate) {
  uint32_t count = 0;
  enumerate(&count, static_cast<Properties*>(nullptr));
  std::vector<Properties> all(count);
  enumerate(&count, all.data());
  all.resize(count);
  return all;
}

bool has_layer(const Api& api) {
  const auto layers = all_of<VkLayerProperties>(
      [&](auto* count, auto* to) { api.EnumerateInstanceLayerProperties(count, to); });
  return std::any_of(layers.begin(), layers.end(),
                     [](const auto& each) { return !std::strcmp(each.layerName, layer); });
}

VKAPI_ATTR VkBool32 VKAPI_CALL hear(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                    VkDebugUtilsMessageTypeFlagsEXT,
                                    const VkDebugUtilsMessengerCallbackDataEXT* data, void* to) {
  Messages& messages = *static_cast<Messages*>(to);
  const std::lock_guard lock(messages.mutex);
  if (++messages.said.messages <= 4) messages.said.first.emplace_back(data->pMessage);
  return VK_FALSE;
}

// 0 for the kind that is taken first: discrete, integrated, virtual and others, emulated.
int rank_of(const Abilities& can) {
  constexpr int ranks[] = {2, 1, 0, 2, 3};  // by VkPhysicalDeviceType
  return can.type < std::ssize(ranks) ? ranks[can.type] : 2;
}

// The usable devices, best first: their numbers are the places here.
std::vector<std::pair<VkPhysicalDevice, Abilities>> usable(const Instance& instance) {
  std::vector<std::pair<VkPhysicalDevice, Abilities>> all;
  for (VkPhysicalDevice each : instance.devices) {
    Abilities can(instance.api, each);
    if (can.is_usable) all.emplace_back(each, std::move(can));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return rank_of(a.second) < rank_of(b.second);
  });
  return all;
}

std::string lower(std::string_view x) {
  std::string y(x);
  for (char& c : y)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return y;
}

VkPhysicalDevice chosen(const Instance& instance, std::string_view which) {
  const auto all = usable(instance);
  if (all.empty())
    fail(ErrorKind::resource,
         "Vulkan has no device here that computes (Vulkan 1.2 with push descriptors)");
  const std::string names = list_of(all, [](const auto& row) { return row.second.name; });
  if (which.empty()) {
    if (!all[0].second.is_emulated()) return all[0].first;
    fail(ErrorKind::resource, "the only Vulkan device here is an emulation on the processor (",
         all[0].second.name, "), slower than 'cpu'; '--device vulkan:0' takes it all the same");
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (which == std::to_string(i) ||
        (which.find_first_not_of("0123456789") != std::string_view::npos &&
         lower(all[i].second.name).find(lower(which)) != std::string::npos))
      return all[i].first;
  bad_input("Vulkan has no device '", which, "': expected a number from 0 to ", all.size() - 1,
            ", or a part of a name of ", names);
}

}  // namespace

Instance::Instance(Messages* messages) {
  std::string reason;
  if (!api.load(reason)) fail(ErrorKind::resource, reason);
  if (messages && !has_layer(api))
    fail(ErrorKind::resource,
         "Vulkan's validation layer is not installed (Debian's vulkan-validationlayers)");
  const VkApplicationInfo program{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                  .pApplicationName = "tete",
                                  .apiVersion = VK_API_VERSION_1_2};
  const VkDebugUtilsMessengerCreateInfoEXT listener{
      .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
      .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                     VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
      .pfnUserCallback = hear,
      .pUserData = messages};
  const auto synchronization = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  const VkValidationFeaturesEXT features{.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                         .enabledValidationFeatureCount = 1,
                                         .pEnabledValidationFeatures = &synchronization};
  const char* const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  const uint32_t validates = messages != nullptr;  // how many layers, and extensions
  const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                  .pNext = messages ? &features : nullptr,
                                  .pApplicationInfo = &program,
                                  .enabledLayerCount = validates,
                                  .ppEnabledLayerNames = &layer,
                                  .enabledExtensionCount = validates,
                                  .ppEnabledExtensionNames = &extension};
  check(api.CreateInstance(&info, nullptr, &instance_), "vkCreateInstance");
  api.load_instance(instance_);
  if (messages)
    check(api.CreateDebugUtilsMessengerEXT(instance_, &listener, nullptr, &messenger_),
          "vkCreateDebugUtilsMessengerEXT");
  devices = all_of<VkPhysicalDevice>(
      [&](auto* count, auto* to) { api.EnumeratePhysicalDevices(instance_, count, to); });
}

Instance::~Instance() {
  if (messenger_) api.DestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  if (instance_) api.DestroyInstance(instance_, nullptr);
}

// Features that a device is asked for, and opened with: structures in a chain, those of extensions
// only if it has them.
struct Features {
  Features(bool with_matrices, bool with_bf16) {
    if (with_matrices) v12.pNext = &sizes;
    if (with_bf16) matrices.pNext = &bf16;
  }
  Features(const Features&) = delete;

  Bfloat16Features bf16;
  CooperativeMatrixFeatures matrices;
  VkPhysicalDeviceSubgroupSizeControlFeatures sizes{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
      .pNext = &matrices};
  VkPhysicalDeviceVulkan12Features v12{.sType =
                                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features v11{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &v12};
  VkPhysicalDeviceFeatures2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                .pNext = &v11};
};

// The budget of each heap in `next`, if that is given.
static VkPhysicalDeviceMemoryProperties memory_of(const Api& api, VkPhysicalDevice device,
                                                  void* next = nullptr) {
  VkPhysicalDeviceMemoryProperties2 memory{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = next};
  api.GetPhysicalDeviceMemoryProperties2(device, &memory);
  return memory.memoryProperties;
}

// The units that a device of these features has for products of bf16 tensors.
static std::vector<Units> usable_units(const Api& api, VkPhysicalDevice device, const Features& can,
                                       uint32_t subgroup) {
  if (!can.v11.storageBuffer16BitAccess || !can.matrices.cooperativeMatrix ||
      !can.v12.vulkanMemoryModelDeviceScope || !can.sizes.subgroupSizeControl ||
      !can.sizes.computeFullSubgroups)
    return {};
  std::vector<Units::Type> types;
  if (can.bf16.shaderBFloat16CooperativeMatrix) types.push_back(Units::Type::bf16);
  if (can.v12.shaderFloat16) types.push_back(Units::Type::f16);
  return units_of(api, device, types, subgroup);
}

Abilities::Abilities(const Api& api, VkPhysicalDevice device) {
  VkPhysicalDeviceSubgroupProperties subgroups{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties limits3{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, .pNext = &subgroups};
  VkPhysicalDeviceProperties2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                  .pNext = &limits3};
  api.GetPhysicalDeviceProperties2(device, &all);
  const VkPhysicalDeviceProperties& properties = all.properties;
  const VkPhysicalDeviceLimits& limits = properties.limits;
  name = properties.deviceName;
  type = properties.deviceType;
  most_groups = std::min(limits.maxComputeWorkGroupCount[0], limits.maxComputeWorkGroupCount[1]);
  most_invocations = limits.maxComputeWorkGroupInvocations;
  most_shared = limits.maxComputeSharedMemorySize;
  largest = std::min<size_t>(limits.maxStorageBufferRange, limits3.maxMemoryAllocationSize);

  const auto extensions = all_of<VkExtensionProperties>([&](auto* count, auto* to) {
    api.EnumerateDeviceExtensionProperties(device, nullptr, count, to);
  });
  const auto has = [&](std::string_view extension) {
    return std::any_of(extensions.begin(), extensions.end(),
                       [&](const auto& each) { return each.extensionName == extension; });
  };
  const bool has_matrices =
      has(matrix_extension) && has(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  Features can(has_matrices, has_matrices && has(bf16_extension));
  const bool is_new = properties.apiVersion >= VK_API_VERSION_1_2;
  if (is_new) api.GetPhysicalDeviceFeatures2(device, &can.all);
  f64 = can.all.features.shaderFloat64;
  stores_16_bits = can.v11.storageBuffer16BitAccess;
  folds_subgroups = (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                    (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) &&
                    subgroups.subgroupSize >= 4 && most_shared >= 32768;
  // The shader has at least four subgroups, and takes 21 KiB of shared memory (40 in large tiles).
  if (4 * subgroups.subgroupSize <= most_invocations && most_shared >= 32768)
    units = usable_units(api, device, can, subgroups.subgroupSize);

  const VkPhysicalDeviceMemoryProperties heaps = memory_of(api, device);
  for (uint32_t i = 0; i < heaps.memoryHeapCount; ++i)
    if ((heaps.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
        heaps.memoryHeaps[i].size > memory)
      own_heap = i, memory = heaps.memoryHeaps[i].size;

  const auto queues = all_of<VkQueueFamilyProperties>([&](auto* count, auto* to) {
    api.GetPhysicalDeviceQueueFamilyProperties(device, count, to);
  });
  const auto computes = std::find_if(queues.begin(), queues.end(), [](const auto& family) {
    return family.queueFlags & VK_QUEUE_COMPUTE_BIT;
  });
  queue_family = static_cast<uint32_t>(computes - queues.begin());
  tells_memory_left = has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  is_usable = is_new && has(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME) && can.v12.timelineSemaphore &&
              computes != queues.end();
}

std::optional<size_t> Abilities::memory_left(const Api& api, VkPhysicalDevice device) const {
  if (!tells_memory_left) return {};
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  memory_of(api, device, &budget);
  return budget.heapBudget[own_heap] -
         std::min(budget.heapBudget[own_heap], budget.heapUsage[own_heap]);
}

std::vector<const char*> Abilities::extensions() const {
  std::vector<const char*> all{VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME};
  if (tells_memory_left) all.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (!units.empty())
    all.insert(all.end(), {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, matrix_extension});
  if (has(Units::Type::bf16)) all.push_back(bf16_extension);
  return all;
}

bool Abilities::has(Units::Type type) const {
  return std::any_of(units.begin(), units.end(),
                     [&](const Units& each) { return each.type == type; });
}

Found Abilities::found() const {
  std::string what = is_emulated() ? "an emulation on the processor" : "a graphics card";
  what += f64 ? ", f32 and f64" : ", f32 (f64 on the processor)";
  if (units.empty() && stores_16_bits) what += ", bf16 by conversion";
  for (const Units& each : units)
    what += text(", ", name_of(each.type), " matrices of ", each.m, " x ", each.k, " x ", each.n);
  return {name, what, memory, largest};
}

Opened::Opened(std::string_view which, const Options& options)
    : instance(options.validates ? &messages : nullptr),
      physical(chosen(instance, which)),
      can(instance.api, physical) {
  const float priority = 1;
  const VkDeviceQueueCreateInfo queues{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                       .queueFamilyIndex = can.queue_family,
                                       .queueCount = 1,
                                       .pQueuePriorities = &priority};
  Features features(!can.units.empty(), can.has(Units::Type::bf16));
  features.all.features.shaderFloat64 = can.f64;
  features.v11.storageBuffer16BitAccess = can.stores_16_bits;
  features.v12.timelineSemaphore = VK_TRUE;
  if (!can.units.empty()) {
    features.v12.vulkanMemoryModel = features.v12.vulkanMemoryModelDeviceScope = VK_TRUE;
    features.matrices.cooperativeMatrix = VK_TRUE;
    features.sizes.subgroupSizeControl = features.sizes.computeFullSubgroups = VK_TRUE;
    features.v12.shaderFloat16 = can.has(Units::Type::f16);
    features.bf16.shaderBFloat16Type = features.bf16.shaderBFloat16CooperativeMatrix =
        can.has(Units::Type::bf16);
  }
  const std::vector<const char*> extensions = can.extensions();
  const VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                .pNext = &features.all,
                                .queueCreateInfoCount = 1,
                                .pQueueCreateInfos = &queues,
                                .enabledExtensionCount = static_cast<uint32_t>(extensions.size()),
                                .ppEnabledExtensionNames = extensions.data()};
  api = instance.api;
  check(api.CreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
  api.load_device(device);
  api.GetDeviceQueue(device, can.queue_family, 0, &queue);
  memory = memory_of(api, physical);
}

Opened::~Opened() { api.DestroyDevice(device, nullptr); }

std::vector<Found> found() {
  std::vector<Found> all;
  Api api;
  std::string reason;
  if (!api.load(reason)) return all;
  const Instance instance(nullptr);
  for (const auto& [device, can] : usable(instance)) all.push_back(can.found());
  return all;
}

bool can_validate() {
  Api api;
  std::string reason;
  return api.load(reason) && has_layer(api);
}

}  // namespace tete::vulkan
