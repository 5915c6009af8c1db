#!/bin/bash
# Whole models as texts: they are costed, run, trained, stopped and resumed to the same bytes, and
# sampled; what does not fit is one sentence. tests/models.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
gpt2=$PWD/nn/models/gpt2.tete
. tests/verdicts.sh

for i in $(seq 60); do
  echo "Line $i: the heads talk, the queries ask; the keys — one by one — answer."
done > text.txt
small=(--layers 2 --heads 2 --d-model 16 --context 16 --batch 4 --eval-every 6 --save-every 3
  --eval-samples 8 --seed 7)
train() { "$tete" train text.txt --model gpt2 "${small[@]}" "$@"; }

check 'GPT-2 has 124,439,808 parameters' eval \
  "'$tete' cost gpt2 --dim v=50257 --dim n=1024 | grep -q '^parameters  *124,439,808$'"
check 'a size of a def inside is set by its name' eval \
  "'$tete' cost gpt2 --dim v=7 --dim n=4 --dim f=10 --json | grep -q '\"parameters\": [0-9]'"
check 'tete list --models' eval "'$tete' list --models | grep -q '^gpt2$'"
check 'tete list --blocks' eval "'$tete' list --blocks | grep -q '^ff_gelu$'"
check 'random tensors for a model' "$tete" run gpt2 --random --dim l=2 --dim d_X=8 --dim h=2 \
  --dim v=5 --dim max_n=6 --dim n=4 --out in.safetensors
check 'a model on them' "$tete" run gpt2 --tensors in.safetensors --dim l=2 --dim h=2 --out y.safetensors

check 'twelve steps' train --steps 12 --out whole
check 'six steps' train --steps 6 --out parts
check 'six more' "$tete" train text.txt --steps 12 --resume --out parts
check 'stopped and resumed, it is the same' cmp whole/step-00000012.safetensors parts/step-00000012.safetensors
check 'recomputing its blocks changes no bit' eval "train --steps 12 --recompute-blocks --out again &&
  '$tete' sample again --length 40 --temperature 0 > b && '$tete' sample whole --length 40 --temperature 0 | cmp - b"
check 'it writes' eval "'$tete' sample whole --length 20 --prompt Line | grep -q '^Line'"
check 'its page and its activations, by path and by slot' eval "'$tete' inspect whole --text 'Line 7' --out page.html \
  --save acts.safetensors --paths 'Z/1/A/W' --paths blocks.0.attn.hook_pattern && grep -q 'Z/1/A' page.html &&
  grep -q blocks.0.attn.hook_pattern acts.safetensors"
check 'one of its attentions, to run by itself' eval "'$tete' inspect whole --text 'Line 7' --layer Z/0/A \
  --save layer.safetensors && '$tete' run multi_head_scaled --with biases --tensors layer.safetensors --mask causal \
  --out again.safetensors"
cp "$gpt2" mine.tete
check 'a file of mine' "$tete" train text.txt --model mine.tete "${small[@]}" --steps 2 --out mine
rm mine.tete
check 'its checkpoint needs no file but itself' "$tete" sample mine --length 5
check 'a task without a source' "$tete" train --task addition --model gpt2 "${small[@]}" --steps 2 --out sums
check 'answers it' "$tete" sample sums --prompt 12+7

# Slots, by --use and its short forms.
cat > gated.text << END
def Gated(X[n, d_X], P[d_X, f] = glorot(), G[d_X, f] = glorot(), Q[f, d_X] = glorot()):
  H[n, f]   = einsum(X[n, d_X], P[d_X, f])
  S[n, f]   = sigmoid(einsum(X[n, d_X], G[d_X, f]))
  T[n, f]   = H[n, f] * S[n, f]
  Y[n, d_X] = einsum(T[n, f], Q[f, d_X])
  return Y[n, d_X]
END
cp gated.text gated.tete
slots=(--use 'FeedForward[1]=gated.tete' --attention multi_query --attention-layer 0=talking_heads
  --norm rms --with t5_bias)
