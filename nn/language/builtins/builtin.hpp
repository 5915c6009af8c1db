// What a file of nn/language/builtins/ needs: the row, and what its check, run and hides are given.
#pragma once
#include "nn/language/check/causality.hpp"
#include "nn/language/check/reading.hpp"
#include "nn/run/runner.hpp"
