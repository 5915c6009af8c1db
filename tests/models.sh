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
check 'tete list --blocks' eval "'$tete' list --blocks | grep -q '^ff_gated$'"
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
check 'gradients of a model, to second order' "$tete" check gpt2 --order 2
check 'and of one with a source that is padded' "$tete" check t5 --order 2
check 'the cost as Mesh-TensorFlow counts' eval \
  "'$tete' cost vanilla --as mesh --json | grep -q '\"batch_multiplies\": 11063[0-9]*'"
check 'a size of one call' eval "'$tete' cost vanilla --dim decoder.Z.F.f=5 --dim l=1 | grep -q '^F.P_1\|decoder/Z/\*/F.P_1'"
refuses 2 "'mash': expected|--as mash: expected pairs or mesh; did you mean 'mesh'" cost vanilla --as mash
refuses 2 "the size 'A.d_X' is that of a tensor that is passed" cost vanilla --dim encoder.Z.A.d_X=3
cp "$gpt2" mine.tete
sed 's/\bv\b/kinds/g' "$gpt2" > kinds.tete
check 'a vocabulary of another name' eval "'$tete' train text.txt --model kinds.tete ${small[*]} --steps 2 --out kinds &&
  '$tete' sample kinds --length 5"
check 'a task and a model without heads' "$tete" train --task copy --use Attention=dynamic_convolution --layers 1 --d-model 16 --context 16 --batch 4 --eval-samples 8 --steps 1 --out conv
check '--use wins, and says so' eval "'$tete' train text.txt --norm rms --use Norm=norm_layer ${small[*]} --steps 1 --out wins 2>&1 |
  grep -q 'warning: --norm rms gives way to --use, which fills Norm'"
printf '%s\n' 'use Block = pre_norm' 'use Attention = multi_head' 'use Norm = norm_layer' \
  'use FeedForward = ff_biases' 'def Mine(X[causal n] < v, E[v, d_X] = normal(1)):' '  where l = 1, h = 2, d_X = 6' \
  '  T[n, d_X] = gather(E[v, d_X], X[n], dim=v)' '  Z[n, d_X] = Block(T[n, d_X]) repeated l' \
  '  Y[n, v] = einsum(Z[n, d_X], E[v, d_X])' '  return Y[n, v]' > sized.tete
sized=(text.txt --model sized.tete --context 16 --batch 4 --eval-samples 8 --steps 1)
shape() { "$tete" inspect "$1" --text e --out shape.html && grep -o '[0-9]* layers*, .*[0-9]* wide' shape.html | head -n 1; }
check 'its own sizes are its sizes' eval "'$tete' train ${sized[*]} --out sized && shape sized | grep -q '^1 layer, 2 heads, 6 wide'"
check 'an option wins over them' eval "'$tete' train ${sized[*]} --layers 2 --d-model 8 --out sized2 &&
  shape sized2 | grep -q '^2 layers, 2 heads, 8 wide'"
sed -i 's/where .*/where l = 3/' sized.tete
check 'sizes that it leaves open have defaults' eval "'$tete' train ${sized[*]} --out sized3 && shape sized3 | grep -q '^3 layers, 4 heads, 128 wide'"
check 'a task leaves them, too' eval "'$tete' train --task copy ${sized[*]:1} --out sized4 && shape sized4 | grep -q '^3 layers, 4 heads, 128 wide'"
check 'without the biases that its text has' eval "'$tete' train ${sized[*]} --no-bias --out bare &&
  grep -aq 'F.b_1' sized/step-00000001.safetensors && ! grep -aq 'F.b_1' bare/step-00000001.safetensors"
refuses 2 "'Mine' has no slot 'Output'" train "${sized[@]}" --tied
check 'a file of mine' "$tete" train text.txt --model mine.tete "${small[@]}" --steps 2 --out mine
rm mine.tete
check 'its checkpoint needs no file but itself' "$tete" sample mine --length 5
check 'nor does the run that goes on' "$tete" train --resume --steps 3 --out mine
sed 's/^use Norm = .*/use Norm = norm_rms/' "$gpt2" > mine.tete
refuses 2 "'text' is not what the run in mine began with" train --resume --steps 4 --out mine
rm mine.tete
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
refuses 2 "'uses' is not what the run in slots_parts began with: .*Norm=norm_layer.*, but there .*Norm=norm_rms" \
  train text.txt --steps 7 --resume --out slots_parts --norm layer
