"""Node checks of ``nodeagent doctor`` and their findings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from nodeagent.base.structs import Struct


class Severity(StrEnum):
    """Severity of a finding."""

    PROBLEM = "problem"
    """Pods do not run, or run unsafely, until it is fixed."""
    WARNING = "warning"
    """Works now, but will fail later."""


class Finding(Struct, frozen=True):
    """A problem or a warning, with its remedy."""

    severity: Severity
    text: str
    remedy: str


class CheckInconclusive(Exception):
    """Raised by a check whose prerequisite fails; another check reports that failure."""


class NodeCheck(Struct, frozen=True):
    """A check of the node.

    :param name: short name for display; the names of third-party checks start with the plugin's name.
    :param run: returns the findings; an exception is displayed as a finding.
    """

    name: str
    run: Callable[[], Awaitable[Sequence[Finding]]]


def problem(text: str, remedy: str) -> Finding:
    """Return a finding of severity ``problem``."""
    return Finding(Severity.PROBLEM, text, remedy)


def warning(text: str, remedy: str) -> Finding:
    """Return a finding of severity ``warning``."""
    return Finding(Severity.WARNING, text, remedy)
