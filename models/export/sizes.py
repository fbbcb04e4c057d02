# ===- sizes.py - networks on items of unequal size, sample by sample -------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Language models on packed texts and vision-language models whose pictures have any
# shape: the libraries' own modules, with masks that keep items apart. A graph
# sees a step as one list of rows; PyTorch's figures come from each picture and each
# sample alone, so that nothing which one item sees of another goes unnoticed.
# Figures are float64's. How far float32 is from them, from weights and inputs that
# are off by a rounding, is measured beside them: that is what a test allows.
# ===-----------------------------------------------------------------------===
"""python -m export.sizes FOLDER [--seed N] [--slow] [NETWORK...]: writes graphs, steps and figures (test/e2e/sizes.py reads them)."""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import json
import pathlib
import sys
import warnings
from dataclasses import dataclass, field

import numpy as np
import onnx
import torch
import torch.nn.functional as F
import transformers as hf
from safetensors.numpy import save_file
from torch import nn
from transformers import vision_utils

from .exporting import export
from .golden import scatter_weights
from .packing import DeepstackTower, NaflexTower, Packed, PackedLanguage, PackedTower, naflex_weights, same

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test" / "e2e"))
import sizes_batch  # noqa: E402
import tolerance  # noqa: E402

VOCABULARY, WIDTH, PATCH = 37, 32, 2
FEATURES = 3 * PATCH * PATCH
SIDE = 3  # of the table of position embeddings, which is resized to more rows and to fewer
SLIDING = 5  # rows that a sliding window sees
DROPPED = [f"pkg.torch.onnx.{key}" for key in ("fx_node", "class_hierarchy", "name_scopes")]  # of a node: its scope stays
STEPS = 10  # a report of memory takes nine
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "initializer_range": 0.2,  # scores of attention are no noise then
}


# --- modules ---------------------------------------------------------------------------


class Places(Packed):
    """As Packed, by places in the texts and not by rows, as the library compares them."""

    def masks(self, position_ids, segments):
        queries, keys = position_ids[:, :, None], position_ids[:, None, :]
        mask = (same(segments) & (keys <= queries))[:, None]
        return {"full_attention": mask, "sliding_attention": mask & (keys > queries - self.net.config.sliding_window)[:, None]}


class Library(Packed):
    """Without a mask: the library finds the texts by where positions restart, with a cumulative sum."""

    def forward(self, input_ids, position_ids):
        return self.net(input_ids=input_ids, position_ids=position_ids, use_cache=False).logits


# --- networks --------------------------------------------------------------------------


@dataclass
class Network:
    """Modules of a recipe, and the names of their inputs in the graphs and in a step (sizes_batch.pack)."""

    modules: dict
    inputs: dict = field(default_factory=dict)  # module -> {input of the graph: name in the step, without the module's}
    axes: int = 1  # of position_ids
    rows: tuple = ("image_embeds",)  # what the tower gives to the language model
    merge: int = sizes_batch.MERGE
    pooled: bool = False  # a picture is one row of the text
    interpolation: object = None  # shapes of pictures in patches -> {name: array [patches, …]}: further inputs of the tower

    @property
    def features(self):
        return FEATURES if "vision" in self.modules else 0

    def sizes(self, bounds):
        return dataclasses.replace(bounds, merge=self.merge, pooled=self.pooled)


PLAIN = {name: name for name in ("input_ids", "position_ids", "segments")}


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(**TEXT, attn_implementation="sdpa"))


def packed():
    return Network({"llm": Packed(llama())}, {"llm": PLAIN})


def library():
    return Network({"llm": Library(llama())}, {"llm": {name: name for name in ("input_ids", "position_ids")}})


def gemma():
    layers = ["sliding_attention", "full_attention"]
    config = hf.Gemma3TextConfig(**TEXT, head_dim=8, query_pre_attn_scalar=8, sliding_window=SLIDING, layer_types=layers, attn_implementation="sdpa", tie_word_embeddings=False)
    return hf.Gemma3ForCausalLM(config)


