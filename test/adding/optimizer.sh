#!/usr/bin/env bash
# optimizer.sh COMPILER: optimizer.patch, the example of docs/adding.md, is one file's, applies, and describes an optimizer
# that the CPU's loop computes. The compiler and everything else that asks the description are not built again.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$source/runtime" "$copy"
[ "$(grep -c '^+++ ' "$source/test/adding/optimizer.patch")" = 1 ]
(cd "$copy" && git apply "$source/test/adding/optimizer.patch")
"$1" -std=c++17 -O1 -fopenmp -Wall -Wextra -Werror -Wno-pass-failed -I"$copy" "$source/test/adding/Adagrad.cpp" "$copy/runtime/device/cpu/Device.cpp" "$copy/runtime/device/cpu/Snapshot.cpp" -o "$copy/adagrad"
"$copy/adagrad"
