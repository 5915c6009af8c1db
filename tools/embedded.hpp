// Texts that are part of the program, as they were when it was built.
#pragma once
#include <string>
#include <string_view>

namespace tete {

// The text that `tete train` learns from when it is given none: the repository's own sources and
// documents.
std::string corpus();

// tools/inspect/page/: what the page of `tete inspect` is made of.
std::string page_html();
std::string page_style();
std::string page_script();

}  // namespace tete
