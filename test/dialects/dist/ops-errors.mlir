// RUN: dt-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{'dist.item' op 'sample' always exists and is not declared}}
dist.item "sample" max 3

// -----

// expected-error @+1 {{'dist.item' op needs a max of at least 1}}
dist.item "image" max 0

// -----

dist.item "image" max 3
// expected-error @+1 {{'dist.item' op is the second one named 'image'}}
dist.item "image" max 4

// -----

dist.input "labels" = {tokens = "labels"}
// expected-error @+1 {{'dist.input' op is the second one named 'labels'}}
dist.input "labels" = {tokens = "ids"}

// -----

dist.seed 1
// expected-error @+1 {{'dist.seed' op stands twice; a program has one}}
dist.seed 2

// -----

// expected-error @+1 {{'dist.batch' op needs 1 <= micro <= global}}
dist.batch global 2 micro 4

// -----

// expected-error @+1 {{'dist.module' op holds 'dist.module'; a module has nn.dim, nn.parameter, nn.adapter and functions}}
dist.module @m {
  "dist.module"() <{sym_name = "n"}> ({
  }) : () -> ()
}

// -----

// expected-error @+1 {{'dist.module' op has two inputs named 'x'}}
dist.module @m {
  func.func @forward(%a: tensor<f32> {nn.name = "x"}, %b: tensor<f32> {nn.name = "x"}) { return }
}

// -----

dist.module @m {
}
// expected-error @+1 {{'dist.edge' op names the module @n, which does not exist}}
dist.edge @m "y" to @n "x"

// -----

dist.module @m {
}
// expected-error @+1 {{'dist.edge' op connects a module to itself}}
dist.edge @m "y" to @m "x"

// -----

