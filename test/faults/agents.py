# ===- agents.py - starts the ranks of a machine ----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Tells ranks what torchrun would tell them and, unless the environment has another
# one, a secret, and waits for them.
# ===-----------------------------------------------------------------------===
"""agents.py FIRST COUNT ALL COMMAND...: starts COMMAND as the ranks from FIRST on, COUNT of ALL; they meet on "left"."""

import os
import subprocess
import sys


def main():
    first, count, ranks = map(int, sys.argv[1:4])
    secret = os.environ.get("DT_SECRET", "a secret of test/faults")
    shared = {"DT_SECRET": secret, "MASTER_ADDR": "left", "MASTER_PORT": "29500", "WORLD_SIZE": f"{ranks}", "LOCAL_WORLD_SIZE": f"{count}"}
    os.chdir(os.getcwd())  # as this machine's mounts have it
    children = [subprocess.Popen(sys.argv[4:], env={**os.environ, **shared, "RANK": f"{first + i}", "LOCAL_RANK": f"{i}"}) for i in range(count)]
    codes = [child.wait() for child in children]
    sys.exit(next((code if code > 0 else 128 - code for code in codes if code), 0))


if __name__ == "__main__":
    main()
