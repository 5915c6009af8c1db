#!/bin/bash
# Hosts that are network namespaces of this machine: what a run says and does when one of them is
# killed, frozen or cut off, and how many bytes it sends. It takes root, ip and Open MPI, and skips
# with a sentence without them. tests/cluster.sh BUILD-FOLDER [KILLS]
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
kills=${2:-5}
. tests/verdicts.sh
skip() {
  echo "skipped: $1"
  echo "$passed passed, $failed failed"
  exit 0
}
[ "$(id -u)" = 0 ] || skip 'network namespaces take root'
command -v ip > /dev/null || skip 'there is no ip (Debian package iproute2)'
ldd "$tete" | grep -q 'libmpi\.so' || skip 'this build has no Open MPI'
name=tete$$  # of the namespaces
ip netns add "$name-sw" 2> err || skip "no network namespace can be made here: $(cat err)"

# ---- Hosts ----

remove_hosts() { for n in $(ip netns list | awk -v p="^$name-" '$1 ~ p { print $1 }'); do ip netns del "$n"; done; }
trap 'remove_hosts; rm -rf "$work"' EXIT
make_hosts() {  # make_hosts N: h1 … hN, 10.78.0.K, on a bridge of its own
  ip -n "$name-sw" link add br0 type bridge && ip -n "$name-sw" link set br0 up
  for k in $(seq "$1"); do
    ip netns add "$name-h$k"
    ip link add "v$k" netns "$name-sw" type veth peer name eth0 netns "$name-h$k"
    ip -n "$name-sw" link set "v$k" master br0 up
    ip -n "$name-h$k" link set lo up
    ip -n "$name-h$k" addr add "10.78.0.$k/24" dev eth0
    ip -n "$name-h$k" link set eth0 up
  done
  sleep 2
}
# Stands for ssh: each host has its own name, which Open MPI's files on this machine bear.
cat > agent << END
#!/bin/bash
while [[ \${1-} == -* ]]; do shift; done
host=\$1 k=\${1##*[.h]}
shift
exec ip netns exec "$name-h\$k" unshare --uts bash -c "echo h\$k > /proc/sys/kernel/hostname; \$*"
END
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$PWD/agent OMPI_MCA_btl_tcp_if_include=10.78.0.0/24
export OMPI_MCA_oob_tcp_if_include=10.78.0.0/24 OMPI_MCA_mpi_yield_when_idle=1
hosts() { seq -f '10.78.0.%g' -s , "$1"; }
# launch N ARGUMENT…: tete launch on host h1, on N hosts, in the background as $job.
launch() {
  local n=$1
  shift
  ./agent h1 exec "$tete" launch --hosts "$(hosts "$n")" "$@" > out 2> err < /dev/null &
  job=$!
}
pid_on() { ps -eo pid=,args= | awk -v t="$tete" '$2 == t && $3 == "train" { print $1 }' | while read -r p; do
    [ "$(ip netns identify "$p")" = "$name-h$1" ] && echo "$p"; done | head -n 1; }
until_true() { for _ in $(seq 600); do "$@" && return; sleep 0.05; done; return 1; }
# ends_within SECONDS CODE WHAT: counts from now; then no process of the run is left.
ends_within() {
  local begun=$EPOCHREALTIME status seconds
  for _ in $(seq 2400); do kill -0 $job 2> /dev/null || break; sleep 0.05; done
  kill -KILL $job 2> /dev/null
  wait $job 2> /dev/null
  status=$?
  seconds=$(echo "$EPOCHREALTIME - $begun" | bc)
  for _ in $(seq 100); do [ -z "$(pid_on 1)$(pid_on 2)$(pid_on 3)" ] && break; sleep 0.1; done
  echo "$3: over after $seconds s, exit status $status"
  [ $status = "$2" ] && [ "$(echo "$seconds <= $1" | bc)" = 1 ] && [ -z "$(pid_on 1)$(pid_on 2)$(pid_on 3)" ]
  verdict $? "$3: expected exit status $2 within $1 s"
}

make_hosts 8
for i in $(seq 9); do echo "Line $i: the heads talk, the queries ask; the keys answer."; done > text.txt
small=(text.txt --attention dot_product --layers 1 --d-model 16 --context 8 --batch 8 --eval-every 50
  --eval-samples 6 --log-every 3 --seed 7)
check 'one process' "$tete" train "${small[@]}" --steps 300 --save-every 10 --shards 8 --out alone
logged() { grep -qs '"step":6,' "run/metrics.jsonl"; }
begin() {  # begin ARGUMENT…: a long run on three hosts
  rm -rf run
  launch 3 "$@" -- train "${small[@]}" --steps 1000000 --save-every 100 --out run --peer-timeout 15
  until_true logged || verdict 1 "no step was logged: $(tail -n 1 err)"
}

# ---- Lost ranks ----

begin
kill -KILL "$(pid_on 2)"
ends_within 5 5 'a killed rank'
grep -qE '^tete launch: rank 1 \(h2\) was lost after step [0-9]+ \(mpirun ended with 137\)' err
verdict $? 'it is named with its host'

begin
ip -n "$name-sw" link set v3 down
ends_within 10 5 'a host that is cut off'
grep -q '10\.78\.0\.3\|h3' err
verdict $? 'it is named'
ip -n "$name-sw" link set v3 up

rm -rf run
launch 3 -- train "${small[@]}" --steps 1000000 --out run --peer-timeout 3
until_true logged
kill -STOP "$(pid_on 3)"
ends_within 12 5 'a frozen rank, with a deadline of 3 s'
grep -qE 'rank [01] \(h[12]\): no sign for 3 s of rank 2 \(h3\), whose last step was [0-9]+;' err
verdict $? 'the others name it'

begin
slow=$(pid_on 2)
kill -STOP "$slow" && sleep 1.2 && kill -CONT "$slow" && sleep 0.5
kill -TERM $job
ends_within 10 0 'a rank that was slow, and then a stop'

rm -rf run
launch 3 --restarts 100 -- train "${small[@]}" --steps 300 --save-every 10 --out run --peer-timeout 15
RANDOM=1
done_kills=0
while kill -0 $job 2> /dev/null && [ $done_kills -lt "$kills" ]; do
  sleep "$((4 + RANDOM % 3)).$((RANDOM % 1000))"
  victim=$(pid_on $((1 + RANDOM % 3)))
  [ -n "$victim" ] && kill -KILL "$victim" 2> /dev/null && done_kills=$((done_kills + 1))
done
timeout 300 tail --pid=$job -f /dev/null
cmp alone/latest run/latest
verdict $? "$done_kills ranks killed at random times, and the bytes of an undisturbed process"

# ---- Bytes ----

# A gradient of 10 MB, whatever else: interface counters of h1 between two runs of other lengths.
sent() {  # sent RANKS STEPS
  rm -rf run
  local before after
  before=$(ip netns exec "$name-h1" cat /sys/class/net/eth0/statistics/tx_bytes)
  ./agent h1 exec "$tete" launch --hosts "$(hosts "$1")" -- train text.txt --attention multi_head \
    --layers 1 --d-model 512 --heads 4 --context 4 --batch 8 --steps "$2" --eval-every 0 --eval-samples 1 \
    --save-every 0 --optimizer adam --out run > out 2> err < /dev/null || return
  after=$(ip netns exec "$name-h1" cat /sys/class/net/eth0/statistics/tx_bytes)
  echo $((after - before))
}
for ranks in 2 4 8; do
  few=$(sent $ranks 2) many=$(sent $ranks 12)
  # 8 shards: each of 2, 4, 8 ranks has one node, so twice (P-1)/P of the gradient.
  per_step=$(((many - few) / 10))
  numbers=$(($(stat -L -c %s run/latest) / 12))  # with Adam, a checkpoint has three numbers for each
  ratio=$(echo "scale=4; $per_step * $ranks / (2 * ($ranks - 1) * 4 * $numbers)" | bc)
  echo "$ranks ranks: $per_step bytes a rank and step, $ratio of 2 (P-1)/P 4N (N = $numbers)"
  [ "$(echo "$ratio >= 0.99 && $ratio <= 1.01" | bc)" = 1 ]
  verdict $? "$ranks ranks send what the closed form says: $ratio of it"
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
