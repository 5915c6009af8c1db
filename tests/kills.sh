#!/bin/bash
# A run that is killed, wherever that is, goes on as what it was: after --resume its last checkpoint
# has the bytes of a run that was left alone, or the folder has no run yet and --resume says so.
# Killed before each call that touches the disk, and at random times; and with a disk that fails in
# each call of the first save. tests/kills.sh BUILD-FOLDER [RANDOM-KILLS]
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
random_kills=${2:-20}
. tests/verdicts.sh
config=config.json

for i in $(seq 9); do echo "Line $i: the heads talk, the queries ask; the keys answer."; done > text.txt
final=step-00000012.safetensors
# Options that differ from the defaults, so that a run that lost them ends otherwise.
model=(--attention dot_product --positions none --layers 1 --d-model 8 --context 8 --batch 2
  --eval-every 6 --eval-samples 2 --log-every 4 --seed 7 --threads 1)
tiny=("${model[@]}" --steps 12 --save-every 4)
# new_run [PROGRAM THAT RUNS IT…]; bash's own word on what was killed is left out.
new_run() { { "$@" "$tete" train text.txt "${tiny[@]}" --out run > out 2> err < /dev/null; } 2> /dev/null; }
check 'a run that is left alone' eval 'new_run && mv run whole'

# resumes WHAT: the run in run/ goes on to the bytes of the other, or it never began.
begun=0 refused=0
resumes() {
  local status
  timeout 60 "$tete" train --resume --out run > out 2> err < /dev/null
  status=$?
  if [ -e run/$config ]; then
    begun=$((begun + 1))
    [ $status = 0 ] && cmp -s whole/$final run/$final &&
      [ "$(grep -c '"split":"train"' run/metrics.jsonl)" = "$(grep -c '"split":"train"' whole/metrics.jsonl)" ]
  else
    refused=$((refused + 1))
    [ $status = 2 ] && [ "$(wc -l < err)" = 1 ] &&
      grep -q "no run to resume in run: it has no $config" err && ! ls run/* 2> /dev/null | grep -v 'run/lock$'
  fi
  verdict $? "$1"
  rm -rf run
}

# ---- Before each call ----

# The calls of a run from the one that makes its folder on, as "NAME N": the Nth of that name.
calls='?open,openat,write,?pwrite64,ftruncate,fsync,?rename,?renameat,?renameat2,?symlink,symlinkat,?unlink,unlinkat,?mkdir,mkdirat'
traced_calls() {
  new_run strace -qq -o trace -e trace="$calls"
  awk -F'(' '{ ++count[$1] } /"run"/ { begun = 1 } begun { print $1, count[$1] }' trace
  rm -rf run
}
if strace -qq -o /dev/null true 2> err; then
  traced_calls > points
  [ "$(wc -l < points)" -ge 100 ] && grep -q '"latest"' trace
  verdict $? 'the calls of a run can be seen'
  while read -r call number; do
    new_run strace -qq -o /dev/null -e trace="$call" -e inject="$call:signal=KILL:when=$number"
    status=$?
    [ $status = 137 ] || verdict 1 "killed before $call $number: exit status 137 (it was $status)"
    resumes "killed before $call $number"
  done < points
  echo "$(wc -l < points) kills before a call: $begun runs went on, $refused had not begun"

  # The first save: all calls until the first checkpoint has its link.
  first=$(grep -n '"latest"' trace | head -n 1 | cut -d : -f 1)
  begin=$(grep -n '"run"' trace | head -n 1 | cut -d : -f 1)
  begun=0 refused=0
  head -n $((first - begin + 1)) points > first_points
  for code in ENOSPC EIO; do
    while read -r call number; do
      new_run strace -qq -o /dev/null -e trace="$call" -e inject="$call:error=$code:when=$number"
      status=$?
      # A message that could not be written, or a link for people, is no reason to stop.
      if [ $status = 0 ]; then
        cmp -s whole/$final run/$final
      else
        [ $status = 4 ] && [ "$(grep -c '^tete train: ' err)" = 1 ]
      fi
      verdict $? "$code in $call $number: one sentence and exit status 4, or no harm (it was $status)"
      resumes "$code in $call $number"
    done < first_points
  done
  echo "$((begun + refused)) failures in a call of the first save: $begun runs went on, $refused had not begun"
else
  echo 'skipped: kills before each call, as no process may be traced here'
fi

# ---- A stop in a validation ----

# It takes minutes, but for the signal; the run goes on with one that does not.
for _ in $(seq 9); do cat text.txt; done > long.txt
larger=(long.txt --layers 1 --d-model 128 --context 64 --batch 2 --eval-every 6 --log-every 4 --seed 7
  --steps 12 --save-every 1 --keep 99)
check 'a run that is not stopped' "$tete" train "${larger[@]}" --eval-samples 2 --out unstopped
"$tete" train "${larger[@]}" --eval-samples 1000000 --out run > out 2> err < /dev/null &
job=$!
for _ in $(seq 600); do [ -e run/step-00000005.safetensors ] && break; sleep 0.05; done
sleep 1
kill -TERM $job
for _ in $(seq 600); do kill -0 $job 2> /dev/null || break; sleep 0.1; done
kill -KILL $job 2> /dev/null && echo 'it goes on' >> err
wait $job
status=$?
[ $status = 0 ] && grep -q '^Stopped at step 6 of 12' out && [ ! -e run/step-00000007.safetensors ]
verdict $? "SIGTERM in a validation saves and ends with exit status 0 (it was $status)"
lines() { sed -E 's/"(time_s|wall|tok_per_s|ms_step|rss_mb)":[^,}]*//g' "$1/metrics.jsonl"; }
check 'the run goes on' timeout 60 "$tete" train --resume --eval-samples 2 --out run
check 'its log is that of a run that was not stopped' cmp <(lines run) <(lines unstopped)
(for file in unstopped/step-*; do cmp "$file" "run/${file#unstopped/}" || exit; done) > out 2>&1
verdict $? 'and so are its checkpoints'
rm -rf run

# ---- At random times ----

RANDOM=1
tiny=("${model[@]}" --steps 300 --save-every 1)
rm -rf whole
new_run && mv run whole
final=step-00000300.safetensors
begun=0 refused=0 ended=0
for i in $(seq "$random_kills"); do
  "$tete" train text.txt "${tiny[@]}" --out run > /dev/null 2>&1 < /dev/null &
  job=$!
  sleep "$(printf '0.%03d' $((RANDOM % 1000)))"
  kill -KILL $job 2> /dev/null
  wait $job 2> /dev/null
  if [ -e run/$final ]; then ended=$((ended + 1)); fi
  if [ -e run ]; then resumes "random kill $i"; fi
done
echo "$random_kills random kills: $begun runs went on ($ended had ended), $refused had not begun"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
