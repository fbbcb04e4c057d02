#!/usr/bin/env bash
# launch.sh PROGRAM mpi|tcp: how a program starts its own ranks, how others start them, and how they end.
set -u
program=$1
export DT_COMM=$2
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT DT_RUN_ID DT_SECRET DT_SECRET_FILE DT_TRUST_NETWORK
fail() { echo "FAILED: $*" >&2; exit 1; }
# Ranks that still run (a zombie does not).
alive() { ps -eo stat=,args= | grep -v '^Z' | grep -F -- "$program" | grep -F -- "$1" | grep -v grep; }
gone() { # mark of the processes; within a minute
  for _ in $(seq 600); do [ -z "$(alive "$1")" ] && return 0; sleep 0.1; done
  return 1
}
started() { for _ in $(seq 1000); do [ "$(grep -c waiting "$1")" = "$2" ] && return 0; sleep 0.1; done; return 1; }
log=$(mktemp)
trap 'rm -f "$log" "$log".*' EXIT

"$program" --ranks 3 --end 7 >/dev/null 2>"$log.err"
[ $? = 7 ] || fail "exit code of a rank that aborts"

"$program" --ranks 3 --plan 2 >/dev/null 2>"$log.err"
[ $? = 1 ] || fail "exit code with another number of ranks than the plan's"
[ "$(cat "$log.err")" = "error: the plan has 2 ranks, but 3 run: start with --ranks 2" ] || fail "message: $(cat "$log.err")"

"$program" --plan 2 >/dev/null 2>"$log.err"
[ $? = 1 ] || fail "exit code of one process for two ranks"
[ "$(cat "$log.err")" = "error: the plan has 2 ranks, but 1 runs: start with --ranks 2" ] || fail "message: $(cat "$log.err")"

by_mpi() {
  PATH=/nowhere "$program" --ranks 2 >/dev/null 2>"$log.err"
  [ $? = 1 ] && grep -q "no mpirun in PATH (Debian: install openmpi-bin)" "$log.err" || fail "no mpirun"

  # Started by others: by mpirun without --ranks, and with what Slurm's PMIx sets only.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  there="the plan has 3 ranks, but 2 run: start with --ranks 3"
  mpirun --oversubscribe -n 2 "$program" --plan 3 >/dev/null 2>"$log.err"
  [ $? = 1 ] && [ "$(grep -c "$there" "$log.err")" = 1 ] || fail "under mpirun: $(cat "$log.err")"
  mpirun --oversubscribe -n 2 sh -c 'rank=$OMPI_COMM_WORLD_RANK
    unset OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_SIZE OMPI_COMM_WORLD_LOCAL_RANK
    export PMIX_RANK=$rank SLURM_PROCID=$rank SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2
    exec "$0" --plan 3' "$program" >/dev/null 2>"$log.err"
  [ $? = 1 ] && [ "$(grep -c "$there" "$log.err")" = 1 ] || fail "under Slurm's variables: $(cat "$log.err")"
}

