"""Env files: variables that an init container writes to a volume for later containers (``fileKeyRef``)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from nodeagent_plugins.pod_sync.subpaths import open_beneath

MAX_BYTES = 1 << 20
"""Largest env file: a container writes it, and the agent holds it in memory."""
_BLANKS = " \t"


def read_env_file(volume: Path, path: str, key: str) -> str:
    """Return the value of *key* in the file at *path* in *volume*; empty if the file does not set it.

    :raises OSError: the file cannot be read, or *path* leaves the volume.
    :raises ValueError: the file is too large, is not a regular file, or its syntax is invalid.
    """
    found = open_beneath(volume, path, create=False)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise ValueError("not a regular file")
        with Path(f"/proc/self/fd/{found}").open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    finally:
        os.close(found)
    if len(content) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    return env_value(content.decode("utf-8", "surrogateescape"), key)


def env_value(text: str, key: str) -> str:
    """Return the first value of *key* in an env file; empty if there is none.

    Each assignment is ``NAME='value'``; the value is literal and may span lines. Blank lines and comments are ignored.
    As in a shell, a blank after ``=`` assigns the empty string. Lines after the assignment are not checked.

    :raises ValueError: the syntax is invalid; the message names the line.
    """
    lines = enumerate((line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")), start=1)
    for number, line in lines:
        assignment = line.lstrip(_BLANKS)
        if not assignment or assignment.startswith("#"):
            continue
        name, equals, rest = assignment.partition("=")
        if not equals:
            raise _invalid(number, "missing '='")
        if not name.strip(_BLANKS):
            raise _invalid(number, "empty variable name")
        if name != name.rstrip(_BLANKS):
            raise _invalid(number, "whitespace before '=' is not allowed")
        value = "" if rest.startswith(tuple(_BLANKS)) else _quoted(rest, number, lines)
        if name == key:
            return value
    return ""


def _quoted(first: str, number: int, following: Iterator[tuple[int, str]]) -> str:
    """Return the quoted text that starts with *first* on line *number*; advance *following* to its last line."""
    if not first.startswith("'"):
        raise _invalid(number, "value must be enclosed in single quotes")
    start, line, parts = number, first[1:], list[str]()
    while "'" not in line:
        parts.append(line)
        number, line = next(following, (0, ""))
        if not number:
            raise _invalid(start, "unclosed single quote")
    last, _, after = line.partition("'")
    if (after := after.lstrip(_BLANKS)) and not after.startswith("#"):
        raise _invalid(number, "unexpected content after closing quote")
    return "\n".join([*parts, last])


def _invalid(number: int, problem: str) -> ValueError:
    return ValueError(f"invalid environment variable format at line {number}: {problem}")
