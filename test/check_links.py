#!/usr/bin/env python3
"""Links between the project's pages lead somewhere: check_links.py SOURCE_DIRECTORY."""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
pages = [source / "README.md", *source.glob("docs/*.md"), *source.glob("models/**/*.md")]
dead = [f"{page.relative_to(source)}: there is no {link}" for page in pages for link in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in link and not (page.parent / link).exists()]
assert len(pages) > 10, "the pages were not found"
print("\n".join(dead) or f"{len(pages)} pages have no dead link")
sys.exit(bool(dead))
