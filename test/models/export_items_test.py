# ===- export_items_test.py - what models/export writes, with 0 items ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A microbatch, or a replica's part of it, may hold none of the items that an axis
# counts: no picture, no token for an expert. Every rewrite of models/export that
# can stand on such an axis is tried with 0, 1 and several items: its outputs in ONNX
# Runtime, its outputs and gradients in compiled programs, whole, in microbatches and
# on two ranks. Needs `tools/setup --torch`.
# ===-----------------------------------------------------------------------===
"""export_items_test.py DT_OPT: the exporter's rewrites on axes that may be empty."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import transformers as hf
except ImportError:
    print("skipped: tools/setup --torch installs what this needs")
    sys.exit(77)

import onnx.utils
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "models"), str(ROOT / "test/e2e")]
import tolerance  # noqa: E402
import train_model  # noqa: E402
from export import architectures, export, golden  # noqa: E402
from export.checking import Session  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
IMAGE, WORDS, SEQ, WIDTH, ROWS = 63, 64, 12, 8, 2
# Items of each of the batch's samples.
COUNTS = {"none": (0, 0, 0, 0), "one": (0, 1, 0, 0), "several": (0, 2, 0, 1), "each": (1, 1, 1, 1)}


class Rewrite(nn.Module):
    """A function of items [items, 4, WIDTH] behind a layer that trains."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(WIDTH, WIDTH), function

    def forward(self, x):
        return self.function(self.linear(x))


class Experts(nn.Module):
    """The experts of a model of the library, which are replaced; its attention takes no empty batch."""

    def __init__(self):
        super().__init__()
        sizes = {"hidden_size": WIDTH, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "num_local_experts": 3, "num_experts_per_tok": 2}
        self.net = hf.MixtralModel(hf.MixtralConfig(**sizes, vocab_size=1, experts_implementation="eager"))

    def forward(self, x):
        y = self.net.layers[0].mlp(x)
        return y[0] if isinstance(y, tuple) else y


