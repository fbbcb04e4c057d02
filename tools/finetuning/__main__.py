# ===- __main__.py - from a folder and a file to a folder ---------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The order of things: what is wrong with folder and data is said before a file is
# written, and what is wrong with the recipe before anything is built.
# ===-----------------------------------------------------------------------===
"""tools/finetune (docs/finetune.md)."""

import json
import logging
import os
import shutil
import signal
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a folder is all that is read

from . import arguments
from .errors import Failure, say

NEEDS = "tools/setup --torch installs what this needs"


def main():
    try:
        options = arguments.parse(sys.argv[1:])
        try:
            import torch, transformers  # noqa: E401, F401
        except ImportError as e:
            raise Failure(f"{NEEDS} ({e})") from None
        logging.getLogger("transformers").setLevel(logging.ERROR)
        return run(options)
    except Failure as failure:
        print(f"finetune: error: {failure}", file=sys.stderr)
        return 1


def run(options):
    from . import network, recipe, source, training
    from .folder import Folder
    from .showing import show
    from .steps import Steps

    folder = Folder(options.model)
    network.check(folder)
    notes = read_notes(options)
    edited = recipe.kept(options.out, notes) if options.out else None
    encoder = source.Encoder(folder.tokenizer(), options.model)
    positions = getattr(folder.config, "max_position_embeddings", None) or 2**31 - 1
    most = min(options.max_tokens or positions, positions)
    train = source.read(options.data, encoder, most)
    held_out = source.read(options.validate, encoder, most) if options.validate else None
    for name, samples in (("train", train), ("validate", held_out)):
        check_ids(folder, samples) if samples else None
    if options.dry_run:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head`
        show(train, 0, encoder.tokenizer)
        return 0

    size = edited["batch"]["global"] if edited else options.global_batch
    steps = Steps(train, size, options.order, options.seed)
    validation = Steps(held_out, size, once=True) if held_out else None
    length = options.steps if options.steps is not None else -(-(options.epochs or 1) * len(train) // size)
    check_run(options, notes, run_of(options, train, size))
    module, buffers = network.make(folder)
    network.check_weights(folder, module)
    network.check_patterns("--train", options.train, module)
    network.check_patterns("--freeze", options.freeze, module)
    prepare(options, folder, module, buffers, notes, edited, steps, validation, length)
    notes |= run_of(options, train, size)
    write_notes(options, notes)

    from . import program, saving

    ranks = program.build(options, options.out)
    if validation:
        training.write_validation(options.out, validation)
    if length == 0:
        say(f"prepared in {options.out}; nothing is trained")
        return 0
    say(f"{len(train)} samples, {int(steps.tokens.sum())} tokens; {length} steps of {size} samples ({length * size / len(train):.3g} epochs); {ranks} rank{'s' * (ranks > 1)}")
    code = training.train(options, options.out, ranks, steps, length, folder, bool(validation))
    if code:
        return code if code > 0 else 128 - code
    exported = options.out / training.EXPORT
    if exported.is_dir():
        newest = options.out / training.CHECKPOINT / f"step-{training.checkpoints(options.out)[-1]}"
        saving.save(folder, module, exported, saving.trained_names(newest), options.out / "model")
        shutil.rmtree(exported)
        say(f"the model: {options.out / 'model'}")
    return 0


def check_ids(folder, samples):
    """Tokens that the network has no row for: a tokenizer of another model."""
    rows = folder.config.vocab_size
    for i in range(len(samples)):
        largest = int(samples[i]["input_ids"].max())
        if largest >= rows:
            raise Failure(f"{samples.place(i)}: the tokenizer gives token {largest}; the network of {folder.path} has {rows}")


# --- what OUT has -------------------------------------------------------------------------


def read_notes(options):
    from .recipe import NOTES

    if options.out is None or not options.out.exists():
        return {}
    if not options.out.is_dir() or (any(options.out.iterdir()) and not (options.out / NOTES).is_file()):
        raise Failure(f"{options.out} is there and no folder of this tool")
    try:
        return json.loads((options.out / NOTES).read_text()) if (options.out / NOTES).is_file() else {}
    except ValueError:
        raise Failure(f"{options.out / NOTES}: no JSON") from None


def write_notes(options, notes):
    from .recipe import NOTES

    (options.out / NOTES).write_text(json.dumps(notes, indent=1) + "\n")


def run_of(options, train, size):
    """What a step's samples follow from."""
    return {"data": train.fingerprint(), "order": options.order, "seed": options.seed, "global_batch": size}


def check_run(options, notes, run):
    from .training import checkpoints

    began = checkpoints(options.out)
    if not options.resume:
        if began:
            raise Failure(f"{options.out} has a run of {began[-1]} steps: --resume goes on with it (or remove {options.out / 'checkpoint'})")
        return
    if not began:
        raise Failure(f"--resume: {options.out} has no checkpoint")
    for key, value in run.items():
        if notes.get(key) != value:
            said = {"data": "the samples are not those"}.get(key, f"{key.replace('_', ' ')} {value} is not {notes.get(key)}, that")
            raise Failure(f"--resume: {said} of the run in {options.out}")


def prepare(options, folder, module, buffers, notes, edited, steps, validation, length):
    """The graph and the recipe."""
    import torch
    import transformers

    from . import network, program, recipe
    from .steps import choose_parts

    program.check_tools(options)
    longest = max(s.longest for s in (steps, validation) if s)
    if edited:
        for made, numbers in ((steps, length), (validation, validation.epoch if validation else 0)):
            recipe.check_fits(options.out / recipe.FILE, edited, made, numbers) if made else None
        say(f"{options.out / recipe.FILE} was edited: it is used as it is")
    options.out.mkdir(parents=True, exist_ok=True)
    graph = recipe.digest(f"{folder.config.to_json_string()} {torch.__version__} {transformers.__version__}")
    if notes.get("graph") != graph or not (options.out / "llm.onnx").is_file():
        network.write(folder, module, buffers, options.out / "llm.onnx")
        notes["graph"] = graph
    if not edited:
        # An epoch at least, so that a longer run has the same parts in most cases.
        sums = [steps.sums(s) for s in range(max(length, steps.epoch))] + [validation.sums(s) for s in range(validation.epoch if validation else 0)]
        text = json.dumps(recipe.recipe(options, longest, *choose_parts(steps.size, longest, sums)), indent=2) + "\n"
        (options.out / recipe.FILE).write_text(text)
        notes["recipe"] = recipe.digest(text)


if __name__ == "__main__":
    sys.exit(main())
