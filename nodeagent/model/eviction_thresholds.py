"""When the node is short of something: eviction signals, their thresholds, and what those keep free. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nodeagent.base.duration import Duration
from nodeagent.base.quantity import Format, Quantity
from nodeagent.model.resources import EPHEMERAL_STORAGE, MEMORY

_PERCENT = re.compile(r"-?(\d+(\.\d*)?|\.\d+)%", re.ASCII)


class Signal(StrEnum):
    """What is watched, as configuration names it. Every one is "less than": what is left of something."""

    MEMORY = "memory.available"
    NODEFS = "nodefs.available"
    NODEFS_INODES = "nodefs.inodesFree"
    IMAGEFS = "imagefs.available"
    IMAGEFS_INODES = "imagefs.inodesFree"
    PID = "pid.available"
    CONTAINERFS = "containerfs.available"
    CONTAINERFS_INODES = "containerfs.inodesFree"
    ALLOCATABLE_MEMORY = "allocatableMemory.available"


COMPUTED_SIGNALS = (Signal.CONTAINERFS, Signal.CONTAINERFS_INODES, Signal.ALLOCATABLE_MEMORY)
"""Derived from the others; a threshold given for one has no effect."""

SIGNALS = tuple(signal for signal in Signal if signal not in COMPUTED_SIGNALS)
"""Those that configuration may set."""

_RESERVING = {Signal.MEMORY: MEMORY, Signal.NODEFS: EPHEMERAL_STORAGE}


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount, or a fraction (0 to 1) of the capacity."""

    quantity: Quantity | None = None
    fraction: float = 0.0

    @property
    def disabled(self) -> bool:
        """As a threshold, ``0%`` and ``100%`` switch a signal off."""
        return self.quantity is None and self.fraction in (0.0, 1.0)

    def of(self, capacity: int) -> int:
        """Return the amount in whole units (bytes, inodes, processes), a fraction being taken of *capacity*."""
        return self.quantity.value() if self.quantity is not None else round(capacity * self.fraction)

    def __str__(self) -> str:
        return str(self.quantity) if self.quantity is not None else f"{self.fraction * 100:g}%"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Below *limit* the node is short. A soft threshold has to be met for its grace, a hard one counts at once."""

    signal: Signal
    limit: Amount
    hard: bool = True
    grace_seconds: float = 0.0
    minimum_reclaim: Amount | None = None
    """What has to be left beyond the limit before the threshold, once met, counts as resolved."""

    def __str__(self) -> str:
        return f"{self.signal}<{self.limit}"


def parse_amount(text: str, *, zero: bool = False) -> Amount:
    """Read ``100Mi`` or ``10%``.

    :param zero: an amount of 0 is fine, as for a minimum reclaim.
    :raises ValueError: the text is neither, or out of range; the message is a sentence part.
    """
    if text.endswith("%"):
        if not _PERCENT.fullmatch(text):
            raise ValueError("is not a percentage such as 10%")
        percent = float(text[:-1])
        if not 0 <= percent <= 100:
            raise ValueError("must be between 0% and 100%")
        return Amount(fraction=percent / 100)
    quantity = Quantity.parse(text)
    if quantity < Quantity() or not (quantity or zero):
        raise ValueError("must not be negative" if zero else "must be greater than 0")
    return Amount(quantity)


def read_thresholds(
    *,
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    soft_grace: Mapping[str, str],
    minimum_reclaim: Mapping[str, str],
    allocatable: bool = False,
) -> tuple[Threshold, ...]:
    """Return the thresholds that four validated maps of signals set, the disabled and the computed ones left out.

    spec: config.evictionHard, config.evictionSoft, config.evictionSoftGracePeriod, config.evictionMinimumReclaim

    :param allocatable: watch the memory that pods together may use as well, by the hard threshold of the node's.
    :raises ValueError: a value cannot be read, or a soft signal has no grace period.
    """
    reclaims = {signal: parse_amount(text, zero=True) for signal, text in minimum_reclaim.items() if signal in SIGNALS}
    found = [Threshold(signal, limit, minimum_reclaim=reclaims.get(signal)) for signal, limit in _limits(hard).items()]
    for signal, limit in _limits(soft).items():
        if signal not in soft_grace:
            raise ValueError(f"{signal} needs a grace period")
        grace = Duration.parse(soft_grace[signal]).seconds
        found.append(Threshold(signal, limit, False, grace, reclaims.get(signal)))
    if allocatable:
        found += [
            Threshold(Signal.ALLOCATABLE_MEMORY, each.limit, minimum_reclaim=each.minimum_reclaim)
            for each in found
            if each.signal is Signal.MEMORY and each.hard
        ]
    return tuple(found)


def reserved_for_eviction(hard: Mapping[str, str], capacity: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return what hard eviction keeps free of each resource in *capacity*: memory and ephemeral storage.

    Pods that used more would be evicted, so nobody may count on it: the node's allocatable is less by this.
    spec: config.evictionHard

    :raises ValueError: a threshold cannot be read.
    """
    reserved: dict[str, Quantity] = {}
    for signal, limit in _limits(hard).items():
        total = capacity.get(_RESERVING.get(signal, ""))
        if total is not None:
            reserved[_RESERVING[signal]] = limit.quantity or Quantity(limit.of(total.value()), format=Format.BINARY)
    return reserved


def _limits(thresholds: Mapping[str, str]) -> dict[Signal, Amount]:
    read = {Signal(signal): parse_amount(text) for signal, text in thresholds.items() if signal in SIGNALS}
    return {signal: limit for signal, limit in read.items() if not limit.disabled}
