# ===- documents.py - documents of unequal length, padded and packed ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The planner's documents (docs/planning.md), a sixteenth as long, train a small
# Qwen2.5-VL on four ranks: as rows that are all as long as the longest may be,
# packed, and packed with items shared out and microbatches reordered. Beside each
# stands what the simulator says of the same plan and the same samples, with a
# cluster file of this machine (tools/calibrate).
# ===-----------------------------------------------------------------------===
"""tools/bench documents: prints a table, writes out/bench/documents.json."""

import argparse
import json
import os
import pathlib
import statistics
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "out/bench/documents"
sys.path[:0] = [str(ROOT / "tools/benchmarks"), str(ROOT / "test/e2e"), str(ROOT / "models")]

import sizes_batch  # noqa: E402
from cpu import run  # noqa: E402
from faithful import WARMUP  # noqa: E402

# A sixteenth of the planner's documents (passes/planner/describe/Data.cpp).
SCALE = 16
LONGEST, MEDIAN, SPREAD = 8192 // SCALE, 700 / SCALE, 1.2
PATCHES, MOST_PATCHES, PICTURE_SPREAD, MOST_PICTURES = 1024 / SCALE, 4096 // SCALE, 0.8, 64
SIDE = int((MOST_PATCHES // sizes_batch.ROWS) ** 0.5)  # of the largest picture, merged
WIDTH, VOCABULARY, PATCH = 256, 4096, 2
RANKS = {"vision": {"ranks": [0, 1], "dp": 2}, "llm": {"ranks": [2, 3], "dp": 2}}
# name, whether rows are padded, reorder
CASES = [("padded", True, "none"), ("packed", False, "none"), ("packed, reordered", False, "both")]


def clipped(random, median, spread, low, high):
    return int(np.clip(median * np.exp(spread * random.standard_normal()), low, high))


def document(random):
    """As Documents::draw: longer ones have more pictures, a third has none. Words, and (height, width) of pictures."""
    words, shapes = clipped(random, MEDIAN, SPREAD, 2, LONGEST), []
    if random.random() < 0.33:
        return words, shapes
    tokens = words
    for _ in range(clipped(random, 1 + SCALE * words / 400, 1.0, 1, MOST_PICTURES)):
        merged = max(1, clipped(random, PATCHES, PICTURE_SPREAD, 4, MOST_PATCHES) // sizes_batch.ROWS)
        height = max(1, min(SIDE, round(merged**0.5)))
        width = max(1, min(SIDE, round(merged / height)))
        if tokens + height * width > LONGEST:
            break
        tokens += height * width
        shapes.append((height, width))
    return words, shapes


def sample(random, words, shapes, features, length=None):
    """`length`: with so many tokens, of which those behind are of no text and not learned."""
    pictures = [sizes_batch.Picture(h, w, random.standard_normal((h * w * sizes_batch.ROWS, features)).astype(np.float32)) for h, w in shapes]
    merged = sum(p.merged for p in pictures)
    ids = np.concatenate([np.full(merged, VOCABULARY - 1), random.integers(0, VOCABULARY - 1, words)])
    learned, documents = np.arange(len(ids)) >= merged, np.zeros(len(ids), np.int64)
    more = 0 if length is None else length - len(ids)
    return sizes_batch.Sample(np.pad(ids, (0, more)), np.pad(documents, (0, more), constant_values=1), np.pad(learned, (0, more)), pictures, np.arange(merged))


def write_model(folder):
    """Graphs of a tower and a language model whose sizes are free."""
    if (folder / "llm.onnx").exists():
        return
    import torch
    import transformers as hf
    from export import sizes
    from export.packing import PackedLanguage, PackedTower

    torch.manual_seed(0)
    text = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 3 * WIDTH, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": LONGEST}
    text |= {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [16, 8, 8]}}
    vision = {"depth": 4, "hidden_size": WIDTH // 2, "intermediate_size": 2 * WIDTH, "num_heads": 2, "in_channels": 3, "patch_size": PATCH, "temporal_patch_size": 1, "spatial_merge_size": sizes_batch.MERGE}
    vision |= {"window_size": sizes_batch.WINDOW * sizes_batch.MERGE * PATCH, "fullatt_block_indexes": [1, 3], "out_hidden_size": WIDTH}
    net = hf.Qwen2_5_VLForConditionalGeneration(hf.Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=VOCABULARY - 1, tie_word_embeddings=False))
    modules = {"vision": PackedTower(net.model.visual).eval(), "llm": PackedLanguage(net).eval()}
    network = sizes.Network(modules, sizes.vlm().inputs, axes=3)
    for module in modules:
        sizes.write_graph(network, module, folder / f"{module}.onnx")


def recipe(folder, options, bound):
    graphs = {m: str(folder / f"{m}.onnx") for m in ("vision", "llm")}
    made = sizes_batch.recipe(graphs, {}, sizes_batch.Sizes(), {"global": options.samples, "micro": options.samples // options.microbatches})
    made["items"] = {"sample": {"measures": {"tokens": {"max": LONGEST, "part": bound}}}, "image": {"of": "sample", "max": MOST_PICTURES, "measures": {"merged": {"max": SIDE * SIDE, "part": bound}}}}
    return made


class Step:
    """Documents of a step: a batch file for programs, a data file for the simulator."""

    def __init__(self, number, padded, options):
        self.random = np.random.default_rng([options.seed, number])
        shapes = [document(self.random) for _ in range(options.samples)]
        samples = [sample(self.random, *s, 3 * PATCH * PATCH, LONGEST if padded else None) for s in shapes]
        self.tensors = sizes_batch.pack(samples, 3 * PATCH * PATCH, axes=3)
        wanted = {"input_ids", "position_ids", "segments", "image_rows", "pixel_values", "positions", "windows"}
        self.tensors = {n: v for n, v in self.tensors.items() if n.partition(".")[2] in wanted or n.startswith(("labels", "offsets", "item_of"))}
        self.tokens = [len(s.ids) for s in samples]
        self.items = [[p.merged for p in s.pictures] for s in samples]

    def data(self):
        return {"kinds": ["image"], "order": "file", "samples": [{"tokens": t, "items": [i]} for t, i in zip(self.tokens, self.items)]}


class Program:
    runtime = None  # the build folder of the first one, whose runtime the others link

    def __init__(self, name, padded, reorder, options):
        from safetensors.numpy import save_file

        self.name, self.options = name, options
        self.out = OUT / name.replace(", ", "-")
        self.out.mkdir(parents=True, exist_ok=True)
        self.steps = [Step(i, padded, options) for i in range(options.batches)]
        mean = statistics.mean(t for step in self.steps for t in step.tokens)
        parts = options.microbatches * RANKS["llm"]["dp"]
        # Of packed parts 3 % are room: what the fullest step leaves of its bound.
        fullest = max(sum(step.tokens) for step in self.steps)
        bound = max(LONGEST, options.samples // parts * LONGEST if padded else int(1.03 * fullest / parts))
        self.facts = {"tokens": mean, "bound": bound, "full": sum(sum(s.tokens) for s in self.steps) / (len(self.steps) * parts * bound)}
        for i, step in enumerate(self.steps):
            save_file(step.tensors, self.out / f"step-{i}.safetensors")
            (self.out / f"data-{i}.json").write_text(json.dumps(step.data()))
        (self.out / "recipe.json").write_text(json.dumps(recipe(OUT, options, bound), indent=1))
        plan = {"version": 1, "ranks": 4, "microbatches": options.microbatches, "reorder": reorder, "units": RANKS, "pipelines": [{"units": ["vision", "llm"], "schedule": "1f1b"}]}
        (self.out / "plan.json").write_text(json.dumps(plan, indent=1))

    def predict(self, number):
        """Seconds of a step, by the cluster file."""
        model, priced = self.out / "model.json", self.out / "priced.json"
        if number == 0:
            run([self.options.dt_opt, self.out / "recipe.json", "--emit=plan-model", "-o", model])
        run([self.options.dt_sim, f"--model={model}", f"--cluster={self.options.cluster}", f"--data={self.out}/data-{number}.json", "--batch", self.options.samples, f"--plan={self.out}/plan.json", f"--plan-out={priced}"])
        return json.loads(priced.read_text())["predicted"]["step"]

    def build(self):
        shared = Program.runtime or self.options.bin.resolve().parent
        shared = shared / "runtime/dt_runtime.cmake"
        run([self.options.dt_opt, self.out / "recipe.json", "--emit=cpp", "-o", self.out / "program", f"--plan={self.out}/plan.json"])
        run(["cmake", "-S", self.out / "program", "-B", self.out / "program/build", "-G", "Ninja", f"-DDT_RUNTIME_LIBRARY={shared if shared.exists() else ''}"])
        run(["cmake", "--build", self.out / "program/build", "--target", "train"])
        Program.runtime = Program.runtime or self.out / "program/build"

    def train(self, number):
        """Seconds of a step by the clock, and as its tasks' processor times make it: on a shared machine the second says more."""
        report = self.out / "report.json"
        run([self.out / "program/build/train", "--program", self.out / "program", "--batch", self.out / f"step-{number}.safetensors", "--steps", WARMUP + self.options.steps, "--report", report, "--threads", 1, "--ranks", 4])
        result = json.loads(report.read_text())
        return np.array([result["step_seconds"], result["simulated_seconds"]])


def main():
    parser = argparse.ArgumentParser(prog="tools/bench documents")
    parser.add_argument("--samples", type=int, default=64, help="documents of a step")
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--batches", type=int, default=3, help="steps of other documents")
    parser.add_argument("--steps", type=int, default=6, help="counted steps on each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cluster", type=pathlib.Path, help="a cluster file of tools/calibrate; default: measured first")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="dt-opt and dt-sim")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    options.dt_opt, options.dt_sim = options.bin.resolve() / "dt-opt", options.bin.resolve() / "dt-sim"
    if (options.bin.resolve().parent / "runtime/dt_runtime.cmake").exists():
        os.environ["CXX"] = "clang++-22"
    write_model(OUT)
    if not options.cluster:
        options.cluster = OUT / "cluster.json"
        run([ROOT / "tools/calibrate", "-o", options.cluster, "--types", "f32"])
    cluster = json.loads(options.cluster.read_text())
    cluster["nodes"][0]["devices"] = 4  # ranks share cores where there are fewer
    options.cluster = OUT / "ranks.json"
    options.cluster.write_text(json.dumps(cluster))
    programs = [Program(*case, options) for case in CASES]
    for program in programs:
        program.build()
    print(f"{len(os.sched_getaffinity(0))} cores, load average {os.getloadavg()[0]:.1f}; {options.batches} steps of {options.samples} documents in {options.microbatches} microbatches")
    print(f"{'':20}{'tokens':>7} {'of bounds':>10} {'predicted':>11} {'measured':>20} {'of processor times':>21} {'beside padded: predicted, measured':>36}")
    rows = {}
    for program in programs:
        predicted = sum(program.predict(i) for i in range(options.batches))
        measured, processor = sum(program.train(i) for i in range(options.batches))
        row = rows[program.name] = {"predicted": predicted, "measured": measured, "processor": processor, "error": predicted / measured - 1, "processor_error": predicted / processor - 1, **program.facts}
        for key in ("predicted", "measured", "processor"):
            row[f"{key}_gain"] = rows[CASES[0][0]][key] / row[key]
        print(f"{program.name:20}{row['tokens']:7.0f} {row['full']:10.1%} {predicted:9.3f} s {measured:9.3f} s {row['error']:+8.1%} {processor:9.3f} s {row['processor_error']:+8.1%} {row['predicted_gain']:16.2f}x {row['measured_gain']:7.2f}x {row['processor_gain']:7.2f}x", flush=True)
    (ROOT / "out/bench/documents.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
