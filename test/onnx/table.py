# The page of operators with the score of ONNX's tests.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import collections
import re

HEAD = """# ONNX operators

Written by `test/onnx/backend.py --table`.

{version}: each is compiled beside a parameter that trains, run, and its outputs are compared at the suite's tolerances. *passed* gives the expected values; *refused* ends in one line of error, for the reason given; no test gives other
values. Axes, shapes, pads and the like must be known when a graph is compiled: where a test has them as inputs they are made constants. Files of operator sets before 13 are converted by `onnx.version_converter` first.
"""


def version_line():
    import onnx

    return f"What ONNX's own backend tests (`onnx` {onnx.__version__}) say"


def reason(text):
    """A refusal without names and numbers of the test."""
    text = re.sub(r"^\S*\.onnx: ", "", text.strip())
    text = re.sub(r"^.*?/t\d+\.onnx: ", "", text)
    text = re.sub(r"node '[^']*' \((\w+)\): ?", r"\1: ", text)
    text = re.sub(r"'(t\d+|[\w./]*\d[\w./]*)'", "'…'", text)
    text = re.sub(r"^input '[^']*'", "input '…'", text)
    text = re.sub(r"^\w+: this operator is not handled$", "not handled", text)
    return text.replace("|", "/")[:160]


def rows(results, key):
    table = collections.defaultdict(lambda: [0, 0, collections.Counter()])
    for test, kind, text in results:
        row = table[key(test)]
        row[1] += 1
        if kind == "passed":
            row[0] += 1
        else:
            row[2][reason(text) if kind == "refused" else "FAILS: " + text[:80]] += 1
    return table


def lines(table):
    for name, (passed, total, reasons) in sorted(table.items()):
        why = "; ".join(f"{text} ({count})" if len(reasons) > 1 or count < total - passed else text for text, count in sorted(reasons.items(), key=lambda r: (-r[1], r[0])))
        yield f"| {name} | {passed} | {total - passed} | {total} | {why} |"


def page(results):
    text = [HEAD.format(version=version_line())]
    text += ["| suite | passed | refused | total |", "| --- | --- | --- | --- |"]
    for suite, (passed, total, _) in rows(results, lambda t: t.suite).items():
        text.append(f"| {suite} | {passed} | {total - passed} | {total} |")
    nodes = [r for r in results if r[0].suite == "node"]
    handled = rows(nodes, lambda t: t.op)
    some = {op: row for op, row in handled.items() if row[0]}
    none = {op: row for op, row in handled.items() if not row[0]}
    text += ["", "## Operators that are handled", "", "| operator | passed | refused | total | refused because |", "| --- | --- | --- | --- | --- |", *lines(some)]
    text += ["", "## Operators that are not", "", "| operator | passed | refused | total | refused because |", "| --- | --- | --- | --- | --- |", *lines(none)]
    text += ["", "## Whole networks and PyTorch's modules", "", "| test | passed | refused | total | refused because |", "| --- | --- | --- | --- | --- |"]
    text += lines(rows([r for r in results if r[0].suite != "node"], lambda t: f"{t.suite}: {t.op}"))
    return "\n".join(text) + "\n"
