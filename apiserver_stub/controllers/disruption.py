"""Disruption controller: maintain the numbers of healthy pods and allowed disruptions of PodDisruptionBudgets."""

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
"""Time for which an evicted pod counts as disrupted although its deletion has not started."""


async def run_disruption_controller(store: Store) -> None:
    """Run the disruption controller until cancelled."""
    await DisruptionBudgets(store).run()


class DisruptionBudgets:
    """Controller of the status of disruption budgets.

    Pods are read only in namespaces that have a budget, and cached with the fields that budgets depend on.
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
        """Update the status of the budget if it changes."""
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
        ends = [_parse_time(text) + DELETION_TIMEOUT for text in (status.get("disruptedPods") or {}).values()]
        if ends:
            self._queue.add_after(key, max(_PAUSE_SECONDS, (min(ends) - now).total_seconds()))

    async def _pods_of(self, namespace: str) -> list[Object]:
        """Return the summaries of all pods of *namespace*, decoding only pods that are not cached."""
        found = []
        for number, record in enumerate(self._store.collection(_PODS).select(f"{namespace}/")):
            cached = self._pods.get(record.key)
            if cached is None or cached[0] != record.revision:
                cached = self._pods[record.key] = record.revision, _summary(record)
            found.append(cached[1])
            if number % _STEP == _STEP - 1:
                await asyncio.sleep(0)
        return found


def _selector(budget: Object) -> LabelSelector | None:
    selector = dig(budget, ("spec", "selector"))
    return None if selector is None else read_selector(selector)


def _selects(selector: LabelSelector | None, pod: Object) -> bool:
    return selector is not None and selector.matches(pod["metadata"].get("labels"))


def _summary(record: Record) -> Object:
    """Return the fields of a pod that budgets depend on."""
    pod = objects.decode(record.data)
    metadata, status = pod["metadata"], pod.get("status") or {}
    kept = {name: metadata[name] for name in ("name", "labels", "deletionTimestamp") if name in metadata}
    ready = [{"type": "Ready", "status": "True"}] if is_healthy(pod) else []
    return {"metadata": kept, "status": {"phase": status.get("phase"), "conditions": ready}}


def counted(budget: Object, pods: Sequence[Object], now: datetime) -> Object:
    """Return the status of *budget*; *pods* are all pods that it selects.

    Percentages and ``maxUnavailable`` relate to the number of existing pods that have not terminated, since the number
    of replicas that an owner requests is not evaluated here.
    """
    spec, before = budget.get("spec") or {}, budget.get("status") or {}
    disrupted = _disrupted(before.get("disruptedPods") or {}, pods, now)
    healthy = sum(
        "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted and is_healthy(pod)
        for pod in pods
    )
    expected, desired = _expected_and_desired(spec, pods)
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


def _expected_and_desired(spec: Object, pods: Sequence[Object]) -> tuple[int, int]:
    """Return the numbers of expected pods and of desired healthy pods."""
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    there = sum(dig(pod, ("status", "phase")) not in _FINISHED for pod in pods)
    if most is not None:
        return there, max(0, there - _scaled(most, there))
    if least is None:
        return 0, 0
    return (there, _scaled(least, there)) if isinstance(least, str) else (len(pods), least)


def _scaled(value: Any, total: int) -> int:
    """Return the number *value*, or the percentage *value* of *total*, rounded up."""
    return -(-int(value[:-1]) * total // 100) if isinstance(value, str) else int(value)


def _disrupted(disrupted: Mapping[str, str], pods: Sequence[Object], now: datetime) -> dict[str, str]:
    """Return the evicted pods whose deletion has not started, with the times of their eviction."""
    waiting = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    return {name: at for name, at in disrupted.items() if name in waiting and _parse_time(at) + DELETION_TIMEOUT >= now}


def _parse_time(text: str) -> datetime:
    return objects.parse_time(text) or datetime.fromtimestamp(0, UTC)


def _kept_by_other(budget: Object) -> bool:
    """Return whether a kube-controller-manager maintains the status; two writers would conflict."""
    return any(
        entry.get("manager") == _OTHER_KEEPER and entry.get("subresource") == "status"
        for entry in budget["metadata"].get("managedFields") or ()
    )
