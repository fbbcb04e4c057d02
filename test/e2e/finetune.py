# ===- finetune.py - a Hugging Face folder through tools/finetune -------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A tiny folder of a family trains for ten steps on conversations of several turns,
# on one rank or several. Losses are those of a plain PyTorch loop that takes one
# sample at a time, in float64; how far float32 is from them is measured here
# (tolerance.py). The folder that comes out opens in transformers and has the loss
# that the run's last validation says.
# ===-----------------------------------------------------------------------===
"""finetune.py --dt-opt PATH FAMILY [--ranks N] [--plan PLAN] [--resume] [--micro N] [--freeze PATTERN]: exit code 0 when the losses are PyTorch's."""

import argparse
import contextlib
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
from safetensors.numpy import load_file

import tolerance
import train_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, SIZE, SAMPLES, STOPPED = 10, 4, 22, 6
DECAY, CLIP = 0.01, 1.0
RANK, ALPHA = 4, 12

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import torch.nn.functional as F
    import transformers as hf

    import finetune_folders as folders
    import finetune_optimizers
    import finetune_pictures as pictures
except ImportError:
    print("skipped: finetune: tools/setup --torch installs what this needs")
    sys.exit(train_model.SKIPPED)
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tools")]
from export.sizes import Doubled  # noqa: E402
from finetuning.steps import largest_part  # noqa: E402


class Texts:
    """A family of finetune_folders, as those of finetune_pictures are."""

    def __init__(self, name):
        self.name, self.template, self.kind = name, folders.FAMILIES[name].template, folders.FAMILIES[name].kind

    def make(self, path):
        return folders.make_folder(self.name, path)

    def reader(self, path):
        return hf.AutoTokenizer.from_pretrained(path)

    def draw(self, count, seed):
        return folders.draw_chats(self.name, count, seed)

    def write(self, path, chats):
        return folders.write_chats(path, chats)

    def expected(self, tokenizer, chat):
        return pictures.Sample(*folders.expected(self.name, tokenizer, chat), {})


FAMILIES = {name: Texts(name) for name in folders.FAMILIES} | pictures.FAMILIES


def rate(step, schedule, lr):
    return lr * (1 - step / STEPS if schedule == "linear" else 1)


def summed(net, sample):
    """A sample's loss, added up over what is learned, and its largest logit."""
    ids, learned = torch.tensor(sample.ids), torch.tensor(sample.learned)
    inputs = {k: v.to(net.dtype) if v.is_floating_point() else v for k, v in sample.inputs.items()}
    tokens = "decoder_input_ids" if net.config.is_encoder_decoder else "input_ids"
    logits = net(**{tokens: ids[None]}, use_cache=False, **inputs).logits[0]
    labels = torch.where(learned[1:], ids[1:], -100)
    return F.cross_entropy(logits[:-1], labels, ignore_index=-100, reduction="sum"), logits.detach().abs().max().item()


def mean(net, samples):
    """Over all that samples learn."""
    count, total, terms = sum(sum(s.learned[1:]) for s in samples), 0.0, 0.0
    with torch.no_grad():
        for sample in samples:
            loss, largest = summed(net, sample)
            total, terms = total + loss.item(), max(terms, largest)
    return total / count, terms


def open_net(path, kind):
    net = library(path).from_pretrained(path, dtype=torch.float32).to(kind).eval()
    if getattr(net.config, "_experts_implementation", None):
        net.set_experts_implementation("eager")  # the library's choice knows no float64
    return net


def library(path):
    config = hf.AutoConfig.from_pretrained(path)
    if config.is_encoder_decoder:
        return hf.AutoModelForSpeechSeq2Seq
    return hf.AutoModelForImageTextToText if hasattr(config, "vision_config") else hf.AutoModelForCausalLM


def is_frozen(name, patterns):
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)


class Beside(torch.nn.Module):
    """LoRA by hand."""

    def __init__(self, base, a, b, scale):
        super().__init__()
        self.base, self.scale = base, scale
        self.lora_A, self.lora_B = (torch.nn.Parameter(v.to(base.weight.dtype)) for v in (a, b))

    def forward(self, x):
        return self.base(x) + self.scale * torch.nn.functional.linear(torch.nn.functional.linear(x, self.lora_A), self.lora_B)


