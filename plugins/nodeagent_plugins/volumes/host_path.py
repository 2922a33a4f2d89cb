"""hostPath volumes: a file or directory of the node."""

from __future__ import annotations

from pathlib import Path

from nodeagent.base import host_path, identity
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.volumes.mounts import in_thread


class HostPath:
    """Checks the type of the path, or creates it for the types ``…OrCreate``, once per pod."""

    def __init__(self) -> None:
        self.name = f"{identity.current().label_domain}~host-path"
        self._checked: set[Path] = set()

    def supports(self, volume: Volume) -> bool:
        return volume.host_path is not None

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        assert volume.host_path is not None
        path, kind = volume.host_path.path, volume.host_path.type or ""
        if kind and directory not in self._checked:
            await in_thread(check_host_path, Path(path), kind)
            self._checked.add(directory)
        return MountedVolume(volume.name, path)

    async def needs_refresh(self, pod: Pod, volume: Volume, directory: Path) -> bool:
        return False

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        self._checked.discard(directory)


def check_host_path(path: Path, kind: str) -> None:
    """Check that *path* has the type *kind*; the types ``…OrCreate`` create it. Blocking.

    :raises VolumeError: the check failed.
    """
    try:
        host_path.check_host_path(path, kind)
    except host_path.HostPathError as error:
        raise VolumeError(str(error)) from error
