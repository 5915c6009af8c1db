#!/bin/bash
# The slow part. Of 10,000 random texts (or RANDOM_TEXTS) none that is accepted as causal leaks; a few
# minutes. Every causal variant learns from tinyshakespeare at the options' defaults: after 500 steps
# the loss on text that it has not seen is at least 0.03 below that of the same model whose attention
# gives nothing. Half an hour on two cores. So does every whole model, made small: by 0.1 after 300
# steps, an encoder with a decoder on letters to reverse, others on that text; two minutes. And so does
# each row of the table of Narang et al. 2021 (tests/data/narang.csv); six minutes.
# tests/slow.sh BUILD-FOLDER [VARIANT|MODEL|table…]
# Without that text (see tests/verdicts.sh) only encoders with decoders learn.
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
tests=$(realpath "${1:-build}/tests/tete-tests") || exit 1
shift
random_texts=${RANDOM_TEXTS:-10000}
folder=$PWD/nn/models
table=$PWD/tests/data/narang.csv
variants='' models='' has_table=
for name in ${*:-$(basename -s .tete -a attention/variants/*.tete "$folder"/*.tete) table}; do
  if [ "$name" = table ]; then has_table=1
  elif [ -e "$folder/$name.tete" ]; then models+=" $name"
  else variants+=" $name"; fi
done
. tests/verdicts.sh

RANDOM_TEXTS=$random_texts "$tests" -tc='in a random text*' > out 2> err
verdict $? "in $random_texts random texts no row moves"
grep '^random texts' out

learn() {  # learn NAME STEPS OPTION…: the loss in the end is in NAME.loss, what went wrong in NAME.err
  local name=$1 steps=$2
  shift 2
  "$tete" train --steps "$steps" --seed 1 --threads 1 --eval-every 0 --save-every 0 --json \
    --out "$name" "$@" 2> "$name.err" < /dev/null |
    sed -nE 's/.*"event":"end".*"validation_loss":([0-9.]+),.*/\1/p' > "$name.loss"
  rm -rf "$name"
  printf '%-32s %s\n' "$name" "$(cat "$name.loss")"
}
export tete book
export -f learn
all_learn() {  # all_learn < LINES: each has the arguments of learn, as in a shell
  xargs -d '\n' -P "$(nproc)" -I {} bash -c 'learn {}'
}
gains() {  # gains NAME WITHOUT LEAST: the loss of NAME is by LEAST below that WITHOUT attention
  cp "$1.err" err && : > out
  awk -v least="$3" '{ loss[NR] = $1 } END { exit !(NR == 2 && loss[1] <= loss[2] - least) }' \
    "$1.loss" "$2.loss"
  verdict $? "$1: a loss of $(cat "$1.loss"), expected at most $(cat "$2.loss") - $3"
}

# ---- Variants ----

# The recipe is the default: 4 layers, 4 heads, 128 wide, 64 tokens, batches of 12; as in T5, all
# starts as the texts say, and Adafactor learns.
printf 'def Zeroed(Y[n, d]):\n  Z[n, d] = 0 * Y[n, d]\n  return Z[n, d]\n' > zeroed.tete
zeroed="\"\$book\" --with zeroed.tete --allow-zero-grad '*'"
# Without attention it is the same model, whichever that would have been.
alike="talking_heads random_synthesizer"
learn_variants() {
  {
    echo "zeroed 500 --attention multi_head $zeroed"
    for variant in multi_head $alike; do
      echo "zeroed_$variant 20 --attention $variant $zeroed"
    done
    for variant in $variants; do
      [ "$variant" = linformer ] || echo "$variant 500 \"\$book\" --attention $variant"
    done
  } | all_learn
  for variant in $alike; do
    [ -s zeroed_$variant.loss ] && cmp -s zeroed_$variant.loss zeroed_multi_head.loss
    verdict $? "without its $variant it is without its multi_head"
  done
  for variant in $variants; do
    case $variant in
      linformer)
        refuses 2 "a decoder must not see the future" train "$book" --attention linformer
        continue
        ;;
      # It has nothing to learn, and no scale: a normalised vector's product with itself is its
      # width, so it reads itself almost alone, and gains nothing. It must not lose either.
      dot_product) gains $variant zeroed -0.02 ;;
      *) gains "$variant" zeroed 0.03 ;;
    esac
  done
}

