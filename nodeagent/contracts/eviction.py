"""How plugins help a node under pressure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodeagent.contracts.stats import PodUsage
from nodeagent.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What was freed on a disk."""

    bytes: int
    items: Sequence[str] = ()
    """Names of images, containers or files that are gone, for the log and ``evict plan``."""


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A pod that could be evicted, with its use when it was measured."""

    pod: Pod
    usage: PodUsage | None