def windowed():
    return Network({"llm": Packed(gemma())}, {"llm": PLAIN})


def qwen3():
    config = hf.Qwen3Config(**TEXT, head_dim=8, attn_implementation="sdpa", tie_word_embeddings=True)
    return Network({"llm": Packed(hf.Qwen3ForCausalLM(config))}, {"llm": PLAIN})


def places():
    return Network({"llm": Places(gemma())}, {"llm": PLAIN})


def qwen(name="Qwen2_5_VL", text=(), vision=(), **more):
    """A model of Qwen's: their configurations differ in little."""
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "num_heads": 2,
        "in_channels": 3,
        "patch_size": PATCH,
        "temporal_patch_size": 1,
        "spatial_merge_size": sizes_batch.MERGE,
        "initializer_range": 0.2,
    } | dict(vision)
    text = TEXT | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}} | dict(text)
    config = getattr(hf, f"{name}Config")(text_config=text, vision_config=vision, image_token_id=VOCABULARY - 1, **{"tie_word_embeddings": False} | more)
    return getattr(hf, f"{name}ForConditionalGeneration")(config)


def qwen2_5_vl():
    windows = {"window_size": sizes_batch.WINDOW * sizes_batch.MERGE * PATCH, "fullatt_block_indexes": [1]}
    return qwen(vision={"intermediate_size": 24, "out_hidden_size": WIDTH} | windows)


TOWER = {name: name for name in ("pixel_values", "positions", "segments")}
LANGUAGE = {**PLAIN, "image_embeds": None, "image_rows": "image_rows"}


def vlm(reordered=False):
    net, tower = qwen2_5_vl(), TOWER | {"windows": "windows"}
    if reordered:
        tower |= {"windows": "windows_in_order", "window_index": "window_index", "window_places": "window_places"}
    return Network({"vision": PackedTower(net.model.visual, reordered), "llm": PackedLanguage(net)}, {"vision": tower, "llm": LANGUAGE}, axes=3)


def reordered():
    return vlm(reordered=True)


def qwen2_vl():
    net = qwen("Qwen2VL", vision={"embed_dim": 16, "hidden_size": WIDTH, "mlp_ratio": 2})
    return Network({"vision": PackedTower(net.model.visual), "llm": PackedLanguage(net)}, {"vision": TOWER, "llm": LANGUAGE}, axes=3)


def qwen3_vl():
    taps = {"num_position_embeddings": SIDE * SIDE, "deepstack_visual_indexes": [0, 1]}
    net = qwen("Qwen3VL", {"head_dim": 8}, {"hidden_size": 8, "intermediate_size": 16, "out_hidden_size": WIDTH} | taps, tie_word_embeddings=True)
    rows = ("image_embeds", "deepstack_0", "deepstack_1")
    inputs = {"vision": TOWER | {name: name for name in ("indices", "weights")}, "llm": LANGUAGE | {name: None for name in rows[1:]}}
    return Network({"vision": DeepstackTower(net.model.visual), "llm": PackedLanguage(net)}, inputs, 3, rows, interpolation=bilinear)


def bilinear(shapes):
    """The library's own, which takes no picture without patches."""
    grids = torch.tensor([[1, *shape] for shape in shapes if all(shape)]).reshape(-1, 3)
    if not len(grids):
        return {"indices": np.zeros((0, 4), np.int64), "weights": np.zeros((0, 4), np.float32)}
    found = vision_utils.get_vision_interpolation_indices_and_weights(grids, SIDE, align_corners=True, spatial_merge_size=sizes_batch.MERGE)
    return dict(zip(("indices", "weights"), (v.numpy() for v in found)))


