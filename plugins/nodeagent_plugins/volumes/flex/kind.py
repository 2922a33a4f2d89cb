"""FlexVolume plugin: directories that a driver mounts, and unmounts when the pod has terminated."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base import identity
from nodeagent.contracts.volume_ownership import change_group
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.volumes.flex.calls import Capabilities, Driver, NotSupported
from nodeagent_plugins.volumes.flex.devices import Devices
from nodeagent_plugins.volumes.flex.drivers import Drivers, directory_name, is_name
from nodeagent_plugins.volumes.flex.options import device_options, mount_options
from nodeagent_plugins.volumes.flex.records import Record, Records
from nodeagent_plugins.volumes.metrics import plugin_name
from nodeagent_plugins.volumes.mounts import Mounter, in_thread
from nodeagent_plugins.volumes.payload import fs_group
from nodeagent_plugins.volumes.trees import make_directories, remove_if_empty

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_log = logging.getLogger(__name__)


class FlexVolumes:
    """Implements :class:`~nodeagent.contracts.volumes.DriverVolumeKind` for all drivers.

    spec: config.volumePluginDir
    """

    def __init__(self, context: CgroupsContext, mounter: Mounter, drivers: Drivers) -> None:
        self.name = f"{identity.current().label_domain}~flexvolume"
        self._context, self._mounter, self._drivers = context, mounter, drivers
        self._records = Records(context.root_dir / "pods", self.name)
        self._devices = Devices(context, mounter, self._records)
        self._ready: dict[Path, MountedVolume] = {}

    def supports(self, volume: Volume) -> bool:
        return volume.flex_volume is not None

    def directory_name(self, volume: Volume) -> str:
        assert volume.flex_volume is not None
        name = volume.flex_volume.driver
        return directory_name(name) if is_name(name) else self.name

    def owns(self, directory: Path) -> bool:
        return self._records.read(directory) is not None or self._drivers.installed(directory.parent.name)

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        if directory in self._ready:
            return self._ready[directory]
        assert volume.flex_volume is not None
        source = volume.flex_volume
        driver, can = await self._drivers.get(source.driver)
        if not await in_thread(self._mounter.mounted, directory):
            await self._mount(driver, can, pod, volume, directory)
            if can.fs_group and not source.read_only:
                await self._give_to_group(pod, directory)
        mounted = MountedVolume(
            volume.name,
            str(directory),
            readonly=source.read_only,
            selinux_relabel=can.selinux_relabel and not source.read_only,
        )
        self._ready[directory] = mounted
        return mounted

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        self._ready.pop(directory, None)
        record = await in_thread(self._records.read, directory)
        if record is None:
            record = Record(directory.parent.name.replace("~", "/"))
        if await in_thread(os.path.lexists, directory):
            await self._unmount(record, directory)
        await in_thread(self._records.remove, directory)

    async def _mount(self, driver: Driver, can: Capabilities, pod: Pod, volume: Volume, directory: Path) -> None:
        assert volume.flex_volume is not None
        source, record = volume.flex_volume, Record(driver.name)
        options = await mount_options(self._context, pod, volume.name, source)
        if can.attach:
            record = await self._devices.plan(driver, pod, volume.name, device_options(volume.name, source))
        await in_thread(self._begin, directory, record)
        try:
            if can.attach:
                await self._devices.mount(driver, record, device_options(volume.name, source))
            try:
                await driver.call("mount", str(directory), options)
            except NotSupported:
                await self._bind(driver, record, directory)
        except VolumeError:
            if not record.device_mount:  # Otherwise the directory remains until teardown detaches the device.
                await in_thread(remove_if_empty, directory)
            raise

    async def _bind(self, driver: Driver, record: Record, directory: Path) -> None:
        if not record.device_mount or not await in_thread(self._mounter.mounted, Path(record.device_mount)):
            raise VolumeError(f"driver {driver.name} mounts neither volumes nor devices")
        await in_thread(self._mounter.bind, Path(record.device_mount), directory)

    async def _unmount(self, record: Record, directory: Path) -> None:
        try:
            driver, _ = await self._drivers.get(record.driver)
        except VolumeError:
            # A volume that was never mounted needs no driver.
            if bool(record.device_mount) or await in_thread(self._mounter.mounted, directory):
                raise
            await in_thread(_remove, directory)
            return
        try:
            await driver.call("unmount", str(directory))
        except NotSupported:
            await in_thread(self._mounter.unmount, directory)
        if record.device_mount:
            # A driver may remove the directory, but teardown is repeated while it exists.
            await in_thread(make_directories, directory)
            await self._devices.unmount(driver, record, directory)
        await in_thread(_remove, directory)

    def _begin(self, directory: Path, record: Record) -> None:
        self._records.write(directory, record)
        directory.mkdir(mode=0o750, exist_ok=True)

    async def _give_to_group(self, pod: Pod, directory: Path) -> None:
        if (group := fs_group(pod)) is None:
            return
        plugin = plugin_name(directory.parent.name)
        try:
            await change_group(self._context, pod, directory, group, run=in_thread, plugin=plugin)
        except OSError as error:
            # Many network file systems have no owners; their drivers receive the group.
            _log.warning("Failed to apply fsGroup to volume", extra={"volume": str(directory), "err": str(error)})


def _remove(directory: Path) -> None:
    if os.path.lexists(directory):
        directory.rmdir()
