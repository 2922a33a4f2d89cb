"""Keeps the taints of nodes as their conditions are, so that schedulers keep away from what is not well."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object
from apiserver_stub.store import Keep, Outcome, Put, Record, StoreUnavailable
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)
_NODES = "core/nodes"
_EFFECT = "NoSchedule"
_PAUSE_SECONDS = 0.2
_RETRY_SECONDS = 5.0
_BY_CONDITION = {
    ("Ready", "False"): "not-ready",
    ("Ready", "Unknown"): "unreachable",
    ("MemoryPressure", "True"): "memory-pressure",
    ("DiskPressure", "True"): "disk-pressure",
    ("PIDPressure", "True"): "pid-pressure",
    ("NetworkUnavailable", "True"): "network-unavailable",
}
_CORDONED = "unschedulable"


async def keep_taints(server: ApiServer) -> None:
    """Set taints after every change of a node; runs until cancelled."""
    while True:
        positions = server.positions(_NODES)
        late = None
        for record in server.store.collection(_NODES).select():
            if wanted_taints(objects.decode(record.data)) is None:
                continue
            try:
                await _set(server, record.key)
            except StoreUnavailable as error:
                late = _RETRY_SECONDS
                _log.warning("Taints were not set", extra={"node": record.key, "err": error})
        await server.changed_since(positions, timeout_seconds=late)
        await asyncio.sleep(_PAUSE_SECONDS)


def wanted_taints(node: Object) -> list[Object] | None:
    """Return the taints that *node* should have, ``None`` when it has them.

    A node that has not said yet how it is counts as not ready.
    """
    spec = node.get("spec") or {}
    given: list[Object] = spec.get("taints") or []
    conditions = {item.get("type"): item.get("status") for item in objects.dig(node, ("status", "conditions")) or ()}
    conditions.setdefault("Ready", "False")
    keys = {identity.current().label(name, "node") for name in (*_BY_CONDITION.values(), _CORDONED)}
    wanted = [name for (kind, status), name in _BY_CONDITION.items() if conditions.get(kind) == status]
    if spec.get("unschedulable"):
        wanted.append(_CORDONED)
    labels = [identity.current().label(name, "node") for name in wanted]
    ours = [item["key"] for item in given if item.get("effect") == _EFFECT and item.get("key") in keys]
    if sorted(ours) == sorted(labels):
        return None
    kept = [
        item for item in given if item.get("effect") != _EFFECT or item.get("key") not in keys or item["key"] in labels
    ]
    return kept + [{"key": key, "effect": _EFFECT} for key in labels if key not in ours]


async def _set(server: ApiServer, key: str) -> None:
    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise LookupError(key)
        node: Object = objects.decode(current.data)
        taints = wanted_taints(node)
        if taints is None:
            return Keep()
        node["spec"] = {**(node.get("spec") or {}), "taints": taints}
        if not taints:
            del node["spec"]["taints"]
        return Put(objects.encode_for_store(node))

    try:
        await server.store.update(_NODES, key, decide)
    except LookupError:
        return  # gone meanwhile
