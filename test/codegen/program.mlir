// A whole program by hand: y = relu(x w^T + b), loss = sum (y - t)^2, two parameters trained.
// RUN: dt-opt %s --dt-print-program -o /dev/null | FileCheck %s
// RUN: dt-opt %s --dt-print-program=target=cuda -o /dev/null | FileCheck %s --check-prefix=CUDA

// Sizes, parameters and arena tensors are fields with their shapes.
// CHECK-LABEL: //===--- net.h
// CHECK: class NetSizes {
// CHECK: // number of items 'sample', at most 4
// CHECK-NEXT: int64_t batch;
// CHECK: class NetParameters {
// CHECK: // [8, 16]
// CHECK-NEXT: const float* fc_0_weight;
// CHECK: class NetArena {
// CHECK: // [batch, 8]
// CHECK-NEXT: float* target;

// Kernels open with named pointers; loops are parallel and simd where that is free.
// CHECK-LABEL: //===--- net_kernels.cpp
// CHECK: void net_layer_fwd_relu(
// CHECK: const float *__restrict const z = v1;
// CHECK: #pragma omp parallel for simd schedule(static) if (parallel : 8 * batch > 16384)
// CHECK: dt::rt::maximum(z[i], 0.0f)
// CHECK: void net_forward_fwd_squared_error(
// CHECK: float [[SUM:v[0-9]+]] = 0.0f;
// CHECK: #pragma omp simd reduction(+ : [[SUM]])
// CHECK: void net_forward_bwd_relu_mse_grad(
// CHECK: #pragma omp parallel for schedule(static) if
// CHECK: #pragma omp simd
// CHECK: > 0.0f ? ((v{{[0-9]+}} - target[i * 8 + j]) * 2.0f) * seed[0] : 0.0f

// Functions are structs of named buffers.
// CHECK-LABEL: //===--- net.cpp
// CHECK: context.arena.target = reinterpret_cast<float *>(task.arena + 256);
// CHECK: class NetLayerFwd {
// CHECK: float* z = reinterpret_cast<float *>(scratch);
// CHECK: dt::rt::matmul(x, weight, bias, z, {.batch = 1, .m = size.batch, .n = 8, .k = 16, .transB = true}, 0);
// CHECK: class NetForwardFwd {
// CHECK: NetLayerFwd{.context = context,
// CHECK-NEXT: .x = x,
// CHECK-NEXT: .weight = parameters.fc_0_weight,
// CHECK: class NetForwardBwd {
// CHECK: dt::rt::copy(seed, context.seeds, 1);

// CHECK-LABEL: //===--- program.cpp
// CHECK: {.tensor = {"net.fc.0.weight", dt::rt::DType::F32, 2, kShape_8_16}, .module = 0, .offset = 0, .gradient = 0, .trainable = true, .hasGradient = true, .decay = true, .init = "normal(0,0.5)", .onnx = kOnnx_net_fc_0_weight, .lrFactor = 0.5, .weightDecay = 0.25, .routingRate = 0.125}
// CHECK: .unit = "net", .stage = 0, .item = "sample"
// CHECK: .forward = net_forward, .backward = net_backward, .backwardInput = nullptr, .backwardWeight = nullptr, .wholeBatch = false, .arenaBytes = 1152, .scratchBytes = 256, .parameterBytes = 576, .trainableBytes = 576, .tp = 1, .dp = 1, .ranks = kRanks_net, .zero = 0}
// CHECK: .denominator = net_count
// CHECK: kRows0[7] = {
// CHECK: {dt::rt::TaskKind::Denominator, 0, 1, 0},
// CHECK: {dt::rt::TaskKind::Reduce, 0, 0, 0}};
// CHECK: dt::rt::RankInfo kRanks[1] = {
// CHECK-NEXT: {kRows0}};
// CHECK: double kOptimizerSettings[3] = {
// CHECK-NEXT: 0.5,
// CHECK-NEXT: 0.75,
// CHECK-NEXT: 1e-08}
// CHECK: const dt::rt::ProgramInfo kProgram = {
// CHECK: .ranks = kRanks,
// CHECK-NEXT: .pace = 0,
// CHECK-NEXT: .schedule = "accumulate",
// CHECK-NEXT: .optimizer = {.kind = dt::rt::OptimizerKind{0} /*adamw*/, .settings = kOptimizerSettings, .lr = 0.0625