def put_adapters(net, adapters):
    """{layer.lora_A.weight: value} beside the layers, and nothing else trains."""
    for layer in {name.rsplit(".lora_", 1)[0] for name in adapters}:
        parent, _, name = layer.rpartition(".")
        parts = [torch.from_numpy(adapters[f"{layer}.lora_{part}.weight"]) for part in "AB"]
        setattr(net.get_submodule(parent), name, Beside(net.get_submodule(layer), *parts, ALPHA / RANK))
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(".lora_" in name)


def loop(path, steps, schedule, optimizer, frozen, kind, seed=None, adapters=None):
    """(losses before each step, the largest logit, names of what has a gradient); `seed`: of roundings of the weights; `adapters`: how they begin."""
    net = open_net(path, kind)
    for name, parameter in net.named_parameters():
        if is_frozen(name, frozen):
            parameter.requires_grad_(False)
    if adapters:
        put_adapters(net, adapters)
    if seed is not None:
        weights = {n: p.detach().numpy() for n, p in net.named_parameters()}
        for name, value in tolerance.perturbed(weights, "f32", seed).items():
            net.get_parameter(name).data.copy_(torch.from_numpy(value))
    updates, losses, terms = optimizer.make({n: p for n, p in net.named_parameters() if p.requires_grad}, DECAY), [], 0.0
    for step, samples in enumerate(steps):
        for update in updates:
            update.param_groups[0]["lr"] = rate(step, schedule, optimizer.lr)
        net.zero_grad()
        count, losses = sum(sum(s.learned[1:]) for s in samples), [*losses, 0.0]
        with Doubled() if kind == torch.float64 else contextlib.nullcontext():
            for sample in samples:
                loss, largest = summed(net, sample)
                (loss / count).backward()
                losses[-1], terms = losses[-1] + loss.item() / count, max(terms, largest)
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        with optimizer.exact(kind == torch.float64):
            for update in updates:
                update.step()
    return np.array(losses), terms, [n for n, p in net.named_parameters() if p.grad is not None]


def finetune(dt_opt, work, *flags):
    command = [ROOT / "tools/finetune", "--model", work / "model", "--data", work / "train.jsonl", "--validate", work / "valid.jsonl", "--out", work / "out", "--bin", dt_opt.parent, "--threads", 1]
    command += ["--global-batch", SIZE, "--weight-decay", DECAY, "--clip", CLIP, *flags]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{flags}: ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def first_adapters(arguments, work):
    """What the program begins with, by the library's names: its draws are its own."""
    command = [work / "out/program/build/train", "--init-from", next(p for p in (work / "out/weights", work / "model") if p.exists()), "--steps", 0, "--export", work / "first"]
    command += ["--ranks", arguments.ranks] if arguments.ranks > 1 else []
    subprocess.run([str(c) for c in command], check=True, capture_output=True)
    names = [name.removeprefix("base_model.model.") for name in load_file(work / "out/adapter/adapter_model.safetensors")]
    found = {name.split(".", 2)[2]: value for name, value in load_file(work / "first/adapters.safetensors").items()}
    return {name: next(value for end, value in found.items() if name.endswith(end)) for name in names}


def open_with_peft(work):
    """As who has the adapter does; None: PEFT is not installed."""
    try:
        import peft
    except ImportError:
        return None
    with warnings.catch_warnings():  # of weights that it does not find
        warnings.simplefilter("error", UserWarning)
        return peft.PeftModel.from_pretrained(open_net(work / "model", torch.float64), work / "out/adapter", autocast_adapter_dtype=False)


