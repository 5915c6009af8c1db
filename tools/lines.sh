#!/bin/sh
# Lines of code by room, with the largest file, class and function of each. A reader looks at it;
# nobody is failed by it. Classes and functions are found by their indentation (.clang-format).
cd "$(dirname "$0")/.." || exit 1

largest='
  function end(kind, name, from,    count) {
    count = FNR - from + 1
    if (count > most[kind]) { most[kind] = count; where[kind] = name }
  }
  FNR == 1 { file = FILENAME; sub(/.*\//, "", file); inside = 0; member = 0; class = "" }
  { ++lines[FILENAME] }
  /^(template.*)?(class|struct) [A-Za-z]+.*\{$/ {
    match($0, /(class|struct) [A-Za-z:]+/); class = substr($0, RSTART, RLENGTH)
    sub(/.* /, "", class); class_from = FNR
  }
  /^};/ && class { end("class", file ": " class, class_from); class = "" }
  /^[A-Za-z].*[({,]$/ && !/^(namespace|class|struct|enum|union|extern|using|typedef|#)/ && !inside {
    inside = FNR; name = $0; sub(/\(.*/, "", name); sub(/.* [*&]*/, "", name)
  }
  /^}$/ && inside { end("function", file ": " name, inside) }
  /^}/ { inside = 0 }
  class && /^  [A-Za-z~].*\(.*[{,]$/ && !member {
    member = FNR; name = $0; sub(/\(.*/, "", name); sub(/.* [*&]*/, "", name)
  }
  /^  }$/ && member { end("function", file ": " class "::" name, member) }
  /^  [}]/ || /;$/ && /^  [^ ]/ { member = 0 }
  END {
    for (path in lines) {
      total += lines[path]
      if (lines[path] > most["file"]) {
        most["file"] = lines[path]; where["file"] = path; sub(/.*\//, "", where["file"])
      }
    }
    printf "%-12s %6d   %4d %-22s %4d %-34s %4d %s\n", room, total, most["file"], where["file"],
      most["class"], where["class"], most["function"], where["function"]
  }'

printf '%-12s %6s   %-27s %-39s %s\n' room lines 'largest file' 'largest class' 'largest function'
for room in core core/cpu core/check nn nn/language nn/flow nn/run nn/tile nn/cost attention \
  train tools tests; do
  [ -d "$room" ] || continue
  case $room in core | nn) depth=1 ;; *) depth=9 ;; esac
  find "$room" -maxdepth $depth -type f \( -name '*.?pp' -o -name '*.def' \) -exec awk -v room="$room" "$largest" {} +
done
find core nn attention -type f \( -name '*.?pp' -o -name '*.def' \) -exec cat {} + | wc -l | sed 's/^/core + nn + attention  /'
find attention/variants -name '*.tete' -exec cat {} + | wc -l | sed 's/^/attention\/variants     /'
