// Layers that run again: each layer's backward function has its forward's sums again, but for the last one, which only the next layer reads. All are cut alike, and neither gathers what the other keeps cut.
// RUN: dt-opt %source/test/models/llama/recipe.json --plan="model:tp=2,save=none" --emit=mlir --to=shard -o - 2>/dev/null \
// RUN:   | grep -oE "func[.]func.*@[a-z_.]+[(]|dist[.](all|reduce)_[a-z_]*( sum| max)?|call @[a-z.]*" | FileCheck %s
// CHECK: @layers.fwd(
// CHECK-COUNT-2: dist.all_reduce sum
// CHECK-NEXT: @layers.bwd(
// CHECK-COUNT-3: dist.all_reduce sum
// CHECK-NEXT: @forward.fwd(
// CHECK-NEXT: dist.all_reduce sum
// CHECK-COUNT-4: call @layers.fwd
// CHECK: @forward.bwd(
// CHECK-NOT: call @layers.fwd
// CHECK-COUNT-4: call @layers.bwd
// RUN: dt-opt %source/test/models/mllm/recipe.json --plan="vision:tp=3,save=none;llm:;generator:" --emit=mlir --to=shard -o - 2>/dev/null | FileCheck %s --check-prefix=THREE
// THREE: dist.module @vision
// THREE: func.func @forward.bwd