# ---- Models ----

small='--layers 2 --heads 4 --d-model 64 --d-ff 256'
adam='--optimizer adam --learning-rate 0.003 --warmup 30'
recipe() {  # recipe MODEL: what it learns from, and how
  if reverses "$1"; then
    echo "--task reverse $small --context 8 --batch 32"
  elif grep -q 'X\[causal n\]' "$folder/$1.tete"; then
    echo "\"\$book\" $small --context 32 --batch 32 $adam"
  else
    echo "\"\$book\" --task mlm $small --context 16 --batch 64 $adam"
  fi
}
reverses() { grep -q 'M\[m\]' "$folder/$1.tete"; }

# Clusters of tokens, for some thirty letters.
clusters() {
  case $1 in
    adaptive_input) echo '--dim v_1=8 --dim v_2=8' ;;
    adaptive_softmax) echo '--dim v_1=8 --dim v_2=8 --dim v_4=2' ;;
  esac
}

printf 'def Zeros(X[n, d_X], M[m, d_M]):\n  Y[n, d_X] = 0 * X[n, d_X]\n  return Y[n, d_X]\n' > zeros.tete
zeros="--use Attention=zeros.tete --use Relative=none --allow-zero-grad '*'"
learn_models() {
  for model in $models; do
    how="300 --model $model $(recipe "$model") $(clusters "$model")"
    echo "$model $how"
    echo "zeros_$model ${how/ --heads 4/} $zeros"
  done | all_learn
  for model in $models; do
    gains "$model" "zeros_$model" 0.1
  done
}

# Each row is a line "NAME MODEL --use …", with sizes for two layers, or as many as it has kinds of them.
rows() {
  sed -E '1d; s/^("[^"]*"|[^,]*),[^,]*,[^,]*,([^,]*),("[^"]*"|[^,]*),.*/\1|\2 \3/; s/"//g' "$table" |
    while IFS='|' read -r name filled; do
      echo "$(tr -cs '[:alnum:]\n' _ <<< "$name") $(sed -E 's/\[[0-9,]+\]/[1]/; s/ ([A-Za-z])/ --use \1/g' <<< "$filled")"
    done | awk '{ text = $0; sub(/^[^ ]* /, "", text) } !seen[text]++'  # other sizes are no other text
}
sizes_of_row() {
  case $1 in
    *universal*) echo '--layers 6' ;;
    *funnel*) echo '--layers 3 --context 16' ;;  # two pieces are left at least
    *product_keys*) echo '--dim s=16 --dim k=8' ;;
    *adaptive_output*) echo '--dim v_1=8 --dim v_2=8 --dim v_4=2' ;;
    *moe* | *switch*) echo '--dim e=4' ;;
    *) clusters "${1%% *}" ;;
  esac
}
learn_rows() {
  rows | while read -r name filled; do
    how="300 --model $filled --task reverse $small --context 8 --batch 32 $(sizes_of_row "$filled")"
    echo "$name $how"
    how=$(sed -E 's/ --use (Attention|Cross)=[^ ]*| --heads 4//g' <<< "$how")
    echo "zeros_$name $how $zeros --use Cross=zeros.tete"
  done | sed -E 's/--layers 2 (.*--layers)/\1/; s/--context 8 (.*--context)/\1/' | all_learn
  for name in $(rows | cut -d ' ' -f 1); do
    gains "$name" "zeros_$name" 0.1
  done
}

if [ ! -f "$book" ]; then
  echo "skipped: no tinyshakespeare (TINYSHAKESPEARE=FILE names it):$variants$(
    for model in $models; do reverses "$model" || echo -n " $model"; done)"
  variants=''
  models=$(for model in $models; do reverses "$model" && echo "$model"; done)
fi
[ -z "$variants" ] || learn_variants
[ -z "$models" ] || learn_models
[ -z "$has_table" ] || learn_rows

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
