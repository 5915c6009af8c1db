#!/bin/bash
# tete bench: everything that it times runs, and says what it must; no test asks how long. Bad input
# is one sentence. tests/bench.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
tete=$(realpath "${1:-build}/tools/tete") || exit 1
. tests/verdicts.sh

once=(--repeats 1)
small=(--d-model 16 --heads 2 --length 12 --batch 2 "${once[@]}")

# has KEY…: what the last command printed is one JSON object with these keys, and its numbers are
# such as a measurement gives.
has() {
  local key
  for key in "$@"; do
    grep -qE "^ +\"$key\": " out || return 1
  done
  [ "$(head -c 1 out)" = '{' ] && [ "$(tail -n 1 out)" = '}' ] && ! grep -qE ': (-|nan|inf|null,?$)' out
}
times() {  # times KEYS ARGUMENT…: tete bench ARGUMENT… --json has the keys
  local keys=$1
  shift
  check "tete bench $*" "$tete" bench "$@" --json
  has $keys
  verdict $? "tete bench $* --json has $keys"
}
measured='median_s min_s max_s quartiles_s repeats dropped bytes gb_per_s percent_of_memory peak_tensor_bytes
  allocations_per_call'
machine='threads peak_gflops_per_s peak_gflops_per_s_one_thread gemm_gflops_per_s
  gemm_gflops_per_s_one_thread gemm_percent_of_peak gemm_kernel memory_gb_per_s load kernels program'
products='flops gflops_per_s percent_of_peak percent_of_gemm'

check 'tete bench --help fits in 80 columns' eval "'$tete' bench --help | awk 'length > 90 { exit 1 }'"
refuses 2 'missing subcommand: expected attention' bench
refuses 2 "'attenton' is not one of attention.*; did you mean 'attention'" bench attenton

# ---- One layer ----

layer="bench variant heads d_model length memory_length batch causal whole forward_only multiplies
  visible_multiplies peak_rss_mb $measured $machine $products"
check 'tete bench attention --help fits in 80 columns' \
  eval "'$tete' bench attention --help | awk 'length > 90 { exit 1 }'"
check 'a table for people' eval "'$tete' bench attention ${small[*]} > table && grep -q '^GEMM .*% of peak .*kernel' table &&
  grep -q '^peak ' table && grep -q 'of peak  *of GEMM' table &&
  grep -q '^multi_head, 2 heads, 16 wide, 12 queries' table"
times "$layer" attention --variant multi_head "${small[@]}"
grep -qE '^ +"flops": 202752(\.0)?,$' out
verdict $? 'a layer has 6 products and sums for each multiply, forward and gradient'
times "$layer" attention --variant talking_heads "${small[@]}" --causal --with t5_bias --dtype f64
times "$layer" attention --variant dynamic_projections "${small[@]}" --memory-length 7 --threads 2
times "$layer" attention --variant talking_heads "${small[@]}" --whole
times "$layer" attention --variant talking_heads "${small[@]}" --forward --dim h_k=4
times "$layer" attention --variant talking_heads "${small[@]}" --precision bf16
refuses 2 "--precision f16: expected f32 or bf16" bench attention --precision f16
refuses 2 '--precision bf16 is of --dtype f32' bench attention --precision bf16 --dtype f64
refuses 2 "no option '--heds'; did you mean '--heads'" bench attention --heds 8
refuses 2 "'x' is one argument too many" bench attention x
refuses 2 '--heads: expected' bench attention --heads 0
refuses 2 '768 / 5 is not a whole number' bench attention --heads 5
refuses 2 "no attention variant 'talking_head'.*did you mean 'talking_heads'" bench attention --variant talking_head
refuses 2 '--dtype f16: expected f32 or f64' bench attention --dtype f16
refuses 2 '--length: expected' bench attention --length 0
refuses 2 '--memory-length: expected' bench attention --memory-length 0
refuses 2 '--memory-length 3: .* attends to its own sequence only' bench attention --variant dense_synthesizer --memory-length 3
refuses 2 '--repeats: expected' bench attention --repeats 0
refuses 2 '--threads: expected' bench attention --threads -1
refuses 2 'expected NAME=SIZE' bench attention --dim h
refuses 4 'needs about .* of memory' bench attention --whole --length 100000 --batch 64

