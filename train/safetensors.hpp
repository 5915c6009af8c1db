// safetensors: named tensors in one file, as other tools read and write it.
//
//   8 bytes   N, the length of the header, little-endian
//   N bytes   JSON: {"__metadata__": {string: string}, "NAME": {"dtype": "F32", "shape": [2, 3],
//             "data_offsets": [begin, end]}, …}, padded with spaces so that the data is aligned
//   the rest  the tensors, row-major, without holes
//
// F32, F64 and I64 are written. Half precision is read too, as f32, and truth values and shorter
// integers, as i64: each without loss.
// Same contents, same bytes: tensors are sorted (larger elements first, then by name) and the JSON
// has one form. Our files carry checksums (XXH64), of each tensor ("checksum/NAME") and of the
// header ("checksum", taken with its own 16 digits as zeros), so that no flipped bit passes.
// Reading trusts nothing: each field is checked before it is used, and nothing is allocated by a
// size that the file has not been shown to hold.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "train/files.hpp"
#include "train/optimizer.hpp"

namespace tete {

using Metadata = std::map<std::string, std::string>;

// A tensor that is there when a file asks for it: first for its checksum, then for its bytes.
struct TensorSource {
  std::string name;
  Dtype dtype;
  Shape shape;
  std::function<Tensor()> value;
};
using TensorSources = std::vector<TensorSource>;
TensorSources sources_of(const NamedTensors& tensors);

// Writes f32, f64 and i64 tensors, as write_file does.
void write_safetensors(const std::string& path, const Metadata& metadata,
                       const NamedTensors& tensors);
// The same as replace_file does: into a file of the program's own, whatever has its name.
void replace_safetensors(const std::string& folder, const std::string& name,
                         const Metadata& metadata, TensorSources tensors);

class Safetensors {
 public:
  enum class Trust {
    ours,    // checksums are required and verified: a checkpoint
    anyone,  // checksums are verified where the file has them: other tools' files
  };
  struct Entry {
    std::string name;
    Dtype dtype;  // as it is read
    Shape shape;
    size_t begin, end;   // in the data
    std::string stored;  // its type in the file: "F32", "BF16", …
  };

  // Opens a file and checks its header; reads no tensor. Every Error names the file and what is
  // wrong with it.
  explicit Safetensors(const std::string& path, Trust trust = Trust::ours);

  const std::string& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  // The value of a key; an error that names the file where there is none.
  const std::string& metadata(const std::string& key) const;
  const std::vector<Entry>& entries() const { return entries_; }  // by offset
  const Entry* find(const std::string& name) const;
  // One tensor, row-major, its checksum verified.
  Tensor read(const Entry& entry) const;
  Tensor read(const std::string& name) const;
  NamedTensors read_all() const;
  // Reads everything and verifies every checksum.
  void verify() const;

 private:
  void read_header();
  [[noreturn]] void reject(const std::string& reason) const;

  std::string path_;
  Trust trust_;
  File file_;
  size_t data_start_ = 0;
  Metadata metadata_;
  std::vector<Entry> entries_;
};

// x on the processor in row-major order, as files hold it; x itself if it is so already.
Tensor row_major_copy(const Tensor& x);
// The bytes of such a tensor. They live as long as it does.
std::string_view bytes_of(const Tensor& x);

}  // namespace tete
