// A vision transformer, whose 17 tokens no two ranks divide: sequence parallelism changes nothing, and says so. The input wants no gradient, so the patch embedding stays whole.
// RUN: dt-opt %source/test/models/vit/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2},dist-shard,dist-finish-shard))' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?" | FileCheck %s --check-prefix=VIT
// RUN: dt-opt %source/test/models/vit/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 sequence-parallel},dist-shard,dist-finish-shard))' 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?" | FileCheck %s --check-prefix=VIT
// RUN: dt-opt %source/test/models/vit/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 sequence-parallel},dist-shard))' 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// VIT: @layers.fwd(
// VIT-NEXT: dist.all_reduce sum
// VIT-NEXT: dist.all_reduce sum
// VIT: @layers.bwd(
// VIT-NEXT: dist.all_reduce sum
// VIT-NEXT: dist.all_reduce sum
// VIT: @forward.fwd(
// VIT-NEXT: dist.all_reduce max
// VIT-NEXT: dist.all_reduce sum
// VIT-NEXT: dist.all_reduce sum
// VIT: @forward.bwd(
// VIT-NEXT: dist.all_reduce sum
// VIT-NEXT: @loss.denominator

// REMARK: remark: activations between layers stay whole: 2 ranks do not divide the tokens of 'tensor<?x17x64xf32, #nn.dims<batch>>'
// REMARK: remark: 'vit.embeddings.patch_embeddings.projection.weight'{{.*}} stays whole on every rank
