"""Which events a change of the node's conditions is worth. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeagent.model.node import NodeCondition
from nodeagent.node.status import READY

_REASONS = {
    (READY, "True"): "NodeReady",
    (READY, "False"): "NodeNotReady",
    ("MemoryPressure", "True"): "NodeHasInsufficientMemory",
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("DiskPressure", "True"): "NodeHasDiskPressure",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("PIDPressure", "True"): "NodeHasInsufficientPID",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
}


def event_reasons(before: Mapping[str, str], conditions: Iterable[NodeCondition]) -> list[str]:
    """Return the reasons of events, in the order of *conditions*.

    A node that is not ready when nothing was known before is merely starting.

    :param before: the status of each condition as last known, by type.
    """
    found = []
    for condition in conditions:
        known = before.get(condition.type)
        starting = known is None and condition.type == READY and condition.status == "False"
        if known != condition.status and not starting and (condition.type, condition.status) in _REASONS:
            found.append(_REASONS[condition.type, condition.status])
    return found