class Interleaved(nn.Module):
    """The rotary table of Qwen3-VL's language model, which it writes in place."""

    def __init__(self):
        super().__init__()
        rope = {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
        config = hf.Qwen3VLTextConfig(hidden_size=WIDTH, head_dim=WIDTH, num_attention_heads=1, num_key_value_heads=1, vocab_size=WORDS, rope_parameters=rope)
        self.linear, self.table = nn.Linear(WIDTH, WIDTH), hf.models.qwen3_vl.modeling_qwen3_vl.Qwen3VLTextRotaryEmbedding(config)

    def forward(self, x):
        cos, sin = self.table(x, (x[..., :3] * 4).long().permute(2, 0, 1))
        return self.linear(x) * cos + x * sin


class Padded(nn.Module):
    """Rows of a table, of which one has no gradient."""

    def __init__(self):
        super().__init__()
        self.table, self.linear = nn.Embedding(9, WIDTH, padding_idx=3), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.table((x.abs() * 4).long().clamp(0, 8)) + self.linear(x)[..., None]


def labels(x):
    return (x[:, 0, :1].detach() > 0).long()[:, 0]


def complex_views(x):
    turned = torch.view_as_complex(x.unflatten(-1, (4, 2)))
    a, b = turned.split([1, 3], 1)
    return torch.view_as_real(a.expand(-1, 3, 4) * b)


def in_place(change):
    """A function that changes its argument (a copy of what comes) where whole slices lie."""

    def changed(x):
        y = x.clone()
        return y if (result := change(y, x)) is None else result

    return changed


def interleave(y, x):
    """Qwen3-VL's rotary table: frequencies of the second and third table among those of the first."""
    tables = torch.stack([y, x * 2, x * 3])
    first = tables[0]
    first[..., 1:6:3] = tables[1, ..., 1:6:3]
    first[..., 2:6:3] = tables[2, ..., 2:6:3]
    return first


def assign(places):
    return lambda y, x: y.__setitem__(places, x[places].square())


MASK = torch.arange(16).reshape(4, 4) % 3 > 0
ONES = torch.linspace(0.5, 2, WIDTH)
REWRITES = {
    "smoothed cross entropy": lambda x: F.cross_entropy(x[:, 0], labels(x), label_smoothing=0.2, reduction="none"),
    "cross entropy of probabilities": lambda x: F.cross_entropy(x[:, 0], x[:, 1].softmax(-1), reduction="none"),
    "average pool": lambda x: F.avg_pool2d(x[:, None], 2, divisor_override=3),
    "average pool over the edge": lambda x: F.avg_pool2d(x[:, None], 3, ceil_mode=True, divisor_override=5),
    "resizing": lambda x: F.interpolate(x[:, None], scale_factor=(0.5, 0.5), mode="bilinear", antialias=True),
    "attention with three axes": lambda x: F.scaled_dot_product_attention(x, x, x),
    "guarded attention": lambda x: F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], attn_mask=MASK & (x.sum((1, 2)) > 0)[:, None, None, None]),
    "softmax of a type": lambda x: F.softmax(x, -1, dtype=torch.float32),
    "logarithm of a sigmoid": F.logsigmoid,
    "binary cross entropy": lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid(), reduction="none"),
    "angle": lambda x: torch.atan2(x, x.flip(-1) + 0.1),
    "sinc": torch.sinc,
    "x log y": lambda x: torch.xlogy(x, x.abs() + 0.1),
    "weighted l1": lambda x: F.l1_loss(x, x.detach() * 0.5, weight=ONES.expand_as(x), reduction="none"),
    "largest": lambda x: x.max(-1).values,
    "least of all": lambda x: x.amin((1, 2)),
    "clamp": lambda x: x.clamp(-0.3, 0.4),
    "isin": lambda x: torch.isin((x.detach() * 3).long(), torch.tensor([1, -1])).float() * x,
    "len": lambda x: x.reshape(len(x), 2, 2 * WIDTH),
    "complex views": complex_views,
    "pieces": lambda x: torch.cat(x.chunk(3, -1)[::-1], -1),
}
REWRITES |= {
    f"in place: {name}": in_place(change)
    for name, change in {
        "tables among each other": interleave,
        "every second": assign((..., slice(1, None, 2))),
        "one": assign((slice(None), 2)),
        "the last": assign((..., -1)),
        "a block": assign((slice(None), slice(1, 3), slice(0, None, 3))),
        "a list": assign((slice(None), torch.tensor([3, 0]))),
        "pairs": assign((slice(None), torch.tensor([3, 0]), torch.tensor([1, 5]))),
        "a number": lambda y, x: y[:, 1:3].fill_(0.5),
        "a sum": lambda y, x: y[:, 1:3].add_(x[:, :2]),
        "a mask of a slice": lambda y, x: y[:, 2:].masked_fill_(y[:, 2:] > 0, 0.25),
        "index_copy": lambda y, x: y.index_copy(1, torch.tensor([2, 1]), x[:, 2:].square()),
        "index_add": lambda y, x: y.index_add(2, torch.tensor([7, 0, 2]), x[..., :3]),
        "index_fill": lambda y, x: y.index_fill(2, torch.tensor([0, 5]), 0.5),
        "slice_scatter": lambda y, x: torch.slice_scatter(y, x[..., :3].square(), 2, 1, 7, 2),
        "select_scatter": lambda y, x: torch.select_scatter(y, x[:, 0].square(), 1, 2),
    }.items()
}
LAYERS = {"experts": Experts, "padding": Padded, "Qwen3-VL's rotary table": Interleaved}


