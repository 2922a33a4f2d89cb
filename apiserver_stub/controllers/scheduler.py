"""The scheduler of a cluster of one: a pod without a node goes to the single ready node.

A machine with one agent has no scheduler, and nobody wants to run one to place pods where there is no choice. With two
ready nodes or more nothing is bound, so a real scheduler beside this server is never raced (and
``--bind-pods-to-single-node=false`` turns this off altogether).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.nodes import is_ready
from apiserver_stub.resources.pod_binding import bound
from apiserver_stub.store import Keep, Outcome, Put, Record, StoreUnavailable

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)

_PODS, _NODES = "core/pods", "core/nodes"
_SCHEDULER = "default-scheduler"


async def bind_to_single_node(server: ApiServer) -> None:
    """Bind waiting pods whenever pods or nodes change; runs until cancelled."""
    while True:
        position = server.positions(_PODS, _NODES)
        node = single_ready_node(server)
        if node is not None:
            for record in server.store.collection(_PODS).select():
                if b'"nodeName":' not in record.data and waits(objects.decode(record.data)):
                    await _bind(server, record.key, node)
        await server.changed_since(position)


def single_ready_node(server: ApiServer) -> str | None:
    """Return the name of the one ready and schedulable node, ``None`` when there is none or a choice."""
    nodes = [objects.decode(record.data) for record in server.store.collection(_NODES).select()]
    ready = [node for node in nodes if is_ready(node) and not dig(node, ("spec", "unschedulable"))]
    return ready[0]["metadata"]["name"] if len(ready) == 1 else None


def waits(pod: Object) -> bool:
    """Return whether *pod* waits for this scheduler."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and spec.get("schedulerName") == _SCHEDULER
        and not spec.get("schedulingGates")
        and "deletionTimestamp" not in pod["metadata"]
    )


async def _bind(server: ApiServer, key: str, node: str) -> None:
    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise LookupError(key)
        pod: Object = objects.decode(current.data)
        return Put(objects.encode_for_store(bound(pod, node))) if waits(pod) else Keep()

    try:
        await server.store.update(_PODS, key, decide)
    except LookupError:
        return  # deleted meanwhile
    except StoreUnavailable as error:
        _log.warning("Pod was not bound", extra={"pod": key, "err": error})
