// The program's start, before its main: OpenBLAS, which begins then, hangs where it finds no
// address space. That is told in one sentence, with exit code 4 (tools/start.cpp).
#pragma once

namespace tete {

// Called first in main.
void libraries_have_started();

}  // namespace tete
