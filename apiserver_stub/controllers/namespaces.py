"""System namespaces and priority classes: created at startup, and recreated when deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.controllers.namespace_contents import fill_namespace
from apiserver_stub.defaulting.namespaces import name_label
from apiserver_stub.storage import StoreRejected, StoreUnavailable
from apiserver_stub.validation.priority_classes import SYSTEM_PRIORITIES
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

_DESCRIPTIONS = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}
_NAMESPACES = "core/namespaces"
_CHECK_SECONDS = 60.0


async def create_system_objects(store: Store, identity: Identity, ca_certificate: str) -> None:
    """Create the missing system namespaces and priority classes."""
    for name in _system_namespaces(identity):
        await provide_namespace(store, identity, ca_certificate, name)
    await _create_priority_classes(store, identity)


def _system_namespaces(identity: Identity) -> tuple[str, ...]:
    return "default", identity.system_namespace, "kube-public", identity.node_lease_namespace


async def _create_priority_classes(store: Store, identity: Identity) -> None:
    scheduling = identity.group("scheduling")
    for name, value in SYSTEM_PRIORITIES.items():
        system: Object = {
            "kind": "PriorityClass",
            "apiVersion": f"{scheduling}/v1",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": _DESCRIPTIONS[name],
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await ensure(store, f"{scheduling}/priorityclasses", system)


async def run_system_objects_controller(store: Store, identity: Identity, ca_certificate: str) -> None:
    """Recreate deleted system namespaces and priority classes once per minute; runs until cancelled."""
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        for name in _system_namespaces(identity):
            try:
                await provide_namespace(store, identity, ca_certificate, name)
            except (StoreUnavailable, StoreRejected) as error:
                _log.error("unable to create required kubernetes system Namespace %s: %s", name, error)
        try:
            await _create_priority_classes(store, identity)
        except (StoreUnavailable, StoreRejected) as error:
            _log.error("Failed to create required priority classes", extra={"err": error})


async def provide_namespace(store: Store, identity: Identity, ca_certificate: str, name: str) -> None:
    """Create namespace *name* and its default contents where they are missing."""
    namespace: Object = {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {name_label(identity): name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    await ensure(store, _NAMESPACES, namespace)
    await fill_namespace(store, identity, ca_certificate, name)
