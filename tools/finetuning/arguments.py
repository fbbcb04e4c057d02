# ===- arguments.py - the command line ----------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What a flag means: docs/finetune.md. What can be known to be wrong without
# reading a file is refused here.
# ===-----------------------------------------------------------------------===
"""parse(argv): the options of a run."""

import argparse
import math
import pathlib

from . import optimizers
from .errors import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(f"{message} (--help lists the flags)")


def whole(least):
    def parse_whole(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least}")
        return int(text)

    return parse_whole


def real(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0")
    return value


def decays(text):
    values = [real(part) for part in text.split(",")]
    if len(values) != 2 or max(values) >= 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not two numbers from 0 and below 1, such as 0.9,0.99")
    return values


def make_parser():
    parser = Parser(prog="finetune", description="Trains a Hugging Face folder on a file of chats and writes a folder (docs/finetune.md).", allow_abbrev=False)
    add = parser.add_argument
    add("--model", required=True, type=pathlib.Path, metavar="FOLDER", help="config, safetensors, tokenizer")
    add("--data", required=True, action="append", metavar="FILE[=WEIGHT]", help="JSONL, Parquet, .npy, .bin, or file.py:Name; may be repeated")
    add("--out", type=pathlib.Path, metavar="OUT", help="a new folder, or that of an earlier run")
    add("--validate", metavar="FILE", help="samples whose loss is computed, too")
    add("--validate-every", type=whole(1), metavar="N", help="steps (an epoch)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=whole(0), metavar="N", help="of the whole run; 0: prepare everything, train nothing")
    length.add_argument("--epochs", type=whole(1), metavar="N", help="passes over the data (1)")
    add("--global-batch", type=whole(1), default=8, metavar="N", help="samples of a step (8)")
    add("--max-tokens", type=whole(2), metavar="T", help="longer samples are left out (the longest)")
    add("--optimizer", choices=tuple(optimizers.OPTIMIZERS), default="adamw")
    add("--lr", type=real, metavar="X", help="at its peak (of the optimizer)")
    add("--weight-decay", type=real, default=0.0, metavar="X")
    add("--betas", type=decays, metavar="A,B", help="of adamw, lion and muon (of the optimizer)")
    add("--momentum", type=real, metavar="X", help="of muon and sgd (of the optimizer)")
    add("--clip", type=real, default=1.0, metavar="X", help="largest norm of all gradients; 0: any (1)")
    add("--warmup", type=whole(0), default=0, metavar="N")
    add("--schedule", choices=("constant", "linear", "cosine"), default="linear")
    add("--precision", choices=("f32", "bf16"), default="f32")
    add("--freeze", action="append", default=[], metavar="PATTERN", help="weights that do not train; may be repeated")
    add("--train", action="append", default=[], metavar="PATTERN", help="weights that train, and no others; may be repeated")
    add("--lora", action="append", default=[], metavar="PATTERN", help="weights that stay and have adapters, which train; may be repeated")
    add("--rank", type=whole(1), metavar="R", help="of adapters (8)")
    add("--alpha", type=real, metavar="A", help="adapters count A / R times (R)")
    add("--merge", action="store_true", help="write a folder with the adapters added to its weights, too")
    add("--plan", metavar="PLAN", help="auto, a plan file, or text such as llm:dp=2")
    add("--ranks", type=whole(1), metavar="N", help="devices that --plan auto may use")
    add("--cluster", metavar="here|FILE", help="what --plan auto plans for (here)")
    add("--target", choices=("cpu", "cuda"), default="cpu")
    add("--threads", type=whole(1), metavar="N", help="of each rank")
    add("--producers", type=whole(0), default=0, metavar="N", help="processes that make samples (0: none)")
    add("--serve-at", type=lambda text: text.split(","), default=[], metavar="HOST:PORT[*N],...", help="tools/dt-serve of other machines")
    add("--token-file", type=pathlib.Path, metavar="FILE", help="what they know this run by (OUT/token)")
    add("--producer-timeout", type=whole(1), default=60, metavar="S", help="seconds that a producer may take for a sample (60)")
    add("--skip-broken", action="store_true", help="leave out samples that cannot be made")
    add("--order", choices=("file", "shuffle"), default="shuffle")
    add("--seed", type=whole(0), default=0, metavar="N")
    add("--save-every", type=whole(1), metavar="N", default=500, help="steps between checkpoints (500)")
    add("--resume", action="store_true", help="go on with the run in OUT")
    add("--dry-run", action="store_true", help="show the first sample; write nothing")
    add("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", metavar="DIR", help="where dt-opt is")
    return parser


def check_adapters(options):
    if not options.lora:
        for flag, value in (("--rank", options.rank), ("--alpha", options.alpha), ("--merge", options.merge)):
            if value not in (None, False):
                raise Failure(f"{flag} goes with --lora PATTERN")
        return
    if options.alpha == 0:
        raise Failure("--alpha 0: adapters would do nothing")
    if options.freeze:
        raise Failure("--freeze does not go with --lora: nothing trains but adapters and what --train names")
    if options.train and not options.merge:
        raise Failure("--train with --lora needs --merge: an adapter's files have no other weights")
    options.rank = options.rank or 8


def parse(argv):
    options = make_parser().parse_args(argv)
    if options.out is None and not options.dry_run:
        raise Failure("--out is missing: the folder that results go to")
    if options.validate_every and not options.validate:
        raise Failure("--validate-every goes with --validate FILE")
    check_adapters(options)
    optimizers.settle(options)
    if options.plan is None and (options.cluster or (options.ranks or 1) > 1):
        options.plan = "auto"
    if options.serve_at and not (options.out or options.token_file):
        raise Failure("--serve-at goes with --token-file FILE or --out OUT")
    if options.out is not None:
        options.token_file = options.token_file or options.out / "token"
        options.out = options.out.absolute()
        if wrong := [c for c in str(options.out) if c in "*?[{"]:
            raise Failure(f"--out {options.out}: a path with '{wrong[0]}' is a pattern to the program")
    return options
