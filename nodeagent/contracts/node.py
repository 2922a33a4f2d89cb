"""What plugins add to the node object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeConditionReport:
    """One condition of the node, such as ``MemoryPressure``."""

    type: str
    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A plugin's part of the node status; later plugins win where keys meet."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    conditions: Sequence[NodeConditionReport] = ()
    not_ready: Sequence[str] = ()
    """Sentences that keep the node from being Ready."""
