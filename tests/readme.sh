#!/bin/bash
# Everything that README.md shows is true: its C++ builds against the installed library and runs,
# its text of talking heads is the catalogue's, its commands run. So do those of the rooms' pages,
# and the files that these name are there. tests/readme.sh BUILD-FOLDER
cd "$(dirname "$0")/.." || exit 1
pages="core/README.md nn/README.md train/README.md .github/CONTRIBUTING.md"
folder=$(realpath "${1:-build}") root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

passed=0 failed=0
check() {  # check WHAT COMMAND…
  local what=$1
  shift
  if "$@" > "$work/log" 2>&1 < /dev/null; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAILED: $what"
    tail -n 20 "$work/log" | sed 's/^/    /'
  fi
}
# block LANGUAGE [FILE]: the contents of the README's blocks in one language.
block() { awk -v fence="\`\`\`$1" '$0 == "```" { inside = 0 } inside { print } $0 == fence { inside = 1 }' "${2:-README.md}"; }

block tete > "$work/text.tete"
check 'the text of talking heads is the one in the catalogue' \
  diff "$work/text.tete" attention/variants/talking_heads.tete

block 'tete multi_token.tete' > "$work/multi_token.tete"
check 'the new variant has fewer than 25 lines' test "$(wc -l < "$work/multi_token.tete")" -lt 25

block 'tete mixture.tete' > "$work/mixture.tete"
check 'the model has at most 25 lines' test "$(wc -l < "$work/mixture.tete")" -le 25

# What is installed by hand is what tools/packages.sh installs to build.
block 'text install' > "$work/install"
for package in $(sed -n '/^need_to_build/,/^}/s/^ *need \([a-z0-9+-]*\) .*/\1/p' tools/packages.sh); do
  check "README installs $package" grep -qw -- "$package" "$work/install"
done
while read -r picture; do
  check "$picture is small" test "$(stat -c %s "$picture")" -lt 200000
done < <(grep -ohE '\((attention/pictures/[a-z]*\.png)\)' README.md | tr -d '()')

# nn/README.md has the grammar of the parser, and the functions as the program tells them.
block 'text grammar' nn/README.md > "$work/grammar"
check 'the grammar is that of the parser' \
  sh -c "sed -n 's,^//   ,,p' nn/language/notation.hpp | diff - '$work/grammar'"
block 'text tete functions' nn/README.md > "$work/functions"
check 'the functions are those of tete functions' \
  sh -c "'$folder/tools/tete' functions | diff - '$work/functions'"

# Names of files in `…`, relative to the root; * and NAME stand for any name.
while read -r page name; do
  check "$page names $name" eval "ls -d ${name//NAME/*}"
done < <(for page in $pages; do
  grep -oE '`(core|nn|attention|train|tools|tests)/[^` ]*`' "$page" | tr -d '`' | sed "s,^,$page ,"
done | sort -u)

# The C++ example, as a program that knows the library only as it is installed.
check 'the library installs' meson install -C "$folder" --no-rebuild --destdir "$work/installed"
export PKG_CONFIG_SYSROOT_DIR=$work/installed
PKG_CONFIG_PATH=$(dirname "$(find "$work/installed" -name tete.pc)")
LD_LIBRARY_PATH=$(dirname "$(find "$work/installed" -name 'libtete.so' | head -n 1)")
export PKG_CONFIG_PATH LD_LIBRARY_PATH
block cpp > "$work/talking.cpp"
check 'the C++ example builds' \
  sh -c "g++ -std=c++20 -Wall -Wextra -Werror '$work/talking.cpp' \$(pkg-config --cflags --libs tete) -o '$work/talking'"
check 'the C++ example runs' sh -c "'$work/talking' | grep -c 'gradient of P_l' | grep -qx 6"

# The commands, on a text of our own and for a few steps.
mkdir -p "$work/attention" "$work/bin"
block python > "$work/mine.py"
block text > "$work/told"
check 'it shows what a comparison tells' grep -q 'A guess: ' "$work/told"
cp -r attention/variants "$work/attention/"
cat README.md core/*.hpp > "$work/book.txt"
ln -s "$folder/tools/tete" "$work/bin/tete"
PATH=$work/bin:$PATH
cd "$work" || exit 1
# Where there is no PyTorch, a text with the mistake of mine.py stands for it.
sed 's/P_l\[h_k, h\]/P_l[h, h_k]/' attention/variants/talking_heads.tete > theirs.tete
if python3 -c 'import torch, safetensors' 2> /dev/null; then mine='python3 mine.py'; else
  mine='tete run theirs.tete --tensors in.safetensors --out theirs.safetensors'
fi
while read -r line; do
  case $line in
    'python3 mine.py') line=$mine ;;
    *--against*)
      # The place, the statement and the guess; numbers depend on who computed them.
      line="$line > report; [ \$? = 1 ] && for n in 1 2 3 5; do grep -qxF -- \"\$(sed -n \${n}p told)\" report || exit; done"
      ;;
    'tete bench optimizer'*) line="${line%%#*} --repeats 1 --parameters 1000000" ;;
    'tete bench'*) line="${line%%#*} --repeats 1" ;;
    'tete train'*)
      line=$(sed -E 's/ --(steps|layers|d-model) [0-9]+//g' <<< "${line%%#*}")
      line="$line --steps 2 --eval-samples 2 --d-model 32 --layers 1"
      ;;
  esac
  check "$line" bash -c "$line"
done < <(cd "$root" && for page in README.md attention/README.md $pages; do block sh "$page"; done |
  grep -E '^(tete|cp|cmp|rm|python3) ')

# The table of costs: parameters and multiplies are those of the command in the row, and what is
# printed is their four digits, where no note says otherwise.
costs=0
while IFS='|' read -r _ command parameters multiplies printed _; do
  costs=$((costs + 1))
  check "tete cost ${command//\`/}" bash -c "tete cost ${command//\`/} > costs &&
    { [[ '$printed' = *[¹²³]* ]] || [ \$(printf %.3e ${multiplies//[ ,]/}) = ${printed/e/e+0} ]; } &&
    grep -q '^total .* ${multiplies// /}\$' costs && grep -q '^total .* ${parameters// /}\$' costs"
done < <(grep -hE '^\| `[a-z_A-Z]+( --dim [a-z_]+=[0-9]+)*` \|.*[0-9]e9' "$root"/{,attention/}README.md)
check 'the tables of costs are there' test "$costs" -ge 16

check 'tete check all --order 2' tete check all --order 2
for queries in 1 2 3; do
  check "and in blocks of $queries" tete check all --block $queries
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
