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
    from . import families, processes, program
    from .folder import Folder
    from .network import Network
    from .project import Project
    from .showing import show

    project = Project(options.out, options.resume) if options.out and not options.dry_run else None
    folder = Folder(options.model)
    family = families.of(folder)
    network = Network(folder, family)
    network.check_patterns("--train", options.train)
    network.check_patterns("--freeze", options.freeze)
    network.check_patterns("--lora", options.lora)
    program.check_tools(options) if project else None

    reading, weights = open_sources(options, family)
    pool = processes.make_pool(options, reading)
    try:
        most = min(options.max_tokens or family.longest, family.longest)
        train = reading.dataset(0, weights, most, pool)
        held_out = reading.dataset(len(weights), [None], most, pool) if options.validate else None
        if not project:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head`
            show(train, 0, reading.maker.encoder.tokenizer)
            return 0
        return run_on(options, project, network, train, held_out, pool)
    finally:
        pool.close()
        reading.close()


def open_sources(options, family):
    """(Reading, weights of the training data's sources); --validate is the last one."""
    from . import dataset, index
    from .encoder import Encoder

    named = [dataset.parse(text) for text in options.data]
    texts = [text for text, _ in named] + ([options.validate] if options.validate else [])
    kept = options.out / index.FOLDER if options.out and not options.dry_run else None
    return dataset.Reading(texts, Encoder(family), kept, options.skip_broken), [weight for _, weight in named]


def run_on(options, project, network, train, held_out, pool):
    from . import merging, optimizers, planning, program, recipe
    from .steps import Steps

    edited = recipe.kept(project)
    size = edited["batch"]["global"] if edited else options.global_batch
    several = len(options.data) > 1
    steps = Steps(train, size, options.order, options.seed, by_source=several)
    validation = Steps(held_out, size, once=True, by_source=several) if held_out else None
    length = options.steps if options.steps is not None else -(-(options.epochs or 1) * len(train) // size)
    samples = {"data": train.fingerprint(), "order": options.order, "seed": options.seed, "global_batch": size}
    samples |= {"lora": [options.lora, options.rank, options.alpha] if options.lora else None}
    samples |= {"optimizer": optimizers.kind(edited) if edited else options.optimizer}
    project.check(samples)
    # Parts have room for an epoch at least, so that a longer run has the same in most cases.
    lengths = {steps: length if edited else max(length, steps.epoch)} | ({validation: validation.epoch} if validation else {})
    with project.begin():
        train.reading.keep()
        write_graphs(project, network)
        flags, ranks = planning.settle(project, options, network, lengths, edited)
        project.note(**samples)
        program.build(options, options.out, flags)
        source = merging.start_from(project, network)
        return train_and_save(options, network, source, steps, validation, length, ranks, pool)


def write_graphs(project, network):
    """Unless they are there: a graph follows from the config, from the folder's names of weights, and from who exports it."""
    import torch
    import transformers

    from .recipe import digest

    names = [network.keys(module) for module in network.graphs]
    graph = digest(f"{network.folder.config.to_json_string()} {names} {torch.__version__} {transformers.__version__}")
    if project.notes.get("graph") != graph or not all((project.out / f"{name}.onnx").is_file() for name in network.graphs):
        network.write(project.out)
        project.note(graph=graph)


def train_and_save(options, network, source, steps, validation, length, ranks, pool):
    from . import adapters, page, saving, training
    from .recipe import lora_of

    out = options.out
    if validation:
        training.write_validation(out, validation, pool)
    if length == 0:
        say(f"prepared in {out}; nothing is trained")
        return 0
    count = len(steps.source)
    say(f"{count} samples, {int(steps.tokens.sum())} tokens; {length} steps of {steps.size} samples ({length * steps.size / count:.3g} epochs); {ranks} rank{'s' * (ranks > 1)}")
    exported = out / training.EXPORT
    shutil.rmtree(exported, ignore_errors=True)  # of a run that was killed
    code = training.train(options, out, ranks, steps, length, source, bool(validation), pool)
    if broken := steps.source.broken.known:
        say(f"{len(broken)} samples could not be made and were left out (first {next(iter(broken.values()))})")
    if code == 0 and (exported / "llm.onnx").is_file():  # not of a run that was stopped before its first step
        newest = out / training.CHECKPOINT / f"step-{training.checkpoints(out)[-1]}"
        lora = lora_of(out)
        beside = adapters.Adapters(exported, network, lora) if lora else None
        if beside:
            beside.save(out / "adapter")
            say(f"the adapter: {out / 'adapter'}")
        if not beside or options.merge:
            saving.save(network, exported, saving.trained_names(newest), out / "model", beside)
            say(f"the model: {out / 'model'}")
    shutil.rmtree(exported, ignore_errors=True)
    if (out / "metrics.jsonl").is_file() and (out / "metrics.jsonl").stat().st_size:
        encoder = steps.source.maker.encoder
        encoder.tell = lambda _: None  # the run has begun with it
        page.write(out, steps.source, encoder.tokenizer)
        say(f"the run: {out / 'run.html'}")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
