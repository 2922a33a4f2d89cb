"""Pages of the site that stand outside ``docs/`` in the repository, where people look for them; a hook of mkdocs."""

from __future__ import annotations

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

_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)((?:#[^)\s]*)?)(?=\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages; their links are those of the repository and are turned when the page is read."""
    for file, page in PAGES.items():
        files.append(File.generated(config, page, content=turned((ROOT / file).read_text(encoding="utf-8"), file)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links of a page of ``docs/`` that lead out of it."""
    return markdown if page.file.generated_by else turned(markdown, f"docs/{page.file.src_uri}")


def turned(text: str, file: str) -> str:
    """Return the text of a file with links that lead to the same on the site; files without a page become names."""

    def turn(match: re.Match[str]) -> str:
        target = (ROOT / file).parent.joinpath(match[1]).resolve()
        if not target.is_relative_to(ROOT):
            return match[0]
        path = target.relative_to(ROOT).as_posix()
        if path.startswith("docs/"):
            return path.removeprefix("docs/") + match[2]
        return PAGES[path] + match[2] if path in PAGES else match[0]

    turned_text = _LINK.sub(turn, text)
    return re.sub(r"\[([^\]]+)\]\(((?!https?:)[^)#]+)\)", lambda match: _kept(match, file), turned_text)


def _kept(match: re.Match[str], file: str) -> str:
    """Return a link to a page of the site as it is, any other as its text."""
    pages = {*PAGES.values(), *(path.name for path in (ROOT / "docs").glob("*.md"))}
    return match[0] if match[2] in pages else match[1]
