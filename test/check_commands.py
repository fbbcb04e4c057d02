#!/usr/bin/env python3
"""Command lines of README.md and docs/ name programs, options and files that exist; those of docs/index.md that need nothing else are run.

check_commands.py SOURCE_DIRECTORY BIN_DIRECTORY
"""
import functools
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

source, binaries = map(pathlib.Path, sys.argv[1:])
LIMIT = 60  # seconds that a command may take; those of index.md take less than four
READERS = re.compile(r"out/|build/|\./|/|.*[*{<]")  # files of the reader's own, made by commands, or patterns of several


def commands(page):
    """Command lines of a page's code blocks that begin with a program of ours, without what is said of them."""
    for fenced, indented in re.findall(r"^```sh\n(.*?)^```|^    (\S[^\n]*)", page.read_text(), re.M | re.S):
        for line in (fenced or indented).splitlines():
            line = re.split(r"\s{2,}|\s#\s", line.removeprefix("$ "))[0].replace("…", "").replace("[", " ").replace("]", " ")
            for command in re.split(r" && |; do |; done|\s\| | 2>", line):
                # A line of a tree of folders may begin with one of tools/.
                if re.match(r"(dt-[\w-]+|plan-model|tools/[\w-]+|\S+/train)(\s|$)", command) and not (source / command.split()[0]).is_dir():
                    yield shlex.split(command)


@functools.cache
def options_of(program, subcommand):
    """The text that has every option of a program, or None if there is no such program."""
    if program.endswith("/train"):
        return (source / "runtime/base/Options.cpp").read_text()
    if program.startswith("tools/"):
        return (source / program).read_text() if (source / program).is_file() else None
    if not (binaries / program).exists():
        return None
    command = [binaries / program, *([subcommand] if program == "dt-data" else []), "--help-hidden"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def faults(words):
    text = options_of(words[0], words[1] if words[1:] else "")
    if text is None:
        yield f"there is no {words[0]}"
        return
    plugin = any(word.startswith(("--load-plugin", "--load-pass-plugin")) for word in words)  # which brings options of its own
    for word in words[1:]:
        option = re.match(r"--?[\w-]+", word)
        if option and not plugin and not re.search(rf"(?<![\w-]){re.escape(option[0])}(?![\w-])", text):
            yield f"{words[0]} has no {option[0]}"
        file = word.split("=")[-1]
        # A file without a folder (recipe.json) stands for the reader's own; one of ours is named with its folder.
        if re.fullmatch(r"[\w./-]+/[\w./-]+", file) and not READERS.match(file) and not (source / file).exists():
            yield f"there is no {file}"


def run(words, folder):
    """Runs a command where what it writes is thrown away; what went wrong."""
    done = subprocess.run([binaries / words[0], *words[1:]], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    return [f"ends with {done.returncode}: {done.stderr.strip()[-500:]}"] if done.returncode else []


bad, checked, ran = [], 0, 0
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for linked in ("docs", "models", "test"):
        (folder / linked).symlink_to(source / linked)
    for page in (source / "README.md", *sorted(source.glob("docs/*.md"))):
        for words in commands(page):
            checked += 1
            found = list(faults(words))
            if page.name == "index.md" and words[0].startswith("dt-") and not found:
                ran += 1
                found = run(words, folder)
            bad += [f"{page.relative_to(source)}: {shlex.join(words)}: {fault}" for fault in found]
print("\n".join(bad) or f"{checked} commands are as programs have them, {ran} were run")
assert bad or (checked > 50 and ran > 3), "the commands were not found"
sys.exit(bool(bad))
