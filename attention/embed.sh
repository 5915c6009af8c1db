#!/bin/sh
# Writes texts of the catalogue as a C++ file: embed.sh OUTPUT.cpp NAME TEXT.tete…,
# as embedded_NAME().
set -eu
output=$1 name=$2
shift 2
{
  echo '// Made by attention/embed.sh not to be edited.'
  echo '#include "attention/catalog.hpp"'
  echo
  echo 'namespace tete {'
  echo
  echo "std::span<const EmbeddedText> embedded_$name() {"
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
