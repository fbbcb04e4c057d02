"""Prints a problem of 1296 ranks: 648 replicas of two stages."""

half = 648
print(f"sched.problem @wide ranks {2 * half} microbatches 3 {{\n  sched.unit @m")
for stage in range(2):
    ranks = ", ".join(f"[{stage * half + i}]" for i in range(half))
    print(f"  sched.stage @s{stage} of @m on [{ranks}] forward [10] input [10] weight [10] keeps [64]")
print("  sched.edge @s0 to @s1 latency 0\n}")