dist.module @m {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
dist.module @n {
  func.func @forward(%a: tensor<3xf32> {nn.name = "x"}) -> (tensor<3xf32> {nn.name = "y"}) { return %a : tensor<3xf32> }
}
// expected-error @+1 {{'dist.edge' op connects 'y' of 'm', [2] of f32, to 'x' of 'n', [3] of f32; element types and dims must be equal}}
dist.edge @m "y" to @n "x"

// -----

dist.module @m {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
dist.module @n {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
// expected-error @+1 {{'dist.edge' op takes 'z', which is no output of @m}}
dist.edge @m "z" to @n "x"

// -----

dist.module @m {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
dist.module @n {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
// expected-error @+1 {{'dist.edge' op feeds 'z', which is no input of @n}}
dist.edge @m "y" to @n "z"

// -----

dist.module @a {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
dist.module @b {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
dist.edge @a "y" to @b "x"
// expected-error @+1 {{'dist.edge' op is the second one into 'x'}}
dist.edge @a "y" to @b "x"

// -----

// A rank's block of a cut value has its place in one other stage.
dist.module @a attributes {unit = "llm", cp = 2 : i64, ranks = array<i64: 0, 1>} {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
dist.module @b attributes {unit = "llm", stage = 1 : i64, cp = 2 : i64, sub = 2 : i64, ranks = array<i64: 2, 3>} {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
// expected-error @+1 {{'dist.edge' op is cut from 'a' to 'b'; expected stages of one unit with as many ranks, replicas and slices}}
dist.edge @a "y" to @b "x" cut

// -----

dist.module @a attributes {cp = 2 : i64, ranks = array<i64: 0, 1>} {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
dist.module @b attributes {cp = 2 : i64, ranks = array<i64: 2, 3>} {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
// expected-error @+1 {{'dist.edge' op is cut from 'a' to 'b'; expected stages of one unit with as many ranks, replicas and slices}}
dist.edge @a "y" to @b "x" cut

// -----

// Symbols of two modules are compared by the items that they count.
dist.module @a {
  nn.dim @n of "image" max 6
  func.func @forward(%a: tensor<?xf32, #nn.dims<n>> {nn.name = "x"}) -> (tensor<?xf32, #nn.dims<n>> {nn.name = "y"}) { return %a : tensor<?xf32, #nn.dims<n>> }
}
dist.module @b {
  nn.dim @n of "target" max 6
  func.func @forward(%a: tensor<?xf32, #nn.dims<n>> {nn.name = "x"}) -> (tensor<?xf32, #nn.dims<n>> {nn.name = "y"}) { return %a : tensor<?xf32, #nn.dims<n>> }
}
// expected-error @+1 {{connects 'y' of 'a', [image] of f32, to 'x' of 'b', [target] of f32; element types and dims must be equal}}
dist.edge @a "y" to @b "x"

// -----

dist.module @a {
  nn.parameter @w : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "w">
  nn.parameter @v : tensor<3xf32> trainable from #nn.onnx<"a.onnx", "v">
}
// expected-error @+1 {{'dist.tie' op ties 'tensor<2xf32>' to 'tensor<3xf32>'}}
dist.tie @a::@w = @a::@v

// -----

dist.module @a {
  nn.parameter @w : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "w">
}
// expected-error @+1 {{'dist.tie' op names the parameter @a::@x, which does not exist}}
dist.tie @a::@w = @a::@x

// -----

dist.module @a {
  nn.parameter @w : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "w">
}
// expected-error @+1 {{'dist.tie' op ties a parameter to itself}}
dist.tie @a::@w = @a::@w

// -----

dist.module @a {
  nn.parameter @u : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "u">
  nn.parameter @v : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "v">
  nn.parameter @w : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "w">
}
// expected-error @+1 {{'dist.tie' op ties to @a::@v, which is itself tied; name its parameter @a::@w}}
dist.tie @a::@u = @a::@v
dist.tie @a::@v = @a::@w

// -----

dist.module @a {
  nn.parameter @u : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "u">
  nn.parameter @v : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "v">
  nn.parameter @w : tensor<2xf32> trainable from #nn.onnx<"a.onnx", "w">
}
// expected-error @+1 {{'dist.tie' op ties @a::@u a second time}}
dist.tie @a::@u = @a::@v
dist.tie @a::@u = @a::@w

// -----

dist.module @a {
  func.func @forward(%a: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) { return %a : tensor<2xf32> }
}
// expected-error @+1 {{'dist.loss' op needs 'y' to be an output of @a of type tensor<f32>}}
dist.loss "l" in @a numerator "y" weight 1.0

// -----

dist.module @a {
  func.func @forward(%a: tensor<f32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "y"}) { return %a : tensor<f32> }
}
// expected-error @+1 {{'dist.loss' op needs the function @count in @a}}
dist.loss "l" in @a numerator "y" denominator @count weight 1.0

// -----

dist.module @a {
  func.func @forward(%a: tensor<f32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "y"}) { return %a : tensor<f32> }
  func.func @count() { return }
}
// expected-error @+1 {{'dist.loss' op needs @count to give one tensor<f32>}}
dist.loss "l" in @a numerator "y" denominator @count weight 1.0

// -----

// expected-error @+1 {{'dist.optimizer' op lr must be a number that is not negative}}
dist.optimizer adamw lr -1.0

// -----

// expected-error @+1 {{'dist.optimizer' op beta1 must be in [0, 1)}}
dist.optimizer adamw {beta1 = 1.0} lr 1.0

// -----

// expected-error @+1 {{'dist.optimizer' op momentum must be a number that is not negative}}
dist.optimizer sgd {momentum = 1} lr 1.0

// -----

// expected-error @+1 {{'dist.optimizer' op ns_steps must be an integer from 1 to 99}}
dist.optimizer muon {ns_steps = 2.5} lr 1.0

// -----

// expected-error @+1 {{'dist.optimizer' op beta2_decay must be a number that is not positive}}
dist.optimizer adafactor {beta2_decay = 0.5} lr 1.0

// -----

// expected-error @+1 {{'dist.optimizer' op 'beta1' is no setting of sgd}}
dist.optimizer sgd {beta1 = 0.5} lr 1.0

// -----

// expected-error @+1 {{'dist.optimizer' op the kind's own 'beta2' stands beside it: {beta2 = …} lr …}}
dist.optimizer adamw lr 1.0 {beta2 = 0.5}

// -----

// expected-error @+1 {{'dist.optimizer' op average_decay must be in [0, 1)}}
dist.optimizer adamw lr 1.0 {average_decay = 1.0}

// -----

// expected-error @+1 {{'dist.optimizer' op decay_from is a fraction of the steps, 0 to 1}}
dist.optimizer adamw lr 1.0 {decay_from = 2.0}

// -----

// expected-error @+1 {{'dist.optimizer' op warmup and total_steps must not be negative}}
dist.optimizer adamw lr 1.0 {warmup = -1}

// -----

dist.module @m {
  // expected-error @+1 {{'nn.parameter' op attribute 'lr_factor' failed to satisfy constraint: 64-bit float attribute which is finite and not negative}}
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w"> {lr_factor = -1.0}
}

// -----

dist.module @m {
  // expected-error @+1 {{'nn.parameter' op attribute 'weight_decay' failed to satisfy constraint: 64-bit float attribute which is finite and not negative}}
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w"> {weight_decay = 1 : i64}
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'unit' failed to satisfy constraint: string attribute}}
dist.module @a attributes {unit = 1 : i64} {
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'stage' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
dist.module @a attributes {stage = -1 : i64} {
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'dp' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
dist.module @a attributes {dp = 0 : i64} {
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'zero' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 0 whose maximum value is 1}}
dist.module @a attributes {zero = 2 : i64} {
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'sub' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
dist.module @a attributes {sub = 0 : i64} {
}

// -----

// expected-error @+1 {{'dist.module' op 'sub' is not for a module that runs over the whole batch: it has no pieces}}
dist.module @a whole_batch attributes {sub = 2 : i64} {
}

// -----

// expected-error @+1 {{'dist.module' op 'speeds' has 1 numbers for 2 replicas}}
dist.module @a attributes {dp = 2 : i64, speeds = array<i64: 3>} {
}

// -----

// expected-error @+1 {{'dist.module' op attribute 'ranks' failed to satisfy constraint: i64 dense array attribute of ranks, at least one, each once and none below 0}}
dist.module @a attributes {dp = 2 : i64, ranks = array<i64: 1, 1>} {
}

// -----

// expected-error @+1 {{'ranks' names 3 ranks; tp 2, cp 1 and dp 1 make 2}}
dist.module @a attributes {ranks = array<i64: 0, 1, 2>, tp = 2 : i64} {
}

// -----

dist.module @a attributes {ranks = array<i64: 1>} {
}
// expected-error @+1 {{'dist.plan' op needs at least 1 rank}}
dist.plan ranks 0 schedule "1f1b" pace @a reorder "none" bucket 1 depth 1

// -----

dist.module @a attributes {ranks = array<i64: 1>} {
}
// expected-error @+1 {{'dist.plan' op reorder 'some' is none of none, intra, inter, both}}
dist.plan ranks 2 schedule "1f1b" pace @a reorder "some" bucket 1 depth 1

// -----

dist.module @a attributes {ranks = array<i64: 1>} {
}
// expected-error @+1 {{'dist.plan' op needs a bucket of at least 1 byte}}
dist.plan ranks 2 schedule "1f1b" pace @a reorder "none" bucket 0 depth 1

// -----

dist.module @a attributes {ranks = array<i64: 1>} {
}
// expected-error @+1 {{'dist.plan' op needs a depth of at least 1 microbatch}}
dist.plan ranks 2 schedule "1f1b" pace @a reorder "none" bucket 1 depth 0

// -----

dist.module @a attributes {ranks = array<i64: 1>} {
}
// expected-error @+1 {{'dist.plan' op names @b as pace, which is no module or unit}}
dist.plan ranks 2 schedule "1f1b" pace @b reorder "none" bucket 1 depth 1

// -----

// expected-note @+1 {{this module}}
dist.module @a attributes {ranks = array<i64: 1>} {
}
// expected-error @+1 {{'dist.plan' op has 1 ranks, but @a runs on 1}}
dist.plan ranks 1 schedule "1f1b" pace @a reorder "none" bucket 1 depth 1

// -----

dist.module @a {
  func.func @forward(%x: tensor<f32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "y"}) {
    return %x : tensor<f32>
  }
}
// expected-error @+1 {{'dist.loss' op needs a denominator for 'at_least' and 'plus'}}
dist.loss "l" in @a numerator "y" weight 1.0 {plus = 1.0 : f64}

// -----

// expected-error @+1 {{expected string or keyword containing one of the following enum values for attribute 'precision' [bf16, tf32]}}
dist.module @a precision f32 {
}

// -----

// expected-error @+1 {{'dist.module' op 'precision' is not for a module that runs over the whole batch: it is float32}}
dist.module @a whole_batch precision bf16 {
}

// -----

// expected-error @+1 {{expected one of none, vjp, all}}
dist.module @a save some {
}

// -----

// expected-error @+1 {{'dist.module' op has no attribute 'tpp'}}
dist.module @a attributes {tpp = 2 : i64} {
}

// -----

// expected-error @+1 {{'dist.seed' op 'dist.layout' is no attribute of it, or not with this value}}
dist.seed 1 {dist.layout}

// -----

dist.module @a {
  // expected-error @+1 {{'dist.partial_gradient' is a list of #dist.cut}}
  nn.parameter @w : tensor<4xf32> trainable from #nn.onnx<"m.onnx", "w"> {dist.partial_gradient = [1]}
}

// -----

dist.module @a {
  // expected-error @+1 {{'dist.forward' op names @f.bwd, which is no function of @a}}
  dist.forward @f.fwd backward @f.bwd
  nn.parameter @f.bwd : tensor<4xf32> from #nn.onnx<"m.onnx", "w">
  func.func @f.fwd() { return }
}

// -----

dist.module @a {
  dist.forward @f.fwd
  // expected-error @+1 {{'dist.forward' op is the second one of @f.fwd}}
  dist.forward @f.fwd
  func.func @f.fwd() { return }
}

// -----

dist.module @a {
  // expected-error @+1 {{'dist.forward' op has a backward function and half of one}}
  dist.forward @f.fwd backward @f.bwd weight @f.bwd
  func.func @f.fwd() { return }
  func.func @f.bwd() { return }
}

// -----

// expected-error @+1 {{attribute 'dp' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive whose maximum value is 1048576}}
dist.module @a attributes {dp = 4611686018427387904 : i64, tp = 4 : i64, ranks = array<i64: 0>} {
}

// -----

// expected-error @+1 {{argument or result 0: 'dist.layout' is no attribute of it, or not with this value}}
func.func private @f(tensor<4xf32> {dist.layout})

// -----

// expected-error @+1 {{argument or result 0: 'dist.joined' is no attribute of it, or not with this value}}
func.func private @f() -> (tensor<4xf32> {dist.joined})

// -----

// expected-error @+1 {{'dist.measure' op is of 'clip', which is no kind of item}}
dist.measure "frames" of "clip" max 3

// -----

dist.measure "tokens" of "sample" max 3
// expected-error @+1 {{'dist.measure' op is the second one named 'tokens' of 'sample'}}
dist.measure "tokens" of "sample" max 4

// -----

// expected-error @+1 {{'dist.measure' op needs bounds, and a multiple, of at least 1}}
dist.measure "tokens" of "sample" max 0

// -----

// expected-error @+1 {{'dist.measure' op needs bounds, and a multiple, of at least 1}}
dist.measure "tokens" of "sample" max 4 multiple 0

// -----

// Both ends add up the same.
dist.item "image" max 3
dist.module @vision {
  nn.dim @rows of "image" measure "patches" largest 4 max 12
  func.func @forward(%x: tensor<?x4xf32, #nn.dims<rows>> {nn.name = "pixels"}) -> (tensor<?x4xf32, #nn.dims<rows>> {nn.name = "embeds"}) {
    return %x : tensor<?x4xf32, #nn.dims<rows>>
  }
}
dist.module @llm {
  nn.dim @images of "image" max 3
  func.func @forward(%e: tensor<?x4xf32, #nn.dims<images>> {nn.name = "embeds"}) -> (tensor<?x4xf32, #nn.dims<images>> {nn.name = "out"}) {
    return %e : tensor<?x4xf32, #nn.dims<images>>
  }
}
// expected-error @+1 {{connects 'embeds' of 'vision', [image.patches, 4] of f32, to 'embeds' of 'llm', [image, 4] of f32; element types and dims must be equal}}
dist.edge @vision "embeds" to @llm "embeds"

// -----

// expected-error @+1 {{'narrow_residual' is for modules with precision bf16}}
dist.module @a precision tf32 narrow_residual {
}

// -----

// expected-error @+1 {{'narrow_gradients' is for modules with precision bf16}}
dist.module @a narrow_gradients {
}
