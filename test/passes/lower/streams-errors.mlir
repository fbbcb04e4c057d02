// Streams and events (docs/streams.md), wrong in each way that there is. Here %x and %y are arguments, so their places are the caller's.
// RUN: dt-opt %s --rt-verify-lowered -verify-diagnostics -split-input-file

// Right: the sum runs beside the copy that it has nothing to do with.
rt.func @right(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}, %y: !rt.buffer<f32, [8]>, %z: !rt.buffer<f32, [8]> {rt.access = "out"}) {
  rt.fill %x with 1.0 : f32 : !rt.buffer<f32, [8]>
  %made = rt.record on compute
  rt.wait %made on tp
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %summed = rt.record on tp
  rt.copy %y to %z : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  rt.wait %summed on compute
}

// -----

rt.func @no_wait(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}, %z: !rt.buffer<f32, [8]> {rt.access = "out"}) {
  %e = rt.record on compute
  rt.wait %e on tp
  // expected-note @+1 {{which is this}}
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %summed = rt.record on tp
  // expected-error @+1 {{touches bytes of an op on stream tp that may still run}}
  rt.copy %x to %z : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  rt.wait %summed on compute
}

// -----

rt.func @record_too_early(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  %e = rt.record on compute
  // expected-note @+1 {{which is this}}
  rt.fill %x with 1.0 : f32 : !rt.buffer<f32, [8]>
  rt.wait %e on tp
  // expected-error @+1 {{touches bytes of an op on stream compute that may still run}}
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %summed = rt.record on tp
  rt.wait %summed on compute
}

// -----

// The event knows the first sum only.
rt.func @record_before_second(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}, %y: !rt.buffer<f32, [8]> {rt.access = "inout"}, %z: !rt.buffer<f32, [8]> {rt.access = "out"}) {
  %e = rt.record on compute
  rt.wait %e on tp
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %first = rt.record on tp
  // expected-note @+1 {{which is this}}
  rt.collective all_reduce by sum %y to %y over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %second = rt.record on tp
  rt.wait %first on compute
  // expected-error @+1 {{touches bytes of an op on stream tp that may still run}}
  rt.copy %y to %z : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  rt.wait %second on compute
}

// -----

// An event is recorded once: it is a value.
rt.func @wait_before_record(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  // expected-error @+1 {{operand #0 does not dominate this use}}
  rt.wait %e on tp
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  // expected-note @+1 {{operand defined here}}
  %e = rt.record on compute
}

// -----

rt.func @nobody_waits(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  rt.collective all_reduce by sum %x to %x over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  // expected-error @+1 {{is an event that nothing waits for}}
  %e = rt.record on compute
}

// -----

rt.func @wrong_stream(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  rt.fill %x with 1.0 : f32 : !rt.buffer<f32, [8]>
  // expected-note @+1 {{recorded here}}
  %e = rt.record on tp
  // expected-error @+1 {{waits for its own stream, which is always in order}}
  rt.wait %e on tp
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
}

// -----

// Whoever called had work on the compute stream, which made %x.
rt.func @entry(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  // expected-error @+1 {{does not wait for what the function's caller has on the compute stream}}
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %summed = rt.record on tp
  rt.wait %summed on compute
}

// -----

rt.func @exit(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  %e = rt.record on compute
  rt.wait %e on tp
  // expected-error @+1 {{is not waited for by the compute stream before the function ends}}
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
}

// -----

// The other local is dead in the order of the ops, not in that of the streams.
rt.func @place_used_again(%x: !rt.buffer<f32, [16]>, %y: !rt.buffer<f32, [16]> {rt.access = "out"}, %z: !rt.buffer<f32, [16]> {rt.access = "out"}) attributes {scratch_bytes = 64 : i64} {
  %a = rt.alloc "a" at 0 : <f32, [16]>
  %b = rt.alloc "b" at 0 : <f32, [16]>
  rt.copy %x to %a : !rt.buffer<f32, [16]>, !rt.buffer<f32, [16]>
  %made = rt.record on compute
  rt.wait %made on tp
  // expected-note @+1 {{which is this}}
  rt.collective all_reduce by sum %a to %y over 2 stride 1 on tp : !rt.buffer<f32, [16]>, !rt.buffer<f32, [16]>
  %summed = rt.record on tp
  // expected-error @+1 {{touches bytes of an op on stream tp that may still run}}
  rt.fill %b with 0.0 : f32 : !rt.buffer<f32, [16]>
  rt.copy %b to %z : !rt.buffer<f32, [16]>, !rt.buffer<f32, [16]>
  rt.wait %summed on compute
}

// -----

// Half of what is on its way.
rt.func @part(%x: !rt.buffer<f32, [16]> {rt.access = "inout"}, %z: !rt.buffer<f32, [8]> {rt.access = "out"}) {
  %half = rt.view %x {offset = #nn.dim<8>} : !rt.buffer<f32, [16]> to !rt.buffer<f32, [8]>
  %e = rt.record on compute
  rt.wait %e on tp
  // expected-note @+1 {{which is this}}
  rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : !rt.buffer<f32, [16]>, !rt.buffer<f32, [16]>
  %summed = rt.record on tp
  // expected-error @+1 {{touches bytes of an op on stream tp that may still run}}
  rt.copy %half to %z : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  rt.wait %summed on compute
}

// -----

// A callee writes what it was given.
rt.func @callee(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}) {
  rt.fill %x with 1.0 : f32 : !rt.buffer<f32, [8]>
}
rt.func @call(%x: !rt.buffer<f32, [8]> {rt.access = "inout"}, %y: !rt.buffer<f32, [8]> {rt.access = "out"}) {
  %e = rt.record on compute
  rt.wait %e on tp
  // expected-note @+1 {{which is this}}
  rt.collective all_reduce by sum %x to %y over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %summed = rt.record on tp
  // expected-error @+1 {{touches bytes of an op on stream tp that may still run}}
  rt.call @callee(%x) : !rt.buffer<f32, [8]>
  rt.wait %summed on compute
}

// -----

nn.parameter @w : tensor<8xf32> trainable from #nn.onnx<"m.onnx", "w">
rt.func @gradient() {
  %g = rt.gradient @w : !rt.buffer<f32, [8]>
  %e = rt.record on compute
  rt.wait %e on tp
  // expected-error @+1 {{touches a gradient, which sums over replicas expect on the compute stream}}
  rt.collective all_reduce by sum %g to %g over 2 stride 1 on tp : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
  %summed = rt.record on tp
  rt.wait %summed on compute
}
