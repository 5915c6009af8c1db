#!/bin/bash
# tete bench: everything that it times runs, and says what it must; no test asks how long. Bad input
# is one sentence. tests/bench.sh BUILD-FOLDER
set -u
cd "$(dirname "$0")/.." || exit 1
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
measured='median_s min_s max_s quartiles_s repeats bytes gb_per_s percent_of_memory peak_tensor_bytes
  allocations_per_call'
machine='threads peak_gflops_per_s peak_gflops_per_s_one_thread gemm_gflops_per_s
  gemm_gflops_per_s_one_thread gemm_percent_of_peak gemm_kernel memory_gb_per_s load kernels program'
products='flops gflops_per_s percent_of_peak percent_of_gemm'

check 'tete bench --help fits in 80 columns' eval "'$tete' bench --help | awk 'length > 90 { exit 1 }'"
refuses 2 'what is to be timed' bench
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
refuses 2 '--heads 0: expected' bench attention --heads 0
refuses 2 '768 / 5 is not a whole number' bench attention --heads 5
refuses 2 "no attention variant 'talking_head'.*did you mean 'talking_heads'" bench attention --variant talking_head
refuses 2 '--dtype f16: expected f32 or f64' bench attention --dtype f16
refuses 2 '--length 0: expected' bench attention --length 0
refuses 2 '--memory-length 0: expected' bench attention --memory-length 0
refuses 2 '--memory-length 3: .* attends to its own sequence only' bench attention --variant dense_synthesizer --memory-length 3
refuses 2 '--repeats 0: expected' bench attention --repeats 0
refuses 2 '--threads -1: expected' bench attention --threads -1
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

step="bench attention layers d_model context batch optimizer precision recompute_blocks parameters ms_per_step tokens_per_s multiplies
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
refuses 2 '--batch 0: expected' bench step --batch 0
refuses 2 "'adan'; did you mean 'adam'" bench step --optimizer adan
refuses 2 'a decoder must not see the future' bench step --attention linformer
refuses 2 '--vocabulary 0: expected' bench step --vocabulary 0
refuses 4 'needs about .* of memory' bench step --batch 1000000

# ---- Optimizers ----

