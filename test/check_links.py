#!/usr/bin/env python3
"""Links between the project's pages, and what sources say of pages (docs/FILE, perhaps with #heading), lead to what is there: check_links.py SOURCE_DIRECTORY."""
import functools
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
pages = [source / "README.md", *source.glob("docs/**/*.md"), *source.glob("models/**/*.md")]
MOST = 2500  # words of a page


@functools.cache
def headings(page):
    """Anchors of a page's headings, as GitHub makes them."""
    anchors, counts = set(), {}
    for title in re.findall(r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        counts[anchor] = counts.get(anchor, -1) + 1
        anchors.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
    return anchors


def fault(file, link, anchor, target):
    if not target.exists():
        return [f"{file.relative_to(source)}: there is no {link}"]
    if anchor and target.suffix == ".md" and anchor not in headings(target):
        return [f"{file.relative_to(source)}: {link or 'this page'} has no heading #{anchor}"]
    return []


dead = []
for page in pages:
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        if "://" not in link:
            dead += fault(page, link, anchor, page.parent / link if link else page)
sources = [f for folder in ("codegen", "dialects", "docs", "models", "passes", "runtime", "test", "tools") for f in (source / folder).rglob("*")
           if f.is_file() and (f.suffix in {".cpp", ".cu", ".def", ".h", ".md", ".py", ".sh", ".td", ".json"} or f.parent.name == "tools")]
for file in sources:
    for link, anchor in re.findall(r"(?<![\w/])(docs/[\w/.-]+\.(?:md|json))(?:#([\w-]+))?", file.read_text(errors="replace")):
        dead += fault(file, link, anchor, source / link)
for page in source.glob("docs/*.md"):
    if (words := len(re.findall(r"\S*\w\S*", page.read_text()))) > MOST:
        dead.append(f"{page.relative_to(source)}: {words} words, expected {MOST} at most: a page answers one question")
assert len(pages) > 10 and len(sources) > 100, "the pages were not found"
print("\n".join(dead) or f"{len(pages)} pages and {len(sources)} sources have no dead link")
sys.exit(bool(dead))
