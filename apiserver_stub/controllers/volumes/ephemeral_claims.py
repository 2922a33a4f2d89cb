"""Controller of generic ephemeral volumes: creates their claims, which the pods own.

While a kube-controller-manager holds its lease, it is inactive.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.internal_requests import create_object
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR, is_held
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.volumes.writes import CLAIMS
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds import Registry
    from apiserver_stub.verbs.context import VerbContext

NAME = "ephemeral-volume-controller"
_PODS = "core/pods"
_FINISHED = ("Succeeded", "Failed")


async def create_ephemeral_claims(
    context: VerbContext, registry: Registry, identity: Identity, event_ttl_seconds: int | None
) -> None:
    """Run the controller until cancelled."""
    await EphemeralClaims(context, registry, identity, event_ttl_seconds).run()


class EphemeralClaims:
    """Controller of the claims of ephemeral volumes."""

    def __init__(
        self,
        context: VerbContext,
        registry: Registry,
        identity: Identity,
        event_ttl_seconds: int | None,
        clock: Clock | None = None,
    ) -> None:
        resource = registry.find("", "v1", "persistentvolumeclaims")
        if resource is None:
            raise LookupError("persistentvolumeclaims")
        self._context, self._resource, self._identity = context, resource, identity
        self._clock = clock or SystemClock()
        self._queue: WorkQueue[str] = WorkQueue("ephemeral-claims", clock)
        self._pods: dict[str, frozenset[str]] = {}
        """Keys of the claims of pods with ephemeral volumes."""
        self._events = EventRecorder(context.store, NAME, event_ttl_seconds, identity, clock)

    async def run(self) -> None:
        feed = ChangeFeed(self._context.store, [_PODS, CLAIMS], self)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(run_controller(feed, self._queue, self._process))

    def reset(self) -> None:
        self._pods.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection != _PODS or record.key in self._pods or b'"ephemeral"' not in record.data:
            return
        pod: Object = objects.decode(record.data)
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if volumes := _volumes(pod):
            claims = (objects.key_of(namespace, f"{name}-{volume['name']}") for volume in volumes)
            self._pods[record.key] = frozenset(claims)
            self._queue.add(record.key)

    def remove(self, collection: str, record: Record) -> None:
        if collection == _PODS:
            self._pods.pop(record.key, None)
            return
        for pod, claims in self._pods.items():
            if record.key in claims:
                self._queue.add(pod)

    async def _process(self, key: str) -> None:
        if is_held(self._context.store, CONTROLLER_MANAGER, self._clock.wall(), self._identity):
            self._queue.add_after(key, HELD_FOR.total_seconds())
            return
        record = self._context.store.collection(_PODS).get(key)
        pod: Object = {} if record is None else objects.decode(record.data)
        if not pod or "deletionTimestamp" in pod["metadata"] or dig(pod, ("status", "phase")) in _FINISHED:
            return
        for volume in _volumes(pod):
            await self._provide(pod, volume)

    async def _provide(self, pod: Object, volume: Object) -> None:
        """Create the claim of *volume* unless it exists.

        :raises ApiError: it cannot be created.
        """
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], f"{metadata['name']}-{volume['name']}"
        record = self._context.store.collection(CLAIMS).get(objects.key_of(namespace, name))
        if record is not None:
            owners = objects.decode(record.data)["metadata"].get("ownerReferences") or ()
            if not any(owner.get("controller") and owner.get("uid") == metadata.get("uid") for owner in owners):
                pod_name = f"{namespace}/{metadata['name']}"
                problem = f"PVC {namespace}/{name} was not created for pod {pod_name} (pod is not owner)"
                self._report(pod, volume, problem)
            return
        template = volume["ephemeral"].get("volumeClaimTemplate") or {}
        of_template = template.get("metadata") or {}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata.get("uid"),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        claim: Object = {
            "metadata": {
                **{key: of_template[key] for key in ("annotations", "labels") if of_template.get(key)},
                "name": name,
                "namespace": namespace,
                "ownerReferences": [owner],
            },
            "spec": template.get("spec") or {},
        }
        try:
            await create_object(self._context, self._resource, claim, self._identity, NAME)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return  # Its owner is checked when the change is seen.
            self._report(pod, volume, f"create PVC {name}: {error.message}")
            raise

    def _report(self, pod: Object, volume: Object, problem: str) -> None:
        note = f"ephemeral volume {volume['name']}: {problem}"
        self._events.record(pod, "Warning", "FailedBinding", "FailedBinding", note)


def _volumes(pod: Object) -> list[Object]:
    """Return the ephemeral volumes of *pod*."""
    return [each for each in dig(pod, ("spec", "volumes")) or () if each.get("ephemeral") is not None]
