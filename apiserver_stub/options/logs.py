"""Command-line options for logging."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group
from nodeagent.base.logging import MAX_VERBOSITY

TITLE = "Logging"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class LogOptions:
    """Values of the command-line options for logging."""

    verbosity: int = 0
    vmodule: str = ""
    log_flush_frequency_seconds: float = 5.0


def declare(group: Group) -> None:
    group.add("v", _verbosity, f"Log verbosity, 0 to {MAX_VERBOSITY}.", "verbosity", short="v")
    group.add("vmodule", str, "Log verbosity per file: pattern=N, comma separated.")
    group.add(
        "log-flush-frequency", values.duration, "Maximum time between log flushes.", "log_flush_frequency_seconds"
    )
    group.add("logging-format", _text_format, argparse.SUPPRESS)


def _verbosity(text: str) -> int:
    value = values.integer(text)
    if not 0 <= value <= MAX_VERBOSITY:
        raise argparse.ArgumentTypeError(f"{value} is not between 0 and {MAX_VERBOSITY}")
    return value


def _text_format(text: str) -> str:
    if text != "text":
        raise argparse.ArgumentTypeError(f'format: Invalid value: "{text}": Unsupported log format')
    return text