def check_adapter(arguments, work, held_out, lines):
    """PEFT's files, and the folder with them added, have the loss of the last validation."""
    tensors = load_file(work / "out/adapter/adapter_model.safetensors")
    config = json.loads((work / "out/adapter/adapter_config.json").read_text())
    made = {name.removeprefix("base_model.model."): value for name, value in tensors.items()}
    expect(config["r"] == RANK and config["lora_alpha"] == ALPHA and set(config["target_modules"]) == {n.rsplit(".lora_", 1)[0] for n in made}, f"the adapter says {config}")
    before, after = (library(work / path).from_pretrained(work / path, dtype=torch.float32) for path in ("model", "out/model"))
    moved = {n.removesuffix(".weight") for n, p in after.named_parameters() if not torch.equal(p, before.get_parameter(n))}
    expect(moved == set(config["target_modules"]), f"{sorted(moved)} have changed")
    beside, units = open_net(work / "model", torch.float64), []
    put_adapters(beside, made)
    library_net = open_with_peft(work)
    for net in (beside, open_net(work / "out/model", torch.float64), *([library_net] if library_net else [])):
        want, terms = mean(net, held_out)
        units.append(abs(lines[-1]["validation_loss"] - want) / tolerance.loss_limit(want, terms, 0))
        expect(units[-1] <= 1, f"the loss is {want}, the last validation says {lines[-1]['validation_loss']}: {units[-1]:.1f} limits")
    return f", the adapter's loss {units[0]:.2f}, merged {units[1]:.2f}, " + (f"with PEFT {units[2]:.2f}" if library_net else "no PEFT here")


