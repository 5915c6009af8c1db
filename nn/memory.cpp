#include "nn/memory.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/storage.hpp"
#include "nn/control_group.hpp"

namespace tete {

namespace {

// A control group's files: version 2's, then version 1's.
struct MemoryFiles {
  const char *limit, *use, *cached;  // `cached` begins the names of cached files in memory.stat
};
constexpr MemoryFiles memory_files[] = {
    {"/memory.max", "/memory.current", ""},
    {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"}};

// Bytes of files that the system caches and gives back when memory is asked for.
double cached_bytes(const std::string& folder, const std::string& prefix) {
  std::ifstream file(folder + "/memory.stat");
  double all = 0, number = 0;
  for (std::string key; file >> key >> number;)
    if (key == prefix + "active_file" || key == prefix + "inactive_file") all += number;
  return all;
}

}  // namespace

std::optional<size_t> free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::optional<double> least;
  double kibibytes = 0;
  while (!least && file >> word)
    if (word == "MemAvailable:" && file >> kibibytes) least = kibibytes * 1024;
  for (const std::string& folder : control_groups("memory"))
    for (const MemoryFiles& files : memory_files) {
      const double most = number_in(folder + files.limit);
      if (most <= 0) continue;
      const double used = number_in(folder + files.use) - cached_bytes(folder, files.cached);
      least = std::min(least.value_or(most), std::max(0.0, most - std::max(0.0, used)));
    }
  if (!least) return {};
  return static_cast<size_t>(*least);
}

std::string size_text(size_t bytes) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double size = static_cast<double>(bytes);
  int unit = 0;
  while (size >= 1024 && unit < 6) size /= 1024, ++unit;
  std::ostringstream out;
  out.precision(size < 10 ? 2 : size < 100 ? 3 : 4);
  out << size << ' ' << units[unit];
  return out.str();
}

// Fewer bytes than this are allocated without asking the system.
static constexpr double unquestioned = 64e6;

static double bytes_of(const Planned& tensor) {
  double bytes = static_cast<double>(size_of(tensor.dtype));
  for (Index size : tensor.shape) bytes *= static_cast<double>(size);
  return bytes;
}

static std::string bytes_text(double bytes) {
  return bytes < 0x1p63 ? size_text(static_cast<size_t>(bytes)) : "more than 8 EiB";
}

std::string memory_refusal(std::span<const Planned> tensors) {
  double total = 0;
  const Planned* largest = nullptr;
  for (const Planned& tensor : tensors) {
    total += bytes_of(tensor);
    if (!largest || bytes_of(tensor) > bytes_of(*largest)) largest = &tensor;
  }
  if (total < unquestioned) return "";
  // If the system does not say how much is free, only tensors beyond any address space are refused.
  const std::optional<size_t> left = free_memory();
  const size_t free = left.value_or(0) + memory_use().kept;
  const bool fits = left ? total <= static_cast<double>(free) : total < 0x1p47;
  if (fits && element_count_that_fits(largest->shape)) return "";
  const std::string others =
      tensors.size() > 1 ? text(" (", bytes_text(total), " with the others)") : std::string();
  const std::string at_most = left ? text(", but ", size_text(free), " are free") : std::string();
  return text("'", largest->name, "' of shape ", largest->shape, " needs ",
              bytes_text(bytes_of(*largest)), " of memory", others, at_most);
}

void require_memory(std::span<const Planned> tensors) {
  if (const std::string why = memory_refusal(tensors); !why.empty()) fail(ErrorKind::resource, why);
}

}  // namespace tete