by_tcp() {
  DT_COMM=ucx "$program" --ranks 2 >/dev/null 2>"$log.err"
  [ $? = 1 ] && [ "$(cat "$log.err")" = "error: DT_COMM=ucx: expected mpi or tcp" ] || fail "an unknown DT_COMM: $(cat "$log.err")"

  # Started by others: with what torchrun and srun set. One line, though all ranks know.
  port=$((20000 + $$ % 10000))
  there="error: the plan has 2 ranks, but 3 run: start with --ranks 2"
  torch="WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port TORCHELASTIC_RUN_ID=$$"
  slurm="SLURM_STEP_NUM_TASKS=3 SLURM_STEP_ID=2 SLURM_JOB_ID=$$ SLURM_JOB_NODELIST=localhost,gpu[7-9]"
  for rank in 0 1 2; do env $torch RANK=$rank "$program" --plan 2 2>>"$log.torch" & done; wait
  for rank in 0 1 2; do env $slurm SLURM_PROCID=$rank "$program" --plan 2 2>>"$log.slurm" & done; wait
  [ "$(cat "$log.torch")" = "$there" ] || fail "under torchrun's variables: $(cat "$log.torch")"
  [ "$(cat "$log.slurm")" = "$there" ] || fail "under Slurm's variables: $(cat "$log.slurm")"

  # Not all come.
  for rank in 0 2; do env $torch RANK=$rank DT_START_TIMEOUT=1 "$program" --plan 3 2>>"$log.missing" & done; wait
  grep -Eqx "error: ranks that have not come to .*:$port after 1 s: 1 of 3 ranks" "$log.missing" && [ "$(wc -l <"$log.missing")" = 1 ] || fail "a missing rank: $(cat "$log.missing")"
  env $torch RANK=1 DT_START_TIMEOUT=1 "$program" --plan 3 2>"$log.err"
  grep -Eqx "error: rank 1 on .* does not reach rank 0 at 127.0.0.1:$port for 1 s: Connection refused" "$log.err" || fail "no rank 0: $(cat "$log.err")"

  # Strangers are dropped with a line each, whatever they say or do not say, and a rank of another run is told so.
  for rank in 0 1; do env $torch RANK=$rank "$program" --gtest_filter=Comm.AllGather >/dev/null 2>>"$log.strange" & done
  for _ in $(seq 100); do exec 3<>"/dev/tcp/127.0.0.1/$port" && break; sleep 0.1; done 2>/dev/null
  exec 4<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET / HTTP/1.1\r\n\r\n' >&4
  head -c 4096 /dev/urandom >"/dev/tcp/127.0.0.1/$port" 2>/dev/null
  env $torch RANK=2 DT_RUN_ID=other "$program" --plan 3 2>"$log.err"
  grep -Eqx "error: rank 2 on .* gets no answer of rank 0 on 127.0.0.1 .*: it refuses this rank: it belongs to another run" "$log.err" || fail "another run: $(cat "$log.err")"
  env $torch RANK=2 "$program" --gtest_filter=Comm.AllGather >/dev/null 2>"$log.err" || fail "the run among strangers: $(cat "$log.err" "$log.strange")"
  wait
  exec 3>&- 4>&-
  [ "$(grep -c "^warning: dropped a connection from .*: it does not announce a rank$" "$log.strange")" = 2 ] &&
    [ "$(grep -c "^warning: dropped a connection from .*: it belongs to another run$" "$log.strange")" = 1 ] || fail "strangers: $(cat "$log.strange")"

  # Descriptors: as many as are allowed, and no less than connections take.
  (ulimit -n 100; "$program" --ranks 3 --end 7 >/dev/null 2>"$log.err"; [ $? = 1 ]) && grep -q "3 ranks take 131 descriptors in each, but 100 are allowed (ulimit -Hn)" "$log.err" || fail "too few descriptors: $(cat "$log.err")"
  (ulimit -Sn 100; "$program" --ranks 3 --end 7 >/dev/null 2>"$log.err"; [ $? = 7 ]) || fail "descriptors that are allowed: $(cat "$log.err")"

  # Who knows another secret, or none, is no rank of the run; who has the right one is, wherever it stands.
  printf 'a secret of launch.sh\n' >"$log.secret"
  chmod 600 "$log.secret"
  for rank in 0 1; do env $torch RANK=$rank DT_SECRET_FILE="$log.secret" "$program" --gtest_filter=Comm.AllGather >/dev/null 2>>"$log.secrets" & done
  for secret in "" "another secret of launch.sh"; do
    env $torch RANK=2 DT_SECRET="$secret" "$program" --plan 3 2>"$log.err"
    grep -Eqx "error: rank 2 on .* gets no answer of rank 0 on .*: what listens there does not know this run's secret \(DT_SECRET .*\)" "$log.err" || fail "another secret: $(cat "$log.err")"
  done
  env $torch RANK=2 DT_SECRET="a secret of launch.sh" "$program" --gtest_filter=Comm.AllGather >/dev/null 2>"$log.err" || fail "the run with a secret: $(cat "$log.err" "$log.secrets")"
  wait

  # Without a watchdog: the first rank that is left says which one is gone.
  mark="--mark $$-c"
  "$program" --ranks 3 --wait $mark >"$log" 2>"$log.err" & pid=$!
  started "$log" 3 || fail "ranks did not start"
  kill -KILL "$(pgrep -P $pid | sed -n 2p)"
  wait $pid
  [ $? = 1 ] && grep -Eqx "error: rank 1 on .* is gone: its connection was closed" "$log.err" && [ "$(wc -l <"$log.err")" = 1 ] || fail "a killed rank: $(cat "$log.err")"
}

by_$DT_COMM

# The first signal lets the ranks end by themselves.
mark="--mark $$-a"
"$program" --ranks 2 --wait $mark >"$log" 2>/dev/null & pid=$!
started "$log" 2 || fail "ranks did not start"
kill -TERM $pid
wait $pid
[ $? = 3 ] || fail "exit code after SIGTERM"

# Nobody outlives a launcher that is killed.
mark="--mark $$-b"
"$program" --ranks 2 --wait $mark >"$log" 2>/dev/null & pid=$!
started "$log" 2 || fail "ranks did not start"
kill -KILL $pid
gone "$mark" || fail "ranks outlive the launcher: $(alive "$mark")"
echo passed
