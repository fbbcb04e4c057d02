# ===- going_on.py - weights, groups, validation and events of a program -----===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A language model begins with the weights of files as Hugging Face writes them
# (two shards with an index, some of half precision), trains with groups of
# parameters that have rates and decays of their own, and is validated on another
# batch. One process against NumPy: the parameters after a step follow from the
# saved gradients by PyTorch's formulas. Two ranks (data, tensor and pipeline
# parallel) against one process: losses of all steps, validation losses. Event
# files are read with protobuf's own decoder.
# ===-----------------------------------------------------------------------===
"""going_on.py --dt-opt PATH: begins with other weights, validates and goes on, in one process and on two ranks."""

import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from safetensors.numpy import load_file, save_file

import batches
import tolerance
from layouts import HANGS, Runner, parse_plan

STEPS, EVERY, SAMPLES = 5, 2, 8
GROUPS = [
    {"match": "model.*.ln_?.*", "lr_factor": 0.1, "weight_decay": 0},
    {"match": "model.*.{ln_1,mlp.c_fc}.weight", "lr_factor": 3, "weight_decay": 0.5},
    {"match": "model.transformer.wte.weight", "lr_factor": 0},
    {"match": "*.bias", "weight_decay": 0},
]
OPTIMIZER = {"kind": "adamw", "lr": 0.01, "weight_decay": 0.1, "clip": 1.0, "groups": GROUPS}
CASE = {"model": "gpt2", "samples": SAMPLES}
PLANS = {"dp": "model:dp=2,zero=1", "tp": "model:tp=2", "pp": "model:pp=2"}


def expect(condition, what):
    if not condition:
        sys.exit(what)


def compile_program(runner, folder, plan, optimizer):
    folder.mkdir()
    recipe = json.loads(runner.recipe(CASE, 4, folder).read_text())
    recipe["optimizer"] = optimizer
    (folder / "recipe.json").write_text(json.dumps(recipe))
    command = [runner.dt_opt, folder / "recipe.json", "--emit=cpp", "-o", folder / "program"]
    if plan:
        (folder / "plan.json").write_text(json.dumps(parse_plan(plan)))
        command.append(f"--plan={folder / 'plan.json'}")
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=HANGS)


def run(folder, ranks, *flags, fails=False):
    command = [folder / "program/build/train", "--threads", 1, *flags, *(["--ranks", ranks] if ranks > 1 else [])]
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True, timeout=HANGS)
    expect((done.returncode != 0) == fails, f"{command} ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stderr if fails else done.stdout


def write_weights(model, folder):
    """Two shards and an index, with the names of the graph; every third tensor in half precision. Returns the values."""
    folder.mkdir()
    random, shards, values = np.random.default_rng(3), ({}, {}), {}
    graph = onnx.load(model / "model.onnx").graph
    for i, tensor in enumerate(t for t in graph.initializer if t.name.startswith("transformer.")):
        value = (onnx.numpy_helper.to_array(tensor) + 0.02 * random.standard_normal(tuple(tensor.dims))).astype(np.float32)
        shards[i % 2][tensor.name] = value.astype(np.float16) if i % 3 == 0 else value
        values["model." + tensor.name] = shards[i % 2][tensor.name].astype(np.float32)
    shards[0]["score.weight"] = np.zeros((2, 64), np.float32)
    index = {"metadata": {"total_size": 0}, "weight_map": {}}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05}-of-00002.safetensors"
        save_file(shard, folder / name)
        index["weight_map"].update({key: name for key in shard})
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return values


def flags_of(work, steps):
    return ["--batch", work / "batch.safetensors", "--init-from", work / "hf", "--steps", steps, "--metrics", "metrics.jsonl", "--save-gradients", "gradients.safetensors"]


def group_of(name):
    """(factor of the rate, decay) of a parameter by GROUPS, matched here by hand."""
    last = name.split(".")
    if last[-2] in ("ln_1", "ln_2", "ln_f"):
        return 0.1, 0
    if name.endswith("mlp.c_fc.weight"):
        return 3, 0.5
    if name == "model.transformer.wte.weight":
        return 0, 0.1
    return 1, 0 if name.endswith(".bias") else 0.1


