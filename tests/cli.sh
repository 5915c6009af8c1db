#!/bin/bash
# The program as its users meet it: every kind of bad input is one clear sentence and the right
# exit code; interrupted runs end with the same bytes; so do runs with other numbers of threads.
# tests/cli.sh BUILD-FOLDER. LONG_RUN=600 in the environment shortens what is interrupted.
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
variants=$PWD/attention/variants attention=$PWD/tests/data/attention
variant=$variants/talking_heads.tete
. tests/verdicts.sh

# A text of a few thousand characters, some of them not ASCII.
for i in $(seq 60); do
  echo "Line $i: the heads talk, the queries ask; the keys — one by one — answer. Tête-à-tête."
done > text.txt
# A configuration, so that the command line can say otherwise.
cat > tiny.toml << END
layers = 1
heads = 2
d-model = 16
context = 16
batch = 4
steps = 12
eval-every = 6
eval-samples = 8
save-every = 3
log-every = 1
seed = 7
END
tiny=(--config "$work/tiny.toml")
train() { "$tete" train text.txt "${tiny[@]}" "$@"; }

# ---- The command line ----

refuses 2 'missing subcommand: expected train, launch, sample'
refuses 2 "unknown subcommand 'trian'; did you mean 'train'" trian
refuses 2 "no option '--heds'; did you mean '--heads'" train text.txt --heds 8
refuses 2 "no option '--tempreature'; did you mean '--temperature'" sample x --tempreature 1
refuses 2 "'extra' is one argument too many" sample x extra
refuses 2 '--heads needs a value' train text.txt --heads
refuses 2 "--heads: expected a whole number, got 'eight'" train text.txt --heads eight
refuses 2 "--heads: expected a whole number, got ' 5'" train text.txt --heads ' 5'
refuses 2 "--heads: expected a whole number from .*, got '99999999999999999999'" train text.txt \
  --heads 99999999999999999999
refuses 2 "--steps: expected 1 to 1000000000000, got '9223372036854775808'" train text.txt \
  --steps 9223372036854775808
refuses 2 '--steps: expected 1 to 1000000000000, got' train text.txt --steps 9223372036854775807
for verb in 'train text.txt' 'sample x' 'run multi_head' 'check'; do
  for seed in 18446744073709551616 -1; do
    refuses 2 "--seed: expected a whole number from 0 to 18446744073709551615, got '$seed'" $verb --seed $seed
  done
done
refuses 2 'CHECKPOINT is required' sample
for verb in train sample check run functions list inspect devices einsum bench; do
  check "tete $verb --help fits in 80 columns" eval "'$tete' $verb --help | awk 'length > 90 { exit 1 }'"
  check "tete $verb -h" "$tete" "$verb" -h
  check "tete help $verb" "$tete" help "$verb"
done
check 'the usage says of what there may be several' eval "'$tete' train --help | grep -qF 'Usage: tete train [OPTIONS] [TEXT...]'"
check 'what turns a flag off stands in the help' eval "'$tete' train --help | grep -q -- '--tied, --untied' &&
  '$tete' train --help | grep -q -- '--bias, --no-bias'"
check 'after -- there are no options' "$tete" cost -- talking_heads
refuses 2 "'--help' is one argument too many" cost talking_heads -- --help
refuses 2 "'foo' is one argument too many" list -- foo
refuses 2 "'check' is one argument too many" cost talking_heads check
check 'tete --version' eval "'$tete' --version | grep -qE '^tete [0-9]+\.[0-9]+\.[0-9]+'"

# ---- Options that make no sense ----

refuses 2 '--heads 0: expected' train text.txt --heads 0
refuses 2 '--layers 0: expected' train text.txt --n_layer 0
refuses 2 '--layers -3: expected' train text.txt --layers -3
refuses 2 '--d-model 0: expected' train text.txt --d-model 0
refuses 2 '--d-model 1000000000: expected' train text.txt --d-model 1000000000
refuses 2 '--context 0: expected' train text.txt --block_size=0
refuses 2 '--batch: expected' train text.txt --batch 0
refuses 2 '--steps: expected' train text.txt --max_iters 0
refuses 2 '--dropout 1: expected' train text.txt --dropout 1
refuses 2 '--dropout -0.1: expected' train text.txt --dropout -0.1
refuses 2 '--dropout nan: expected' train text.txt --dropout nan
refuses 2 '--learning-rate: expected' train text.txt --learning-rate -1
refuses 2 '--learning-rate: expected 0 to 100' train text.txt --learning-rate nan
refuses 2 '--learning-rate: expected 0 to 100' train text.txt --learning-rate inf
refuses 2 '--weight-decay is an option of adam' train text.txt --weight-decay 0.1
refuses 2 '--shards 5: expected' train text.txt --batch 4 --shards 5
refuses 2 '--held-out 1: expected' train text.txt --held-out 1
refuses 2 '--held-out 0: expected more than 0' train text.txt --held-out 0
refuses 2 '--threads: expected 0 to 1024' train text.txt --threads -1
refuses 2 "adafacto.*did you mean 'adafactor'" train text.txt --optimizer adafacto
refuses 2 "cosin.*did you mean 'cosine'" train text.txt --schedule cosin
refuses 2 "--activation rellu:.*'rellu'.*did you mean 'relu'" train text.txt --activation rellu
refuses 2 '--norm batch: expected a text, or layer, .*none, rms' train text.txt --norm batch
refuses 2 "--norm rsm: expected .*; did you mean 'rms'" train text.txt --norm rsm
refuses 2 '--positions absolute: expected a text, or learned, learned_shared, none or sinusoidal' train text.txt --positions absolute
refuses 2 '--tokenizer bite: expected.*byte' train text.txt --tokenizer bite
refuses 2 '--init|initialisation' train text.txt --init xavier
refuses 2 'expected NAME=SIZE' train text.txt --dim h_k
refuses 2 'expected NAME=SIZE' train text.txt --dim h_k=two
refuses 2 '--dim n=3000000000: expected a size of at most 999999999' cost multi_head --dim n=3000000000
refuses 2 '--dim h_k 0: expected 1 to' train text.txt --dim h_k=0
refuses 2 "--steps: expected a whole number without zeros in front, got '012'" train text.txt --steps 012
refuses 2 "$(printf 'x%.0s' {1..79})…" train text.txt --activation "$(printf 'x%.0s' {1..5000})"
refuses 2 '--dim h is set twice: 4 and 8' cost multi_head --dim h=4 --dim h=8
refuses 2 '--dim h_k is set twice: 4 and 5' train text.txt --dim h_k=4 --dim h_k=5
printf '[dim]\nh_k = 4\nh_k = 5\n' > twice.toml
refuses 2 "twice.toml:3: 'h_k' is set twice" train text.txt --config twice.toml
refuses 2 'zz' train text.txt "${tiny[@]}" --dim zz=4
refuses 4 "'.*' of shape .* needs .* of memory .*, but .* are free" train text.txt --d-model 65536 --layers 1000 --heads 1

