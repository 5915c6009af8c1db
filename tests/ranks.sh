#!/bin/bash
# Ranks as MPI starts them, on this machine: the bits of one process, one voice, agreed stops, and an
# end where a rank is lost. tests/ranks.sh BUILD-FOLDER [PROGRAM]: tete, or tete-mpich
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/${2:-tete}") || exit 1
. tests/verdicts.sh

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
linked=$(ldd "$tete" | grep -oE 'libmpi(ch)?\.so' | head -n 1)
case $linked in
  libmpi.so) launcher=(mpirun.openmpi -q --oversubscribe -np) killed=137 frozen=5 ;;
  # MPICH may end the others with 6 first, and joins all codes by or.
  libmpich.so) launcher=(mpiexec.hydra -n) killed='6|9|15' frozen='5|9' ;;
  *)
    echo 'skipped: this build has no MPI (libopenmpi-dev, meson setup -Dmpi=enabled)'
    refused=$(PMI_RANK=0 PMI_SIZE=2 "$tete" train --out run 2>&1)
    [ $? = 2 ] && [[ $refused == *'this program was built without MPI'* ]] && ! [ -e run ]
    verdict $? 'a build without MPI refuses a launcher'
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
    ;;
esac
on() { timeout 100 "${launcher[@]}" "$@"; }  # on N COMMAND…

for i in $(seq 9); do echo "Line $i: the heads talk, the queries ask; the keys answer."; done > text.txt
small=(--attention dot_product --layers 1 --d-model 16 --context 8 --batch 8 --eval-every 6
  --eval-samples 6 --log-every 3 --seed 7 --dropout 0.1)
few=(text.txt "${small[@]}" --steps 12 --save-every 4 --keep 4)
many=(text.txt "${small[@]}" --steps 1000000 --save-every 50)
last=step-00000012.safetensors
log_of() { sed -E 's/,"(time_s|wall|tok_per_s|ms_step|rss_mb|ranks|threads|optimizer_mb|comm_s|comm_exposed_s|slowest_rank|slowest_ratio)":[^,}]*//g' "$1/metrics.jsonl"; }
same_as() { cmp "$1/$last" "$2/$last" && cmp <(log_of "$1") <(log_of "$2"); }
same_as_alone() { same_as alone "$1"; }

# ---- Bits ----

check 'one process' "$tete" train "${few[@]}" --shards 8 --out alone
for n in 1 2 3 4; do
  check "$n ranks" on $n "$tete" train "${few[@]}" --out ranks$n
  check "$n ranks: the bits and the log of one process" same_as_alone ranks$n
done
check '2 ranks with 2 threads each' on 2 "$tete" train "${few[@]}" --threads 2 --out threads
check '2 ranks with 2 threads each: the bits of one process' same_as_alone threads
cp -r ranks2 part
rm -f part/step-00000008.safetensors part/$last
check 'from 2 ranks to 3' on 3 "$tete" train --resume --out part
rm part/$last
check 'and to 1 process' "$tete" train --resume --out part
check 'a run that went on with other numbers of ranks has the same bits' same_as_alone part
check 'gradients as bfloat16' on 2 "$tete" train "${few[@]}" --send-bf16 --out rounded
! cmp -s alone/$last rounded/$last
verdict $? 'gradients as bfloat16 give other bits'
grep -q '"comm_s":.*"comm_exposed_s":.*"slowest_rank":' ranks2/metrics.jsonl
verdict $? 'the log tells the time of communication and the slowest rank'

adam=("${few[@]/#16/64}" --optimizer adam --clip 0.5)  # wide enough for each rank to have some rows of 4096 numbers
check 'one process with adam' "$tete" train "${adam[@]}" --shards 8 --out adam
for n in 2 3; do
  check "--shard-optimizer on $n ranks" on $n "$tete" train "${adam[@]}" --shard-optimizer --out parts$n
  grep -q '^ *optimizer .* on each rank' err
  verdict $? "--shard-optimizer on $n ranks: the screen tells a rank's part"
  check "--shard-optimizer on $n ranks: the bits and the log of one process" same_as adam parts$n
done
state() { grep -o '"optimizer_mb":[0-9.e-]*' "$1/metrics.jsonl" | head -n 1 | cut -d : -f 2; }
check '2 ranks with adam, whole' on 2 "$tete" train "${adam[@]}" --out whole
awk "BEGIN { row = 8 * 4096e-6; exit !($(state parts2) <= $(state whole) / 2 + row && $(state parts3) <= $(state whole) / 3 + row) }"
verdict $? "the log tells the part: $(state parts2) and $(state parts3) of $(state whole) MB"
rm -f parts3/step-00000008.safetensors parts3/$last
check 'a divided optimizer, from 3 ranks to 2' on 2 "$tete" train --resume --out parts3
rm parts3/$last
check 'and to 1 process' "$tete" train --resume --out parts3
check 'a divided optimizer that went on with other numbers of ranks has the same bits' same_as adam parts3
refuses 2 'shard-optimizer is an option of adam, not of adafactor' train "${few[@]}" --shard-optimizer --out run

