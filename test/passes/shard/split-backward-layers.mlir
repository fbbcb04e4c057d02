// A real model's layers, all products and collectives of the halves in order: the input half has a product with each weight, the weight half one
// product of gradients for each, and neither computes the other's again. A collective goes where its result is used: gathers of what sequence
// parallelism keeps cut come with the weights' gradients.
// RUN: dt-opt %source/test/models/mllm/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(nn-split-backward{all}),nn-verify-differentiated)' \
// RUN:   | grep -oE "dist.module @[a-z]+|func[.]func.*@[a-z_.]+[(]|(dist[.](all|reduce)_[a-z_]*|nn[.]linear[a-z_]*|nn[.]attention[a-z_]*) |in_out" | FileCheck %s --check-prefix=ONE
// RUN: dt-opt %source/test/models/mllm/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2},dist-shard,dist-finish-shard,nn-split-backward{all}),nn-verify-differentiated)' \
// RUN:   | grep -oE "dist.module @[a-z]+|func[.]func.*@[a-z_.]+[(]|(dist[.](all|reduce)_[a-z_]*|nn[.]linear[a-z_]*|nn[.]attention[a-z_]*) |in_out" | FileCheck %s --check-prefix=TP
// RUN: dt-opt %source/test/models/mllm/recipe.json --pass-pipeline='builtin.module(dt-import,dt-modules,dt-outline,dt-differentiate,dist.module(dist-prepare-shard{tp=2 sequence-parallel},dist-shard,dist-finish-shard,nn-split-backward{all}),nn-verify-differentiated)' \
// RUN:   | grep -oE "dist.module @[a-z]+|func[.]func.*@[a-z_.]+[(]|(dist[.](all|reduce)_[a-z_]*|nn[.]linear[a-z_]*|nn[.]attention[a-z_]*) |in_out" | FileCheck %s --check-prefix=SP

// ONE: dist.module @llm
// ONE: @layers.bwd.input(
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: nn.attention_grad
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: @layers.bwd.weight(
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: @forward.fwd(
// ONE: @forward.bwd.input(
// ONE-NEXT: nn.linear
// ONE-NEXT: in_out
// ONE-NEXT: @forward.bwd.weight(
// ONE-NEXT: nn.linear_dw
// ONE-NEXT: @text.denominator(

// TP: dist.module @llm
// TP: @layers.bwd.input(
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: dist.all_reduce
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: nn.attention_grad
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: dist.all_reduce
// TP-NEXT: @layers.bwd.weight(
// TP-NEXT: nn.linear_dw
// TP-NEXT: nn.linear_dw
// TP-NEXT: nn.linear_dw
// TP-NEXT: nn.linear_dw
// TP-NEXT: nn.linear_dw
// TP-NEXT: nn.linear_dw
// TP-NEXT: nn.linear_dw
// TP-NEXT: @forward.fwd(
// TP: @forward.bwd.input(
// TP-NEXT: nn.linear
// TP-NEXT: in_out
// TP-NEXT: dist.all_reduce
// TP-NEXT: @forward.bwd.weight(
// TP-NEXT: nn.linear_dw
// TP-NEXT: @text.denominator(

// SP: dist.module @llm
// SP: @layers.bwd.input(
// SP-NEXT: dist.all_gather
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: dist.reduce_scatter
// SP-NEXT: dist.all_gather
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: nn.attention_grad
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: dist.reduce_scatter
// SP-NEXT: @layers.bwd.weight(
// SP-NEXT: nn.linear_dw
// SP-NEXT: dist.all_gather
// SP-NEXT: nn.linear_dw
// SP-NEXT: nn.linear_dw
// SP-NEXT: nn.linear_dw
// SP-NEXT: dist.all_gather
// SP-NEXT: nn.linear_dw
// SP-NEXT: nn.linear_dw
// SP-NEXT: nn.linear_dw
// SP-NEXT: @forward.fwd(
// SP: @forward.bwd.input(
// SP-NEXT: nn.linear
// SP-NEXT: in_out
// SP-NEXT: dist.reduce_scatter
// SP-NEXT: dist.all_gather
// SP-NEXT: @forward.bwd.weight(
// SP-NEXT: dist.all_gather
// SP-NEXT: nn.linear_dw
// SP-NEXT: @text.denominator(
