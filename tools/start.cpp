// The linker runs what stands in .preinit_array before the libraries begin, and after the C library
// has: an exception or a stream is not to be had here, but system calls are.
#include "tools/start.hpp"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

namespace tete {
namespace {

// OpenBLAS maps 128 MiB for each core when it begins, and tries forever where it gets none. Where
// it gets them, it begins within some 20 ms of processor time, far below this bound.
constexpr int seconds_to_begin = 2;

void watch_for(int seconds) {
  const itimerval timer{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

bool address_space_is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

void before_libraries(int, char**, char**) {
  if (!address_space_is_limited()) return;
  std::signal(SIGPROF, [](int) {
    static constexpr std::string_view sentence =
        "tete: OpenBLAS found no address space to begin with, 128 MiB for each core; raise the "
        "limit (ulimit -v)\n";
    (void)!write(STDERR_FILENO, sentence.data(), sentence.size());
    _exit(4);
  });
  watch_for(seconds_to_begin);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const first)(int, char**,
                                                                  char**) = before_libraries;

}  // namespace

void libraries_have_started() {
  if (!address_space_is_limited()) return;
  watch_for(0);
  std::signal(SIGPROF, SIG_DFL);
}

}  // namespace tete