def check_update(before, after, gradients):
    """One step of torch.optim.AdamW with parameter groups, after clip_grad_norm_."""
    norm = np.sqrt(sum(float(np.sum(g.astype(np.float64) ** 2)) for g in gradients.values()))
    scale = min(1.0, OPTIMIZER["clip"] / (norm + 1e-6))
    seen = set()
    for name, g in gradients.items():
        factor, decay = group_of(name)
        seen.add((factor, decay))
        rate, g = OPTIMIZER["lr"] * factor, g.astype(np.float64) * scale
        want = before[name] * (1 - rate * decay) - rate * g / (np.abs(g) + 1e-8)
        # A gradient near eps decides the direction itself.
        firm = np.abs(g) > 1e-5
        error = np.abs(after[name] - want)[firm].max(initial=0)
        expect(error <= 64 * tolerance.EPS * (np.abs(want).max() + rate), f"{name}: after a step with rate {factor} and decay {decay} off by {error}")
        moved = np.abs(after[name].astype(np.float64) - before[name]).max()
        expect((moved > 0) == (factor > 0), f"{name}: moved by {moved} at a rate of {factor}")
    expect(len(seen) == 5, f"groups that were tried: {seen}")


def metrics_of(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "loss" in row]
    return steps, {row["step"]: row["validation_loss"] for row in rows if "validation_loss" in row}


