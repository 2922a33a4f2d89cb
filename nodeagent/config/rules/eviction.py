"""Rules of the eviction maps."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.duration import Duration
from nodeagent.config.codec import child, nearest
from nodeagent.config.rules.check import Check
from nodeagent.model.eviction_thresholds import COMPUTED_SIGNALS, SIGNALS, parse_amount


def check_eviction(check: Check) -> None:
    """Check the eviction fields."""
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
                parse_amount(text, zero=zero)
            except ValueError as error:
                check.report(path, text, str(error))


def _check_signal(check: Check, path: str, signal: str) -> bool:
    if signal in COMPUTED_SIGNALS:
        check.warnings.append(f"{path} has no effect: the signal is computed from the others")
        return False
    if signal not in SIGNALS:
        near = nearest(signal, SIGNALS)
        hint = f"; did you mean {near}?" if near else f"; supported: {', '.join(SIGNALS)}"
        check.report(path, None, f"is not a known eviction signal{hint}")
        return False
    return True