def naflex(pooled=False):
    """A LLaVA with SigLIP 2's tower: a row of text for each patch."""
    vision = {"model_type": "siglip2_vision_model", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": PATCH, "num_patches": SIDE * SIDE}
    net = hf.LlavaForConditionalGeneration(hf.LlavaConfig(text_config=TEXT | {"model_type": "llama"}, vision_config=vision, image_token_index=VOCABULARY - 1))
    inputs = {"vision": {name: name for name in ("pixel_values", "segments", "row_weights", "column_weights", *(["pictures"] if pooled else []))}, "llm": LANGUAGE}
    tower = NaflexTower(net.model.vision_tower, net.model.multi_modal_projector, pooled)
    weights = lambda shapes: dict(zip(("row_weights", "column_weights"), naflex_weights(shapes, SIDE)))
    return Network({"vision": tower, "llm": PackedLanguage(net)}, inputs, merge=1, pooled=pooled, interpolation=weights)


def pooled():
    return naflex(pooled=True)


NETWORKS = {f.__name__: f for f in (packed, windowed, qwen3, places, library, vlm, reordered, qwen2_vl, qwen3_vl, naflex, pooled)}
MEASURED = {"input_ids": (1, "seq"), "position_ids": (-1, "seq")} | {name: (0, "merged") for name in ("window_index", "window_places")}


def step_of(network, samples):
    """A step's tensors as the graphs' inputs are called."""
    tensors = sizes_batch.pack(samples, network.features, network.axes)
    if network.interpolation:
        more = network.interpolation([p.shape for s in samples for p in s.pictures])
        tensors |= {f"vision.{name}": value for name, value in more.items()}
    wanted = {f"{module}.{name}": f"{module}.{source}" for module, names in network.inputs.items() for name, source in names.items() if source}
    others = {name: name for name in tensors if name == "labels" or name.startswith(("offsets.", "item_of."))}
    return {name: tensors[source] for name, source in (wanted | others).items()}


# --- PyTorch's figures ----------------------------------------------------------------


class Doubled(torch.overrides.TorchFunctionMode):
    """What a library computes in float32, whatever comes in (norms, rotary tables), is in float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()
        wide = lambda v: torch.float64 if v is torch.float32 else v
        return func(*map(wide, args), **{k: wide(v) for k, v in (kwargs or {}).items()})


def to_module(array, kind):
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(kind) if tensor.is_floating_point() else tensor


def call(network, module, step, kind, *more):
    """A module on a step; `more`: inputs that another module makes, at their places."""
    more = list(more)
    return network.modules[module](*(to_module(step[f"{module}.{name}"], kind) if source else more.pop(0) for name, source in network.inputs[module].items()))


def outputs_of(network, samples, kind, apart):
    """(logits [1, seq, words], all that the tower gives); `apart`: of one sample, and of its pictures one by one."""
    step = step_of(network, samples)
    if "vision" not in network.modules:
        return call(network, "llm", step, kind), []
    if apart:
        (sample,) = samples
        rows = [tower_of(network, step_of(network, [one_picture(p)]), kind) for p in sample.pictures if p.merged]  # libraries take no empty one
        rows = [torch.cat([torch.zeros(0, WIDTH, dtype=kind), *(r[i] for r in rows)]) for i in range(len(network.rows))]
    else:
        rows = tower_of(network, step, kind)
    return call(network, "llm", step, kind, *rows), rows


def tower_of(network, step, kind):
    rows = call(network, "vision", step, kind)
    return [rows] if isinstance(rows, torch.Tensor) else list(rows)


def one_picture(picture):
    nothing = np.zeros(0, np.int64)
    return sizes_batch.Sample(nothing, nothing, nothing.astype(bool), [picture], nothing)


def loss_sum(logits, samples):
    """The loss's numerator."""
    labels = torch.from_numpy(np.concatenate([s.labels() for s in samples]))
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels, ignore_index=sizes_batch.IGNORED, reduction="sum")