def event_class():
    """tensorflow.Event, as far as it is written."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name, *fields):
        m = file.message_type.add(name=name)
        for number, field, kind, other in fields:
            label = kinds.LABEL_REPEATED if field == "value" else kinds.LABEL_OPTIONAL
            m.field.add(name=field, number=number, type=kind, label=label, type_name=f".t.{other}" if other else None)

    message("Value", (1, "tag", kinds.TYPE_STRING, None), (2, "simple_value", kinds.TYPE_FLOAT, None))
    message("Summary", (1, "value", kinds.TYPE_MESSAGE, "Value"))
    message("Event", (1, "wall_time", kinds.TYPE_DOUBLE, None), (2, "step", kinds.TYPE_INT64, None), (3, "file_version", kinds.TYPE_STRING, None),
            (5, "summary", kinds.TYPE_MESSAGE, "Summary"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Event"))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def check_events(folder, steps, validated):
    files = list(folder.glob("events.out.tfevents.*"))
    expect(len(files) == 1, f"event files: {files}")
    data, events, Event = files[0].read_bytes(), [], event_class()
    while data:
        length, check = struct.unpack("<QI", data[:12])
        body, (own,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])
        expect(check == crc32c(data[:8]) and own == crc32c(body), f"checksums of event {len(events)}")
        events.append(Event.FromString(body))
        data = data[16 + length :]
    expect(events[0].file_version == "brain.Event:2" and all(e.wall_time > 1.5e9 for e in events), "an event's version or time")
    have = {(e.step, v.tag): v.simple_value for e in events for v in e.summary.value}
    want = {(row["step"], key): row[key] for row in steps for key in ("loss", "loss.loss", "lr", "grad_norm", "samples_per_second", "flops_per_second")}
    want.update({(step, key): loss for step, loss in validated.items() for key in ("validation_loss", "validation_loss.loss")})
    expect(set(have) == set(want), f"events: {sorted(set(have) ^ set(want))[:5]}")
    expect(all(np.isclose(have[k], want[k], rtol=1e-6) for k in want), "values of events are not those of the metrics")


def one_process(runner, work):
    """Returns losses, validation losses, the size of logits, and what roundings do to both kinds of losses."""
    folder = work / "one"
    done = compile_program(runner, folder, None, OPTIMIZER)
    expect(done.returncode == 0, done.stderr)
    runner.build(folder)
    values = write_weights(runner.models / "gpt2", work / "hf")
    said = run(folder, 1, *flags_of(work, 1), "--checkpoint", "first", "--save-outputs", "outputs.safetensors")
    expect(f"initial values of {len(values)} of " in said and "of them F16" in said and "not used of it: 1 (score.weight)" in said, said)
    gradients = load_file(folder / "gradients.safetensors")
    after = load_file(folder / "first/step-1/rank-0.safetensors")
    check_update(values, after, gradients)
    run(folder, 1, *flags_of(work, STEPS), "--validate", work / "other.safetensors", "--validate-every", EVERY, "--tensorboard", "events")
    steps, validated = metrics_of(folder)
    expect(sorted(validated) == [2, 4, 5], f"validated at {sorted(validated)}")
    check_events(folder / "events", steps, validated)
    # Going on from what a run left, as a new run, begins where that run was.
    run(folder, 1, "--batch", work / "batch.safetensors", "--init-from", "first", "--steps", 1, "--metrics", "metrics.jsonl")
    expect(metrics_of(folder)[0][0]["loss"] == steps[1]["loss"], "the first loss is not that of the checkpoint's next step")
    check_names(folder, work, steps[0]["loss"])
    check_copy(folder, work)
    recipe = json.loads((folder / "recipe.json").read_text())
    terms = tolerance.terms_of_losses(recipe, load_file(folder / "outputs.safetensors"))
    losses = [s["loss"] for s in steps]
    drawn = [drawn_curves(folder, work, values, seed) for seed in range(tolerance.DRAWS)]
    validations = tolerance.CurveDraws(list(validated.values()), [list(v.values()) for _, v in drawn])
    return losses, validated, terms, tolerance.CurveDraws(losses, [l for l, _ in drawn]), validations


def drawn_curves(folder, work, values, seed):
    """(losses, validation losses) from weights that are off by one rounding each."""
    drawn = tolerance.perturbed(values, "f32", seed)
    save_file({name.removeprefix("model."): value for name, value in drawn.items()}, work / "drawn.safetensors")
    validate = ["--validate", work / "other.safetensors", "--validate-every", EVERY]
    run(folder, 1, "--batch", work / "batch.safetensors", "--init-from", work / "drawn.safetensors", "--steps", STEPS, "--metrics", "metrics.jsonl", *validate)
    steps, validated = metrics_of(folder)
    return [s["loss"] for s in steps], validated


def check_names(folder, work, loss):
    """The same values under the bare model's names, as Hugging Face has them for GPT-2, and under names that must be mapped; a part of them."""
    values = {name: value for file in (work / "hf").glob("*.safetensors") for name, value in load_file(file).items()}

    def begin(name, tensors, *flags, **how):
        (work / name).mkdir()
        save_file(tensors, work / name / "model.safetensors")
        return run(folder, 1, "--batch", work / "batch.safetensors", "--init-from", work / name, *flags, "--steps", 1, "--metrics", "metrics.jsonl", **how)

    def expect_same(name):
        first = metrics_of(folder)[0][0]["loss"]
        expect(first == loss, f"names {name}: the first loss is {first}, not {loss}")

    count = len(values) - 1  # but score.weight
    said = begin("bare", {name.removeprefix("transformer."): value for name, value in values.items()})
    expect(f"; {count} of them under names that begin otherwise ('" in said and "' for 'model.transformer." in said, said)
    expect_same("of the bare model")
    decoder = {name.replace("transformer.", "decoder.gpt."): value for name, value in values.items()}
    said = begin("unknown", decoder, fails=True)
    expect(f"none of its {count + 1} tensors has the name of a parameter: it has decoder.gpt." in said, said)
    said = begin("mapped", decoder, "--init-rename", "decoder.gpt.=transformer.")
    expect(f"initial values of {count} of {count} parameters" in said and "begin otherwise" not in said, said)
    expect_same("that are mapped")
    part = {name: value for name, value in values.items() if ".ln_f." not in name}
    said = begin("part", part, fails=True)
    expect(f"--init-from: 2 of {count} parameters are in no source (model.transformer.ln_f.weight, model.transformer.ln_f.bias); 1 tensor is no parameter's (score.weight)" in said, said)
    said = begin("less", part, "--init-partial")
    expect("as the program begins: 2 (model.transformer.ln_f.weight, model.transformer.ln_f.bias)" in said, said)


