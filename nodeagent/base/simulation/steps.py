"""Steps of a simulation, and the outcome of a run with them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodeagent.base.structs import Struct

ROUND_SECONDS = 3600.0
CALM_SECONDS = 900.0
"""End of each round without steps, after which the system must have converged."""


class Step(Struct, frozen=True):
    """One step: *kind* names its action."""

    at: float
    kind: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        arguments = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.at:12.3f}  {self.kind:<18} {arguments}".rstrip()


class History(Struct, frozen=True):
    """The steps of a run, as saved in a file."""

    seed: int
    hours: int
    steps: Sequence[Step]
    violation: str = ""
    """The violation with which the run ended when it was saved."""


class Outcome(Struct, frozen=True):
    """Result of a run."""

    violation: str
    """The first violation of an invariant; empty if there is none."""
    at: float
    """Virtual time of the end, in seconds."""
    digest: str
    """Hash of the trace."""
    trace: Sequence[str]
    """The last events."""
    steps: Mapping[str, int]
    """Number of executed steps by kind."""
    events: Mapping[str, int]
    checked: int
    """Number of verified conditions."""
    callbacks: int
    seconds: float
    """Duration of the run in real time."""