class Rewrites(nn.Module):
    """All of them, each an output; what fills places among tokens comes first, so that samples are what the module works by."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Rewrite(f) for f in REWRITES.values()] + [make() for make in LAYERS.values()])
        self.embed, self.rows, self.elements = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, ids, x):
        text, place = self.embed(ids), (ids == IMAGE)[..., None]
        rows = text.masked_scatter(place, self.rows(x[:, :ROWS]) * 2)
        # An element at a time: a mask that is not the same along a row.
        half = place & (torch.arange(WIDTH) < WIDTH // 2)
        elements = text.masked_scatter(half, self.elements(x[:, :ROWS])[..., : WIDTH // 2])
        return rows, elements, *(part(x) for part in self.parts)


def batch(counts, item, rows, vocabulary=IMAGE, image=IMAGE, seq=SEQ):
    """Texts with places for the rows of so many items each, and the items."""
    g = torch.Generator().manual_seed(sum(counts) + 1)
    ids = torch.randint(3, vocabulary, (len(counts), seq), generator=g)
    for line, count in zip(ids, counts):
        for i in range(count):  # a word between two items
            line[1 + i * (rows + 1) : 1 + i * (rows + 1) + rows] = image
    items = torch.randn(sum(counts), *item, generator=g)
    owners = torch.tensor([i for i, count in enumerate(counts) for _ in range(count)], dtype=torch.int64)
    return ids, items, owners


def mean_squares(outputs, targets):
    """The sum of the losses of outputs that have elements."""
    return sum(F.mse_loss(y, t) for y, t in zip(outputs, targets) if y.numel())


class Ended(Exception):
    """A program that ended with an error: its text."""


class Program:
    """A recipe around one graph, compiled; `plan`: a plan's text."""

    def __init__(self, folder, recipe, plan=None):
        self.folder = folder
        folder.mkdir()
        for module in recipe["modules"].values():
            (folder / module["onnx"]).symlink_to(folder.parent / module["onnx"])
        (folder / "recipe.json").write_text(json.dumps(recipe))
        flags = []
        if plan:
            (folder / "plan.json").write_text(json.dumps(plan))
            flags = ["--plan", folder / "plan.json"]
        train_model.make(DT_OPT, folder / "recipe.json", folder / "program", flags=flags, settings=train_model.QUICK)
        self.ranks = plan["ranks"] if plan else 1

    def run(self, inputs):
        """The first step's loss, outputs and gradients."""
        for name in ("outputs", "gradients"):
            (self.folder / name).unlink(missing_ok=True)
        save_file({k: v.detach().contiguous().numpy() for k, v in inputs.items()}, self.folder / "batch")
        command = [self.folder / "program/build/train", "--batch", "batch", "--steps", "1", "--threads", "1", "--save-outputs", "outputs", "--save-gradients", "gradients", "--metrics", "metrics"]
        command += ["--ranks", str(self.ranks)] if self.ranks > 1 else []
        (self.folder / "metrics").unlink(missing_ok=True)
        done = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Ended(done.stderr[-2000:])
        records = [json.loads(line) for line in (self.folder / "metrics").read_text().splitlines()]
        return next(r["loss"] for r in records if "loss" in r), load_file(self.folder / "gradients")


def compare(test, have, want, loss, expected):
    terms = max(tolerance.norm(g.numpy()) for g in want.values())
    test.assertLessEqual(abs(loss - expected), tolerance.loss_limit(expected, abs(expected), 0, tolerance.OTHER))
    for name, gradient in want.items():
        mine = have.get(f"model.{name}")
        test.assertIsNotNone(mine, name)
        limit = tolerance.gradient_limit(tolerance.norm(gradient.numpy()), terms, tolerance.OTHER)
        test.assertLessEqual(tolerance.norm(mine - gradient.numpy()), limit, name)


