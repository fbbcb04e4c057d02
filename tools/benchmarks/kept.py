# ===- kept.py - bytes that a layer keeps for its backward pass -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# kept.py [--dt-opt BINARY]: the table of docs/memory.md. A layer's residuals, by
# dt-opt --emit=memory of one sample on one rank in bf16, in bytes for each element
# of the stream, under each saved set. Beside them what Megatron-Core keeps by its
# published formula: Korthikanti et al., Reducing Activation Recomputation in Large
# Transformer Models, section 4.1: 34 for a GPT layer whose attention keeps no
# scores. Of these, 2 are masks of dropout, which these graphs have none of.
# ===-----------------------------------------------------------------------===
"""Bytes that a layer keeps for its backward pass, beside Megatron-Core's formula: the table of docs/memory.md."""

import argparse
import collections
import dataclasses
import gzip
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "test/models"
DROPOUT = 2  # bytes of masks: one each behind attention and MLP


@dataclasses.dataclass(frozen=True)
class Layer:
    """`scope`: of its ops, behind which its number stands. Sizes as the network's."""

    name: str
    graph: str
    loss: str
    dims: str
    scope: str
    tokens: int
    hidden: int
    ffn: int
    keys: float = 1  # heads of keys for one of queries
    gated: bool = False  # SwiGLU
    formula: bool = True

    def published(self):
        """Inputs of both norms and of QKV, of the MLP, of attention and of its output product, of the MLP's two products; with a gate its two results and their product."""
        hidden = self.ffn / self.hidden
        return 2 + 2 + 2 + 2 + (2 + 4 * self.keys) + 2 + (6 if self.gated else 4) * hidden + (0 if self.gated else DROPOUT)


LAYERS = [
    Layer("GPT-2 (hidden 64)", "gpt2/model.onnx", "cross_entropy:logits", "batch=sample,seq=32", "transformer.h", 32, 64, 256),
    Layer("ViT-Huge", "large/vit_huge.onnx.gz", "mse:last_hidden_state:target", "batch=sample", "layers", 257, 1280, 5120),
    Layer("Llama 7B", "large/llama3_7b.onnx.gz", "cross_entropy:logits", "batch=sample,seq=4096", "model.layers", 4096, 4096, 11008, gated=True),
    Layer("Llama 3 70B", "large/llama3_70b.onnx.gz", "cross_entropy:logits", "batch=sample,seq=8192", "model.layers", 8192, 8192, 28672, keys=1 / 8, gated=True),
    Layer("DiT (hidden 32)", "extra/dit/model.onnx", "mse:noise_pred:noise", "batch=sample", "net.transformer_blocks", 16, 32, 128, formula=False),
]
# (heading, saved set, stored streams)
WAYS = [("`vjp`, `residual` f32", "vjp", "f32"), ("`vjp`", "vjp", "bf16"), ("`all`", "all", "bf16"), ("`none`", "none", "bf16")]
ROW = re.compile(r"^ *[\d,]+ +([\d,]+) +\S+ +\S+\.saved\d+\S* +\((.*)\)$")


def unpacked(path, folder):
    if path.suffix != ".gz":
        return path
    graph = folder / path.stem
    if not graph.exists():
        graph.write_bytes(gzip.decompress(path.read_bytes()))
    return graph


def kept(layer, graph, dt_opt, save, residual):
    """Bytes of the residuals of one layer of the middle."""
    command = [dt_opt, graph, f"--loss={layer.loss}", f"--dims={layer.dims}", "--batch=1", "--precision=bf16", f"--residual={residual}", "--init=normal(0, 0.02)"]
    name = re.sub(r"\W", "_", graph.stem)
    done = subprocess.run([*command, f"--plan={name}:save={save}", "--remarks=/dev/null", "--emit=memory"], capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"{layer.name}: dt-opt ended with {done.returncode}:\n{done.stderr[-2000:]}")
    sums = collections.Counter()
    for line in done.stdout.splitlines():
        row = ROW.match(line)
        scope = row and re.search(rf"\b{re.escape(layer.scope)}\.(\d+)\b", row[2])
        if scope:
            sums[int(scope[1])] += int(row[1].replace(",", ""))
    if not sums:
        sys.exit(f"{layer.name}: no residual is of {layer.scope}.N:\n{done.stdout[:2000]}")
    return sums[sorted(sums)[(len(sums) - 1) // 2]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, default=ROOT / "build/release/bin/dt-opt")
    arguments = parser.parse_args()
    print("| layer | Megatron-Core | " + " | ".join(heading for heading, _, _ in WAYS) + " |")
    print("| --- | " + "--- | " * (1 + len(WAYS)))
    with tempfile.TemporaryDirectory() as folder:
        for layer in LAYERS:
            graph = unpacked(MODELS / layer.graph, pathlib.Path(folder))
            figures = [kept(layer, graph, arguments.dt_opt, save, residual) / layer.tokens / layer.hidden for _, save, residual in WAYS]
            published = f"{layer.published():.1f}" if layer.formula else "no formula"
            print(f"| {layer.name} | {published} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
