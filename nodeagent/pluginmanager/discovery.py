"""Installed plugins: entry points of group ``nodeagent`` and their distributions."""

from __future__ import annotations

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
    distribution = entry.dist
    return (distribution.name, distribution.version) if distribution is not None else ("", "")
