"""Disruption controller: maintain the numbers of healthy pods and allowed disruptions of PodDisruptionBudgets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.views import Owner, OwnerView, PodView, View
from apiserver_stub.controllers.work_queue import UnprocessableObject
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.kinds.disruption import BUDGETS, set_condition
from apiserver_stub.validation.disruption_budgets import COUNTS
from nodeagent.base.gointeger import parse_digits

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.storage import Store

_PODS = "core/pods"
_STEP = 200
DELETION_TIMEOUT = timedelta(minutes=2)
"""Time for which an evicted pod counts as disrupted although its deletion has not started."""


class Disruption(OwnerController):
    """Status of disruption budgets.

    Percentages and ``maxUnavailable`` relate to the replicas that the controllers of the selected pods request, so they
    are correct while pods are missing. If a pod's controller has no scale, no disruption is allowed.
    """

    name, alias = "disruption-controller", "disruption"
    kind = "PodDisruptionBudget"
    owners = ("policy", "v1", "poddisruptionbudgets")
    dependents = (_PODS,)
    resources = ("poddisruptionbudgets.policy", "pods")
    views: ClassVar[Mapping[str, type[View]]] = {BUDGETS: OwnerView, _PODS: PodView}
    interval_seconds = 0.2

    async def sync(self, owner: Object) -> None:
        selected, now = await self._pods_of(owner), self.context.clock.wall()
        scales = Scales(self.context.verbs.store, self.context.registry)
        try:
            expected = expected_and_desired(owner.get("spec") or {}, selected, scales)
        except ScaleError as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self.events.record(owner, "Warning", "CalculateExpectedPodCountFailed", "", text)
            await self._fail(owner, str(error))
            raise

        def edit(obj: Object) -> None:
            obj["status"] = counted(obj, selected, expected, now)

        budget = await self.writer.change(self.owner, owner, edit)
        disrupted = (dig(budget, ("status", "disruptedPods")) or {}) if budget else {}
        ends = [_parse_time(text) + DELETION_TIMEOUT for text in disrupted.values()]
        if ends:
            key = objects.key_of(owner["metadata"]["namespace"], owner["metadata"]["name"])
            self.queue.add_after(key, max(self.interval_seconds, (min(ends) - now).total_seconds()))

    async def _fail(self, owner: Object, message: str) -> None:
        """Allow no disruptions, since the expected pods are unknown."""

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["disruptionsAllowed"] = 0
            set_condition(status, failure=message)

        await self.writer.change(self.owner, owner, edit)

    async def _pods_of(self, budget: Object) -> list[PodView]:
        """Return the pods that *budget* selects."""
        selector = self.selector_of(budget.get("spec") or {})
        if selector is None:
            return []
        index, found = self.context.index, []
        collection = self.context.verbs.store.collection(_PODS)
        for number, record in enumerate(collection.select(f"{budget['metadata']['namespace']}/")):
            view = index.get(_PODS, record.key)
            if view is not None and selector.matches(view.metadata.labels):
                found.append(view)
            if number % _STEP == _STEP - 1:
                await asyncio.sleep(0)
        return found

    def _dependent_changed(self, before: View | None, after: View | None) -> None:
        for view in (before, after):
            if view is not None:
                for key, selector in self._selectors.get(view.metadata.namespace, {}).items():
                    if selector.matches(view.metadata.labels):
                        self.queue.add(key)


class ScaleError(UnprocessableObject):
    """The number of pods that a controller requests is unknown."""


class Scales:
    """Numbers of replicas that the controllers of pods request."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store, self._registry = store, registry

    def expected(self, pods: Sequence[PodView]) -> int:
        """Return the sum of the replicas of the controllers of *pods*; pods without a controller do not count.

        :raises ScaleError: a controller does not exist or its kind has no scale.
        """
        replicas: dict[str, int] = {}
        for pod in pods:
            owner = pod.controller
            if owner is None or owner.uid in replicas:
                continue
            found = self._scale(pod.metadata.namespace, owner)
            if found is None:
                raise ScaleError(f'found no controllers for pod "{pod.metadata.name}"')
            replicas[found[0]] = found[1]
        return sum(replicas.values())

    def _scale(self, namespace: str, owner: Owner) -> tuple[str, int] | None:
        """Return the UID and the replicas of the topmost scalable controller, ``None`` if *owner* does not exist."""
        group, _, version = owner.api_version.rpartition("/")
        resource = self._registry.find_kind(group, version, owner.kind)
        if resource is None:
            return None
        if resource.scale is None:
            name = f"{resource.plural}.{group}" if group else resource.plural
            raise ScaleError(f"{name} does not implement the scale subresource")
        record = self._store.collection(resource.storage).get(resource.key(namespace, owner.name))
        if record is None:
            return None
        obj = resource.read(record)
        metadata = obj["metadata"]
        if metadata["uid"] != owner.uid:
            return None
        if (group, owner.kind) == ("apps", "ReplicaSet"):
            for item in metadata.get("ownerReferences") or ():
                if item.get("controller") and item["kind"] == "Deployment":
                    above = Owner(item["apiVersion"], item["kind"], item["name"], item["uid"], controller=True)
                    if found := self._scale(namespace, above):
                        return found
        return owner.uid, dig(obj, resource.scale.replicas) or 0


def expected_and_desired(spec: Object, pods: Sequence[PodView], scales: Scales) -> tuple[int, int]:
    """Return the numbers of expected pods and of desired healthy pods.

    :raises ScaleError: they relate to the scale of a controller that is unknown.
    """
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is not None:
        expected = scales.expected(pods)
        return expected, max(0, expected - _scaled(most, expected))
    if least is None:
        return 0, 0
    if isinstance(least, str):
        expected = scales.expected(pods)
        return expected, _scaled(least, expected)
    return len(pods), least


def counted(budget: Object, pods: Sequence[PodView], expected: tuple[int, int], now: datetime) -> Object:
    """Return the status of *budget*.

    :param pods: all pods that it selects.
    :param expected: numbers of expected pods and of desired healthy pods.
    """
    before = budget.get("status") or {}
    disrupted = _disrupted(before.get("disruptedPods") or {}, pods, now)
    healthy = sum(not pod.deleting and pod.metadata.name not in disrupted and pod.ready for pod in pods)
    total, desired = expected
    allowed = max(0, healthy - desired) if total > 0 else 0
    status: Object = {}
    if generation := budget["metadata"].get("generation"):
        status["observedGeneration"] = generation
    if disrupted:
        status["disruptedPods"] = disrupted
    status |= dict(zip(COUNTS, (allowed, healthy, desired, total), strict=True))
    status["conditions"] = before.get("conditions") or []
    set_condition(status)
    return status


def _scaled(value: Any, total: int) -> int:
    """Return the number *value*, or the percentage *value* of *total*, rounded up."""
    return -(-(parse_digits(value[:-1]) or 0) * total // 100) if isinstance(value, str) else int(value)


def _disrupted(disrupted: Mapping[str, str], pods: Sequence[PodView], now: datetime) -> dict[str, str]:
    """Return the evicted pods whose deletion has not started, with the times of their eviction."""
    waiting = {pod.metadata.name for pod in pods if not pod.deleting}
    return {name: at for name, at in disrupted.items() if name in waiting and _parse_time(at) + DELETION_TIMEOUT >= now}


def _parse_time(text: str) -> datetime:
    return objects.parse_time(text) or datetime.fromtimestamp(0, UTC)
