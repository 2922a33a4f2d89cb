"""Names and paths of CSI volumes; drivers, controllers and earlier releases depend on them. No I/O."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.errors import VolumeError

PLUGIN = "kubernetes.io/csi"
KIND = "kubernetes.io~csi"
PREFIX = "kubernetes.io/csi: "
"""Start of the errors that do not come from a driver."""
_DRIVER = re.compile(r"[a-z0-9A-Z]([-.a-z0-9A-Z]{0,61}[a-z0-9A-Z])?", re.ASCII)
_VOLUME = re.compile(r"[^/\0]{1,253}")


def is_driver_name(name: str) -> bool:
    """Return whether *name* is a valid name of a driver, which is also a directory name."""
    return _DRIVER.fullmatch(name) is not None


def unique_name(driver: str, handle: str) -> str:
    """Return the name of a volume in the node status."""
    return f"{PLUGIN}/{driver}^{handle}"


def split_unique_name(name: str) -> tuple[str, str]:
    """Return driver and handle of a volume in the node status."""
    driver, _, handle = name.removeprefix(f"{PLUGIN}/").partition("^")
    return driver, handle


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Return the name of the VolumeAttachment."""
    return f"csi-{_sha256(handle + driver + node)}"


def inline_handle(pod_uid: str, volume: str) -> str:
    """Return the handle of an inline volume."""
    return f"csi-{_sha256(pod_uid + volume)}"


class BlockPaths(Struct, frozen=True):
    """Paths of a block volume."""

    volume: Path
    """``volumeDevices/<pv>``."""
    staging: Path
    publish_directory: Path

    @property
    def data_directory(self) -> Path:
        return self.volume / "data"

    @property
    def devices(self) -> Path:
        """Directory with a bind of the device per pod."""
        return self.volume / "dev"

    def device(self, pod_uid: str) -> Path:
        return self.devices / pod_uid

    def publish(self, pod_uid: str) -> Path:
        """Path that the driver creates: a device, or a bind of one."""
        return self.publish_directory / pod_uid


class Paths(Struct, frozen=True):
    """Paths below the root directory."""

    root: Path

    @property
    def plugin(self) -> Path:
        return self.root / "plugins" / PLUGIN

    @property
    def block_directory(self) -> Path:
        return self.plugin / "volumeDevices"

    def staging(self, driver: str, handle: str) -> Path:
        """Return the staging path of a file system.

        :raises VolumeError: the name of the driver is invalid.
        """
        if not is_driver_name(driver):
            raise VolumeError(f"{PREFIX}invalid driver name {driver[:63]!r}")
        return self.plugin / driver / _sha256(handle) / "globalmount"

    def block(self, name: str) -> BlockPaths:
        """Return the paths of a block volume by the name of its PersistentVolume.

        :raises VolumeError: the name is not a file name.
        """
        if not _VOLUME.fullmatch(name) or name in (".", ".."):
            raise VolumeError(f"{PREFIX}invalid volume name {name[:253]!r}")
        directory = self.block_directory
        return BlockPaths(directory / name, directory / "staging" / name, directory / "publish" / name)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
