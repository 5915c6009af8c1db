// Decoding: a program reads a sequence a few positions at a time and keeps what later positions
// need of the past. The cache is the program's own: which statements depend on the memory alone,
// and so stay as they are while the sequence grows, follows from its text.
#pragma once
#include <map>
#include <memory>

#include "nn/run.hpp"

namespace tete {

// The two ways in which a program meets its memory.
enum class Growth : uint8_t {
  grows,     // self-attention under a causal mask: new positions are queries and memory
  complete,  // cross-attention: the memory is all there at the first call
};

class Decoder {
 public:
  // `sizes` as for run(), without a call's. Fails (input), naming the statement, where a program
  // whose memory grows reads what a causal mask hides or combines all positions.
  Decoder(std::shared_ptr<const Checked> program, const SizeTable& sizes, Growth growth);

  // The result's rows for the next positions, as a run over the whole sequence has them: inputs in
  // the program's order, each with its new rows only; of a complete memory all, at the first call,
  // and later anything. Parameters must not change between calls; no gradient flows. `mask` is for
  // a complete memory; a growing one is causal.
  Tensor next(const Tensors& inputs, std::span<const ParamId> params, const Forward& forward,
              const std::string& path = "", const Mask& mask = {});

  Index length() const { return length_; }  // positions read
  size_t bytes() const;                     // kept
  // The values that are kept, as the text calls them.
  std::vector<std::string> kept() const;

 private:
  // What a value depends on: parameters alone; queries, position by position; the memory; or both.
  enum class Side : uint8_t { once, query, memory, mixed };
  Side side_of(int number) const;
  bool has_role(const CheckedValue& v, Role role) const;
  void classify();
  void check_growth() const;
  void check_windows(const Node& node, Side side) const;
  SizeTable sizes_for(Index queries, Index memories) const;
  SizeTable sizes_of_new_memory(Index queries) const;
  void append(int number, const Tensor& rows, bool batched);

  std::shared_ptr<const Checked> program_;
  SizeTable sizes_;
  Growth growth_;
  std::vector<Side> sides_;      // of values
  std::vector<int> pieces_;      // dimensions that are the memory in larger pieces
  std::vector<int> frontier_;    // values that are kept
  std::map<int, Tensor> cache_;  // of the frontier
  std::map<const Node*, Tensor> query_tails_, memory_tails_;
  Index length_ = 0, memory_length_ = 0;
};

// A model that reads a sequence position by position: the decoder of each attention, by its path.
struct Decoding {
  std::map<std::string, Decoder> decoders = {};
  Index length = 0;  // positions read

  // The decoder at `path`; the first call makes it.
  template <class Make>
  Decoder& at(const std::string& path, const Make& make) {
    const auto known = decoders.find(path);
    return known != decoders.end() ? known->second : decoders.emplace(path, make()).first->second;
  }
};

}  // namespace tete
