"""Path resolution relative to a container's root; links cannot leave the root."""

from __future__ import annotations

import os
from pathlib import Path

MAX_LINKS = 40


def resolve_in_root(root: Path, path: str, *, follow_last: bool = True) -> Path:
    """Return the location of *path* with *root* as ``/``; it need not exist.

    Links are resolved within *root*, and ``..`` never leaves it.

    :param follow_last: also resolve the last component if it is a link.
    :raises OSError: there is a link loop.
    """
    waiting = [part for part in path.split("/") if part not in ("", ".")][::-1]
    found: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            del found[-1:]
            continue
        here = root.joinpath(*found, part)
        if (waiting or follow_last) and here.is_symlink():
            links += 1
            if links > MAX_LINKS:
                raise OSError(f"{path}: too many links")
            target = os.readlink(here)  # noqa: PTH115  a Path would lose a trailing slash and dots
            if target.startswith("/"):
                found.clear()
            waiting.extend([step for step in target.split("/") if step not in ("", ".")][::-1])
            continue
        found.append(part)
    return root.joinpath(*found)
