// Stands in where there is no AMX, or no known way to ask the system for it.
#include "core/cpu/tiles.hpp"

namespace tete::cpu_kernels {

bool tiles_are_granted() { return false; }

}  // namespace tete::cpu_kernels
