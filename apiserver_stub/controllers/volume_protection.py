"""Volume protection controllers: remove deleted persistent volumes and claims once they are unused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from apiserver_stub.admission.plugins.storage_object_in_use_protection import protection_finalizers
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_VOLUMES, _CLAIMS, _PODS = "core/persistentvolumes", "core/persistentvolumeclaims", "core/pods"
_FINISHED = ("Succeeded", "Failed")
_USES_CLAIMS = (b'"persistentVolumeClaim"', b'"ephemeral"')

Location = tuple[str, str]
"""Collection and key of a volume or claim."""


async def release_volumes(store: Store, identity: Identity) -> None:
    """Run the volume protection controllers until cancelled."""
    await VolumeProtection(store, identity).run()


class VolumeProtection:
    """Controller of the protection finalizers.

    Pods that use claims are indexed, so the deletion of a claim needs no search of the pods.
    """

    def __init__(self, store: Store, identity: Identity, clock: Clock | None = None) -> None:
        self._store, self._finalizers = store, protection_finalizers(identity)
        self._queue: WorkQueue[Location] = WorkQueue("volume-protection", clock)
        self._claims: dict[str, frozenset[str]] = {}
        self._users: dict[str, set[str]] = {}

    async def run(self) -> None:
        feed = ChangeFeed(self._store, [_PODS, _VOLUMES, _CLAIMS], self)
        await run_controller(feed, self._queue, self._process)

    def reset(self) -> None:
        self._claims.clear()
        self._users.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection != _PODS:
            if b'"deletionTimestamp"' in record.data:
                self._queue.add((collection, record.key))
        elif any(name in record.data for name in _USES_CLAIMS):
            self._use(record.key, frozenset(_protected_by(objects.decode(record.data))))

    def remove(self, collection: str, record: Record) -> None:
        if collection == _PODS:
            self._use(record.key, frozenset())

    def _use(self, pod: str, claims: frozenset[str]) -> None:
        before = self._claims.pop(pod, frozenset())
        if claims:
            self._claims[pod] = claims
        for key in claims - before:
            self._users.setdefault(key, set()).add(pod)
        for key in before - claims:
            users = self._users[key]
            users.discard(pod)
            if not users:
                del self._users[key]
                self._queue.add((_CLAIMS, key))

    async def _process(self, location: Location) -> None:
        collection, key = location
        finalizer = self._finalizers[collection.partition("/")[2]]

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(key)
            obj: Object = objects.decode(current.data)
            metadata = obj["metadata"]
            finalizers = metadata.get("finalizers") or []
            used = _is_bound(obj) if collection == _VOLUMES else key in self._users
            if "deletionTimestamp" not in metadata or finalizer not in finalizers or used:
                return Keep()
            metadata["finalizers"] = [name for name in finalizers if name != finalizer]
            data = objects.encode_for_store(obj)
            return Put(data) if metadata["finalizers"] else Remove(data)

        try:
            await self._store.update(collection, key, decide)
        except LookupError:
            return  # Deleted since it was queued.


def claims_of(pod: Object) -> Iterator[str]:
    """Yield the keys of the claims that *pod* uses; none unless it is assigned to a node and has not terminated."""
    if objects.dig(pod, ("status", "phase")) not in _FINISHED:
        yield from _protected_by(pod)


def _protected_by(pod: Object) -> Iterator[str]:
    """Yield the keys of the claims that remain because of *pod*.

    A terminated pod protects its claims until it is deleted, as the kubelet may not have unmounted the volumes. Claims
    of ephemeral volumes are deleted earlier, since finalizers of the pod may wait for that.
    """
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    if not spec.get("nodeName"):
        return
    shut_down = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0
    for volume in spec.get("volumes") or ():
        if volume.get("ephemeral") is None:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        else:
            name = "" if shut_down else f"{metadata['name']}-{volume.get('name')}"
        if name:
            yield objects.key_of(metadata["namespace"], name)


def _is_bound(volume: Object) -> bool:
    return bool(objects.dig(volume, ("status", "phase")) == "Bound")
