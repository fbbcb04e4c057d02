# ===- cuda_writes.py - a generated kernel that writes beside its results -----===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Generated launches say what their kernels write. A kernel of an emitted program
# is changed to write a row further, which stays in the arena: the double of CUDA
# names it.
# ===-----------------------------------------------------------------------===
"""cuda_writes.py --dt-opt PATH --double DIR: a generated kernel whose results lie a row further is named."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cuda_waits
import golden
import train_model

# The first kernel that writes to its first buffer behind those that it reads, and how it calls that.
KERNEL = re.compile(r"^__global__.* void (\w+)\(.*\n(?:  const .*\n)*?  \w+ \*(?:__restrict )?const \w+ = \w+(?=;)", re.M)


def main():
    arguments = train_model.on_double(__doc__)
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        program = cuda_waits.emit(arguments, work / "whole", cuda_waits.VARIANTS["whole"])
        source = program / "model_kernels.cu"
        text = source.read_text()
        kernel = KERNEL.search(text)
        source.write_text(text[: kernel.end()] + " + 64" + text[kernel.end() :])
        train_model.call(["cmake", "--build", program / "build"], program)
        command = [program / "build/train", "--batch", work / "whole/batch.safetensors", "--threads", "1", "--steps", "1"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=golden.HANGS, env=dict(os.environ, DT_CUDA_DOUBLE_WATCH="1"))
    wanted = rf"error: CUDA double: kernel {kernel[1]} wrote beside its results, at byte \d+ of an allocation of \d+ bytes\n"
    if done.returncode != 1 or not re.fullmatch(wanted, done.stderr):
        sys.exit(f"exit code {done.returncode}, not one line '{wanted}':\n{done.stderr[-1500:]}")
    print(done.stderr, end="")


if __name__ == "__main__":
    main()
