"""Attach-detach controller: requests attachments of CSI volumes and lists the attached ones in node statuses.

The external attacher of a driver executes the requests. A volume is detached only after its node has removed it from
``volumesInUse``, or was deleted; there is no time limit after which a volume is detached by force. While a
kube-controller-manager holds its lease, the controller is inactive.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.internal_requests import create_object, delete_object
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR, is_held
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.volumes.attachment_state import (
    PLUGIN,
    AttachableVolume,
    AttachmentState,
    bound_volume,
    claim_of,
    csi_volume,
)
from apiserver_stub.controllers.volumes.writes import CLAIMS, VOLUMES, change
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds import Registry
    from apiserver_stub.verbs.context import VerbContext

NAME = "attachdetach-controller"
_PODS, _NODES = "core/pods", "core/nodes"
_USES_CLAIMS = (b'"persistentVolumeClaim"', b'"ephemeral"')
_EXCLUSIVE = (
    'Multi-Attach error for volume "{}" Volume is already exclusively attached to one node and can\'t be attached to '
    "another"
)


async def attach_volumes(
    context: VerbContext, registry: Registry, identity: Identity, event_ttl_seconds: int | None
) -> None:
    """Run the controller until cancelled."""
    await VolumeAttacher(context, registry, identity, event_ttl_seconds).run()


class VolumeAttacher:
    """Attach-detach controller; each node is processed on its own."""

    def __init__(
        self,
        context: VerbContext,
        registry: Registry,
        identity: Identity,
        event_ttl_seconds: int | None,
        clock: Clock | None = None,
    ) -> None:
        resource = registry.find(identity.group("storage"), "v1", "volumeattachments")
        if resource is None:
            raise LookupError("volumeattachments")
        self._context, self._store, self._resource, self._identity = context, context.store, resource, identity
        self._clock = clock or SystemClock()
        group = identity.group("storage")
        self._attachments, self._drivers = f"{group}/volumeattachments", f"{group}/csidrivers"
        self._managed = f"volumes.{identity.label_domain}/controller-managed-attach-detach"
        self._state = AttachmentState()
        self._reported: dict[str, str] = {}
        """Last event about each attachment."""
        self._queue: WorkQueue[str] = WorkQueue("volume-attacher", clock)
        self._events = EventRecorder(context.store, NAME, event_ttl_seconds, identity, clock)

    async def run(self) -> None:
        collections = [self._drivers, VOLUMES, CLAIMS, _PODS, _NODES, self._attachments]
        feed = ChangeFeed(self._store, collections, self)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(run_controller(feed, self._queue, self._process))

    # Changes

    def reset(self) -> None:
        self._state.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        state = self._state
        if collection == _PODS:
            relevant = record.key in state.pods or any(name in record.data for name in _USES_CLAIMS)
            if relevant:
                self._add(*state.see_pod(record.key, objects.decode(record.data)))
            return
        if collection == _NODES:
            self._add(record.key)
            return
        obj: Object = objects.decode(record.data)
        if collection == CLAIMS:
            if bound := bound_volume(obj):
                state.claims[record.key] = bound
            else:
                state.claims.pop(record.key, None)
            self._add(*state.nodes_of_claim(record.key))
        elif collection == VOLUMES:
            if (volume := csi_volume(obj)) is not None:
                state.volumes[record.key] = volume
                self._add(*state.nodes_of_claim(claim_of(obj)))
        elif collection == self._attachments:
            state.attachments[record.key] = obj
            self._see_attachment(obj)
        else:
            state.drivers[record.key] = dig(obj, ("spec", "attachRequired")) is not False
            self._add(*state.nodes())

    def remove(self, collection: str, record: Record) -> None:
        state = self._state
        if collection == _PODS:
            self._add(*state.see_pod(record.key, None))
        elif collection == _NODES:
            self._add(record.key)
        elif collection == CLAIMS:
            state.claims.pop(record.key, None)
            self._add(*state.nodes_of_claim(record.key))
        elif collection == VOLUMES:
            state.volumes.pop(record.key, None)
            for each in state.attachments.values():
                if dig(each, ("spec", "source", "persistentVolumeName")) == record.key:
                    self._add(str(dig(each, ("spec", "nodeName"))))
        elif collection == self._attachments:
            self._reported.pop(record.key, None)
            if (attachment := state.attachments.pop(record.key, None)) is not None:
                self._see_attachment(attachment)
        else:
            state.drivers.pop(record.key, None)
            self._add(*state.nodes())

    def _see_attachment(self, attachment: Object) -> None:
        self._add(str(dig(attachment, ("spec", "nodeName"))))
        if (volume := self._state.volume_of(attachment)) is not None:  # Other nodes may wait for it.
            for node, claims in self._state.pods.values():
                if any(self._state.claims.get(claim) == volume.name for claim in claims):
                    self._add(node)

    def _add(self, *nodes: str) -> None:
        for node in nodes:
            self._queue.add(node)

    # Nodes

    async def _process(self, node: str) -> None:
        if is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity):
            self._queue.add_after(node, HELD_FOR.total_seconds())
            return
        record = self._store.collection(_NODES).get(node)
        found: Object | None = None if record is None else objects.decode(record.data)
        needed = self._state.needed(node)
        if found is None:
            await self._release(node, keep=set(needed))
            return
        if self._managed not in (found["metadata"].get("annotations") or {}):
            return
        await self._report(found, set(needed))
        in_use = set(dig(found, ("status", "volumesInUse")) or ())
        await self._release(node, keep=set(needed), in_use=in_use)
        for name, (volume, pods) in needed.items():
            attachment = self._state.attachments.get(name)
            if attachment is None:
                await self._attach(node, name, volume, pods)
            else:
                self._report_progress(name, volume, attachment, pods)

    async def _attach(self, node: str, name: str, volume: AttachableVolume, pods: list[str]) -> None:
        """Request an attachment, unless the volume is attached to another node exclusively.

        :raises ApiError: the object cannot be created.
        """
        if not volume.shared and self._state.other_nodes(volume, node):
            self._event(name, pods, "Warning", "FailedAttachVolume", _EXCLUSIVE.format(volume.name))
            return
        source = {"persistentVolumeName": volume.name}
        spec = {"attacher": volume.driver, "nodeName": node, "source": source}
        try:
            await create_object(
                self._context, self._resource, {"metadata": {"name": name}, "spec": spec}, self._identity, NAME
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _report_progress(self, name: str, volume: AttachableVolume, attachment: Object, pods: list[str]) -> None:
        """Record the progress of an attachment in an event of its pods."""
        if dig(attachment, ("status", "attached")):
            note = f'AttachVolume.Attach succeeded for volume "{volume.name}" '
            self._event(name, pods, "Normal", "SuccessfulAttachVolume", note)
        elif message := dig(attachment, ("status", "attachError", "message")):
            note = f'AttachVolume.Attach failed for volume "{volume.name}" : {message}'
            self._event(name, pods, "Warning", "FailedAttachVolume", note)

    def _event(self, name: str, pods: list[str], kind: str, reason: str, note: str) -> None:
        if self._reported.get(name) == note:
            return
        self._reported[name] = note
        for key in pods:
            record = self._store.collection(_PODS).get(key)
            if record is not None:
                self._events.record(objects.decode(record.data), kind, reason, reason, note)

    async def _report(self, node: Object, needed: set[str]) -> None:
        """List the attached volumes in the node's status, without those that are about to be detached.

        An agent reads the status again before it mounts a volume, so the name is removed before the detachment starts.
        """
        name = node["metadata"]["name"]
        attached = {
            volume.unique_name: each["metadata"]["name"]
            for volume, each in self._state.attached_to(name, _names(node))
            if dig(each, ("status", "attached")) and "deletionTimestamp" not in each["metadata"]
        }

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            in_use = set(status.get("volumesInUse") or ())
            kept = {unique for unique, key in attached.items() if key in needed or unique in in_use}
            before = status.get("volumesAttached") or []
            listed = [each for each in before if not each["name"].startswith(PLUGIN) or each["name"] in kept]
            names = {each["name"] for each in listed}
            listed += [{"name": unique, "devicePath": ""} for unique in sorted(kept - names)]
            if listed:
                status["volumesAttached"] = listed
            else:
                status.pop("volumesAttached", None)

        await change(self._store, _NODES, node, edit)

    async def _release(self, node: str, *, keep: set[str], in_use: set[str] | None = None) -> None:
        """Request the detachment of volumes that no pod needs and that the node has unmounted.

        :param in_use: names of the volumes that the node may have mounted.
        :raises ApiError: an object cannot be deleted.
        """
        for volume, attachment in list(self._state.attached_to(node, in_use or ())):
            metadata = attachment["metadata"]
            if metadata["name"] in keep or volume.unique_name in (in_use or ()) or "deletionTimestamp" in metadata:
                continue
            if in_use is not None and await self._is_in_use(node, metadata["name"]):
                continue
            await delete_object(self._context, self._resource, attachment, self._identity, NAME)

    async def _is_in_use(self, node: str, attachment: str) -> bool:
        """Return whether the status of the node lists the volume of *attachment* as of now, in use or attached."""
        await self._store.catch_up(_NODES)
        record = self._store.collection(_NODES).get(node)
        names = set() if record is None else _names(objects.decode(record.data))
        attached = self._state.attached_to(node, names)
        return any(volume.unique_name in names for volume, each in attached if each["metadata"]["name"] == attachment)


def _names(node: Object) -> set[str]:
    """Return the names of the volumes in the status of a node."""
    status = node.get("status") or {}
    attached = {str(each.get("name")) for each in status.get("volumesAttached") or ()}
    return attached.union(status.get("volumesInUse") or ())
