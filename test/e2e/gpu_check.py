# ===- gpu_check.py - tools/gpu-check, on the double of CUDA ------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A pack of one model, on one rank and on two, passes all that can be looked at
# without a GPU, under a Python that has its standard library only. Wrong values in
# it are found, and what profilers print is understood.
# ===-----------------------------------------------------------------------===
"""gpu_check.py --dt-opt PATH --double DIR: packs a model, checks the pack, and spoils it."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np
from safetensors.numpy import load_file, save_file

import train_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/gpu-check"
NSYS = """Processing [kernels.sqlite] with [cuda_gpu_kern_sum.py]...
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,3000,2,1500.0,1500.0,1000,2000,500.0,"void forward(float*, int)"
25.0,1000,1,1000.0,1000.0,1000,1000,0.0,backward
"""
NCU = """==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","forward","gpu__time_duration.sum","ns","1,000"
"1","1","forward","gpu__time_duration.sum","ns","2,000"
"""
RACES = """========= COMPUTE-SANITIZER
step 1/1  loss 8.6501
========= Error: Race reported between Write access at cudnn_generated_flash_bprop_0+0x50f0
=========     and Read access at cudnn_generated_flash_bprop_0+0x2460 [448 hazards]
========= 
========= Error: Race reported between Write access at m_bwd_reduce(float *, long)+0x50
=========     and Read access at m_bwd_reduce(float *, long)+0x60 [1 hazards]
========= 
========= Uninitialized __global__ memory read of size 2 bytes
=========     at void cudnn::engines_precompiled::nhwcToNchwKernel<float>(float *)+0x1710
=========         Host Frame: cudnnBackendExecute [0x1] in libcudnn.so.9
========= 
========= Uninitialized __global__ memory read of size 2 bytes
=========     at m_fwd_add(const float *)+0x10
=========         Host Frame: cudnnBackendExecute [0x1] in libcudnn.so.9
========= 
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""


def load_tool():
    loader = importlib.machinery.SourceFileLoader("gpu_check_tool", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def expect_failure(tool, body, what):
    try:
        sys.exit(f"{what}: not found: {body()}")
    except tool.Failure as failure:
        print(f"found: {what}: {str(failure)[:100]}")


def spoil(tool, folder):
    """Each wrong value in turn, with the program that is built already."""
    case = lambda: tool.Case(folder, types.SimpleNamespace())
    case().golden()
    want = load_file(folder / "want.safetensors")
    for name in ("outputs.model.logits", next(n for n in want if n.startswith("gradients.") and n.endswith("weight"))):
        save_file({**want, name: want[name] * np.float32(1.01)}, folder / "want.safetensors")
        expect_failure(tool, case().golden, name)
    save_file(want, folder / "want.safetensors")
    facts = json.loads((folder / "case.json").read_text())
    facts["curve"]["want"][-1] *= 1.01
    (folder / "case.json").write_text(json.dumps(facts))
    expect_failure(tool, case().golden, "the last loss")
    memory = json.loads((folder / "memory.json").read_text())
    memory["ranks"][0]["scratch"] += 64
    (folder / "memory.json").write_text(json.dumps(memory))
    after = case()
    try:
        after.golden()
    except tool.Failure:
        pass  # the loss, still
    expect_failure(tool, after.allocated, "memory")


def check_reports(tool):
    """By the kernel, not by who started it."""
    own, libraries = tool.reports(RACES)
    if ["m_bwd_reduce" in own[0], "m_fwd_add" in own[1], len(own), len(libraries)] != [True, True, 2, 2]:
        sys.exit(f"reports {own} and {libraries}")


def check_profiles(tool, folder):
    for text, name, column, count, want in ((NSYS, "Name", "Total Time", "Instances", {"void forward(float*, int)": (2, 3e-6), "backward": (1, 1e-6)}),
                                            (NCU, "Kernel Name", "Metric Value", None, {"forward": (2, 3e-6)})):
        case = tool.Case(folder, types.SimpleNamespace())
        case.add_times("profile", name, column, 1e-9, text, count)
        have = {row["name"]: (row["count"], row["seconds"]) for row in case.sums()}
        if have.keys() != want.keys() or any(have[k][0] != want[k][0] or abs(have[k][1] - want[k][1]) > 1e-12 for k in want):
            sys.exit(f"times {have}, expected {want}")


def main():
    arguments = train_model.on_double(__doc__)
    tool = load_tool()
    with tempfile.TemporaryDirectory() as temporary:
        pack = pathlib.Path(temporary) / "pack"
        subprocess.run([sys.executable, TOOL, "--pack", pack, ROOT / "test/models/vit", "--precision", "f32", "--ranks", "1", "--ranks", "2", "--dt-opt", arguments.dt_opt], check=True)
        folder = pack / "vit-f32"
        runtime = train_model.prebuilt_double(arguments.dt_opt, folder / "program")
        settings = [f"--cmake={part}" for part in ("-C", runtime)] if runtime else []
        done = subprocess.run(["/usr/bin/python3", "-I", pack / "gpu-check", pack, "--double", arguments.double, "--out", temporary, *settings], capture_output=True, text=True)
        print(done.stdout + done.stderr)
        cases = json.loads((pathlib.Path(temporary) / "gpu-check.json").read_text())["cases"]
        for case in cases:
            verdicts = {r["check"]: r["verdict"] for r in case["results"]}
            unseen = {name for name, verdict in verdicts.items() if verdict == "not run"}
            missing = {*tool.SANITIZERS, *(["over NCCL"] if case["ranks"] == 1 else [])}
            if done.returncode or unseen != missing or "FAILED" in verdicts.values() or len(verdicts) != 12:
                sys.exit(f"{case['case']}: ended with {done.returncode}: {verdicts}")
        if [case["ranks"] for case in cases] != [1, 2]:
            sys.exit(f"expected programs of one rank and of two, found {len(cases)}")
        if "nothing here was seen on a GPU" not in (pathlib.Path(temporary) / "gpu-check.md").read_text():
            sys.exit("the page does not say that it is of the double")
        check_reports(tool)
        check_profiles(tool, folder)
        spoil(tool, folder)


if __name__ == "__main__":
    main()
