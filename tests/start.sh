#!/bin/bash
# Checks what stops the program before its main, and which of OpenBLAS's kernels it computes with:
# on other processors by qemu-user, where it is installed. tests/start.sh BUILD-FOLDER
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
    bash -c "ulimit -v $((2000000 + $(nproc --all) * 200000)); exec '$tete' --version"
fi

# OpenMP's bound on waiting is in the environment from the second start on.
if [ -n "$(command -v strace)" ] && ! nm -D "$tete" | grep -q __asan; then
  starts() { strace -e trace=execve "$@" "$tete" --version 2>&1 > /dev/null | grep -c '= 0$'; }
  [ "$(starts env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY)" = 3 ]
  verdict $? 'the program starts itself again, once, with the bound'
  [ "$(starts env GOMP_SPINCOUNT=5)" = 2 ] && [ "$(starts env -u GOMP_SPINCOUNT OMP_WAIT_POLICY=passive)" = 2 ]
  verdict $? 'and not where a bound is set'
fi
loader=$(readelf -l "$tete" | sed -nE 's/.*interpreter: (.*)\]/\1/p')
check 'it runs under its loader, called by name' env -u GOMP_SPINCOUNT "$loader" "$tete" --version

seq 400 > text.txt
brief=(train text.txt --layers 1 --heads 2 --d-model 16 --context 16 --batch 4 --steps 1)
cores_with() { env -u GOMP_SPINCOUNT "$@" "$tete" "${brief[@]}" --out "runs/$1" 2>&1 | grep '^cores'; }
free=$(cores_with BOUND=no)
[ -n "$free" ] && [ "$(cores_with OMP_PROC_BIND=true)" = "$free" ] && [ "$(cores_with OMP_PLACES=cores)" = "$free" ]
verdict $? "as many cores are usable where OpenMP binds threads: $free"
if grep -q avx512bw /proc/cpuinfo; then
  for named in Haswell Zen; do
    check "a run with OPENBLAS_CORETYPE=$named" env OPENBLAS_CORETYPE=$named "$tete" "${brief[@]}" --out runs/$named
    grep -q "^warning: the BLAS multiplies with its kernel for $named, but that for \(SkylakeX\|Cooperlake\|SapphireRapids\) .* unset OPENBLAS_CORETYPE" err
    verdict $? 'it is told that the kernel does not fit'
    grep -aq "OpenBLAS [0-9.]* $named, rows" runs/$named/*.safetensors
    verdict $? 'and recorded, as it was named'
  done
  check 'a run without' env OPENBLAS_CORETYPE= "$tete" "${brief[@]}" --out runs/own
  ! grep -q '^warning: the BLAS' err && grep -q '^products .* kernel \(SkylakeX\|Cooperlake\|SapphireRapids\),' err
  verdict $? 'it has the kernel that fits'
fi

export GOMP_SPINCOUNT=1000  # else the program starts itself anew, outside the emulator
emulator=$(command -v qemu-x86_64)
if [ -n "$emulator" ] && [ "$(uname -m)" = x86_64 ]; then
  for processor in core2duo phenom qemu64; do
    ends 'this processor lacks instructions of x86-64-v2' "$emulator" -cpu $processor "$tete" --version
  done
  check 'x86-64-v2 is enough' "$emulator" -cpu Nehalem "$tete" --version
  # kernel NAME PROCESSOR: what a run there computes with. It ends when its start has been read.
  kernel() {
    timeout 60 "$emulator" -cpu "$2" "$tete" "${brief[@]}" --out "runs/$1-$2" 2>&1 < /dev/null |
      grep -m 1 '^products' > out
    grep -q ", kernel $1, " out
    verdict $? "on $2 the BLAS computes with its kernel for $1"
  }
  kernel Nehalem Nehalem
  kernel Zen EPYC
  # Later than OpenBLAS 0.3.21, which knows neither: Emerald Rapids and Raptor Lake, as far as qemu
  # has their instructions.
  kernel Haswell max,vendor=GenuineIntel,family=6,model=207
  kernel Haswell max,vendor=GenuineIntel,family=6,model=183
else
  echo 'skipped: other processors, which are emulated by qemu-user on x86-64'
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
