// Texts that are part of the program, as they were when it was built.
#pragma once
#include <string>
#include <string_view>

namespace tete {

// What `tete train` learns from when it is given nothing: the repository's own sources and
// documents.
std::string corpus();

// tools/inspect/page/: what the page of `tete inspect` is made of.
std::string page_html();
std::string page_style();
std::string page_script();

}  // namespace tete