// CUDA-LABEL: //===--- net_kernels.cu
// CUDA: __global__ void net_forward_bwd_relu_mse_grad(
// CUDA: const int point = (blockIdx.x * int(blockDim.x) + threadIdx.x) * 4;
// CUDA: if (point >= 8 * batch) {
// CUDA-NEXT: return;
// CUDA: const int i = point / 8;
// CUDA: const int j = point % 8;
// CUDA-LABEL: //===--- net.cu
// CUDA: dt::rt::matmul(x, weight, bias, z, {{.*}}, 0, context.stream);
// CUDA: dt::rt::cuda::launch("net_layer_fwd_relu", net_layer_fwd_relu, dt::rt::cuda::gridFor(8 * size.batch, 512), 128, 0, context.stream, z, dt::rt::cuda::out(y, 8 * size.batch), size.batch);

rt.program @tiny batch 8 micro 4 seed 7 pace @net {
  rt.module @net ranks [0] arena 1152 scratch 256 parameters 576 trainable 576 {
    rt.symbol @batch of "sample" max 4
    rt.parameter_decl @"fc.0.weight" : !rt.buffer<f32, [8, 16]> index 0 at 0 trainable gradient decay by 0.25 lr_factor 0.5 routing 0.125 init "normal(0,0.5)" from [#nn.init<"normal(0,0.5)", "net.onnx", "fc.0.weight">]
    rt.parameter_decl @"fc.0.bias" : !rt.buffer<f32, [8]> index 1 at 512 trainable gradient init "zeros" from []
    rt.buffer_decl @x : !rt.buffer<f32, [batch, 16]> at 0 stride 0
    rt.buffer_decl @target : !rt.buffer<f32, [batch, 8]> at 256 stride 0
    rt.buffer_decl @y : !rt.buffer<f32, [batch, 8]> at 512 stride 0
    rt.buffer_decl @loss : !rt.buffer<f32, []> at 1024 stride 0
    rt.buffer_decl @denominator : !rt.buffer<f32, []> at 1088 stride 0
    rt.input "x" @x
    rt.input "target" @target
    rt.output "y" @y
    rt.entry forward @forward.fwd [@x, @target, @y, @loss]
    rt.entry backward @forward.bwd [@x, @target, @y]
    rt.entry denominator @count [@x, @denominator]

    // A layer that is called with its parameters as operands.
    rt.func private @layer.fwd(%x: !rt.buffer<f32, [batch, 16]> {rt.name = "x"}, %w: !rt.buffer<f32, [8, 16]> {rt.name = "weight"},
                               %b: !rt.buffer<f32, [8]> {rt.name = "bias"}, %y: !rt.buffer<f32, [batch, 8]> {rt.name = "y", rt.access = "out"}) attributes {scratch_bytes = 128 : i64} {
      %z = rt.alloc "z" at 0 : !rt.buffer<f32, [batch, 8]>
      rt.matmul %x, %w bias %b to %z {batch = #nn.dim<1>, m = #nn.dim<batch>, n = #nn.dim<8>, k = #nn.dim<16>, trans_b} : !rt.buffer<f32, [batch, 16]>, !rt.buffer<f32, [8, 16]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [batch, 8]>
      rt.kernel @relu [%i < 8*batch] (%in = %z : !rt.buffer<f32, [batch, 8]> as !rt.buffer<f32, [8*batch]>, %out = %y : !rt.buffer<f32, [batch, 8]> as !rt.buffer<f32, [8*batch]>) {
        %v = rt.load %in[%i] : !rt.buffer<f32, [8*batch]>
        %zero = arith.constant 0.0 : f32
        %r = arith.maximumf %v, %zero : f32
        rt.store %r, %out[%i] : !rt.buffer<f32, [8*batch]>
      }
    }
    rt.func @forward.fwd(%x: !rt.buffer<f32, [batch, 16]> {rt.name = "x"}, %t: !rt.buffer<f32, [batch, 8]> {rt.name = "target"},
                         %y: !rt.buffer<f32, [batch, 8]> {rt.name = "y", rt.access = "out"}, %loss: !rt.buffer<f32, []> {rt.name = "loss", rt.access = "out"}) attributes {scratch_bytes = 128 : i64} {
      %w = rt.parameter @"fc.0.weight" : !rt.buffer<f32, [8, 16]>
      %b = rt.parameter @"fc.0.bias" : !rt.buffer<f32, [8]>
      %s = rt.alloc "scratch0" at 0 : !rt.buffer<i8, [128]>
      rt.call @layer.fwd(%x, %w, %b, %y) scratch %s : !rt.buffer<f32, [batch, 16]>, !rt.buffer<f32, [8, 16]>, !rt.buffer<f32, [8]>, !rt.buffer<f32, [batch, 8]>, !rt.buffer<i8, [128]>
      rt.kernel @squared_error [] (%a = %y : !rt.buffer<f32, [batch, 8]> as !rt.buffer<f32, [8*batch]>, %c = %t : !rt.buffer<f32, [batch, 8]> as !rt.buffer<f32, [8*batch]>, %l = %loss : !rt.buffer<f32, []>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %n = rt.size <8*batch>
        %zero = arith.constant 0.0 : f32
        %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 {
          %av = rt.load %a[%i] : !rt.buffer<f32, [8*batch]>
          %cv = rt.load %c[%i] : !rt.buffer<f32, [8*batch]>
          %d = arith.subf %av, %cv : f32
          %q = arith.mulf %d, %d : f32
          %next = arith.addf %acc, %q : f32
          scf.yield %next : f32
        } {rt.simd}
        rt.store %sum, %l[] : !rt.buffer<f32, []>
      }
    }
    rt.func @forward.bwd(%x: !rt.buffer<f32, [batch, 16]> {rt.name = "x"}, %t: !rt.buffer<f32, [batch, 8]> {rt.name = "target"},
                         %y: !rt.buffer<f32, [batch, 8]> {rt.name = "y"}) attributes {scratch_bytes = 256 : i64} {
      %seed = rt.alloc "seed" at 0 : !rt.buffer<f32, []>
      %dz = rt.alloc "dz" at 64 : !rt.buffer<f32, [batch, 8]>
      %dw = rt.gradient @"fc.0.weight" : !rt.buffer<f32, [8, 16]>
      %db = rt.gradient @"fc.0.bias" : !rt.buffer<f32, [8]>
      rt.seed @mse to %seed : !rt.buffer<f32, []>
      rt.kernel @relu_mse_grad [%i < batch, %j < 8] (%a = %y : !rt.buffer<f32, [batch, 8]>, %c = %t : !rt.buffer<f32, [batch, 8]>, %s = %seed : !rt.buffer<f32, []>, %o = %dz : !rt.buffer<f32, [batch, 8]>) {
        %av = rt.load %a[%i, %j] : !rt.buffer<f32, [batch, 8]>
        %cv = rt.load %c[%i, %j] : !rt.buffer<f32, [batch, 8]>
        %sv = rt.load %s[] : !rt.buffer<f32, []>
        %two = arith.constant 2.0 : f32
        %zero = arith.constant 0.0 : f32
        %d = arith.subf %av, %cv : f32
        %m = arith.mulf %d, %two : f32
        %g = arith.mulf %m, %sv : f32
        %p = arith.cmpf ogt, %av, %zero : f32
        %r = arith.select %p, %g, %zero : f32
        rt.store %r, %o[%i, %j] : !rt.buffer<f32, [batch, 8]>
      }
      rt.matmul %dz, %x to %dw {batch = #nn.dim<1>, m = #nn.dim<8>, n = #nn.dim<16>, k = #nn.dim<batch>, trans_a, accumulate} : !rt.buffer<f32, [batch, 8]>, !rt.buffer<f32, [batch, 16]>, !rt.buffer<f32, [8, 16]>
      rt.kernel @bias_grad [%j < 8] (%g = %dz : !rt.buffer<f32, [batch, 8]>, %o = %db : !rt.buffer<f32, [8]>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %n = rt.size <batch>
        %init = rt.load %o[%j] : !rt.buffer<f32, [8]>
        %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %init) -> f32 {
          %v = rt.load %g[%i, %j] : !rt.buffer<f32, [batch, 8]>
          %next = arith.addf %acc, %v : f32
          scf.yield %next : f32
        }
        rt.store %sum, %o[%j] : !rt.buffer<f32, [8]>
      }
    }
    rt.func @count(%x: !rt.buffer<f32, [batch, 16]> {rt.name = "x"}, %n: !rt.buffer<f32, []> {rt.name = "n", rt.access = "out"}) {
      rt.kernel @count [] (%o = %n : !rt.buffer<f32, []>) {
        %s = rt.size <8*batch>
        %i = arith.index_cast %s : index to i64
        %f = arith.sitofp %i : i64 to f32
        rt.store %f, %o[] : !rt.buffer<f32, []>
      }
    }
  }
  rt.loss @mse weight 1.0 of @net @loss over @count @denominator reads [0]
  rt.optimizer {kind = "adamw", settings = {beta1 = 0.5, beta2 = 0.75}, lr = 0.0625, weightDecay = 0.0, clipNorm = 0.0, schedule = "constant"}
  rt.rank 0 {
    rt.task denominator @mse microbatch 0 slot 0
    rt.task denominator @mse microbatch 1 slot 0
    rt.task forward @net microbatch 0 slot 0
    rt.task backward @net microbatch 0 slot 0
    rt.task forward @net microbatch 1 slot 0
    rt.task backward @net microbatch 1 slot 0
    rt.task reduce @net microbatch 0 slot 0
  }
}
