// The tests' own main: floating point behaves as in the program.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "core/threads.hpp"

int main(int argc, char** argv) {
  tete::flush_denormals(true);
  doctest::Context context(argc, argv);
  return context.run();
}
