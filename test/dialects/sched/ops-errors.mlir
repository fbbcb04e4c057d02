// RUN: dt-opt %s -verify-diagnostics -split-input-file

// Problems: stages, edges, units.

// expected-error @+1 {{'sched.problem' op has microbatches 0; expected 1 to 1048576}}
sched.problem @p ranks 1 microbatches 0 {
}

// -----

// expected-error @+1 {{'sched.problem' op cannot be: no stages}}
sched.problem @p ranks 1 microbatches 1 {
}

// -----

sched.problem @p ranks 1 microbatches 1 {
  // expected-error @+1 {{'sched.stage' op names the unit 'm', which does not exist}}
  sched.stage @s of @m on [[0]] forward [1]
}

// -----

sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  // expected-error @+1 {{'sched.stage' op has replicas that are not lists of integers}}
  sched.stage @s of @m on [0] forward [1]
}

// -----

// expected-error @+1 {{cannot be: stage s: rank 3 is not one of 1}}
sched.problem @p ranks 1 microbatches 1 {
  sched.unit @m
  sched.stage @s of @m on [[3]] forward [1]
}

// -----

// expected-error @+1 {{cannot be: stage s: forward has 2 values; expected 1, one a microbatch (3) or one a microbatch and replica (3)}}
sched.problem @p ranks 1 microbatches 3 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [1, 2]
}

// -----

// expected-error @+1 {{cannot be: stage s: forward is -1; expected 0 to 2^44}}
sched.problem @p ranks 1 microbatches 3 {
  sched.unit @m
  sched.stage @s of @m on [[0]] forward [-1]
}

// -----

// expected-error @+1 {{cannot be: stages depend on one another in a cycle}}
sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1]
  sched.stage @b of @m on [[1]] forward [1]
  sched.edge @a to @b latency 0
  sched.edge @b to @a latency 0
}

// -----

sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1]
  // expected-error @+1 {{'sched.edge' op names the stage 'c', which does not exist}}
  sched.edge @a to @c latency 0
}

// -----

// expected-error @+1 {{cannot be: edge a -> b: carries a gradient, but a has no backward}}
sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1] no_backward
  sched.stage @b of @m on [[1]] forward [1]
  sched.edge @a to @b latency 0
}

// -----

sched.problem @p ranks 2 microbatches 1 {
  sched.unit @m
  sched.stage @a of @m on [[0]] forward [1]
  sched.stage @b of @m on [[1]] forward [1]
  // expected-error @+1 {{'sched.edge' op has routes that are not lists of 4 integers}}
  sched.edge @a to @b latency 0 routes [[0, 0, 0]]
}

// -----

sched.problem @p ranks 1 microbatches 3 {
  // expected-error @+1 {{'sched.unit' op has span 0; expected 1 to 1048576}}
  sched.unit @m span 0
  sched.stage @s of @m on [[0]] forward [1]
}

// -----

// expected-error @+1 {{cannot be: unit m: a task serves 4 of 3 microbatches}}
sched.problem @p ranks 1 microbatches 3 {
  sched.unit @m span 4
  sched.stage @s of @m on [[0]] forward [1]
}

// -----

// expected-error @+1 {{cannot be: edge a -> b: a task of a serves 3 microbatches, which is no multiple of what one of b serves}}
sched.problem @p ranks 2 microbatches 6 {
  sched.unit @m span 3
  sched.unit @n span 2
  sched.stage @a of @m on [[0]] forward [1]
  sched.stage @b of @n on [[1]] forward [1]
  sched.edge @a to @b latency 0
}
