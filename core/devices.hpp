// The registry of devices, by name.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.hpp"

namespace tete {

// A device of this machine, for a list.
struct Found {
  std::string name, what;
  size_t memory = 0, largest = 0;  // bytes: of all tensors, and of one
};

struct Device {
  const char* name;
  const char* what;  // for a list
  // The device of a number, or of a part of its name, where there are several; "": the first. Fails
  // (resource) if this machine has none.
  Backend& (*get)(std::string_view which);
  bool is_one;  // true: no number follows the name
  std::vector<Found> (*found)();
};
std::span<const Device> devices();

// An operation that a device left to the processor: how often, and the bytes that went there and
// back.
struct Fallback {
  std::string operation;
  int64_t times = 0;
  size_t bytes = 0;
};

// Counts of the work that a device was given since its start.
struct Counts {
  int64_t dispatches = 0, barriers = 0, submissions = 0, reads = 0;
  size_t written = 0, read = 0;  // bytes
  double recording = 0;          // seconds that the host took to record the dispatches

  // Microseconds of a dispatch.
  double recording_us() const { return dispatches ? 1e6 * recording / double(dispatches) : 0; }
  friend Counts operator-(const Counts& a, const Counts& b) {
    return {a.dispatches - b.dispatches, a.barriers - b.barriers, a.submissions - b.submissions,
            a.reads - b.reads,           a.written - b.written,   a.read - b.read,
            a.recording - b.recording};
  }
};

// A device beside the processor. It may lack operations, which are then computed on the processor.
class Accelerator : public Backend {
 public:
  virtual std::vector<Fallback> fallbacks() const = 0;
  // From now on such an operation fails (resource).
  virtual void refuse_fallbacks() = 0;
  virtual Counts counts() const = 0;
  // A reason, in half a sentence; empty if products of bf16 are faster than those of f32.
  virtual std::string why_bf16_is_no_faster() = 0;
  // Bytes that tensors can still take, besides what its free lists keep.
  virtual size_t free_memory() const = 0;
};

// The device of "NAME" or "NAME:WHICH". Fails (input) on a name that is none, with those there are.
Backend& find_device(std::string_view name);

}  // namespace tete
