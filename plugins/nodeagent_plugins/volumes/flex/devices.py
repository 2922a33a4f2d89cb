"""Devices of drivers that attach: mounted once per node, for all pods that use them."""

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
    from nodeagent.contracts.context import CgroupsContext

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class Devices:
    """Attaches, mounts and detaches devices; with controller-managed attachment the agent does not attach.

    A driver that returns "Not supported" needs no device, unless a controller has attached one.
    spec: config.enableControllerAttachDetach
    """

    def __init__(self, context: CgroupsContext, mounter: Mounter, records: Records) -> None:
        self._context, self._mounter, self._records = context, mounter, records
        self._attaches = not context.config.enable_controller_attach_detach
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def plan(self, driver: Driver, pod: Pod, volume: str, options: str) -> Record:
        """Return the record for teardown, before anything is attached or mounted."""
        try:
            name = text(await driver.call("getvolumename", options), "volumename")
        except NotSupported:
            name = ""
        # Volumes of two pods can have the same name and be different, unless the driver reports a volume name.
        key = name or f"{pod.uid}-{volume}"
        if not _SAFE.fullmatch(key):
            key = hashlib.sha256(key.encode()).hexdigest()
        plugins = self._context.root_dir / "plugins" / identity.current().label_domain / "flexvolume"
        return Record(driver.name, str(plugins / driver.name / "mounts" / key), name or volume, self._attaches)

    async def mount(self, driver: Driver, record: Record, options: str) -> None:
        """Attach and mount the device, unless the volume of another pod has done so.

        :raises VolumeError: the driver failed; call again.
        """
        path = Path(record.device_mount)
        async with self._lock(record):
            if await in_thread(self._mounter.mounted, path):
                return
            device = await self._attach(driver, record, options)
            try:
                output = await driver.call("waitforattach", device, options)
                device = text(output, "device")
            except NotSupported:
                pass
            await in_thread(make_directories, path)
            try:
                await driver.call("mountdevice", str(path), device, options)
            except NotSupported:
                if device:
                    raise VolumeError(f"driver {driver.name} attached {device} but cannot mount it") from None

    async def unmount(self, driver: Driver, record: Record, directory: Path) -> None:
        """Unmount and detach the device unless a volume other than that of *directory* uses it."""
        path = Path(record.device_mount)
        async with self._lock(record):
            if await in_thread(self._records.share_device, directory, record.device_mount):
                return
            if await in_thread(self._mounter.mounted, path):
                try:
                    await driver.call("unmountdevice", str(path))
                except NotSupported:
                    await in_thread(self._mounter.unmount, path)
            if record.attached_here:
                with contextlib.suppress(NotSupported):
                    await driver.call("detach", record.volume, self._context.node_name)
            await in_thread(remove_if_empty, path)

    async def _attach(self, driver: Driver, record: Record, options: str) -> str:
        """Return the device, or an empty string if there is none yet or the driver has no devices."""
        if not record.attached_here:
            node = self._context.node() or {}
            attached = node.get("status", {}).get("volumesAttached") or ()
            volume = f"{driver.name}/{record.volume}"
            return next((each.get("devicePath", "") for each in attached if each.get("name") == volume), "")
        try:
            return text(await driver.call("attach", options, self._context.node_name), "device")
        except NotSupported:
            return ""

    def _lock(self, record: Record) -> asyncio.Lock:
        return self._locks.setdefault(record.device_mount, asyncio.Lock())
