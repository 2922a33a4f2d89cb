"""What ``nodeagent doctor`` looks at, and what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    PROBLEM = "problem"
    """Pods do not run, or run unsafely, until it is mended."""
    WARNING = "warning"
    """It works now, and will not always."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    severity: Severity
    text: str
    remedy: str


class CheckInconclusive(Exception):
    """Raised by a check that cannot tell, because something it needs fails that another check tells of."""


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """One thing to look at.

    :param name: a short word for it, shown also when all is well; those of other plugins begin with the plugin's name.
    :param run: returns what it found; a failure of its own is shown as a finding.
    """

    name: str
    run: Callable[[], Awaitable[Sequence[Finding]]]


def problem(text: str, remedy: str) -> Finding:
    """Return a finding that has to be mended."""
    return Finding(Severity.PROBLEM, text, remedy)


def warning(text: str, remedy: str) -> Finding:
    """Return a finding that should be mended in time."""
    return Finding(Severity.WARNING, text, remedy)
