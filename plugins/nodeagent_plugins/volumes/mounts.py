"""Mount system calls and the kernel's mount table."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MOUNTINFO = Path("/proc/self/mountinfo")
_MOUNT_POINT_FIELD = 4
_BIND = 0x1000
_NO_FOLLOW = 0x8
_OCTAL = re.compile(r"\\([0-7]{3})")
_FINISH_SECONDS = 10.0


class Mounter(Protocol):
    """Mounts file systems; every call may block and raises :class:`OSError` on failure."""

    def mount(self, kind: str, target: Path, options: str) -> None: ...

    def bind(self, source: Path, target: Path) -> None:
        """Bind-mount *source* at *target*."""
        ...

    def unmount(self, target: Path) -> None:
        """Unmount the topmost mount at *target*; does nothing if there is none."""
        ...

    def mounted(self, target: Path) -> bool: ...

    def below(self, directory: Path) -> list[Path]:
        """Return the mount points at and below *directory*, deepest first."""
        ...


class LinuxMounter:
    """Mounter that uses the system calls of Linux."""

    def mount(self, kind: str, target: Path, options: str) -> None:
        # No flags: a volume in memory has the same restrictions as one on disk.
        _check(_libc().mount(kind.encode(), bytes(target), kind.encode(), 0, options.encode()), target)

    def bind(self, source: Path, target: Path) -> None:
        _check(_libc().mount(bytes(source), bytes(target), None, _BIND, None), target)

    def unmount(self, target: Path) -> None:
        result = _libc().umount2(bytes(target), _NO_FOLLOW)
        if result != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
            _check(result, target)

    def mounted(self, target: Path) -> bool:
        return target in self.below(target)

    def below(self, directory: Path) -> list[Path]:
        return mount_points(_MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape"), directory)


def mount_points(mountinfo: str, directory: Path) -> list[Path]:
    """Return the mount points at and below *directory*, deepest first, and the latest first at the same depth."""
    # The kernel lists real paths; the directory may contain a symbolic link.
    prefix = os.path.realpath(directory)
    found = []
    for line in mountinfo.splitlines():
        fields = line.split(" ", _MOUNT_POINT_FIELD + 1)
        if len(fields) <= _MOUNT_POINT_FIELD:
            continue
        path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[_MOUNT_POINT_FIELD])
        if path == prefix or path.startswith(f"{prefix}/"):
            found.append(directory / Path(path).relative_to(prefix))
    found.reverse()
    return sorted(found, key=lambda path: -len(path.parts))


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking *work* in a thread; a cancelled caller waits for it within a limit.

    Otherwise the work could still change a volume while another task releases it.
    """
    future = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future}, timeout=_FINISH_SECONDS)
        if future.done() and not future.cancelled():
            future.exception()  # Retrieved, otherwise asyncio logs it.
        raise


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, target: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))
