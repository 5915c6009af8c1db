#!/bin/bash
# Hosts that are network namespaces of this machine: what a run says and does when one of them is
# killed, frozen or cut off, or its link is bad, and how many bytes it sends. It takes root, ip, nft
# and Open MPI, and skips with a sentence without them. tests/cluster.sh BUILD-FOLDER [KILLS]
# tests/cluster.sh BUILD-FOLDER overlap prints instead how much of the communication is hidden on slow
# links, the table of train/README.md; that takes an idle machine.
set -u
cd "$(dirname "$0")/.." || exit 1
tete=$(realpath "${1:-build}/tools/tete") || exit 1
kills=${2:-20}
. tests/verdicts.sh
skip() {
  echo "skipped: $1"
  echo "$passed passed, $failed failed"
  exit 0
}
[ "$(id -u)" = 0 ] || skip 'network namespaces take root'
for tool in ip:iproute2 tc:iproute2 nft:nftables pgrep:procps; do
  command -v "${tool%:*}" > /dev/null || skip "there is no ${tool%:*} (Debian package ${tool#*:})"
done
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
# drop_on K WHAT: host hK no longer receives such packets.
drop_on() {
  ip netns exec "$name-h$1" nft "add table ip t; add chain ip t in { type filter hook input priority 0; }; add rule ip t in $2 drop"
}
drop_nothing_on() { ip netns exec "$name-h$1" nft delete table ip t && sleep 1; }
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

# ---- Overlap ----

overlap() {  # overlap LINK QDISC…: two ranks of one thread
  local k numbers='"step":([0-9]+),.*"time_s":([0-9.]+),.*"comm_s":([0-9.e-]+),"comm_exposed_s":([0-9.e-]+).*'
  for k in 1 2; do [ "$1" = none ] || ip netns exec "$name-h$k" tc qdisc add dev eth0 root "${@:2}" || exit; done
  rm -rf run
  launch 2 -- train long.txt --attention multi_head --layers 12 --d-model 256 --heads 8 --context 128 --batch 16 \
    --shards 2 --threads 1 --optimizer adam --eval-every 0 --eval-samples 1 --save-every 0 --log-every 20 --steps 60 --out run
  wait $job
  for k in 1 2; do [ "$1" = none ] || ip netns exec "$name-h$k" tc qdisc del dev eth0 root; done
  grep '"split":"train"' run/metrics.jsonl | sed -nE "s/.*$numbers/\1 \2 \3 \4/p" | awk -v link="$1" 'NR > 2 {
    step = ($2 - time) / ($1 - last)
    printf "%s: a step computes %.3f s; messages take %.3f s, of which %.0f%% are exposed\n", link, step - $4, $3, 100 * $4 / $3
  } { time = $2; last = $1 }'
}
if [ "$kills" = overlap ]; then
  make_hosts 2
  for i in $(seq 20000); do echo "Line $i: the heads talk, the queries ask; the keys answer."; done > long.txt
  for rate in 400 500 600; do overlap "$rate Mbit/s" tbf rate ${rate}mbit burst 256kb latency 5ms; done
  overlap none
  exit
fi

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

named() { grep -qE "^tete launch: rank $1 \(h$(($1 + 1))\) was lost after step [0-9]+ \($2\)" <(tail -n 1 err); }

begin
kill -KILL "$(pid_on 2)"
ends_within 5 5 'a killed rank'
named 1 'signal 9 \(Killed\); mpirun ended with 137'
verdict $? 'the last line names it, its host and its last step'

begin
ip -n "$name-sw" link set v3 down
ends_within 10 5 'a host that is cut off'
named 2 'mpirun ended with (205|1)'
verdict $? 'the last line names its rank and its last step'

rm -rf run
launch 3 -- train "${small[@]}" --steps 1000000 --out run
ends_within 10 5 'a host that is dead before the start'
grep -qE '^tete launch: a rank on 10\.78\.0\.3 was lost \(.*\); no answer from 10\.78\.0\.3$' <(tail -n 1 err)
verdict $? 'the last line names it'
ip -n "$name-sw" link set v3 up
sleep 2

begin
drop_on 3 'ip saddr 10.78.0.1'
ends_within 10 5 'a host that no longer hears of another'
named 2 'mpirun ended with 205'
verdict $? 'the last line names its rank'
drop_nothing_on 3

rm -rf run
launch 3 -- train "${small[@]}" --steps 1000000 --out run --peer-timeout 3
until_true logged
kill -STOP "$(pid_on 3)"
ends_within 10 5 'a frozen rank, with a deadline of 3 s'
grep -qE 'rank [01] \(h[12]\): no sign for 3 s of rank 2 \(h3\), whose last step was [0-9]+;' err &&
  ! grep -q 'rank 2 (h3): no sign' err && named 2 'mpirun ended with 5'
verdict $? 'the others name it, and so does the last line'

begin
slow=$(pid_on 2)
kill -STOP "$slow" && sleep 1.2 && kill -CONT "$slow" && sleep 0.5
kill -TERM $job
ends_within 10 0 'a rank that was slow, and then a stop'

begin
kill -KILL "$(pgrep -f "^mpirun .* $tete train")"
ends_within 5 5 'mpirun is killed'
grep -q '^tete launch: the run was lost (mpirun ended with 137)' err
verdict $? 'the last line says so'

begin
kill -KILL "$(pgrep -f "^$tete launch")"
ends_within 5 137 'tete launch is killed'

begin
for daemon in $(pgrep -x orted); do
  [ "$(ip netns identify "$daemon")" = "$name-h2" ] && kill -KILL "$daemon"
