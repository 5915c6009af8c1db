// The common includes of nn/language/builtins/: the row of a function, and the arguments of its
// check, run and flow.
#pragma once
#include "nn/flow/finder.hpp"
#include "nn/language/check/reading.hpp"
#include "nn/run/runner.hpp"
