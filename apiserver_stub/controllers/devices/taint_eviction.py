"""Device taint eviction controller: deletes pods that do not tolerate a NoExecute taint of their allocated devices.

While a kube-controller-manager holds its lease, it is inactive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.device_versions import structured
from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.devices.eviction_status import EVICTING, NO_EFFECT, eviction_condition
from apiserver_stub.controllers.devices.writes import DeviceNames
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR, is_held
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.object_writer import ObjectWriter
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.controllers.workloads.conditions import with_condition, without
from apiserver_stub.kinds.device_taint_rules import VERSION
from apiserver_stub.scheduling.device_pools import pools_by_name
from apiserver_stub.scheduling.device_taints import NO_EXECUTE, selects, tolerates
from apiserver_stub.storage import Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds import Registry
    from apiserver_stub.verbs.context import VerbContext

NAME = "device-taint-eviction-controller"
_PODS = "core/pods"
_STATUS_SECONDS = 10.0

Key = tuple[Literal["claim", "rule"], str]


class DeviceTaintEviction:
    """Controller of the pods with tainted devices.

    :param event_ttl_seconds: time after which events are deleted.
    """

    def __init__(
        self,
        context: VerbContext,
        registry: Registry,
        identity: Identity,
        event_ttl_seconds: int | None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._identity, self._clock = context.store, identity, clock or SystemClock()
        self._names = DeviceNames.of(identity)
        self._writer = ObjectWriter(context, registry, identity, NAME)
        self._pods = self._writer.resource("", "v1", "pods")
        self._rules = registry.find(self._names.group, VERSION, "devicetaintrules")
        self._events = EventRecorder(context.store, NAME, event_ttl_seconds, identity, clock)
        self._queue: WorkQueue[Key] = WorkQueue("device-taints", clock)
        self._objects: dict[str, dict[str, Object]] = {self._names.slices: {}, self._names.claims: {}}
        if self._rules is not None:
            self._objects[self._names.rules] = {}
        self._evicted: dict[str, int] = {}
        """Number of evicted pods by UID of the rule."""

    async def run(self) -> None:
        """Run until cancelled."""
        feed = ChangeFeed(self._store, list(self._objects), self)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(run_controller(feed, self._queue, self._process))

    # Changes

    def reset(self) -> None:
        for known in self._objects.values():
            known.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        obj = structured(objects.decode(record.data))
        self._objects[collection][record.key] = obj
        if collection == self._names.claims:
            if dig(obj, ("status", "allocation")) is not None:
                self._queue.add(("claim", record.key))
        elif collection == self._names.rules:
            self._queue.add(("rule", record.key))
            if obj["spec"]["taint"].get("effect") == NO_EXECUTE:
                self._queue_claims()
        elif any(dig(item, ("taints",)) for item in dig(obj, ("spec", "devices")) or ()):
            self._queue_claims()

    def remove(self, collection: str, record: Record) -> None:
        removed = self._objects[collection].pop(record.key, None)
        if collection == self._names.rules and removed is not None:
            self._evicted.pop(removed["metadata"]["uid"], None)

    def _queue_claims(self) -> None:
        for key, claim in self._objects[self._names.claims].items():
            if dig(claim, ("status", "allocation")) is not None:
                self._queue.add(("claim", key))

    # Claims

    async def _process(self, key: Key) -> None:
        if is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity):
            self._queue.add_after(key, HELD_FOR.total_seconds())
            return
        kind, name = key
        await (self._process_claim(name) if kind == "claim" else self._process_rule(name))

    async def _process_claim(self, key: str) -> None:
        claim = self._objects[self._names.claims].get(key)
        due, rules = self._eviction(claim) if claim is not None else (None, [])
        if claim is None or due is None:
            return
        for rule in rules:
            self._queue.add(("rule", rule["metadata"]["name"]))
        left = (due - self._clock.wall()).total_seconds()
        if left > 0:
            self._queue.add_after(("claim", key), left)
            return
        for pod in self._users(claim):
            await self._evict(pod)
            for rule in rules:
                uid = rule["metadata"]["uid"]
                self._evicted[uid] = self._evicted.get(uid, 0) + 1

    def _eviction(self, claim: Object) -> tuple[datetime | None, list[Object]]:
        """Return the time at which the pods of *claim* are to be deleted, and the rules that require it."""
        due: list[datetime] = []
        rules: list[Object] = []
        for result in dig(claim, ("status", "allocation", "devices", "results")) or ():
            for taint, rule in self._taints(result):
                time = _evicted_at(taint, result.get("tolerations") or ())
                if time is not None:
                    due.append(time)
                    rules += [rule] if rule is not None and rule not in rules else []
        return min(due, default=None), rules

    def _taints(self, result: Object) -> Iterator[tuple[Object, Object | None]]:
        """Yield the NoExecute taints of an allocated device, with the rule that adds it."""
        driver, pool, device = (result.get(name) or "" for name in ("driver", "pool", "device"))
        pools = pools_by_name(self._objects[self._names.slices].values())
        found = pools[driver, pool].all_devices.get(device) if (driver, pool) in pools else None
        for taint in found.taints if found is not None else ():
            if taint.get("effect") == NO_EXECUTE:
                yield taint, None
        for rule in self._objects.get(self._names.rules, {}).values():
            taint = rule["spec"]["taint"]
            if taint.get("effect") == NO_EXECUTE and selects(rule, driver, pool, device):
                yield taint, rule

    def _users(self, claim: Object) -> Iterator[Object]:
        """Yield the pods that use *claim* and are not deleted yet."""
        namespace = claim["metadata"]["namespace"]
        for user in dig(claim, ("status", "reservedFor")) or ():
            record = self._store.collection(_PODS).get(objects.key_of(namespace, user.get("name") or ""))
            pod = None if record is None or user.get("resource") != "pods" else objects.decode(record.data)
            if pod is None or pod["metadata"]["uid"] != user.get("uid") or "deletionTimestamp" in pod["metadata"]:
                continue
            yield pod

    async def _evict(self, pod: Object) -> None:
        self._events.record(pod, "Normal", "DeviceTaintManagerEviction", "", "Marking for deletion")
        new = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": objects.format_time(self._clock.wall()),
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
        }

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["conditions"] = with_condition(status.get("conditions"), new)

        await self._writer.change(self._pods, pod, edit)
        await self._writer.delete(self._pods, pod["metadata"])

    # Rules

    async def _process_rule(self, name: str) -> None:
        rule = self._objects[self._names.rules].get(name)
        if rule is None or self._rules is None:
            return
        before: Object = next(
            (item for item in dig(rule, ("status", "conditions")) or () if item.get("type") == EVICTING), {}
        )
        since = parse_time(before.get("lastTransitionTime"))
        if since is not None and before.get("observedGeneration") == rule["metadata"].get("generation"):
            if before.get("reason") == NO_EFFECT:
                return  # The message announces that it is not updated.
            left = _STATUS_SECONDS - (self._clock.wall() - since).total_seconds()
            if left > 0:
                self._queue.add_after(("rule", name), left)
                return
        new = self._condition(rule)
        if {**before, "lastTransitionTime": ""} == {**new, "lastTransitionTime": ""}:
            return
        new["lastTransitionTime"] = objects.format_time(self._clock.wall())

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["conditions"] = [*without(status.get("conditions"), EVICTING), new]

        await self._writer.change(self._rules, rule, edit)

    def _condition(self, rule: Object) -> Object:
        """Return the condition of *rule*; one without effect is evaluated as if it evicted pods."""
        spec = rule["spec"]
        supposed = {**rule, "spec": {**spec, "taint": {**spec["taint"], "effect": NO_EXECUTE}}}
        pending: dict[str, str] = {}
        allocated = 0
        for claim in self._objects[self._names.claims].values():
            results = dig(claim, ("status", "allocation", "devices", "results")) or ()
            selected = [item for item in results if selects(supposed, item["driver"], item["pool"], item["device"])]
            allocated += len(selected)
            taint = supposed["spec"]["taint"]
            if any(_evicted_at(taint, item.get("tolerations") or ()) is not None for item in selected):
                pending |= {pod["metadata"]["uid"]: pod["metadata"]["namespace"] for pod in self._users(claim)}
        published = sum(
            selects(supposed, *device.id)
            for pool in pools_by_name(self._objects[self._names.slices].values()).values()
            for device in pool.all_devices.values()
        )
        evicted = self._evicted.get(rule["metadata"]["uid"], 0)
        return eviction_condition(rule, pending, evicted, published, allocated)


def _evicted_at(taint: Object, tolerations: list[Object] | tuple[()]) -> datetime | None:
    """Return the time at which a pod is deleted because of *taint*, ``None`` if it tolerates it."""
    added = parse_time(taint.get("timeAdded"))
    if added is None:
        return None
    matching = [item for item in tolerations if item.get("effect") == NO_EXECUTE and tolerates(item, taint)]
    if any(item.get("tolerationSeconds") is None for item in matching):
        return None
    seconds = min((max(0, item["tolerationSeconds"]) for item in matching), default=0)
    return added + timedelta(seconds=seconds)