# ---- The machine's own rates ----

if grep -q avx512bw /proc/cpuinfo; then
  # The kernel in use is a slower one; the BLAS is measured with the one that fits all the same.
  export OPENBLAS_CORETYPE=Haswell
  times "$layer" attention "${small[@]}" --threads 1
  grep -q '"gemm_kernel": "SkylakeX"' out && grep -q '"kernels": "OpenBLAS [0-9.]* Haswell, rows v4' out
  verdict $? 'the kernel that fits is measured, the one in use is named'
  check 'bench tells that another kernel fits' eval "'$tete' bench attention ${small[*]} |
    grep -q '^warning: .* for Haswell, but that for SkylakeX fits .* unset OPENBLAS_CORETYPE'"
  unset OPENBLAS_CORETYPE
fi

# ---- A training step ----

step="bench model attention layers d_model context batch optimizer precision recompute_blocks parameters ms_per_step tokens_per_s multiplies
  loops_per_step steady_allocations
  peak_rss_mb $measured $machine $products"
tiny=(--layers 1 --heads 2 --d-model 16 --context 8 --batch 2 "${once[@]}")
times "$step" step "${tiny[@]}"
times "$step" step "${tiny[@]}" --attention talking_heads --style t5 --optimizer adafactor --with rotary --threads 1
times "$step" step "${tiny[@]}" --precision bf16
times "$step" step "${tiny[@]}" --recompute-blocks
check 'a step, for people' eval "'$tete' bench step ${tiny[*]} > table && grep -q '^tokens ' table"
refuses 2 "no option '--heds'; did you mean '--heads'" bench step --heds 8
refuses 2 '--layers 0: expected' bench step --layers 0
refuses 2 '--batch: expected' bench step --batch 0
refuses 2 "'adan'; did you mean 'adam'" bench step --optimizer adan
refuses 2 'a decoder must not see the future' bench step --attention linformer
refuses 2 '--vocabulary: expected' bench step --vocabulary 0
refuses 4 'needs about .* of memory' bench step --batch 1000000

# ---- A token ----

decode="bench model layers heads d_model prompt batch vocabulary parameters ms_per_token read_gb_per_s percent_of_reading
  $measured $machine"
times "$decode" decode --layers 1 --heads 2 --d-model 16 --context 32 "${once[@]}"
times "$decode" decode --model gpt2 --layers 2 --heads 2 --d-model 16 --context 32 --vocabulary 7 --prompt 24 --batch 3 "${once[@]}"
check 'a token, for people' eval "'$tete' bench decode --layers 1 --heads 2 --d-model 16 --context 32 ${once[*]} > table &&
  grep -q '^token  .*% of the rate at which its parameters can be read once' table"
refuses 2 '--prompt 30: with 8 tokens more it is longer than --context 32' bench decode --context 32 --prompt 30
refuses 2 'bench decode times a language model; bert is an encoder' bench decode --model bert
refuses 2 '--prompt: expected' bench decode --prompt 0
refuses 2 '--batch: expected' bench decode --batch 0

# ---- Optimizers ----

