"""File system volumes: stage, publish, unpublish and unstage."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.mounts.points import is_mount_point
from nodeagent.base.plugin_rpc import RpcError
from nodeagent.contracts.persistent_volumes import DeviceOnDisk, MountRequest, VolumeOnDisk
from nodeagent.contracts.volume_ownership import change_group
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import TransientVolumeError, UncertainVolumeError, VolumeError
from nodeagent.model.persistent_volume import READ_WRITE_ONCE, READ_WRITE_ONCE_POD
from nodeagent.model.pod import Pod
from nodeagent_plugins.csi import data_file
from nodeagent_plugins.csi.attachments import Attachments
from nodeagent_plugins.csi.data_file import VolumeData
from nodeagent_plugins.csi.directories import (
    check_mounted,
    make_directory,
    remove_directory,
    remove_mount_directory,
)
from nodeagent_plugins.csi.driver_objects import (
    FS_GROUP_FILE,
    FS_GROUP_NONE,
    DriverObjects,
    check_lifecycle,
    fs_group_policy,
)
from nodeagent_plugins.csi.drivers import MOUNT_GROUP, MULTI_WRITER, STAGE_UNSTAGE, Drivers, Step, volume_error
from nodeagent_plugins.csi.names import PLUGIN, PREFIX, Paths, attachment_name, unique_name
from nodeagent_plugins.csi.requests import volume_capability
from nodeagent_plugins.csi.selinux import needs_relabel
from nodeagent_plugins.csi.sources import CallObjects, Source, pod_information, source_of
from nodeagent_plugins.csi.threads import Threads

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_log = logging.getLogger(__name__)


class FileSystems:
    """Steps of file system volumes.

    The data file is written before the driver is called and removed after the volume is released, so that a volume
    can be released after a crash at any point.
    """

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
        self._created: set[Path] = set()
        """Data files that this process has written; others may belong to volumes that are staged."""

    # --- stage ------------------------------------------------------------------------------------------------

    async def stage(self, request: MountRequest) -> DeviceOnDisk:
        source = source_of(request.spec)
        path = self._paths.staging(source.driver, source.handle)
        label = request.selinux_label if await self._mounts_with_label(source) else ""
        device = DeviceOnDisk(
            unique_name(source.driver, source.handle),
            request.spec.name,
            path,
            device_path=request.device_path,
            selinux_label=label,
        )
        driver = self._drivers.get(source.driver, f"{PREFIX}attacher.MountDevice failed to create newCsiDriverClient")
        async with driver.step(migrated=source.migrated) as step:
            try:
                if not await step.has(STAGE_UNSTAGE):
                    return device
            except RpcError as error:
                raise volume_error(error) from error
            attempt = f"{PREFIX}attacher.MountDevice failed to fetch publishContext"
            publish_context = await self._attachments.publish_context(source, attempt)
            secrets = await self._objects.secret(source.stage_secret, "NodeStageSecretRef")
            capability = await self._capability(step, source, request.pod, label)
            await self._threads.run(make_directory, self._context.root_dir, path)
            data = VolumeData(source.driver, source.handle, selinux_label=label)
            await self._threads.run(self._save, path.parent, data)
            try:
                await step.call(
                    "NodeStageVolume",
                    volume_id=source.handle,
                    publish_context=publish_context,
                    staging_target_path=str(path),
                    volume_capability=capability,
                    secrets=secrets,
                    volume_context=source.attributes,
                )
            except RpcError as error:
                failure = volume_error(error)
                if not isinstance(failure, UncertainVolumeError) and not request.reconstructed:
                    await self._clean_up(path)
                raise failure from error
        try:
            await self._threads.run(check_mounted, self._context.root_dir, path)
        except VolumeError as error:
            raise UncertainVolumeError(str(error)) from error
        return device

    async def unstage(self, device: DeviceOnDisk) -> None:
        path = device.path
        try:
            data = await self._threads.run(data_file.load, self._context.root_dir, path.parent)
        except FileNotFoundError:
            await self._threads.run(_remove_unrecorded, self._context.root_dir, path)
            return
        if path != self._paths.staging(data.driver, data.handle):
            raise VolumeError(f"{PREFIX}attacher.UnmountDevice failed: [{path.parent}] has the data of another volume")
        driver = self._drivers.get(data.driver, f"{PREFIX}attacher.UnmountDevice failed to create newCsiDriverClient")
        async with driver.step() as step:
            try:
                if await step.has(STAGE_UNSTAGE):
                    await step.call("NodeUnstageVolume", volume_id=data.handle, staging_target_path=str(path))
            except RpcError as error:
                raise volume_error(error, f"{PREFIX}attacher.UnmountDevice failed") from error
        await self._threads.run(remove_mount_directory, self._context.root_dir, path, data_file.NAME)
        self._created.discard(path.parent)

    # --- publish ----------------------------------------------------------------------------------------------

    async def publish(self, request: MountRequest) -> MountedVolume:
        source, directory, pod = source_of(request.spec, request.pod), request.directory, request.pod
        driver = self._drivers.get(source.driver, f"{PREFIX}mounter.SetUpAt failed to get CSI client")
        target = directory / "mount"
        async with driver.step(migrated=source.migrated) as step:
            spec = await self._specs.find(source.driver)
            check_lifecycle(spec, source.driver, source.lifecycle)
            policy = fs_group_policy(spec)
            staging, publish_context = "", {}
            try:
                if not source.inline and await step.has(STAGE_UNSTAGE):
                    staging = str(self._paths.staging(source.driver, source.handle))
            except RpcError as error:
                attempt = f"{PREFIX}mounter.SetUpAt failed to check for STAGE_UNSTAGE_VOLUME capability"
                raise volume_error(error, attempt) from error
            attempt = f"{PREFIX}mounter.SetUpAt failed to fetch publishContext"
            publish_context = await self._attachments.publish_context(source, attempt)
            secrets = await self._objects.secret(source.publish_secret, "NodePublishSecretRef")
            attributes = dict(source.attributes)
            if spec is not None and spec.pod_info_on_mount:
                attributes |= pod_information(pod, ephemeral=source.inline)
            tokens = await self._objects.tokens(spec, pod)
            if spec is not None and spec.service_account_token_in_secrets:
                secrets |= tokens
            else:
                attributes |= tokens
            label = request.selinux_label if not source.inline and await self._mounts_with_label(source) else ""
            capability = await self._capability(step, source, pod, label)
            await self._threads.run(make_directory, self._context.root_dir, directory)
            data = VolumeData(
                source.driver,
                source.handle,
                request.spec.name,
                self._context.node_name,
                attachment_name(source.handle, source.driver, self._context.node_name),
                source.lifecycle,
                label,
            )
            try:
                await self._threads.run(self._save, directory, data)
            except VolumeError as error:
                raise TransientVolumeError(
                    f"{PREFIX}mounter.SetUpAt failed to save volume info data: {error}"
                ) from error
            try:
                await step.call(
                    "NodePublishVolume",
                    volume_id=source.handle,
                    publish_context=publish_context,
                    staging_target_path=staging,
                    target_path=str(target),
                    volume_capability=capability,
                    readonly=source.read_only,
                    secrets=secrets,
                    volume_context=attributes,
                )
            except RpcError as error:
                failure = volume_error(error)
                final = not isinstance(failure, UncertainVolumeError)
                # The volume of a remount, or of an earlier process, may still be mounted.
                if final and not request.remount and not request.reconstructed:
                    await self._clean_up(target)
                raise failure from error
            delegated = MOUNT_GROUP in (driver.capabilities or ())
        try:
            await self._threads.run(check_mounted, self._context.root_dir, target)
        except VolumeError as error:
            raise UncertainVolumeError(str(error)) from error
        if not delegated:
            await self._apply_fs_group(source, pod, target, policy)
        relabel = not label and await self._threads.run(needs_relabel, target)
        return MountedVolume(request.spec.volume.name, str(target), readonly=source.read_only, selinux_relabel=relabel)

    async def unpublish(self, volume: VolumeOnDisk) -> None:
        directory = volume.directory
        target = directory / "mount"
        try:
            data = await self._threads.run(data_file.load, self._context.root_dir, directory)
        except FileNotFoundError:
            await self._threads.run(_remove_without_data, self._context.root_dir, directory)
            return
        if volume.unique_name and volume.unique_name != unique_name(data.driver, data.handle):
            raise VolumeError(f"{PREFIX}Unmounter.TearDownAt failed: [{directory}] has the data of another volume")
        driver = self._drivers.get(data.driver, f"{PREFIX}Unmounter.TearDownAt failed to get CSI client")
        async with driver.step() as step:
            try:
                await step.call("NodeUnpublishVolume", volume_id=data.handle, target_path=str(target))
            except RpcError as error:
                raise volume_error(error, f"{PREFIX}Unmounter.TearDownAt failed") from error
        try:
            await self._threads.run(remove_mount_directory, self._context.root_dir, target, data_file.NAME)
        except VolumeError as error:
            raise VolumeError(f"{PREFIX}Unmounter.TearDownAt failed to clean mount dir [{target}]: {error}") from error
        self._created.discard(directory)

    # --- parts ------------------------------------------------------------------------------------------------

    def _save(self, directory: Path, data: VolumeData) -> None:
        exists = (directory / data_file.NAME).exists()
        data_file.save(self._context.root_dir, directory, data)
        if not exists:
            self._created.add(directory)

    async def _clean_up(self, mount: Path) -> None:
        """Remove the directories of a volume that the driver has certainly not mounted."""
        if mount.parent not in self._created:
            return
        try:
            await self._threads.run(remove_mount_directory, self._context.root_dir, mount, data_file.NAME)
        except VolumeError as error:
            _log.error("Failed to remove mount dir after error", extra={"path": str(mount), "err": str(error)})
        else:
            self._created.discard(mount.parent)

    async def _capability(self, step: Step, source: Source, pod: Pod, label: str) -> object:
        security = pod.spec.security_context
        group = security.fs_group if security is not None else None
        try:
            delegated = await step.has(MOUNT_GROUP)
            multi_writer = await step.has(MULTI_WRITER)
        except RpcError as error:
            raise TransientVolumeError(
                f"{PREFIX}failed to determine if the node service has VOLUME_MOUNT_GROUP capability: {error}"
            ) from error
        flags = [*source.mount_options, *([f'context="{label}"'] if label else [])]
        return volume_capability(
            source.access_mode,
            multi_writer=multi_writer,
            fs_type=source.fs_type,
            mount_flags=flags,
            mount_group=group if delegated else None,
        )

    async def _mounts_with_label(self, source: Source) -> bool:
        spec = await self._specs.find(source.driver)
        return bool(spec is not None and spec.se_linux_mount)

    async def _apply_fs_group(self, source: Source, pod: Pod, target: Path, policy: str) -> None:
        security = pod.spec.security_context
        if security is None or security.fs_group is None or not applies_fs_group(source, policy, self._both_modes):
            return
        plugin, run, migrated = f"{PLUGIN}:{source.driver}", self._threads.run, source.migrated
        try:
            await change_group(self._context, pod, target, security.fs_group, run=run, plugin=plugin, migrated=migrated)
        except OSError as error:
            raise UncertainVolumeError(f"applyFSGroup failed for vol {source.handle}: {error}") from error

    @property
    def _both_modes(self) -> bool:
        release = self._context.release.release
        return (release.major, release.minor) >= (1, 32)


def applies_fs_group(source: Source, policy: str, single_pod: bool) -> bool:
    """Return whether the agent changes the group of the files of a volume.

    :param policy: ``fsGroupPolicy`` of the driver.
    :param single_pod: ReadWriteOncePod counts as ReadWriteOnce.
    """
    if policy == FS_GROUP_NONE or source.read_only:
        return False
    if policy == FS_GROUP_FILE:
        return True
    if not source.fs_type:
        return False
    modes = {READ_WRITE_ONCE, READ_WRITE_ONCE_POD} if single_pod else {READ_WRITE_ONCE}
    return source.inline or bool(modes & set(source.access_modes))


def _remove_unrecorded(root: Path, path: Path) -> None:
    """Remove the empty directories of a volume without data file, which was not staged.

    :raises VolumeError: something is mounted.
    """
    if is_mount_point(path):
        raise VolumeError(f"{PREFIX}[{path}] is a mount point without volume data file; unmount it manually")
    remove_directory(root, path)
    remove_directory(root, path.parent)


def _remove_without_data(root: Path, directory: Path) -> None:
    """Remove the directory of a volume whose data file does not exist, if it is empty.

    :raises VolumeError: it is not empty, so the volume may be mounted.
    """
    try:
        remove_directory(root, directory)
    except VolumeError as error:
        file = directory / data_file.NAME
        raise VolumeError(
            f"{PREFIX}unmounter failed to load volume data file [{directory}]: open {file}: no such file or directory"
        ) from error
