// RUN: dt-opt %s --dt-print-program -split-input-file -verify-diagnostics -o /dev/null

// expected-error@below {{code generation needs one rt.program: has the module been lowered?}}
module {
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
    rt.func @f(%a: !rt.buffer<f16, [4]>) {
      // expected-error@-1 {{argument 0 has elements of type 'f16', which has no C++ type here}}
    }
  }
  rt.optimizer {kind = "sgd"}
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
    rt.func @f() {
      // expected-error@below {{has no offset: memory is not planned yet}}
      %a = rt.alloc "a" : !rt.buffer<f32, [4]>
    }
  }
  rt.optimizer {kind = "sgd"}
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
    rt.func @f(%a: !rt.buffer<f32, [4]> {rt.access = "inout"}) {
      rt.kernel @k [%i < 4] (%x = %a : !rt.buffer<f32, [4]>) {
        %v = rt.load %x[%i] : !rt.buffer<f32, [4]>
        // expected-error@below {{has no C++ form}}
        %w = math.clampf %v to [%v, %v] : f32
        rt.store %w, %x[%i] : !rt.buffer<f32, [4]>
      }
    }
  }
  rt.optimizer {kind = "sgd"}
}

// -----

// expected-error@below {{has no rt.optimizer}}
rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
  }
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
  }
  // expected-error@below {{field 'kind' cannot be 'nadam'}}
  rt.optimizer {kind = "nadam"}
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
  }
  // expected-error@below {{has an unknown field 'learning_rate'}}
  rt.optimizer {kind = "sgd", learning_rate = 0.1}
}

// -----

rt.program @p batch 1 micro 1 seed 0 pace @m {
  rt.rank 0 {
  }
  rt.module @m ranks [0] arena 0 scratch 0 parameters 0 trainable 0 {
    rt.symbol @a_b max 1
    // expected-error@below {{has the same C++ name as another symbol of its module}}
    rt.symbol @"a.b" max 1
  }
  rt.optimizer {kind = "sgd"}
}
