"""Pod admission on a node under pressure. No I/O."""

from __future__ import annotations

from collections.abc import Set

from nodeagent.base import identity
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod, Toleration
from nodeagent.model.qos import QosClass, is_critical, qos_class
from nodeagent_plugins.eviction.messages import REASON
from nodeagent_plugins.eviction.signals import Condition

_EFFECT = "NoSchedule"


def check_admission(pod: Pod, conditions: Set[Condition]) -> Rejection | None:
    """Reject *pod* if the node's conditions do not allow it.

    Critical pods are always admitted. If memory pressure is the only condition, so are pods that are not BestEffort and
    pods that tolerate the taint of that condition.
    """
    if not conditions or is_critical(pod):
        return None
    if conditions == {Condition.MEMORY} and (
        qos_class(pod) is not QosClass.BEST_EFFORT or any(map(_tolerates_pressure, pod.spec.tolerations or ()))
    ):
        return None
    return Rejection(REASON, f"The node had condition: [{' '.join(sorted(conditions))}]. ")


def _tolerates_pressure(toleration: Toleration) -> bool:
    key = identity.current().label("memory-pressure", "node")
    if toleration.effect not in ("", _EFFECT) or toleration.key not in ("", key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and not toleration.value)
