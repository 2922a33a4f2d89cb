"""Loop devices that hold block volumes open, so that the kernel does not reuse their numbers. Blocking."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

_DEVICES = Path("/dev")
_SYSFS = Path("/sys/block")
_SET_DESCRIPTOR, _CLEAR_DESCRIPTOR, _GET_FREE = 0x4C00, 0x4C01, 0x4C82
_DELETED = " (deleted)"
_ATTEMPTS = 16
_MAJOR = 7


def find_loops(backing: Path, *, sysfs: Path = _SYSFS) -> list[str]:
    """Return the names of the loop devices of *backing*, also if it has been deleted; such as ``loop3``.

    :param backing: the path of the file or device.
    """
    found = []
    for file in sorted(sysfs.glob("loop*/loop/backing_file")):
        with contextlib.suppress(OSError):
            if file.read_text().rstrip("\n").removesuffix(_DELETED) == str(backing):
                found.append(file.parent.parent.name)
    return found


def hold(backing: Path, *, read_only: bool = False) -> str:
    """Attach a loop device to *backing*, unless one is attached; return its name.

    :param backing: the path of the file or device.
    :param read_only: open the file for reading only.
    :raises OSError: no loop device is available.
    """
    real = Path(os.path.realpath(backing))
    if known := find_loops(real):
        return known[0]
    file = _open(real, read_only=read_only)
    try:
        control = os.open(_DEVICES / "loop-control", os.O_RDWR | os.O_CLOEXEC)
        try:
            for _ in range(_ATTEMPTS):
                number = fcntl.ioctl(control, _GET_FREE)
                if _attach(number, file):
                    return f"loop{number}"
        finally:
            os.close(control)
    finally:
        os.close(file)
    raise OSError(errno.EBUSY, "no free loop device")


def release(backing: Path) -> None:
    """Detach the loop devices of *backing*.

    :raises OSError: a device cannot be detached.
    """
    for name in find_loops(Path(os.path.realpath(backing))):
        try:
            device = os.open(_DEVICES / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.ioctl(device, _CLEAR_DESCRIPTOR)
        except OSError as error:
            if error.errno != errno.ENXIO:  # Detached since it was listed.
                raise
        finally:
            os.close(device)


def _open(path: Path, *, read_only: bool) -> int:
    if not read_only:
        with contextlib.suppress(PermissionError, OSError):
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _attach(number: int, file: int) -> bool:
    """Attach *file* to a loop device; return false if another process was faster."""
    path = _DEVICES / f"loop{number}"
    if not path.exists():  # Without devtmpfs, for example in a container.
        os.mknod(path, 0o600 | 0o060000, os.makedev(_MAJOR, number))
    device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _SET_DESCRIPTOR, file)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    finally:
        os.close(device)
    return True
