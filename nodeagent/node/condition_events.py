"""Events for changes of node conditions. No I/O."""

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
    """Return the event reasons, in the order of *conditions*.

    No event is recorded for a node that is not ready at startup.

    :param before: the last known condition statuses, by type.
    """
    reasons = []
    for condition in conditions:
        previous = before.get(condition.type)
        starting = previous is None and condition.type == READY and condition.status == "False"
        if previous != condition.status and not starting and (condition.type, condition.status) in _REASONS:
            reasons.append(_REASONS[condition.type, condition.status])
    return reasons