# Sizes that contradict each other.
refuses 2 'd_X|d_model|16|3' train text.txt "${tiny[@]}" --heads 3
refuses 2 'h_k|5' train text.txt "${tiny[@]}" --dim h_k=5

# ---- Configuration files ----

printf 'heads = 2\nheds = 4\n' > bad.toml
refuses 2 "bad.toml: there is no key 'heds'.*did you mean '--heads'" train text.txt --config bad.toml
printf '# sizes\n\nheads = two\n' > bad.toml
refuses 2 "bad.toml:3: 'heads' is two: expected a number" train text.txt --config bad.toml
printf 'seed = 1 2\n' > bad.toml
refuses 2 "bad.toml:1: 'seed' is 1 2: expected a number" train --config bad.toml
printf '{"heads": 2, "heds": 4}' > bad.json
refuses 2 "bad.json: there is no key 'heds'.*did you mean '--heads'" train text.txt --config bad.json
for value in '{}' '[]' '[4]' '{"a": 4}'; do
  echo "{\"heads\": $value}" > bad.json
  refuses 2 "bad.json: 'heads' is .*: expected a string, a number, true, false or null" \
    train text.txt --config bad.json
done
printf '{"heads": 2,' > bad.json
refuses 2 'bad.json: not JSON: parse error at line 1' train text.txt --config bad.json
printf 'layers = 1\nheads = 8\nd_model = 16\ncontext = 16\nsteps = 2\neval-samples = 2\n' > good.toml
check 'the command line wins over a configuration file' eval "
  '$tete' train text.txt --config good.toml --heads 2 --out won && grep -q '\"heads\": 2,' won/config.json &&
    grep -q '\"layers\": 1,' won/config.json"
refuses 2 'missing.toml' train text.txt --config missing.toml

# ---- Words as they stand ----

cp text.txt '[a,b]'
check 'a file whose name is in brackets is no list' eval "
  '$tete' train '[a,b]' --config good.toml --heads 2 --out bracketed && grep -q '\[a,b\]' bracketed/config.json"
check 'nor where a configuration names it' eval "
  '$tete' train --config bracketed/config.json --out bracketed2 && cmp bracketed/config.json bracketed2/config.json"
refuses 2 '\[softmax,einsum\]' check '[softmax,einsum]'

# ---- One value each, and none empty ----

refuses 2 '--heads is given 2 times: expected once' train text.txt --heads 2 --n_head 4
refuses 2 '--tied is given 2 times: expected once' train text.txt --tied --untied
refuses 2 '--text is given 2 times: expected once' inspect a --text A --text B
refuses 2 '--prompt is given 2 times: expected once' sample a --prompt A --prompt B
refuses 2 '--rows is given 2 times: expected once' bench ops --rows 2 --rows 3
while read -r words; do
  refuses 2 "^tete [a-z]+: ${words##* }: expected a value, got ''" $words ''
done << 'END'
train text.txt --out
train text.txt --attention
train --text
train text.txt --with
train text.txt --config
train text.txt --schedule
train text.txt --allow-zero-grad
sample a --seed
check talking_heads --against
check talking_heads --with
run multi_head --out x --tensors
run multi_head --random --out
cost multi_head --task
show multi_head --with
inspect a --text x --out
einsum ij x --memory-limit
bench attention --variant
END
for words in 'train text.txt --out= --resume' 'train text.txt --out=' 'train text.txt --seed= 5' \
  'train text.txt --compile= --device=' 'train text.txt --report=' 'sample a --seed= 1' 'list --json='; do
  name=${words%%=*}
  refuses 2 "^tete [a-z]+: --${name##*--}: expected a value, got ''\$" $words
done
[ ! -e --resume ]
verdict $? 'no run has the name of an option'

# ---- Texts ----

refuses 2 'nobody.txt' train nobody.txt
: > empty.txt
refuses 2 'empty' train empty.txt
head -c 4000 /dev/zero > zeros.bin
refuses 2 'zeros.bin' train zeros.bin
{ cat text.txt; printf '\xC3\x28 and on\n'; } > latin.txt
refuses 2 'latin.txt.*(UTF-8|byte)' train latin.txt
echo 'short' > short.txt
refuses 2 '(short|context|characters|tokens)' train short.txt --context 64
mkdir -p folder
refuses 2 'folder' train folder

# ---- Attention ----

refuses 2 "'talking_head'.*did you mean 'talking_heads'" train text.txt --attention talking_head
refuses 2 'nowhere.tete' train text.txt --attention nowhere.tete
printf 'def Broken(\n    X[n, d_X], M[m, d_X]):\n  Y[n, d_X] = einsum(X[n, d_x])\n  return Y[n, d_X]\n' > broken.tete
refuses 2 'broken.tete:3:' train text.txt --attention broken.tete
cp err mistake
check 'a mistake in a text has a caret' grep -q '\^' mistake
refuses 2 'nothing.tete' train text.txt --attention multi_head --with nothing.tete

# ---- A run, and its repetition with other numbers of threads ----

final=step-00000012.safetensors
check 'a run ends well' train --out a --threads 1
check 'its folder has checkpoints, a log and its configuration' \
  test -s a/$final -a -s a/metrics.jsonl -a -s a/config.json
for threads in 2 3; do
  check "train with $threads threads" train --out "t$threads" --threads "$threads"
  check "the same bytes with $threads threads as with 1" cmp a/$final "t$threads/$final"
