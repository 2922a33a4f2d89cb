"""Lets deleted volumes and claims go once nobody uses them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.admission.storage import PROTECTION
from apiserver_stub.objects import Object
from apiserver_stub.store import Keep, Outcome, Put, Record, Remove, StoreUnavailable

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)
_VOLUMES, _CLAIMS, _PODS = "core/persistentvolumes", "core/persistentvolumeclaims", "core/pods"
_FINISHED = ("Succeeded", "Failed")
_PAUSE_SECONDS = 0.2
_RETRY_SECONDS = 5.0


async def release_volumes(server: ApiServer) -> None:
    """Take the finalizer from what is deleted and not used, after every change; runs until cancelled."""
    while True:
        positions = server.positions(_VOLUMES, _CLAIMS)
        waiting = [(name, record) for name in (_VOLUMES, _CLAIMS) for record in _deleted(server, name)]
        if any(name == _CLAIMS for name, _ in waiting):
            positions |= server.positions(_PODS)
        late = None
        for name, record in waiting:
            try:
                await _release(server, name, record)
            except StoreUnavailable as error:
                late = _RETRY_SECONDS
                _log.warning("Volume was not released", extra={"key": record.key, "err": error})
        await server.changed_since(positions, timeout_seconds=late)
        await asyncio.sleep(_PAUSE_SECONDS)


def _deleted(server: ApiServer, collection: str) -> list[Record]:
    records = server.store.collection(collection).select()
    return [record for record in records if b'"deletionTimestamp"' in record.data]


async def _release(server: ApiServer, collection: str, record: Record) -> None:
    finalizer = PROTECTION[collection.partition("/")[2]]

    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise LookupError(record.key)
        obj: Object = objects.decode(current.data)
        metadata = obj["metadata"]
        given = metadata.get("finalizers") or []
        used = _is_bound(obj) if collection == _VOLUMES else _is_used(server, metadata)
        if "deletionTimestamp" not in metadata or finalizer not in given or used:
            return Keep()
        metadata["finalizers"] = [name for name in given if name != finalizer]
        data = objects.encode_for_store(obj)
        return Put(data) if metadata["finalizers"] else Remove(data)

    try:
        await server.store.update(collection, record.key, decide)
    except LookupError:
        return  # gone meanwhile


def _is_bound(volume: Object) -> bool:
    return bool(objects.dig(volume, ("status", "phase")) == "Bound")


def _is_used(server: ApiServer, claim: Object) -> bool:
    """Return whether a pod that has not ended uses the claim."""
    for record in server.store.collection(_PODS).view(f"{claim['namespace']}/"):
        pod = objects.decode(record.data)
        if objects.dig(pod, ("status", "phase")) in _FINISHED or not pod["spec"].get("nodeName"):
            continue
        name = pod["metadata"]["name"]
        for volume in pod["spec"].get("volumes") or ():
            source = volume.get("persistentVolumeClaim") or {}
            if source.get("claimName") == claim["name"]:
                return True
            if volume.get("ephemeral") is not None and f"{name}-{volume.get('name')}" == claim["name"]:
                return True
    return False
