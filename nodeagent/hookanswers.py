"""Tells whether what a plugin answers is what its hook asks for, so that a slip is told with the plugin's name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from nodeagent import hookspecs

_SHOWN = 80
_ARGUMENTS_ALONE = {"NodeAgentConfiguration": Any, "PluginManager": Any}
"""What the specifications import for checkers alone."""


def fault_of(hook: str, answer: Any) -> str:
    """Return what is wrong with the *answer* to *hook*, empty when nothing is; ``None`` is always right.

    Whether an object keeps a contract shows in the contract's suite; here a sequence has to be one, and what is data
    has to be of its class.
    """
    many, kind = _wanted(hook)
    if answer is None or kind is None:
        return ""
    if many and (not isinstance(answer, Sequence) or isinstance(answer, str | bytes)):
        return f"answered {_shown(answer)}, which is no sequence of {kind.__name__}"
    if getattr(kind, "_is_protocol", False):
        return ""
    wrong = next((each for each in (answer if many else (answer,)) if not isinstance(each, kind)), None)
    return "" if wrong is None else f"answered {_shown(wrong)}, which is no {kind.__name__}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@cache
def _wanted(hook: str) -> tuple[bool, type | None]:
    """Return whether a sequence is wanted, and of what class; none where nothing is, or what is checked elsewhere."""
    annotation = get_type_hints(getattr(hookspecs, hook), localns=_ARGUMENTS_ALONE)["return"]
    for option in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if get_origin(option) is Sequence:
            return True, get_args(option)[0]
        if isinstance(option, type) and option is not type(None) and get_origin(option) is None:
            return False, option
    return False, None
