"""Root file systems of containers: the image layers with a writable layer on top."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.images.store import tree_usage

_log = logging.getLogger(__name__)
MAX_OPTIONS_BYTES = 4000  # the kernel takes a page


class RootFileSystems:
    """Creates and removes root file systems: with overlayfs if *root* supports it, else by copying.

    :param root: directory for a test mount, on the file system of the containers.
    :param user_attributes: mark removed directories with attributes that a user namespace can set.
    """

    def __init__(self, root: Path, *, user_attributes: bool) -> None:
        self._options = ["userxattr"] if user_attributes else []
        self.overlay = self._try_overlay(root)
        self.clones_mounts = _try_clone(root)
        """True if the kernel sets attributes on a mount and all mounts below it (Linux 5.12)."""

    def make(
        self, directory: Path, layers: Sequence[Path], user_namespace: int = -1, owner: tuple[int, int] = (0, 0)
    ) -> Path:
        """Return the root file system of the container in *directory*; *layers* are sorted lowest first.

        :param user_namespace: descriptor of a user namespace whose mapping applies to the owners of files, or -1.
        :param owner: user and group of the host that are root in it.
        """
        target = directory / "rootfs"
        target.mkdir(exist_ok=True)
        mapped = self.overlay and user_namespace >= 0
        if mapped:  # Overlayfs cannot be mapped, but its layers can.
            layers = _map_layers(directory / "lower", layers, user_namespace)
        options = self._overlay_options(directory, layers)
        if self.overlay and len(options) <= MAX_OPTIONS_BYTES:
            for name in ("upper", "work"):
                (directory / name).mkdir(exist_ok=True)
            shutil.copymode(layers[-1], directory / "upper")
            os.chown(directory / "upper", *owner)
            syscalls.mount("overlay", str(target), "overlay", 0, options)
        elif mapped:
            raise OSError("the image has too many layers for a user namespace")
        else:
            for layer in layers:
                merge(layer, target)
            if user_namespace >= 0:
                syscalls.clone_mount(str(target), str(target), 0, user_namespace)
            else:
                _bind_to_itself(target)
        if mapped:  # The overlay has its own references to the mounts.
            for layer in layers:
                syscalls.unmount(str(layer))
        return target

    def mount_layers(self, target: Path, layers: Sequence[Path], user_namespace: int = -1) -> None:
        """Mount the content of *layers*, sorted lowest first, at the empty directory *target*; never to be changed.

        :param user_namespace: descriptor of a user namespace whose mapping applies to the owners of files, or -1.
        """
        lower = [_escaped(layer) for layer in reversed(layers)]
        options = ",".join([f"lowerdir={':'.join(lower)}", *self._options])
        if self.overlay and user_namespace < 0 and len(lower) > 1 and len(options) <= MAX_OPTIONS_BYTES:
            syscalls.mount("overlay", str(target), "overlay", syscalls.MS_RDONLY, options)
        elif len(layers) == 1:
            syscalls.clone_mount(str(layers[0]), str(target), syscalls.MOUNT_ATTR_RDONLY, user_namespace)
        else:
            for layer in layers:
                merge(layer, target)
            syscalls.clone_mount(str(target), str(target), syscalls.MOUNT_ATTR_RDONLY, user_namespace)

    def restore(self, directory: Path, layers: Sequence[Path]) -> None:
        """Mount the root file system again after a reboot."""
        if os.path.ismount(directory / "rootfs"):
            return
        if not (directory / "upper").exists():
            _bind_to_itself(directory / "rootfs")
        else:
            syscalls.mount("overlay", str(directory / "rootfs"), "overlay", 0, self._overlay_options(directory, layers))

    def remove(self, directory: Path) -> None:
        """Unmount the root file system and all other mounts in *directory*, whose content is deleted afterwards."""
        for point in reversed(mount_points(directory)):
            syscalls.unmount(point)

    def usage(self, directory: Path) -> tuple[int, int]:
        """Return bytes and files that the container has written."""
        return tree_usage(directory / ("upper" if (directory / "upper").exists() else "rootfs"))

    def _overlay_options(self, directory: Path, layers: Sequence[Path]) -> str:
        lower = ":".join(map(_escaped, reversed(layers)))
        parts = [f"lowerdir={lower}", f"upperdir={directory / 'upper'}", f"workdir={directory / 'work'}"]
        return ",".join([*parts, *self._options])

    def _try_overlay(self, root: Path) -> bool:
        trial = root / "overlay-trial"
        shutil.rmtree(trial, ignore_errors=True)
        for name in ("layer", "upper", "work", "rootfs"):
            (trial / name).mkdir(parents=True)
        try:
            syscalls.mount(
                "overlay", str(trial / "rootfs"), "overlay", 0, self._overlay_options(trial, [trial / "layer"])
            )
        except OSError as error:
            _log.info("Overlayfs is unavailable, copying images for each container", extra={"err": str(error)})
            return False
        else:
            syscalls.unmount(str(trial / "rootfs"))
            return True
        finally:
            shutil.rmtree(trial, ignore_errors=True)


def _map_layers(directory: Path, layers: Sequence[Path], user_namespace: int) -> list[Path]:
    """Mount each of *layers* with mapped owners below *directory*."""
    mapped = [directory / str(number) for number in range(len(layers))]
    for layer, target in zip(layers, mapped, strict=True):
        target.mkdir(parents=True)
        syscalls.clone_mount(str(layer), str(target), 0, user_namespace)
    return mapped


def _try_clone(root: Path) -> bool:
    trial = root / "mount-trial"
    trial.mkdir(exist_ok=True)
    try:
        syscalls.clone_mount(str(trial), str(trial), syscalls.MOUNT_ATTR_RDONLY)
    except OSError as error:
        _log.info("Recursive read-only mounts and image volumes are unavailable", extra={"err": str(error)})
        return False
    else:
        syscalls.unmount(str(trial))
        return True
    finally:
        trial.rmdir()


def mount_points(directory: Path) -> list[str]:
    """Return the mount points below *directory*, in the order in which they were mounted."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        point = line.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        if Path(point).is_relative_to(directory):
            found.append(point)
    return found


