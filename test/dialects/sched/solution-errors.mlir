// RUN: dt-opt %s -verify-diagnostics -split-input-file

// Solutions: rows, messages, activations.

// expected-error @+1 {{'sched.solution' op names the problem @p, which does not exist}}
sched.solution of @p {
}

// -----

sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1]
}
sched.solution of @p {
  // expected-error @+1 {{'sched.rank' op 1 is not one of the problem's 1}}
  sched.rank 0, 1 {
  }
}

// -----

sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[0, 1]] forward [1]
}
sched.solution of @p {
  sched.rank 1 {
  }
  // expected-error @+1 {{'sched.rank' op 1 stands twice}}
  sched.rank 0, 1 {
  }
}

// -----

sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1]
}
sched.solution of @p {
  // expected-error @+1 {{'sched.rank' op is of no rank}}
  "sched.rank"() <{ranks = array<i64>}> ({
  ^bb0:
  }) : () -> ()
}

// -----

sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1]
}
// expected-error @+1 {{is refused: V6: B s mb 0: missing}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @s mb 0
  }
}

// -----

sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1]
}
// expected-error @+1 {{is refused: V6: B s mb 0: more than once}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @s mb 0
    sched.run B @s mb 0
    sched.run B @s mb 0
  }
}

// -----

sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1]
}
// expected-error @+1 {{is refused: V6: rank 0: a task that the problem does not have}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @s mb 1
  }
}

// -----

// A backward before its forward: a wrong dependence.
sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1]
}
// expected-error @+1 {{is refused: V6: tasks wait for one another: F s mb 0 <- B s mb 0 <- F s mb 0}}
sched.solution of @p {
  sched.rank 0 {
    sched.run B @s mb 0
    sched.run F @s mb 0
  }
}

// -----

// Each rank wants the gradient of a microbatch that the other has not run.
sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1]
  sched.stage @b of @m on [[1]] forward [1]
  sched.edge @a to @b latency 0
}
// expected-error @+1 {{is refused: V6: tasks wait for one another: B a mb 0 <- B b mb 0 <- F b mb 1 <- F a mb 1 <- B a mb 0}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.send @a to @b mb 0
    sched.receive @b to @a mb 0 gradient
    sched.run B @a mb 0
    sched.run F @a mb 1
    sched.send @a to @b mb 1
    sched.receive @b to @a mb 1 gradient
    sched.run B @a mb 1
  }
  sched.rank 1 {
    sched.receive @a to @b mb 0
    sched.run F @b mb 0
    sched.receive @a to @b mb 1
    sched.run F @b mb 1
    sched.run B @b mb 0
    sched.send @b to @a mb 0 gradient
    sched.run B @b mb 1
    sched.send @b to @a mb 1 gradient
  }
}

// -----

// Right dependences, wrong order of communication: rank 0 wants to hand over
// microbatch 1 before it takes a gradient that rank 1 wants to hand over first.
sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1]
  sched.stage @b of @m on [[1]] forward [1]
  sched.edge @a to @b latency 0
}
// expected-error @+1 {{is refused: V2: these wait for one another: gradient b -> a mb 0 <- a -> b mb 1 <- gradient b -> a mb 0}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.send @a to @b mb 0
    sched.run F @a mb 1
    sched.send @a to @b mb 1
    sched.receive @b to @a mb 0 gradient
    sched.run B @a mb 0
    sched.receive @b to @a mb 1 gradient
    sched.run B @a mb 1
  }
  sched.rank 1 {
    sched.receive @a to @b mb 0
    sched.run F @b mb 0
    sched.run B @b mb 0
    sched.send @b to @a mb 0 gradient
    sched.receive @a to @b mb 1
    sched.run F @b mb 1
    sched.run B @b mb 1
    sched.send @b to @a mb 1 gradient
  }
}

// -----

// Without tags the order between two ranks is what pairs messages.
sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @m on [[1]] forward [1]
  sched.edge @a to @b latency 0 no_gradient
}
// expected-error @+1 {{is refused: V1: message 0 from rank 0 to rank 1: sent is a -> b mb 0, expected is a -> b mb 1}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run F @a mb 1
    sched.send @a to @b mb 0
    sched.send @a to @b mb 1
  }
  sched.rank 1 {
    sched.receive @a to @b mb 1
    sched.receive @a to @b mb 0
    sched.run F @b mb 0
    sched.run B @b mb 0
    sched.run F @b mb 1
    sched.run B @b mb 1
  }
}

// -----

sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @m on [[1]] forward [1]
  sched.edge @a to @b latency 0 no_gradient
}
// expected-error @+1 {{is refused: V1: a -> b mb 0: rank 1 never receives it}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.send @a to @b mb 0
  }
  sched.rank 1 {
    sched.run F @b mb 0
    sched.run B @b mb 0
  }
}

// -----

// A task before the message that it needs.
sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @m on [[1]] forward [1]
  sched.edge @a to @b latency 0 no_gradient
}
// expected-error @+1 {{is refused: V2: these wait for one another: F b mb 0 <- a -> b mb 0 <- F b mb 0}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.send @a to @b mb 0
  }
  sched.rank 1 {
    sched.run F @b mb 0
    sched.receive @a to @b mb 0
    sched.run B @b mb 0
  }
}

// -----

