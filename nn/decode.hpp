// Decoding: a program reads a sequence a few positions at a time and caches the past values that
// later positions read. The text decides which these are: rows that depend on the memory alone do
// not change while the sequence grows. A text whose new rows need earlier queries' results is run
// on all positions again.
#pragma once
#include <map>
#include <memory>

#include "nn/growing_rows.hpp"
#include "nn/run.hpp"

namespace tete {

// How the memory of a program grows from call to call.
enum class Growth : uint8_t {
  grows,     // self-attention under a causal mask: new positions are queries and memory
  complete,  // cross-attention, and what has no memory: the first call brings all of it
};

// How the memory of a call inside a causal program grows; `causal` and `apart` of its own mask.
Growth growth_of(const CheckedCall& call, bool causal, bool apart);

class Decoder {
 public:
  // `sizes` are those of run(), without the lengths of a call. Fails (input), naming the statement,
  // if the memory grows and the program reads hidden positions or how many there are; or if it is
  // complete and the program combines queries. What it calls must not fail, either.
  Decoder(std::shared_ptr<const Checked> program, const SizeTable& sizes, Growth growth);

  // Returns the result's rows for the next positions, as a run over the whole sequence has them.
  // `inputs` are in the program's order, each with its new rows only. A complete memory is given
  // whole at the first call; later calls ignore its values. Parameters must not change between
  // calls; no gradient flows. `mask` is for a complete memory; a growing one is causal, and
  // of `mask` only of_model counts. A caller who wants the last row only may be given no other:
  // what no other position reads behind the last call is then computed for that row alone (R28),
  // unless a hook may look at it.
  Tensor next(const Tensors& inputs, std::span<const ParamId> params, const Forward& forward,
              const std::string& path = "", const Mask& mask = {}, bool last_only = false);

  // From here on a batch of `count` samples, which all have read what the only one has.
  void repeat(Index count);

  Index length() const { return length_; }  // positions read
  // The names of the cached values in the text; a product within an einsum of many operands has the
  // name of its statement. The names of the inputs where a text is read again whole.
  std::vector<std::string> cached() const;

 private:
  const Sources& from(int value) const { return program_->flow.values[value].from; }
  bool is_of_memory_alone(int value) const { return from(value).memory && !from(value).queries; }
  // True if the context is read again whole with each call.
  bool reads_again() const { return growth_ == Growth::grows && program_->flow.rereads; }
  bool is_cacheable(int value) const;
  void find_frontier();
  void find_order();
  void find_behind();
  SizeTable sizes_for(Index queries, Index memories) const;
  SizeTable sizes_of_new_memory(Index queries) const;
  struct Lengths {
    Index queries = -1, memories = -1;
  };
  Lengths lengths_of(const Tensors& inputs) const;
  void append(int number, const Tensor& rows, bool batched);
  void cache_rows(Runner& fresh, Index queries);
  Tensors with_placeholders(const Tensors& inputs) const;
  Tensor run_behind(Runner& whole, Index queries, const Forward& forward, const std::string& path,
                    const Mask& mask) const;
  Tensor read_again(const Tensors& inputs, Index queries, std::span<const ParamId> params,
                    const Forward& forward, const std::string& path, const Mask& mask);

  std::shared_ptr<const Checked> program_;
  SizeTable sizes_;
  Growth growth_;
  std::vector<int> frontier_;  // the values to cache
  // Used with a complete memory: the values that the result needs; those behind, whose rows follow
  // from the same row of what they read, and which only such values read; and what these read.
  std::vector<int> order_, behind_, before_behind_;
  std::map<int, GrowingRows> cache_;  // by value of the frontier
  std::vector<GrowingRows> read_;     // the inputs so far, where a text must read them again
  std::map<const Node*, Tensor> query_tails_, memory_tails_;
  Index length_ = 0, memory_length_ = 0;
};

// The state of a model that reads a sequence position by position: its own decoder, at "", and
// those of its calls, by their paths.
struct Decoding {
  std::map<std::string, Decoder> decoders = {};
  Index length = 0;  // positions read

  // From here on a batch of `count` samples, which all have read what the only one has.
  void repeat(Index count) {
    for (auto& [path, decoder] : decoders) decoder.repeat(count);
  }
  // The decoder at `path`; the first call makes it.
  template <class Make>
  Decoder& at(const std::string& path, const Make& make) {
    const auto known = decoders.find(path);
    return known != decoders.end() ? known->second : decoders.emplace(path, make()).first->second;
  }
};

}  // namespace tete
