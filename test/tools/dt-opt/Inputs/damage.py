"""damage.py DT_OPT FILE COUNT: changes a file of bytecode at random; each result is read, or refused with errors."""

import pathlib
import random
import subprocess
import sys

tool, source, count = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
whole, made, wrong = source.read_bytes(), source.with_suffix(".damaged.bc"), 0
for number in range(count):
    draw = random.Random(number)
    data = bytearray(whole)
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(4, len(data))  # what does not begin as bytecode is text
        if draw.random() < 0.2:
            del data[at:]
            break
        data[at] = draw.choice((0, 0xFF, draw.randrange(256), data[at] ^ 1 << draw.randrange(8)))
    made.write_bytes(data)
    done = subprocess.run([tool, made], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=60)
    lines = done.stderr.splitlines()
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(lines) or any("error: " not in line for line in lines):
        wrong += 1
        print(f"{number}: ended with {done.returncode}: {done.stderr}")
print(f"{count} files, {wrong} wrong")
