"""Volumes: in-tree volume plugins, FlexVolume drivers and the volume manager.

spec: config.volumePluginDir
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.volume_report import VOLUMES_QUERY, VolumesRequest
from nodeagent_plugins.volumes.content import content_kinds
from nodeagent_plugins.volumes.empty_dir import EmptyDir
from nodeagent_plugins.volumes.flex.drivers import Drivers
from nodeagent_plugins.volumes.flex.kind import FlexVolumes
from nodeagent_plugins.volumes.host_path import HostPath
from nodeagent_plugins.volumes.loop import VolumeLoop, VolumesInUse
from nodeagent_plugins.volumes.manager import Manager
from nodeagent_plugins.volumes.mounts import LinuxMounter
from nodeagent_plugins.volumes.noswap import tmpfs_option
from nodeagent_plugins.volumes.report import VolumeReporter

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.context import AgentContext, CgroupsContext
    from nodeagent.contracts.hooks import PluginHost
    from nodeagent.contracts.persistent_volumes import ClaimResolver, PersistentVolumeKind
    from nodeagent.contracts.volumes import VolumeKind, VolumeManager


@hookimpl
def nodeagent_provide_volume_kinds(context: CgroupsContext) -> Sequence[VolumeKind]:
    mounter = LinuxMounter()
    noswap = tmpfs_option(context, mounter)
    return [
        EmptyDir(context, mounter, noswap),
        HostPath(),
        *content_kinds(context, mounter, noswap),
        FlexVolumes(context, mounter, Drivers(Path(context.config.volume_plugin_dir))),
    ]


@hookimpl
def nodeagent_provide_volume_manager(
    context: CgroupsContext,
    kinds: Sequence[VolumeKind],
    persistent_kinds: Sequence[PersistentVolumeKind],
    claims: ClaimResolver | None,
) -> VolumeManager:
    return Manager(context, kinds, LinuxMounter(), persistent_kinds, claims)


@hookimpl
def nodeagent_provide_local_queries(context: AgentContext) -> Sequence[LocalQuery]:
    if not isinstance(context.volumes, Manager):  # Another plugin provides the volume manager.
        return []
    reporter = VolumeReporter(context, context.volumes)
    return [LocalQuery(VOLUMES_QUERY, VolumesRequest, reporter.report)]


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext, plugins: PluginHost) -> Sequence[BackgroundLoop]:
    if not isinstance(context.volumes, Manager):  # Another plugin provides the volume manager.
        return []
    plugins.register(VolumesInUse(context.volumes), name="volumes.in_use")
    return [VolumeLoop(context.volumes)]
