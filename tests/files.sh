#!/bin/bash
# Where the program writes: a run's folder begins with its configuration, a file goes where --out
# says, and nothing goes anywhere else. tests/files.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
. tests/verdicts.sh
config=config.json

for i in $(seq 60); do echo "Line $i: the heads talk, the queries ask; the keys answer."; done > text.txt
model=(--layers 1 --heads 2 --d-model 16 --context 16 --batch 4 --eval-samples 8 --log-every 1 --seed 7)
tiny=("${model[@]}" --steps 12 --eval-every 6 --save-every 4)
final=step-00000012.safetensors
train() { "$tete" train text.txt "${tiny[@]}" "$@"; }
check 'an uninterrupted run' train --out whole

# ---- A run's folder ----

# Files may have 8 KiB: enough for the configuration, too little for the first checkpoint.
(ulimit -f 8 && train --out full > out 2> err < /dev/null)
[ $? = 4 ] && grep -q 'cannot write full/step-00000000.safetensors' err && [ -e full/$config ]
verdict $? 'a first save that finds no room leaves the configuration'
check 'and the run begins again' timeout 60 "$tete" train --resume --out full
check 'as what it was' cmp whole/$final full/$final
cp -r whole lost && rm lost/$config
refuses 2 "cannot resume the run in lost: its $config, .*, is missing" train text.txt --resume --out lost
mkdir bare && echo 1 > bare/lock && : > bare/metrics.jsonl
refuses 2 "no run to resume in bare: it has no $config, .*without --resume" train --resume --out bare
refuses 2 "no run to resume in nothing" train text.txt --resume --out nothing
refuses 2 'no run to resume in long' train text.txt --resume --out "long$(printf 'g%.0s' {1..300})"
check 'a refusal makes no folder' [ ! -e nothing ]
check 'steps are counted alike in errors, on the screen and in the names of checkpoints' eval '
  ! "$tete" train text.txt "${model[@]}" --steps 100 --learning-rate 100 --schedule constant --out wrong 2> said
  step=$(sed -nE "s/.*went wrong in step ([0-9]+):.*/\1/p" said)
  [ -n "$step" ] && [ -e wrong/$(printf "step-%08d.safetensors" $((step - 1))) ] &&
    grep -q "\"step\":$((step - 1)),.*\"split\":\"train\"" wrong/metrics.jsonl'

# ---- A run goes on as what its checkpoints say, and says what is changed ----

check 'a run that stopped halfway' "$tete" train text.txt "${model[@]}" --steps 12 --save-every 3 --keep 9 --out base
rm base/step-00000009.safetensors base/$final
copy() { rm -rf copy && cp -r base copy; }
resumed() { timeout 60 "$tete" train --resume --out copy "$@" > out 2> err < /dev/null; }
# edited KEY VALUE COUNT WORDS: config.json edited by hand is told, in so many sentences.
edited() {
  copy && sed -i -E "s/\"$1\": [^,]*/\"$1\": $2/" copy/$config &&
    resumed && grep -q "^warning: $4 from here on$" err && [ "$(grep -c 'from here on' err)" = "$3" ]
  verdict $? "config.json with another $1 is told: $4"
}
was() { echo "$1 was $2 in copy/step-00000006.safetensors and is $3"; }
edited learning-rate 0.5 1 "$(was "the schedule's rate" 1 50)"
edited warmup 4 1 "$(was "the schedule's start" 10000 4)"
edited schedule '"constant"' 4 "$(was schedule inverse_sqrt constant)"
edited dropout 0.5 1 "$(was dropout 0 0.5)"
edited clip 0.001 1 "$(was clip '[0-9.]*' 0.001)"
edited precision '"bf16"' 1 "$(was precision f32 bf16)"
edited steps 15 1 "$(was steps 12 15)"
copy
check 'an option is told once' eval 'resumed --steps 15 --save-every 5 && [ "$(grep -c "from here on" err)" = 2 ] &&
  grep -qx "warning: --save-every was 3 and is 5 from here on" err'
