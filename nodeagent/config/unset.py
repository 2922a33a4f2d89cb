"""Values that stand in a file and mean "not set", and defaults that depend on other fields.

Files of the field are full of written-out zeros, because programs wrote them. A zero duration, an empty text and a zero
in a few numbers therefore mean the default, unless zero says something there. A zero that the documents call wrong
(``port``, ``nodeLeaseDurationSeconds``) is only unset in a file of the reference form; in our own it is an error.
"""

from __future__ import annotations

from typing import Any

from nodeagent.base.duration import Duration
from nodeagent.config.fields import all_fields
from nodeagent.config.tree import DEFAULT, Origin, Tree
from nodeagent.contracts.configuration import TimeOrMetaDuration

_ZERO_COUNTS = frozenset(
    {
        "imageMaximumGCAge",
        "shutdownGracePeriod",
        "shutdownGracePeriodCriticalPods",
        "cpuCFSQuotaPeriod",
        "resolvConf",
    }
)
_ZERO_UNSET = frozenset({"maxPods", "registryBurst", "eventBurst", "platformAPIBurst", "maxOpenFiles"})
_ZERO_UNSET_IN_REFERENCE = frozenset({"port", "nodeLeaseDurationSeconds"})
_REFERENCE_ENDPOINT = "unix:///run/containerd/containerd.sock"


def drop_unset(tree: Tree, *, reference: bool) -> list[str]:
    """Take away what means "not set" from the values of files; return warnings about numbers that were zero."""
    warnings = []
    for path, field in all_fields().items():
        if "[]" in path or path in _ZERO_COUNTS:
            continue
        keys = tuple(path.split("."))
        value = tree.get(keys)
        if value is None or isinstance(value, bool | dict | list):
            continue
        kind = field.member.shape.kind
        if kind in (Duration, TimeOrMetaDuration):
            unset = _is_zero(value)
        elif kind is str:
            unset = value == "" and field.default != ""
        else:
            unset = value == 0 and (path in _ZERO_UNSET or (reference and path in _ZERO_UNSET_IN_REFERENCE))
            if unset and not reference:
                warnings.append(f"{path}: 0 counts as not set; the default {field.default} applies")
        if unset:
            tree.remove(keys)
    return warnings


def fill_dependent(tree: Tree, *, reference: bool) -> list[str]:
    """Set what follows from other fields; return warnings about what was assumed."""
    update = ("nodeStatusUpdateFrequency",)
    report = ("nodeStatusReportFrequency",)
    if tree.get(update) is not None and tree.get(report) is None:
        origin = tree.origin(update[0])
        tree.replace(report, tree.get(update), Origin(DEFAULT.kind, f"from nodeStatusUpdateFrequency, {origin}"))
    endpoint = ("containerRuntimeEndpoint",)
    if reference and not tree.get(endpoint):
        tree.replace(endpoint, _REFERENCE_ENDPOINT, Origin(DEFAULT.kind, "of files in the reference form"))
        return [f"containerRuntimeEndpoint is not set; {_REFERENCE_ENDPOINT} is used, as such files expect"]
    return []


def _is_zero(value: Any) -> bool:
    if isinstance(value, str):
        try:
            return not Duration.parse(value)
        except ValueError:
            return False
    return isinstance(value, int) and value == 0