refuses 2 "'uses' is not what the run in slots_parts began with" train text.txt --steps 7 --resume \
  --out slots_parts --use Norm=norm_layer
rm gated.tete
check 'a checkpoint carries the file that fills a slot' "$tete" sample slots --length 5
check 'and the run goes on with it' eval "'$tete' train --resume --steps 9 --out slots_parts &&
  grep -aq 'param/Z/1/F.G' slots_parts/step-00000009.safetensors"
mv gated.text gated.tete
cp gated.tete 'a=b, c with d.tete'
check "a file may have signs of the notation in its name" train --steps 1 --out signs \
  --use 'FeedForward[1]=a=b, c with d.tete' --use 'Norm=norm_rms'
check 'in a configuration, too' eval "echo '{\"use\": [\"FeedForward=a=b, c with d.tete\"]}' > signs.json &&
  '$tete' train text.txt --model gpt2 ${small[*]} --steps 1 --config signs.json --out signs2 &&
  grep -aq 'param/Z/0/F.G' signs2/step-00000001.safetensors"
check 'each layer has the parameters of its fillings' eval "'$tete' cost gpt2 --dim v=7 --dim n=4 \
  --dim l=2 --use 'FeedForward[1]=gated.tete' --use 'Attention[0]=talking_heads' --json > cost.json &&
  grep -q 'Z/1/F.G' cost.json && grep -q 'Z/0/A/P_l' cost.json && ! grep -q 'Z/1/A/P_l' cost.json"
check 'a model with other slots runs' "$tete" run gpt2 --random --dim l=2 --dim d_X=8 --dim h=2 \
  --dim v=5 --dim max_n=6 --dim n=4 --use Norm=norm_rms --with rotary --out in2.safetensors
check 'a step of it is measured' "$tete" bench step --model gpt2 --layers 1 --d-model 16 --heads 2 \
  --context 8 --batch 2 --activation silu --use FeedForward=ff_gated
refuses 2 "'GPT2' has no slot 'Cross'; its slots are Absolute, Activation, Attention, Block, FeedForward, Norm, Relative" \
  train text.txt --model gpt2 --attention-cross multi_head
refuses 2 "'GPT2' has no slot 'Atention'; did you mean 'Attention'" cost gpt2 --dim v=7 --dim n=4 \
  --use Atention=multi_head
refuses 2 "there is no repetition 5: 'l' is 2, so they are 0 to 1" train text.txt --model gpt2 \
  "${small[@]}" --attention-layer 5=multi_query
refuses 2 '--norm max: expected a text, or layer, .*none, rms' train text.txt --model gpt2 --norm max
refuses 2 "there is no text and no def 'norm_rsm' to fill 'Norm'; did you mean 'norm_rms'" train text.txt \
  --model gpt2 --use Norm=norm_rsm
check 'a slot of the model that is trained without --model' "$tete" train text.txt "${small[@]}" --steps 2 \
  --use Norm=norm_rms --out unnamed
check 'is filled: such norms have no beta' eval "
  grep -aq '\"param/decoder/0/N.gamma\"' unnamed/step-00000002.safetensors &&
    ! grep -aq 'N.beta' unnamed/step-00000002.safetensors"
refuses 2 "there is no file 'none.tete'" train text.txt --model gpt2 --use Norm=none.tete
refuses 2 "no amendment 'rotari'; did you mean 'rotary'" train text.txt --model gpt2 --with rotari

check 'positions of all kinds, for each model of the kind' eval "(for model in gpt2 llama neox; do
  for positions in none learned sinusoidal t5_bias rotary; do
    '$tete' train text.txt ${small[*]} --model \$model --positions \$positions --steps 1 --out positions && rm -r positions || exit 1; done; done)"

# Experts by capacity, with their balance as a term of the loss.
experts=(--use FeedForward=switch --use 'FeedForward[1]=moe' --dim e=4)
check 'a model with experts learns' train "${experts[@]}" --steps 6 --out experts
check 'three of these steps' train "${experts[@]}" --steps 3 --out experts_parts
check 'and three more' "$tete" train text.txt --steps 6 --resume --out experts_parts
check 'have the same experts' cmp experts/step-00000006.safetensors experts_parts/step-00000006.safetensors
check 'it writes, too' "$tete" sample experts --length 5
sed '/ Balance(/d; /^  loss /d; /^use Balance/d' "${gpt2%models/*}blocks/switch.tete" > unbalanced.tete
check 'Switch learns' train --use FeedForward=switch --steps 2 --out balanced
check 'without its balance' train --use FeedForward=unbalanced.tete --steps 2 --out unbalanced
first_loss() { grep -o '"loss": *[^,]*' "$1/metrics.jsonl" | head -n 1; }
check 'its first loss differs by it' test "$(first_loss balanced)" != "$(first_loss unbalanced)"
check 'experts of an encoder and a decoder' "$tete" train --task reverse --model t5 --use FeedForward=moe --dim e=4 \
  --layers 1 --heads 2 --d-model 16 --batch 8 --steps 6 --eval-samples 8 --out both_experts
