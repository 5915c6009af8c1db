// Cooperative matrices: a card's units for products of small matrices of 16-bit numbers, summed in
// f32 (VK_KHR_cooperative_matrix, VK_KHR_shader_bfloat16).
//
// Debian 12's headers and glslc are older than both. So the structures are here, and the shader is
// written for NVIDIA's extension of 2019, whose instructions become those of the Khronos one when a
// pipeline is made.
#pragma once
#include <span>
#include <vector>

#include "core/vulkan/api.hpp"

namespace tete::vulkan {

inline constexpr const char *matrix_extension = "VK_KHR_cooperative_matrix",
                            *bf16_extension = "VK_KHR_shader_bfloat16";

struct CooperativeMatrixFeatures {
  VkStructureType sType = VkStructureType(1000506000);
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE, cooperativeMatrixRobustBufferAccess = VK_FALSE;
};
struct Bfloat16Features {
  VkStructureType sType = VkStructureType(1000141000);
  void* pNext = nullptr;
  VkBool32 shaderBFloat16Type = VK_FALSE, shaderBFloat16DotProduct = VK_FALSE,
           shaderBFloat16CooperativeMatrix = VK_FALSE;
};

// Units that multiply m x k with k x n numbers of a type, in subgroups of so many invocations.
struct Units {
  enum class Type : uint8_t { bf16, f16 };
  Type type;
  uint32_t m, n, k, subgroup;
};
constexpr const char* name_of(Units::Type type) {
  return type == Units::Type::bf16 ? "bf16" : "fp16";
}

// The units that a device with the extension has for these types: of each, those of the largest
// matrices that the shader takes.
std::vector<Units> units_of(const Api& api, VkPhysicalDevice device,
                            std::span<const Units::Type> types, uint32_t subgroup);

// SPIR-V with SPV_NV_cooperative_matrix as SPIR-V with SPV_KHR_cooperative_matrix, its numbers of
// 16 bits in this type. The sizes of matrices are the specialisation constants 0 (m), 1 (n) and 2
// (k): those of a matrix tell whether it is A, B or the sum, which the Khronos form has to name.
std::vector<uint32_t> in_khronos_form(std::span<const uint32_t> code, Units::Type type);

}  // namespace tete::vulkan
