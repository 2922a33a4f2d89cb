"""Devices of drivers that attach: mounted once on the node, for all pods that use them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from nodeagent.base import identity
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Pod
from nodeagent_plugins.volumes.flex.calls import Driver, NotSupported, text
from nodeagent_plugins.volumes.flex.records import Record, Records
from nodeagent_plugins.volumes.mounts import Mounter, in_thread
from nodeagent_plugins.volumes.trees import make_directories, remove_if_empty

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class Devices:
    """Attaches, mounts and gives back devices; attaching is left to the controller where it manages volumes.

    Drivers that answer calls with "Not supported" need no device, unless a controller has attached one.
    spec: config.enableControllerAttachDetach
    """

    def __init__(self, context: AgentContext, mounter: Mounter, records: Records) -> None:
        self._context, self._mounter, self._records = context, mounter, records
        self._attaches = not context.config.enable_controller_attach_detach
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def plan(self, driver: Driver, pod: Pod, volume: str, options: str) -> Record:
        """Return what will be undone: nothing has been done yet."""
        try:
            name = text(await driver.call("getvolumename", options), "volumename")
        except NotSupported:
            name = ""
        # Volumes of two pods may have one name and yet be different, unless the driver says that they are the same.
        place = name or f"{pod.uid}-{volume}"
        if not _SAFE.fullmatch(place):
            place = hashlib.sha256(place.encode()).hexdigest()
        plugins = self._context.root_dir / "plugins" / identity.current().label_domain / "flexvolume"
        return Record(driver.name, str(plugins / driver.name / "mounts" / place), name or volume, self._attaches)

    async def mount(self, driver: Driver, record: Record, options: str) -> None:
        """Attach and mount the device, unless another pod's volume has done so.

        :raises VolumeError: the driver failed; call again.
        """
        place = Path(record.device_mount)
        async with self._lock(record):
            if await in_thread(self._mounter.mounted, place):
                return
            device = await self._attach(driver, record, options)
            try:
                answer = await driver.call("waitforattach", device, options)
                device = text(answer, "device")
            except NotSupported:
                pass
            await in_thread(make_directories, place)
            try:
                await driver.call("mountdevice", str(place), device, options)
            except NotSupported:
                if device:
                    raise VolumeError(f"driver {driver.name} attaches {device} and does not mount it") from None

    async def unmount(self, driver: Driver, record: Record, directory: Path) -> None:
        """Unmount and detach the device when no other volume than that of *directory* uses it."""
        place = Path(record.device_mount)
        async with self._lock(record):
            if await in_thread(self._records.share_device, directory, record.device_mount):
                return
            if await in_thread(self._mounter.mounted, place):
                try:
                    await driver.call("unmountdevice", str(place))
                except NotSupported:
                    await in_thread(self._mounter.unmount, place)
            if record.attached_here:
                with contextlib.suppress(NotSupported):
                    await driver.call("detach", record.volume, self._context.node_name)
            await in_thread(remove_if_empty, place)

    async def _attach(self, driver: Driver, record: Record, options: str) -> str:
        """Return the device, empty when there is none yet or the driver knows none."""
        if not record.attached_here:
            node = self._context.node() or {}
            attached = node.get("status", {}).get("volumesAttached") or ()
            wanted = f"{driver.name}/{record.volume}"
            return next((each.get("devicePath", "") for each in attached if each.get("name") == wanted), "")
        try:
            return text(await driver.call("attach", options, self._context.node_name), "device")
        except NotSupported:
            return ""

    def _lock(self, record: Record) -> asyncio.Lock:
        return self._locks.setdefault(record.device_mount, asyncio.Lock())
