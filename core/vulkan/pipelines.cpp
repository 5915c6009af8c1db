#include "core/vulkan/pipelines.hpp"

#include <array>
#include <optional>
#include <span>

#include "core/vulkan/spirv.hpp"

namespace tete::vulkan {

const char* name_of(Shader shader) {
  static constexpr const char* names[] = {
#define TETE_NAME(name) #name,
      TETE_VULKAN_SHADERS(TETE_NAME)
#undef TETE_NAME
  };
  return names[static_cast<int>(shader)];
}

static std::span<const uint32_t> code_of(Shader shader) {
  static constexpr std::span<const uint32_t> all[] = {
#define TETE_NAME(name) spirv::name,
      TETE_VULKAN_SHADERS(TETE_NAME)
#undef TETE_NAME
  };
  return all[static_cast<int>(shader)];
}

Pipelines::Pipelines(const Opened& card) : card_(card) {
  std::array<VkDescriptorSetLayoutBinding, most_buffers> bindings{};
  for (uint32_t i = 0; i < most_buffers; ++i)
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  const VkDescriptorSetLayoutCreateInfo set{
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
      .flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR,
      .bindingCount = most_buffers,
      .pBindings = bindings.data()};
  check(card.api.CreateDescriptorSetLayout(card.device, &set, nullptr, &buffers_),
        "vkCreateDescriptorSetLayout");
  const VkPushConstantRange words{VK_SHADER_STAGE_COMPUTE_BIT, 0, 4 * most_words};
  const VkPipelineLayoutCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                        .setLayoutCount = 1,
                                        .pSetLayouts = &buffers_,
                                        .pushConstantRangeCount = 1,
                                        .pPushConstantRanges = &words};
  check(card.api.CreatePipelineLayout(card.device, &info, nullptr, &layout_),
        "vkCreatePipelineLayout");
}

Pipelines::~Pipelines() {
  for (const auto& [key, pipeline] : made_)
    card_.api.DestroyPipeline(card_.device, pipeline, nullptr);
  card_.api.DestroyPipelineLayout(card_.device, layout_, nullptr);
  card_.api.DestroyDescriptorSetLayout(card_.device, buffers_, nullptr);
}

VkPipeline Pipelines::find(Shader shader, const Constants& constants) {
  const auto [at, is_new] = made_.try_emplace({shader, constants}, nullptr);
  if (is_new) at->second = make(shader, constants);
  return at->second;
}

// The code as devices take it: that of units has another form.
static std::vector<uint32_t> code_for(Shader shader, std::optional<Units::Type> units) {
  const std::span<const uint32_t> code = code_of(shader);
  return units ? in_khronos_form(code, *units) : std::vector(code.begin(), code.end());
}

VkPipeline Pipelines::make(Shader shader, const Constants& constants) const {
  std::optional<Units::Type> units;
  for (const auto type : {Units::Type::bf16, Units::Type::f16})
    if (shader == gemm_units(type)) units = type;
  const std::vector<uint32_t> code = code_for(shader, units);
  const VkShaderModuleCreateInfo module_info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                             .codeSize = 4 * code.size(),
                                             .pCode = code.data()};
  VkShaderModule module = nullptr;
  check(card_.api.CreateShaderModule(card_.device, &module_info, nullptr, &module),
        "vkCreateShaderModule");
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < constants.size(); ++i) entries.push_back({i, 4 * i, 4});
  const VkSpecializationInfo values{static_cast<uint32_t>(entries.size()), entries.data(),
                                    4 * constants.size(), constants.data()};
  // Some devices choose among several sizes; a matrix lies in a whole subgroup.
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroups{
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = units ? card_.can.units[0].subgroup : 0};
  const VkPipelineShaderStageCreateFlags whole_subgroups =
      VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  const VkComputePipelineCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = units ? &subgroups : nullptr,
                .flags = units ? whole_subgroups : 0,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
                .pSpecializationInfo = &values},
      .layout = layout_};
  VkPipeline pipeline = nullptr;
  const VkResult result =
      card_.api.CreateComputePipelines(card_.device, nullptr, 1, &info, nullptr, &pipeline);
  card_.api.DestroyShaderModule(card_.device, module, nullptr);
  check(result, name_of(shader));
  return pipeline;
}

}  // namespace tete::vulkan
