#include "core/vulkan/matrices.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

namespace tete::vulkan {

// ---- The units of a device -------------------------------------------------------------------

std::vector<Units> units_of(const Api& api, VkPhysicalDevice device,
                            std::span<const Units::Type> types, uint32_t subgroup) {
  const auto ask = api.GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
  uint32_t count = 0;
  if (!ask || ask(device, &count, nullptr) != VK_SUCCESS) return {};
  std::vector<CooperativeMatrixProperties> all(count);
  if (ask(device, &count, all.data()) < 0) return {};
  std::vector<Units> units;
  for (const Units::Type type : types) {
    const uint32_t number = type == Units::Type::bf16 ? 1000141000 : 0, f32 = 1, of_subgroup = 3;
    Units best{type, 0, 0, 0, subgroup};
    for (const CooperativeMatrixProperties& each : all) {
      const auto fits = [](uint32_t size, uint32_t most) {
        return size >= 8 && size <= most && (size & (size - 1)) == 0;
      };
      if (each.AType == number && each.BType == number && each.CType == f32 &&
          each.ResultType == f32 && each.scope == of_subgroup && fits(each.MSize, 16) &&
          fits(each.NSize, 16) && fits(each.KSize, 32) &&
          each.MSize * each.NSize * each.KSize > best.m * best.n * best.k)
        best = {type, each.MSize, each.NSize, each.KSize, subgroup};
    }
    if (best.m > 0) units.push_back(best);
  }
  return units;
}

// ---- From one extension to the other ---------------------------------------------------------

namespace {

using Numbers = std::vector<uint32_t>;

// Instructions by their numbers in SPIR-V.
namespace op {
constexpr uint32_t extension = 10, capability = 17, type_int = 21, type_float = 22,
                   constant_true = 41, constant = 43, decorate = 71;
constexpr uint32_t nv_type = 5358, nv_load = 5359, nv_store = 5360, nv_multiply = 5361,
                   nv_length = 5362;
constexpr uint32_t type = 4456, load = 4457, store = 4458, multiply = 4459, length = 4460;
}  // namespace op
namespace capability {
constexpr uint32_t float16 = 9, nv_matrices = 5357, matrices = 6022, bf16 = 5116,
                   bf16_matrices = 5118;
}

constexpr size_t header = 5;  // words; the fourth is the bound of the names

// body(number of the instruction, its operands)
template <class Body>
void for_each_instruction(std::span<const uint32_t> code, const Body& body) {
  for (size_t at = header; at < code.size(); at += code[at] >> 16)
    body(code[at] & 0xFFFF, code.subspan(at + 1, (code[at] >> 16) - 1));
}

void add(Numbers& code, uint32_t instruction, const Numbers& operands) {
  code.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | instruction);
  code.insert(code.end(), operands.begin(), operands.end());
}

// A string as operands: its bytes, a zero, and zeros up to a whole word.
Numbers words_of(std::string_view string) {
  Numbers words(string.size() / 4 + 1);
  std::memcpy(words.data(), string.data(), string.size());
  return words;
}

// The names of what the new instructions speak of.
struct Names {
  std::map<uint32_t, uint32_t> specialised, constants;  // by specialisation, and by value
  std::set<uint32_t> trues;
  uint32_t unsigned_type = 0;

  explicit Names(std::span<const uint32_t> code) {
    for_each_instruction(code, [&](uint32_t instruction, std::span<const uint32_t> x) {
      constexpr uint32_t spec_id = 1;
      if (instruction == op::decorate && x[1] == spec_id) specialised[x[2]] = x[0];
      if (instruction == op::type_int && x[1] == 32 && x[2] == 0) unsigned_type = x[0];
      if (instruction == op::constant && x[0] == unsigned_type) constants[x[2]] = x[1];
      if (instruction == op::constant_true) trues.insert(x[1]);
    });
  }
};

// Writes the Khronos form, instruction by instruction.
class Rewriter {
 public:
  Rewriter(std::span<const uint32_t> code, Units::Type type)
      : names_(code),
        is_bf16_(type == Units::Type::bf16),
        code_(code.begin(), code.begin() + header) {
    for_each_instruction(code, [&](uint32_t instruction, std::span<const uint32_t> x) {
      rewrite(instruction, Numbers(x.begin(), x.end()));
    });
  }
  Numbers take() { return std::move(code_); }

 private:
  void rewrite(uint32_t instruction, Numbers x) {
    switch (instruction) {
      case op::capability:
        return rewrite_capability(x[0]);
      case op::extension:
        if (x != words_of("SPV_NV_cooperative_matrix")) return add(code_, instruction, x);
        if (is_bf16_) add(code_, op::extension, words_of("SPV_KHR_bfloat16"));
        return add(code_, op::extension, words_of("SPV_KHR_cooperative_matrix"));
      case op::type_float:
        if (is_bf16_ && x[1] == 16) x.push_back(0);  // the encoding: bfloat16
        return add(code_, instruction, x);
      case op::nv_type:
        make_constants();
        return add(code_, op::type, {x[0], x[1], x[2], x[3], x[4], names_.constants[use_of(x)]});
      case op::nv_load:  // type, result, pointer, stride, by columns, how memory is read
        x.insert(x.begin() + 3, names_.constants[names_.trues.count(x[4])]);
        x.erase(x.begin() + 5);
        return add(code_, op::load, x);
      case op::nv_store:  // pointer, matrix, stride, by columns, how memory is written
        x.insert(x.begin() + 2, names_.constants[names_.trues.count(x[3])]);
        x.erase(x.begin() + 4);
        return add(code_, op::store, x);
      case op::nv_multiply:
        return add(code_, op::multiply, x);
      case op::nv_length:
        return add(code_, op::length, x);
      default:
        return add(code_, instruction, x);
    }
  }

  void rewrite_capability(uint32_t which) {
    if (is_bf16_ && which == capability::float16) return;
    if (which != capability::nv_matrices) return add(code_, op::capability, {which});
    add(code_, op::capability, {capability::matrices});
    if (!is_bf16_) return;
    add(code_, op::capability, {capability::bf16});
    add(code_, op::capability, {capability::bf16_matrices});
  }

  // Uses and layouts are the constants 0, 1 and 2.
  void make_constants() {
    for (uint32_t value : {0, 1, 2})
      if (names_.constants.try_emplace(value, code_[3]).second)
        add(code_, op::constant, {names_.unsigned_type, code_[3]++, value});
  }

  // 0: A, m x k; 1: B, k x n; 2: the sum.
  uint32_t use_of(const Numbers& type) {
    if (type[4] == names_.specialised[2]) return 0;
    return type[3] == names_.specialised[2] ? 1 : 2;
  }

  Names names_;
  const bool is_bf16_;
  Numbers code_;
};

}  // namespace

std::vector<uint32_t> in_khronos_form(std::span<const uint32_t> code, Units::Type type) {
  return Rewriter(code, type).take();
}

}  // namespace tete::vulkan
