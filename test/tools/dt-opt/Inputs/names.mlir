// Names that are no identifiers, and one that is too long for its place.
sched.problem @step ranks 2 microbatches 2 {
  sched.unit @u
  sched.unit @v
  sched.stage @"a<b>&\22c'" of @u on [[0]] forward [10] input [10] weight [10] keeps [64]
  sched.stage @a_stage_whose_name_is_longer_than_there_is_room_for_beside_the_lanes_of_a_picture of @v on [[1]] forward [10] input [10] weight [10] keeps [64]
  sched.edge @"a<b>&\22c'" to @a_stage_whose_name_is_longer_than_there_is_room_for_beside_the_lanes_of_a_picture latency 1
}
