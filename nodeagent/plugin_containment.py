"""Limits for plugins that fail or block, from ``--plugin-config``. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.errors import Problem
from nodeagent.pluginmanager import QuarantinePolicy

_QUARANTINE = {
    "failures": ("failures", 0, 1000),
    "windowSeconds": ("window_seconds", 1, 86400),
    "retrySeconds": ("retry_seconds", 1, 86400),
    "maxRetrySeconds": ("max_retry_seconds", 1, 86400),
}
_STALL = {
    "reportSeconds": ("report_seconds", 0.1, 60),
    "interruptSeconds": ("interrupt_seconds", 0, 600),
    "watchdogSeconds": ("watchdog_seconds", 0, 3600),
}
FIELDS = ("requiredPlugins", "quarantine", "stall")
"""Fields of the file that this module reads."""


class StallPolicy(Struct, frozen=True):
    """Limits for a blocked event loop, from ``stall`` of ``--plugin-config``."""

    report_seconds: float = 1.0
    """Mean duration after which the plugin responsible is reported; half of it to one and a half times as long."""
    interrupt_seconds: float = 2.0
    """Duration after which a hook call of a third-party plugin is interrupted; 0 disables it."""
    watchdog_seconds: float = 60.0
    """Time for which the service manager receives watchdog pings although the event loop is blocked."""


class Containment(Struct, frozen=True):
    """Limits for plugins."""

    required: tuple[str, ...] = ()
    """Plugins without which no pod may run."""
    quarantine: QuarantinePolicy = field(default_factory=QuarantinePolicy)
    stall: StallPolicy = field(default_factory=StallPolicy)


def parse_containment(
    document: Mapping[str, Any], installed: Iterable[str], file: str, problems: list[Problem]
) -> Containment:
    """Return the limits in *document*, and append all of its errors to *problems*.

    :param installed: names of the installed plugins.
    :param file: name of the file, for errors.
    """
    required = document.get("requiredPlugins", [])
    if not isinstance(required, list):
        problems.append(Problem(file, "requiredPlugins", required, "must be a list of plugin names"))
        required = []
    names = set(installed)
    problems.extend(
        Problem(file, f"requiredPlugins[{index}]", name, "plugin is not installed")
        for index, name in enumerate(required)
        if name not in names
    )
    quarantine = QuarantinePolicy(**_numbers(document, "quarantine", _QUARANTINE, file, problems))
    if quarantine.max_retry_seconds < quarantine.retry_seconds:
        rule = f"must not be less than retrySeconds, {quarantine.retry_seconds:g}"
        problems.append(Problem(file, "quarantine.maxRetrySeconds", quarantine.max_retry_seconds, rule))
    stall = StallPolicy(**_numbers(document, "stall", _STALL, file, problems))
    if 0 < stall.interrupt_seconds < stall.report_seconds:
        rule = f"must not be less than reportSeconds, {stall.report_seconds:g}"
        problems.append(Problem(file, "stall.interruptSeconds", stall.interrupt_seconds, rule))
    return Containment(tuple(required), quarantine, stall)


def _numbers(
    document: Mapping[str, Any],
    key: str,
    known: Mapping[str, tuple[str, float, float]],
    file: str,
    problems: list[Problem],
) -> dict[str, Any]:
    """Return the numbers of a section by attribute name."""
    section = document.get(key, {})
    if not isinstance(section, dict):
        problems.append(Problem(file, key, section, "must be a map"))
        return {}
    values = {}
    for name, value in section.items():
        path = f"{key}.{name}"
        if name not in known:
            problems.append(Problem(file, path, None, f"unknown field; allowed are {', '.join(known)}"))
            continue
        attribute, low, high = known[name]
        whole = attribute == "failures"
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            problems.append(Problem(file, path, value, "must be a whole number" if whole else "must be a number"))
        elif not low <= value <= high:
            problems.append(Problem(file, path, value, f"must be between {low:g} and {high:g}"))
        else:
            values[attribute] = value
    return values
