// Tokens over several ranks (docs/context.md). Grouped queries: keys and values are gathered in both directions, their gradients scattered, and nothing else of a layer travels; the loss is a partial sum.
// RUN: dt-opt %source/test/models/llama/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=4},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?|stripes = .*" | FileCheck %s --check-prefix=KEYS
// As many keys as queries: heads for tokens on four ranks. Positions that are looked up by the rows of a table are a slice of it.
// RUN: dt-opt %source/test/models/gpt2/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=4},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?|stripes = .*" | FileCheck %s --check-prefix=HEADS
// Beside tensor parallelism: heads are cut by the inner axis, tokens by the outer one. Parameters are cut by the inner axis only; all gradients are partial sums over the outer one.
// RUN: dt-opt %source/test/models/llama/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=2 tp=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null \
// RUN:   | FileCheck %s --check-prefix=BOTH
// With sequence parallelism stripes lie inside of the part that an inner rank has.
// RUN: dt-opt %source/test/models/llama/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=2 tp=2 sequence-parallel},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null \
// RUN:   | FileCheck %s --check-prefix=SEQUENCE
// A number of tokens that the ranks do not divide stays whole.
// RUN: dt-opt %source/test/models/clip/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WHOLE
// Queries that see all keys are one run of tokens, and need no place.
// RUN: dt-opt %source/test/models/extra/dit/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{cp=2},dist-shard,dist-finish-shard),nn-verify-differentiated)' 2>/dev/null \
// RUN:   | FileCheck %s --check-prefix=RUNS

// KEYS: @layers.fwd(
// KEYS-NEXT: dist.all_gather
// KEYS-NEXT: dist.all_gather
// KEYS-NEXT: stripes = #nn.stripes<chunk = 1, over = 4, stride = 1>
// KEYS-NEXT: @layers.bwd(
// KEYS-NEXT: dist.all_gather
// KEYS-NEXT: dist.all_gather
// KEYS-NEXT: stripes = #nn.stripes<chunk = 1, over = 4, stride = 1>
// KEYS-NEXT: dist.reduce_scatter
// KEYS-NEXT: dist.reduce_scatter
// KEYS-NEXT: @forward.fwd(
// KEYS-NEXT: dist.all_reduce sum
// KEYS-NEXT: @forward.bwd(
// KEYS-NEXT: @loss.denominator
// KEYS-NOT: dist

// HEADS: @h.fwd(
// HEADS-NEXT: dist.all_to_all
// HEADS-NEXT: dist.all_to_all
// HEADS-NEXT: dist.all_to_all
// HEADS-NEXT: dist.all_to_all
// HEADS-NEXT: @h.bwd(
// HEADS-NOT: {{dist.(all_reduce|all_gather|reduce_scatter)|stripes}}
// HEADS: @forward.fwd(

// BOTH: nn.parameter @model.layers.0.self_attn.q_proj.weight : tensor<32x64xf32> {{.*}}{dist.layout = #dist.layout<64x64, [#dist.cut<0, 32, 2, 1>]>, dist.partial_gradient = [#dist.cut<1, 1, 2, 2>]}
// BOTH: nn.parameter @model.layers.0.input_layernorm.weight : tensor<64xf32> {{.*}}{dist.partial_gradient = [#dist.cut<1, 1, 2, 2>]}
// BOTH: @layers.fwd
// BOTH: dist.all_gather {{.*}} axis 1 chunk 2 over 2 stride 2 : tensor<?x16x1x16xf32, #nn.dims<batch>> to tensor<?x32x1x16xf32
// BOTH: nn.attention {{.*}}causal{{.*}}stripes = #nn.stripes<chunk = 2, over = 2, stride = 2>} : tensor<?x16x2x16xf32
// BOTH: dist.all_reduce sum {{.*}} over 2 stride 1 : tensor<?x16x64xf32
// BOTH: dist.all_reduce sum {{.*}} over 2 stride 1 : tensor<?x16x64xf32
// BOTH: return

// SEQUENCE: @layers.fwd(%arg0: tensor<?x8x64xf32
// SEQUENCE: dist.all_gather {{.*}} axis 1 chunk 8 over 2 stride 1 : tensor<?x8x64xf32, #nn.dims<batch>> to tensor<?x16x64xf32
// SEQUENCE: dist.all_gather {{.*}} axis 1 chunk 1 over 2 stride 2 : tensor<?x16x1x16xf32

// WHOLE: 2 ranks do not divide the tokens of
// WHOLE: nn.attention {{.*}} {scale = 2.500000e-01 : f64} : tensor<?x17x4x16xf32
// WHOLE: nn.attention {{.*}}stripes = #nn.stripes<chunk = 1, over = 2, stride = 1>} : tensor<?x8x4x16xf32
// RUNS: dist.all_gather {{.*}} axis 1 chunk 8 over 2
// RUNS: nn.attention {{.*}} {scale = {{[0-9.e+-]+}} : f64} : tensor<?x8x
