"""Keeps the status of disruption budgets: how many of their pods are well, and how many may be missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from apiserver_stub import objects
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.disruption import BUDGETS, COUNTS, covers, is_healthy, set_condition
from apiserver_stub.store import Keep, Outcome, Put, Record, StoreUnavailable

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)
_PODS = "core/pods"
_PAUSE_SECONDS = 0.2
_RETRY_SECONDS = 5.0
_FINISHED = ("Succeeded", "Failed")
_OTHER_KEEPER = "kube-controller-manager"
DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod that does not begin to end counts as missing."""


class _Gone(Exception):
    """The budget was deleted meanwhile."""


async def keep_budgets(server: ApiServer) -> None:
    """Count anew after changes, all budgets at most a few times a second; runs until cancelled.

    Without any budget it waits for one and costs nothing.
    """
    if server.registry.find("policy", "v1", "poddisruptionbudgets") is None:
        return
    while True:
        positions = server.positions(BUDGETS, _PODS)
        keys = [record.key for record in server.store.collection(BUDGETS).view()]
        if not keys:
            del positions[_PODS]
        late = None
        try:
            late = await _count_all(server, keys)
        except StoreUnavailable as error:
            late = _RETRY_SECONDS
            _log.warning("Disruption budgets were not counted", extra={"err": error})
        await server.changed_since(positions, timeout_seconds=late)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _count_all(server: ApiServer, keys: Sequence[str]) -> float | None:
    """Count every budget and return after how many seconds one is due again without a change."""
    pods: dict[str, list[Object]] = {}
    waits = []
    for key in keys:
        namespace = key.partition("/")[0]
        if namespace not in pods:
            found = server.store.collection(_PODS).view(f"{namespace}/")
            pods[namespace] = [objects.decode(record.data) for record in found]
        now = datetime.now(UTC)
        status = await _count(server, key, pods[namespace], now)
        ends = [_moment(text) + DELETION_TIMEOUT for text in (status.get("disruptedPods") or {}).values()]
        waits += [max(0.0, (end - now).total_seconds()) for end in ends]
    return min(waits, default=None)


async def _count(server: ApiServer, key: str, pods: Sequence[Object], now: datetime) -> Object:
    """Write the status of the budget at *key* if it changes, and return it."""

    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise _Gone
        budget: Object = objects.decode(current.data)
        status = counted(budget, [pod for pod in pods if covers(budget, pod)], now)
        if status == budget.get("status") or _kept_by_other(budget):
            return Keep()
        return Put(objects.encode_for_store({**budget, "status": status}))

    if server.store.collection(BUDGETS).get(key) is None:
        return {}
    try:
        record = await server.store.update(BUDGETS, key, decide)
    except _Gone:
        return {}
    found: Object = objects.decode(record.data).get("status") or {}
    return found


def counted(budget: Object, pods: Sequence[Object], now: datetime) -> Object:
    """Return the status of *budget* with these *pods*, all that it covers.

    Percentages, and how many may be unavailable, relate to the pods that are there and have not finished: nothing
    here knows how many an owner wants.
    """
    spec, before = budget.get("spec") or {}, budget.get("status") or {}
    disrupted = _disrupted(before.get("disruptedPods") or {}, pods, now)
    healthy = sum(
        "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted and is_healthy(pod)
        for pod in pods
    )
    expected, desired = _wanted(spec, pods)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status: Object = {}
    if generation := budget["metadata"].get("generation"):
        status["observedGeneration"] = generation
    if disrupted:
        status["disruptedPods"] = disrupted
    status |= dict(zip(COUNTS, (allowed, healthy, desired, expected), strict=True))
    status["conditions"] = before.get("conditions") or []
    set_condition(status)
    return status


def _wanted(spec: Object, pods: Sequence[Object]) -> tuple[int, int]:
    """Return how many pods there should be, and how many of them healthy."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    there = sum(dig(pod, ("status", "phase")) not in _FINISHED for pod in pods)
    if most is not None:
        return there, max(0, there - _scaled(most, there))
    if least is None:
        return 0, 0
    return (there, _scaled(least, there)) if isinstance(least, str) else (len(pods), least)


def _scaled(value: Any, total: int) -> int:
    """Return a number, or the percentage of *total* rounded up."""
    return -(-int(value[:-1]) * total // 100) if isinstance(value, str) else int(value)


def _disrupted(given: Mapping[str, str], pods: Sequence[Object], now: datetime) -> dict[str, str]:
    """Return which evicted pods are still to begin their end, with the time of their eviction."""
    waiting = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    return {name: at for name, at in given.items() if name in waiting and _moment(at) + DELETION_TIMEOUT >= now}


def _moment(text: str) -> datetime:
    return objects.parse_time(text) or datetime.fromtimestamp(0, UTC)


def _kept_by_other(budget: Object) -> bool:
    """Return whether a controller manager, which knows owners and what they want, keeps the status: two would fight."""
    return any(
        entry.get("manager") == _OTHER_KEEPER and entry.get("subresource") == "status"
        for entry in budget["metadata"].get("managedFields") or ()
    )