times "name state_bytes times_memory_limit $measured $machine" optimizer --parameters 20000 "${once[@]}"
[ "$(grep -c '"name": "ada' out)" = 2 ]
verdict $? 'each optimizer has a row'
times "name state_bytes times_memory_limit $measured $machine" optimizer --optimizer adam --parameters 9000000 "${once[@]}"
grep -qE '"state_bytes": 67108864,' out
verdict $? 'Adam keeps two numbers for each'
check 'optimizers, for people' eval "'$tete' bench optimizer --parameters 300 ${once[*]} | grep -q '^adafactor .* of state'"
refuses 2 "'adan'; did you mean 'adam'" bench optimizer --optimizer adan
refuses 2 '--parameters 0: expected' bench optimizer --parameters 0
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
refuses 2 '--tokens 0: expected' bench ops --tokens 0

# ---- Threads ----

for what in "attention ${small[*]}" "step ${tiny[*]}"; do
  times 'scaling one_thread_median_s gain gemm_gain gain_of_gemm_gain' $what --scaling --threads 2
done
check 'threads, for people' eval "'$tete' bench attention ${small[*]} --scaling | grep -q '^threads  .*products that share nothing'"

# ---- Against PyTorch and JAX: programs that stand for a Python, and Python itself where it has them ----

python() {  # python NAME LINE…: a program of that name, of these lines
  local name=$1
  shift
  printf '%s\n' '#!/bin/bash' "$@" > "$name"
  chmod +x "$name"
}
python answers 'echo a warning; echo "{\"ready\": true, \"engine\": \"slow 1.0\"}"' \
  'while read -r _; do echo "{\"seconds\": 3600, \"peak_rss_mb\": 12.5}"; done'
python poor 'echo "{\"refusal\": \"it has no PyTorch\"}"'
python dies 'echo "{\"ready\": true, \"engine\": \"slow 1.0\"}"' \
  '[[ "$*" == *check* ]] || { echo broken as it is >&2; exit 3; }'
python silent 'exec sleep 100'
python speechless 'echo "{\"ready\": true, \"engine\": \"slow 1.0\"}"' '[[ "$*" == *check* ]] || exec sleep 100'
python deaf 'exec sleep 100 < /dev/null > /dev/null'
python babbling 'exec yes'
theirs='against mode engine median_s peak_rss_mb our_median_s ratio'
for what in "attention ${small[*]}" "step ${tiny[*]}"; do
  times "$theirs" $what --against torch --python ./answers
  grep -qE '"ratio": [0-9]{5}' out
  verdict $? 'a program that takes an hour takes many times as long'
  check 'one that ends' eval "'$tete' bench $what --against torch-eager --python ./dies --json > told"
  grep -q '"trouble": "it ended without an answer: broken as it is"' told
  verdict $? 'what it complained about is told, and ours all the same'
  refuses 2 'it has no PyTorch' bench $what --against torch --python ./poor
  refuses 2 "there is no Python at './nowhere' \(--python PATH\)" bench $what --against torch --python ./nowhere
  for peer in torch-eager jax; do
    for program in silent babbling deaf; do
      refuses 2 "'./$program' \(--python\) does not run the program for ${peer%-*}: it (has not answered in 0.5 seconds|has closed its output)" \
        bench $what --against $peer --python ./$program --patience 0.5
    done
    refuses 2 "'/bin/cat' \(--python\) does not run .*: it ended without an answer" bench $what --against $peer --python /bin/cat
    check "one that falls silent, as $peer" eval "'$tete' bench $what --against $peer --python ./speechless --patience 10 > told"
    grep -qE "^slow 1.0 (eager|jit): it has not answered in 10 seconds" told
    verdict $? 'it is told, and ours all the same'
  done
  times "$theirs" $what --against jax --python ./answers
  grep -q '"mode": "jax-jit"' out
  verdict $? 'jax has one mode'
  refuses 2 "--against torhc: .*; did you mean 'torch'" bench $what --against torhc
done
check 'ratios, for people' eval "'$tete' bench attention ${small[*]} --against torch --python ./answers | grep -q '^slow 1.0 sdpa  '"
refuses 2 'know neither --with nor --dim' bench attention --against torch --with t5_bias
refuses 2 'know no --style' bench step --against torch --style t5
refuses 2 '--patience 0: expected' bench step --against torch --patience 0
refuses 2 'know --optimizer adam' bench step --against torch --optimizer adafactor
left=$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'tete-peers-*' -newer answers -user "$(id -un)" 2> /dev/null)
[ -z "$left" ]
verdict $? "no file is left behind: $left"
if python3 -c 'import torch' 2> /dev/null; then
  for variant in multi_head talking_heads project_logits project_weights dynamic_projections general_bilinear; do
    times "$theirs" attention --variant $variant "${small[@]}" --against torch-eager --causal
    times "$theirs" attention --variant $variant "${small[@]}" --against torch-bf16 --memory-length 5
  done
  times "$theirs" attention "${small[@]}" --against torch-sdpa --forward --dtype f64
  times "$theirs" step "${tiny[@]}" --against torch-eager
  times "$theirs" step "${tiny[@]}" --against torch-bf16 --attention talking_heads
  refuses 2 "no program for 'cosine'" bench attention --variant cosine --against torch
  refuses 2 "no program for 'cosine'" bench step --attention cosine --against torch
fi
if python3 -c 'import jax' 2> /dev/null; then
  for variant in multi_head talking_heads project_logits project_weights dynamic_projections general_bilinear; do
    times "$theirs" attention --variant $variant "${small[@]}" --against jax --causal
  done
  times "$theirs" attention "${small[@]}" --against jax --memory-length 5
  times "$theirs" attention "${small[@]}" --against jax --forward --dtype f64
  times "$theirs" step "${tiny[@]}" --against jax
  times "$theirs" step "${tiny[@]}" --against jax --attention talking_heads
  refuses 2 "no program for 'cosine'" bench attention --variant cosine --against jax
  refuses 2 "no program for 'cosine'" bench step --attention cosine --against jax
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
