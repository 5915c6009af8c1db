#!/bin/bash
# The Vulkan device, on Mesa's emulation where there is no card: the unit tests of their suite, every
# variant against the processor, and the program's verbs. Where there is no device it says so.
# tests/vulkan.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
units=$(realpath "${1:-build}/tests/tete-tests") || exit 1
variants=$(cd attention/variants && echo *.tete)
variants=${variants//.tete/}
. tests/verdicts.sh
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}
export MESA_SHADER_CACHE_DIR=${tete%/tools/tete}/shaders  # what was compiled once

# told WORDS: the last command that was checked has told this.
told() {
  grep -qE -- "$1" out err
  verdict $? "it tells: $1"
}

check 'libvulkan is not linked' eval "! ldd '$tete' | grep -q vulkan"
check 'a device is listed' "$tete" devices
told '^cpu  +the processor'
device=$(grep -E '^vulkan:[0-9]+ +llvmpipe' out | head -n 1 | cut -d' ' -f1)
if [ -z "$device" ]; then
  echo 'not tested: there is no llvmpipe (libvulkan1, mesa-vulkan-drivers), or the build has no Vulkan'
  "$tete" check softmax --device vulkan:0 > out 2> err
  verdict $(($? != 4)) 'a device that is not there is an error'
  finish
fi
refuses 2 "Vulkan has no device '99': expected a number from 0" check softmax --device vulkan:99
refuses 2 "Vulkan has no device 'titan': .*llvmpipe" check softmax --device vulkan:titan
refuses 2 "there is one processor" check softmax --device cpu:1

check 'the unit tests' "$units" --test-suite=vulkan
told 'test cases: '
check 'every operation is the processor'"'"'s' "$tete" check ops --device "$device" --strict-device
check 'every variant is' "$tete" check $variants --device "${device%:*}:llvmpipe" --strict-device
check 'and in blocks' "$tete" check $variants --device "$device" --block 2 --strict-device

# ---- Training, and what it leaves ----

yes 'the quick brown fox jumps over the lazy dog' | head -n 200 > text.txt
small=(--layers 1 --heads 2 --d-model 16 --context 12 --batch 4 --save-every 3 --seed 3
  --eval-samples 4)
check 'train on the device' "$tete" train text.txt --out there "${small[@]}" --steps 6 --device "$device" --strict-device
check 'each operation of a step is compared' "$tete" train text.txt --out checked "${small[@]}" --steps 1 --device "$device" --check-device
told 'checked +[0-9]+ operations of a step; .* differs by .*e-.* of its norm'
told 'free .* on vulkan:llvmpipe'
refuses 2 '--check-device compares a device with the processor, and --device is cpu' train text.txt --out checked "${small[@]}" --check-device
refuses 4 'needs about .* of memory, but .* are free on vulkan:.*; --batch [0-9]+ would fit, or --shards [0-9]+' train text.txt --out large --layers 1 --heads 2 --d-model 16 --batch 100000 --context 500 --device "$device"
check 'and on the processor' "$tete" train text.txt --out here "${small[@]}" --steps 6
loss() { sed -nE 's/.*"step": ?6,.*"loss": ?([0-9.]+).*/\1/p' "$1/metrics.jsonl" | head -n 1; }
check 'to the same loss' eval "[ -n '$(loss here)' ] &&
  awk 'BEGIN { d = $(loss here) / $(loss there) - 1; exit !(d * d < 1e-8) }'"
check 'a checkpoint goes on on the processor' "$tete" train text.txt --out there "${small[@]}" --steps 8 --resume
check 'and on the device again' "$tete" train text.txt --out there "${small[@]}" --steps 10 --resume --device "$device"
check 'in bfloat16' "$tete" train text.txt --out rounded "${small[@]}" --steps 6 --precision bf16 --device "$device" --strict-device
case $("$tete" devices | grep "^$device ") in
  *' matrices of '*) check 'its units multiply' eval '! grep bfloat16 err' ;;
  *) told 'vulkan:.* has no products of bfloat16: numbers are rounded to bfloat16 and multiplied in f32' ;;
esac
check 'sample on the device' eval "'$tete' sample there --prompt the --length 20 --temperature 0 --device $device > a &&
  '$tete' sample there --prompt the --length 20 --temperature 0 > b && cmp a b"
check 'inspect on the device' "$tete" inspect there --text 'the quick' --out page.html --device "$device"
check 'a step is counted' "$tete" bench step --layers 1 --heads 2 --d-model 16 --context 12 --batch 2 --repeats 1 --device "$device" --json
told '"dispatches": [1-9]'
told '"reads": 1,'
check 'so is a layer' "$tete" bench attention --heads 2 --d-model 16 --length 16 --batch 1 --repeats 1 --device "$device"
told '^multi_head +[0-9]+ +[0-9]+ +[0-9]+ .* µs'
check 'and each operation' "$tete" bench ops --rows 4 --length 8 --heads 2 --d-model 8 --tokens 4 --vocabulary 8 --repeats 1 --device "$device" --json
told '"dispatches": [1-9]'
check 'a token' "$tete" bench decode --layers 1 --heads 2 --d-model 16 --context 32 --repeats 1 --device "$device" --json
told '"dispatches": [1-9]'
check 'and an update' "$tete" bench optimizer --parameters 1000 --repeats 1 --device "$device"
told '^adafactor +[0-9]+ +[0-9]+ +[0-9]+ .* µs'
refuses 2 "--profile is of the processor's threads and kernels" bench attention --heads 2 --d-model 16 --length 16 --device "$device" --profile
finish