def order(arguments, count):
    """Places of the samples that ten steps take, in their order."""
    if arguments.order == "file":
        return [i % count for i in range(STEPS * SIZE)]
    return [int(i) for epoch in range(-(-STEPS * SIZE // count)) for i in np.random.default_rng((3, epoch)).permutation(count)][: STEPS * SIZE]


def edit_recipe(path, micro, chats):
    """As a user does who wants other parts: `chats` tokens of each step's samples."""
    made = json.loads(path.read_text())
    made["batch"] |= {"micro": micro, "tokens": max(largest_part(sum(step), max(step), -(-SIZE // micro)) for step in chats)}
    path.write_text(json.dumps(made))


def expect(good, what):
    if not good:
        sys.exit(what)


def check_model(arguments, work, held_out, lines, learns):
    """The folder that came out; `learns`: weights that train and that the loss depends on."""
    family, out = FAMILIES[arguments.family], work / "out/model"
    made, before = (library(p).from_pretrained(p) for p in (out, work / "model"))
    expect(made.dtype == family.kind, f"{out} has {made.dtype}")
    for path in (work / "model").iterdir():
        expect((out / path.name).exists(), f"{out} lacks {path.name}")
    expect(family.reader(out).chat_template == family.template, "another template")
    moved = [n for n, p in made.named_parameters() if not torch.equal(p, before.get_parameter(n))]
    expect(moved == learns, f"{moved} have changed, not {learns}")
    if family.kind != torch.float32:
        (rank,) = (work / f"out/checkpoint/step-{STEPS}").glob("rank-*.safetensors")
        from safetensors.torch import load_file

        # A table may have rows beyond its own there, so that it can be cut: a piece then.
        state = {n.removesuffix("[0]"): v.flatten() for n, v in load_file(rank).items()}
        wrong = [n for n, p in made.named_parameters() if not torch.equal(p.flatten(), state[f"llm.{n}"][: p.numel()].to(p.dtype))]
        expect(not wrong, f"{wrong} are not those of the checkpoint")
        return ""
    want, terms = mean(open_net(out, torch.float64), held_out)
    units = abs(lines[-1]["validation_loss"] - want) / tolerance.loss_limit(want, terms, 0)
    expect(units <= 1, f"the folder's loss is {want}, the last validation says {lines[-1]['validation_loss']}: {units:.1f} limits")
    return f", the folder's loss {units:.2f}"


def check(arguments, work):
    family = FAMILIES[arguments.family]
    reader = family.reader(family.make(work / "model"))
    chats, others = family.draw(SAMPLES, 1), family.draw(7, 2)
    samples, held_out = ([family.expected(reader, chat) for chat in some] for some in (chats, others))
    longest = max(len(s.ids) for s in samples + held_out)
    long = [(role, " ".join(folders.WORDS * 20) if role == "assistant" else content) for role, content in chats[1][:2]]  # left out
    expect(longest < len(family.expected(reader, long).ids), "the test's samples have other sizes")
    family.write(work / "train.jsonl", [*chats[:5], long, *chats[5:]])
    family.write(work / "valid.jsonl", others)

    schedule = "constant" if arguments.resume else "linear"
    optimizer = finetune_optimizers.OPTIMIZERS[arguments.optimizer]
    flags = ["--optimizer", arguments.optimizer, "--lr", optimizer.lr, "--max-tokens", longest, "--order", arguments.order, "--seed", 3, "--schedule", schedule]
    flags += [f"--freeze={pattern}" for pattern in arguments.freeze]
    flags += [flag for pattern in arguments.lora for flag in ("--lora", pattern)] + (["--rank", RANK, "--alpha", ALPHA, "--merge"] if arguments.lora else [])
    flags += ["--ranks", arguments.ranks, "--plan", arguments.plan] if arguments.ranks > 1 else []
    places = order(arguments, SAMPLES)
    steps = [[samples[i] for i in places[s * SIZE : (s + 1) * SIZE]] for s in range(STEPS)]
    if arguments.micro:
        finetune(arguments.dt_opt, work, *flags, "--steps", 0)
        lengths = [[len(s.ids) for s in step] for step in (*steps, held_out[:SIZE], held_out[SIZE:])]
        edit_recipe(work / "out/recipe.json", arguments.micro, lengths)
    said = finetune(arguments.dt_opt, work, *flags, "--steps", STOPPED if arguments.resume else STEPS)
    expect(f"1 of {SAMPLES + 1} samples" in said, f"the long sample is not named: {said}")
    expect(f"{arguments.ranks} rank" in said or arguments.plan == "auto" and f"of {arguments.ranks} devices" in said, f"not on {arguments.ranks} ranks: {said}")
    expect(f"in {-(-SIZE // (arguments.micro or SIZE))} parts" in said, f"another number of microbatches: {said}")
    if arguments.resume:
        finetune(arguments.dt_opt, work, *flags, "--steps", STEPS, "--resume")

    lines = [json.loads(line) for line in (work / "out/metrics.jsonl").read_text().splitlines()]
    expect(len((work / "out/metrics.csv").read_text().splitlines()) == len(lines) + 1 and "<svg" in (work / "out/run.html").read_text(), "no page of the run")
    expect([line["step"] for line in lines] == list(range(1, STEPS + 1)), f"steps are {[line['step'] for line in lines]}")
    for line, step in zip(lines, steps):
        want = {"tokens": sum(len(s.ids) for s in step), "learned_tokens": sum(sum(s.learned[1:]) for s in step)}
        expect(all(line[k] == v for k, v in want.items()), f"step {line['step']} has {line}, expected {want}")
        expect(abs(line["lr"] - rate(line["step"] - 1, schedule, optimizer.lr)) < 1e-12, f"step {line['step']} has the rate {line['lr']}")
    have = np.array([line["loss"] for line in lines])
    adapters = first_adapters(arguments, work) if arguments.lora else None
    want, terms, learns = loop(work / "model", steps, schedule, optimizer, arguments.freeze, torch.float64, None, adapters)
    draws = tolerance.CurveDraws(want, [loop(work / "model", steps, schedule, optimizer, arguments.freeze, torch.float32, seed, adapters)[0] for seed in range(tolerance.DRAWS)])
    worst, where = tolerance.compare_curves(have, want, terms, draws)
    far = np.max(np.abs(have - want) / want)
    expect(worst <= 1, f"losses {have.tolist()}, expected {want.tolist()}: step {where + 1} is {worst:.1f} limits off")
    return f"losses {worst:.2f} of their limits, at most {far:.1e} from PyTorch's" + (check_adapter(arguments, work, held_out, lines) if adapters else check_model(arguments, work, held_out, lines, learns))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="+", choices=list(FAMILIES))
    parser.add_argument("--dt-opt", required=True, type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=1, help="as many as --plan has")
    parser.add_argument("--plan", default="auto")
    parser.add_argument("--resume", action="store_true", help=f"stop after {STOPPED} steps")
    parser.add_argument("--micro", type=int, help="edit the recipe first: so many samples a microbatch")
    parser.add_argument("--freeze", action="append", default=[])
    parser.add_argument("--lora", action="append", default=[])
    parser.add_argument("--optimizer", choices=list(finetune_optimizers.OPTIMIZERS), default="adamw")
    parser.add_argument("--order", choices=("file", "shuffle"), default="file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    for arguments.family in arguments.families:
        with tempfile.TemporaryDirectory() as work:
            print(f"{arguments.family}: {check(arguments, pathlib.Path(work))}", flush=True)


if __name__ == "__main__":
    main()