class Items(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        cls.folder = pathlib.Path(FOLDER.name) / "rewrites"
        cls.module = golden.scatter_weights(Rewrites().eval())
        cls.outputs = [f"y{i}" for i in range(len(cls.module.parts) + 2)]
        ids, x, _ = batch(COUNTS["several"], (4, WIDTH), ROWS)
        dims = {"ids": {0: "batch"}, "x": {0: "items"}}
        cls.proto = export(cls.module, (ids, x), cls.folder / "model.onnx", dynamic_shapes=dims, input_names=["ids", "x"], output_names=cls.outputs)

    def test_outputs_in_onnx_runtime(self):
        names = dict(zip(["rows", "elements", *REWRITES, *LAYERS], self.outputs))
        for title, counts in COUNTS.items():
            ids, x, _ = batch(counts, (4, WIDTH), ROWS)
            with torch.no_grad():
                wanted = self.module(ids, x)
            # ONNX Runtime's own SoftmaxCrossEntropyLoss takes no empty axis.
            taken = [y for name, y in names.items() if sum(counts) or name != "smoothed cross entropy"]
            proto = onnx.utils.Extractor(self.proto).extract_model(["ids", "x"], taken)
            got = Session(proto)((ids, x))
            for (name, output), want in zip(names.items(), wanted):
                with self.subTest(items=title, rewrite=name):
                    if output not in taken:
                        continue
                    have = got[output]
                    self.assertEqual(have.shape, tuple(want.shape))
                    limit = tolerance.output_limit(float(want.abs().max()) if want.numel() else 0.0)
                    self.assertLessEqual(float((torch.from_numpy(have) - want).abs().max()) if want.numel() else 0.0, limit)

    def recipe(self, micro):
        losses = [{"name": f"of_{y}", "kind": "mse", "output": f"model.{y}", "target": f"t_{y}", "weight": 1} for y in self.outputs]
        return {
            "modules": {"model": {"onnx": "model.onnx"}}, "items": {"thing": {"of": "sample", "max": 3}}, "dims": {"batch": "sample", "items": "thing"},
            "losses": losses, "optimizer": {"kind": "adamw", "lr": 0.001}, "batch": {"global": 4, "micro": micro}, "seed": 0,
        }  # fmt: skip

    def trained(self, program):
        for title, counts in COUNTS.items():
            with self.subTest(items=title):
                ids, x, owners = batch(counts, (4, WIDTH), ROWS)
                self.module.zero_grad()
                outputs = self.module(ids, x)
                targets = [torch.full_like(y, 0.1) for y in outputs]
                loss = mean_squares(outputs, targets)
                loss.backward()
                inputs = {"ids": ids, "x": x, "item_of.thing": owners} | {f"t_{y}": t for y, t in zip(self.outputs, targets)}
                have, gradients = program.run(inputs)
                compare(self, gradients, {n: p.grad for n, p in self.module.named_parameters() if p.grad is not None}, have, loss.item())

    def test_gradients_of_a_whole_batch(self):
        program = Program(self.folder / "whole", self.recipe(4))
        self.trained(program)
        self.refused(program, (0, 1, 0, 0), (0, 1, 1, 0), "error: module 'model', sample 0 to sample 3: 2 places for 4 rows that fill them in order")

    def refused(self, program, places, items, line):
        """Texts that have places for other items than they have."""
        ids, owners = batch(places, (4, WIDTH), ROWS)[0], batch(items, (4, WIDTH), ROWS)[2]
        x = torch.zeros(sum(items), 4, WIDTH)
        targets = {f"t_{y}": torch.zeros_like(v) for y, v in zip(self.outputs, self.module(batch(items, (4, WIDTH), ROWS)[0], x))}
        with self.assertRaises(Ended) as ended:
            program.run({"ids": ids, "x": x, "item_of.thing": owners} | targets)
        self.assertEqual([text for text in str(ended.exception).splitlines() if "error" in text], [line])

    def test_gradients_of_microbatches_on_two_ranks(self):
        plan = {"ranks": 2, "version": 1, "units": {"model": {"ranks": [0, 1], "dp": 2}}}
        program = Program(self.folder / "cut", self.recipe(2), plan)
        self.trained(program)
        # A part has one sample here, and is looked at alone.
        self.refused(program, (0, 1, 1, 0), (0, 1, 0, 0), "error: module 'model', sample 2: 2 places for 0 rows that fill them in order")


class Pictures(unittest.TestCase):
    """Models of the library in one graph, where some texts, or all of them, have no picture."""

    SEQ = 40
    # A picture's size, its rows among the tokens.
    MODELS = {"LLaVA": ((3, 32, 32), 16), "SmolVLM": ((1, 3, 32, 32), 4), "Gemma 3": ((3, 32, 32), 4), "Qwen2.5-VL": ((16, 96), 4)}

    def exported(self, name):
        model = architectures.make(name)
        folder = pathlib.Path(FOLDER.name) / model.name
        model.module = golden.scatter_weights(model.module.eval())
        model.dims["pixel_values"] = {0: "images"}
        inputs = self.inputs(name, model, (1, 0, 2, 0))[0]
        export(model.module, tuple(inputs.values()), folder / "model.onnx", dynamic_shapes=model.dims, input_names=list(inputs), output_names=["logits"])
        return model, folder

    def inputs(self, name, model, counts):
        item, rows = self.MODELS[name]
        ids, pixels, owners = batch(counts, item, rows, architectures.IMAGE, architectures.IMAGE, self.SEQ)
        inputs = {"input_ids": ids, "pixel_values": pixels}
        if "position_ids" in model.inputs:
            inputs["position_ids"] = model.module.positions(ids)
        labels = torch.where(ids == architectures.IMAGE, -100, ids).roll(-1, 1)
        return inputs, labels, owners

    def expected(self, model, inputs, labels):
        model.module.zero_grad()
        # The library's towers find no sizes for themselves where there are no pictures: it takes none then.
        values = list(inputs.values()) if len(inputs["pixel_values"]) or "position_ids" in inputs else [inputs["input_ids"]]
        logits = model.module(*values)
        logits = logits[0] if isinstance(logits, tuple) else logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        loss.backward()
        return loss.item(), {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.module.named_parameters()}

    def recipe(self, micro):
        return {
            "modules": {"model": {"onnx": "model.onnx"}}, "items": {"image": {"of": "sample", "max": 2}}, "dims": {"batch": "sample", "images": "image", "seq": self.SEQ},
            "losses": [{"name": "text", "kind": "cross_entropy", "logits": "model.logits", "labels": "labels"}],
            "optimizer": {"kind": "adamw", "lr": 0.001}, "batch": {"global": 4, "micro": micro}, "seed": 0,
        }  # fmt: skip

    def program(self, folder, title):
        """In microbatches of one text, on two ranks with replicas, or with the tower on a rank of its own."""
        if title == "microbatches":
            return Program(folder / title, self.recipe(1))
        if title == "replicas":
            return Program(folder / title, self.recipe(2), {"version": 1, "ranks": 2, "units": {"model": {"dp": 2, "ranks": [0, 1]}}})
        recipe = self.recipe(2)
        recipe["modules"]["model"]["split"] = "auto"
        (folder / "split.json").write_text(json.dumps(recipe))
        done = subprocess.run([DT_OPT, folder / "split.json", "--emit=plan", "-o", folder / "one.json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        units = list(json.loads((folder / "one.json").read_text())["units"])
        self.assertEqual(len(units), 2, units)
        return Program(folder / title, recipe, {"version": 1, "ranks": 2, "units": {name: {"ranks": [i]} for i, name in enumerate(units)}})

    def trained(self, name, title):
        model, folder = self.exported(name)
        program = self.program(folder, title)
        for counts in ((0, 0, 0, 0), (0, 0, 1, 0), (2, 0, 1, 1)):
            with self.subTest(counts=counts):
                inputs, labels, owners = self.inputs(name, model, counts)
                loss, want = self.expected(model, inputs, labels)
                have, gradients = program.run(inputs | {"labels": labels, "item_of.image": owners})
                want = {n: g for n, g in want.items() if f"model.{n}" in gradients}
                self.assertGreater(len(want), 10)
                compare(self, gradients, want, have, loss)


def trains(name, title):
    return lambda self: self.trained(name, title)


for model, plan in {"LLaVA": "apart", "SmolVLM": "replicas", "Gemma 3": "replicas", "Qwen2.5-VL": "microbatches"}.items():
    setattr(Pictures, f"test_{architectures.file_name(model)}", trains(model, plan))


if __name__ == "__main__":
    DT_OPT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
