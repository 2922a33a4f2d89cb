"""Code blocks of documentation pages and the comments above them, which state how a block is tested.

A block of ``sh`` or ``console`` has one of these comments directly above it:

- ``<!-- run -->``, ``<!-- run: exit code 1 -->``: a test runs it, after the previous blocks of the page
- ``<!-- tested by tests/… -->``: that test runs it, or an equivalent
- ``<!-- not run: REASON -->``

``<!-- quoted from: FILE -->`` above any block states that the block quotes that file; lines of ``...`` omit text.
``<!-- file: NAME -->`` above any block writes the block to that file, and ``<!-- before: COMMAND -->`` runs a command
before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "plugins").glob("*/*.md"),
    )
)

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_NOTE = re.compile(
    r"^\s*<!-- (?P<keyword>run|tested by|not run|quoted from|file|before)(?:: | )?(?P<argument>.*?) ?-->$"
)


@dataclass(frozen=True)
class Block:
    """A code block; ``notes`` are the comments above it as pairs of keyword and argument."""

    line: int
    language: str
    text: str
    notes: tuple[tuple[str, str], ...]

    @property
    def is_shell(self) -> bool:
        return self.language in ("sh", "console", "bash", "shell")


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = (ROOT / page).read_text()
    result = []
    for match in _FENCE.finditer(text):
        above = text[: match.start()].splitlines()
        notes = []
        while above and (note := _NOTE.match(above.pop())):
            notes.append((note["keyword"], note["argument"]))
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["text"].splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        result.append(Block(number, match["language"], "\n".join(lines) + "\n", tuple(reversed(notes))))
    return result
