// A rehearsal: tensors that have shapes but no memory, on a device that computes nothing and takes
// notes. Any code written in operations runs on them as it would on numbers, so what the notes say
// is what the processor would do: which kernels, on what, and how many bytes at most.
//
//   Rehearsal rehearsal;
//   Tensor X = rehearsal.tensor({512, 768}), P = rehearsal.tensor({768, 64, 12});
//   einsum("n d, d k h -> n k h", X, P);
//   rehearsal.calls()[0].form;     // "gemm"
//   rehearsal.peak_bytes();
//
// Fused operations are rehearsed as their meaning. To read a number of such a tensor is an error.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "tools/einsum/contraction_note.hpp"

namespace tete {

// One kernel call, as it would happen.
struct KernelCall {
  std::string form;       // elementwise, reduce, copy, fill, or what a contraction becomes
  std::string shape;      // "48 products of 512×64×512"
  double multiplies = 0;  // those of contractions and products
  double bytes = 0;       // read and written, copies included
  std::vector<ContractionNote::Copy> copies = {};
  struct Place {
    std::string name;  // as given to tensor(), or T1, T2 … in the order they were written first
    Shape shape;
    Labels labels = {};  // if it is a contraction
  };
  std::vector<Place> operands = {};  // the result is the last
};

class Rehearsal {
 public:
  Rehearsal();
  ~Rehearsal();  // after every tensor that lives in it
  Rehearsal(const Rehearsal&) = delete;

  Tensor tensor(const Shape& shape, Dtype dtype = Dtype::f32, const std::string& name = "");
  // One with x's shape, strides and type.
  Tensor like(const Tensor& x, const std::string& name = "");

  const std::vector<KernelCall>& calls() const;
  void forget_calls();
  size_t peak_bytes() const;  // the most that was held at once since the start or reset_peak()
  void reset_peak();

 private:
  class Device;
  std::unique_ptr<Device> device_;
};

}  // namespace tete
