"""Installed plugins: entry points of group ``nodeagent`` and their distributions."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable

GROUP = "nodeagent"


def entry_points_by_name(entries: Iterable[importlib.metadata.EntryPoint]) -> dict[str, importlib.metadata.EntryPoint]:
    """Return entry points by name; a third-party one replaces a bundled one."""
    chosen: dict[str, importlib.metadata.EntryPoint] = {}
    for entry in entries:
        if entry.name not in chosen or distribution_of(entry)[0] != "nodeagent":
            chosen[entry.name] = entry
    return chosen


def distribution_of(entry: importlib.metadata.EntryPoint) -> tuple[str, str]:
    """Return name and version of the distribution that contains *entry*."""
    return _name_and_version(entry.dist) if entry.dist is not None else ("", "")


@functools.lru_cache(maxsize=64)
def _name_and_version(distribution: importlib.metadata.Distribution) -> tuple[str, str]:
    # Cached because each access parses the metadata, and one distribution may have many entry points.
    return distribution.name, distribution.version
