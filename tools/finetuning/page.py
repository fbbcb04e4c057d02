# ===- page.py - a run to look at -----------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# One file without scripts or other files: curves as SVG, the plan as the compiler
# explains it, the first samples as the model sees them. Beside it the metrics as
# CSV. Both are made from what lies in OUT.
# ===-----------------------------------------------------------------------===
"""write(out, source, tokenizer): OUT/run.html and OUT/metrics.csv."""

import csv
import html
import itertools
import json

from .encoded import IGNORED

WIDTH, HEIGHT, MARGIN = 620, 180, 44
COLORS = ("#3465a4", "#c4631b", "#4e9a06", "#75507b", "#a40000", "#2e8b8b")
SAMPLES, TOKENS = 3, 400  # that are shown, and of each at most
STYLE = (
    "body{font:15px system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;color:#222}h2{margin-top:1.6em}svg{display:block;margin:.4em 0}td,th{padding:.1em 1em .1em 0;text-align:left}"
    "pre{background:#f5f5f5;padding:.7em;overflow-x:auto;font-size:13px}.sample{line-height:1.7}.learned{background:#cfe8cf}.item{background:#dde6f7}"
)


def write(out, source, tokenizer):
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    _csv(out / "metrics.csv", rows)
    parts = [_curves(rows), _table(rows), _plan(out), _samples(source, tokenizer)]
    body = "".join(parts)
    (out / "run.html").write_text(f'<!doctype html><meta charset="utf-8"><title>{html.escape(out.name)}</title><style>{STYLE}</style><h1>{html.escape(out.name)}</h1>{body}\n')


def _csv(path, rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def _curves(rows):
    sources = list(dict.fromkeys(name for row in rows for name in row if name.startswith("loss.")))
    drawn = [("Loss", ("loss", "validation_loss")), ("Loss by source", sources), ("Learning rate", ("lr",)), ("Tokens a second", ("tokens_per_second",)), ("Norm of all gradients", ("grad_norm",))]
    return "".join(_figure(title, rows, names) for title, names in drawn)


def _figure(title, rows, names):
    lines = {name: [(row["step"], row[name]) for row in rows if isinstance(row.get(name), (int, float))] for name in names}
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    (left, right), (low, high) = ((min(v), max(v)) for v in zip(*points))
    x = lambda step: MARGIN + (step - left) / max(right - left, 1) * (WIDTH - 2 * MARGIN)
    y = lambda value: HEIGHT - 20 - (value - low) / ((high - low) or 1) * (HEIGHT - 40)
    drawn = ""
    for (name, line), color in zip(lines.items(), itertools.cycle(COLORS)):
        path = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in line)
        drawn += f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>' if len(line) > 1 else ""
        drawn += "".join(f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="2.5" fill="{color}"/>' for s, v in line) if len(line) <= 40 else ""
        drawn += f'<text x="{WIDTH - MARGIN}" y="{14 + 16 * list(lines).index(name)}" text-anchor="end" fill="{color}">{name.replace("_", " ")}</text>' if line and len(lines) > 1 else ""
    axes = f'<text x="0" y="{HEIGHT - 17}">{low:.4g}</text><text x="0" y="22">{high:.4g}</text><text x="{MARGIN}" y="{HEIGHT - 3}">step {left}</text><text x="{WIDTH - MARGIN}" y="{HEIGHT - 3}" text-anchor="end">{right}</text>'
    return f'<h2>{title}</h2><svg width="{WIDTH}" height="{HEIGHT}" font-size="12" font-family="sans-serif">{axes}{drawn}</svg>'


def _table(rows):
    last, seconds = rows[-1], sum(row.get("seconds", 0) for row in rows)
    validated = [row["validation_loss"] for row in rows if "validation_loss" in row]
    facts = {"steps": last["step"], "loss of the last step": f"{last['loss']:.5g}", "tokens": sum(row["tokens"] for row in rows), "learned tokens": sum(row["learned_tokens"] for row in rows)}
    facts |= {"seconds in steps": f"{seconds:.1f}", "tokens a second": f"{sum(row['tokens'] for row in rows) / seconds:.0f}" if seconds else "-"}
    facts |= {"of them to have the batch": f"{sum(row.get('data_seconds', 0) for row in rows) / seconds:.2%}"} if seconds else {}
    facts |= {"validation loss, last": f"{validated[-1]:.5g}", "best": f"{min(validated):.5g}"} if validated else {}
    return "<h2>The run</h2><table>" + "".join(f"<tr><td>{name}<td>{value}" for name, value in facts.items()) + "</table>"


def _plan(out):
    plan = out / "plan.json"
    link = ' (<a href="plan.json">plan.json</a>)' if plan.is_file() else ""
    said = plan.read_text() if plan.is_file() else "one rank does all"
    return f"<h2>The plan{link}</h2><pre>{html.escape(said[:6000])}</pre>"


def _samples(source, tokenizer):
    shown = "".join(_sample(source, i, tokenizer) for i in range(min(SAMPLES, len(source))))
    return f'<h2>The first samples</h2><p><span class="learned">learned</span>, <span class="item">rows of pictures or sound</span></p>{shown}'


def _sample(source, i, tokenizer):
    arrays = source[i]
    if arrays is None:
        return ""
    ids, labels = arrays["input_ids"][:TOKENS], arrays["labels"]
    places, text, run = set(arrays.get("image_rows", ())), [], 0
    for at, token in enumerate(ids):
        if at in places:
            run += 1
            continue
        text += [f'<span class="item">[{run} rows]</span>'] if run else []
        word = html.escape(tokenizer.decode([int(token)])).replace("\n", "<br>")
        text, run = [*text, f'<span class="learned">{word}</span>' if at and labels[at - 1] != IGNORED else word], 0
    more = "…" if len(arrays["input_ids"]) > TOKENS else ""
    return f"<p><b>{html.escape(source.place(i))}</b>, {len(labels)} tokens</p><p class=sample>{''.join(text)}{more}</p>"
