#include "train/replicas.hpp"

#include <algorithm>

#include "train/checksum.hpp"

namespace tete {

static void add(Checksum& sum, const Tensor& value) {
  const Tensor here = value.detach().to(cpu());
  const std::span<const std::byte> bytes = here.host_bytes();
  sum.add(bytes.data(), bytes.size());
}

void check_replicas(Comm& comm, const Tensors& values, const Optimizer& optimizer, int64_t step) {
  if (comm.size() == 1) return;
  Checksum sum;
  for (const Tensor& value : values) add(sum, value);
  if (!optimizer.division())
    for (const NamedTensor& tensor : optimizer.state) add(sum, tensor.value);
  const std::vector<uint64_t> all = comm.all_gather(sum.value());
  // The first of the most frequent checksums.
  const uint64_t right = *std::max_element(all.begin(), all.end(), [&](uint64_t a, uint64_t b) {
    return std::count(all.begin(), all.end(), a) < std::count(all.begin(), all.end(), b);
  });
  std::vector<int> wrong;
  for (int r = 0; r < comm.size(); ++r)
    if (all[static_cast<size_t>(r)] != right) wrong.push_back(r);
  if (wrong.empty()) return;
  throw SharedError(
      ErrorKind::numbers,
      text("after step ", step, " the parameters of ",
           list_of(
               wrong, [&](int r) { return comm.name_of(r); }, " and "),
           " differ from those of ",
           2 * wrong.size() == all.size() ? comm.name_of(0) : "the others",
           "; memory or a processor is at fault there, and the last checkpoint is right"));
}

}  // namespace tete
