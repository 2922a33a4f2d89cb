"""System namespaces and priority classes: created at startup, and recreated when deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.controllers.namespace_contents import fill_namespace
from apiserver_stub.storage import StoreRejected, StoreUnavailable
from apiserver_stub.validation.priority_classes import SYSTEM_PRIORITIES
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

SYSTEM_NAMESPACES = (
    "default",
    identity.current().system_namespace,
    "kube-public",
    identity.current().node_lease_namespace,
)
_DESCRIPTIONS = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}
_NAMESPACES = "core/namespaces"
_CHECK_SECONDS = 60.0


async def create_system_objects(store: Store, ca_certificate: str) -> None:
    """Create the missing system namespaces and priority classes."""
    for name in SYSTEM_NAMESPACES:
        await provide_namespace(store, ca_certificate, name)
    for name, value in SYSTEM_PRIORITIES.items():
        system: Object = {
            "kind": "PriorityClass",
            "apiVersion": identity.current().group("scheduling") + "/v1",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": _DESCRIPTIONS[name],
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await ensure(store, identity.current().group("scheduling") + "/priorityclasses", system)


async def run_system_objects_controller(store: Store, ca_certificate: str) -> None:
    """Recreate deleted system namespaces and priority classes once per minute; runs until cancelled."""
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        try:
            await create_system_objects(store, ca_certificate)
        except (StoreUnavailable, StoreRejected) as error:
            _log.warning("Failed to create required kubernetes system objects", extra={"err": error})


async def provide_namespace(store: Store, ca_certificate: str, name: str) -> None:
    """Create namespace *name* and its default contents where they are missing."""
    namespace: Object = {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {identity.current().label("metadata.name"): name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    await ensure(store, _NAMESPACES, namespace)
    await fill_namespace(store, ca_certificate, name)
