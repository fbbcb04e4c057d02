# ===- device_memory.py - a cluster that a plan just fits, or does not ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""device_memory.py PLAN CLUSTER MORE: the cluster with as much memory a device as the plan's fullest rank needs, and MORE bytes."""

import json
import sys

plan, cluster = (json.load(open(name)) for name in sys.argv[1:3])
needs = max(unit["predicted"]["memory"]["total"] for unit in plan["units"].values())
for device in cluster["devices"].values():
    device.update(memory=int(needs) + int(sys.argv[3]), reserve=0)
print(json.dumps(cluster))
