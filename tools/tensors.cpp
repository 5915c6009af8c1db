#include "tools/tensors.hpp"

#include "tools/model.hpp"
#include "tools/npy.hpp"
#include "tools/uses.hpp"
#include "train/safetensors.hpp"

namespace tete {

TensorsByName read_tensors(const std::string& path) {
  TensorsByName tensors;
  for (const auto& [name, x] : Safetensors(path, Safetensors::Trust::anyone).read_all())
    tensors[name] = x;
  return tensors;
}

static Mask read_mask_file(const std::string& path) {
  Mask mask;
  if (path.ends_with(".npy")) {
    mask.visible = read_npy(path);
    return mask;
  }
  for (const auto& [name, x] : read_tensors(path)) {
    if (name == "visible") mask.visible = x;
    else if (name == "lengths") mask.lengths = x;
    else
      bad_input(path, ": a mask is 'visible' ([n, m] or [batch, n, m], 1 = may attend), ",
                "'lengths' ([batch]) or both, not '", name, "'");
  }
  return mask;
}

Mask read_mask(const std::string& name_or_path) {
  Mask mask;
  if (name_or_path == "none") return mask;
  if (name_or_path == "causal") return {.causal = true};
  if (name_or_path.find('.') == std::string::npos && name_or_path.find('/') == std::string::npos)
    bad_input("--mask ", name_or_path, ": expected causal, none, a safetensors or a .npy file",
              suggestion(name_or_path, std::vector<std::string>{"causal", "none"}));
  mask = read_mask_file(name_or_path);
  if (mask.hides_nothing())
    bad_input(name_or_path, ": there is no 'visible' and no 'lengths': expected a mask");
  if (mask.visible)
    for (double x : mask.visible.values())
      if (x != 0 && x != 1)
        bad_input(name_or_path, ": 'visible' has the entry ", x,
                  ", expected 1 where a query may attend and 0 where not");
  if (mask.lengths && mask.lengths.dtype() != Dtype::i64)
    bad_input(name_or_path, ": 'lengths' has type ", name_of(mask.lengths.dtype()),
              ", expected whole numbers");
  return mask;
}

SizesByName TextOptions::sizes() const {
  SizesByName sizes;
  for (const std::string& setting : dim) set_dim(sizes, setting);
  return sizes;
}

void add_amendments(CLI::App& app, std::vector<std::string>& with, std::vector<std::string>& dim) {
  for (const auto& [name, values, type, what] :
       {std::tuple{"--dim", &dim, "NAME=SIZE", "a size of the variant's text"},
        std::tuple{"--with", &with, "FILE", "amend the variant"}})
    add_list(app, name, *values, what)->type_name(type);
}

CLI::Option* add_mask(CLI::App& app, std::string& mask) {
  return app
      .add_option("--mask", mask,
                  "causal, none, or a safetensors file with 'visible' ([n, m] or [batch, n, m]: 1 "
                  "= may attend), 'lengths' ([batch]) or both, or a .npy file, which is 'visible'")
      ->type_name("MASK")
      ->default_str("none");
}

void add_text_options(CLI::App& app, TextOptions& o) {
  add_amendments(app, o.with, o.dim);
  add_uses(app, o.use);
  add_mask(app, o.mask);
}

}  // namespace tete
