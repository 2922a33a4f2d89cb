"""The hooks that there are, as an implementation has to fit them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodeagent import hookspecs

PREFIX = "nodeagent_"


@dataclass(frozen=True, slots=True)
class HookSignature:
    """How a hook is called."""

    name: str
    arguments: tuple[str, ...]
    is_async: bool


def known_hooks() -> Mapping[str, HookSignature]:
    """Return every hook by name."""
    return {
        name: HookSignature(name, tuple(inspect.signature(hook).parameters), inspect.iscoroutinefunction(hook))
        for name, hook in vars(hookspecs).items()
        if name.startswith(PREFIX)
    }


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a hint at what was probably meant, to be put at the end of a sentence; empty without one."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""
