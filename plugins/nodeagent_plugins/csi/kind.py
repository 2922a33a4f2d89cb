"""CSI volumes as a kind of the volume manager."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.plugin_rpc import RpcError
from nodeagent.contracts.persistent_volumes import (
    DeviceOnDisk,
    MountRequest,
    VolumeFigures,
    VolumeMode,
    VolumeOnDisk,
    VolumeSpec,
)
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import ApiError, UncertainVolumeError, VolumeError
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.persistent_volume import CsiPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from nodeagent.model.pod import Volume
from nodeagent_plugins.csi import data_file
from nodeagent_plugins.csi.attachments import Attachments
from nodeagent_plugins.csi.block import Blocks
from nodeagent_plugins.csi.data_file import EPHEMERAL, VolumeData
from nodeagent_plugins.csi.driver_objects import DriverObjects, attach_required
from nodeagent_plugins.csi.drivers import EXPAND, MULTI_WRITER, Drivers, volume_error
from nodeagent_plugins.csi.figures import measure
from nodeagent_plugins.csi.filesystem import FileSystems
from nodeagent_plugins.csi.names import KIND, PLUGIN, PREFIX, Paths, inline_handle, unique_name
from nodeagent_plugins.csi.requests import volume_capability
from nodeagent_plugins.csi.sources import CallObjects, find_source, source_of
from nodeagent_plugins.csi.threads import Threads

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext
    from nodeagent_plugins.csi.registration import LimitRefresh

_IN_USE, _INFEASIBLE = "InUse", "Infeasible"
_INFEASIBLE_CODES = frozenset({"InvalidArgument", "OutOfRange", "NotFound"})

_log = logging.getLogger(__name__)


class CsiVolumes:
    """Volumes of CSI drivers, as file systems and block devices.

    Implements every protocol of :mod:`nodeagent.contracts.persistent_volumes` for kinds.

    :param limits: updates the limits of drivers; ``None`` if limits cannot change.
    """

    name = KIND
    supports_block = True

    def __init__(
        self, context: CgroupsContext, drivers: Drivers, specs: DriverObjects, limits: LimitRefresh | None = None
    ) -> None:
        self._context, self._drivers, self._specs, self._limits = context, drivers, specs, limits
        self._threads = Threads()
        context.cleanup.callback(self._threads.close)
        self._objects, self._attachments = CallObjects(context), Attachments(context, specs)
        self._paths = Paths(context.root_dir)
        self._file_systems = FileSystems(context, drivers, specs, self._objects, self._attachments, self._threads)
        self._blocks = Blocks(context, drivers, specs, self._objects, self._attachments, self._threads)

    # --- names ------------------------------------------------------------------------------------------------

    def supports(self, spec: VolumeSpec) -> bool:
        return find_source(spec) is not None

    def plugin_name(self, spec: VolumeSpec) -> str:
        return f"{PLUGIN}:{source_of(spec).driver}"

    def unique_name(self, spec: VolumeSpec) -> str:
        source = source_of(spec)
        return "" if source.inline else unique_name(source.driver, source.handle)

    # --- attachment -------------------------------------------------------------------------------------------

    async def attachable(self, spec: VolumeSpec) -> bool:
        source = source_of(spec)
        return not source.inline and attach_required(await self._specs.find(source.driver))

    async def wait_for_attach(self, spec: VolumeSpec, device_path: str) -> str:
        if not await self.attachable(spec):
            return ""
        return await self._attachments.wait(source_of(spec), spec.name)

    async def attachments(self) -> Sequence[str]:
        return await self._attachments.requested()

    async def detach(self, unique_name: str) -> None:
        await self._attachments.delete(unique_name)

    async def limit_exceeded(self, spec: VolumeSpec) -> bool:
        """Return whether the driver's limit prevents the attachment, and update the limit in CSINode.

        Only drivers whose CSIDriver sets ``nodeAllocatableUpdatePeriodSeconds`` are considered.
        """
        source = source_of(spec)
        rules = self._specs.cached(source.driver)
        period = rules.node_allocatable_update_period_seconds if rules is not None else None
        if self._limits is None or not period or source.inline:
            return False
        try:
            exceeded = await self._attachments.is_exhausted(source)
        except ApiError as error:
            fields = {"driver": source.driver, "volume": spec.name, "err": str(error)}
            _log.warning("Failed to read volume attachment", extra=fields)
            return False
        if exceeded:
            await self._limits.refresh(source.driver)
        return exceeded

    async def needs_refresh(self, spec: VolumeSpec) -> bool:
        """Return whether the driver republishes its volumes at each pod sync (``requiresRepublish``).

        :raises TransientVolumeError: the driver's object cannot be read.
        """
        rules = await self._specs.find(source_of(spec).driver)
        return bool(rules is not None and rules.requires_republish)

    async def supports_label(self, spec: VolumeSpec) -> bool:
        """Return whether the volume can be mounted with a label (``seLinuxMount``).

        :raises TransientVolumeError: the driver's object cannot be read.
        """
        source = source_of(spec)
        rules = await self._specs.find(source.driver)
        return not source.inline and bool(rules is not None and rules.se_linux_mount)

    # --- mount ------------------------------------------------------------------------------------------------

    async def mount_device(self, request: MountRequest) -> DeviceOnDisk:
        return await self._steps(request.spec.mode).stage(request)

    async def unmount_device(self, device: DeviceOnDisk) -> None:
        await self._steps(device.mode).unstage(device)

    async def mount(self, request: MountRequest) -> MountedVolume:
        return await self._steps(request.spec.mode).publish(request)

    async def unmount(self, volume: VolumeOnDisk) -> None:
        await self._steps(volume.mode).unpublish(volume)

    def _steps(self, mode: VolumeMode) -> FileSystems | Blocks:
        return self._blocks if mode is VolumeMode.BLOCK else self._file_systems

    # --- expansion and figures --------------------------------------------------------------------------------

    async def expand(self, volume: VolumeOnDisk, spec: VolumeSpec, size: int) -> bool:
        source = source_of(spec)
        driver = self._drivers.get(source.driver, f"{PREFIX}Expander.NodeExpand failed to get CSI client")
        block = volume.mode is VolumeMode.BLOCK
        async with driver.step(migrated=source.migrated) as step:
            try:
                if not await step.has(EXPAND):
                    return False
                multi_writer = await step.has(MULTI_WRITER)
            except RpcError as error:
                attempt = "Expander.NodeExpand failed to check if node supports expansion "
                raise volume_error(error, attempt) from error
            secrets = await self._objects.secret(source.expand_secret, "NodeExpandSecretRef")
            path = volume.directory if block else volume.directory / "mount"
            if block:
                path = Path(await self._threads.run(os.path.realpath, path))
            staging = self._paths.block(volume.name).staging if block else None
            try:
                await step.call(
                    "NodeExpandVolume",
                    volume_id=source.handle,
                    volume_path=str(path),
                    capacity_range={"required_bytes": size},
                    staging_target_path=str(staging or self._paths.staging(source.driver, source.handle)),
                    volume_capability=volume_capability(
                        source.access_mode,
                        multi_writer=multi_writer,
                        block=block,
                        fs_type=source.fs_type,
                        mount_flags=source.mount_options,
                    ),
                    secrets=secrets,
                )
            except RpcError as error:
                raise self._expansion_error(error) from error
        return True

    def _expansion_error(self, error: RpcError) -> VolumeError:
        text = f"Expander.NodeExpand failed to expand the volume : {error}"
        if error.code == "FailedPrecondition":
            return VolumeError(text, reason=_IN_USE, transient=False)
        release = self._context.release.release
        if error.code in _INFEASIBLE_CODES and (release.major, release.minor) >= (1, 32):
            return VolumeError(
                f"Expander.NodeExpand failed to expand the volume {error}", reason=_INFEASIBLE, transient=False
            )
        failure = volume_error(error)
        return UncertainVolumeError(text) if isinstance(failure, UncertainVolumeError) else VolumeError(text)

    async def measure(
        self,
        volume: VolumeOnDisk,
        spec: VolumeSpec,
    ) -> VolumeFigures | None:
        source = source_of(spec)
        handle = inline_handle(volume.pod_uid, spec.volume.name) if source.inline else source.handle
        driver = self._drivers.get(source.driver, f"{PREFIX}failed to get CSI client")
        path = volume.directory / "mount"
        if volume.mode is VolumeMode.BLOCK:
            path = self._paths.block(volume.name).device(volume.pod_uid)
        health = self._context.gates.enabled("CSIVolumeHealth")
        return await measure(driver, handle, path, health=health, optional=self._usage_is_optional)

    @property
    def _usage_is_optional(self) -> bool:
        release = self._context.release.release
        return (release.major, release.minor) >= (1, 32)

    # --- after a restart --------------------------------------------------------------------------------------

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        block = mode is VolumeMode.BLOCK
        data_directory = self._paths.block(directory.name).data_directory if block else directory
        try:
            data = data_file.load(self._context.root_dir, data_directory)
        except FileNotFoundError as error:
            raise VolumeError(
                f"{PREFIX}unmounter failed to load volume data file [{data_directory}]: {error.strerror}"
            ) from error
        inline = data.lifecycle == EPHEMERAL
        return VolumeOnDisk(
            pod_uid,
            directory.name,
            directory,
            mode,
            "" if inline else unique_name(data.driver, data.handle),
            data.selinux_label,
            _known_spec(directory.name, data, mode),
        )

    def devices_on_disk(self) -> Sequence[DeviceOnDisk]:
        devices = []
        for file in sorted(self._paths.plugin.glob(f"*/*/{data_file.NAME}")):
            data = self._load(file.parent)
            if data is None:
                continue
            path = file.parent / "globalmount"
            if path != self._paths.staging(data.driver, data.handle):
                _log.error("Ignoring volume data file in wrong directory", extra={"path": str(file)})
                continue
            name = unique_name(data.driver, data.handle)
            devices.append(DeviceOnDisk(name, data.handle, path, selinux_label=data.selinux_label))
        for file in sorted(self._paths.block_directory.glob(f"*/data/{data_file.NAME}")):
            data = self._load(file.parent)
            if data is not None:
                volume = file.parent.parent.name
                paths = self._paths.block(volume)
                name = unique_name(data.driver, data.handle)
                devices.append(DeviceOnDisk(name, volume, paths.staging, VolumeMode.BLOCK))
        return devices

    def _load(self, directory: Path) -> VolumeData | None:
        """Return the content of a data file, or ``None`` if it is invalid; nothing is removed then."""
        try:
            return data_file.load(self._context.root_dir, directory)
        except (VolumeError, OSError) as error:
            _log.error("Failed to load volume data file", extra={"path": str(directory), "err": str(error)})
            return None


def _known_spec(name: str, data: VolumeData, mode: VolumeMode) -> VolumeSpec:
    """Return the parts of the source that the data file contains."""
    if data.lifecycle == EPHEMERAL:
        return VolumeSpec(name, Volume(name=name, csi={"driver": data.driver}), mode=mode)
    source = CsiPersistentVolumeSource(driver=data.driver, volume_handle=data.handle)
    volume = PersistentVolume(metadata=ObjectMeta(name=data.name or name), spec=PersistentVolumeSpec(csi=source))
    return VolumeSpec(name, Volume(name=name), volume, mode=mode)
