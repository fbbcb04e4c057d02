# ===- remove_waits.py - no wait of a program can be left out ---------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""remove_waits.py PROGRAM: the lowered program with one wait less, for each of its waits; the verifier must find that something is not ordered any more."""

import pathlib
import re
import subprocess
import sys
import tempfile


def mutants(lines):
    """The lines of each program, and what was taken out."""
    for i, line in enumerate(lines):
        if event := re.search(r"rt\.wait (%\w+) ", line):
            # What is recorded for nobody goes as well: that would be an error of another kind.
            record = next(j for j in range(i, -1, -1) if f"{event[1]} = rt.record" in lines[j])
            yield [other for j, other in enumerate(lines) if j not in (i, record)], line
        elif waits := re.search(r" waits \[(.*?)\]", line):
            rows = waits[1].split(", ")
            for row in rows:
                left = ", ".join(other for other in rows if other != row)
                text = line.replace(waits[0], f" waits [{left}]" if left else "")
                yield lines[:i] + [text] + lines[i + 1 :], f"{row} of {line}"


def verify(text):
    """The lines with errors of order."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        done = subprocess.run(["dt-opt", file.name, "--rt-verify-lowered", "-split-input-file", "-o", "/dev/null"], capture_output=True, text=True)
    order = r":(\d+):\d+: error: .*(touches bytes of|does not wait for what|is not waited for)"
    return done.returncode, [int(match[1]) for match in re.finditer(order, done.stderr)]


def main():
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    if verify("\n".join(lines)) != (0, []):
        sys.exit("the program itself is refused")
    found, texts, ends = [], [], []
    for program, what in mutants(lines):
        texts += program + ["// -----"]
        found.append(what.strip())
        ends.append(len(texts))
    _, errors = verify("\n".join(texts))
    unseen = [what for what, begin, end in zip(found, [0] + ends, ends) if not any(begin < line <= end for line in errors)]
    print(f"{sum('rt.wait' in what for what in found)} waits in functions, {sum('rt.task' in what for what in found)} of rows, {len(unseen)} can be left out")
    for what in unseen:
        print("  " + what)


if __name__ == "__main__":
    main()