done
check 'train from its config.json' "$tete" train --config a/config.json --out again
check 'a run from its config.json ends with the same bytes' cmp a/$final again/$final
check 'blocks that are computed again' train --recompute-blocks --out blocks
check 'and end with the same bytes' cmp a/$final blocks/$final
check 'another seed' train --out b --seed 8
check 'gives other bytes' eval "! cmp -s a/$final b/$final"
check 'the same texts by another variant and optimizer' train --out c --attention multi_head \
  --optimizer adam --style gpt2 --tokenizer byte --dropout 0.1 --shards 2 --json
check 'it says what gpt2 takes from the text' eval "train --out c1 --attention multi_head --style gpt2 --steps 1 2>&1 |
  grep -q \"warning: the logits of 'MultiHead' are not scaled: .* in the start of P_q.*multi_head_scaled\""
check 'as an event, too' eval "train --out c2 --attention multi_head --style gpt2 --steps 1 --json | grep -q '\"warning\",\"text\":\"the logits of'"
check 'and nothing where the text divides' eval "train --out c3 --attention multi_head_scaled --style gpt2 --steps 1 2>&1 | { ! grep 'not scaled'; }"
check 'resuming a finished run has nothing to do' "$tete" train --resume --out c
check 'train from that config.json' "$tete" train --config c/config.json --out d2
check 'the same bytes, for another style too' cmp c/$final d2/$final
check 'JSON lines' eval "train --out d --json | python3 -c 'import json,sys
for line in sys.stdin: json.loads(line)' 2> /dev/null || ! command -v python3"
check 'a copy of a variant is a variant' eval "cp '$variant' mine.tete; train --out e --attention mine.tete"
rm mine.tete

check 'the largest seed' train --steps 1 --out largest --seed 18446744073709551615
check 'is kept' grep -q '"seed": 18446744073709551615,' largest/config.json
check 'and its run goes on' "$tete" train --resume --out largest --steps 2
echo x > talking_heads
check 'a file with the name of a variant' train --steps 1 --out named --attention talking_heads
check 'is not that variant' grep -q '"attention": "talking_heads"' named/config.json
check 'whose run goes on' "$tete" train --resume --out named --steps 2
rm talking_heads
check '--prompt= is the empty prompt' eval "'$tete' sample a --prompt= --length 5 > empty &&
  '$tete' sample a --prompt '' --length 5 | cmp - empty"
refuses 2 "no option '--lenth'" sample a --prompt= --lenth 5

# ---- A run goes on as what it was, and says what is changed ----

printf 'tied = false\nbias = true\n' > untied.toml
check 'flags in a configuration' train --config untied.toml --steps 6 --out untied
check 'are flags on the command line: the same bytes' eval "
  train --untied --bias --steps 6 --out untied2 && cmp untied/step-00000006.safetensors untied2/step-00000006.safetensors"
check 'a run of an older version, which kept TOML, goes on' eval "cp -r untied older && rm older/config.json &&
  { echo 'text = [\"$work/text.txt\"]'; sed 's/steps = 12/steps = 6/' tiny.toml untied.toml; } > older/config.toml &&
  rm older/step-00000006.safetensors && '$tete' train --resume --out older && cmp untied/step-00000006.safetensors older/step-00000006.safetensors"
refuses 2 "'uses' is not what the run in untied began with: .*Output=output_tied.\], but there .*Output=output_own" train --resume --out untied --tied
refuses 2 "'d_ff' is not what the run in untied began with: 8, but there unset" train --resume --out untied --d-ff 8
refuses 2 'its seed was 7, and is 8 now' train --resume --out untied --seed 8
check 'nothing is said where nothing changes' eval "cp -r untied same && rm same/step-00000006.safetensors &&
  '$tete' train --resume --out same --steps 6 2>&1 | { ! grep -q 'from here on'; }"
check 'options that change are said, in one sentence each' eval "
  '$tete' train --resume --out untied --learning-rate 0.1 --steps 7 2> said &&
    grep -qx \"warning: the schedule's rate was 1 in untied/step-00000006.safetensors and is 10 from here on\" said &&
    grep -qx 'warning: steps was 6 in untied/step-00000006.safetensors and is 7 from here on' said && [ \$(grep -c 'from here on' said) = 2 ]"
check 'they are kept' eval "grep -q '\"learning-rate\": 0.1' untied/config.json && grep -q '\"steps\": 7' untied/config.json"
check 'in JSON, too' eval "'$tete' train --resume --out untied --dropout 0.5 --steps 8 --json |
  grep -qx '{\"event\":\"warning\",\"text\":\"dropout was 0 in untied/step-00000007.safetensors and is 0.5 from here on\"}'"

# ---- nanoGPT's command line ----

nanogpt() {
  "$tete" train text.txt --compile=False --log_interval=1 --block_size=16 --batch_size=4 --n_layer=1 \
    --n_head=2 --n_embd=16 --dropout=0.0 --out_dir=nano "$@"
}
check 'nanoGPT'"'"'s command line' nanogpt --device=cpu --eval_iters=2 --max_iters=6 --lr_decay_iters=6
mv err said
check 'what is not needed is said' eval "[ \$(grep -cE '^warning: --(compile|lr_decay_iters) is not needed: ' said) = 2 ] &&
  grep -qx 'warning: --eval_iters 2 is --eval-samples 8: so many batches of 4' said && grep -q '\"eval-samples\": 8,' nano/config.json"
for verb in 'train text.txt' 'sample nano' 'inspect nano --text a' 'run talking_heads --random --out x'; do
  refuses 2 "unknown device 'cuda'; there are cpu, vulkan" $verb --device=cuda
done
refuses 2 '--lr_decay_iters 5: expected the number of --steps.*: 6' train text.txt --max_iters 6 --lr_decay_iters 5
refuses 2 '--eval-samples excludes --eval_iters' train text.txt --eval_iters 5 --eval-samples 5
refuses 2 '--eval_iters 0: expected 1 to' train text.txt --eval_iters 0

check 'a checkpoint carries the text of its attention' "$tete" sample e --length 5

# ---- Attention at single sites ----

refuses 2 'a decoder must not see the future, but .* take what is causal' train text.txt --attention linformer
cp err mistake
check 'and the statement that would see it' grep -q '^linformer.tete:[0-9:]* this combines all positions' mistake
refuses 2 "--attention-layer 4=dot_product:.* 'l' is 4, so they are 0 to 3" train text.txt --attention-layer 4=dot_product
refuses 2 '--attention-layer x=dot_product: expected LAYER=NAME' train text.txt --attention-layer x=dot_product
refuses 2 '--attention-layer 1: expected LAYER=NAME' train text.txt --attention-layer 1
refuses 2 "--attention-layer 1=multi_head:1:1: the slot 'Attention' of 'decoder.A' is filled twice" train text.txt \
  --attention-layer 1=dot_product --attention-layer 1=multi_head
