"""How every command prints data, tables and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from nodeagent.errors import ConfigError, PluginError

_NARROWEST = 24
"""How narrow a last column may become before the terminal does better by itself."""


def print_refusal(error: ConfigError | PluginError) -> None:
    """Tell on standard error why nothing was started, every problem on a line of its own."""
    if isinstance(error, PluginError):
        print(f"nodeagent: {error}", file=sys.stderr)
        return
    for problem in error.problems:
        print(f"invalid configuration: {problem}", file=sys.stderr)


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print *value* as JSON; without *indent* on one line."""
    print(json.dumps(value, indent=indent, ensure_ascii=False))


def print_table(rows: Iterable[Sequence[str]], heading: Sequence[str] = ()) -> None:
    """Print columns one below the other; on a terminal a long last column goes on in the lines below it.

    Piped, each row is one line, for programs that read lines.
    """
    table = [*([heading] if heading else ()), *rows]
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
    """Return how wide the last column may be; 0 is no limit."""
    if not sys.stdout.isatty():
        return 0
    room = shutil.get_terminal_size().columns - left
    return room if room >= _NARROWEST else 0
