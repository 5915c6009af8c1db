// A block's run a piece of its memory at a time (nn/language/check.hpp, Tile::passes): what lies
// between two sums over the memory is made and used while the caches hold it.
//
// Each piece has a run of its own in each pass, whose memory is the piece; another run has what is
// not over the memory. A gradient makes what lies between again, pass by pass from the last: what a
// block holds for all its memory is what one pass leaves to the next, and the gradient of that.
#pragma once
#include "nn/language/builtins/softmax.hpp"
#include "nn/tile/tile.hpp"

namespace tete {

class PieceRun {
 public:
  PieceRun(const TiledCall& call, const Parts& parts, const Range& range, const Pieces& pieces);

  // Makes all passes. Returns the run of what is not over the memory.
  Runner& run(const Unread& unread = {});

  // Hands out the gradients of tracked parts, where `g` is that of the block's exits. The program
  // goes back; nothing has been run before.
  using Add = std::function<void(size_t input, const Piece& memory, const Tensor& gradient)>;
  void gradients(const Tensor& g, const Add& add);

 private:
  using Values = std::map<int, Tensor>;  // by their numbers in the program
  // What one pass leaves of a piece for others.
  struct Left {
    Values values = {}, sums = {}, totals = {};
    std::map<int, SoftmaxArgument> rows = {};
  };
  // What a pass reads of a piece, as leaves of a gradient, and where that goes.
  struct Leaves {
    Left left = {};
    Tensors asked = {};
    std::vector<std::function<void(const Tensor& gradient)>> takers = {};

    void ask(const Tensor& x, const std::function<void(const Tensor& gradient)>& taker);
    void take(const Tensor& y, const Tensor& g) const;
  };

  const CheckedValue& value(int number) const { return program_.values[number]; }
  bool is_given(int number) const;
  void make_all(const Tile::Pass& pass, const Parts& parts, size_t count, const Unread& unread);
  Left make(const Tile::Pass& pass, const Parts& parts, size_t piece, const Left& read,
            const Unread& unread);
  void step(const Tile::Step& step, Runner& run, const Left& read, Left& made);
  void complete(const Tile::Pass& pass, const Unread& unread);
  Tensor total_of(int softmax);
  bool has_logit_of_samples(const Node& softmax);

  bool exits_are_sums() const;
  Unread unread_going_back(const Tile::Pass& pass) const;
  void gradients_of_exits(const Tensor& g, const Add& add);
  Leaves leaves_of(const Tile::Pass& pass, size_t piece, const Add& add);
  void ask_parts(Leaves& leaves, size_t piece, bool over_memory, const Add& add);
  void go_back(const Tile::Pass& pass, size_t piece, const Add& add);
  Tensor row_gradient(int softmax, size_t piece);

  const TiledCall& call_;
  const Checked& program_;
  const Range& range_;
  const Parts& parts_;
  const Pieces& pieces_;
  TileBlock block_;
  std::vector<Left> left_;  // by piece
  Values totals_;           // of softmax's whole rows
  // Gradients of what was left, by piece; and of what all pieces share.
  struct Gradients {
    Values values = {}, rows = {};
  };
  std::vector<Gradients> gradients_;
  Values sum_gradients_, total_gradients_;
  std::map<size_t, Tensor> shared_;  // of parts that all pieces read
};

}  // namespace tete
