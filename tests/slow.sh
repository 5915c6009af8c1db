#!/bin/bash
# The slow part: every causal variant learns from tinyshakespeare by nanoGPT's small recipe. After
# 500 steps the loss on text that it has not seen is at least 0.03 below that of the same model
# whose attention gives nothing. Half an hour on two cores.
# tests/slow.sh BUILD-FOLDER [VARIANT…]
# The text is the file that TINYSHAKESPEARE names; without it nothing is run.
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
shift
book=$(realpath -q "${TINYSHAKESPEARE:-../shared/data/tinyshakespeare.txt}")
chosen=${*:-$(basename -s .tete -a attention/variants/*.tete)}
. tests/verdicts.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
if [ ! -f "$book" ]; then
  echo "skipped: no tinyshakespeare (TINYSHAKESPEARE=FILE names it)"
  echo "0 passed, 0 failed"
  exit
fi

# The recipe is the default: 4 layers, 4 heads, 128 wide, 64 tokens, batches of 12; as in T5, all
# starts as the texts say, and Adafactor learns.
loss_of() {  # loss_of NAME STEPS OPTION…: the loss in the end, into $loss
  local name=$1 steps=$2
  shift 2
  "$tete" train "$book" --steps "$steps" --seed 1 --eval-every 0 --save-every 0 --json \
    --out "$name" "$@" > out 2> err < /dev/null
  loss=$(sed -nE 's/.*"event":"end".*"validation_loss":([0-9.]+),.*/\1/p' out)
  rm -rf "$name"
  printf '%-32s %s\n' "$name" "${loss:-none}"
}
is() { awk "BEGIN { exit !($1) }"; }  # is EXPRESSION: of numbers

printf 'def Zeroed(Y[n, d]):\n  Z[n, d] = 0 * Y[n, d]\n  return Z[n, d]\n' > zeroed.tete
zeroed=(--with zeroed.tete --allow-zero-grad '*')
loss_of zeroed 500 --attention multi_head "${zeroed[@]}"
without=$loss
[ -n "$without" ]
verdict $? 'a model learns without attention'

# It is the same model whichever attention is zeroed.
loss_of zeroed_multi_head 20 --attention multi_head "${zeroed[@]}"
some=$loss
for variant in talking_heads random_synthesizer; do
  loss_of zeroed_$variant 20 --attention $variant "${zeroed[@]}"
  [ "$loss" = "$some" ]
  verdict $? "without its $variant it is without its multi_head"
done

for variant in $chosen; do
  case $variant in
    linformer)
      refuses 2 "--attention linformer: a decoder must not see the future" train "$book" --attention linformer
      continue
      ;;
    # It has nothing to learn, and no scale: a normalised vector's product with itself is its width,
    # so it reads itself almost alone, and gains nothing. It must not lose either.
    dot_product) least=-0.02 ;;
    *) least=0.03 ;;
  esac
  loss_of "$variant" 500 --attention "$variant"
  is "${loss:-99} <= $without - $least"
  verdict $? "$variant: a loss of ${loss:-none}, expected $least or more below $without"
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
