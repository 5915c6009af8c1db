// A device: it holds bytes and runs a dozen kernels on views of them. Every function here may
// return before the work is done, as long as later calls see its results; `read` and `finish` wait.
//
// A kernel reads and writes Views (shape, strides in elements, pointer). Inputs may be strided,
// broadcast (stride 0) and may overlap each other; an output is written completely, never overlaps
// an input and has no stride 0 on a dimension longer than 1. Any dimension may have size 0.
// Shapes and dtypes have been checked by the caller. Results do not depend on the number of
// threads: work is cut into blocks by sizes alone, and sums run in a fixed order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/shape.hpp"

namespace tete {

// A matrix with no side above this is small, and from here on a row is long. Where small matrices
// mix long rows, contractions keep rows whole, and the processor has kernels of its own.
inline constexpr Index small_side = 32, long_row = 128;

// Elementwise operations: the rows of elementwise.def.
enum class Unary : uint8_t {
#define UNARY(name, value, gradient, low, high) name,
#define BINARY(name, value, gradient_a, gradient_b, low, high)
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  count
};
enum class Binary : uint8_t {
#define UNARY(name, value, gradient, low, high)
#define BINARY(name, value, gradient_a, gradient_b, low, high) name,
#include "core/elementwise.def"
#undef UNARY
#undef BINARY
  count
};

enum class Fold : uint8_t { sum, max };

// The factors of one step of Adam (adam_update in core/update.hpp has the formula).
struct AdamStep {
  double beta1, beta2, keep, rate, unit, epsilon;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;

  // Memory aligned to 64 bytes, not cleared. Throws Error (resource) if none is left.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* bytes, size_t count) noexcept = 0;
  // Bytes of the device to the host, after all work before; and of the host to the device, where
  // `from` may be reused as soon as the call returns.
  virtual void read(const void* from, void* to, size_t bytes) = 0;
  virtual void write(const void* from, void* to, size_t bytes) = 0;
  // Waits until all work is done.
  virtual void finish() {}

  // y = op(x); every view has y's shape. f32 or f64.
  virtual void unary(Unary op, const View& x, const View& y) = 0;
  // dx = g · op'(x), where y = op(x); every view has dx's shape.
  virtual void unary_gradient(Unary op, const View& x, const View& y, const View& g,
                              const View& dx) = 0;
  // y = op(a, b); every view has y's shape.
  virtual void binary(Binary op, const View& a, const View& b, const View& y) = 0;
  // y = c != 0 ? a : b; every view has y's shape.
  virtual void select(const View& c, const View& a, const View& b, const View& y) = 0;
  // Every element of y becomes `value`.
  virtual void fill(double value, const View& y) = 0;
  // y = x, converting between dtypes (real to i64 rounds toward zero, to bf16 to the nearest); x
  // has y's shape.
  virtual void copy(const View& x, const View& y) = 0;
  // y has x's rank, with size 1 on the dimensions that are folded. An empty sum is 0, an empty
  // max -infinity. A NaN wins a max.
  virtual void fold(Fold how, const View& x, const View& y) = 0;
  // y = Σ A·B over the labels that y lacks. Labels name the dimensions of each view, each once; one
  // of y is in a or b; one of a or b that is in no other view is summed. All are of one real type;
  // or A and B are bf16 and Y is f32, where the contraction multiplies matrices.
  virtual void contract(const View& A, const Labels& a, const View& B, const Labels& b,
                        const View& Y, const Labels& y) = 0;
  // True if contract() takes bf16 operands here: the contraction is computed as matrix products,
  // and no operand is summed before. Depends on shapes and strides alone.
  virtual bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b,
                              const View& Y, const Labels& y) const = 0;
  // y[…] = T[…], where T's dimension `label` is read at the position that I (i64) holds. Labels:
  // t names T's dimensions; i I's; y contains every label of t and i but `label`. Every index has
  // been checked to lie in the dimension.
  virtual void gather(const View& T, const Labels& t, const View& I, const Labels& i, Label label,
                      const View& Y, const Labels& y) = 0;
  // The transpose of gather: T = 0, then T[…, I[…], …] += G[…], in the row-major order of G.
  virtual void scatter(const View& G, const Labels& g, const View& I, const Labels& i, Label label,
                       const View& T, const Labels& t) = 0;
  // Calls refuse(place), which throws, if an element of I (i64) is outside 0 … size - 1; `place` is
  // the row-major number of the first. A device may do so as late as in its next `read`: what it
  // computed since then is lost, but nothing outside its memory was touched.
  using Refuse = std::function<void(Index place)>;
  virtual void check_inside(const View& I, Index size, Refuse refuse) = 0;
  // Element number i of y (row-major, logical order) becomes uniform in [0, 1): the Philox 4x32-10
  // block of (key, counter = first + i).
  virtual void uniform(uint64_t key, uint64_t first, const View& y) = 0;

  // The kernels that a device may lack; each returns false unless the device has it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define KERNEL(name, ...) \
  virtual bool name(__VA_ARGS__) { return false; }
#include "core/kernels.def"
#undef KERNEL
#pragma GCC diagnostic pop
};

// The processor. Lives as long as the program.
Backend& cpu();

}  // namespace tete
