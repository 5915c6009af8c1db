#!/bin/bash
# README's table of speed, measured again: each row with percent of the processor's peak, and PyTorch
# and JAX in turns. tools/peers/table.sh [PYTHON [BUILD-FOLDER [REPEATS]]]; PYTHON has both. For an
# idle machine, with nothing about OpenBLAS in the environment. Each row's JSON stays in the folder
# that is named at the end.
set -u
cd "$(dirname "$0")/../.." || exit 1
python=${1:-python3} tete=${2:-build}/tools/tete repeats=${3:-7}
for name in $(compgen -e | grep -E '^(OPENBLAS|GOTO)_'); do
  echo "without $name=${!name}" >&2
  unset "$name"
done
results=$(mktemp -d)

measure() {  # measure "PEERS" ARGUMENT…: a row for each peer
  local peers=$1 peer
  shift
  for peer in $peers; do
    "$python" tools/peers/run.py "$tete" "$peer" "$repeats" \
      "$results/$(echo "$* $peer" | tr -c 'a-z0-9\n' _).json" "$@"
  done
}

echo '| `tete bench …` | Tête | peer | theirs / ours | of peak |'
echo '|---|---:|---:|---:|---:|'
full='torch-eager torch-compile jax-jit'
measure "torch-sdpa $full" attention --heads 12
measure "torch-sdpa $full" attention --heads 24
for bias in t5_bias alibi; do
  measure "torch-sdpa torch-eager torch-compile" attention --heads 12 --with $bias
done
measure "$full" attention --heads 24 --variant talking_heads
measure "$full" attention --heads 24 --variant dynamic_projections
measure "$full" step
measure "$full" step --attention talking_heads
measure torch-bf16 step --precision bf16
larger='--layers 6 --heads 6 --d-model 384 --context 256 --batch 16'
measure "$full" step $larger
measure torch-bf16 step $larger --precision bf16
echo
"$python" - "$results"/*.json << 'END'
import json, sys
x = [json.load(open(name)) for name in sys.argv[1:]]
print(f"{x[0]['threads']} threads, {x[0]['kernels']}; peak {max(y['peak_gflops_per_s'] for y in x):.0f} GFLOP/s "
      f"({max(y['peak_gflops_per_s_one_thread'] for y in x):.0f} on one thread), GEMM with the kernel "
      f"{x[0]['gemm_kernel']} {max(y['gemm_gflops_per_s'] for y in x):.0f} "
      f"({max(y['gemm_gflops_per_s_one_thread'] for y in x):.0f}); load {min(y['load'] for y in x):.1f} "
      f"to {max(y['load'] for y in x):.1f}")
END
echo "$results"