slots='its slots are Absolute, Activation, Attention, Block, FeedForward, Norm, Output, Relative'
refuses 2 "--attention-cross multi_head:1:1: 'LanguageModel' has no slot 'Cross'; $slots" \
  train text.txt --attention-cross multi_head
refuses 2 "'encoder.Attention\[1\]' is nowhere in 'LanguageModel': 'Attention' stands in 'decoder.A'" \
  train text.txt --attention-layer encoder/1=multi_head
refuses 2 "--use:1:1: the slot 'Relative' stands after 'with', so one amending text fills it" \
  train text.txt --use 'Relative with rotary'
refuses 2 "--with cross=dropout:1:1: 'LanguageModel' has no slot 'Cross'; $slots" train text.txt --with cross=dropout
refuses 2 "--dim m=3 decides nothing: 'm' is a dimension of what the texts read; --context" train text.txt --dim m=3
refuses 2 "'LanguageModel' has no size 'zz'; its sizes are n, v, d_X, l, h, max_n, f, .*d_k, h_k" train text.txt --attention-layer 1=dot_product --dim zz=3
refuses 2 "dot_product.tete:8:3: 'T5Bias' does not fit 'DotProduct': it amends 'L' of 3 dimensions, but here it has 2" \
  train text.txt --attention-layer 1=dot_product --with t5_bias
check 'layers differ, and sizes go where they are known' train --layers 2 --out sites \
  --attention-layer 1=dot_product --dim h_k=4 --dim h_v=4 --with self=sinusoidal
check 'train from its config.json' "$tete" train --config sites/config.json --out sites2
check 'all options of several values are kept: the same bytes' cmp sites/$final sites2/$final
check 'the checkpoint has the texts of its layers' eval "
  '$tete' sample sites --length 5 && grep -aq 'Attention\[1\]=dot_product.*# Dot-product attention' sites/$final"
refuses 2 "'uses' is not what the run in sites began with: .*Attention\[1\]=multi_head.*, but there .*dot_product" train text.txt \
  --resume --out sites --attention-layer 1=multi_head

# ---- The limits of variants ----

limited=0
for path in "$variants"/*.tete; do
  name=$(basename "$path" .tete)
  for room in $(grep -oE '<=max_[nm]' "$path" | sort -u | cut -c 3-); do
    limited=$((limited + 1))
    [ "$name" = linformer ] || refuses 2 "'[nm]' is 16, but there is room for '$room' = 8 only" \
      train text.txt "${tiny[@]}" --positions none --attention "$name" --dim $room=8
  done
done
refuses 2 "positions_learned.tete:.*'A.n' is 16, but there is room for 'A.max_n' = 8 only" \
  train text.txt "${tiny[@]}" --dim max_n=8
[ "$limited" -ge 20 ]
verdict $? 'variants with tables of positions have limits'
refuses 2 "is outside a dimension of size 3, which is 'i'" train text.txt "${tiny[@]}" --attention bigbird \
  --dim b=4 --dim i=3
refuses 2 "is outside a dimension of size 2, which is 'b'" train text.txt "${tiny[@]}" \
  --attention factorized_dense_synthesizer --dim a=4 --dim b=2 --out few
refuses 2 'a decoder must not see the future' train text.txt --attention linformer
check 'linformer alone is said not to be causal' eval "'$tete' list | grep -B 2 '^    not causal' |
  head -n 1 | grep -qx linformer && [ \$('$tete' list | grep -c '^    not causal') = 1 ]"
refuses 2 "rotate turns pairs, but 'RotaryQueries.d_k' is 1" train text.txt "${tiny[@]}" --heads 16 --attention multi_head --with rotary --out odd
for path in "$variants"/*.tete; do
  name=$(basename "$path" .tete)
  grep -q 'self-attention only' "$path" || continue
  refuses 2 "reads its own sequence only: its 'M' is 'X', .*; fill 'Cross' with" \
    train --task reverse --attention multi_head --attention-cross "$name"
done

# ---- An encoder with a decoder ----

printf 'task = "reverse"\nheads = 2\nd-model = 32\nlayers = 1\ncontext = 6\n' > reverse.toml
printf 'layers = 2\nd-model = 16\nbatch = 8\nsteps = 6\neval-samples = 8\nsave-every = 2\nkeep = 3\n' > few.toml
reverse=(--config reverse.toml)
few=(--config reverse.toml --config few.toml)
refuses 2 "--task revers: expected text, mlm, copy, reverse, .* or brackets; did you mean 'reverse'" train --task revers
refuses 2 '--task reverse makes its own data: it takes no TEXT' train text.txt "${reverse[@]}"
refuses 2 'it takes no --tokenizer' train "${reverse[@]}" --tokenizer byte
refuses 2 'at least 2 tokens' train "${reverse[@]}" --context 1
refuses 2 'a decoder must not see the future' \
  train "${reverse[@]}" --attention-decoder linformer
check 'a layer that is said without a stack is that of both' "$tete" train "${few[@]}" --attention-layer 0=dot_product --out both
[ "$(grep -aoE '"param/[a-z]*/[01]/[AD]/P_q"' both/step-00000006.safetensors | sort -u | tr -d '\n')" = \
  '"param/decoder/0/D/P_q""param/decoder/1/A/P_q""param/decoder/1/D/P_q""param/encoder/1/A/P_q"' ]
verdict $? 'and cross-attention is left as it is'
refuses 2 "dot_product.tete:8:3: 'T5Bias' does not fit 'DotProduct': it amends 'L' of 3 dimensions" \
  train "${reverse[@]}" --attention-layer cross/0=dot_product --with t5_bias
# The talking-heads paper's models with talking heads at one kind of site only (its section 7).
for site in encoder decoder cross; do
  check "talking heads in $site only" "$tete" train "${few[@]}" --attention multi_head \
    --attention-$site talking_heads --out th-$site
  [ "$(grep -aoE '"param/[a-z]*/0/[AD]/P_l"' th-$site/step-00000006.safetensors | sort -u)" = \
    "\"param/$(sed 's,encoder,encoder/0/A,;s,^decoder,decoder/0/A,;s,cross,decoder/0/D,' <<< $site)/P_l\"" ]
  verdict $? "P_l is in $site only"