check 'tete bench comm measures and predicts' on 2 "$tete" bench comm --parameters 100000 --rounds 3 --gflops 1
grep -qE '^2 ranks: a message of 8 bytes takes [0-9.e+]+ us' out && grep -qE '^ +1024 ' out &&
  grep -qE '^gradients of 1?[0-9. ]+k? parameters: [0-9.e-]+ s measured' out
verdict $? 'tete bench comm prints latency, the measured exchange and 1,024 ranks'
refuses 2 'expected at least 2 ranks, as in mpirun -n 2 tete bench comm' bench comm

# ---- One voice ----

# fails CODE WORDS COMMAND…: it ends with CODE, and one line of it begins with the program's name.
fails() {
  local code=$1 words=$2 status
  shift 2
  "$@" > out 2> err < /dev/null
  status=$?
  [ $status = "$code" ] && [ "$(grep -c '^tete' err)" = 1 ] && grep -qE -- "$words" err
  verdict $? "$*: expected exit status $code (it was $status), and once: $words"
}
fails 2 'expected a whole number' on 3 "$tete" train "${few[@]}" --layers x --out run
fails 2 'there is no file none.txt' on 3 "$tete" train none.txt --out run
fails 2 'rank 0 .*: ranks2 holds a run already' on 3 "$tete" train "${few[@]}" --out ranks2
fails 2 'shards 2: expected at least the number of ranks, 3' on 3 "$tete" train "${few[@]}" --shards 2 --out run
# MPICH's shared memory is files of less than 8 MiB, its checkpoints are larger here.
full=(bash -c 'ulimit -f 8192; exec "$0" "$@"' "$tete" train)
fails 4 'rank 0 .*: cannot write' on 2 "${full[@]}" "${few[@]/#16/1024}" --out run
fails 4 'rank 0 .*: cannot write' on 3 "${full[@]}" "${adam[@]/#64/512}" --shard-optimizer --out full
rm -rf run full
# The slope of a square root at 0. Where the optimizer is divided, each rank has a part of this gradient.
cat > steep.tete << 'END'
def Steep(X[n, d], M[m, d], g[d, r] = zeros()):
  where r = 2000
  R[d, r] = sqrt(g[d, r] * g[d, r])
  S[d]    = sum(R[d, r], reduced_dim=r)
  L[n, m] = einsum(X[n, d], M[m, d])
  W[n, m] = softmax(L[n, m], reduced_dim=m)
  Y[n, d] = einsum(W[n, m], M[m, d]) + S[d]
  return Y[n, d]
END
for divided in '' --shard-optimizer; do
  fails 3 "the gradient of 'decoder/0/A/g', f32\[64, 2000\]: 128000 NaN and 0 infinities in 128000 numbers" \
    on 2 "$tete" train "${adam[@]/dot_product/steep.tete}" $divided --out run
  grep '^tete' err > "said$divided"
  rm -rf run
done
cmp said said--shard-optimizer
verdict $? 'a gradient of NaN is told alike with --shard-optimizer'
pair() { on 1 "$tete" train "$@" : "${launcher[-1]}" 1 "$tete" train text2.txt "${@:2}" --learning-rate 0.5; }
sed 's/9/8/' text.txt > text2.txt
fails 2 'the ranks of this run differ:' pair "${few[@]}" --out run
grep -qE '^  configuration  rank 1 .*: … "rate":' err && grep -qE '^  data  rank 0 ' err && ! grep -q '^  kernels' err
verdict $? 'the table shows what differs, and where'
fails 2 'MPI knows 1: it is another' env PMI_RANK=0 PMI_SIZE=3 "$tete" train "${few[@]}" --out other

# ---- Stops ----

# until_true COMMAND…: waits for it to be true.
until_true() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; return 1; }
# begin N ARGUMENT…: trains on N ranks in the background, as $job, until steps are logged; rank 0 is $first.
begin() {
  local n=$1
  shift
  rm -rf run
  "${launcher[@]}" "$n" "$tete" train "${many[@]}" --out run "$@" > out 2> err < /dev/null &
  job=$!
  for _ in $(seq 200); do
    grep -qs '"step":6,' run/metrics.jsonl && break
    sleep 0.1
  done
  first=$(cat run/lock)
}
# ended CODES WHAT: the job ends with one of CODES, as in 5|9, and nothing is left of rank 0.
ended() {
  local status
  timeout 60 tail --pid=$job -f /dev/null || kill -KILL $job
  wait $job 2> /dev/null
  status=$?
  for _ in $(seq 50); do kill -0 "$first" 2> /dev/null || break; sleep 0.1; done
  [[ $status =~ ^($1)$ ]] && ! kill -0 "$first" 2> /dev/null
  verdict $? "$2: expected exit status $1 (it was $status)"
}
goes_on() {
  check "$1: the run goes on" eval "timeout 60 '$tete' train --resume --out run --steps 1000000 > more 2>&1 & p=\$!
    for _ in \$(seq 100); do grep -q '^step' more && break; sleep 0.1; done; kill -TERM \$p; wait \$p && grep -q 'going on from run/step-' more"
}

