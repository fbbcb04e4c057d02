#!/usr/bin/env bash
# sanitize.sh PRESET TEST_PROGRAM...: builds test programs with a sanitizer preset and runs them. What reads untrusted bytes and
# what runs on threads is in the runtime, so a few minutes of this are worth more than the whole compiler under a sanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" --target "$@"
export OMP_NUM_THREADS=2 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
for program in "$@"; do
  echo "== $program ($preset)"
  "build/$preset/bin/$program" --gtest_brief=1
done
