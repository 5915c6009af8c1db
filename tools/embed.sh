#!/bin/sh
# embed.sh FUNCTION FILE… : C++ on stdout in which FUNCTION() is the files' text, one after the other,
# in pieces of 100 lines (compilers limit the length of one literal).
function=$1
shift
cat <<'END'
// Made by tools/embed.sh.
#include "tools/embedded.hpp"

namespace tete {

END
echo "std::string $function() {"
echo '  static const std::string_view pieces[] = {'
for file in "$@"; do
  cat "$file"
  echo
done | LC_ALL=C sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$/\\n"/' |
  LC_ALL=C awk '{ print } NR % 100 == 0 { print "    ," }'
cat <<END
    ""};
  std::string all;
  for (std::string_view piece : pieces) all += piece;
  return all;
}

}  // namespace tete
END