check 'they answer' "$tete" sample both_experts --prompt abc

# ---- Encoders with decoders ----

few=(--task reverse --heads 2 --d-model 16 --batch 8 --eval-samples 8 --save-every 3 --seed 3 --dropout 0.1)
for model in t5 t5_1_1 transformer; do
  both=("${few[@]}" --model $model)
  check "$model: six steps" eval "'$tete' train ${both[*]} --steps 6 --out both > said &&
    grep -qE 'Done: 6 steps.* of the tokens right and .* of the whole answers' said"
  check "$model: three, and three more in one thread" eval "'$tete' train ${both[*]} --steps 3 --out half &&
    '$tete' train --resume --steps 6 --threads 1 --out half"
  check "$model: stopped and resumed, it is the same" cmp both/step-00000006.safetensors half/step-00000006.safetensors
  check "$model: recomputing its blocks changes no bit" eval "
    '$tete' train ${both[*]} --steps 6 --recompute-blocks --out once_more &&
    cmp both/step-00000006.safetensors once_more/step-00000006.safetensors"
  check "$model: it answers" eval "'$tete' sample both --prompt abc > a && '$tete' sample half --prompt abc | cmp - a"
  check "$model: random tensors for it" "$tete" run $model --random --dim l=1 --dim d_X=8 --dim h=2 --dim v=5 --dim n=4 \
    --dim m=3 --out in_$model.safetensors
  check "$model: it runs on them" "$tete" run $model --tensors in_$model.safetensors --dim l=1 --dim h=2 --out y.safetensors
  check "$model: its cost" eval "'$tete' cost $model --dim v=7 --dim n=4 --dim m=5 --json | grep -q '\"parameters\": [0-9]'"
  check "$model: a step's time" "$tete" bench step --model $model --layers 1 --heads 2 --d-model 16 --context 8 --batch 2 --repeats 1
  rm -rf both half once_more
done
sed -e 's/^use Relative = t5_bias/use Relative = none/' -e 's/^use Cross = Attention/use Cross = talking_heads/' \
  "${gpt2%gpt2.tete}t5.tete" > mine.tete
check 'a file of mine, with another cross-attention' "$tete" train "${few[@]}" --model mine.tete --steps 2 --report --out mine_both
check 'its report shows answers' grep -q '"split":"samples".* → ' mine_both/metrics.jsonl
rm mine.tete
check 'its checkpoint needs no file, either' "$tete" sample mine_both --prompt abc
refuses 2 '--prompt has 13 tokens, but the model reads at most 12' sample mine_both --prompt abcdefghijklm
check 'transformer learns to reverse' "$tete" train --task reverse --model transformer --layers 1 --heads 4 --d-model 64 --context 6 --steps 300 --eval-every 0 \
  --eval-samples 200 --out reversed
right=$(grep -o '"exact_match":[0-9.]*' reversed/metrics.jsonl | tail -n 1 | cut -d : -f 2)
check "it is right in $right of the answers, expected at least 0.9" awk "BEGIN { exit !($right >= 0.9) }"
prints dcba sample reversed --prompt abcd
check 'its page has the maps of the encoder, the decoder, and between them' eval "
  '$tete' inspect reversed --text abcd --out page.html && for path in encoder/0/A decoder/0/A decoder/0/D; do
    grep -q \$path page.html || exit 1; done"

check 'attention by stack, and positions, of each encoder with a decoder' eval "(for model in t5 transformer vanilla transparent; do
  '$tete' train ${few[*]} --model \$model --layers 1 --attention-encoder dense_synthesizer --attention-decoder multi_query \\
    --attention-cross talking_heads --steps 1 --out stacks && '$tete' sample stacks --prompt ab && rm -r stacks || exit 1; done) &&
  '$tete' train ${few[*]} --model t5 --layers 1 --positions learned --steps 1 --out stacks"