done
check 'every site has its own, and position biases where they are wanted' "$tete" train "${few[@]}" \
  --attention-encoder linformer --dim r=2 --attention-layer encoder/1=bigbird \
  --attention-layer cross/0=dot_product --with decoder=t5_bias --out all-sites --json
mv out lines
check 'JSON lines tell exact matches' grep -q '"exact_match":0\.' lines
check 'resuming ends with the same bytes' eval "
  cp -r all-sites part && rm part/step-0000000[46]* && timeout 60 '$tete' train --resume --out part --threads 3 &&
    cmp all-sites/step-00000006.safetensors part/step-00000006.safetensors"
check 'what was killed before its first checkpoint begins again, as it was asked for' eval "
  cp -r all-sites none && rm none/step-* && timeout 60 '$tete' train --resume --out none &&
    cmp all-sites/step-00000006.safetensors none/step-00000006.safetensors"
check 'in bfloat16, too, and otherwise than in f32' eval "
  '$tete' train ${few[*]} --precision bf16 --out bf16 &&
    cp -r bf16 bf16b && rm bf16b/step-0000000[46]* && '$tete' train --resume --out bf16b --threads 1 &&
    cmp bf16/step-00000006.safetensors bf16b/step-00000006.safetensors &&
    '$tete' train ${few[*]} --out in-full && ! cmp -s bf16/step-00000006.safetensors in-full/step-00000006.safetensors"
refuses 2 '--precision f16: expected f32 or bf16' train "${few[@]}" --precision f16 --out f16
check 'with dropout and shards, too' eval "
  '$tete' train ${few[*]} --dropout 0.1 --shards 4 --out shards &&
    cp -r shards shards2 && rm shards2/step-0000000[46]* && '$tete' train --resume --out shards2 &&
    cmp shards/step-00000006.safetensors shards2/step-00000006.safetensors"
check 'a model learns to reverse strings' "$tete" train "${reverse[@]}" --attention multi_head \
  --style gpt2 --optimizer adam --learning-rate 0.005 --batch 64 --steps 400 --eval-samples 500 \
  --out backwards
check 'strings it never saw, 95 of 100 or more without a mistake' \
  eval "grep -o '\"exact_match\":[0-9.]*' backwards/metrics.jsonl | tail -n 1 | cut -d : -f 2 | awk '{ exit !(\$1 >= 0.95) }'"
prints cba sample backwards --prompt abc
prints tac sample backwards --prompt cat --threads 1
prints ta sample backwards --prompt cat --length 2
check 'in JSON' eval "'$tete' sample backwards --prompt abc --json | grep -q '\"text\":\"cba\"'"
refuses 2 'prompt' sample backwards
refuses 2 '--prompt has 7 tokens, but the model reads at most 6' sample backwards --prompt abcdefg
refuses 2 "'A'.*is not in the vocabulary" sample backwards --prompt A

# ---- Folders and disks ----