times "name state_bytes times_memory_limit $measured $machine" optimizer --parameters 20000 "${once[@]}"
[ "$(grep -c '"name": "ada' out)" = 2 ]
verdict $? 'each optimizer has a row'
times "name state_bytes times_memory_limit $measured $machine" optimizer --optimizer adam --parameters 9000000 "${once[@]}"
grep -qE '"state_bytes": 67108864,' out
verdict $? 'Adam keeps two numbers for each'
check 'optimizers, for people' eval "'$tete' bench optimizer --parameters 300 ${once[*]} | grep -q '^adafactor .* of state'"
refuses 2 "'adan'; did you mean 'adam'" bench optimizer --optimizer adan
refuses 2 '--parameters: expected' bench optimizer --parameters 0
refuses 4 'needs about .* of memory' bench optimizer --parameters 10000000000

# ---- Operations ----

ops=(--rows 4 --length 8 --heads 2 --d-model 16 --tokens 8 --vocabulary 10 "${once[@]}")
times "rows_of_a_block length heads d_model tokens vocabulary name $measured $machine $products" ops "${ops[@]}"
for name in 'tile: mixing heads' 'tile: softmax, gradient' 'gelu, gradient' layer_norm cross_entropy 'embedding, gradient'; do
  grep -q "\"name\": \"$name\"" out
  verdict $? "tete bench ops has $name"
done
times "name $measured $machine" ops "${ops[@]}" --dtype f64 --threads 1
check 'operations, for people' eval "'$tete' bench ops ${ops[*]} | grep -q '^projection '"
refuses 2 '--tokens: expected' bench ops --tokens 0
refuses 4 'the largest operation of these sizes needs about .* of memory' bench ops --tokens 1048576 --d-model 1048576

# ---- Threads ----

for what in "attention ${small[*]}" "step ${tiny[*]}"; do
  times 'scaling one_thread_median_s gain gemm_gain gain_of_gemm_gain' $what --scaling --threads 2
done
check 'threads, for people' eval "'$tete' bench attention ${small[*]} --scaling | grep -q '^threads  .*products that share nothing'"

# ---- By kernel ----

decode_one=(decode --layers 1 --heads 2 --d-model 16 --context 32 "${once[@]}")
for what in "attention ${small[*]}" "step ${tiny[*]}" "${decode_one[*]}"; do
  for count in 1 2; do
    times 'profile bookkeeping_s kernels kernel seconds calls' $what --profile --threads $count
    grep -q '"kernel": "contraction: ' out && grep -q '"kernel": "softmax"' out
    verdict $? "the profile of $what on $count threads has contractions and softmax"
  done
done
check 'a profile, for people' eval "'$tete' bench step ${tiny[*]} --threads 2 --profile > table &&
  grep -q '^update  ' table && grep -qE '^bookkeeping, waiting  ' table && grep -qE '^all .* 100%' table"
refuses 2 "no option '--profile'" bench ops --profile

# ---- In turns with PyTorch and JAX, where Python has them ----

turns() {  # turns PEER ARGUMENT…: run.py prints a row and keeps its figures
  check "in turns with $1: $*" python3 "$root/tools/peers/run.py" "$tete" "$1" 2 peer.json "${@:2}"
  grep -qE '^\| `.*` \| [0-9.]+ m?s \| .* [0-9.]+ m?s \| [0-9.]+ \| [0-9]+% \|$' out && grep -qE '"ratio": [0-9]' peer.json
  verdict $? "in turns with $1: a row, and its ratio"
}
declines() {  # declines WORDS PEER ARGUMENT…: run.py ends with a sentence that has the words
  python3 "$root/tools/peers/run.py" "$tete" "$2" 1 peer.json "${@:3}" > out 2> err
  [ $? != 0 ] && [ ! -s out ] && [ "$(wc -l < err)" = 1 ] && grep -qE -- "$1" err
  verdict $? "run.py $*"
}
small=("${small[@]:0:8}") tiny=("${tiny[@]:0:10}")  # without --repeats
declines '--style: no peer knows' torch-eager step --style t5
declines "did you mean 'talking_heads'" torch-eager attention --variant talking_head
python3 -c 'import torch' 2> /dev/null || declines 'torch-eager: this Python has no PyTorch' torch-eager step "${tiny[@]}"
for peer in torch-eager jax-jit; do
  python3 -c "import ${peer%-*}" 2> /dev/null || continue
  for variant in multi_head talking_heads project_logits project_weights dynamic_projections general_bilinear; do
    turns $peer attention --variant $variant "${small[@]}" --causal
  done
  turns $peer attention "${small[@]}" --memory-length 5
  for bias in alibi t5_bias; do
    if [ $peer = jax-jit ]; then
      declines "no program with '$bias'" $peer attention "${small[@]}" --with $bias
    else
      turns $peer attention "${small[@]}" --with $bias
      turns torch-sdpa attention "${small[@]}" --with $bias
    fi
  done
  turns $peer attention "${small[@]}" --forward --dtype f64
  turns $peer step "${tiny[@]}"
  turns $peer step "${tiny[@]}" --attention talking_heads
  declines "no program for 'cosine'" $peer attention --variant cosine "${small[@]}"
  declines "no program for 'cosine'" $peer step --attention cosine "${tiny[@]}"
done
if python3 -c 'import torch' 2> /dev/null; then
  turns torch-sdpa attention "${small[@]}" --forward --dtype f64
  turns torch-bf16 step "${tiny[@]}" --precision bf16
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
