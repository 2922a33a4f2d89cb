"""Markers of hooks for plugins, and the version of the agent."""

from collections.abc import Callable as _Callable
from typing import Any as _Any
from typing import TypeVar as _TypeVar

import pluggy

__version__ = "0.1.0"
API_VERSION = "1.0"
"""Version of hooks and contracts; a change that existing plugins cannot be used with increases the first number."""

hookimpl = pluggy.HookimplMarker("nodeagent")
"""Marks the implementation of a hook."""
hookspec = pluggy.HookspecMarker("nodeagent")
"""Marks the specification of a hook; see ``nodeagent_addhooks``."""

_F = _TypeVar("_F", bound=_Callable[..., _Any])


def deadline(seconds: float) -> _Callable[[_F], _F]:
    """Declare the time limit of each call of an async hook."""

    def mark(function: _F) -> _F:
        function.deadline_seconds = seconds  # type: ignore[attr-defined]
        return function

    return mark


__all__ = ["API_VERSION", "__version__", "deadline", "hookimpl", "hookspec"]
