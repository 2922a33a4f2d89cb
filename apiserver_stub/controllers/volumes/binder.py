"""Controller of claims and persistent volumes: binds them and follows their reclaim policies.

While a kube-controller-manager holds its lease, it is inactive. Volumes are created and deleted by provisioners, which
this controller requests with annotations, as upstream.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR, is_held
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.volume_protection import claims_of
from apiserver_stub.controllers.volumes.claim_sync import ClaimSync
from apiserver_stub.controllers.volumes.volume_sync import VolumeSync
from apiserver_stub.controllers.volumes.writes import CLAIMS, VOLUMES
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.scheduling.volume_binding import VolumeState
from apiserver_stub.scheduling.volume_matching import is_bound_to, is_fully_bound
from apiserver_stub.scheduling.volume_names import VolumeNames
from apiserver_stub.storage import Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

NAME = "persistentvolume-controller"
_PODS = "core/pods"
_RESYNC = ("", "")
_FINISHED = ("Succeeded", "Failed")
_USES_CLAIMS = (b'"persistentVolumeClaim"', b'"ephemeral"')

Location = tuple[str, str]
"""Collection and key of a volume or claim."""


async def bind_claims(store: Store, identity: Identity, event_ttl_seconds: int | None) -> None:
    """Run the controller until cancelled."""
    await VolumeBinder(store, identity, event_ttl_seconds).run()


class VolumeBinder:
    """Controller of claims and persistent volumes."""

    def __init__(
        self, store: Store, identity: Identity, event_ttl_seconds: int | None, clock: Clock | None = None
    ) -> None:
        self._store, self._identity, self._clock = store, identity, clock or SystemClock()
        self._names = VolumeNames.of(identity)
        self._classes = identity.group("storage") + "/storageclasses"
        self._state = VolumeState(self._names, identity.label_domain)
        self._waiting: dict[str, set[str]] = {}
        """Keys of unscheduled pods, by the keys of their claims."""
        self._pods: dict[str, frozenset[str]] = {}
        self._events = EventRecorder(store, NAME, event_ttl_seconds, identity, clock)
        self._claim_sync = ClaimSync(store, self._state, self._waiting, self._events, identity)
        self._volume_sync = VolumeSync(store, self._state, self._events, identity)
        self._queue: WorkQueue[Location] = WorkQueue("volume-binder", clock)

    async def run(self) -> None:
        feed = ChangeFeed(self._store, [self._classes, VOLUMES, CLAIMS, _PODS], self)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(run_controller(feed, self._queue, self._process))

    # Changes

    def reset(self) -> None:
        self._state.clear()
        self._waiting.clear()
        self._pods.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection == _PODS:
            self._see_pod(record)
            return
        obj: Object = objects.decode(record.data)
        if collection == VOLUMES:
            self._state.volumes[record.key] = obj
            self._queue.add((VOLUMES, record.key))
            self._queue_claims_of(obj)
        elif collection == CLAIMS:
            self._state.claims[record.key] = obj
            self._queue.add((CLAIMS, record.key))
            self._queue_volumes_of(obj)
        else:
            self._state.classes[record.key] = obj
            self._queue_unbound()

    def remove(self, collection: str, record: Record) -> None:
        if collection == _PODS:
            self._wait(record.key, frozenset())
        elif collection == VOLUMES:
            if (volume := self._state.volumes.pop(record.key, None)) is not None:
                self._queue_claims_of(volume)
        elif collection == CLAIMS:
            if (claim := self._state.claims.pop(record.key, None)) is not None:
                self._queue_volumes_of(claim)
        else:
            self._state.classes.pop(record.key, None)

    def _see_pod(self, record: Record) -> None:
        claims: frozenset[str] = frozenset()
        if any(name in record.data for name in _USES_CLAIMS):
            pod: Object = objects.decode(record.data)
            if not dig(pod, ("spec", "nodeName")) and dig(pod, ("status", "phase")) not in _FINISHED:
                claims = frozenset(claims_of({**pod, "spec": {**pod["spec"], "nodeName": "any"}}))
        self._wait(record.key, claims)

    def _wait(self, pod: str, claims: frozenset[str]) -> None:
        before = self._pods.pop(pod, frozenset())
        if claims:
            self._pods[pod] = claims
        for key in before - claims:
            self._waiting[key].discard(pod)
            if not self._waiting[key]:
                del self._waiting[key]
        for key in claims - before:
            self._waiting.setdefault(key, set()).add(pod)
            self._queue.add((CLAIMS, key))

    def _queue_claims_of(self, volume: Object) -> None:
        """Queue the claims whose state depends on *volume*."""
        reference = dig(volume, ("spec", "claimRef"))
        if reference:
            key = objects.key_of(reference.get("namespace") or "", reference.get("name") or "")
            self._queue.add((CLAIMS, key))
        else:
            self._queue_unbound()
        name = volume["metadata"]["name"]
        for key, claim in self._state.claims.items():
            if dig(claim, ("spec", "volumeName")) == name:
                self._queue.add((CLAIMS, key))

    def _queue_volumes_of(self, claim: Object) -> None:
        """Queue the volumes whose state depends on *claim*."""
        if name := dig(claim, ("spec", "volumeName")):
            self._queue.add((VOLUMES, name))
        for name, volume in self._state.volumes.items():
            reference = dig(volume, ("spec", "claimRef"))
            if reference and (is_bound_to(volume, claim) or reference.get("uid") == claim["metadata"].get("uid")):
                self._queue.add((VOLUMES, name))

    def _queue_unbound(self) -> None:
        for key, claim in self._state.claims.items():
            if not is_fully_bound(claim, self._names):
                self._queue.add((CLAIMS, key))

    # Objects

    async def _process(self, location: Location) -> None:
        if is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity):
            self._queue.add_after(_RESYNC, HELD_FOR.total_seconds())
            return
        collection, key = location
        if location == _RESYNC:
            for name in self._state.volumes:
                self._queue.add((VOLUMES, name))
            for name in self._state.claims:
                self._queue.add((CLAIMS, name))
        elif collection == VOLUMES:
            if (volume := self._state.volumes.get(key)) is not None:
                await self._volume_sync.sync(volume)
        elif (claim := self._state.claims.get(key)) is not None:
            await self._claim_sync.sync(key, claim)