"$tete" train text.txt "${model[@]}" --steps 12 --save-every 3 --keep 9 --dropout 0.5 --out other > out 2> err
copy && cp other/step-00000009.safetensors copy
check 'and so is another run behind a checkpoint' eval 'resumed &&
  grep -qx "warning: dropout was 0.5 in copy/step-00000009.safetensors and is 0 from here on" err'
copy && truncate -s 20000 copy/step-00000006.safetensors
refuses 2 "'uses' is not what the run in copy began with: \[\"Activation=gelu\"\], but there \[\]" \
  train --resume --activation gelu --out copy
copy && cp copy/step-00000003.safetensors copy/step-00000009.safetensors
refuses 2 'copy/step-00000009.safetensors holds step 3, but its name says step 9' train --resume --out copy
refuses 2 'copy/step-00000009.safetensors holds step 3, but its name says step 9' sample copy
copy && mkfifo copy/step-00000009.safetensors copy/.config.json.tmp copy/metrics.csv copy/report.html
check 'what has the name of a file of the run gives way to it' eval 'resumed --report && cmp whole/$final copy/$final &&
  [ -f copy/step-00000009.safetensors ] && [ -f copy/metrics.csv ] && [ -f copy/report.html ]'
deep() { printf "$1%.0s" $(seq 200000); }
for json in "{\"steps\": $(deep '[')" "{\"dim\": $(deep '{"a":')1$(deep '}')}"; do
  copy && echo "$json" > copy/$config
  refuses 2 "copy/$config: its values nest more than 64 deep" train --resume --out copy
done

# ---- --out ----

run() { "$tete" run talking_heads --random "$@"; }
check 'a file' run --out new
ln -s new link && ln -s "$PWD/far/../fresh" dangling && mkdir far
check 'through a link' run --seed 1 --out link
check 'which stays, and its file is another one' eval '[ "$(readlink link)" = new ] && ! cmp -s new <(run --out /dev/fd/1 2> /dev/null)'
check 'through a link to a file that is not there yet' run --out dangling
check 'which is there then' eval '[ -L dangling ] && [ -s fresh ]'
ln -s loop loop
refuses 4 'cannot write loop: Too many levels of symbolic links' run talking_heads --random --out loop
ln -s /dev/full full-device
refuses 4 'cannot write full-device: No space left on device' run talking_heads --random --out full-device
check 'a device stays' eval '[ -L full-device ] && [ -c /dev/full ]'
mkfifo pipe
check 'a pipe is written' eval 'timeout 20 cat pipe > piped & timeout 20 "$tete" run talking_heads --random --out pipe &&
  wait $! && [ -p pipe ] && cmp piped fresh'
