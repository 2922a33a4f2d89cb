"""Disruption controller: maintain how many pods of a budget are healthy, and how many may be disrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.kinds.disruption import BUDGETS, is_healthy, set_condition
from apiserver_stub.storage import Keep, Outcome, Put, Record
from apiserver_stub.validation.disruption_budgets import COUNTS
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.selectors import LabelSelector

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_PODS = "core/pods"
_PAUSE_SECONDS = 0.2
_STEP = 200
_FINISHED = ("Succeeded", "Failed")
_OTHER_KEEPER = "kube-controller-manager"
DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod that does not begin to end counts as missing."""


async def keep_budgets(store: Store) -> None:
    """Write the status of every budget after changes of its pods; runs until cancelled."""
    await DisruptionBudgets(store).run()


class DisruptionBudgets:
    """Controller of the status of disruption budgets.

    Pods are read only in namespaces that have a budget; of those it keeps what budgets need to know.
    """

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store, self._clock = store, clock or SystemClock()
        self._queue: WorkQueue[str] = WorkQueue("disruption-budgets", clock, interval_seconds=_PAUSE_SECONDS)
        self._selectors: dict[str, dict[str, LabelSelector | None]] = {}
        self._pods: dict[str, tuple[int, Object]] = {}

    async def run(self) -> None:
        await run_controller(ChangeFeed(self._store, [BUDGETS, _PODS], self), self._queue, self._process)

    def reset(self) -> None:
        self._selectors.clear()
        self._pods.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        namespace = record.key.partition("/")[0]
        if collection == BUDGETS:
            self._selectors.setdefault(namespace, {})[record.key] = _selector(objects.decode(record.data))
            self._queue.add(record.key)
        elif namespace in self._selectors:
            before = self._pods.get(record.key)
            if before is None and previous is not None:
                before = previous.revision, _summary(previous)
            self._pods[record.key] = record.revision, _summary(record)
            if before is None or before[1] != self._pods[record.key][1]:
                self._queue_budgets_of(namespace, self._pods[record.key][1])
                if before is not None:
                    self._queue_budgets_of(namespace, before[1])

    def remove(self, collection: str, record: Record) -> None:
        namespace = record.key.partition("/")[0]
        if collection == BUDGETS:
            selectors = self._selectors.get(namespace, {})
            selectors.pop(record.key, None)
            if not selectors:
                self._selectors.pop(namespace, None)
                for key in [key for key in self._pods if key.startswith(f"{namespace}/")]:
                    del self._pods[key]
        elif namespace in self._selectors:
            self._pods.pop(record.key, None)
            self._queue_budgets_of(namespace, _summary(record))

    def _queue_budgets_of(self, namespace: str, pod: Object) -> None:
        for key, selector in self._selectors[namespace].items():
            if _selects(selector, pod):
                self._queue.add(key)

    async def _process(self, key: str) -> None:
        """Write the status of the budget if it changes."""
        pods = await self._pods_of(key.partition("/")[0])
        now = self._clock.wall()
        status: Object = {}

        def decide(current: Record | None) -> Outcome:
            nonlocal status
            if current is None:
                raise LookupError(key)
            budget: Object = objects.decode(current.data)
            selector = _selector(budget)
            status = counted(budget, [pod for pod in pods if _selects(selector, pod)], now)
            if status == budget.get("status") or _kept_by_other(budget):
                return Keep()
            return Put(objects.encode_for_store({**budget, "status": status}))

        try:
            await self._store.update(BUDGETS, key, decide)
        except LookupError:
            return  # Deleted since it was queued.
        ends = [_moment(text) + DELETION_TIMEOUT for text in (status.get("disruptedPods") or {}).values()]
        if ends:
            self._queue.add_after(key, max(_PAUSE_SECONDS, (min(ends) - now).total_seconds()))

    async def _pods_of(self, namespace: str) -> list[Object]:
        """Return the summaries of all pods of *namespace*, reading only those that are not known yet."""
        found = []
        for number, record in enumerate(self._store.collection(_PODS).select(f"{namespace}/")):
            known = self._pods.get(record.key)
            if known is None or known[0] != record.revision:
                known = self._pods[record.key] = record.revision, _summary(record)
            found.append(known[1])
            if number % _STEP == _STEP - 1:
                await asyncio.sleep(0)
        return found


def _selector(budget: Object) -> LabelSelector | None:
    selector = dig(budget, ("spec", "selector"))
    return None if selector is None else read_selector(selector)


def _selects(selector: LabelSelector | None, pod: Object) -> bool:
    return selector is not None and selector.matches(pod["metadata"].get("labels"))


def _summary(record: Record) -> Object:
    """Return what budgets need to know about a pod."""
    pod = objects.decode(record.data)
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {name: metadata[name] for name in ("name", "labels", "deletionTimestamp") if name in metadata}
    ready = [{"type": "Ready", "status": "True"}] if is_healthy(pod) else []
    return {"metadata": kept, "status": {"phase": status.get("phase"), "conditions": ready}}


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
