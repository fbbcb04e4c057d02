// Collectives of real models, all of them, in order. A layer's are those of Megatron-LM's hand-made tensor parallelism: two all-reduces
// forward and two backward. The vocabulary is cut: one all-reduce for the embedding; for the loss the rows' maxima and sums (small), then the scalar.
// With sequence parallelism two gathers and two reduce-scatters forward; backward the same, and the two inputs that were kept cut are gathered again.
// RUN: dt-opt %source/test/models/gpt2/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2},dist-shard,dist-finish-shard))' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?" | FileCheck %s --check-prefix=GPT
// RUN: dt-opt %source/test/models/gpt2/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 sequence-parallel},dist-shard,dist-finish-shard))' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?" | FileCheck %s --check-prefix=GPT-SP
// RUN: dt-opt %source/test/models/llama/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2},dist-shard,dist-finish-shard))' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?" | FileCheck %s --check-prefix=LLAMA
// RUN: dt-opt %source/test/models/llama/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 sequence-parallel},dist-shard,dist-finish-shard))' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?" | FileCheck %s --check-prefix=LLAMA-SP

// GPT: @h.fwd(
// GPT-NEXT: dist.all_reduce sum
// GPT-NEXT: dist.all_reduce sum
// GPT: @h.bwd(
// GPT-NEXT: dist.all_reduce sum
// GPT-NEXT: dist.all_reduce sum
// GPT: @forward.fwd(
// GPT-NEXT: dist.all_reduce sum
// GPT-NEXT: dist.all_reduce max
// GPT-NEXT: dist.all_reduce sum
// GPT-NEXT: dist.all_reduce sum
// GPT: @forward.bwd(
// GPT-NEXT: dist.all_reduce sum
// GPT-NEXT: @loss.denominator
// GPT-NOT: dist

// GPT-SP: @h.fwd(
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.reduce_scatter
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.reduce_scatter
// GPT-SP: @h.bwd(
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.reduce_scatter
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.reduce_scatter
// GPT-SP: @forward.fwd(
// GPT-SP-NEXT: dist.reduce_scatter
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.all_reduce max
// GPT-SP-NEXT: dist.all_reduce sum
// GPT-SP-NEXT: dist.all_reduce sum
// GPT-SP: @forward.bwd(
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: dist.reduce_scatter
// GPT-SP-NEXT: dist.all_gather
// GPT-SP-NEXT: @loss.denominator
// GPT-SP-NOT: dist

// LLAMA: @layers.fwd(
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA: @layers.bwd(
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA: @forward.fwd(
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA-NEXT: dist.all_reduce max
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA: @forward.bwd(
// LLAMA-NEXT: dist.all_reduce sum
// LLAMA-NEXT: @loss.denominator
// LLAMA-NOT: dist

// LLAMA-SP: @layers.fwd(
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.reduce_scatter
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.reduce_scatter
// LLAMA-SP: @layers.bwd(
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.reduce_scatter
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.reduce_scatter
// LLAMA-SP: @forward.fwd(
// LLAMA-SP-NEXT: dist.reduce_scatter
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.all_reduce max
// LLAMA-SP-NEXT: dist.all_reduce sum
// LLAMA-SP-NEXT: dist.all_reduce sum
// LLAMA-SP: @forward.bwd(
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: dist.reduce_scatter
// LLAMA-SP-NEXT: dist.all_gather
// LLAMA-SP-NEXT: @loss.denominator
// LLAMA-SP-NOT: dist
