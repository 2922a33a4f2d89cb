"""Groups of pods by their metrics and states. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.controllers.views import Condition, PodView

CPU = "cpu"
INITIALIZATION = timedelta(minutes=5)
"""Time after the start of a pod in which CPU usage counts only while the pod is ready, since its start costs CPU."""
INITIAL_READINESS = timedelta(seconds=30)
"""Time after the start of a pod in which it counts as never ready if it becomes unready."""


class PodMetric(Struct, frozen=True):
    """Value of a metric of one pod."""

    value: int
    """In thousandths."""
    time: datetime
    window_seconds: float = 0.0
    """Time over which the value was measured, until :attr:`time`."""


class PodGroups(Struct, frozen=True):
    """Names of pods; ready ones are counted."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    """Pods without a metric."""
    ignored: frozenset[str]
    """Pods that have failed or are being deleted."""


def group_pods(pods: Iterable[PodView], metrics: Mapping[str, PodMetric], resource: str, now: datetime) -> PodGroups:
    """Return the groups of *pods*.

    :param resource: resource that *metrics* measure, empty for another metric.
    """
    ready, unready, missing, ignored = 0, set(), set(), set()
    for pod in pods:
        name = pod.metadata.name
        if pod.deleting or pod.status.phase == "Failed":
            ignored.add(name)
        elif pod.status.phase == "Pending":
            unready.add(name)
        elif name not in metrics:
            missing.add(name)
        elif resource == CPU and _is_unready(pod, metrics[name], now):
            unready.add(name)
        else:
            ready += 1
    return PodGroups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_unready(pod: PodView, metric: PodMetric, now: datetime) -> bool:
    """Return whether the CPU usage of *pod* does not represent its load yet."""
    condition = _ready_condition(pod)
    started = parse_time(pod.status.started_at)
    changed = parse_time(condition.changed_at) if condition is not None else None
    if condition is None or started is None or changed is None:
        return True
    if started + INITIALIZATION > now:
        measured_before = metric.time < changed + timedelta(seconds=metric.window_seconds)
        return condition.status == "False" or measured_before
    return condition.status == "False" and started + INITIAL_READINESS > changed


def _ready_condition(pod: PodView) -> Condition | None:
    return next((item for item in pod.status.conditions or () if item.type == "Ready"), None)


class RequestMissing(Exception):
    """A container does not request the resource."""


def requested(pod: Object, resource: str, container: str = "") -> int:
    """Return the requests of *pod*, or of one *container*, in thousandths.

    :raises RequestMissing: a container requests none.
    """
    spec = pod["spec"]
    whole = dig(spec, ("resources", "requests", resource))
    if whole is not None and not container:
        return Quantity.parse(str(whole)).milli_value()
    sidecars = [item for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"]
    total = 0
    for item in (*spec["containers"], *sidecars):
        if container and item["name"] != container:
            continue
        text = dig(item, ("resources", "requests", resource))
        if text is None:
            name = pod["metadata"]["name"]
            raise RequestMissing(f"missing request for {resource} in container {item['name']} of Pod {name}")
        total += Quantity.parse(str(text)).milli_value()
    return total