done
ends_within 5 5 "a host's daemon is killed"
named 1 'mpirun ended with 205'
verdict $? 'the last line names its rank'

# Anywhere: while ranks begin, compute, send, save. Each run goes on from where the last one was saved.
rm -rf run
RANDOM=1
resume=
for i in $(seq "$kills"); do
  launch 3 -- train "${small[@]}" --steps 1000000 --save-every 50 --out run --peer-timeout 15 $resume
  k=$((1 + RANDOM % 3))
  until_true eval 'victim=$(pid_on $k); [ -n "$victim" ]'
  sleep "$((RANDOM % 10 / 9)).$(printf %03d $((RANDOM % 1000)))"
  kill -KILL "$victim"
  ends_within 5 5 "a rank that is killed at any time, $i of $kills"
  grep -qE "^tete launch: rank $((k - 1)) \((h|10\.78\.0\.)$k\) was lost .*\(signal 9 \(Killed\);" err
  verdict $? "rank $((k - 1)) is named, with the signal"
  [ -e run/latest ] && resume=--resume
done
saved=$(readlink run/latest)
"$tete" train "${small[@]}" --steps 1000000 --save-every 50 --keep 100000 --shards 8 --out longer > out 2> err &
until_true test -e "longer/$saved"
kill -TERM $! && wait $!
cmp "longer/$saved" "run/$saved"
verdict $? "after $kills kills a checkpoint has the bytes of a run that nobody disturbed"

# ---- Bad links ----

rm -rf run
shape() { ip netns exec "$name-h2" tc qdisc "$1" dev eth0 root tbf rate 20mbit burst 32kbit latency 400ms; }
shape add
launch 3 -- train "${small[@]}" --steps 300 --save-every 10 --out run --peer-timeout 15
ends_within 60 0 'a link of 20 Mbit/s'
shape del
cmp alone/latest run/latest
verdict $? 'its run has the bytes of one process'

rm -rf run
drop_on 2 'numgen random mod 100 < 3'
launch 3 -- train "${small[@]}" --steps 60 --save-every 10 --out run --peer-timeout 15
ends_within 120 0 'a link that loses 3 of 100 packets'
drop_nothing_on 2
"$tete" train "${small[@]}" --steps 60 --save-every 10 --shards 8 --out short > out 2> err && cmp short/latest run/latest
verdict $? 'its run has the bytes of one process'

# ---- A run on four hosts ----

real=("$([ -e "$book" ] && echo "$book" || echo text.txt)" --attention multi_head --layers 2 --d-model 64 --heads 4 --context 32
  --batch 24 --steps 300 --save-every 25 --eval-every 100 --eval-samples 64)
check 'one process on that text' "$tete" train "${real[@]}" --shards 8 --out undisturbed
rm -rf run
launch 4 --restarts 5 -- train "${real[@]}" --shards 8 --threads 1 --out run --peer-timeout 3
until_true test -e run/step-00000050.safetensors
kill -KILL "$(pid_on 2)"
until_true grep -q 'restart 1 of 5' err
until_true test -e run/step-00000150.safetensors
kill -STOP "$(pid_on 4)"
ends_within 120 0 'a run on 4 hosts with one rank killed, then one frozen'
grep -q 'rank 1 (h2) was lost .*; restart 1 of 5' err && grep -q 'rank 3 (h4) was lost .*; restart 2 of 5' err
verdict $? 'both are named'
cmp undisturbed/latest run/latest
verdict $? 'it ends with the bytes of one process that nobody disturbed'

# ---- Bytes ----

# A gradient of 10 MB, whatever else: interface counters of all hosts between two runs of other lengths.
counted() { for k in $(seq "$1"); do ip netns exec "$name-h$k" cat /sys/class/net/eth0/statistics/tx_bytes; done | paste -sd + | bc; }
sent() {  # sent RANKS SHARDS STEPS OPTION…
  rm -rf run
  local before
  before=$(counted "$1")
  ./agent h1 exec "$tete" launch --hosts "$(hosts "$1")" -- train text.txt --attention multi_head \
    --layers 1 --d-model 512 --heads 4 --context 4 --batch 24 --shards "$2" --steps "$3" --eval-every 0 --eval-samples 1 \
    --save-every 0 --optimizer adam --out run "${@:4}" > out 2> err < /dev/null || return
  echo $(($(counted "$1") - before))
}
# sends RANKS SHARDS NODES OPTION…: ranks have so many nodes of the tree of shards, all together.
sends() {
  local few many per_step numbers ratio
  few=$(sent "$1" "$2" 2 "${@:4}") many=$(sent "$1" "$2" 12 "${@:4}")
  per_step=$(((many - few) / 10))
  numbers=$(($(stat -L -c %s run/latest) / 12))  # with Adam, a checkpoint has three numbers for each
  ratio=$(echo "scale=4; $per_step * $1 / (($3 + $1) * ($1 - 1) * 4 * $numbers)" | bc)
  echo "$1 ranks, $2 shards${4:+, ${*:4}}: $((per_step / $1)) bytes a rank and step, $ratio of the closed form (N = $numbers)"
  [ "$(echo "$ratio >= 0.99 && $ratio <= 1.01" | bc)" = 1 ]
  verdict $? "$1 ranks send what the closed form says: $ratio of it"
}
# The closed form: (k+1) (P-1)/P 4N, of a rank with k nodes.
for ranks in 2 4 8; do sends $ranks 8 $ranks; done
sends 3 24 9
for ranks in 2 4; do sends $ranks 8 $ranks --shard-optimizer; done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