mkfifo closed-pipe
timeout 20 head -c 1 closed-pipe > /dev/null &
refuses 4 'cannot write closed-pipe: Broken pipe' run talking_heads --random --dim n=300 --dim m=300 --out closed-pipe
wait $!
refuses 2 'far is a folder, not a file' run talking_heads --random --out far
refuses 2 'far/ is a folder, not a file' run talking_heads --random --out far/
refuses 4 'cannot open the folder none: No such file' run talking_heads --random --out none/x
refuses 4 'cannot open the folder new: Not a directory' run talking_heads --random --out new/x
refuses 4 'cannot write /dev/fd/77: Bad file descriptor' run talking_heads --random --out /dev/fd/77
refuses 4 'cannot make the folder new: there is a file of that name' train text.txt "${tiny[@]}" --out new
[ "$("$tete" run talking_heads --random --out /dev/fd/1 2> said | cmp - fresh)" = '' ] && grep -q 'written to' said
verdict $? 'standard output has the file alone, and standard error what is said'
if [ $failed = 0 ]; then  # else it might be replaced
  run --out /dev/stdout > seen 2> said
  cmp seen fresh && [ -L /dev/stdout ] && grep -q 'written to /dev/stdout' said
  verdict $? '--out /dev/stdout > FILE'
  { echo before && run --out /dev/stdout 2> said && echo after; } > seen
  { echo before && cat fresh && echo after; } | cmp - seen
  verdict $? 'where it stands'
  for name in /dev/../dev/stdout to-stdout /dev/./fd/1 /proc/thread-self/fd/1; do
    [ -L to-stdout ] || ln -s /dev/stdout to-stdout
    { echo before && run --out $name 2> said && echo after; } > seen
    { echo before && cat fresh && echo after; } | cmp - seen
    verdict $? "it is standard output by another name, too: $name"
  done
  check '--out /dev/stdout --json' eval 'run --json --out /dev/stdout 2> said | cmp - fresh && grep -q "\"out\"" said'
  "$tete" inspect whole --text 'Line 1' --no-ablation --out /dev/stdout 2> said > page.html
  "$tete" inspect whole --text 'Line 1' --no-ablation --out other.html > out 2> err
  cmp page.html other.html && grep -q 'Written: /dev/stdout' said
  verdict $? 'tete inspect --out /dev/stdout'
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }" > one.npy
  printf '\0\0\0\0\0\0\xf0\x3f' >> one.npy
  check 'tete einsum --out /dev/stdout' eval '"$tete" einsum "i->i" one.npy --out two.npy &&
    "$tete" einsum "i->i" one.npy --explain --out /dev/stdout 2> said | cmp - two.npy && grep -q f64 said'
else
  echo 'skipped: /dev/stdout, which might be replaced'
fi

# ---- Standard streams that are closed ----

closed() { [ "$1" = "$2" ] && cmp -s whole/$final closed/$final && ! grep -qv '^{.*}$' closed/metrics.jsonl; }
for streams in '2>&-' '<&- 2>&-' '<&- >&- 2>&-'; do
  rm -rf closed
  { eval "train --out closed $streams"; } > out 2> err
  status=$?
  expected=0
  [[ $streams != *'>&- '* ]] || expected=4  # what is printed at the end is lost
  closed $status $expected
  verdict $? "$streams: exit status $expected (it was $status), and the files have what is theirs"
done
run --out /dev/fd/0 <&- > out 2> err
[ $? = 4 ] && grep -q 'cannot write /dev/fd/0: Bad file descriptor' err && [ ! -s out ]
verdict $? 'a closed standard input takes nothing'
"$tete" list >&- 2> err
[ $? = 4 ] && [ "$(cat err)" = 'tete list: standard output could not be written' ]
verdict $? 'a closed standard output is exit status 4'
(ulimit -f 0 && exec "$tete" list > list) 2> err
[ $? = 4 ]
verdict $? 'so is one that may not grow'

# ---- Signals ----

long=("${model[@]}" --steps 1000000 --eval-every 0 --save-every 0)
# begun FOLDER [LINES]: waits until the run there has logged some steps.
begun() {
  for _ in $(seq 500); do
    [ -e "$1/metrics.jsonl" ] && [ "$(wc -l < "$1/metrics.jsonl")" -ge "${2:-5}" ] && return 0
    sleep 0.02
  done
  return 1
}
for signal in HUP TERM USR1; do
  # These tests may run under nohup themselves.
  env --default-signal=HUP "$tete" train text.txt "${long[@]}" --out "signal$signal" > out 2> err < /dev/null &
  job=$!
  begun "signal$signal"
  kill -$signal $job
  wait $job
  status=$?
  [ $status = 0 ] && grep -q '^Stopped at step' out && [ "$(ls "signal$signal"/step-* | wc -l)" = 2 ]
  verdict $? "SIG$signal saves and ends with exit status 0 (it was $status)"
done
(trap '' HUP && exec "$tete" train text.txt "${long[@]}" --out nohup) > out 2> err < /dev/null &
job=$!
begun nohup
kill -HUP $job
begun nohup $(($(wc -l < nohup/metrics.jsonl) + 5)) && kill -0 $job
verdict $? 'under nohup a run goes on after SIGHUP'
kill -TERM $job
wait $job

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
