// Attention: a variant's text as a layer of its own, as `tete check` and `tete bench attention`
// take it. Models do not: what fills their slots is part of their text.
//
//   auto program = load_attention("talking_heads");
//   Attention attention({params, "decoder/0/A"}, program, {.d_model = 128, .heads = 4});
//   Tensor Y = attention(forward, "decoder/0/A", X, X, {.causal = true});  // b n d -> b n d
#pragma once
#include <optional>

#include "attention/catalog.hpp"
#include "nn/decode.hpp"
#include "nn/run.hpp"

namespace tete {

// The checked program of a variant (a name of the catalogue, or a file) amended by the defs of the
// files `with`, in their order. Fails unless its inputs are among X[n, d] and M[m, d'] and its
// result is Y[n, d''], for the same n.
std::shared_ptr<const Checked> load_attention(const std::string& name_or_path,
                                              const std::vector<std::string>& with = {});
// The same for texts that are already read; `uses` fill its slots with texts of the library.
std::shared_ptr<const Checked> load_attention(const Program& program,
                                              const std::vector<Program>& amendments = {},
                                              const Library& library = catalogue(),
                                              const std::vector<Program>& uses = {});
// True if a causal mask keeps the future hidden, as far as the text shows; running it under such a
// mask refuses the rest.
bool is_causal(const Checked& program);
// True if it can attend to another sequence than X.
bool attends_across(const Checked& program);
// Why a checked text is not attention, with a caret; "" if it is.
std::string not_attention(const Checked& program);

struct AttentionSizes {
  Index d_model = 0;       // the last dimension of X and of the result
  Index memory_width = 0;  // the last dimension of M; 0: d_model
  // The dimension h. Not set, it is left to the text and to `dims`. A variant without h
  // (dot-product attention) has one head: another number asked of it is an error, never ignored.
  std::optional<Index> heads = {};
  SizesByName dims = {};  // any other size by its name: {{"h_k", 4}}
};

class Attention {
 public:
  // Declares the parameters in `scope`, each as `scope`/name, where the name is the program's: "B",
  // "Y.B" of the def that statement Y calls, "T5Bias.B" of an amendment. A parameter `per stack` is
  // declared once for all layers (R12), without the layer's number: for "decoder/3/A" as
  // "decoder/A/B" or "decoder/A/T5Bias.B".
  Attention(const Scope& scope, std::shared_ptr<const Checked> program,
            const AttentionSizes& sizes);

  // X[batch…, n, d], M[batch…, m, d'] -> Y[batch…, n, d]. A program that attends to itself only
  // takes M from X; any other M is an error.
  Tensor operator()(const Forward& forward, const std::string& path, const Tensor& X,
                    const Tensor& M, const Mask& mask = {}) const;

  // The same position by position: X holds the next positions of a sequence, and so does M of a
  // memory that grows; a complete one is given at the first call (nn/decode.hpp).
  Decoder decoder(Growth growth) const { return Decoder(program_, sizes_, growth); }
  Tensor next(Decoder& decoder, const Forward& forward, const std::string& path, const Tensor& X,
              const Tensor& M, const Mask& mask = {}) const;

  const Checked& program() const { return *program_; }
  // Every size that is known without a call, by name.
  SizesByName sizes() const;

 private:
  std::shared_ptr<const Checked> program_;
  SizeTable sizes_;
  std::vector<ParamId> params_;
};

}  // namespace tete
