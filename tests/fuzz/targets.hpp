// Readers of what others have written, each as one function of any bytes. It returns where the
// bytes are taken and where they are refused with a sentence; it throws std::logic_error where
// they are taken for something that they are not, or refused in a way that a person cannot read.
//
// tests/fuzz_corpus.cpp runs each on the files of tests/fuzz/corpus; tools/fuzz looks for more.
#pragma once
#include <span>
#include <string_view>

namespace tete {

struct FuzzTarget {
  const char* name;  // and the folder of its corpus
  void (*run)(std::string_view bytes);
};
std::span<const FuzzTarget> fuzz_targets();
// Fails where there is none of this name.
const FuzzTarget& fuzz_target(std::string_view name);

}  // namespace tete