check 'six steps with slots filled otherwise' train "${slots[@]}" --steps 6 --out slots
check 'three of them' train "${slots[@]}" --steps 3 --out slots_parts
check 'and three more' "$tete" train text.txt --steps 6 --resume --out slots_parts
check 'are the same' cmp slots/step-00000006.safetensors slots_parts/step-00000006.safetensors
refuses 2 "'uses' is not what the run in slots_parts began with" train text.txt --steps 7 --resume \
  --out slots_parts --use Norm=norm_layer
rm gated.tete
check 'a checkpoint carries the file that fills a slot' "$tete" sample slots --length 5
mv gated.text gated.tete
check 'each layer has the parameters of its fillings' eval "'$tete' cost gpt2 --dim v=7 --dim n=4 \
  --dim l=2 --use 'FeedForward[1]=gated.tete' --use 'Attention[0]=talking_heads' --json > cost.json &&
  grep -q 'Z/1/F.G' cost.json && grep -q 'Z/0/A/P_l' cost.json && ! grep -q 'Z/1/A/P_l' cost.json"
check 'a model with other slots runs' "$tete" run gpt2 --random --dim l=2 --dim d_X=8 --dim h=2 \
  --dim v=5 --dim max_n=6 --dim n=4 --use Norm=norm_rms --with rotary --out in2.safetensors
check 'a step of it is measured' "$tete" bench step --model gpt2 --layers 1 --d-model 16 --heads 2 \
  --context 8 --batch 2 --activation geglu
refuses 2 "'GPT2' has no slot 'Cross'; its slots are Attention, Block, FeedForward, Norm, Positions" \
  train text.txt --model gpt2 --attention-cross multi_head
refuses 2 "'GPT2' has no slot 'Atention'; did you mean 'Attention'" cost gpt2 --dim v=7 --dim n=4 \
  --use Atention=multi_head
refuses 2 "there is no repetition 5: 'l' is 2, so they are 0 to 1" train text.txt --model gpt2 \
  "${small[@]}" --attention-layer 5=multi_query
refuses 2 "there is no text and no def 'norm_max' to fill 'Norm'|'max' to fill 'Norm'" train text.txt \
  --model gpt2 --norm max
refuses 2 "fills a slot of a model's text, which --model names" train text.txt --use Norm=norm_rms
refuses 2 "there is no file 'none.tete'" train text.txt --model gpt2 --use Norm=none.tete
refuses 2 "no amendment 'rotari'; did you mean 'rotary'" train text.txt --model gpt2 --with rotari

refuses 2 "no model 'gpt3'; did you mean 'gpt2'" train text.txt --model gpt3
refuses 2 '--positions is not an option beside --model' train text.txt --model gpt2 --positions none
refuses 2 'has a source, which --model gpt2 does not read yet' train --task reverse --model gpt2
refuses 2 "'GPT2' is a whole model, not attention" train text.txt --attention "$gpt2"
refuses 2 "'GPT2' is a whole model, not attention" check "$gpt2"
refuses 2 "'X' marks X as causal itself|'GPT2' marks X as causal itself" run gpt2 --tensors in.safetensors \
  --dim l=2 --dim h=2 --mask causal --out y.safetensors
sed 's/= multi_head_scaled/= linformer/' "$gpt2" > leaks.tete
refuses 2 'so a causal mask does not keep the future hidden|it is called here' train text.txt --model leaks.tete "${small[@]}"
sed 's/X\[causal n\]/X[n]/' "$gpt2" > unmarked.tete
refuses 2 'its input is one causal sequence of tokens' train text.txt --model unmarked.tete
sed 's/repeated l/repeated k/' "$gpt2" > other.tete
refuses 2 "'k' is not a dimension" train text.txt --model other.tete
sed 's/^use Norm = norm_layer/use Norm = norm_lyer/' "$gpt2" > typo.tete
refuses 2 "there is no text and no def 'norm_lyer' to fill 'Norm'" train text.txt --model typo.tete

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
