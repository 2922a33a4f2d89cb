"""Blocks of code in pages, with what a comment above them says about running them.

A block of ``sh`` or ``console`` carries one of these lines directly above it:

- ``<!-- run -->``, ``<!-- run: exit code 1 -->``: a test runs it, after the blocks before it on the page
- ``<!-- proven by tests/… -->``: that test runs it, or what it comes to
- ``<!-- not run: REASON -->``

``<!-- file: NAME -->`` above a block of any kind has it written to that file, ``<!-- before: COMMAND -->`` runs a
command first; both before what follows them.
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
_NOTE = re.compile(r"^\s*<!-- (?P<word>run|proven by|not run|file|before)(?:: | )?(?P<rest>.*?) ?-->$")


@dataclass(frozen=True)
class Block:
    """A block of code; ``notes`` are the comments above it, word and rest."""

    line: int
    language: str
    text: str
    notes: tuple[tuple[str, str], ...]

    @property
    def shell(self) -> bool:
        return self.language in ("sh", "console", "bash", "shell")


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = (ROOT / page).read_text()
    found = []
    for match in _FENCE.finditer(text):
        above = text[: match.start()].splitlines()
        notes = []
        while above and (note := _NOTE.match(above.pop())):
            notes.append((note["word"], note["rest"]))
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["text"].splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        found.append(Block(number, match["language"], "\n".join(lines) + "\n", tuple(reversed(notes))))
    return found
