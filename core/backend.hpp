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

// The name of its row in elementwise.def.
const char* name_of(Unary op);
const char* name_of(Binary op);

enum class Fold : uint8_t { sum, max };

// Says how large pieces of work should be: numbers of a value, rows of it, and how many pieces
// there should be, if work allows. The processor's values of a piece stay in its caches (6 MB of
// f32), each thread having one; a graphics card has a single piece at a time, and that fills it.
struct Pieces {
  double numbers = 1572864;
  Index rows = 128, count = 8;
  // Bytes of all live tensors up to which values are kept, where a run's own limit is lower.
  double kept = 0;
};

// The factors of one step of Adam (adam_update in core/update.hpp has the formula).
struct AdamStep {
  double beta1, beta2, keep, rate, unit, epsilon;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  // The same for any number of threads.
  virtual Pieces pieces() const { return {}; }

  // Memory aligned to 64 bytes, not cleared. Throws Error (resource) if none is left.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* bytes, size_t count) noexcept = 0;
  // Bytes of the device to the host, after all work before; and of the host to the device, where
  // `from` may be reused as soon as the call returns.
  virtual void read(const void* from, void* to, size_t bytes) = 0;
  virtual void write(const void* from, void* to, size_t bytes) = 0;
  // Waits until all work is done.
  virtual void finish() {}

  // True if contract() takes bf16 operands here: the contraction is computed as matrix products,
  // and no operand is summed before. Depends on shapes and strides alone.
  virtual bool contracts_bf16(const View& A, const Labels& a, const View& B, const Labels& b,
                              const View& Y, const Labels& y) const = 0;
  // True if heads, small_side at most, are mixed in f32 around a softmax (mixed_softmax) although
  // products are of bf16: where that takes as long as memory does, rounding costs more than it
  // saves.
  virtual bool mixes_in_f32() const { return false; }
  // True if attend() is faster for so many queries than the operations that it stands for;
  // mixed_heads: the largest number of heads, 0 if they are not mixed.
  virtual bool attends([[maybe_unused]] Index queries, [[maybe_unused]] Index mixed_heads) const {
    return false;
  }
  // Told the row-major number of the first index that is outside; throws.
  using Refuse = std::function<void(Index place)>;

  // The operations that every device has.
#define OPERATION(name, parameters, arguments) virtual void name parameters = 0;
#include "core/operations.def"
#undef OPERATION

  // The kernels that a device may lack; each returns false unless the device has it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define KERNEL(name, parameters, arguments) \
  virtual bool name parameters { return false; }
#include "core/kernels.def"
#undef KERNEL
#pragma GCC diagnostic pop
};

// The processor. Lives as long as the program.
Backend& cpu();

}  // namespace tete
