#include "core/memory.hpp"

#include <fstream>
#include <sstream>

#include "core/control_group.hpp"
#include "core/storage.hpp"

namespace tete {

size_t free_memory() {
  double least = 0;
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word)
    if (word == "MemAvailable:" && file >> least) break;
  least *= 1024;
  for (const std::string& folder : control_groups("memory")) {
    for (const auto& [limit, use] :
         {std::pair("/memory.max", "/memory.current"),
          std::pair("/memory.limit_in_bytes", "/memory.usage_in_bytes")}) {
      const double most = number_in(folder + limit);
      if (most > 0) least = std::min(least, std::max(0.0, most - number_in(folder + use)));
    }
  }
  return static_cast<size_t>(least);
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

// So little is not asked about.
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
  // Where the system does not say what is free, only what cannot be addressed is refused.
  const size_t free = free_memory() + memory_use().kept;
  const bool fits = free > memory_use().kept ? total <= static_cast<double>(free) : total < 0x1p47;
  if (fits && element_count_that_fits(largest->shape)) return "";
  const std::string others =
      tensors.size() > 1 ? text(" (", bytes_text(total), " with the others)") : std::string();
  return text("'", largest->name, "' of shape ", largest->shape, " needs ",
              bytes_text(bytes_of(*largest)), " of memory", others, ", but ", size_text(free),
              " are free");
}

void require_memory(std::span<const Planned> tensors) {
  if (const std::string why = memory_refusal(tensors); !why.empty()) fail(Kind::resource, why);
}

}  // namespace tete
