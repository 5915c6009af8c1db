#!/bin/bash
# tete train --report: the same bits, a page that is all in one file, and numbers for other tools.
# tests/report.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
. tests/verdicts.sh

few=(--d-model 16 --layers 1 --batch 8 --steps 6 --eval-every 3 --eval-samples 8 --log-every 2 --save-every 2 --keep 3)
last=step-00000006.safetensors
for task in addition reverse; do
  check "$task without a report" "$tete" train --task $task "${few[@]}" --out $task
  check "$task with one" "$tete" train --task $task "${few[@]}" --report --out $task-told
  check "$task: the same bits with a report" cmp $task/$last $task-told/$last
  check "$task: norms in the log, with each of its lines" eval "[ \$(grep -c '\"split\":\"norms\"' $task-told/metrics.jsonl) = 4 ]"
  check "$task: answers in the log" eval "[ \$(grep -c '\"split\":\"samples\".*[✓✗]' $task-told/metrics.jsonl) = 2 ]"
done
check 'without a report there is none' eval "[ ! -e addition/report.html ] && ! grep -q norms addition/metrics.jsonl"

cd addition-told || exit 1
check 'the CSV has a line for each of the log' eval "[ \$(grep -cE '^[0-9]+,(train|validation),' metrics.csv) = 6 ] &&
  [ \$(wc -l < metrics.csv) = 7 ]"
check 'its loss is the log'"'"'s' eval "loss=\$(sed -nE 's/.*\"step\":6,.*\"split\":\"train\",\"loss\":([0-9.]+),.*/\1/p' metrics.jsonl) &&
  grep -q \"^6,train,.*,\$loss,\" metrics.csv"
check 'norms of each parameter' eval "[ \$(grep -c '^6,decoder/0/A/P_q,[0-9.e-]*,[0-9.e-]*,[0-9.e-]*\$' norms.csv) = 1 ]"
check 'the event file begins as such files do, and has the tags' eval "
  head -c 8 events.out.tfevents.0.tete | cmp - <(printf '\x18\0\0\0\0\0\0\0') &&
  for tag in brain.Event:2 train/loss validation/acc 'gradient norm/decoder/0/A/P_q' 'update norm/E'; do
    grep -qaF \"\$tag\" events.out.tfevents.0.tete || exit
  done"
check 'the page is one file that asks for no other' eval "
  grep -q '<script' report.html && ! grep -qiE '(src|href)=\"?(https?:)?//' report.html"
check 'its numbers are in it' eval "grep -q 'validation loss' report.html && grep -q 'gradient norm, decoder/0' report.html"
check 'what is done is not loaded again' grep -q '"refresh":0' report.html
cd ..

# Text that would be markup, were it not for its own good.
for i in $(seq 300); do echo "</script><img src=x onerror=alert($i)> \"quotes\" & 'more' 🙂"; done > '<b>.txt'
check 'a text full of tags' "$tete" train '<b>.txt' --context 8 "${few[@]}" --report --out '<i>run'
check 'none of it is markup in the page' eval "! grep -qE '<img|<i>run' '<i>run/report.html' &&
  [ \$(grep -c '</script>' '<i>run/report.html') = 2 ]"

# The report of a run that was interrupted and goes on tells of all of it, once.
check 'a run that goes on' eval "cp -r addition-told part && rm part/step-0000000[46]* && '$tete' train --resume --report --out part"
check 'its table is whole' eval "cut -d , -f 1,2 part/metrics.csv | cmp - <(cut -d , -f 1,2 addition-told/metrics.csv)"
check 'a report that cannot be written is a warning' eval "mkdir -p blocked/report.html &&
  '$tete' train --task addition ${few[*]} --report --out blocked 2>&1 | grep -q 'warning: the report is not written any more'"
check 'and the run is what it was' cmp blocked/$last addition/$last

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
