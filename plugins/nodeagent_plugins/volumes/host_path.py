"""hostPath volumes: a file or directory of the node."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from nodeagent.base import identity
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.volumes.mounts import in_thread

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "Directory": (stat.S_ISDIR, "directory"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


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

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        self._checked.discard(directory)


def check_host_path(path: Path, kind: str) -> None:
    """Check that *path* has the type *kind*; the types ``…OrCreate`` create it. Blocking.

    :raises VolumeError: the check failed.
    """
    if kind not in _CHECKS:
        raise VolumeError(f"hostPath type check failed: invalid hostPath type {kind!r}")
    fits, noun = _CHECKS[kind]
    try:
        if kind == "DirectoryOrCreate":
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif kind == "FileOrCreate" and not path.exists():
            path.touch(mode=0o644)
        if fits(path.stat().st_mode):
            return
    except FileExistsError:
        pass  # The path exists; its type is checked below.
    except OSError as error:
        raise VolumeError(f"hostPath type check failed: {path}: {error.strerror}") from error
    raise VolumeError(f"hostPath type check failed: {path} is not a {noun}")
