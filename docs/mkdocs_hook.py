"""A hook of mkdocs (mkdocs.yml): pages link to sources, which the site does not have; there the path is text.

With `repo_url` in mkdocs.yml such a link leads to the file in the repository.
"""
import logging
import pathlib
import posixpath
import re

log = logging.getLogger("mkdocs.plugins.site")


def on_page_markdown(markdown, page, config, files):
    folder = posixpath.dirname(page.file.src_uri)
    root = pathlib.Path(config.config_file_path).parent

    def outside(match):
        text, link = match.groups()
        path = posixpath.normpath(posixpath.join(folder, link.split("#")[0]))
        if "://" in link or files.get_file_from_path(path) or link.startswith("#"):
            return match[0]
        path = posixpath.normpath(posixpath.join("docs", path))
        if not (root / path).exists():
            log.warning("%s: there is no %s", page.file.src_uri, path)
        if config.repo_url:
            return f"[{text}]({posixpath.join(config.repo_url, 'blob/main', path)})"
        return f"{text} (`{path}`)" if text != posixpath.basename(path) else f"`{path}`"

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", outside, markdown)