refuses 2 '(a|run|resume)' train text.txt "${tiny[@]}" --out a
refuses 4 'text.txt' train text.txt "${tiny[@]}" --out text.txt/runs
refuses 4 '/proc' train text.txt "${tiny[@]}" --out /proc/tete
limited() { (ulimit -f 8; exec "$tete" train text.txt "${tiny[@]}" --d-model 64 --out full); }
limited > out 2> err < /dev/null
status=$?
[ "$status" = 4 ] && [ "$(grep -c '^tete' err)" = 1 ] && ! ls full/*.safetensors > /dev/null 2>&1
verdict $? "a checkpoint that does not fit: exit status $status, expected 4 and no half file"
"$tete" list > /dev/full 2> err
[ $? = 4 ] && [ "$(grep -c '^tete' err)" = 1 ]
verdict $? 'a full standard output is exit status 4'

# ---- Numbers that go wrong ----

refuses 3 "step [0-9]+.*'[A-Za-z0-9_./]+'" train text.txt "${tiny[@]}" --steps 100 --learning-rate 100 \
  --schedule constant --out wrong
check 'the state before a step that went wrong is saved' eval 'ls wrong/*.safetensors'

printf 'def Zeroed(Y[n, d]):\n  Z[n, d] = 0 * Y[n, d]\n  return Z[n, d]\n' > zeroed.tete
refuses 2 'exactly zero in each of the first 11 steps.*--allow-zero-grad' train text.txt "${tiny[@]}" \
  --with zeroed.tete --out zeroed

# ---- Interrupted and resumed ----

# Waits until the run in a folder has logged step $2.
reached() {
  for _ in $(seq 600); do
    [ "$(grep -c '"step"' "$1/metrics.jsonl" 2> /dev/null || true)" -ge "$2" ] 2> /dev/null && return 0
    sleep 0.02
  done
  return 1
}
steps=${LONG_RUN:-3000}
printf 'steps = %d\nsave-every = 100\neval-every = 1000\n' "$steps" > long.toml
long=(--config long.toml)
last=$(printf 'step-%08d.safetensors' "$steps")
start() { exec "$tete" train text.txt "${tiny[@]}" "${long[@]}" "$@" > out 2> err < /dev/null; }
check 'the uninterrupted run' train "${long[@]}" --out whole

start --out stopped &
job=$!
reached stopped 200 && kill -INT $job
wait $job
status=$?
[ $status = 0 ] && grep -q 'resume' out && [ ! -e stopped/$last ]
verdict $? "Ctrl-C saves and ends with exit status 0 (it was $status)"
check 'resume after Ctrl-C, with another number of threads' "$tete" train --resume --out stopped --threads 3
check 'ends with the same bytes' cmp whole/$last stopped/$last

# Checkpoints after every step: it is killed while one is being written, more often than not.
start --save-every 1 --out killed &
job=$!
reached killed 20 && kill -KILL $job
wait $job 2> /dev/null
[ ! -e killed/$last ]
verdict $? 'kill -9 comes before the end'
check 'resume after kill -9' "$tete" train --resume --out killed --save-every 100
check 'ends with the same bytes, too' cmp whole/$last killed/$last
start --d-model 512 --context 256 --batch 64 --out slow &
job=$!
for _ in $(seq 200); do [ -e slow/step-00000000.safetensors ] && break; sleep 0.05; done
kill -INT $job
sleep 0.2
kill -INT $job
wait $job
status=$?
[ $status = 130 ]
verdict $? "a second Ctrl-C ends at once with exit status 130 (it was $status)"
refuses 2 'no run to resume' train text.txt --resume --out nothing
refuses 2 "heads" train text.txt "${tiny[@]}" "${long[@]}" --heads 4 --resume --out whole
sed 's/heads/HEADS/' text.txt > other.txt
refuses 2 '(text|data)' train other.txt "${tiny[@]}" "${long[@]}" --resume --out whole

# ---- Checkpoints that are none ----

refuses 2 'nowhere' sample nowhere
refuses 2 'empty.txt' sample empty.txt
refuses 2 'text.txt' sample text.txt
head -c 3000 a/$final > cut.safetensors
refuses 2 'cut.safetensors' sample cut.safetensors
{ head -c 3000 a/$final; printf 'X'; tail -c +3002 a/$final; } > flipped.safetensors
refuses 2 'flipped.safetensors' sample flipped.safetensors
printf '\x02\0\0\0\0\0\0\0{}' > foreign.safetensors
refuses 2 'foreign.safetensors' sample foreign.safetensors
mkdir -p hollow
refuses 2 'hollow' sample hollow

# ---- Samples ----

refuses 2 '--temperature -1: expected' sample a --temperature -1
refuses 2 '--temperature nan: expected' sample a --temperature nan
refuses 2 '--top-k -1: expected' sample a --top-k -1
refuses 2 '--length -1: expected' sample a --length -1
refuses 2 '(vocabulary|character)' sample a --prompt 'Ωμέγα'
refuses 2 'UTF-8' sample a --prompt $'\xC3('
check 'a sample' "$tete" sample a --prompt 'Line 1' --length 40 --seed 3
mv out first
check 'it begins with the prompt and has the length' \
  eval '[ "$(head -c 6 first)" = "Line 1" ] && [ "$(LC_ALL=C.UTF-8 wc -m < first)" = 47 ]'
check 'the same seed writes the same text' \
  eval "'$tete' sample a --prompt 'Line 1' --length 40 --seed 3 --threads 3 | cmp - first"
check 'no prompt' "$tete" sample a --length 3
check 'temperature 0' eval "'$tete' sample a --temperature 0 --length 30 --seed 1 > x &&
  '$tete' sample a --temperature 0 --length 30 --seed 2 | cmp - x"
check 'top-k 1 is greedy' eval "'$tete' sample a --top-k 1 --length 30 | cmp - x"
check 'bytes make whole characters' \
  eval "'$tete' sample c --length 200 --temperature 5 | iconv -f UTF-8 -t UTF-8 > /dev/null"
check 'samples side by side' "$tete" sample a --prompt 'Line 1' --length 40 --seed 2 --samples 3
{ for seed in 2 3 4; do
  [ $seed = 2 ] || echo
  echo "== $((seed - 1)) of 3, --seed $seed"
  "$tete" sample a --prompt 'Line 1' --length 40 --seed $seed
done; } | cmp - out
verdict $? 'each is what its seed writes alone'
check 'in JSON' eval "'$tete' sample a --length 9 --seed 2 --samples 2 --json |
  grep -qE '\"prompt\":\"\",\"samples\":\[\{\"seed\":2,\"text\":\".*\"},\{\"seed\":3,\"text\":\".*\"}\],\"stopped\":false}$'"
refuses 2 '--samples.*0' sample a --samples 0
refuses 2 '--samples.*-1' sample a --samples -1
check 'a model that keeps megabytes of each sample' "$tete" train text.txt --d-model 256 --context 256 --batch 1 \
  --steps 1 --eval-samples 1 --out large
refuses 4 '1000000 samples need about .* of memory, but .* are free' sample large --samples 1000000
# stopped_sample SIGNAL BYTES ARGUMENT…: a sample without an end gets the signal when it has written so much.
stopped_sample() {
  local signal=$1 bytes=$2
  shift 2
  "$tete" sample "$@" --length 100000000 > out 2> err < /dev/null &
  job=$!
  for _ in $(seq 400); do [ "$(wc -c < out)" -ge "$bytes" ] && break; sleep 0.05; done
  [ "$bytes" -gt 0 ] || sleep 3
  kill -"$signal" $job
  timeout 60 tail --pid=$job -f /dev/null || kill -KILL $job
  wait $job
  status=$?
}
stopped_sample INT 47 a --prompt 'Line 1' --seed 3
[ $status = 130 ] && [ "$(head -c 47 out | tr '\n' _)" = "$(head -c 47 first | tr '\n' _)" ] && [ "$(tail -c 1 out | wc -l)" = 1 ]
verdict $? "Ctrl-C ends a sample with its line, and with exit status 130 (it was $status)"
stopped_sample TERM 0 a --prompt 'Line 1' --seed 3 --json
[ $status = 143 ] && [ "$(wc -l < out)" = 1 ] && grep -q '"stopped":true}$' out
verdict $? "SIGTERM ends one in JSON with its object, and with exit status 143 (it was $status)"
check 'a stream: the first characters come before the end' eval "
  (timeout 20 '$tete' sample a --length 100000000 || true) | head -c 100 | wc -c | grep -q 100"

# ---- Checks and the list ----

check 'tete list' eval "'$tete' list | grep -q talking_heads"
check 'tete list of models and blocks' eval "'$tete' list --models --blocks > texts.list && grep -qx gpt2 texts.list && grep -qx moe texts.list"
check 'tete list tells families' eval "'$tete' list | grep -qx '== talking heads'"
check 'tete list tells what is causal and what attends across' eval "
  '$tete' list | grep -A 2 -x talking_heads | grep -qx '    causal; cross-attention'"
check 'tete list --json' eval "'$tete' list --json | grep -q talking_heads"
"$tete" functions > functions
for name in $(sed 's/#.*//' "$variants"/*.tete | grep -oE '\b[a-z][a-z_0-9]*\(' | sort -u); do
  check "tete functions tells of $name), with an example" eval "
    grep -A 2 '^$name' functions | grep -q '^.*\[.*\] = .*\b$name.*'"
done
check 'tete functions --json has the same functions and initialisers' eval "
  '$tete' functions --json | sed -n 's/^ *\"name\": \"\(.*\)\",/\1/p' > function-names &&
  [ \$(wc -l < function-names) -gt 40 ] && grep -oE '^[a-z_0-9]+\(' functions | tr -d '(' | cmp - function-names"
check 'tete check of one variant' "$tete" check talking_heads
check 'tete check of a file' "$tete" check "$variant"
check 'tete check of an operation, in JSON' eval "'$tete' check softmax --json | grep -q '\"failed\": 0'"
refuses 2 "'talking_haeds'.*did you mean 'talking_heads'" check talking_haeds
refuses 2 'broken.tete:3:' check broken.tete
refuses 2 '--order 4: expected 1, 2 or 3' check ops --order 4
refuses 2 "'h' is 4|h = 4|6 / 4" check talking_heads --dim h=4 --dim d_X=6
check 'tete check seeks the width that heads of --dim need' eval "
  '$tete' check talking_heads --dim h=4 | grep -q '^P_q\[d_X=8, d_k=2, h_k=4\] .* right'"
check 'lengths and widths of --dim are those that are checked' eval "
  '$tete' check multi_head --dim n=2 --dim m=4 --dim d_X=4 --dim d_M=6 --dim h=2 > sized &&
  grep -q '^X\[batch=2, n=2, d_X=4\]' sized && grep -q '^X\[batch=2, n=4, d_X=4\]' sized &&
  [ \$(grep -c '^M\[batch=2, m=4, d_M=6\]' sized) = 2 ]"
sed 's|d_k = d_X / h, d_v = d_M / h|g = h / 2, d_k = d_X / 4 * g, d_v = d_M / h|' \
  "$variants/multi_head.tete" > halves.tete
check 'sizes are sought that a text divides' eval "
  '$tete' check halves.tete | grep -q '^P_q\[d_X=4, d_k=1, h=2\] .* right'"
sed 's|^  L\[n, m, h\] *=.*|  Q_m[m, d_k, h] = Q[n=(m), d_k, h]\n  L[n, m, h] = einsum(Q[n, d_k, h], Q_m[m, d_k, h]) + einsum(Q[n, d_k, h], K[m, d_k, h])|' \
  "$variants/multi_head.tete" > squares.tete
check 'a text that has as many queries as memories is checked so' eval "
  '$tete' check squares.tete > squares && grep -q '^X\[batch=2, n=5' squares && grep -q '^M\[batch=2, m=5' squares"
printf '%s\n' 'def F(X[causal n, d], M[m, d]):' '  L[n, m] = einsum(X[n, d], M[m, d])' \
  '  W[n, m] = softmax(L[n, m], reduced_dim=m)' '  Y[n, d] = einsum(W[n, m], M[m, d])' '  return Y[n, d]' > beside.tete
check 'a text that says itself what is causal is checked so' eval "'$tete' check beside.tete | grep -q '1 passed, 0 failed'"
check 'tete check says why there is no causal half' eval "
  '$tete' check linformer | grep -q '^linformer, causal  *not checked: linformer.tete:18:20: this combines all positions of .m. outside'"
sed -e 's|^  L\[n, m, h\].*|&\n  C[d_M] = mean(M[m, d_M], reduced_dim=m)|' -e 's|^  return|  Z[n, d_Y] = Y[n, d_Y] + C[d_M=(d_Y)]\n  return|' \
  -e 's|return Y|return Z|' "$variants/multi_head.tete" > sees_all.tete
check 'in JSON, too, with the sentence of the leak' eval "
  '$tete' check sees_all.tete --json | grep -q '\"reason\": \".*sees_all.tete:[0-9:]* this combines all positions of .m. outside a masked weight, so a causal mask does not keep the future hidden;'"
for seed in 0 1 2; do
  check "a norm of two numbers that are nearly equal is no noise (seed $seed)" \
    "$tete" check "$attention/retention.tete" --order 2 --seed "$seed"
done
check 'tete check of a file tells every input and parameter by its dimensions' eval "
  '$tete' check '$variant' --order 3 | grep -qE '^P_q\[d_X=6, d_k=2, h_k=3\] .* right +P_q\[d_X=[0-5], d_k=[01], h_k=[0-2]\]'"
check 'tete check of a file in JSON' eval "
  '$tete' check '$variant' --json | python3 -c 'import json,sys
rows = json.load(sys.stdin)[\"rows\"]
assert {i[\"name\"] for i in rows[0][\"inputs\"]} >= {\"X\", \"M\", \"P_q\"}' 2> /dev/null || ! command -v python3"
cat > logarithm.tete << 'END'
def Logarithm(X[n, d_X], M[m, d_M], P[d_X, d_Y] = normal(1)):
  where d_Y = d_X
  Q[n, d_Y] = einsum(X[n, d_X], P[d_X, d_Y])
  L[n, d_Y] = log(Q[n, d_Y])
  Y[n, d_Y] = L[n, d_Y] * 2
  return Y[n, d_Y]
END
"$tete" check logarithm.tete > out 2> err
[ $? = 1 ] && grep -q "operation 'log' .*computed for 'L' in logarithm.tete:4.* not finite" out &&
  grep -q '0 passed, 1 failed' out
verdict $? 'numbers that are not finite: exit status 1, and the statement where they begin'
sed 's/log/tanh/' logarithm.tete > unused.tete
check 'an input that does not reach the result is told' eval "
  '$tete' check unused.tete | grep -qx 'M does not reach the result: nothing depends on it.'"

# ---- Costs ----

check 'tete cost: numbers that the paper prints' eval "'$tete' cost talking_heads | grep -q '^total .* 1,686,110,208\$' &&
  '$tete' cost talking_heads | grep -q '^total .* 2,359,584\$'"
check 'tete cost: formulas as the paper writes them' eval "
  '$tete' cost talking_heads --dim h=24 | grep -qE '^L\[n, m, h\] +n\*m\*h\*h_k +150,994,944\$'"
check 'tete cost of a file, in JSON with whole numbers' eval "'$tete' cost '$variant' --dim n=1 --json | tr -d ' \n' |
  grep -q '\"parameters\":2359584,.*\"multiplies\":[0-9]*,'"
check 'tete cost under a mask' eval "'$tete' cost multi_head --mask causal | grep -qE '^total +1,610,612,736 +1,409,679,360\$'"
refuses 2 "has no size 'zz'.*its sizes are n, .*h" cost talking_heads --dim zz=4
refuses 2 "768 / 7 is not a whole number" cost multi_head --dim h=7
refuses 2 "'talking_haeds'; did you mean 'talking_heads'" cost talking_haeds
refuses 2 'broken.tete:3:' cost broken.tete
refuses 2 "caussal: expected causal or none; did you mean 'causal'" cost multi_head --mask caussal
refuses 2 'is required' cost
check 'tete cost of a whole model' eval "'$tete' cost multi_head --model --layers 2 --heads 2 --d-model 16 --context 16 \
  --vocabulary 50 | grep -qE '^total +128,768 '"
check 'tete cost of a whole model, in JSON' eval "'$tete' cost '$variant' --model --style gpt2 --json |
  grep -q '\"multiplies\": [0-9]*,'"
# same_parameters OPTION…: tete cost --model tells as many as the checkpoint of tete train then has.
same_parameters() {
  local count
  "$tete" train --attention multi_head --steps 1 --eval-samples 1 --out sizes "$@" > out 2> err < /dev/null
  count=$(grep -aoE '"param/[^"]*":\{"dtype":"F32","shape":\[[0-9,]+\]' sizes/step-00000001.safetensors |
    sed 's/.*\[//; s/]//' | awk -F , '{ all = 1; for (i = 1; i <= NF; ++i) all *= $i; sum += all } END { print sum }')
  "$tete" cost multi_head --model --json "$@" 2> err | grep -q "^  \"parameters\": $count,"
  verdict $? "tete cost --model has the parameters that tete train has: $*"
  rm -rf sizes
}
small=(--task reverse --layers 2 --heads 2 --d-model 16 --context 6)
same_parameters "${small[@]}"
same_parameters "${small[@]}" --attention-encoder linformer --dim r=2 --attention-cross talking_heads \
  --attention-layer decoder/1=dynamic_Ml --attention-layer encoder/1=random_plus --with decoder=t5_bias --style gpt2
check 'tete cost of an encoder and a decoder' eval "'$tete' cost multi_head --model ${small[*]} | grep -q '^  decoder/\*/D/L'"
refuses 2 "--task revers: expected text, mlm, copy, reverse, .* or brackets; did you mean 'reverse'" cost multi_head --model --task revers
refuses 2 '--task shapes a whole model' cost multi_head --task reverse
refuses 2 "--attention-cross multi_head:1:1: 'LanguageModel' has no slot 'Cross'; $slots" \
  cost multi_head --model --attention-cross multi_head
refuses 2 '--layers shapes a whole model, which --model asks for' cost multi_head --layers 2
refuses 2 '--layers 0: expected' cost multi_head --model --layers 0
check 'tete show: costs beside the lines' eval "'$tete' show '$variant' --dim h=24 |
  grep -qE '^  L\[n, m, h\] .*, P_l\[h_k, h\]\) +# n\*m\*h\*h_k +150,994,944  *logits'"
check 'what tete show prints is the same text' eval "'$tete' show talking_heads > shown.tete &&
  '$tete' cost shown.tete > a.cost && '$tete' cost talking_heads | diff - a.cost"
refuses 2 'broken.tete:3:' show broken.tete

# ---- tete einsum ----

# npy FILE SHAPE NUMBER…: a version 1.0 file of little-endian f8, written by hand.
npy() {
  local file=$1 shape=$2 number header
  shift 2
  header=$(printf "%-117s" "{'descr': '<f8', 'fortran_order': False, 'shape': ($shape), }")
  { printf '\x93NUMPY\x01\x00\x76\x00%s\n' "$header"; for number; do printf '%b' "$number"; done; } > "$file"
}
one='\x00\x00\x00\x00\x00\x00\xf0\x3f' two='\x00\x00\x00\x00\x00\x00\x00\x40'
three='\x00\x00\x00\x00\x00\x00\x08\x40'
npy A.npy '2, 2' "$one" "$two" "$two" "$three"
npy b.npy '2,' "$one" "$three"
prints $'f64[2]\n7 11' einsum ij,j A.npy b.npy
prints $'f64[]\n4' einsum 'i i' A.npy
prints $'f64[2, 2]\n5 8\n8 13' einsum 'i j, j k -> i k' A.npy A.npy
npy s.npy '' "$three"
prints $'f64[]\n3' einsum '->' s.npy
prints $'f64[]\n3' einsum -- '->' s.npy
prints $'f64[2]\n3 9' einsum -- ',i->i' s.npy b.npy
check 'tete einsum writes what it reads' eval \
  "'$tete' einsum 'ij->ji' A.npy --out T.npy && '$tete' einsum 'ij->ij' T.npy --out U.npy && cmp T.npy U.npy"
check 'tete einsum --explain names each step' eval \
  "'$tete' einsum 'n d, d k h -> n k h' 512x768 768x64x12 --explain | grep -q 'gemm, 512×768×768: 302 M multiplies'"
check 'tete einsum --json' eval "'$tete' einsum ij,j A.npy b.npy --json | tr -d ' \n' |
  grep -q '\"shape\":\[2\],\"used_bytes\":[0-9]*,\"values\":\[7.0,11.0\]'"
refuses 2 "'j' is 2 in operand 1 but 3 in operand 2" einsum ij,j 4x2 3 --explain
refuses 2 'is not repeated silently' einsum ij,j 4x2 1 --explain
refuses 2 "'4x2' is a shape and no file" einsum ij,j 4x2 2
refuses 2 "names 2 operands, got 1" einsum ij,j A.npy
refuses 2 "a name of the result is in no operand" einsum 'ij->k' A.npy
refuses 2 'no file missing.npy' einsum ij missing.npy
refuses 2 'expected bytes' einsum ij A.npy --memory-limit much
refuses 4 'memory limit' einsum 'ab,bc,cd->ad' 9x9 9x9 9x9 --explain --memory-limit 8
refuses 4 'no_such_folder' einsum ij A.npy --out no_such_folder/B.npy
head -c 150 A.npy > short.npy
refuses 2 "'short.npy'" einsum ij short.npy
refuses 2 "'text.txt'" einsum ij text.txt

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