// Two ranks of a tensor-parallel replica with their tasks in different orders.
sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m
  sched.stage @a of @m on [[0, 1]] forward [1] no_backward
}
// expected-error @+1 {{is refused: V6: tasks wait for one another: F a mb 0 <- F a mb 1 <- F a mb 0}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run F @a mb 1
  }
  sched.rank 1 {
    sched.run F @a mb 1
    sched.run F @a mb 0
  }
}

// -----

sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @m on [[1]] forward [1] no_backward
  sched.edge @a to @b latency 0 no_gradient depth 1
}
// expected-error @+1 {{is refused: V4: rank 1: a -> b mb 1 comes while 1 microbatches wait, as many as there are buffers for}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.send @a to @b mb 0
    sched.run F @a mb 1
    sched.send @a to @b mb 1
  }
  sched.rank 1 {
    sched.receive @a to @b mb 0
    sched.receive @a to @b mb 1
    sched.run F @b mb 0
    sched.run F @b mb 1
  }
}

// -----

sched.problem @p ranks 1 microbatches 2 memory [150] {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1] keeps [100]
}
// expected-error @+1 {{is refused: V5: rank 0: 200 bytes of activations after F s mb 1; the bound is 150}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @s mb 0
    sched.run F @s mb 1
    sched.run B @s mb 0
    sched.run B @s mb 1
  }
}

// -----

// Two gradients of weights that wait have two slots, also when nothing else is
// kept any more.
sched.problem @p ranks 1 microbatches 2 memory [190] {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1] input [1] weight [1] keeps [100] weight_keeps [50] late_keeps [50]
}
// expected-error @+1 {{is refused: V5: rank 0: 200 bytes of activations after I s mb 1; the bound is 190}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @s mb 0
    sched.run I @s mb 0
    sched.run F @s mb 1
    sched.run I @s mb 1
    sched.run W @s mb 0
    sched.run W @s mb 1
  }
}

// -----

sched.problem @p ranks 1 microbatches 2 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1] slots 1
}
// expected-error @+1 {{is refused: V5: rank 0: F s mb 1 is microbatch 2 in flight; the stage has 1 slots}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @s mb 0
    sched.run F @s mb 1
    sched.run B @s mb 0
    sched.run B @s mb 1
  }
}

// -----

sched.problem @p ranks 1 microbatches 2 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1]
}
sched.solution of @p {
  // expected-error @+1 {{'sched.rank' op 0: F s mb 1: slot 0 still holds microbatch 0}}
  sched.rank 0 {
    sched.run F @s mb 0 slot 0
    sched.run F @s mb 1 slot 0
    sched.run B @s mb 0 slot 0
    sched.run B @s mb 1 slot 0
  }
}

// -----

sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @m on [[1]] forward [1] no_backward
  sched.edge @a to @b latency 0 no_gradient
}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    // expected-note @+1 {{images there}}
    sched.send @a to @b mb 0 rows "images"
  }
  sched.rank 1 {
    // expected-error @+1 {{V7: the two ends of a message have different rows: targets here}}
    sched.receive @a to @b mb 0 rows "targets"
    sched.run F @b mb 0
  }
}

// -----

// Nothing is sent for microbatch 1.
sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @m on [[1]] forward [1] no_backward
  sched.edge @a to @b latency 0 no_gradient routes [[0, 0, 0, 0]]
}
// expected-error @+1 {{is refused: V7: rank 0: a -> b mb 1: there is nothing to send}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.send @a to @b mb 0
    sched.run F @a mb 1
    sched.send @a to @b mb 1
  }
  sched.rank 1 {
    sched.receive @a to @b mb 0
    sched.run F @b mb 0
    sched.run F @b mb 1
  }
}

// -----

// A task's backward comes after all gradients of what it serves.
sched.problem @p ranks 2 microbatches 2 {
  sched.unit @m span 2
  sched.unit @n
  sched.stage @a of @m on [[0]] forward [1]
  sched.stage @b of @n on [[1]] forward [1]
  sched.edge @a to @b latency 0
}
// expected-error @+1 {{V2: these wait for one another: }}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.send @a to @b mb 0
    sched.send @a to @b mb 1
    sched.receive @b to @a mb 0 gradient
    sched.run B @a mb 0
    sched.receive @b to @a mb 1 gradient
  }
  sched.rank 1 {
    sched.receive @a to @b mb 0
    sched.run F @b mb 0
    sched.run B @b mb 0
    sched.send @b to @a mb 0 gradient
    sched.receive @a to @b mb 1
    sched.run F @b mb 1
    sched.run B @b mb 1
    sched.send @b to @a mb 1 gradient
  }
}

// -----

// What nothing comes back to is no further ahead than its unit may be.
sched.problem @p ranks 1 microbatches 2 {
  sched.unit @m run_ahead 0
  sched.unit @n
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @n on [[0]] forward [1]
  sched.edge @a to @b latency 0 no_gradient
}
// expected-error @+1 {{V6: tasks wait for one another: F a mb 1 <- F b mb 0 <- F a mb 1}}
sched.solution of @p {
  sched.rank 0 {
    sched.run F @a mb 0
    sched.run F @a mb 1
    sched.run F @b mb 0
    sched.run B @b mb 0
    sched.run F @b mb 1
    sched.run B @b mb 1
  }
}
