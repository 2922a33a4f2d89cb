"""Output of all commands: JSON, tables and startup errors."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from nodeagent.errors import ConfigError, PluginError

_CONTROLS = re.compile("[\x7f-\x9f]")
"""Control characters that JSON does not escape."""
_MIN_LAST_COLUMN = 24
"""Minimum width to wrap the last column; below it, long lines are left to the terminal."""


def print_startup_error(error: ConfigError | PluginError) -> None:
    """Print the reason why nothing was started to standard error, one line per problem."""
    if isinstance(error, PluginError):
        print(f"nodeagent: {error}", file=sys.stderr)
        return
    for problem in error.problems:
        print(f"invalid configuration: {problem}", file=sys.stderr)


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print *value* as JSON, on one line if *indent* is ``None``."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    print(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def printable(text: str) -> str:
    """Replace control characters in *text*, which could move the cursor of a terminal or change its colors.

    Line breaks and tabs become spaces; the length is unchanged.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else " " if letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def print_table(rows: Iterable[Sequence[str]], heading: Sequence[str] = ()) -> None:
    """Print *rows* in aligned columns; on a terminal, the last column is wrapped.

    If standard output is not a terminal, each row is one line, for line-oriented tools.
    """
    table = [[printable(cell) for cell in row] for row in (*([heading] if heading else ()), *rows)]
    if not table:
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]) - 1)]
    room = _room(sum(widths) + 2 * len(widths))
    for row in table:
        left = "".join(f"{cell:{width}}  " for cell, width in zip(row, widths, strict=False))
        first, *more = (textwrap.wrap(row[-1], room) if room else ()) or (row[-1],)
        print(f"{left}{first}".rstrip())
        for piece in more:
            print(f"{'':{len(left)}}{piece}")


def _room(left: int) -> int:
    """Return the maximum width of the last column; 0 is unlimited."""
    if not sys.stdout.isatty():
        return 0
    room = shutil.get_terminal_size().columns - left
    return room if room >= _MIN_LAST_COLUMN else 0
