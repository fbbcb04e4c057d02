# ===- page.py - a run of the demonstration as a page -----------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Losses, what was drawn and said on the way, and the step as it was planned
# beside the step as it was, from the files that tools/demo leaves. One file
# that needs no other; its style sheets are those of the compiler's pictures.
# ===-----------------------------------------------------------------------===
"""python page.py DIR: writes DIR/run.html from the files of a run in DIR; what is not there is left out."""

import base64
import html
import json
import math
import pathlib
import re
import sys

STYLES = pathlib.Path(__file__).resolve().parents[3] / "passes/picture"
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 440, 200, 44, 24, 10
MOST_POINTS = 600  # of a curve: more than pixels are not seen


def escape(text):
    return html.escape(str(text))


def read_lines(path):
    """Objects of a file with one a line; a line that a stopped run left unfinished is left out."""
    rows = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    # A run that goes on from an older checkpoint does steps again: the last time counts.
    return [row for _, row in sorted({row["step"]: row for row in rows}.items())]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def ticks(low, high, count):
    """Round numbers from low to high, about `count` of them, and their digits behind the point."""
    rough = (high - low) / count or 1
    power = 10 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)], max(0, -math.floor(math.log10(step) + 1e-9))


def smooth(points):
    """Means of as many neighbours that a curve of noise becomes a line."""
    reach = max(1, len(points) // 60)
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    result = []
    for i, (x, _) in enumerate(points):
        begin, end = max(0, i - reach), min(len(points), i + reach + 1)
        result.append((x, (sums[end] - sums[begin]) / (end - begin)))
    return result


def thin(points):
    every = max(1, math.ceil(len(points) / MOST_POINTS))
    return points[::every] if every == 1 else points[::every] + points[-1:]


def curve(title, unit, points, colour, marks=False, floor=None):
    """A figure over steps: every value faint, its mean in full; `marks`: few values, each with its hover text."""
    values = [y for _, y in points] + ([floor[0]] if floor else [])
    low, high = min(values), max(values)
    low = 0.0 if 0 <= low < 0.5 * high else low
    if high <= low:
        high = low + (abs(low) or 1)
    end = max(1, points[-1][0])

    def place(x, y):
        return f"{LEFT + (WIDTH - LEFT - 12) * x / end:.1f} {HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (y - low) / (high - low):.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" class="dt" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)} by step">']
    at, digits = ticks(low, high, 5)
    for value in at:
        y = place(0, value).split()[1]
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 12}" y1="{y}" y2="{y}"/>')
        out.append(f'<text class="tick" x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{value:.{digits}f}</text>')
    at, _ = ticks(0, end, 5)
    for value in at:
        out.append(f'<text class="tick" x="{place(value, low).split()[0]}" y="{HEIGHT - 8}" text-anchor="middle">{value:.0f}</text>')

    def path(line, classes):
        out.append(f'<path class="line {classes}" d="M' + "L".join(place(x, y) for x, y in thin(line)) + '"/>')

    if floor:
        y = place(0, floor[0]).split()[1]
        out.append(f'<line class="cap" x1="{LEFT}" x2="{WIDTH - 12}" y1="{y}" y2="{y}"><title>{escape(floor[1])}</title></line>')
    if marks:
        path(points, colour)
        for x, y in points:
            cx, cy = place(x, y).split()
            out.append(f'<circle class="dot {colour}" cx="{cx}" cy="{cy}" r="3.5"><title>step {x}: {y:.4g} {escape(unit)}</title></circle>')
    else:
        path(points, colour + " faint")
        path(smooth(points), colour)
    out.append("</svg>")
    name = f"{escape(title)} <span class=\"soft\">{escape(unit)}</span>"
    note = f'<span class="soft">; dashed: {escape(floor[1])}</span>' if floor else ""
    return f"<figure><figcaption>{name}{note}</figcaption>\n" + "\n".join(out) + "\n</figure>"


def series(rows, key):
    return [(row["step"], row[key]) for row in rows if is_number(row.get(key))]


