#!/bin/bash
# What stops the program before its main; on other processors by qemu-user, where it is installed.
# tests/start.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
. tests/verdicts.sh
unset OPENBLAS_CORETYPE

# ends WORDS COMMAND…: it ends by itself, with exit code 4 and one line that has the WORDS.
ends() {
  local words=$1 status
  shift
  timeout 60 "$@" > out 2> err < /dev/null
  status=$?
  [ "$status" = 4 ] && [ "$(grep -vc '^qemu-' err)" = 1 ] && grep -qE -- "^tete: .*$words" err
  verdict $? "$*: expected exit status 4 (it was $status) and: $words"
}

if ! nm -D "$tete" | grep -q __asan; then  # it needs terabytes of addresses itself
  ends 'no address space .*ulimit -v' bash -c "ulimit -v 200000; exec '$tete' --version"
  check 'address space that is enough is not complained about' \
    bash -c "ulimit -v $((2000000 + $(nproc) * 200000)); exec '$tete' --version"
fi

emulator=$(command -v qemu-x86_64)
if [ -n "$emulator" ] && [ "$(uname -m)" = x86_64 ]; then
  for processor in core2duo phenom qemu64; do
    ends 'this processor lacks instructions of x86-64-v2' "$emulator" -cpu $processor "$tete" --version
  done
  check 'x86-64-v2 is enough' "$emulator" -cpu Nehalem "$tete" --version
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
