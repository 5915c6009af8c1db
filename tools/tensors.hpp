// Tensors and masks as the verbs that evaluate texts are given them: safetensors files, under the
// names of the text.
#pragma once
#include "nn/run.hpp"
#include "tools/options.hpp"

namespace tete {

// Every tensor of a file, by any tool. Half precision comes as f32, truth values and integers as
// i64.
TensorsByName read_tensors(const std::string& path);

// "causal", "none", or a safetensors file with `visible` ([n, m] or [batch, n, m]: 1 = may attend),
// `lengths` ([batch], of the memory) or both; or a .npy file, which is `visible`.
Mask read_mask(const std::string& name_or_path);

// The text that a verb evaluates: --with, --dim and --mask.
struct TextOptions {
  std::vector<std::string> with, dim, use;
  std::string mask = "none";

  SizesByName sizes() const;
};
void add_text_options(CLI::App& app, TextOptions& o);
// --with and --dim, which other verbs have too.
void add_amendments(CLI::App& app, std::vector<std::string>& with, std::vector<std::string>& dim);
CLI::Option* add_mask(CLI::App& app, std::string& mask);

}  // namespace tete
