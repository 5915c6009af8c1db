// A clock that only goes forward.
#pragma once
#include <chrono>

namespace tete {

// Seconds since a moment that is the same for the whole process.
inline double seconds_now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace tete
