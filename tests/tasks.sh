#!/bin/bash
# Teaching tasks as the program has them: they train, resume with the same bytes, tell how many
# answers are right, and answer prompts. tests/tasks.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
. tests/verdicts.sh

# last KEY RUN: the last number under that key in a run's log.
last() { grep -o "\"$1\":[0-9.e-]*" "$2/metrics.jsonl" | tail -n 1 | cut -d : -f 2; }
# at_least NUMBER KEY RUN, at_most: what the run reached.
at_least() { check "the run $3: $2 is $(last "$2" "$3"), expected at least $1" awk "BEGIN { exit !($(last "$2" "$3") >= $1) }"; }
at_most() { check "$3: $2 is $(last "$2" "$3"), expected at most $1" awk "BEGIN { exit !($(last "$2" "$3") <= $1) }"; }

# ---- Every task ----

printf 'd-model = 16\nbatch = 8\nsteps = 6\neval-samples = 8\nsave-every = 2\nkeep = 3\nseed = 3\n' > few.toml
few=(--config few.toml)
for task in copy reverse sort addition induction brackets; do
  check "$task trains, and says how many answers are right" eval "'$tete' train --task $task ${few[*]} > said &&
    grep -qE 'Done: 6 steps.* of the tokens right and .* of the whole answers[,;] ' said"
  for key in acc exact_match; do
    check "$task: the log has $key" grep -qE "\"split\":\"validation\".*\"$key\":[01]" runs/$task/metrics.jsonl
  done
  check "$task resumes with the same bytes, for any number of threads" eval "
    cp -r runs/$task part && rm part/step-0000000[46]* && timeout 60 '$tete' train --resume --out part --threads 3 &&
      cmp runs/$task/step-00000006.safetensors part/step-00000006.safetensors"
  check "$task: tete cost has its parameters" eval "'$tete' train --task $task ${few[*]} --steps 1 --out one 2>&1 |
    sed -nE 's/^parameters +([0-9]+) in .*/\1/p' > parameters && [ -s parameters ] &&
    '$tete' cost multi_head --model --task $task --d-model 16 --json |
      grep -q \"^  \\\"parameters\\\": \$(cat parameters),\""
  rm -rf part one
done

# ---- Blocks that are computed again ----

for precision in f32 bf16; do
  again=(--task reverse "${few[@]}" --layers 2 --dropout 0.1 --precision $precision)
  check "reverse, $precision: blocks computed again give the same bytes" eval "
    '$tete' train ${again[*]} --out kept && '$tete' train ${again[*]} --recompute-blocks --threads 1 --out again &&
      cmp kept/step-00000006.safetensors again/step-00000006.safetensors"
  rm -rf kept again
done

# ---- Mistakes ----

mv runs kept
tasks='text, mlm, copy, reverse, sort, addition, induction or brackets'
refuses 2 "--task inducton: expected $tasks; did you mean 'induction'" train --task inducton
refuses 2 "--task xyzzy: expected $tasks" train --task xyzzy
refuses 2 'the task copy needs a context of at least 3 tokens, got 2' train --task copy --context 2
refuses 2 '--task sort makes its own data: it takes no TEXT' train text.txt --task sort
refuses 2 "'A' \(U\+0041\).*is not in the vocabulary" sample kept/copy --prompt abcA
refuses 2 "'-'.*is not in the vocabulary" sample kept/addition --prompt 7-3
refuses 2 'this model answers a prompt: --prompt TEXT is needed' sample kept/brackets
refuses 2 '--prompt has 26 tokens, but the model reads at most 24' sample kept/copy --prompt abcdefghijklmnopqrstuvwxy
check 'a prompt needs no mark' eval "'$tete' sample kept/addition --prompt 1+2 > a && '$tete' sample kept/addition --prompt 1+2= | cmp a"

# ---- What is learned ----

check 'closing brackets is learned' "$tete" train --task brackets --context 8 --layers 1 --steps 400 --out brackets
at_least 0.95 exact_match brackets
prints ')' sample brackets --prompt '('
prints ']>' sample brackets --prompt '<{}['

# One layer cannot look for what followed a letter: it would have to know, of each place, what
# stands before it.
induction=(--task induction --schedule constant --steps 450 --eval-every 0 --eval-samples 200)
check 'two layers learn what follows' "$tete" train "${induction[@]}" --out two
at_least 0.9 acc two
prints 'mnopqr' sample two --prompt abcdefghijklmnopqrstabcdefghijkl --length 6
check 'one layer does not' "$tete" train "${induction[@]}" --layers 1 --out one
at_most 0.4 acc one

# Some head's weights are a diagonal after the mark: each letter looks at the one to be copied next.
# In so few steps it is found from about half of all starts, and this is one of them.
check 'copying is learned' "$tete" train --task copy --with shaw --positions none --context 12 --steps 300 --seed 1 --out copy
at_least 0.9 exact_match copy
prints gkqtb sample copy --prompt 'gkqtb>'
check 'what it looks at' "$tete" inspect copy --text 'gkqtb>gkqt' --no-ablation
awk '$1 == "induction" { share = $NF } END { exit !(share >= 0.9) }' out
verdict $? 'one head has nine tenths of its weight on the letter that is copied'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
