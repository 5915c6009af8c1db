// The shaders, and the pipelines made of them when they are first needed.
#pragma once
#include <map>

#include "core/vulkan/device.hpp"

namespace tete::vulkan {

// Each shader is built for the types that it is written for; core/vulkan/meson.build has the list.
// The f64 form follows the f32 form.
// clang-format off
#define TETE_VULKAN_SHADERS(X)                                                        \
  X(elementwise_f32) X(elementwise_f64) X(random_f32) X(random_f64)                   \
  X(fold_f32) X(fold_f64) X(fold_f32_to_f64) X(gemm_f32) X(gemm_f64) X(gemm_bf16)     \
  X(gemm_units_bf16) X(gemm_units_f16) X(fold_size)                                    \
  X(norm_f32) X(norm_f64) X(norm_gradient_f32) X(norm_gradient_f64)                   \
  X(scatter_f32) X(scatter_f64) X(top_k_f32) X(top_k_f64) X(adam_f32) X(adam_f64)     \
  X(copy) X(copy_f64) X(copy_bf16) X(softmax) X(cross_entropy) X(gather) X(links)     \
  X(check_inside) X(mixed_softmax)
// clang-format on
enum class Shader : uint8_t {
#define TETE_NAME(name) name,
  TETE_VULKAN_SHADERS(TETE_NAME)
#undef TETE_NAME
};
const char* name_of(Shader shader);
// The shader's form for a type, given the f32 form.
inline Shader in(Dtype dtype, Shader f32) {
  return static_cast<Shader>(static_cast<int>(f32) + (dtype == Dtype::f64));
}

// The shader that multiplies by units of this type.
inline Shader gemm_units(Units::Type type) {
  return type == Units::Type::bf16 ? Shader::gemm_units_bf16 : Shader::gemm_units_f16;
}

// The values of a shader's constants, by their number.
using Constants = std::vector<uint32_t>;

inline constexpr uint32_t most_buffers = 8;      // of a call
inline constexpr uint32_t most_words = 128 / 4;  // what every device takes

class Pipelines {
 public:
  explicit Pipelines(const Opened& card);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;

  VkPipelineLayout layout() const { return layout_; }
  VkPipeline find(Shader shader, const Constants& constants);

 private:
  VkPipeline make(Shader shader, const Constants& constants) const;

  const Opened& card_;
  VkDescriptorSetLayout buffers_ = nullptr;
  VkPipelineLayout layout_ = nullptr;
  std::map<std::pair<Shader, Constants>, VkPipeline> made_;
};

}  // namespace tete::vulkan