def check_copy(folder, work):
    """A copied program has its own weights: it misses them although the original's are there."""
    copy = work / "copy"
    shutil.copytree(folder / "program", copy / "program")
    (copy / "program/weights.safetensors").unlink()
    said = run(copy, 1, "--batch", work / "batch.safetensors", "--steps", 1, fails=True)
    expect(f"{copy / 'program'}/weights.safetensors" in said, f"a copy without weights says {said}")


def two_ranks(runner, work, name, want):
    folder, (losses, validated, terms, draws, validations) = work / name, want
    done = compile_program(runner, folder, PLANS[name], OPTIMIZER)
    expect(done.returncode == 0, done.stderr)
    runner.build(folder)
    flags = [*flags_of(work, STEPS), "--validate", work / "other.safetensors", "--validate-every", EVERY, "--checkpoint", "run", "--save-every", 1, "--keep", 1]
    run(folder, 2, *flags)
    steps, have = metrics_of(folder)
    curve, step = tolerance.compare_curves([s["loss"] for s in steps], losses, terms, draws)
    expect(len(steps) == STEPS and curve <= 1, f"{name}: loss of step {step} differs by {curve:.1f} limits")
    for i, (step, loss) in enumerate(validated.items()):
        limit = max(tolerance.loss_limit(loss, terms, step), validations.loss_limit(i))
        expect(abs(have[step] - loss) <= limit, f"{name}: validation loss of step {step} is {have[step]}, {loss} in one process")
    best = min(have, key=have.get)
    kept = sorted(p.name for p in (folder / "run").iterdir() if p.name != "lock")
    expect(kept == sorted({"best", f"step-{best}", f"step-{STEPS}"}), f"{name}: kept are {kept}, the best is step {best}")
    print(f"{name}: losses {curve:.2f} of the limit")


def wrong(runner, work):
    """A group that no parameter has."""
    for groups, key, what in (
        ([{"match": "model.*.ln1.weight", "lr_factor": 0}], "[0].match: ", "no parameter \"module.name\" matches 'model.*.ln1.weight'; the nearest are 'model.transformer.h.0.ln_1.weight'"),
        ([{"match": "*.bias", "lr_factor": 0}, {"match": "model.*.ln_1.bias", "lr_factor": 0}], "[1].match: ", "an earlier group has all that 'model.*.ln_1.bias' matches"),
        ([{"match": "*", "lr": 1}], "[0]", "'lr'"),
        ([{"match": "*", "lr_factor": -1}], "[0].lr_factor: ", "expected a number of at least 0"),
        ([{"lr_factor": 1}], "[0]", "match"),
        ([{"match": "*"}], "[0]", "expected lr_factor, weight_decay or both"),
        ([7], "[0]: ", "expected an object"),
    ):
        folder = pathlib.Path(tempfile.mkdtemp(dir=work)) / "wrong"
        done = compile_program(runner, folder, None, {"kind": "adamw", "groups": groups})
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        expect(done.returncode != 0 and len(errors) == 1, f"expected one error about {key}, got {done.returncode}:\n{done.stderr}")
        expect("optimizer.groups" + key in errors[0] and what in errors[0], f"expected '{key}{what}', got {errors[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dt-opt", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        runner = Runner(arguments.dt_opt, pathlib.Path(__file__).resolve().parents[1] / "models", work)
        for name, seed in (("batch", 0), ("other", 1)):
            save_file(batches.make(runner.models / "gpt2", SAMPLES, seed), work / f"{name}.safetensors")
        wrong(runner, work)
        want = one_process(runner, work)
        for name in PLANS:
            two_ranks(runner, work, name, want)


if __name__ == "__main__":
    main()
