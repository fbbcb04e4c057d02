#!/usr/bin/env python3
"""Command lines of README.md and docs/index.md name programs, options and files that exist; those of the latter that need nothing else are run.

check_commands.py SOURCE_DIRECTORY BIN_DIRECTORY
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

source, binaries = map(pathlib.Path, sys.argv[1:])
LIMIT = 60  # seconds that a command may take; those of index.md take less than four
MADE = ("out/", "build/")  # folders that commands make


def commands(page):
    """Lines of a page's code blocks that run a program of ours, without what is said of them."""
    for line in re.findall(r"^    (\S.*)$", page.read_text(), re.M):
        line = re.split(r"\s{2,}|\s#\s", line.removeprefix("$ "))[0].replace("…", "")
        for command in line.split(" && "):
            if re.match(r"(dt-\w+|plan-model|tools/[\w-]+|\S+/train)\b", command):
                yield shlex.split(command)


def known_options(program):
    """The text that has every option of a program, or None if there is no such program."""
    if program.endswith("/train"):
        return (source / "runtime/base/Options.cpp").read_text()
    if program.startswith("tools/"):
        script = source / program
        return script.read_text() if script.is_file() else None
    if not (binaries / program).exists():
        return None
    return subprocess.run([binaries / program, "--help-hidden"], capture_output=True, text=True, check=True).stdout


def faults(words):
    text = known_options(words[0])
    if text is None:
        yield f"there is no {words[0]}"
        return
    for word in words[1:]:
        option = re.match(r"--?[\w-]+", word)
        if option and not re.search(rf"(?<![\w-]){re.escape(option[0])}(?![\w-])", text):
            yield f"{words[0]} has no {option[0]}"
        file = word.split("=")[-1]
        # A file without a folder (recipe.json) stands for the reader's own; one of ours is named with its folder.
        if "/" in file and "*" not in file and not file.startswith(MADE) and not (source / file).exists():
            yield f"there is no {file}"


def run(words, folder):
    """Runs a command where what it writes is thrown away; what went wrong."""
    done = subprocess.run([binaries / words[0], *words[1:]], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    return f"ends with {done.returncode}: {done.stderr.strip()[-500:]}" if done.returncode or not done.stdout + done.stderr else None


bad, checked, ran = [], 0, 0
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for linked in ("docs", "models", "test"):
        (folder / linked).symlink_to(source / linked)
    for page in (source / "README.md", source / "docs/index.md"):
        for words in commands(page):
            checked += 1
            found = list(faults(words))
            if page.name == "index.md" and words[0].startswith("dt-") and not found:
                ran += 1
                found = [f for f in [run(words, folder)] if f]
            bad += [f"{page.relative_to(source)}: {shlex.join(words)}: {fault}" for fault in found]
print("\n".join(bad) or f"{checked} commands are as programs have them, {ran} were run")
assert bad or (checked > 10 and ran > 3), "the commands were not found"
sys.exit(bool(bad))
