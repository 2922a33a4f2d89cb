"""Capability ``volumes``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from nodeagent import hookimpl
from nodeagent.base.plugin_rpc import Method, methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.volumes import MountedVolume, VolumeKind
from nodeagent.errors import PluginError, PluginTimeout, VolumeError
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.external_plugins.messages import encode, encode_pod
from nodeagent_plugins.external_plugins.session import Session

SECONDS = 100.0
"""Time limit of a call; volumes of pods wait concurrently."""
_METHODS = methods_of(api.DESCRIPTOR.services_by_name["Volumes"])


class Volumes:
    """Provides the plugin's kind of volumes."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @hookimpl
    def nodeagent_provide_volume_kinds(self) -> Sequence[VolumeKind]:
        return (ExternalVolumeKind(self._session),)


class ExternalVolumeKind:
    """Volumes of the drivers in the plugin's settings; implements the contract ``VolumeKind``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.name = f"external~{session.plugin.name}"

    def supports(self, volume: Volume) -> bool:
        drivers = self._session.plugin.volume_drivers
        driver = volume.csi.get("driver") if volume.csi is not None else None
        return driver in drivers or (volume.flex_volume is not None and volume.flex_volume.driver in drivers)

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        request = api.SetUpVolumeRequest(pod=encode_pod(pod), volume=encode(volume), directory=str(directory))
        response = await self._call("SetUpVolume", _METHODS["SetUpVolume"], request)
        path = response.host_path or str(directory)
        if not PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise VolumeError(f"plugin {self._session.plugin.name}: SetUpVolume returned the path {path[:200]!r}")
        return MountedVolume(volume.name, path, readonly=response.readonly)

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        request = api.TearDownVolumeRequest(pod_uid=pod_uid, directory=str(directory))
        await self._call("TearDownVolume", _METHODS["TearDownVolume"], request)

    async def _call(self, name: str, method: Method, request: Any) -> Any:
        try:
            return await self._session.call(name, method, request, SECONDS)
        except PluginTimeout:  # A failure of the plugin, not of the volume.
            raise
        except PluginError as error:
            raise VolumeError(str(error)) from error
