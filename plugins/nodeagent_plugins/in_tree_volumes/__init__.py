"""In-tree volumes: PersistentVolumes with the sources that need no CSI driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent_plugins.in_tree_volumes.host_path import HostPathVolumes
from nodeagent_plugins.in_tree_volumes.local import LocalVolumes
from nodeagent_plugins.in_tree_volumes.nfs import NfsVolumes

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext
    from nodeagent.contracts.persistent_volumes import PersistentVolumeKind


@hookimpl
def nodeagent_provide_persistent_volume_kinds(context: CgroupsContext) -> Sequence[PersistentVolumeKind]:
    return [HostPathVolumes(), LocalVolumes(context), NfsVolumes()]
