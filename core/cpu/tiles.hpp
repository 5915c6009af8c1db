// Intel's AMX, whose registers the system lends to programs that ask for them.
#pragma once

namespace tete::cpu_kernels {

// True if the processor multiplies bfloat16 by tiles and the system lets this process use them, in
// all of its threads. It is asked once.
bool tiles_are_granted();

}  // namespace tete::cpu_kernels
