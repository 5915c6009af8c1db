#!/bin/bash
# The unit tests, ten cases at a time on each core: most use one. tests/unit.sh BUILD-FOLDER
# LEAVE_OUT="a long chain*,..." in the environment leaves cases out, as doctest's --test-case-exclude.
set -u
cd "$(dirname "$0")/.." || exit 1
tests=$(realpath "${1:-build}/tests/tete-tests") || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
run() { "$tests" --test-suite-exclude=vulkan --test-case-exclude="${LEAVE_OUT:-}" "$@"; }
export tests work

some=10
from() {  # from FIRST: so many cases, beginning with this one
  run --first="$1" --last=$(($1 + some - 1)) > "$work/$1" 2>&1 < /dev/null
  echo $? > "$work/$1.status"
}
export -f run from
export some
count=$(run --count --no-version | grep -oE '[0-9]+' | tail -n 1)
seq 1 $some "${count:-0}" | xargs -P "$(nproc)" -I {} bash -c 'from {}'

passed=0 failed=0
for first in $(seq 1 $some "${count:-0}"); do
  cases=$((first + some > count ? count - first + 1 : some))
  # doctest counts as passed what it left out, too.
  bad=$(sed 's/\x1b\[[0-9;]*m//g' "$work/$first" |
    sed -nE 's/^\[doctest\] test cases: .*\| *([0-9]+) failed.*/\1/p' | tail -n 1)
  status=$(cat "$work/$first.status")
  [ "$status" = 0 ] || cat "$work/$first"
  if [ -z "$bad" ] || [ $((status != 0)) != $((bad > 0)) ]; then
    echo "the unit tests from number $first on ended with exit status $status"
    failed=$((failed + 1))  # one of them ended all ten
  else
    passed=$((passed + cases - bad)) failed=$((failed + bad))
  fi
done
[ $((passed + failed)) != 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
