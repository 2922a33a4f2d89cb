"""Effective values of all options, for the page ``/flagz``. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.options.command_line import Options, build_parser
from apiserver_stub.options.declare import DURATION
from nodeagent.base.duration import Duration


def flag_values(options: Options) -> dict[str, object]:
    """Return the effective value of every option by name, in the form of the command line."""
    found: dict[str, object] = {}
    for action in build_parser()._actions:
        if hasattr(options, action.dest):
            name = action.option_strings[-1].removeprefix("--")
            found[name] = _shown(getattr(options, action.dest), is_duration=action.metavar == DURATION)
    return found


def _shown(value: Any, *, is_duration: bool) -> object:
    if is_duration and value is not None:
        return str(Duration.of(seconds=value))
    if isinstance(value, range):
        return f"{value.start}-{value.stop - 1}" if value else ""
    return value