check 'positions of all kinds, for each encoder with a decoder' eval "(for model in vanilla untied factorized factorized_shared \\
    tied_decoder tied_inputs transparent adaptive_input adaptive_softmax; do clusters=
  case \$model in adaptive_*) clusters='--dim v_1=8 --dim v_2=8';; esac; [ \$model != adaptive_softmax ] || clusters+=' --dim v_4=2'
  for positions in none learned sinusoidal t5_bias rotary; do
    '$tete' train ${few[*]} --model \$model --layers 1 --positions \$positions \$clusters --steps 1 --out placed && rm -r placed || exit 1; done; done)"

# ---- Encoders ----

masked=(--task mlm --layers 2 --heads 2 --d-model 16 --context 16 --batch 4 --eval-samples 8 --save-every 3 --seed 7)
for model in bert albert; do
  check "$model: six steps" eval "'$tete' train text.txt ${masked[*]} --model $model --steps 6 --out whole_$model > said &&
    grep -qE 'Done: 6 steps.* of the masked tokens right and .* of the whole samples' said"
  check "$model: three, and three more in one thread" eval "
    '$tete' train text.txt ${masked[*]} --model $model --steps 3 --out half &&
    '$tete' train text.txt --resume --steps 6 --threads 1 --out half"
  check "$model: stopped and resumed, it is the same" \
    cmp whole_$model/step-00000006.safetensors half/step-00000006.safetensors
  check "$model: it fills in blanks, and nothing else" eval "
    for chance in 0 1; do '$tete' sample whole_$model --prompt 'the h__ds t' --temperature \$chance > a &&
      grep -q '^the h' a && grep -q 'ds t\$' a && [ \"\$(wc -m < a)\" = 12 ]; done"
  check "$model: its cost" eval "'$tete' cost $model --dim v=7 --dim n=4 --json | grep -q '\"parameters\": [0-9]'"
  check "$model: a step's time" "$tete" bench step --model $model --layers 1 --heads 2 --d-model 16 --context 8 --batch 2 --repeats 1
  rm -r half
done
check 'positions of all kinds, for each encoder' eval "(for model in bert albert; do
  for positions in none learned sinusoidal t5_bias rotary; do
    '$tete' train text.txt ${masked[*]} --model \$model --positions \$positions --steps 1 --out placed && rm -r placed || exit 1
  done; done)"
check 'what replaces learned positions has none' eval "'$tete' train text.txt ${masked[*]} --model bert --positions sinusoidal \\
  --steps 1 --out waves && '$tete' sample waves --prompt 'the h__ds' && '$tete' inspect waves --text 'the h__ds' --json > said &&
  ! grep -aq '\"param/P\"' waves/step-00000001.safetensors && grep -aq '\"param/P\"' whole_bert/step-00000006.safetensors"
check 'shards and batches move no mask' eval "
  '$tete' train text.txt ${masked[*]} --model bert --steps 1 --log-every 1 --out one &&
  '$tete' train text.txt ${masked[*]} --model bert --steps 1 --log-every 1 --shards 4 --out four &&
  for run in one four; do grep -oE '\"split\":\"train\",\"loss\":[0-9]\.[0-9]{4}' \$run/metrics.jsonl > \$run.loss; done
  [ -s one.loss ] && cmp one.loss four.loss"
check 'bytes, on the sources, with a report' eval "'$tete' train ${masked[*]} --model bert --tokenizer byte --steps 2 --report --out bytes &&
  grep -q '\"split\":\"samples\".*_' bytes/metrics.jsonl && '$tete' sample bytes --prompt '_tete_'"
# After what stands around it, a masked letter of this text is certain.
check 'bert learns to fill in' "$tete" train text.txt --task mlm --model bert --layers 1 --heads 4 --d-model 64 --context 24 \
  --batch 32 --learning-rate 0.003 --warmup 50 --steps 600 --eval-every 0 --eval-samples 200 --out filled
right=$(grep -o '"acc":[0-9.]*' filled/metrics.jsonl | tail -n 1 | cut -d : -f 2)
check "it is right in $right of the masked letters, expected at least 0.7" awk "BEGIN { exit !($right >= 0.7) }"
prints 'the heads talk, the quer' sample filled --prompt 'the h__ds ta_k, the _uer'
refuses 2 'the prompt has no blank: write _ for each token that is to be filled in' sample filled --prompt 'the heads'
refuses 2 'this model answers a prompt: --prompt TEXT is needed' sample filled
refuses 2 'the prompt has 25 tokens, but the model reads at most 24' sample filled --prompt 'the h__ds ta_k, the _ueri'
refuses 2 "'Z' .*is not in the vocabulary" sample filled --prompt 'Z_'