begin 3
kill -TERM "$first"
ended 0 'SIGTERM to a rank'
grep -q '^Stopped at step' out && [ "$(grep -c . out)" = 1 ]
verdict $? 'all ranks stop at one step, and one tells it'
goes_on 'after a stop'
if [ "$linked" = libmpi.so ]; then
  begin 3
  kill -USR1 $job
  ended 0 'SIGUSR1 to mpirun'
  grep -q '^Stopped at step' out
  verdict $? 'SIGUSR1 to mpirun stops all ranks at one step'
fi

# ---- One rank alone ----

# Each rank has its own copy of the text; that of rank 1 is written to.
cp text.txt mine.txt
rm -rf run
"${launcher[@]}" 1 "$tete" train text.txt "${many[@]:1}" --out run : "${launcher[-1]}" 1 "$tete" train mine.txt \
  "${many[@]:1}" --out run > out 2> err < /dev/null &
job=$!
until_true grep -qs '"step":6,' run/metrics.jsonl
first=$(cat run/lock)
head -c "$(wc -c < mine.txt)" /dev/zero | tr '\0' x | dd of=mine.txt conv=notrunc status=none
ended 2 'an exception on one rank'
[ "$(grep -c '^tete' err)" = 1 ] && [[ $(grep -v '^\(step\|[[:space:]]*$\)' err | tail -n 1) == 'tete train: rank 1 '*': mine.txt was written to while a run learns from it; the state before it is saved in run/'*'.safetensors' ]]
verdict $? "its sentence comes last and once: $(tail -n 1 err)"
goes_on 'after an exception on one rank'

head -c 40000000 /dev/urandom > long.bin
many=(long.bin --tokenizer byte "${small[@]}" --steps 1000000)
begin 2
own=$(awk '/^Pss_Anon:/ { print $2 }' "/proc/$first/smaps_rollup")
[ "$own" -gt 0 ] && [ "$own" -lt 39000 ]
verdict $? "no rank keeps the text, 39062 KiB: $own KiB are rank 0's own"
kill -TERM "$first"
ended 0 'a run on a long text'

# ---- Lost ranks ----

begin 3 --peer-timeout 2
kill -STOP "$first"
ended "$frozen" 'a rank that is frozen'
grep -qE '^tete train: rank [12] \(.*\): no sign for 2 s of rank 0 \(.*\), whose last step was [0-9]+; ' err
verdict $? 'the others name a frozen rank, its host and its last step'
goes_on 'after a rank was frozen'
begin 3
kill -KILL "$first"
ended $killed 'a rank that is killed'
goes_on 'after a rank was killed'

# ---- tete launch ----

fails 2 'expected the command of a run behind --' "$tete" launch -n 2 -- sample
fails 2 "there is no option '--stepz'; did you mean '--steps'" "$tete" launch -n 2 -- train --stepz 3
fails 2 'expected names with numbers of ranks, as in a,b:2' "$tete" launch --hosts a:x -- train
check 'the command of two hosts' "$tete" launch --hosts a,b:2 --dry-run -- train text.txt --out 'a b'
grep -qE -- "^mpi(run|exec.hydra) -np? 3 .*-hosts? a:1,b:2 .*/a b/heartbeats.* train text.txt --out 'a b'$" out
verdict $? '--dry-run prints the command'

# launch ARGUMENT…: in the background as $job, until steps are logged; rank 0 is $first.
launch() {
  rm -rf run
  "$tete" launch "$@" > out 2> err < /dev/null &
  job=$!
  for _ in $(seq 200); do
    grep -qs '"step":6,' run/metrics.jsonl && break
    sleep 0.1
  done
  first=$(cat run/lock)
}
restarted=(text.txt "${small[@]}" --steps 3000 --save-every 250)
check 'a run that nobody disturbs' "$tete" train "${restarted[@]}" --shards 8 --out undisturbed
launch -n 3 --restarts 2 -- train "${restarted[@]}" --out run --peer-timeout 2
until_true test -e run/step-00000250.safetensors
kill -KILL "$first"
until_true grep -qs 'going on from' err
first=$(cat run/lock)
until_true eval 'ls run/step-0000[12]*.safetensors > /dev/null 2>&1'
kill -STOP "$first"
ended 0 'a run with one rank killed, then one frozen, under tete launch --restarts'
cmp undisturbed/latest run/latest && ! [ -e run/heartbeats ]
verdict $? 'it ends with the bytes of one process that nobody disturbed'
grep -qE '^tete launch: rank 0 \(.*\) was lost after step [0-9]+ \(.*\); step [0-9]+ is saved; restart 1 of 2' err &&
  grep -q '; restart 2 of 2' err
verdict $? 'it names the lost rank, its host and its last step'

launch -n 2 -- train "${many[@]}" --out run
kill -KILL "$first"
ended 5 'a lost rank, without --restarts'
launch -n 2 -- train "${many[@]}" --out run
kill -PIPE "$(cut -d ' ' -f 4 run/heartbeats/rank-1)"  # which a rank is sent that writes to one that is gone
kill -TERM $job
ended 0 'SIGTERM to tete launch'
grep -q '^Stopped at step' out && [ -e run/latest ]
verdict $? 'it lets all ranks save and stop'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
