# ===- injected_names.py - texts of IR that look like code --------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# injected_names.py DT-OPT IR WORK
#
# IR of the last phase may come from anybody. Each kind of text in it (a symbol, a string of an attribute) in turn becomes one that would be a line of C++, CMake or
# Markdown, end a string, or go on in the next line; the compiler refuses it, or no emitted file holds it but inside a literal or in the comment that it was in.
# ===-----------------------------------------------------------------------===
"""Fails if a name of the IR becomes code."""

import collections
import pathlib
import re
import shutil
import subprocess
import sys

# As MLIR writes them: a line break, quotes, a comment's end, CMake's brackets and references, a backslash at the end of the line.
PAYLOADS = [r"a\0AINJECTED();\0A", r"a\22; INJECTED(); //", r"a\0DINJECTED();\0D*/ INJECTED();", r"a]==])\0AINJECTED()\0A#${INJECTED}", r"a\E2\80\A8INJECTED()\\"]
TOKEN = re.compile(r'@[\w.$-]+|@?"(?:[^"\\]|\\.)*"')
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/', re.S)


def kinds(text):
    """One text of each kind, by what stands before it."""
    found = collections.OrderedDict()
    for match in TOKEN.finditer(text):
        before = re.sub(r'"[^"]*"', '""', text[max(0, match.start() - 60) : match.start()]).split("\n")[-1]
        word = re.findall(r"[\w.]+", before)
        found.setdefault((match.group()[0], word[-1] if word else "", before.strip()[-1:]), match.group())
    return list(dict.fromkeys(found.values()))


def injected(path):
    text = path.read_text(errors="replace")
    if path.suffix in (".cpp", ".h", ".cu"):
        for comment in re.findall(r"//[^\n]*", text):
            if "INJECTED" in comment and ("\r" in comment or "\u2028" in comment or comment.rstrip().endswith("\\")):
                return comment
        rest = LITERAL.sub("", text)
    elif path.name == "CMakeLists.txt":
        rest = re.sub(r"#[^\n]*", "", text)
    elif path.suffix == ".md":
        rest = "\n".join(line for line in text.splitlines() if line.startswith("INJECTED"))
    else:
        return None
    found = re.search(r"(?<![A-Za-z0-9_])INJECTED", rest) # a name made of it is none
    return rest[max(0, found.start() - 40) : found.start() + 20] if found else None


def main():
    dt_opt, ir, work = sys.argv[1], pathlib.Path(sys.argv[2]).read_text(), pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    wrong, emitted, tried = [], 0, kinds(ir)
    for n, token in enumerate(tried):
        payload = PAYLOADS[n % len(PAYLOADS)]
        fresh = ('@"' if token[0] == "@" else '"') + payload + '"'
        whole = re.compile(re.escape(token) + (r"(?![\w.$-])" if token[-1] != '"' else ""))
        (work / "x.mlir").write_text(whole.sub(lambda _: fresh, ir))
        shutil.rmtree(work / "out", ignore_errors=True)
        done = subprocess.run([dt_opt, work / "x.mlir", f"--dt-emit-program=directory={work}/out weights=0", "-o", "/dev/null"], capture_output=True, text=True, errors="replace")
        if done.returncode not in (0, 1) or (done.returncode and "error: " not in done.stderr):
            wrong.append(f"{token}: ended with {done.returncode}: {done.stderr[:300]}")
        if done.returncode == 0:
            emitted += 1
            for path in sorted((work / "out").iterdir()):
                if path.is_file() and (found := injected(path)):
                    wrong.append(f"{token}: {path.name} holds {found!r}")
                if not re.fullmatch(r"[\w.]+", path.name):
                    wrong.append(f"{token}: a file is named {path.name!r}")
    print("\n".join(wrong) if wrong else f"{len(tried)} texts, {emitted} programs: none became code")
    sys.exit(bool(wrong) or not emitted)


main()