# ---- Mistakes ----

printf '%s\n' 'def Second(X[causal n] < v, E[v, d] = normal(1)):' '  where d = 8' \
  '  T[n, d] = gather(E[v, d], X[n], dim=v)' '  Z[l, d] = T[n=(l), d]' \
  '  W[n, l] = softmax(einsum(T[n, d], Z[l, d]), reduced_dim=l)' \
  '  H[n, d] = einsum(W[n, l], Z[l, d])' '  Y[n, v] = einsum(H[n, d], E[v, d])' \
  '  return Y[n, v]' > second.tete
check 'a second axis of the sequence may be called l, as layers are' "$tete" train text.txt --model second.tete --context 8 --steps 1 --out second
refuses 2 "no model 'gpt3'; did you mean 'gpt2'" train text.txt --model gpt3
refuses 2 "'switch' is no whole model: it fills a slot of one, as in --use SLOT=switch" train text.txt --model switch
sed '/^use Absolute/d; s/Absolute(T\[n, d_X\])/1 * T[n, d_X]/' "$gpt2" > unplaced.tete
refuses 2 "--positions none:1:1: 'GPT2' has no slot 'Absolute'; its slots are Activation, Attention, Block, FeedForward, Norm, Relative" \
  train text.txt --model unplaced.tete --positions none
both='an encoder with a decoder' one='a language model' encoder='an encoder'
refuses 2 "--task reverse trains $both .as --model t5, M\[m\] and X\[causal n\]., but 'GPT2' is $one$" train --task reverse --model gpt2
refuses 2 "--task reverse trains $both .as --model t5, M\[m\] and X\[causal n\]., but 'BERT' is $encoder$" train --task reverse --model bert
refuses 2 "--task text trains $one .as --model gpt2, X\[causal n\]., but 'T5' is $both$" train text.txt --model t5
refuses 2 "--task text trains $one .as --model gpt2, X\[causal n\]., but 'BERT' is $encoder$" train text.txt --model bert
refuses 2 "--task addition trains $one .as --model gpt2, X\[causal n\]., but 'ALBERT' is $encoder$" train --task addition --model albert
refuses 2 "--task mlm trains $encoder .as --model bert, X\[n\]., but 'GPT2' is $one$" train text.txt --task mlm --model gpt2
refuses 2 "--task mlm trains $encoder .as --model bert, X\[n\]., but 'T5' is $both$" train text.txt --task mlm --model t5
refuses 2 "--task mlm trains $encoder .as --model bert, X\[n\]., but 'LanguageModel' is $one$" train text.txt --task mlm
refuses 2 '--task mlm is for an encoder, which is a text of its own: tete cost bert' cost multi_head --model --task mlm
refuses 2 "gpt2.tete:10:.*'GPT2' marks its input as causal, as only whole models do: it cannot be called, nor fill a slot" \
  train text.txt --attention "$gpt2"
refuses 2 "'X' marks X as causal itself|'GPT2' marks X as causal itself" run gpt2 --tensors in.safetensors \
  --dim l=2 --dim h=2 --mask causal --out y.safetensors
sed 's/= multi_head_scaled/= linformer/' "$gpt2" > leaks.tete
refuses 2 'so a causal mask does not keep the future hidden|it is called here' train text.txt --model leaks.tete "${small[@]}"
sed 's/X\[causal n\]/X[n]/' "$gpt2" > unmarked.tete
refuses 2 "--task text trains $one .as --model gpt2, X\[causal n\]., but 'GPT2' is $encoder$" train text.txt --model unmarked.tete
printf '%s\n' 'def Copy(X[causal n] < v):' '  Y[n, v] = select(index(v) == X[n], 5, 0)' '  return Y[n, v]' > copy.tete
refuses 2 "'Copy' has no parameter to learn" train text.txt --model copy.tete --steps 1
sed 's/repeated l/repeated k/' "$gpt2" > other.tete
refuses 2 "'k' is not a dimension" train text.txt --model other.tete
sed 's/^use Norm = norm_layer/use Norm = norm_lyer/' "$gpt2" > typo.tete
refuses 2 "there is no text and no def 'norm_lyer' to fill 'Norm'" train text.txt --model typo.tete

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
