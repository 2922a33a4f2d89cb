"""Namespaces: the system's own exist, each has a default account and the CA, and a deleted one is emptied."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object
from apiserver_stub.resources.scheduling import SYSTEM_PRIORITIES
from apiserver_stub.status import ApiError
from apiserver_stub.store import Keep, Outcome, Put, Record, Remove, StoreRefused, StoreUnavailable
from apiserver_stub.verbs.delete import remove
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)

SYSTEM_NAMESPACES = (
    "default",
    identity.current().system_namespace,
    "kube-public",
    identity.current().node_lease_namespace,
)
_OPTIONS: Object = {"gracePeriodSeconds": None, "preconditions": {}, "dryRun": False}
_NAMESPACES = "core/namespaces"
_RETRY_SECONDS = 1.0
_CHECK_SECONDS = 60.0


async def create_system_objects(server: ApiServer) -> None:
    """Create the namespaces and priority classes that are always there, where they are missing."""
    for name in SYSTEM_NAMESPACES:
        await _ensure_namespace(server, name)
    for record in server.store.collection(_NAMESPACES).select():
        await fill_namespace(server, record.key)
    for name, value in SYSTEM_PRIORITIES.items():
        system: Object = {
            "kind": "PriorityClass",
            "apiVersion": identity.current().group("scheduling") + "/v1",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await ensure(server, identity.current().group("scheduling") + "/priorityclasses", system)


async def keep_system_objects(server: ApiServer) -> None:
    """Create again what somebody has deleted of them, once a minute until cancelled: nodes cannot do without."""
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        try:
            await create_system_objects(server)
        except (StoreUnavailable, StoreRefused) as error:
            _log.warning("Cannot look after the system's own objects", extra={"err": error})


async def provide_namespace(server: ApiServer, name: str) -> None:
    """Create namespace *name* with what is in every one, unless it is there."""
    await _ensure_namespace(server, name)
    await fill_namespace(server, name)


async def _ensure_namespace(server: ApiServer, name: str) -> None:
    namespace: Object = {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {identity.current().label("metadata.name"): name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    await ensure(server, _NAMESPACES, namespace)


async def fill_namespace(server: ApiServer, name: str) -> None:
    """Give namespace *name* its default account and the certificate by which pods know this server."""
    record = server.store.collection(_NAMESPACES).get(name)
    if record is None or "deletionTimestamp" in objects.decode(record.data)["metadata"]:
        return
    account: Object = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": name}}
    await ensure(server, "core/serviceaccounts", account)
    authority: Object = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "kube-root-ca.crt", "namespace": name},
        "data": {"ca.crt": server.ca_certificate},
    }
    await ensure(server, "core/configmaps", authority)


async def ensure(server: ApiServer, collection: str, obj: Object) -> None:
    """Create *obj* unless there is one of its name."""
    metadata = obj["metadata"]
    key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
    if server.store.collection(collection).get(key) is not None:
        return
    metadata |= {"uid": objects.new_uid(), "creationTimestamp": objects.now()}

    def decide(current: Record | None) -> Outcome:
        return Put(objects.encode_for_store(obj)) if current is None else Keep()

    await server.store.update(collection, key, decide)


async def empty_namespaces(server: ApiServer) -> None:
    """Delete what is in deleted namespaces, and the namespaces once nothing is left; runs until cancelled.

    Pods on a node go by the graceful protocol, so a namespace may take as long as its slowest pod.
    """
    while True:
        positions = server.positions(_NAMESPACES)
        left = await _sweep(server)
        await server.changed_since(positions, timeout_seconds=_RETRY_SECONDS if left else None)


async def _sweep(server: ApiServer) -> bool:
    """Work on every terminating namespace once; returns whether one is left."""
    left = False
    for record in server.store.collection(_NAMESPACES).select():
        if b'"deletionTimestamp"' not in record.data:
            continue
        if "deletionTimestamp" not in objects.decode(record.data)["metadata"]:
            continue
        try:
            if await _empty(server, record.key):
                await _finalize(server, record.key)
            else:
                left = True
        except (ApiError, StoreUnavailable) as error:
            left = True
            _log.warning("Namespace is not empty yet", extra={"namespace": record.key, "err": error})
    return left


async def _empty(server: ApiServer, namespace: str) -> bool:
    """Delete the contents of *namespace* and return whether nothing is left."""
    empty, seen = True, set()
    for resource in server.registry:
        if not resource.namespaced or resource.storage in seen or "delete" not in resource.verbs:
            continue
        seen.add(resource.storage)
        for record in server.store.collection(resource.storage).select(f"{namespace}/"):
            try:
                await remove(server, resource, record.key, record.key.rpartition("/")[2], dict(_OPTIONS))
            except ApiError as error:
                if error.code != 404:
                    raise
        if server.store.collection(resource.storage).select(f"{namespace}/"):
            empty = False
    return empty


async def _finalize(server: ApiServer, namespace: str) -> None:
    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise ApiError(404, "NotFound", f'namespaces "{namespace}" not found')
        obj: Object = objects.decode(current.data)
        spec = obj.setdefault("spec", {})  # protobuf, as a shared store may have it, leaves out what is empty
        before = spec.get("finalizers") or []
        finalizers = spec["finalizers"] = [name for name in before if name != "kubernetes"]
        if not finalizers and not obj["metadata"].get("finalizers"):
            return Remove(objects.encode_for_store(obj))
        return Keep() if finalizers == before else Put(objects.encode_for_store(obj))

    try:
        await server.store.update(_NAMESPACES, namespace, decide)
    except ApiError as error:
        if error.code != 404:
            raise
