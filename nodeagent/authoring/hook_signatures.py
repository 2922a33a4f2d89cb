"""Signatures of the agent's hooks, which implementations must match."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping

from nodeagent import hookspecs
from nodeagent.base.structs import Struct

PREFIX = "nodeagent_"


class HookSignature(Struct, frozen=True):
    """Name, arguments and kind of a hook."""

    name: str
    arguments: tuple[str, ...]
    is_async: bool


def known_hooks() -> Mapping[str, HookSignature]:
    """Return the signatures of all hooks, by name."""
    return {
        name: HookSignature(name, tuple(inspect.signature(hook).parameters), inspect.iscoroutinefunction(hook))
        for name, hook in vars(hookspecs).items()
        if name.startswith(PREFIX)
    }


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a suffix for a message that suggests the most similar of *names*; empty if none is similar."""
    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {matches[0]}?" if matches else ""
