"""Provisioner of ``local-path`` volumes: directories that the agents of the nodes create, resize and delete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.internal_requests import create_object, delete_object
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.volumes.local_directories import LocalDirectories, NodeUnavailable
from apiserver_stub.controllers.volumes.local_path_class import provisioner_name
from apiserver_stub.controllers.volumes.local_path_volume import (
    finalizer,
    local_volume,
    node_annotation,
    unsupported,
    volume_name,
)
from apiserver_stub.controllers.volumes.writes import CLAIMS, VOLUMES, change, drop_annotation, is_claimed
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.scheduling.volume_matching import annotations_of, capacity, class_of, requested_size
from apiserver_stub.scheduling.volume_names import VolumeNames
from apiserver_stub.storage import Record
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds import Registry
    from apiserver_stub.verbs.context import VerbContext

NAME = "local-path-provisioner"
_AT_ONCE = 4
_MAX_PAUSE_SECONDS = 30.0
_RELEASED = ("Released", "Failed")

Location = tuple[str, str]
"""Collection and key of a volume or claim."""


class LocalPathProvisioner:
    """Controller of the claims and volumes of the storage class ``local-path``.

    It acts like an external provisioner: on annotations of claims and phases of volumes, which the claim binder of this
    server or a kube-controller-manager sets. A directory is deleted only after its volume was released, and the volume
    only after the node has confirmed the deletion.
    """

    def __init__(
        self,
        context: VerbContext,
        registry: Registry,
        directories: LocalDirectories,
        identity: Identity,
        event_ttl_seconds: int | None,
        clock: Clock | None = None,
    ) -> None:
        resource = registry.find("", "v1", "persistentvolumes")
        if resource is None:
            raise LookupError("persistentvolumes")
        self._context, self._resource, self._directories = context, resource, directories
        self._store, self._identity = context.store, identity
        self._names, self._provisioner = VolumeNames.of(identity), provisioner_name(identity)
        self._finalizer, self._node_annotation = finalizer(identity), node_annotation(identity)
        self._classes = identity.group("storage") + "/storageclasses"
        self._marker = f'"{self._provisioner}"'.encode()
        self._queue: WorkQueue[Location] = WorkQueue(NAME, clock, max_pause_seconds=_MAX_PAUSE_SECONDS)
        self._events = EventRecorder(self._store, self._provisioner, event_ttl_seconds, identity, clock)

    async def run(self) -> None:
        """Provision and delete volumes until cancelled."""
        feed = ChangeFeed(self._store, [VOLUMES, CLAIMS], self)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(run_controller(feed, self._queue, self._process, at_once=_AT_ONCE))

    def reset(self) -> None:
        """There is no state besides the queue."""

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if self._marker in record.data:
            self._queue.add((collection, record.key))

    def remove(self, collection: str, record: Record) -> None:
        """Do nothing; finalizers keep the volumes that need work."""

    async def _process(self, location: Location) -> None:
        collection, key = location
        record = self._store.collection(collection).get(key)
        if record is None:
            return
        obj: Object = objects.decode(record.data)
        annotations = annotations_of(obj)
        if collection == VOLUMES:
            if annotations.get(self._names.provisioned_by) == self._provisioner:
                await self._sync_volume(obj)
        elif annotations.get(self._names.storage_provisioner) == self._provisioner:
            if not dig(obj, ("spec", "volumeName")):
                await self._provision(obj)
            elif dig(obj, ("status", "phase")) == "Bound":
                await self._expand(obj)

    # Claims

    async def _provision(self, claim: Object) -> None:
        """Create the directory and the volume of *claim*.

        :raises ApiError: this failed and is retried.
        """
        annotations, name = annotations_of(claim), volume_name(claim)
        node = annotations.get(self._names.selected_node, "")
        if self._store.collection(VOLUMES).get(name) is not None or "deletionTimestamp" in claim["metadata"]:
            return
        found = self._store.collection(self._classes).get(class_of(claim, self._names))
        storage_class: Object = {} if found is None else objects.decode(found.data)
        problem = unsupported(claim, storage_class, node)
        if problem:
            self._fail(claim, storage_class, problem)
            return
        try:
            hostname = self._directories.hostname(node)
            path = await self._directories.create(node, name, requested_size(claim))
        except NodeUnavailable as error:
            self._fail(claim, storage_class, str(error))
            raise
        except ApiError as error:
            self._fail(claim, storage_class, error.message)
            # The scheduler may select another node, or this one again.
            self._queue.slow_down((CLAIMS, objects.key_of(claim["metadata"]["namespace"], claim["metadata"]["name"])))
            await change(self._store, CLAIMS, claim, lambda obj: drop_annotation(obj, self._names.selected_node))
            return
        volume = local_volume(claim, storage_class, node, hostname, path, self._identity)
        try:
            await create_object(self._context, self._resource, volume, self._identity, NAME)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                self._fail(claim, storage_class, error.message)
                raise
        note = f"Successfully provisioned volume {name} using {self._provisioner}"
        self._events.record(claim, "Normal", "ProvisioningSucceeded", "ProvisioningSucceeded", note)

    def _fail(self, claim: Object, storage_class: Object, problem: str) -> None:
        name = (storage_class.get("metadata") or {}).get("name", "")
        note = f'Failed to provision volume with StorageClass "{name}": {problem}'
        self._events.record(claim, "Warning", "ProvisioningFailed", "ProvisioningFailed", note)

    async def _expand(self, claim: Object) -> None:
        """Raise the quota of the volume of *claim* to the requested size.

        :raises ApiError: this failed and is retried.
        """
        record = self._store.collection(VOLUMES).get(claim["spec"]["volumeName"])
        if record is None:
            return
        volume: Object = objects.decode(record.data)
        node = annotations_of(volume).get(self._node_annotation, "")
        if annotations_of(volume).get(self._names.provisioned_by) != self._provisioner:
            return
        size, current = requested_size(claim), dig(claim, ("status", "capacity", "storage"))
        requested = claim["spec"]["resources"]["requests"]["storage"]
        if size <= capacity({"spec": {"capacity": {"storage": current}}}):
            return
        try:
            await self._directories.create(node, volume["metadata"]["name"], size)
        except ApiError as error:
            self._events.record(claim, "Warning", "VolumeResizeFailed", "VolumeResizeFailed", error.message)
            raise

        def grow_volume(obj: Object) -> None:
            if capacity(obj) < size:
                obj["spec"]["capacity"] = {**(obj["spec"].get("capacity") or {}), "storage": requested}

        def grow_claim(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["capacity"] = {**(status.get("capacity") or {}), "storage": requested}

        await change(self._store, VOLUMES, volume, grow_volume)
        await change(self._store, CLAIMS, claim, grow_claim)
        note = "Resize volume succeeded"
        self._events.record(claim, "Normal", "VolumeResizeSuccessful", "VolumeResizeSuccessful", note)

    # Volumes

    async def _sync_volume(self, volume: Object) -> None:
        """Delete the directory of a released volume, then the volume.

        :raises ApiError: the node did not confirm the deletion; retried.
        """
        deleting = "deletionTimestamp" in volume["metadata"]
        released = dig(volume, ("status", "phase")) in _RELEASED
        if dig(volume, ("spec", "persistentVolumeReclaimPolicy")) == "Delete" and released:
            if await is_claimed(self._store, volume):
                return  # Released by mistake; the data is in use.
            await self._delete_directory(volume, forgets_node=deleting)
        elif not deleting or dig(volume, ("status", "phase")) == "Bound":
            return

        def release(obj: Object) -> None:
            kept = [name for name in obj["metadata"].get("finalizers") or () if name != self._finalizer]
            obj["metadata"]["finalizers"] = kept

        if not deleting:
            try:
                await delete_object(self._context, self._resource, volume, self._identity, NAME)
            except ApiError as error:
                if error.code != 404:
                    raise
        await change(self._store, VOLUMES, volume, release)
        await self._collect(volume)

    async def _delete_directory(self, volume: Object, *, forgets_node: bool) -> None:
        name = volume["metadata"]["name"]
        node = annotations_of(volume).get(self._node_annotation, "")
        try:
            await self._directories.delete(node, name)
        except ApiError as error:
            if forgets_node and error.code == 404:
                return  # The node was deleted, and the user deletes the volume.
            self._events.record(volume, "Warning", "VolumeFailedDelete", "VolumeFailedDelete", error.message)
            raise

    async def _collect(self, volume: Object) -> None:
        """Remove a deleted volume that has no finalizer left."""
        record = self._store.collection(VOLUMES).get(volume["metadata"]["name"])
        if record is None:
            return
        obj: Object = objects.decode(record.data)
        if "deletionTimestamp" in obj["metadata"] and not obj["metadata"].get("finalizers"):
            await delete_object(self._context, self._resource, obj, self._identity, NAME)
