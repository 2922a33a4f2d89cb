"""Records of mounted volumes on disk, for teardown after a restart of the agent. Blocking."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nodeagent.base.atomic_file import write_private
from nodeagent_plugins.volumes.trees import make_directories, remove_if_empty


class Record(msgspec.Struct, frozen=True):
    """Details for the teardown of one volume."""

    driver: str
    device_mount: str = ""
    """Mount point of the device for all pods; empty if the driver has no devices."""
    volume: str = ""
    """Name of the volume in ``detach``."""
    attached_here: bool = False
    """True if the agent attached the device and must detach it."""


class Records:
    """Stores a file ``pods/<uid>/plugins/<kind>/<driver>/<volume>.json`` per volume."""

    def __init__(self, pods: Path, kind: str) -> None:
        self._pods, self._kind = pods, kind

    def path(self, directory: Path) -> Path:
        """Return the record file of the volume in ``pods/<uid>/volumes/<driver>/<volume>``."""
        pod = directory.parents[2]
        return pod / "plugins" / self._kind / directory.parent.name / f"{directory.name}.json"

    def write(self, directory: Path, record: Record) -> None:
        path = self.path(directory)
        make_directories(path.parent)
        write_private(path, msgspec.json.encode(record))

    def read(self, directory: Path) -> Record | None:
        return _read(self.path(directory))

    def remove(self, directory: Path) -> None:
        path = self.path(directory)
        path.unlink(missing_ok=True)
        remove_if_empty(*list(path.parents)[:3])

    def share_device(self, directory: Path, device_mount: str) -> bool:
        """Return whether the volume of another directory has the device mounted."""
        own = self.path(directory)
        found = (path for path in self._pods.glob(f"*/plugins/{self._kind}/*/*.json") if path != own)
        return any(record is not None and record.device_mount == device_mount for record in map(_read, found))


def _read(path: Path) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (FileNotFoundError, ValueError, RecursionError):
        return None
