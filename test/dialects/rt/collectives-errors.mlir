// RUN: dt-opt %s -verify-diagnostics -split-input-file

rt.func @f(%a: !rt.buffer<f32, [8]>) {
  // expected-error @+1 {{needs ranks and a stride of at least 1}}
  rt.collective all_reduce by sum %a to %a over 0 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<i32, [8]>) {
  // expected-error @+1 {{combines f32, bf16 or i64, not '!rt.buffer<i32, [8]>'}}
  rt.collective all_reduce by sum %a to %a over 2 stride 1 : !rt.buffer<i32, [8]>, !rt.buffer<i32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [4]>) {
  // expected-error @+1 {{expected a result of 8 elements, got 4}}
  rt.collective all_reduce by sum %a to %b over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [4]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [16]>) {
  // expected-error @+1 {{expected a result of 8 elements, got 16}}
  rt.collective shift %a to %b over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [16]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<i64, [16]>) {
  // expected-error @+1 {{element types differ}}
  rt.collective all_gather %a to %b chunk <4> over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<i64, [16]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [8]>) {
  // expected-error @+1 {{expected a result of 16 elements, got 8}}
  rt.collective all_gather %a to %b chunk <4> over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [16]>) {
  // expected-error @+1 {{chunk 3 does not divide 8 elements}}
  rt.collective all_gather %a to %b chunk <3> over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [16]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [16]>) {
  // expected-error @+1 {{expected a size such as}}
  rt.collective all_gather %a to %b chunk <4*> over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [16]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [16]>) {
  // expected-error @+1 {{expected a result of 4 elements, got 8}}
  rt.collective reduce_scatter %a to %a chunk <4> over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<i1, [8]>, %b: !rt.buffer<i1, [4]>) {
  // expected-error @+1 {{combines f32, bf16 or i64}}
  rt.collective reduce_scatter %a to %b chunk <4> over 2 stride 1 : !rt.buffer<i1, [8]>, !rt.buffer<i1, [4]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [8]>) {
  // expected-error @+1 {{3 ranks do not divide 8 elements}}
  rt.collective all_to_all %a to %b over 3 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [16]>) {
  // expected-error @+1 {{combines nothing}}
  rt.collective all_gather by sum %a to %b over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [16]>
}

// -----

rt.func @f(%a: !rt.buffer<i64, [2]>) {
  // expected-error @+1 {{writes one i64, not '!rt.buffer<i64, [2]>'}}
  rt.rank_place %a over 2 stride 1 : !rt.buffer<i64, [2]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [8]>, %b: !rt.buffer<f32, [8]>) {
  // expected-error @+1 {{has a pitch, which is of chunks of a kind that either gathers or scatters}}
  rt.collective all_reduce %a to %b chunk <4> pitch <8> over 2 stride 1 : !rt.buffer<f32, [8]>, !rt.buffer<f32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [12]>, %b: !rt.buffer<f32, [8]>) {
  // expected-error @+1 {{has a pitch, which is of chunks of a kind that either gathers or scatters}}
  rt.collective all_gather %a to %b pitch <8> over 2 stride 1 : !rt.buffer<f32, [12]>, !rt.buffer<f32, [8]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [12]>, %b: !rt.buffer<f32, [9]>) {
  // expected-error @+1 {{2 ranks do not divide 9 elements}}
  rt.collective all_gather %a to %b chunk <4> pitch <8> over 2 stride 1 : !rt.buffer<f32, [12]>, !rt.buffer<f32, [9]>
}

// -----

rt.func @f(%a: !rt.buffer<f32, [16]>, %b: !rt.buffer<f32, [12]>) {
  // expected-error @+1 {{expected a size such as}}
  rt.collective reduce_scatter %a to %b chunk <4> pitch <8*> over 2 stride 1 : !rt.buffer<f32, [16]>, !rt.buffer<f32, [12]>
}
