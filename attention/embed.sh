#!/bin/sh
# Writes the catalogue's texts as a C++ file: embed.sh OUTPUT.cpp VARIANT.tete…
set -eu
output=$1
shift
{
  echo '// Made by attention/embed.sh from attention/variants; not to be edited.'
  echo '#include "attention/catalog.hpp"'
  echo
  echo 'namespace tete {'
  echo
  echo 'std::span<const EmbeddedText> embedded_variants() {'
  echo '  static constexpr EmbeddedText texts[] = {'
  for file in "$@"; do
    printf '      {"%s", R"tete(' "$(basename "$file" .tete)"
    cat "$file"
    echo ')tete"},'
  done
  echo '  };'
  echo '  return texts;'
  echo '}'
  echo
  echo '}  // namespace tete'
} > "$output.part"
mv "$output.part" "$output"
