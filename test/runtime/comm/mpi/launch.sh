#!/usr/bin/env bash
# launch.sh PROGRAM: how a program starts its own ranks, and how they end.
set -u
program=$1
fail() { echo "FAILED: $*" >&2; exit 1; }
# Ranks that still run (a zombie does not).
alive() { ps -eo stat=,args= | grep -v '^Z' | grep -F -- "$program" | grep -F -- "$1" | grep -v grep; }
gone() { # mark of the processes; within a minute
  for _ in $(seq 600); do [ -z "$(alive "$1")" ] && return 0; sleep 0.1; done
  return 1
}
started() { for _ in $(seq 1000); do [ "$(grep -c waiting "$1")" = 2 ] && return 0; sleep 0.1; done; return 1; }
log=$(mktemp)
trap 'rm -f "$log" "$log.err"' EXIT

"$program" --ranks 3 --end 7 >/dev/null 2>"$log.err"
[ $? = 7 ] || fail "exit code of a rank that aborts"

"$program" --ranks 3 --plan 2 >/dev/null 2>"$log.err"
[ $? = 1 ] || fail "exit code with another number of ranks than the plan's"
[ "$(cat "$log.err")" = "error: the plan has 2 ranks, but 3 run: start with --ranks 2" ] || fail "message: $(cat "$log.err")"

"$program" --plan 2 >/dev/null 2>"$log.err"
[ $? = 1 ] || fail "exit code of one process for two ranks"
[ "$(cat "$log.err")" = "error: the plan has 2 ranks, but 1 runs: start with --ranks 2" ] || fail "message: $(cat "$log.err")"

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

# The first signal lets the ranks end by themselves.
mark="--mark $$-a"
"$program" --ranks 2 --wait $mark >"$log" 2>/dev/null & pid=$!
started "$log" || fail "ranks did not start"
kill -TERM $pid
wait $pid
[ $? = 3 ] || fail "exit code after SIGTERM"

# Nobody outlives a launcher that is killed.
mark="--mark $$-b"
"$program" --ranks 2 --wait $mark >"$log" 2>/dev/null & pid=$!
started "$log" || fail "ranks did not start"
kill -KILL $pid
gone "$mark" || fail "ranks outlive the launcher: $(alive "$mark")"
echo passed