def draw_losses(metrics):
    keys = list(dict.fromkeys(key for row in metrics for key in row if key == "loss" or key.startswith("loss.")))
    keys = keys[:1] + [k for k in keys[1:] if len(keys) > 2]  # a single term is the sum itself
    figures = [curve("loss" if key == "loss" else f"loss of {key[5:]}", "a step", points, f"s{i}") for i, key in enumerate(keys) if (points := series(metrics, key))]
    if points := series(metrics, "samples_per_second"):
        figures.append(curve("speed", "samples a second", points, "s5"))
    return figures


def draw_scores(history):
    figures = []
    if points := series(history, "nats_per_caption"):
        floor = history[-1].get("nats_without_picture")
        figures.append(curve("captions", "nats each", points, "s4", True, (floor, "without the picture") if is_number(floor) else None))
    for key, title in (("captions_exact", "captions that are exactly right"), ("drawn_nearest_own", "drawings nearest to their own picture")):
        if points := [(x, 100 * y) for x, y in series(history, key)]:
            figures.append(curve(title, "%", points, "s2" if key.startswith("drawn") else "s0", True))
    return figures


def image(path, classes, alt):
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img class="{classes}" src="data:image/png;base64,{data}" alt="{escape(alt)}"/>'


def draw_samples(folder, history):
    """A row an evaluation: drawn pictures, below each what the model calls the true one."""
    rows = [row for row in history if isinstance(row.get("pictures"), str) and isinstance(row.get("samples"), list) and all(isinstance(s, dict) for s in row["samples"])]
    # A name of a file that history.jsonl says is one beside it.
    rows = [row for row in rows if re.fullmatch(r"step-\d+\.png", row["pictures"]) and (folder / row["pictures"]).exists()]
    if not rows or not (folder / "truth.png").exists():
        return ""
    most = 10
    if len(rows) > most:  # the first, the last and those between at equal distances
        rows = [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]
    names = [str(sample.get("name", "")) for sample in rows[-1]["samples"]]
    out = ['<div class="scroll"><div class="strips">']

    def strip(label, path, words):
        cells = "".join(f'<span class="{kind}" title="{escape(text)}">{escape(text) or "&#160;"}</span>' for text, kind in words)
        out.append(f'<div class="soft side">{label}</div><div>{image(path, "strip", label)}<div class="words" style="grid-template-columns: repeat({len(words)}, 1fr)">{cells}</div></div>')

    strip("true", folder / "truth.png", [(name, "name") for name in names])
    for row in rows:
        said = [str(sample.get("caption", "")) for sample in row["samples"]]
        strip(f"step {row['step']}", folder / row["pictures"], [(text, "right" if text == name else "wrong") for text, name in zip(said, names)])
    out.append("</div></div>")
    return "\n".join(out)


def draw_captions(path):
    try:
        rows = json.loads(path.read_text())
    except (OSError, ValueError):
        return ""
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if not rows:
        return ""
    exact = sum(row.get("name") == row.get("caption") for row in rows)
    cells = "".join(
        f'<tr><td>{escape(row.get("name", ""))}</td><td class="{"right" if row.get("name") == row.get("caption") else "wrong"}">{escape(row.get("caption", "")) or "(nothing)"}</td></tr>'
        for row in rows
    )
    return (
        f"<p class=\"soft\">{exact} of {len(rows)} are exactly the name.</p>\n<details><summary>All captions</summary>\n"
        f"<table><thead><tr><th>picture</th><th>caption</th></tr></thead><tbody>{cells}</tbody></table></details>"
    )


def inline(path):
    """A picture of dt-opt, for the inside of a page: the page has its style and its ground already."""
    text = path.read_text()
    text = re.sub(r"<style>.*?</style>\s*<rect class=\"paper\"[^>]*/>", "", text, count=1, flags=re.S)
    text = re.sub(r'(<svg [^>]*?) width="[\d.]+" height="[\d.]+"', r"\1", text, count=1)
    return f'<div class="scroll">\n{text}</div>'


def draw_steps(out):
    pictures = [
        ("timeline.svg", "As the schedule was made: at predicted times, which say how parts compare."),
        ("simulated.svg", "As it is expected of tasks that take the processor time that this run measured, on cores that nobody else uses: the planner's simulator."),
        ("measured.svg", "As it was: a step of this run by its trace."),
    ]
    return "\n".join(f"<p>{escape(words)}</p>\n{inline(out / name)}" for name, words in pictures if (out / name).exists())