def run(network, samples, kind, apart=True):
    """Loss, its gradients in the parameters, and outputs of a step."""
    learned, total, logits, rows = sizes_batch.learned_of(samples), 0.0, [], [[] for _ in network.rows]
    for group in [[s] for s in samples if len(s.ids)] if apart else [samples]:
        outputs = outputs_of(network, group, kind, apart)
        loss = loss_sum(outputs[0], group) / learned
        loss.backward()
        total += loss.item()
        logits.append(outputs[0][0].detach())
        for all_rows, more in zip(rows, outputs[1]):
            all_rows.append(more.detach())
    outputs = {"llm.logits": torch.cat(logits)[None]}
    if "vision" in network.modules:
        outputs |= {f"vision.{name}": torch.cat(all_rows) for name, all_rows in zip(network.rows, rows)}
    return total, outputs


def train(network, steps, kind, seed=None, apart=True, count=STEPS):
    """(losses before each of `count` steps, gradients and outputs of the first); `seed`: of roundings of weights and inputs."""
    network = copy.deepcopy(network)
    if seed is not None:
        steps = [[rounded(s, seed) for s in samples] for samples in steps]
    for module in network.modules.values():
        if seed is not None:
            weights = {n: p.detach().numpy() for n, p in module.named_parameters()}
            for name, value in tolerance.perturbed(weights, "f32", seed).items():
                module.get_parameter(name).data.copy_(torch.from_numpy(value))
        module.to(kind)
    parameters = {f"{m}.{n}": p for m, module in network.modules.items() for n, p in module.named_parameters()}
    settings = sizes_batch.OPTIMIZER
    optimizer = torch.optim.AdamW(parameters.values(), lr=settings["lr"], betas=settings["betas"], eps=settings["eps"], weight_decay=settings["weight_decay"])
    losses, first = [], None
    for step in range(count):
        optimizer.zero_grad(set_to_none=False)
        with Doubled() if kind == torch.float64 else contextlib.nullcontext():
            loss, outputs = run(network, steps[step % len(steps)], kind, apart)
        losses.append(loss)
        if first is None:
            gradients = {n: p.grad.numpy().copy() for n, p in parameters.items() if p.grad is not None}
            first = gradients, {n: v.numpy() for n, v in outputs.items()}
        # Of a step without pictures the tower has no gradient of its own in PyTorch, and of zeros in a program.
        for p in parameters.values():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        optimizer.step()
    return np.array(losses), *first


def rounded(sample, seed):
    sample = copy.deepcopy(sample)
    for i, picture in enumerate(sample.pictures):
        picture.pixels = tolerance.perturbed({"": picture.pixels}, "f32", seed + i)[""]
    return sample


def figures(network, steps):
    """Tensors by kind, and what roundings do to them. Losses are of the first step's samples every time, and of all steps' in turn."""
    curves, facts = {}, {"losses": {}}
    for name, chosen in (("first", steps[:1]), ("all", steps)):
        losses, gradients, outputs = train(network, chosen, torch.float64)
        drawn = [train(network, chosen, torch.float32, seed) for seed in range(tolerance.DRAWS)]
        draws = tolerance.Draws(gradients, losses, [(d[1], d[0]) for d in drawn])
        facts["losses"][name] = {"apart": draws.apart.tolist(), "steps": draws.steps}
        curves[name] = losses
    # Items do not see one another: a step as one list of rows is the same.
    together = train(network, steps, torch.float64, apart=False, count=1)
    worst = max(np.abs(a - b).max(initial=0) for one, other in zip(together[1:], (gradients, outputs)) for a, b in ((one[n], other[n]) for n in other))
    assert worst < 1e-11 and set(together[1]) == set(gradients), f"items see one another: {worst}"
    facts["gradients"] = {"off": draws.off, "typical": draws.typical}
    facts["outputs"] = {n: max(float(np.abs(d[2][n] - value).max(initial=0)) for d in drawn) for n, value in outputs.items()}
    facts["terms"] = float(np.abs(outputs["llm.logits"]).max())
    narrow = lambda values: {n: v.astype(np.float32) for n, v in values.items()}
    return {"gradients": narrow(gradients), "outputs": narrow(outputs), "losses": curves}, facts


