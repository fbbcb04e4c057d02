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
    except OSError as error:  # of a disk or a permission
        print(f"finetune: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # while the program runs it is the program's
        return 130


def run(options):
    from . import network, planning, program, recipe, source
    from .folder import Folder
    from .project import Project
    from .showing import show
    from .steps import Steps

    project = Project(options.out, options.resume) if options.out and not options.dry_run else None
    folder = Folder(options.model)
    network.check(folder)
    module, buffers = network.make(folder)
    network.check_weights(folder, module)
    network.check_patterns("--train", options.train, module)
    network.check_patterns("--freeze", options.freeze, module)
    network.check_patterns("--lora", options.lora, module)
    program.check_tools(options) if project else None

    encoder = source.Encoder(folder.tokenizer(), options.model, folder.config.vocab_size)
    positions = getattr(folder.config, "max_position_embeddings", None) or 2**31 - 1
    most = min(options.max_tokens or positions, positions)
    train = source.read(options.data, encoder, most)
    held_out = source.read(options.validate, encoder, most) if options.validate else None
    if not project:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head`
        show(train, 0, encoder.tokenizer)
        return 0

    edited = recipe.kept(project)
    size = edited["batch"]["global"] if edited else options.global_batch
    steps = Steps(train, size, options.order, options.seed)
    validation = Steps(held_out, size, once=True) if held_out else None
    length = options.steps if options.steps is not None else -(-(options.epochs or 1) * len(train) // size)
    samples = {"data": train.fingerprint(), "order": options.order, "seed": options.seed, "global_batch": size}
    samples |= {"lora": [options.lora, options.rank, options.alpha] if options.lora else None}
    project.check(samples)
    # Parts have room for an epoch at least, so that a longer run has the same in most cases.
    lengths = {steps: length if edited else max(length, steps.epoch)} | ({validation: validation.epoch} if validation else {})
    with project.begin():
        write_graph(project, folder, module, buffers)
        flags, ranks = planning.settle(project, options, lengths, edited)
        project.note(**samples)
        program.build(options, options.out, flags)
        return train_and_save(options, folder, module, steps, validation, length, ranks)


def write_graph(project, folder, module, buffers):
    """Unless it is there: a graph follows from the config and from who exports it."""
    import torch
    import transformers

    from . import network
    from .recipe import digest

    graph = digest(f"{folder.config.to_json_string()} {torch.__version__} {transformers.__version__}")
    path = project.out / "llm.onnx"
    if project.notes.get("graph") != graph or not path.is_file():
        network.write(folder, module, buffers, path)
        project.note(graph=graph)


def train_and_save(options, folder, module, steps, validation, length, ranks):
    from . import adapters, saving, training
    from .recipe import FILE

    out = options.out
    if validation:
        training.write_validation(out, validation)
    if length == 0:
        say(f"prepared in {out}; nothing is trained")
        return 0
    count = len(steps.source)
    say(f"{count} samples, {int(steps.tokens.sum())} tokens; {length} steps of {steps.size} samples ({length * steps.size / count:.3g} epochs); {ranks} rank{'s' * (ranks > 1)}")
    exported = out / training.EXPORT
    shutil.rmtree(exported, ignore_errors=True)  # of a run that was killed
    code = training.train(options, out, ranks, steps, length, folder, bool(validation))
    if code == 0 and (exported / "llm.onnx").is_file():  # not of a run that was stopped before its first step
        newest = out / training.CHECKPOINT / f"step-{training.checkpoints(out)[-1]}"
        lora = json.loads((out / FILE).read_text())["modules"]["llm"].get("lora")
        beside = adapters.Adapters(exported, lora) if lora else None
        if beside:
            beside.save(folder, out / "adapter")
            say(f"the adapter: {out / 'adapter'}")
        if not beside or options.merge:
            saving.save(folder, module, exported, saving.trained_names(newest), out / "model", beside)
            say(f"the model: {out / 'model'}")
    shutil.rmtree(exported, ignore_errors=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
