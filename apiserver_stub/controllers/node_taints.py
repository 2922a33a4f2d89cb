"""Node taint controller: taint nodes according to their conditions, so that schedulers avoid unhealthy nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_NODES = "core/nodes"
_EFFECT = "NoSchedule"
_MAX_PAUSE_SECONDS = 5.0
_BY_CONDITION = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
    ("DiskPressure", "True"): "disk-pressure",
    ("PIDPressure", "True"): "pid-pressure",
    ("NetworkUnavailable", "True"): "network-unavailable",
}
_UNSCHEDULABLE = "unschedulable"


class TaintKeys(Struct, frozen=True):
    """Keys of the taints that this controller sets."""

    by_condition: Mapping[tuple[str, str], str]
    """Type and status of a node condition → key."""
    unschedulable: str

    @classmethod
    def of(cls, identity: Identity) -> TaintKeys:
        by_condition = {condition: identity.label(name, "node") for condition, name in _BY_CONDITION.items()}
        return cls(by_condition, identity.label(_UNSCHEDULABLE, "node"))


async def run_node_taint_controller(store: Store, identity: Identity) -> None:
    """Run the node taint controller until cancelled."""
    await NodeTaints(store, identity).run()


class NodeTaints:
    """Controller of the taints of nodes.

    A node whose taints another client reverts is updated at increasing intervals.
    """

    def __init__(self, store: Store, identity: Identity, clock: Clock | None = None) -> None:
        self._store, self._keys = store, TaintKeys.of(identity)
        self._queue: WorkQueue[str] = WorkQueue("node-taints", clock, max_pause_seconds=_MAX_PAUSE_SECONDS)

    async def run(self) -> None:
        await run_controller(ChangeFeed(self._store, [_NODES], self), self._queue, self._process)

    def reset(self) -> None:
        """Do nothing: the controller has no state."""

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if desired_taints(objects.decode(record.data), self._keys) is not None:
            self._queue.add(record.key)

    def remove(self, collection: str, record: Record) -> None:
        """Do nothing: a deleted node needs no taints."""

    async def _process(self, key: str) -> None:
        written = False

        def decide(current: Record | None) -> Outcome:
            nonlocal written
            written = False
            if current is None:
                raise LookupError(key)
            node: Object = objects.decode(current.data)
            taints = desired_taints(node, self._keys)
            if taints is None:
                return Keep()
            node["spec"] = {**(node.get("spec") or {}), "taints": taints}
            if not taints:
                del node["spec"]["taints"]
            written = True
            return Put(objects.encode_for_store(node))

        try:
            await self._store.update(_NODES, key, decide)
        except LookupError:
            return  # Deleted since it was queued.
        if written:
            self._queue.slow_down(key)


def desired_taints(node: Object, keys: TaintKeys) -> list[Object] | None:
    """Return the taints that *node* should have, ``None`` when it has them.

    A node that has not reported a Ready condition yet counts as not ready.
    """
    spec = node.get("spec") or {}
    given: list[Object] = spec.get("taints") or []
    conditions = {item.get("type"): item.get("status") for item in objects.dig(node, ("status", "conditions")) or ()}
    conditions.setdefault("Ready", "False")
    managed = {*keys.by_condition.values(), keys.unschedulable}
    desired = [key for (kind, status), key in keys.by_condition.items() if conditions.get(kind) == status]
    if spec.get("unschedulable"):
        desired.append(keys.unschedulable)
    ours = [item["key"] for item in given if item.get("effect") == _EFFECT and item.get("key") in managed]
    if sorted(ours) == sorted(desired):
        return None
    kept = [
        item
        for item in given
        if item.get("effect") != _EFFECT or item.get("key") not in managed or item["key"] in desired
    ]
    return kept + [{"key": key, "effect": _EFFECT} for key in desired if key not in ours]