def draw_tiles(metrics, history):
    tiles = []
    if metrics:
        tiles.append((metrics[-1]["step"], "steps"))
        if is_number(metrics[-1].get("loss")):
            tiles.append((f"{metrics[-1]['loss']:.3f}", "loss of the last step"))
        seconds = sorted(row["seconds"] for row in metrics if is_number(row.get("seconds")))
        if seconds:
            tiles.append((f"{1e3 * seconds[len(seconds) // 2]:.0f} ms", "a step, the median"))
        speed = sorted(row["samples_per_second"] for row in metrics if is_number(row.get("samples_per_second")))
        if speed:
            tiles.append((f"{speed[len(speed) // 2]:.1f}", "samples a second, the median"))
    if history:
        last = history[-1]
        for key, words in (("captions_exact", "captions exactly right"), ("drawn_nearest_own", "drawings nearest to their own")):
            if is_number(last.get(key)):
                tiles.append((f"{100 * last[key]:.0f} %", words))
    return '<div class="tiles">' + "".join(f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in tiles) + "</div>"


STYLE = """
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 14px 28px; align-items: end; }
figure { margin: 0; }
figcaption { font-weight: 600; font-size: 14px; }
figcaption .soft { font-weight: 400; }
.charts svg.dt { width: 100%; height: auto; }
.dt .faint { stroke-opacity: .25; stroke-width: 1; }
.dt .s0 { stroke: #0072b2; } .dt .s1 { stroke: #e69f00; } .dt .s2 { stroke: #009e73; } .dt .s3 { stroke: #cc79a7; } .dt .s4 { stroke: #56b4e9; } .dt .s5 { stroke: #7f7f7f; }
.dt .dot { fill: #ffffff; stroke-width: 2; }
.strips { display: grid; grid-template-columns: max-content minmax(900px, 1fr); gap: 10px 16px; align-items: center; }
.strip { width: 100%; image-rendering: pixelated; display: block; }
.words { display: grid; font-size: 12px; }
.words span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding-right: 6px; }
.side { font-size: 13px; text-align: right; }
.right { color: #00785a; } .wrong { color: #b3401a; }
.grid-picture { max-width: 100%; image-rendering: pixelated; }
summary { cursor: pointer; }
@media (prefers-color-scheme: dark) {
  .dt .dot { fill: #14181f; }
  .dt .s0 { stroke: #3f9fdd; }
  .right { color: #3fcf9f; } .wrong { color: #ff9b73; }
}
"""


def main(out):
    metrics, history = read_lines(out / "metrics.jsonl"), read_lines(out / "history/history.jsonl")
    parts = ["<h1>The demonstration: one run</h1>", '<p class="soft">An image encoder, a language model and a picture generator, trained together on emoji and their names.</p>']
    parts.append(draw_tiles(metrics, history))

    def add(title, words, content):
        if content:
            parts.append(f"<h2>{escape(title)}</h2>\n<p class=\"soft\">{escape(words)}</p>\n{content}")

    def charts(figures):
        return '<div class="charts">\n' + "\n".join(figures) + "\n</div>" if figures else ""

    add("Losses", "By step; faint: every step, full: the mean of its neighbours.", charts(draw_losses(metrics)))
    add("What was learned", "All emoji, at every evaluation.", charts(draw_scores(history)))
    add("Drawn and said on the way", "Above the pictures that are meant, with their names. Below what the generator draws from the names, and what the language model calls the true pictures.", draw_samples(out / "history", history))
    captions = draw_captions(out / "captions.json")
    if (out / "grid.png").exists():
        captions = image(out / "grid.png", "grid-picture", "true beside drawn pictures") + captions
    add("At the end", "The true picture beside the drawn one, its name, and its caption.", captions)
    add("The step, planned and measured", "A row is a rank. Bubbles and kinds of tasks are explained at each.", draw_steps(out))
    style = (STYLES / "page.css").read_text() + (STYLES / "picture.css").read_text() + STYLE
    head = f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n<meta name="viewport" content="width=device-width, initial-scale=1"/>\n<title>The demonstration: one run</title>\n<style>\n{style}</style>\n</head>\n<body>\n'
    (out / "run.html").write_text(head + "\n".join(parts) + "\n</body>\n</html>\n")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    if not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit(f"error: {sys.argv[1]}: there is no such folder")
    main(pathlib.Path(sys.argv[1]))