def _escaped(layer: Path) -> str:
    return str(layer).replace(":", "\\:")


def _bind_to_itself(path: Path) -> None:
    """Make a directory a mount point, which the root must be; mounts in it do not propagate."""
    syscalls.mount(str(path), str(path), flags=syscalls.MS_BIND)


def merge(layer: Path, target: Path) -> None:
    """Apply *layer* to *target*: process its removals and copy all other files."""
    for directory, directories, files in os.walk(layer):
        path = target / Path(directory).relative_to(layer)
        if is_opaque(Path(directory)) and Path(directory) != layer:
            for entry in list(path.iterdir()):
                _remove(entry)
        for name in [*directories, *files]:
            source, goal = Path(directory, name), path / name
            about = source.lstat()
            if is_whiteout(about) or (
                os.path.lexists(goal) and stat.S_IFMT(goal.lstat().st_mode) != stat.S_IFMT(about.st_mode)
            ):
                _remove(goal)
            if stat.S_ISDIR(about.st_mode):
                goal.mkdir(exist_ok=True)
                shutil.copystat(source, goal)
    removed = [path for path in layer.rglob("*") if is_whiteout(path.lstat())]
    command = ["cp", "--archive", "--reflink=auto", "--no-target-directory", str(layer), str(target)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise OSError(f"copy a layer: {done.stderr.strip()[:500]}")
    for path in removed:
        _remove(target / path.relative_to(layer))


def is_whiteout(about: os.stat_result) -> bool:
    """Return whether the file marks a removal in a layer."""
    return stat.S_ISCHR(about.st_mode) and about.st_rdev == 0


def is_opaque(directory: Path) -> bool:
    """Return whether a layer's directory hides the content of lower layers."""
    for prefix in ("trusted", "user"):
        try:
            if os.getxattr(directory, f"{prefix}.overlay.opaque") == b"y":
                return True
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM):
                raise
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
