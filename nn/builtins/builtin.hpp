// What a file of nn/builtins/ needs: the row, and what its check, run and hides are given.
#pragma once
#include "nn/check/causality.hpp"
#include "nn/check/reading.hpp"
#include "nn/run/runner.hpp"
