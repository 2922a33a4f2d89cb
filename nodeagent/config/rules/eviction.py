"""Rules of the eviction maps, and how a threshold is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodeagent.base.duration import Duration
from nodeagent.base.quantity import Quantity
from nodeagent.config.codec import child, nearest
from nodeagent.config.rules.check import Check

SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
COMPUTED_SIGNALS = ("containerfs.available", "containerfs.inodesFree", "allocatableMemory.available")
"""Derived from the others; a threshold given for one has no effect."""

_PERCENT = re.compile(r"-?(\d+(\.\d*)?|\.\d+)%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit: an amount, or a fraction (0 to 1) of the capacity."""

    quantity: Quantity | None = None
    fraction: float = 0.0

    @property
    def disabled(self) -> bool:
        """``0%`` and ``100%`` switch a signal off."""
        return self.quantity is None and self.fraction in (0.0, 1.0)


def parse_threshold(text: str, *, zero: bool = False) -> Threshold:
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
        return Threshold(fraction=percent / 100)
    quantity = Quantity.parse(text)
    if quantity < Quantity() or not (quantity or zero):
        raise ValueError("must not be negative" if zero else "must be greater than 0")
    return Threshold(quantity)


def check_eviction(check: Check) -> None:
    """Report every broken rule of the eviction fields."""
    config = check.config
    _check_map(check, "evictionHard", config.eviction_hard)
    _check_map(check, "evictionSoft", config.eviction_soft)
    _check_map(check, "evictionMinimumReclaim", config.eviction_minimum_reclaim, zero=True)
    graces = config.eviction_soft_grace_period
    for signal, text in graces.items():
        path = child("evictionSoftGracePeriod", signal)
        if _check_signal(check, path, signal):
            try:
                if Duration.parse(text) < Duration():
                    check.report(path, text, "must not be negative")
            except ValueError as error:
                check.report(path, text, str(error))
    for signal, text in config.eviction_soft.items():
        if signal in SIGNALS and signal not in graces:
            check.report(child("evictionSoft", signal), text, "needs an entry in evictionSoftGracePeriod")
    check.not_negative("evictionPressureTransitionPeriod")
    check.at_least(0, "evictionMaxPodGracePeriod")


def _check_map(check: Check, field: str, thresholds: Mapping[str, str], *, zero: bool = False) -> None:
    for signal, text in thresholds.items():
        path = child(field, signal)
        if _check_signal(check, path, signal):
            try:
                parse_threshold(text, zero=zero)
            except ValueError as error:
                check.report(path, text, str(error))


def _check_signal(check: Check, path: str, signal: str) -> bool:
    if signal in COMPUTED_SIGNALS:
        check.warnings.append(f"{path} has no effect: the signal is computed from the others")
        return False
    if signal not in SIGNALS:
        near = nearest(signal, SIGNALS)
        hint = f"; did you mean {near}?" if near else f"; known are {', '.join(SIGNALS)}"
        check.report(path, None, f"is not a known eviction signal{hint}")
        return False
    return True
