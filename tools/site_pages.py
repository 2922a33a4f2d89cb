"""Mkdocs hook for the pages of the site that are stored outside ``docs/``, and for links to files outside of it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "results.md",
}
"""File of the repository → page of the site."""

_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>(?!https?:)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of ``PAGES`` with links that are valid on the site."""
    for file, page in PAGES.items():
        content = with_site_links((ROOT / file).read_text(encoding="utf-8"), file, page)
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite the links of a page of ``docs/`` to files outside of it."""
    source = page.file.src_uri
    return markdown if page.file.generated_by else with_site_links(markdown, f"docs/{source}", source)


def with_site_links(text: str, file: str, page: str) -> str:
    """Return the text of *file* with links for its path *page* on the site; other links become plain text."""

    def rewrite(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["target"]))
        if path in PAGES:
            target = PAGES[path]
        elif path.startswith("docs/") and (ROOT / path).is_file():
            target = path.removeprefix("docs/")
        else:
            return match["text"]
        return f"[{match['text']}]({posixpath.relpath(target, posixpath.dirname(page) or '.')}{match['anchor'] or ''})"

    return _LINK.sub(rewrite, text)
