"""Node taint controller: taint nodes according to their conditions, so that schedulers avoid unhealthy nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base import identity
from nodeagent.base.aio import Clock

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
_CORDONED = "unschedulable"


async def run_node_taint_controller(store: Store) -> None:
    """Run the node taint controller until cancelled."""
    await NodeTaints(store).run()


class NodeTaints:
    """Controller of the taints of nodes.

    A node whose taints another client reverts is updated at increasing intervals.
    """

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._queue: WorkQueue[str] = WorkQueue("node-taints", clock, max_pause_seconds=_MAX_PAUSE_SECONDS)

    async def run(self) -> None:
        await run_controller(ChangeFeed(self._store, [_NODES], self), self._queue, self._process)

    def reset(self) -> None:
        """Do nothing: the controller has no state."""

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if desired_taints(objects.decode(record.data)) is not None:
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
            taints = desired_taints(node)
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


def desired_taints(node: Object) -> list[Object] | None:
    """Return the taints that *node* should have, ``None`` when it has them.

    A node that has not reported a Ready condition yet counts as not ready.
    """
    spec = node.get("spec") or {}
    given: list[Object] = spec.get("taints") or []
    conditions = {item.get("type"): item.get("status") for item in objects.dig(node, ("status", "conditions")) or ()}
    conditions.setdefault("Ready", "False")
    keys = {identity.current().label(name, "node") for name in (*_BY_CONDITION.values(), _CORDONED)}
    desired = [name for (kind, status), name in _BY_CONDITION.items() if conditions.get(kind) == status]
    if spec.get("unschedulable"):
        desired.append(_CORDONED)
    labels = [identity.current().label(name, "node") for name in desired]
    ours = [item["key"] for item in given if item.get("effect") == _EFFECT and item.get("key") in keys]
    if sorted(ours) == sorted(labels):
        return None
    kept = [
        item for item in given if item.get("effect") != _EFFECT or item.get("key") not in keys or item["key"] in labels
    ]
    return kept + [{"key": key, "effect": _EFFECT} for key in labels if key not in ours]
