"""Block volumes: stage, map, unmap and unstage."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from nodeagent.base.plugin_rpc import RpcError
from nodeagent.contracts.persistent_volumes import DeviceOnDisk, MountRequest, VolumeMode, VolumeOnDisk
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import TransientVolumeError, UncertainVolumeError, VolumeError
from nodeagent_plugins.csi import block_devices, data_file
from nodeagent_plugins.csi.attachments import Attachments
from nodeagent_plugins.csi.data_file import VolumeData
from nodeagent_plugins.csi.directories import make_directory, unlink
from nodeagent_plugins.csi.driver_objects import DriverObjects, check_lifecycle
from nodeagent_plugins.csi.drivers import MULTI_WRITER, STAGE_UNSTAGE, Drivers, Step, volume_error
from nodeagent_plugins.csi.names import PREFIX, BlockPaths, Paths, attachment_name, unique_name
from nodeagent_plugins.csi.requests import volume_capability
from nodeagent_plugins.csi.sources import CallObjects, Source, pod_information, source_of
from nodeagent_plugins.csi.threads import Threads

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_log = logging.getLogger(__name__)


class Blocks:
    """Steps of block volumes; their directories are named after the PersistentVolume."""

    def __init__(
        self,
        context: CgroupsContext,
        drivers: Drivers,
        specs: DriverObjects,
        objects: CallObjects,
        attachments: Attachments,
        threads: Threads,
    ) -> None:
        self._context, self._drivers, self._specs, self._objects = context, drivers, specs, objects
        self._attachments, self._threads = attachments, threads
        self._paths = Paths(context.root_dir)
        self._created: set[str] = set()
        """Volumes whose data file was written by this process; others may be staged."""

    async def stage(self, request: MountRequest) -> DeviceOnDisk:
        source, name = source_of(request.spec), request.spec.name
        paths = self._paths.block(name)
        device = DeviceOnDisk(
            unique_name(source.driver, source.handle),
            name,
            paths.staging,
            VolumeMode.BLOCK,
            device_path=request.device_path,
        )
        driver = self._drivers.get(source.driver, f"{PREFIX}blockMapper.SetUpDevice failed to get CSI client")
        async with driver.step(migrated=source.migrated) as step:
            attempt = f"{PREFIX}blockMapper.SetupDevice failed to get volume attachment"
            publish_context = await self._attachments.publish_context(source, attempt)
            capability = await self._capability(step, source)
            secrets = await self._objects.secret(source.stage_secret, "NodeStageSecretRef")
            await self._threads.run(self._save, paths, name, source)
            try:
                if not await step.has(STAGE_UNSTAGE):
                    return device
                await self._threads.run(make_directory, self._context.root_dir, paths.staging)
                await step.call(
                    "NodeStageVolume",
                    volume_id=source.handle,
                    publish_context=publish_context,
                    staging_target_path=str(paths.staging),
                    volume_capability=capability,
                    secrets=secrets,
                    volume_context=source.attributes,
                )
            except RpcError as error:
                failure = volume_error(error)
                if not isinstance(failure, UncertainVolumeError) and not request.reconstructed:
                    await self._clean_up(paths, name)
                raise failure from error
        return device

    async def unstage(self, device: DeviceOnDisk) -> None:
        paths = self._paths.block(device.name)
        for directory in (paths.devices, paths.publish_directory):
            if used := await self._threads.run(block_devices.users, directory):
                raise VolumeError(f'the device "{directory}" is still referenced from other Pods [{" ".join(used)}]')
        try:
            data = await self._threads.run(data_file.load, self._context.root_dir, paths.data_directory)
        except FileNotFoundError:
            await self._threads.run(block_devices.remove_volume, self._context.root_dir, paths, data_file.NAME)
            return
        driver = self._drivers.get(data.driver, f"{PREFIX}blockMapper.TearDownDevice failed to get CSI client")
        if await self._threads.run(os.path.lexists, paths.staging):
            async with driver.step() as step:
                try:
                    if await step.has(STAGE_UNSTAGE):
                        await step.call(
                            "NodeUnstageVolume", volume_id=data.handle, staging_target_path=str(paths.staging)
                        )
                except RpcError as error:
                    raise volume_error(error, f"{PREFIX}blockMapper.unstageVolumeForBlock failed") from error
        await self._threads.run(block_devices.remove_volume, self._context.root_dir, paths, data_file.NAME)
        self._created.discard(device.name)

    async def publish(self, request: MountRequest) -> MountedVolume:
        source, pod, name = source_of(request.spec, request.pod), request.pod, request.spec.name
        paths = self._paths.block(name)
        driver = self._drivers.get(source.driver, f"{PREFIX}blockMapper.MapPodDevice failed to get CSI client")
        target = paths.publish(pod.uid)
        async with driver.step(migrated=source.migrated) as step:
            spec = await self._specs.find(source.driver)
            check_lifecycle(spec, source.driver, source.lifecycle)
            attempt = f"{PREFIX}blockMapper.MapPodDevice failed to get volume attachment"
            publish_context = await self._attachments.publish_context(source, attempt)
            secrets = await self._objects.secret(source.publish_secret, "NodePublishSecretRef")
            attributes = dict(source.attributes)
            if spec is not None and spec.pod_info_on_mount:
                attributes |= pod_information(pod, ephemeral=source.inline)
            capability = await self._capability(step, source)
            await self._threads.run(make_directory, self._context.root_dir, paths.publish_directory)
            await self._threads.run(self._save, paths, name, source)
            try:
                await step.call(
                    "NodePublishVolume",
                    volume_id=source.handle,
                    publish_context=publish_context,
                    staging_target_path=str(paths.staging),
                    target_path=str(target),
                    volume_capability=capability,
                    readonly=source.read_only,
                    secrets=secrets,
                    volume_context=attributes,
                )
            except RpcError as error:
                raise volume_error(error) from error
        try:
            device = await self._threads.run(block_devices.resolve_device, target)
            await self._threads.run(
                block_devices.map_device,
                self._context.root_dir,
                paths,
                pod.uid,
                device,
                request.directory,
                read_only=source.read_only,
            )
        except VolumeError as error:  # The driver has published the volume.
            raise UncertainVolumeError(str(error)) from error
        link = str(request.directory)
        return MountedVolume(request.spec.volume.name, link, readonly=source.read_only, device_path=link)

    async def unpublish(self, volume: VolumeOnDisk) -> None:
        """Release the volume of a pod; the pod's link is removed last, because it names the volume after a restart."""
        paths, uid = self._paths.block(volume.name), volume.pod_uid
        target = paths.publish(uid)
        try:
            data = await self._threads.run(data_file.load, self._context.root_dir, paths.data_directory)
        except FileNotFoundError as error:
            for path in (target, paths.device(uid)):
                if await self._threads.run(os.path.lexists, path):
                    raise VolumeError(
                        f"{PREFIX}unmounter failed to load volume data file [{paths.data_directory}]: {error.strerror}"
                    ) from error
            await self._threads.run(unlink, self._context.root_dir, volume.directory)
            return
        driver = self._drivers.get(data.driver, f"{PREFIX}blockMapper.UnmapPodDevice failed to get CSI client")
        await self._threads.run(block_devices.unmap_device, self._context.root_dir, paths, uid)
        async with driver.step() as step:
            try:
                await step.call("NodeUnpublishVolume", volume_id=data.handle, target_path=str(target))
            except RpcError as error:
                raise volume_error(error, f"{PREFIX}blockMapper.unpublishVolumeForBlock failed") from error
        await self._threads.run(block_devices.remove_published, self._context.root_dir, target)
        await self._threads.run(unlink, self._context.root_dir, volume.directory)

    def _save(self, paths: BlockPaths, name: str, source: Source) -> None:
        node = self._context.node_name
        exists = (paths.data_directory / data_file.NAME).exists()
        make_directory(self._context.root_dir, paths.data_directory)
        attachment = attachment_name(source.handle, source.driver, node)
        data = VolumeData(source.driver, source.handle, name, node, attachment)
        data_file.save(self._context.root_dir, paths.data_directory, data)
        if not exists:
            self._created.add(name)

    async def _clean_up(self, paths: BlockPaths, name: str) -> None:
        """Remove the directories of a volume that the driver has certainly not staged."""
        if name not in self._created:
            return
        try:
            await self._threads.run(block_devices.remove_volume, self._context.root_dir, paths, data_file.NAME)
        except VolumeError as error:
            _log.error(
                "Failed to clean up block volume directory", extra={"path": str(paths.volume), "err": str(error)}
            )
        else:
            self._created.discard(name)

    async def _capability(self, step: Step, source: Source) -> object:
        try:
            multi_writer = await step.has(MULTI_WRITER)
        except RpcError as error:
            raise TransientVolumeError(f"{PREFIX}failed to check capabilities: {error}") from error
        return volume_capability(source.access_mode, multi_writer=multi_writer, block=True)