# --- files -------------------------------------------------------------------------------


def write(name, folder, seed, sizes):
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    network = NETWORKS[name]()
    sizes = network.sizes(sizes)
    for module in network.modules.values():
        scatter_weights(module.eval(), seed)
        with torch.no_grad():
            for p in module.parameters():
                p.copy_(p.bfloat16())  # so that files are small
    # The second step has no picture.
    draws = [{}, {"special": ["none", "empty", "none"]}, {"special": [None, "none", "zero", None, "largest"]}]
    steps = [sizes_batch.draw(seed * len(draws) + i, sizes, VOCABULARY, network.features, **more) for i, more in enumerate(draws)]
    tensors, facts = figures(network, steps)
    made = [step_of(network, samples) for samples in steps]
    graphs = {module: f"{module}.onnx" for module in network.modules}
    for module, file in graphs.items():
        write_graph(network, module, folder / file)
    for i, step in enumerate(made):
        save_file(step, folder / f"step-{i}.safetensors")
    for kind in ("gradients", "outputs", "losses"):
        save_file({n: np.ascontiguousarray(v) for n, v in tensors[kind].items()}, folder / f"{kind}.safetensors")
    facts |= {"graphs": graphs, "rows": network.rows, "sizes": vars(sizes), "steps": len(steps), "exporter": f"torch {torch.__version__.split('+')[0]}, transformers {hf.__version__}"}
    (folder / "figures.json").write_text(json.dumps(facts, indent=1) + "\n")
    size = sum(f.stat().st_size for f in folder.iterdir())
    return f"{name:10} {[s['labels'].shape[1] for s in made]} tokens, {[len(s.get('llm.image_rows', ())) for s in made]} rows of pictures, {size:,} bytes, losses {tensors['losses']['all'].round(4).tolist()}"


def write_graph(network, module, path):
    """Sizes are free, so that a small step is an example for all."""
    step, names = step_of(network, sizes_batch.draw(1, network.sizes(sizes_batch.QUICK), VOCABULARY, network.features)), list(network.inputs[module])
    rows = len(step.get("llm.image_rows", ()))
    example = [to_module(step[f"{module}.{n}"] if network.inputs[module][n] else np.ones((rows, network.modules["llm"].model.config.hidden_size), np.float32), torch.float32) for n in names]
    dims, merged, images = {}, torch.export.Dim("merged"), torch.export.Dim("images")
    patches = network.merge**2 * merged if network.merge > 1 else merged
    placed = images if network.pooled else merged
    dim_of = {n: placed for n in (*network.rows, "image_rows")} | {"pictures": images}
    for n, value in zip(names, example):
        axis, dim = MEASURED.get(n) or ((0, dim_of[n]) if n in dim_of else (0, patches) if module == "vision" else (1, "seq"))
        dims[n] = {axis % value.dim(): merged if dim == "merged" else dim}
    outputs = list(network.rows) if module == "vision" else ["logits"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(network.modules[module], tuple(example), path, dynamic_shapes=dims, input_names=names, output_names=outputs)
    # Kept files are small: what nodes are in PyTorch is two thirds of one.
    proto = onnx.load(path)
    for node in proto.graph.node:
        for i in reversed(range(len(node.metadata_props))):
            if node.metadata_props[i].key in DROPPED:
                del node.metadata_props[i]
    onnx.save(proto, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("networks", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow", action="store_true", help="pictures of up to 1,024 patches, texts of up to 400 tokens")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # networks so small wait for threads more than they compute
    for name in arguments.networks or NETWORKS:
        print(write(name, arguments.folder, arguments.seed, sizes_batch.SLOW if arguments.slow else sizes_batch.QUICK), flush=True)


if __name__ == "__main__":
    main()
