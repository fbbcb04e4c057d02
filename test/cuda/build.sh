#!/usr/bin/env bash
# build.sh SOURCE_DIRECTORY DT_OPT BUILD: what tests on the double of CUDA share, built by the system's compiler:
#   BUILD/gpt2    an emitted program, unchanged, with its own copy of the runtime; other programs link that (its build/runtime/prebuilt.cmake)
#   BUILD/faults  the program with planted faults
#   BUILD/calls   tests of library calls
set -euo pipefail
source=$1 dt_opt=$2 build=$3
mkdir -p "$build"
"$dt_opt" "$source/test/models/gpt2/recipe.json" --target=cuda --emit=cpp -o "$build/gpt2"
# Compiling takes longer than running.
cmake -S "$build/gpt2" -B "$build/gpt2/build" -G Ninja -DDT_CUDA_DOUBLE="$source/test/cuda" -DDT_OPTIMISE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DDT_MPI=OFF -DDT_NCCL=ON >/dev/null
cmake --build "$build/gpt2/build"
cmake -S "$source/test/cuda/faults" -B "$build/faults" -G Ninja >/dev/null
cmake --build "$build/faults"
cmake -S "$source/test/cuda/calls" -B "$build/calls" -G Ninja -DRUNTIME="$build/gpt2/build/runtime" >/dev/null
cmake --build "$build/calls"
