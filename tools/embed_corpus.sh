#!/bin/sh
# embed_corpus.sh FILE… : C++ on stdout that holds the files' text, one after the other, in pieces
# of 100 lines (compilers limit the length of one literal).
cat <<'END'
// Made by tools/embed_corpus.sh.
#include "tools/corpus.hpp"

namespace tete {

static const std::string_view pieces[] = {
END
for file in "$@"; do
  cat "$file"
  echo
done | LC_ALL=C sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$/\\n"/' |
  LC_ALL=C awk '{ print } NR % 100 == 0 { print "    ," }'
cat <<'END'
    ""};

std::string corpus() {
  std::string all;
  for (std::string_view piece : pieces) all += piece;
  return all;
}

}  // namespace tete
END
