"""Eviction signals and thresholds, and the resources that hard thresholds reserve. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from nodeagent.base.duration import Duration
from nodeagent.base.quantity import Format, Quantity
from nodeagent.base.structs import Struct
from nodeagent.model.resources import EPHEMERAL_STORAGE, MEMORY

_PERCENT = re.compile(r"-?(\d+(\.\d*)?|\.\d+)%", re.ASCII)


class Signal(StrEnum):
    """Eviction signal of the configuration; each is the remaining part of a resource."""

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
"""Signals derived from others; a configured threshold of one has no effect."""

SIGNALS = tuple(signal for signal in Signal if signal not in COMPUTED_SIGNALS)
"""Signals that can be configured."""

_RESERVING = {Signal.MEMORY: MEMORY, Signal.NODEFS: EPHEMERAL_STORAGE}


class Amount(Struct, frozen=True):
    """Quantity, or fraction (0 to 1) of the capacity."""

    quantity: Quantity | None = None
    fraction: float = 0.0

    @property
    def disabled(self) -> bool:
        """True for ``0%`` and ``100%``, which disable a signal."""
        return self.quantity is None and self.fraction in (0.0, 1.0)

    def of(self, capacity: int) -> int:
        """Return the amount in bytes, inodes or processes; a fraction is of *capacity*."""
        return self.quantity.value() if self.quantity is not None else round(capacity * self.fraction)

    def __str__(self) -> str:
        return str(self.quantity) if self.quantity is not None else f"{self.fraction * 100:g}%"


class Threshold(Struct, frozen=True):
    """Threshold, met below *limit*; a soft one takes effect after its grace period, a hard one immediately."""

    signal: Signal
    limit: Amount
    hard: bool = True
    grace_seconds: float = 0.0
    minimum_reclaim: Amount | None = None
    """Amount above the limit that must be available before the threshold, once met, is resolved."""

    def __str__(self) -> str:
        return f"{self.signal}<{self.limit}"


def parse_amount(text: str, *, zero: bool = False) -> Amount:
    """Parse ``100Mi`` or ``10%``.

    :param zero: accept an amount of 0, as for a minimum reclaim.
    :raises ValueError: the text is neither, or out of range; the message is a predicate.
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
    """Return the thresholds of four validated maps of signals, without disabled and computed ones.

    spec: config.evictionHard, config.evictionSoft, config.evictionSoftGracePeriod, config.evictionMinimumReclaim

    :param allocatable: also add the memory of all pods, with the hard threshold of the node's memory.
    :raises ValueError: a value is invalid, or a soft signal has no grace period.
    """
    reclaims = {signal: parse_amount(text, zero=True) for signal, text in minimum_reclaim.items() if signal in SIGNALS}
    thresholds = [
        Threshold(signal, limit, minimum_reclaim=reclaims.get(signal)) for signal, limit in _limits(hard).items()
    ]
    for signal, limit in _limits(soft).items():
        if signal not in soft_grace:
            raise ValueError(f"{signal} needs a grace period")
        grace = Duration.parse(soft_grace[signal]).seconds
        thresholds.append(Threshold(signal, limit, False, grace, reclaims.get(signal)))
    if allocatable:
        thresholds += [
            Threshold(Signal.ALLOCATABLE_MEMORY, each.limit, minimum_reclaim=each.minimum_reclaim)
            for each in thresholds
            if each.signal is Signal.MEMORY and each.hard
        ]
    return tuple(thresholds)


def reserved_for_eviction(hard: Mapping[str, str], capacity: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return the part of *capacity* that hard thresholds reserve: memory and ephemeral storage.

    Pods that use it are evicted, so it is not part of the node's allocatable.
    spec: config.evictionHard

    :raises ValueError: a threshold is invalid.
    """
    reserved: dict[str, Quantity] = {}
    for signal, limit in _limits(hard).items():
        total = capacity.get(_RESERVING.get(signal, ""))
        if total is not None:
            reserved[_RESERVING[signal]] = limit.quantity or Quantity(limit.of(total.value()), format=Format.BINARY)
    return reserved


def _limits(thresholds: Mapping[str, str]) -> dict[Signal, Amount]:
    amounts = {Signal(signal): parse_amount(text) for signal, text in thresholds.items() if signal in SIGNALS}
    return {signal: limit for signal, limit in amounts.items() if not limit.disabled}
