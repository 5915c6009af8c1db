#!/bin/bash
# tete run and tete check --against: what a text computes is written and agrees with itself; another
# text with one mistake stands for somebody else's implementation, and the statement is named.
# tests/run.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
variants=$PWD/attention/variants
. tests/verdicts.sh

# file NAME HEADER BYTES: a safetensors file, made by hand. The header has fewer than 256 bytes; the
# data are zeros, or what the octal escapes say.
file() {
  printf "\\x$(printf %x ${#2})\0\0\0\0\0\0\0%s" "$2" > "$1"
  if [[ $3 == *\\* ]]; then printf "$3" >> "$1"; else head -c "$3" /dev/zero >> "$1"; fi
}

# The last command that was checked has told this.
told() {
  grep -qE -- "$1" out
  verdict $? "it tells: $1"
}

# ---- Every variant: random tensors fit it, and what it writes agrees with it ----

for path in "$variants"/*.tete; do
  name=$(basename "$path" .tete)
  check "$name: random tensors" "$tete" run "$name" --random --out in.safetensors
  check "$name: a run" "$tete" run "$name" --tensors in.safetensors --out out.safetensors
  told '^  grad:M'
  check "$name: it agrees with itself" "$tete" check "$name" --against out.safetensors
done

square=(--dim n=5 --dim m=5 --dim d_X=6 --dim d_M=6 --dim d_k=6)
random() { "$tete" run talking_heads --random "${square[@]}" "$@"; }
check 'random tensors, twice' eval 'random --out in.safetensors && random --out again.safetensors'
check 'the same seed, the same bytes' cmp in.safetensors again.safetensors
check 'another seed' random --seed 1 --out again.safetensors
check 'gives other bytes' eval '! cmp -s in.safetensors again.safetensors'
for options in '--dtype f64' '--mask causal' '--threads 2'; do
  check "a run with $options" eval "'$tete' run talking_heads --tensors in.safetensors --out out.safetensors $options"
done
told '^  L\[batch=2, n=5, m=5, h=3\]'
check 'what it wrote can be given again' \
  "$tete" run talking_heads --tensors out.safetensors --out again.safetensors
told 'Not read, .*J, .*W, .*grad:X'
check 'the same values, the same bytes' cmp out.safetensors again.safetensors
check 'without batch' eval "random --batch 0 --out flat.safetensors &&
  '$tete' run talking_heads --tensors flat.safetensors --out again.safetensors --json | grep -q '\"name\": \"grad:L\"'"
check 'float64 agrees, and shows' eval "'$tete' run talking_heads --tensors in.safetensors --dtype f64 \
  --out again.safetensors && '$tete' check talking_heads --against again.safetensors | grep float64"

# ---- Mistakes, one each ----

# planted STATEMENT GUESS SED [MASK OF THEIRS [MASK [TENSORS THAT DIFFER ON THEIR OWN]]]
planted() {
  local statement=$1 guess=$2 status
  sed -E "$3" "$variants/talking_heads.tete" > theirs.tete
  rm -f theirs.safetensors
  "$tete" run theirs.tete --tensors in.safetensors --out theirs.safetensors --mask "${4:-causal}" > out 2> err
  "$tete" check talking_heads --against theirs.safetensors --mask "${5:-${4:-causal}}" > out 2>> err
  status=$?
  [ "$status" = 1 ] && [ ! -s err ] && grep -qF "'$statement' is where theirs first part from" out &&
    [ "$(grep -c DIFFERS out)" = "${6:-1}" ] && grep -qF "$guess" out
  verdict $? "$3: expected exit status 1 (it was $status), the statement $statement and: $guess"
}
planted Q "P_q's d_X and d_k were swapped" 's/P_q\[d_X, d_k,/P_q[d_k, d_X,/'
planted K "P_k's d_M and d_k were swapped" 's/P_k\[d_M, d_k,/P_k[d_k, d_M,/'
planted L "P_l's h_k and h were swapped" 's/P_l\[h_k, h\]/P_l[h, h_k]/'
planted U "P_w's h and h_v were swapped" 's/P_w\[h, h_v\]/P_w[h_v, h]/'
planted J '1/√d_k' 's|(K\[m, d_k, h_k\]\))|\1 / sqrt(d_k)|'
planted L 'the mask were applied to J' \
  's/^  L(.*)J(.*)/  Z[n, m, h_k] = select(visible(n, m), J[n, m, h_k], -1000000000)\n  L\1Z\2/'
planted W 'softmax went over n, not over m' 's/reduced_dim=m/reduced_dim=n/' none
planted W 'no mask were applied' '' none causal
planted W 'a causal mask were applied' '' causal none
planted U 'no mistake that is known' 's/^  U.*= (.*)/  U[n, m, h_v] = W[n, m, h=(h_v)] + 0 * \1/'
planted L 'its sign is the opposite' 's/= (einsum\(J.*\)) /= -\1 /'
planted Y 'times 0.5.' 's|(P_o\[d_Y, d_v, h_v\]\)) |\1 / 2 |'
planted J 'no mistake that is known' 's/(einsum\(Q.*\)) /exp(\1) /'
"$tete" check talking_heads --against theirs.safetensors --mask causal --json > out 2> err
[ $? = 1 ] && grep -q '"first": "J"' out
verdict $? 'the same as JSON'
check 'a tolerance that allows it' "$tete" check theirs.tete --against theirs.safetensors --mask causal --tolerance 1e-3

# ---- Masks from files ----

file mask.safetensors '{"visible":{"dtype":"BOOL","shape":[5,5],"data_offsets":[0,25]}}' \
  '\1\0\0\0\0\1\1\0\0\0\1\1\1\0\0\1\1\1\1\0\1\1\1\1\1'
check 'a causal mask as a file' eval "
  '$tete' run talking_heads --tensors in.safetensors --mask mask.safetensors --out masked.safetensors &&
  '$tete' run talking_heads --tensors in.safetensors --mask causal --out out.safetensors &&
  '$tete' check talking_heads --against masked.safetensors --mask causal"
printf '\x93NUMPY\1\0v\0%-117s\n' "{'descr': '<f4', 'fortran_order': True, 'shape': (5, 5), }" > mask.npy
one=$'\\0\\0\\200\\77' no=$'\\0\\0\\0\\0'
printf "$one$one$one$one$one$no$one$one$one$one$no$no$one$one$one$no$no$no$one$one$no$no$no$no$one" >> mask.npy
check 'and as a .npy file, in Fortran order' eval "
  '$tete' run talking_heads --tensors in.safetensors --mask mask.npy --out masked.safetensors &&
  '$tete' check talking_heads --against masked.safetensors --mask causal"
file lengths.safetensors '{"lengths":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' '\5\2'
check 'lengths of the memory' "$tete" run talking_heads --tensors in.safetensors --mask lengths.safetensors --out masked.safetensors
check 'agree with themselves' "$tete" check talking_heads --against masked.safetensors --mask lengths.safetensors
"$tete" check talking_heads --against masked.safetensors > out 2> err
[ $? = 1 ] && grep -q "'W' is where" out
verdict $? 'and differ from no lengths'

# ---- What cannot be evaluated ----

run() { refuses 2 "$1" run "${@:2}" --out refused.safetensors; }
run 'either --tensors FILE.*or --random' talking_heads
run 'either --tensors FILE.*or --random' talking_heads --random --tensors in.safetensors
run "'talking_head'.*did you mean 'talking_heads'" talking_head --random
run 'expected f32 or f64' talking_heads --tensors in.safetensors --dtype f16
run "did you mean 'causal'" talking_heads --tensors in.safetensors --mask casual
run 'nowhere.safetensors' talking_heads --tensors nowhere.safetensors
run 'nowhere.safetensors' talking_heads --tensors in.safetensors --mask nowhere.safetensors
run "mask is 'visible'.*not 'M'" talking_heads --tensors in.safetensors --mask flat.safetensors
run "'h' is 3 in 'P_l', but 4 was set" talking_heads --tensors in.safetensors --dim h=4
run 'zz' talking_heads --random --dim zz=4
run 'batch -1: expected' talking_heads --random --batch -1
run "'DotProduct.*' has no input or parameter 'P_" dot_product --tensors in.safetensors
file empty.safetensors '{}' 0
run "needs X\[n, d_X\], M\[m, d_M\], .*P_w\[h, h_v\], which are not given" talking_heads --tensors empty.safetensors
file few.safetensors '{"X":{"dtype":"F32","shape":[5,6],"data_offsets":[0,120]},"Pl":{"dtype":"F32","shape":[3,3],"data_offsets":[120,156]}}' 156
run "needs M\[m, d_M\], .*P_l\[h_k, h\]" talking_heads --tensors few.safetensors
file odd.safetensors '{"X":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}}' 24
run "'X' has 2 dimensions, but a tensor of shape \[6\]" talking_heads --tensors odd.safetensors
file short.safetensors '{"visible":{"dtype":"U8","shape":[5,4],"data_offsets":[0,20]}}' 20
run 'mask has shape \[5, 4\], expected \[5, 5\]' talking_heads --tensors in.safetensors --mask short.safetensors
file graded.safetensors '{"visible":{"dtype":"U8","shape":[1,2],"data_offsets":[0,2]}}' '\1\2'
run "'visible' has the entry 2" talking_heads --tensors in.safetensors --mask graded.safetensors
file long.safetensors '{"lengths":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' '\5\6'
run 'length 6 does not fit' talking_heads --tensors in.safetensors --mask long.safetensors
printf 'def Pair(A[a, d], B[b, d]):\n  S[a, b] = einsum(A[a, d], B[b, d])\n  return S[a, b]\n' > pair.tete
check 'a text that is no attention runs too' eval "'$tete' run pair.tete --random --out pair.safetensors &&
  '$tete' run pair.tete --tensors pair.safetensors --out out.safetensors && '$tete' check pair.tete --against out.safetensors"
run 'no statement of it takes the mask' pair.tete --tensors pair.safetensors --mask causal
file cotangent.safetensors '{"A":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"B":{"dtype":"F32","shape":[3,1],"data_offsets":[8,20]},"grad:S":{"dtype":"F32","shape":[3,2],"data_offsets":[20,44]}}' 44
run "cotangent 'grad:S' has shape \[3, 2\], expected that of S, \[2, 3\]" pair.tete --tensors cotangent.safetensors
refuses 4 '/proc' run pair.tete --random --out /proc/nothing.safetensors
refuses 2 'out is required' run pair.tete --random

# ---- What is too large ----

printf 'def Big(X[n, d], P[d, k] = normal(1)):\n  where k = (d*d*d*d*d*d*d*d)\n  A[n, k] = einsum(X[n, d], P[d, k])\n  Y[n, d] = einsum(A[n, k], P[d, k])\n  return Y[n, d]\n' > big.tete
refuses 4 "'P' of shape \[64, 281474976710656\] needs 64 PiB of memory .*are free" run big.tete --random --dim d=64 --out big.safetensors
sed 's/(d.*d)$/d^16/' big.tete > huge.tete
refuses 4 "'P' of shape \[6, 2821109907456\] needs 123.* TiB of memory" check huge.tete
refuses 2 'is too large for a size' run big.tete --random --dim d=1000 --out big.safetensors
printf 'def Wide(X[n, d], Z[m, d]):\n  Y[n, m] = einsum(X[n, d], Z[m, d])\n  S[n] = sum(Y[n, m], reduced_dim=m)\n  return S[n]\n' > wide.tete
refuses 4 "wide.tete:2:3: 'Y' of shape \[2, 4000000, 4000000\] needs 116.4 TiB of memory" run wide.tete --random --dim n=4000000 --dim m=4000000 --dim d=1 --out big.safetensors
check 'nothing of it was written' [ ! -e big.safetensors ]
axes='a, b, c, d, e, f, g, h, i, j, k, l'
printf "def Many(X[$axes]):\n  Y[$axes] = exp(X[$axes])\n  return Y[$axes]\n" > many.tete
check 'a text may have as many dimensions as a file' eval "'$tete' run many.tete --random --out many.safetensors \
  $(for i in {a..l}; do echo -n "--dim $i=1 "; done) && '$tete' run many.tete --tensors many.safetensors --out out.safetensors"
printf "def More(X[$axes, m]):\n  return X[$axes, m]\n" > more.tete
run 'more.tete:1:10: a tensor has at most 12 dimensions, this has 13' more.tete --random

# Thousands of statements are checked in a time in proportion to them.
{
  printf 'def Long(X[n, d]):\n  A0[n, d] = X[n, d]\n'
  for i in {1..3000}; do printf '  A%d[n, d] = A%d[n, d] + 1\n' "$i" $((i - 1)); done
  printf '  return A3000[n, d]\n'
} > long.tete
check 'a text of three thousand statements is checked' timeout 100 "$tete" check long.tete
check 'and run' eval "'$tete' run long.tete --random --out long.safetensors && '$tete' run long.tete --tensors long.safetensors --out out.safetensors"

# ---- What cannot be compared ----

against() { refuses 2 "$1" check "${@:2}"; }
against 'is for one variant or text, got .all' --against out.safetensors
against 'is for one variant or text' talking_heads multi_head --against out.safetensors
against 'order excludes --against' talking_heads --order 2 --against out.safetensors
against 'mask requires --against' talking_heads --mask causal
against 'tolerance 2: expected' talking_heads --against in.safetensors --tolerance 2
against 'nowhere.safetensors' talking_heads --against nowhere.safetensors
against "nothing to compare: .*expected any of Q, K, V, J, L" talking_heads --against in.safetensors
against "needs X" talking_heads --against empty.safetensors
file no_cotangent.safetensors '{"A":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"B":{"dtype":"F32","shape":[3,1],"data_offsets":[8,20]},"grad:A":{"dtype":"F32","shape":[2,1],"data_offsets":[20,28]}}' 28
against "not the cotangent 'grad:S'" pair.tete --against no_cotangent.safetensors
file turned_cotangent.safetensors '{"A":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"B":{"dtype":"F32","shape":[3,1],"data_offsets":[8,20]},"grad:B":{"dtype":"F32","shape":[3,1],"data_offsets":[20,32]},"grad:S":{"dtype":"F32","shape":[3],"data_offsets":[32,44]}}' 44
against "the cotangent 'grad:S' has shape \[3\], expected \[2, 3\] = \[a, b\]" pair.tete --against turned_cotangent.safetensors
file turned.safetensors '{"A":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"B":{"dtype":"F32","shape":[3,1],"data_offsets":[8,20]},"S":{"dtype":"F32","shape":[3,2],"data_offsets":[20,44]}}' 44
"$tete" check pair.tete --against turned.safetensors > out 2> err
[ $? = 1 ] && grep -q 'It has shape \[3, 2\], expected \[2, 3\] = \[a, b\]; it looks like \[b, a\]' out
verdict $? 'a result whose dimensions are in another order'

# ---- Numbers that are none ----

one=$'\\0\\0\\200\\77' nan=$'\\0\\0\\300\\177' infinity=$'\\0\\0\\200\\177'
# numbers NAME X Y: X[1] and Y[1] of twice.tete.
printf 'def Twice(X[a]):\n  Y[a] = 70000 * X[a]\n  return Y[a]\n' > twice.tete
numbers() { file "$1" '{"X":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"Y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}' "$2$3"; }
numbers infinite.safetensors "$one" "$infinity"
"$tete" check twice.tete --against infinite.safetensors > out 2> err
[ $? = 1 ] && grep -q 'Theirs is not finite at Y\[a=0\]: theirs infinity, the text.s 70000; float16 ends at 65504' out
verdict $? 'infinity is a difference, and where float16 ends is told'
numbers none.safetensors "$one" "$nan"
"$tete" check twice.tete --against none.safetensors > out 2> err
[ $? = 1 ] && grep -q 'Theirs is not finite at Y\[a=0\]: theirs NaN' out && ! grep -q 'A guess' out
verdict $? 'so is NaN'
numbers only.safetensors "$nan" "$nan"
against "'X' is NaN at \[a=0\]: expected numbers" twice.tete --against only.safetensors

# A window in the wrong place: functions that read a tensor by name are altered in no other way.
sed 's/left=w-1)/right=w-1)/' "$variants/conv_synthesizer.tete" > ahead.tete
check 'random tensors for windows' "$tete" run conv_synthesizer --random --out in.safetensors
check 'windows that look ahead' "$tete" run ahead.tete --tensors in.safetensors --out out.safetensors
"$tete" check conv_synthesizer --against out.safetensors > out 2> err
[ $? = 1 ]
verdict $? 'windows that look ahead are found'
told 'X_w .*DIFFERS'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
