"""Reconciler of volumes: starts the operations that lead from the actual to the desired state.

It acts on events only: a pod sync, the end of an operation or of a back-off, and a change of the node object.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from nodeagent.contracts.persistent_volumes import VolumeMode
from nodeagent.contracts.storage_operations import observe_operation
from nodeagent.errors import VolumeError
from nodeagent_plugins.volumes import metrics
from nodeagent_plugins.volumes.actual_state import DeviceState, NodeVolume, NodeVolumes
from nodeagent_plugins.volumes.expansion import VolumeExpander
from nodeagent_plugins.volumes.mount_operations import MountOperations, attached_path
from nodeagent_plugins.volumes.operations import OperationQueue

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext


_Work = Coroutine[Any, Any, None]


class Reconciler:
    """State of all volumes, and the operations on them.

    :param may_unmount: returns whether the desired state is complete, so that volumes may be unmounted.
    """

    def __init__(self, context: CgroupsContext, may_unmount: Callable[[], bool]) -> None:
        self._context, self._may_unmount = context, may_unmount
        self._expander = VolumeExpander(context)
        self._operations = MountOperations(context, self._expander)
        self._by_controller = context.config.enable_controller_attach_detach and context.api is not None
        self.by_node = not self._by_controller and context.api is not None
        """True if this node requests attachments, because no controller does."""
        self._waiters: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self.volumes = NodeVolumes()
        self.queue = OperationQueue(context.clock, context.tasks, self._ended, self._stopped)

    async def changed(self, pod_uid: str) -> None:
        """Wait until an operation on a volume of the pod has ended.

        :raises VolumeError: the agent stops.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._waiters[pod_uid]
        waiters.add(future)
        try:
            await future
        finally:
            waiters.discard(future)
            if not waiters:
                self._waiters.pop(pod_uid, None)

    def step(self, volume: NodeVolume) -> None:
        """Start the operations that are due for one volume; none if it was removed."""
        if self.volumes.get(volume.unique_name) is not volume:
            return
        if volume.paced:
            for uid in volume.desired:
                if volume.needs_mount(uid):
                    self._start(volume, uid, metrics.MOUNT, partial(self._operations.set_up, volume, uid))
            self._drop_unused(volume)
            return
        may_unmount = self._may_unmount()
        if may_unmount:
            for uid in [uid for uid, mount in volume.mounts.items() if mount.released and uid not in volume.desired]:
                self.unmount(volume, uid)
        for uid, desired in volume.desired.items():
            if volume.needs_mount(uid):
                self._mount(volume, uid)
            elif volume.is_ready(uid) and self._expander.is_due(volume, desired):
                self._start(volume, "", metrics.EXPAND, partial(self._expander.expand_in_use, volume, uid))
        if not may_unmount or volume.mounts:
            return
        # A label can only be changed after the volume was unmounted completely.
        if volume.device_state is not DeviceState.NOT_MOUNTED and (
            volume.unused or any(map(volume.label_differs, volume.desired))
        ):
            block = volume.device is not None and volume.device.mode is VolumeMode.BLOCK
            name = metrics.UNMAP_DEVICE if block else metrics.UNMOUNT_DEVICE
            self._start(volume, "", name, partial(self._operations.unmount_device, volume))
        else:
            self._drop_unused(volume)

    def step_all(self) -> None:
        """Start the operations that are due for all volumes."""
        for volume in list(self.volumes.values()):
            self.step(volume)

    def unmount(self, volume: NodeVolume, pod_uid: str) -> None:
        """Start to unmount a volume of a pod, unless that is in back-off."""
        block = volume.mounts[pod_uid].volume.mode is VolumeMode.BLOCK
        name = metrics.UNMAP if block else metrics.UNMOUNT
        self._start(volume, pod_uid, name, partial(self._operations.unmount, volume, pod_uid))

    def attaches(self, volume: NodeVolume) -> bool:
        """Return whether this node requests the attachment of the volume."""
        return self.by_node and bool(volume.attachable) and volume.features.node_attached is not None

    def is_reported(self, volume: NodeVolume) -> bool:
        """Return whether the last known node status lists the volume as in use and attached."""
        node: Mapping[str, Any] = self._context.node() or {}
        status = node.get("status") or {}
        in_use = volume.unique_name in (status.get("volumesInUse") or ())
        return in_use and attached_path(status, volume.unique_name) is not None

    def _mount(self, volume: NodeVolume, uid: str) -> None:
        if volume.label_differs(uid) or volume.attachable is None:
            return  # The end of the unmount, or the node status, continues.
        if volume.attachable and self._by_controller and not volume.attached:
            if self.is_reported(volume):
                self._start(volume, "", metrics.VERIFY_ATTACHED, partial(self._operations.verify_attached, volume))
            return
        block = volume.desired[uid].spec.mode is VolumeMode.BLOCK
        name = metrics.MAP if block else metrics.MOUNT
        self._start(volume, "", name, partial(self._operations.mount, volume, uid), pod_uid=uid)

    def _start(self, volume: NodeVolume, key: str, name: str, work: Callable[[], _Work], *, pod_uid: str = "") -> None:
        observed = partial(self._observed, volume, name, work, pod_uid or key)
        self.queue.start(volume.unique_name, key, name, observed, paced=volume.paced)

    async def _observed(self, volume: NodeVolume, name: str, work: Callable[[], _Work], pod_uid: str) -> None:
        clock = self._context.clock
        started, failed = clock.now(), True
        was_mounted = pod_uid in volume.mounts
        try:
            await work()
            failed = False
        finally:
            observe_operation(volume.plugin, name, clock.now() - started, failed=failed, migrated=volume.migrated)
        if pod_uid and pod_uid not in self._waiters and not volume.paced and was_mounted != volume.is_ready(pod_uid):
            self._context.pods.trigger_sync(pod_uid)  # The pod's worker no longer waits.

    def _ended(self, name: str, pod_uid: str) -> None:
        volume = self.volumes.get(name)
        affected = {pod_uid}
        if volume is not None:
            affected |= volume.desired.keys() | volume.mounts.keys()
            self.step(volume)
        for uid in affected & self._waiters.keys():
            for future in self._waiters[uid]:
                if not future.done():
                    future.set_result(None)

    def _stopped(self) -> None:
        for waiters in self._waiters.values():
            for future in waiters:
                if not future.done():
                    future.set_exception(VolumeError("operations on volumes were cancelled, because the agent stops"))

    def _drop_unused(self, volume: NodeVolume) -> None:
        if volume.unused and self.attaches(volume) and not volume.detached:
            self._start(volume, "", metrics.DETACH, partial(self._operations.detach, volume))
        elif volume.unused and not self.queue.running(volume.unique_name):
            self.volumes.remove(volume)
            self.queue.forget(volume.unique_name)
            if volume.attachable:
                self._context.trigger_node_status()
